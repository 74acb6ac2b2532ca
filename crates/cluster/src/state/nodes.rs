//! Nodes and namespaces as the watches tell them.

use super::State;
use crate::objects::{NamespaceItem, NodeItem};
use crate::watch::Change;
use divvy_engine::Event;
use divvy_words::{Content, Object};

impl State {
    pub(crate) fn node_changed(&mut self, change: Change<NodeItem>) {
        match change {
            Change::Relisting => self.nodes.begin(),
            Change::Seen(node) => self.node_seen(node),
            Change::Gone(node) => self.node_gone(&node.metadata.name),
            Change::Listed => {
                for name in self.nodes.gone() {
                    self.node_gone(&name);
                }
                self.missing.remove("nodes");
            }
        }
    }

    fn node_seen(&mut self, node: NodeItem) {
        self.nodes.see(node.metadata.name.clone());
        self.taints.seen(&node.metadata.name, divvy_words::is_unsettled(&node.spec));
        let object = Object {
            kind: "Node".into(),
            metadata: node.metadata,
            content: Content::Node(Box::new((node.spec, Some(node.status)))),
            ..Object::default()
        };
        let read = match node.unreadable {
            Some(why) => Err(why),
            None => divvy_words::node(&object).map_err(|e| e.to_string()),
        };
        match read {
            Ok((record, warnings)) => {
                for warning in warnings {
                    tracing::debug!("{warning}");
                }
                self.look_at(&object.metadata.name);
                if !self.kai_runs() {
                    self.adoption.stir();
                }
                self.node_uids.insert(object.metadata.name, object.metadata.uid);
                self.apply(Event::Node(Box::new(record)));
            }
            Err(why) => {
                let name = &object.metadata.name;
                tracing::warn!(node = %name, %why, "a node cannot be read: nothing is placed there");
                self.apply(Event::NodeGone(name.to_string()));
            }
        }
    }

    fn node_gone(&mut self, name: &str) {
        self.nodes.forget(name);
        self.node_uids.remove(name);
        self.taints.forget(name);
        self.stirred = true;
        self.apply(Event::NodeGone(name.to_owned()));
    }

    pub(crate) fn namespace_changed(&mut self, change: Change<NamespaceItem>) {
        self.told.moved();
        match change {
            Change::Relisting => self.namespaces.begin(),
            Change::Seen(namespace) => {
                let name = namespace.metadata.name.clone();
                self.namespaces.see(name.clone());
                let labels = namespace.metadata.labels.iter().collect();
                self.apply(Event::Namespace { name, labels });
            }
            Change::Gone(namespace) => self.namespace_gone(&namespace.metadata.name),
            Change::Listed => {
                for name in self.namespaces.gone() {
                    self.namespace_gone(&name);
                }
                self.missing.remove("namespaces");
            }
        }
    }

    fn namespace_gone(&mut self, name: &str) {
        self.namespaces.forget(name);
        self.apply(Event::NamespaceGone(name.into()));
    }
}
