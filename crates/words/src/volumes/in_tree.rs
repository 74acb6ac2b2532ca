//! Disks of plugins that were once part of Kubernetes and that CSI drivers have taken over: what
//! the driver calls them, and by which node labels it knows from where they can be reached.

use crate::manifest::{DiskSource, StorageSpec, Texts};
use divvy_engine::{Attached, Migrated, Requirement, Term, Test};

/// An in-tree plugin whose volumes a CSI driver attaches.
#[derive(Debug)]
pub(super) struct Plugin {
    name: &'static str,
    pub(super) driver: &'static str,
    /// The node label by which the driver knows zones, where it replaces the usual one.
    zone: Option<&'static str>,
}

pub(super) const GCE: Plugin = Plugin {
    name: "kubernetes.io/gce-pd",
    driver: "pd.csi.storage.gke.io",
    zone: Some("topology.gke.io/zone"),
};
pub(super) const EBS: Plugin = Plugin {
    name: "kubernetes.io/aws-ebs",
    driver: "ebs.csi.aws.com",
    zone: Some("topology.ebs.csi.aws.com/zone"),
};
pub(super) const AZURE: Plugin =
    Plugin { name: "kubernetes.io/azure-disk", driver: "disk.csi.azure.com", zone: None };
pub(super) const CINDER: Plugin = Plugin {
    name: "kubernetes.io/cinder",
    driver: "cinder.csi.openstack.org",
    zone: Some("topology.cinder.csi.openstack.org/zone"),
};
pub(super) const PORTWORX: Plugin =
    Plugin { name: "kubernetes.io/portworx-volume", driver: "pxd.portworx.com", zone: None };

/// In-tree plugins whose volumes do not count against a limit.
const UNCOUNTED: [&str; 2] = ["kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"];

/// The zone and region labels of nodes, new and old.
const ZONE: [&str; 2] = ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"];
const REGION: [&str; 2] =
    ["topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"];

/// The in-tree plugin of this name: `Some(None)` if its volumes do not count.
pub(super) fn by_name(provisioner: &str) -> Option<Option<&'static Plugin>> {
    if UNCOUNTED.contains(&provisioner) {
        return Some(None);
    }
    let plugins = [&GCE, &EBS, &AZURE, &CINDER, &PORTWORX];
    plugins.into_iter().find(|plugin| plugin.name == provisioner).map(Some)
}

/// What the driver makes of a volume of an in-tree plugin. A volume that it cannot make anything
/// of can be reached from nowhere.
pub(super) fn of_volume(
    spec: &StorageSpec,
    labels: &Texts,
    affinity: Option<&[Term]>,
) -> Option<(Option<Attached>, Migrated)> {
    let sources = [
        (&GCE, &spec.gce_persistent_disk),
        (&EBS, &spec.aws_elastic_block_store),
        (&AZURE, &spec.azure_disk),
        (&CINDER, &spec.cinder),
        (&PORTWORX, &spec.portworx_volume),
    ];
    let mut sources = sources.into_iter().filter_map(|(p, source)| Some((p, source.as_ref()?)));
    let (plugin, source) = sources.next()?;
    let handle = match plugin.name {
        name if name == GCE.name => gce_handle(&source.pd_name, zones_of(labels)),
        name if name == EBS.name => ebs_handle(&source.volume_id),
        _ => plain_handle(plugin, source),
    };
    let affinity = match (&handle, plugin.zone) {
        (None, _) => Some(Box::default()),
        (Some(_), Some(zone)) => translated(affinity, labels, zone),
        (Some(_), None) => affinity.map(Into::into),
    };
    let attached = handle.filter(|handle| !handle.is_empty()).map(|handle| Attached {
        driver: plugin.driver.into(),
        handle,
        in_tree: true,
    });
    Some((attached, Migrated { plugin: plugin.name.into(), affinity }))
}

/// Azure, Cinder and Portworx keep the name.
pub(super) fn plain_handle(plugin: &Plugin, disk: &DiskSource) -> Option<Box<str>> {
    if plugin.name != AZURE.name {
        return Some(disk.volume_id.clone());
    }
    let is_managed = disk.kind.is_empty() || disk.kind.eq_ignore_ascii_case("managed");
    is_managed.then(|| disk.disk_uri.clone())
}

/// `vol-1`, `aws:///vol-1` and `aws://zone/vol-1` are the same.
pub(super) fn ebs_handle(id: &str) -> Option<Box<str>> {
    let Some(rest) = id.strip_prefix("aws://") else { return Some(id.into()) };
    let path = rest.split(['?', '#']).next()?;
    let path = path.find('/').map_or("", |at| &path[at..]).trim_matches('/');
    (path.starts_with("vol-") && !path.contains('/')).then(|| path.into())
}

/// By zone, by region if it is in several zones, or by neither.
pub(super) fn gce_handle(name: &str, zones: Option<&str>) -> Option<Box<str>> {
    let zones: Vec<&str> = zones.unwrap_or_default().split("__").collect();
    let place = match zones.as_slice() {
        [] | [""] => "zones/UNSPECIFIED".to_owned(),
        [zone] => format!("zones/{zone}"),
        many => {
            let region = |zone: &&str| {
                let (region, last) = zone.rsplit_once('-')?;
                (region.split('-').count() == 2 && !last.contains('-')).then(|| region.to_owned())
            };
            let mut regions = many.iter().map(region);
            let first = regions.next()??;
            regions.all(|region| region.as_ref() == Some(&first)).then_some(())?;
            format!("regions/{first}")
        }
    };
    Some(format!("projects/UNSPECIFIED/{place}/disks/{name}").into())
}

/// The zone label of a volume; the old one counts first.
fn zones_of(labels: &Texts) -> Option<&str> {
    let [new, old] = ZONE;
    labels.get(old).filter(|zones| !zones.is_empty()).or_else(|| labels.get(new))
}

/// The affinity in the driver's label: that of the zone is replaced, or taken from the volume's
/// own labels if the affinity has none.
fn translated(affinity: Option<&[Term]>, labels: &Texts, zone: &str) -> Option<Box<[Term]>> {
    let mut terms: Option<Vec<Term>> = affinity.map(<[Term]>::to_vec);
    let asks = |key: &str| {
        let requirements = affinity.unwrap_or_default().iter().flat_map(|term| &term.labels);
        requirements.filter(|r| &*r.key == key).collect::<Vec<_>>()
    };
    let is_asked = |key: &&str| !asks(key).is_empty();
    let is_label = |key: &&str| labels.get(key).is_some();
    let known = ZONE.iter().position(is_asked).or_else(|| ZONE.iter().position(is_label));
    let version = known.unwrap_or(0);
    let has_values = |key: &str| {
        asks(key).iter().any(|r| match &r.test {
            Test::In(values) | Test::NotIn(values) => !values.is_empty(),
            Test::Gt(_) | Test::Lt(_) => true,
            Test::Exists | Test::DoesNotExist => false,
        })
    };
    if has_values(ZONE[version]) {
        rename(&mut terms, ZONE[version], zone);
    } else if let Some(value) = labels.get(ZONE[version]) {
        let zones = value.split("__").map(str::trim).filter(|zone| !zone.is_empty());
        let zones: Vec<Box<str>> = zones.map(Into::into).collect();
        if !zones.is_empty() {
            let terms = terms.get_or_insert_default();
            if terms.is_empty() {
                terms.push(Term::default());
            }
            for term in terms {
                let test = Test::In(zones.clone().into());
                term.labels.push(Requirement { key: zone.into(), test });
            }
        }
    }
    // Nodes have the new region label, whatever the volume says.
    if version == 1 && has_values(REGION[1]) {
        rename(&mut terms, REGION[1], REGION[0]);
    }
    terms.map(Into::into)
}

fn rename(terms: &mut Option<Vec<Term>>, from: &str, to: &str) {
    for requirement in terms.iter_mut().flatten().flat_map(|term| &mut term.labels) {
        if &*requirement.key == from {
            requirement.key = to.into();
        }
    }
}
