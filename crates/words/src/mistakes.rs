//! Names that nobody reads, and what was meant: annotations, labels and resources of pods. The API
//! accepts them, and the pod runs without what it asked for.
//!
//! Who finds one says where it stands: lint in a file, admission in a pod that is about to be made.

use crate::keys;
use crate::problem::short;
use std::fmt;
use strsim::osa_distance;

/// Where a name belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodField {
    /// `metadata.annotations` of a pod.
    Annotations,
    /// `metadata.labels` of a pod.
    Labels,
    /// `resources.limits` of a container.
    Resources,
}

impl fmt::Display for PodField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Annotations => "an annotation",
            Self::Labels => "a label",
            Self::Resources => "a resource",
        })
    }
}

/// What is wrong with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Its stable name.
    pub name: &'static str,
    /// What is wrong, without where.
    pub what: String,
    /// What to write instead.
    pub next: String,
    /// Where it belongs and what it is called there, if that is certain.
    pub meant: Option<(PodField, &'static str)>,
}

/// Stable name: the name is nearly one that is read.
pub const MISSPELT: &str = "MisspeltName";
/// Stable name: what is read as an annotation is a label, or the other way round, or a resource.
pub const MISPLACED: &str = "MisplacedName";
/// Stable name: the recipe's annotation for sharing.
pub const SHARING_ANNOTATION: &str = "SharingAnnotation";
/// Stable name: a resource by which pods ask another project for a part of a GPU.
pub const FOREIGN_RESOURCE: &str = "ForeignResource";

/// What becomes of a share whose pod names no scheduler.
pub const DEFAULT_SCHEDULER_PLACES: &str =
    "the default scheduler places the pod and does not read it: it runs without a GPU";
/// What becomes of Koordinator's resources in a pod that names no scheduler.
pub const DEFAULT_SCHEDULER_GIVES_NONE: &str =
    "the default scheduler gives no card for it: the pod waits, or runs without a GPU";
/// Said where pods name queues.
pub const QUOTAS: &str =
    "pods name queues, which divvy shows and counts; quotas of queues are not enforced yet";

/// What becomes of a pod whose scheduler is called nearly as one of ours.
pub fn no_scheduler(name: &str) -> String {
    format!("{:?} is no scheduler of divvy's, so nobody places the pod", shown(name))
}

/// What becomes of a share, or of Koordinator's resources, in a pod of a scheduler that reads neither.
pub fn others_scheduler(who: &str) -> String {
    format!("the scheduler {} places the pod and does not read it: it gets no share", shown(who))
}

/// What becomes of what is read of pods alone, in `annotations` or `labels` of an object of this kind
/// that makes them.
pub fn not_on_template(kind: &str, field: &str) -> String {
    let so = match field {
        "annotations" => "its pods ask for no GPU by it",
        _ => "its pods do not have it",
    };
    format!("it stands on the {kind} itself, and {so}")
}

/// The names that are read, and where.
const KNOWN: [(PodField, &str); 18] = [
    (PodField::Annotations, keys::GPU_FRACTION),
    (PodField::Annotations, keys::GPU_MEMORY),
    (PodField::Annotations, keys::FRACTION_DEVICES),
    (PodField::Annotations, keys::FRACTION_CONTAINER),
    (PodField::Annotations, keys::MPS),
    (PodField::Annotations, keys::STRATEGY),
    (PodField::Labels, keys::QUEUE_LABELS[0]),
    (PodField::Labels, keys::QUEUE_LABELS[1]),
    (PodField::Labels, keys::ISOLATION_LEVEL),
    (PodField::Labels, keys::ISOLATION_PROVIDER),
    (PodField::Resources, keys::GPU),
    (PodField::Resources, SHARED_GPU),
    (PodField::Resources, keys::KOORDINATOR_GPU),
    (PodField::Resources, keys::KOORDINATOR_SHARED),
    (PodField::Resources, keys::KOORDINATOR_CORE),
    (PodField::Resources, keys::KOORDINATOR_MEMORY),
    (PodField::Resources, keys::KOORDINATOR_RATIO),
    (PodField::Annotations, keys::POD_GROUP),
];

/// What replicas are called that have a name of their own.
const SHARED_GPU: &str = "nvidia.com/gpu.shared";

/// Short forms that are further from what they mean than a slip of the keyboard.
const SHORT_FORMS: [(&str, &str); 7] = [
    ("gpu-mem", keys::GPU_MEMORY),
    ("gpu-fraction-devices", keys::FRACTION_DEVICES),
    ("gpu-fraction-count", keys::FRACTION_DEVICES),
    ("gpu-fraction-num", keys::FRACTION_DEVICES),
    ("gpu-fraction-container", keys::FRACTION_CONTAINER),
    ("gpu-isolation-level", keys::ISOLATION_LEVEL),
    ("gpu-share-isolation-provider", keys::ISOLATION_PROVIDER),
];

/// What Koordinator, and once Kubernetes itself, called resources before.
const OLD_NAMES: [(&str, &str); 4] = [
    ("alpha.kubernetes.io/nvidia-gpu", keys::GPU),
    ("kubernetes.io/gpu-core", keys::KOORDINATOR_CORE),
    ("kubernetes.io/gpu-memory", keys::KOORDINATOR_MEMORY),
    ("kubernetes.io/gpu-memory-ratio", keys::KOORDINATOR_RATIO),
];

/// Domains before a name that somebody takes for ours.
const DOMAINS: [&str; 14] = [
    "nvidia.com",
    "gpu.nvidia.com",
    "nvidia",
    "kai.scheduler",
    "kai-scheduler",
    "kai",
    "run.ai",
    "runai",
    "scheduling.run.ai",
    "koordinator.sh",
    "scheduling.koordinator.sh",
    "divvy.dev",
    "divvy",
    "kubernetes.io",
];

/// Longer names are nobody's slip.
const LONGEST: usize = 64;

/// What is wrong with the key of an annotation or label, or the name of a resource; `None` for all
/// names that are read, and for those that have nothing to do with GPUs.
pub fn mistake(place: PodField, key: &str) -> Option<Mistake> {
    if !may_be_meant(key) {
        return None;
    }
    if key == keys::GPU_SHARING {
        return Some(Mistake {
            name: SHARING_ANNOTATION,
            what: "nothing reads it".to_owned(),
            next: format!(
                "ask for the part with the annotation {}: \"0.5\" or {}: \"2000\" (MiB), and leave it out",
                keys::GPU_FRACTION,
                keys::GPU_MEMORY
            ),
            meant: None,
        });
    }
    if let (PodField::Resources, Some(project)) = (place, foreign(key)) {
        return Some(Mistake {
            name: FOREIGN_RESOURCE,
            what: format!("{project} reads it, and no node of divvy has it"),
            next: format!(
                "ask with the annotation {}: \"0.5\" or {}: \"2000\" (MiB)",
                keys::GPU_FRACTION,
                keys::GPU_MEMORY
            ),
            meant: None,
        });
    }
    let (there, meant) = meant(place, key)?;
    if there != place {
        let what = match key == meant {
            true => format!("it is {there}, and here nothing reads it"),
            false => format!("nothing reads it; {meant} is meant, which is {there}"),
        };
        let next = match there {
            PodField::Annotations => format!("write metadata.annotations[\"{meant}\"] of the pod"),
            PodField::Labels => format!("write metadata.labels[\"{meant}\"] of the pod"),
            PodField::Resources => format!("write {meant} in resources.limits of a container"),
        };
        return Some(Mistake { name: MISPLACED, what, next, meant: Some((there, meant)) });
    }
    (key != meant).then(|| Mistake {
        name: MISSPELT,
        what: "nothing reads it".to_owned(),
        next: format!("write {meant}"),
        meant: Some((place, meant)),
    })
}

/// The project whose pods ask for GPUs by this resource.
pub fn foreign(resource: &str) -> Option<&'static str> {
    match resource {
        "nvidia.com/gpumem"
        | "nvidia.com/gpumem-percentage"
        | "nvidia.com/gpucores"
        | "nvidia.com/priority" => Some("HAMi"),
        "volcano.sh/vgpu-number"
        | "volcano.sh/vgpu-memory"
        | "volcano.sh/vgpu-memory-percentage"
        | "volcano.sh/vgpu-cores" => Some("Volcano"),
        "aliyun.com/gpu-mem" | "aliyun.com/gpu-count" => Some("Aliyun's gpushare"),
        _ => None,
    }
}

/// Schedulers of others whose names are near ours.
const OTHER_SCHEDULERS: [&str; 2] = ["hami-scheduler", "kube-scheduler"];

/// Whether a scheduler is known to read no shares: those of HAMi and Volcano.
pub fn is_others_scheduler(name: &str) -> bool {
    ["hami-scheduler", "volcano"].contains(&name)
}

/// Which scheduler name of ours was meant by one that is nobody's.
pub fn scheduler(name: &str) -> Option<&'static str> {
    if OTHER_SCHEDULERS.contains(&name) || keys::SCHEDULER_NAMES.contains(&name) {
        return None;
    }
    let near = |known: &&str| is_near(&name.to_ascii_lowercase().replace('_', "-"), known);
    keys::SCHEDULER_NAMES.into_iter().find(near)
}

/// Whether a text is a slip of the keyboard away from one that is known; short ones must be the same.
pub fn is_near(text: &str, known: &str) -> bool {
    let most = match known.len() {
        0..5 => 0,
        5..8 => 1,
        _ => 2,
    };
    text.len().abs_diff(known.len()) <= most && osa_distance(text, known) <= most
}

/// A quick look at any key: most have nothing to do with GPUs, and a pod may have many.
fn may_be_meant(key: &str) -> bool {
    let at = |bytes: &[u8], word: &str| {
        let begin = bytes.get(..word.len());
        begin.is_some_and(|begin| begin.eq_ignore_ascii_case(word.as_bytes()))
    };
    let bytes = key.as_bytes();
    let tells = |(start, byte): (usize, &u8)| {
        let rest = bytes.get(start..).unwrap_or_default();
        let words: &[&str] = match byte.to_ascii_lowercase() {
            b'g' => &["gpu"],
            b'm' => &["mps", "memory"],
            b'q' => &["queue"],
            b'f' => &["fraction"],
            b'i' => &["isolation"],
            b's' => &["scheduling-"],
            b'p' => &["pod-group"],
            b'n' => &["nvidia"],
            _ => return false,
        };
        words.iter().any(|word| at(rest, word))
    };
    key.len() <= LONGEST && bytes.iter().enumerate().any(tells)
}

/// Whether the name of a resource may be one for GPUs, as it is or misspelt.
pub(crate) fn may_be_gpu(resource: &str) -> bool {
    let mut windows = resource.as_bytes().windows(3);
    resource.len() <= LONGEST && windows.any(|window| window.eq_ignore_ascii_case(b"gpu"))
}

/// Keys of a map that may be mistakes. A tenant may write any number, so only the first are looked at.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    looked: usize,
    kept: Vec<Box<str>>,
}

impl Suspects {
    const MOST_LOOKED: usize = 256;
    const MOST_KEPT: usize = 16;

    /// Looks at one more key.
    pub(crate) fn see(&mut self, key: &str) {
        self.looked += 1;
        let has_room = self.looked <= Self::MOST_LOOKED && self.kept.len() < Self::MOST_KEPT;
        let is_known = || KNOWN.iter().any(|(_, known)| *known == key);
        // One that belongs elsewhere is a mistake here.
        if has_room && (may_be_meant(key) || is_known()) {
            self.kept.push(key.into());
        }
    }

    /// Whether a key is among them that is read somewhere.
    pub(crate) fn has(&self, known: &str) -> bool {
        self.kept.iter().any(|key| &**key == known)
    }

    /// Those that are mistakes in this place.
    pub(crate) fn mistakes(&self, place: PodField) -> impl Iterator<Item = (&str, Mistake)> {
        self.kept.iter().filter_map(move |key| Some((&**key, mistake(place, key)?)))
    }
}

/// Where the name belongs that was meant, and the name.
fn meant(place: PodField, key: &str) -> Option<(PodField, &'static str)> {
    let same = |(_, known): &&(PodField, &str)| *known == key;
    if let Some((there, known)) = KNOWN.iter().find(same) {
        return Some((*there, *known));
    }
    let plain = key.to_ascii_lowercase().replace('_', "-");
    let (domain, bare) = plain.rsplit_once('/').unwrap_or(("", &plain));
    let old = OLD_NAMES.iter().find(|(old, _)| place == PodField::Resources && *old == key);
    if let Some((_, name)) = old {
        return Some((place, name));
    }
    // What nodes say of their cards is copied to pods, and means no request there.
    let is_of_nodes = |prefix: &str| plain.starts_with(prefix) && plain != SHARED_GPU;
    if ["nvidia.com/gpu.", "nvidia.com/mig", "cpu"].into_iter().any(is_of_nodes)
        || bare.starts_with("cpu")
    {
        return None;
    }
    let is_ours = domain.is_empty() || DOMAINS.contains(&domain);
    let short_form = SHORT_FORMS.iter().find(|(form, _)| is_ours && *form == bare);
    let known = |name: &str| KNOWN.iter().find(|(_, known)| *known == name);
    if let Some((there, known)) = short_form.and_then(|(_, name)| known(name)) {
        return Some((*there, *known));
    }
    let same_domain =
        |(there, known): &&(PodField, &str)| *there == place && is_near(&plain, known);
    if let Some((there, known)) = KNOWN.iter().find(same_domain) {
        return Some((*there, *known));
    }
    // One in the same place is more likely than one that belongs elsewhere.
    let here = KNOWN.iter().filter(|(there, _)| *there == place);
    let elsewhere = KNOWN.iter().filter(|(there, _)| *there != place);
    let found = here.chain(elsewhere).find(|(there, known)| {
        let (known_domain, known_bare) = known.rsplit_once('/').unwrap_or(("", known));
        let is_elsewhere = *there != place;
        match known_domain {
            "" => is_ours && is_near(bare, known),
            // `gpu` and `queue` by themselves may be anybody's.
            _ if is_elsewhere => is_near(&plain, known) && known_bare.len() > 5,
            _ if is_near(&plain, known) => true,
            // Of resources only the usual one: the amounts of the others have other units.
            _ if *there == PodField::Resources => {
                *known == keys::GPU && is_ours && bare == known_bare
            }
            _ => {
                let is_telling = known_bare.len() >= 8 || !domain.is_empty();
                is_ours && is_telling && is_near(bare, known_bare)
            }
        }
    });
    found.map(|(there, known)| (*there, *known))
}

/// What a misspelt name looks like in a message.
pub fn shown(key: &str) -> String {
    short(key).to_string()
}

#[cfg(test)]
mod tests;
