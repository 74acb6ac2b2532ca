//! What to do about a pod that waits, from the reason that came closest.

use divvy_engine::{Diagnosis, ObjectKey, Reason, Refusals, Scheduler, Taint, VolumeReason};
use divvy_ledger::{
    Bytes, Device, Division, Each, Fraction, MilliCpu, Needs, Part, Portion, Request, Shortage,
};
use std::sync::Arc;

/// One concrete step, or `None` where the reason itself says what to change.
pub(super) fn next_step(
    scheduler: &Scheduler,
    key: &ObjectKey,
    request: Option<&Request>,
    diagnosis: &Diagnosis,
) -> Option<String> {
    let Refusals { reason, nodes } = diagnosis.refusals.first()?;
    let node = some_node(nodes);
    Some(match reason {
        Reason::Invalid(_) => return None,
        Reason::Gated(gates) => format!(
            "it is tried once {gates} is gone from spec.schedulingGates; the controller that set \
             it removes it"
        ),
        Reason::NoNodes => {
            "add the cluster to the input: kubectl get nodes,pods -A -o yaml".to_owned()
        }
        Reason::OtherNode(name) | Reason::NoSuchNode(name) => {
            format!("kubectl get node {name}, and correct spec.nodeName")
        }
        Reason::Cordoned => format!("kubectl uncordon {node}"),
        Reason::Drained => {
            "make room on other nodes before this one is drained; --add-nodes tries it with more"
                .to_owned()
        }
        Reason::Taint(taint) => tolerate(taint),
        Reason::Selector { key, .. } => {
            format!("compare spec.nodeSelector with kubectl get nodes -L {key}")
        }
        Reason::Affinity => {
            "compare spec.affinity.nodeAffinity with kubectl get nodes --show-labels".to_owned()
        }
        Reason::Port { .. } => "use another hostPort, or add a node where it is free".to_owned(),
        Reason::NoDomain { topology, .. } => {
            format!("kubectl label node {node} {topology}=<value>, or correct topologyKey")
        }
        Reason::PodAffinity { .. } => {
            "compare spec.affinity.podAffinity with kubectl get pods -A --show-labels -o wide"
                .to_owned()
        }
        Reason::PodAntiAffinity { topology, .. } => {
            format!("wait for such a pod to end, or add a node with another {topology}")
        }
        Reason::Spread { topology, .. } => {
            format!("make room in the {topology} with the fewest such pods, or raise maxSkew")
        }
        Reason::Volume(reason) => for_volumes(reason),
        Reason::OtherClass { .. } => {
            "it waits until a card of its class has room or one is free: end a pod there, or add a card"
                .to_owned()
        }
        Reason::Refused(_) => "it is tried again by itself; the API server said no".to_owned(),
        Reason::HeldBack(_) => "it is tried again by itself when that is over".to_owned(),
        Reason::Lacks { shortage, portion, .. } => {
            let wait = "wait for a pod to end, or add a node".to_owned();
            let now = ask_less(scheduler, key, *shortage, *portion);
            let or_wait = if diagnosis.nearest.is_some() { ", or wait" } else { "" };
            return match now {
                Some(less) => Some(format!("{less} to start now{or_wait}")),
                None => for_shortage(scheduler, request, diagnosis, *shortage, node).or(Some(wait)),
            };
        }
    })
}

/// What to do about volumes.
fn for_volumes(reason: &VolumeReason) -> String {
    match reason {
        VolumeReason::NoClaim(claim) => {
            format!("create it: kubectl get pvc -n {}", claim.namespace())
        }
        VolumeReason::NotBound(claim)
        | VolumeReason::NoVolume { claim, .. }
        | VolumeReason::Deleting(claim)
        | VolumeReason::NotOwned(claim)
        | VolumeReason::NotProvisioned(claim)
        | VolumeReason::Released { claim, .. }
        | VolumeReason::SelectedElsewhere { claim, .. } => {
            format!("kubectl describe pvc {} -n {}", claim.name(), claim.namespace())
        }
        VolumeReason::NotMade(_) => {
            "it is tried once kube-controller-manager has created the claim".to_owned()
        }
        VolumeReason::InUse { by, .. } | VolumeReason::DiskInUse { by, .. } => {
            format!("wait for {by} to end")
        }
        VolumeReason::Unreachable { volume, .. } => {
            format!("make room on a node that reaches it: kubectl describe pv {volume}")
        }
        VolumeReason::NoMatch { class, .. } => {
            format!("create a volume of class {class} that the nodes reach: kubectl get pv")
        }
        VolumeReason::Topology { class } => {
            format!("compare kubectl get storageclass {class} -o yaml with the labels of the nodes")
        }
        VolumeReason::NoSpace { .. } => {
            "ask for less storage, or add some: kubectl get csistoragecapacities -A".to_owned()
        }
        VolumeReason::NoDriver(driver) => format!("install {driver} on the nodes"),
        VolumeReason::Limit { .. } => "wait for a pod to end, or add a node".to_owned(),
    }
}

/// What only a change of the pod or the cluster can mend.
fn for_shortage(
    scheduler: &Scheduler,
    request: Option<&Request>,
    diagnosis: &Diagnosis,
    shortage: Shortage,
    node: &str,
) -> Option<String> {
    Some(match shortage {
        Shortage::NoGpu => {
            "add a node with GPUs, or check that its device plugin runs: a node with GPUs has \
             nvidia.com/gpu in status.allocatable"
                .to_owned()
        }
        Shortage::Replicas { device, by } => {
            let slice = by.map_or("replica", Division::singular);
            format!("ask {device}: 1 for a {slice}, or add a node whose cards are not divided")
        }
        Shortage::Renamed { asked, called, by } => {
            let slice = by.map_or("whole card", Division::singular);
            format!("ask {called}: 1 for a {slice}, or add a node that offers {asked}")
        }
        Shortage::OneEach { device, .. } => {
            format!("ask {device}: 1 in each container: a second one gives no more")
        }
        Shortage::Devices { device, total, asked, .. } if asked > total => {
            format!("ask at most {device}: {total} in one pod")
        }
        Shortage::CardMemoryUnknown => {
            format!("kubectl label node {node} nvidia.com/gpu.memory=<MiB of one card>")
        }
        Shortage::CardSize { .. } => more_cards(scheduler, request, diagnosis)?,
        Shortage::CardCount { cards, .. } => match request.is_some_and(Request::is_share) {
            true => format!("set gpu-fraction-num-devices: \"{cards}\" or less"),
            false => format!("ask at most nvidia.com/gpu: {cards} in one pod"),
        },
        Shortage::NotAllocatable { .. } => format!(
            "check the device plugin on {node}: kubectl get pods -A --field-selector \
             spec.nodeName={node}"
        ),
        Shortage::NoClass(_) => {
            "install the provider on nodes with room: divvy node install-provider".to_owned()
        }
        Shortage::NoDevice(device) => {
            format!("add a node that offers {device}, or check its device plugin")
        }
        Shortage::NoExtended(resource) => {
            let name = scheduler.ledger().resource_name(resource);
            format!("add a node that offers {name}, or check its device plugin")
        }
        _ => return None,
    })
}

/// The most of what lacks that could be asked instead, if the pod would then fit somewhere.
fn ask_less(
    scheduler: &Scheduler,
    key: &ObjectKey,
    shortage: Shortage,
    portion: Option<Portion>,
) -> Option<String> {
    let instead = |change: &dyn Fn(&mut Needs)| scheduler.fits_if(key, change);
    let (text, fits) = match (shortage, portion) {
        (Shortage::FreeShare { largest, .. }, Some(Portion::Memory(_))) if largest.mib() > 0 => {
            let less = Portion::Memory(Bytes::from_mib(largest.mib()));
            (format!("ask at most {} MiB", largest.mib()), instead(&|needs| resize(needs, less)))
        }
        (Shortage::FreeShare { largest, card, .. }, Some(Portion::Fraction(_))) => {
            let hundredths = u128::from(largest.0) * 100 / u128::from(card.0.max(1));
            let text = format!("0.{hundredths:02}");
            let less = Fraction::parse(&text).ok()?;
            let text = format!("ask at most {less}");
            (text, instead(&|needs| resize(needs, Portion::Fraction(less))))
        }
        (Shortage::FreeCards { free, .. }, _) if free > 0 => (
            format!("ask at most nvidia.com/gpu: {free}"),
            instead(&|needs| ask_cards(needs, free)),
        ),
        (Shortage::Devices { device: Device::Gpu, free, .. }, _) if free > 0 => (
            format!("ask at most nvidia.com/gpu: {free}"),
            instead(&|needs| ask_cards(needs, free)),
        ),
        (Shortage::Devices { device, free, .. }, _) if free > 0 => (
            format!("ask at most {device}: {free}"),
            instead(&|needs| {
                needs.request = needs.request.clone().and(free, Each::Device(device));
            }),
        ),
        (Shortage::FreeShares { fitting, .. }, Some(_)) if fitting > 0 => (
            format!("set gpu-fraction-num-devices: \"{fitting}\" or less"),
            instead(&|needs| ask_cards(needs, fitting)),
        ),
        (Shortage::Cpu { free, reserved, .. }, _) if free > reserved => {
            let most = MilliCpu(free.0 - reserved.0);
            (format!("ask at most {most} CPU"), instead(&|needs| needs.cpu = most))
        }
        (Shortage::Memory { free, reserved, .. }, _) if free.minus(reserved).mib() > 0 => {
            let most = free.minus(reserved).mib();
            let text = format!("ask at most {most}Mi memory");
            (text, instead(&|needs| needs.memory = Bytes::from_mib(most)))
        }
        (Shortage::Ephemeral { free, .. }, _) if free.mib() > 0 => (
            format!("ask at most {}Mi ephemeral-storage", free.mib()),
            instead(&|needs| needs.ephemeral = Bytes::from_mib(free.mib())),
        ),
        _ => return None,
    };
    fits.then_some(text)
}

/// Another size of the same share.
fn resize(needs: &mut Needs, portion: Portion) {
    if let Some(part) = needs.request.part() {
        let each = Each::Share(Part { portion, ..part });
        needs.request = needs.request.clone().and(needs.request.cards(), each);
    }
}

/// The same of another number of cards.
fn ask_cards(needs: &mut Needs, count: u32) {
    let each = needs.request.part().map_or(Each::Whole, Each::Share);
    needs.request = needs.request.clone().and(count, each);
}

fn tolerate(Taint { key, value, effect }: &Taint) -> String {
    let effect = effect.as_str();
    let value = match value.is_empty() {
        true => "operator: Exists".to_owned(),
        false => format!("operator: Equal, value: \"{value}\""),
    };
    format!(
        "if it may run there, add to spec.tolerations: {{key: \"{key}\", {value}, effect: {effect}}}"
    )
}

/// The share is larger than a card: the largest that fits one, or the same memory over more.
fn more_cards(
    scheduler: &Scheduler,
    request: Option<&Request>,
    diagnosis: &Diagnosis,
) -> Option<String> {
    let Portion::Memory(asked) = request?.portion()? else { return None };
    let cards = request?.cards();
    let too_small = |g: &&Refusals| {
        matches!(g.reason, Reason::Lacks { shortage: Shortage::CardSize { .. }, .. })
    };
    let refusals = diagnosis.refusals.iter().filter(too_small);
    let names = refusals.flat_map(|refusals| &refusals.nodes);
    let ledger = scheduler.ledger();
    let nodes = names.filter_map(|name| ledger.node(ledger.find(name)?));
    let total = u128::from(asked.mib()) * u128::from(cards);
    let mut largest = Bytes(0);
    let mut fewest: Option<u32> = None;
    for node in nodes {
        let usable = node.capacity().gpus.usable;
        let card = u128::from(node.card_size().mib()).max(1);
        largest = largest.max(node.card_size());
        if let Ok(needed) = u32::try_from(total.div_ceil(card))
            && needed <= usable
        {
            fewest = Some(fewest.map_or(needed, |n| n.min(needed)));
        }
    }
    let at_most = format!("ask at most {} MiB", largest.mib());
    Some(match fewest {
        Some(n) => format!(
            "{at_most}, or set gpu-fraction-num-devices: \"{n}\" with gpu-memory: \"{}\"",
            total.div_ceil(u128::from(n))
        ),
        None => at_most,
    })
}

/// A pod is bound to a node that nobody knows.
pub(super) fn find_node(key: &ObjectKey) -> String {
    format!(
        "kubectl get pod {} -n {} -o wide names its node; add that node to the input, or delete \
         the pod if the node is gone",
        key.name(),
        key.namespace()
    )
}

fn some_node(nodes: &[Arc<str>]) -> &str {
    nodes.first().map_or("NODE", |name| name)
}
