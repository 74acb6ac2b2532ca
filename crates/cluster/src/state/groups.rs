//! Pod groups: pods that belong to one that starts together wait with a reason.

use super::State;
use crate::objects::GroupItem;
use crate::watch::Change;
use divvy_engine::ClaimKey;
use divvy_words::manifest::Metadata;

impl State {
    /// `api_group` is the one that the group's kind belongs to.
    pub(crate) fn group_changed(
        &mut self,
        api_group: &str,
        watch: &'static str,
        change: Change<GroupItem>,
    ) {
        let key = |m: &Metadata| ClaimKey::new(&m.namespace, &m.name);
        match change {
            Change::Relisting => self.group_lists.entry(watch).or_default().begin(),
            Change::Seen(group) => {
                self.group_lists.entry(watch).or_default().see(key(&group.metadata));
                self.set_group(api_group, &group.metadata, group.spec.minimum());
            }
            Change::Gone(group) => {
                self.group_lists.entry(watch).or_default().forget(&key(&group.metadata));
                self.set_group(api_group, &group.metadata, 0);
            }
            Change::Listed => {
                for gone in self.group_lists.entry(watch).or_default().gone() {
                    self.group_lists.entry(watch).or_default().forget(&gone);
                    let (namespace, name) = (gone.namespace().into(), gone.name().into());
                    let metadata = Metadata { namespace, name, ..Metadata::default() };
                    self.set_group(api_group, &metadata, 0);
                }
                self.missing.remove(watch);
            }
        }
    }

    /// Enters a group; the pods that name it are looked at again if that changes something.
    fn set_group(&mut self, api_group: &str, metadata: &Metadata, minimum: u32) {
        if !self.groups.set(api_group, metadata, minimum) {
            return;
        }
        let members = self.waiting.iter().filter(|(key, waiting)| {
            key.namespace() == &*metadata.namespace && waiting.groups.contains(&metadata.name)
        });
        // Some at a time: whoever changes a group all the time keeps nobody else waiting.
        members.for_each(|(key, _)| self.held_back.add(key));
        self.held_back.may_go_on(&metadata.namespace);
    }
}
