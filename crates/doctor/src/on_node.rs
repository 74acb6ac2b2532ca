//! What is wrong with a node, as it says itself.

use crate::finding::{Count, DoctorReport, Finding, NodeReport};
use crate::fix::fix;
use divvy_node::look::{ObservedDriver, ObservedNode, ObservedProvider};

/// What is wrong with the node that this runs on.
pub fn diagnose_node(node: &ObservedNode) -> DoctorReport {
    let found = [
        without_driver(node),
        without_cards(node),
        without_runtime(node),
        refusing_runtime(node),
        without_specification(node),
        incomplete_provider(node),
    ];
    let cards = node.driver.as_ref().map_or(0, |driver| driver.cards.len());
    let count = |resource, count| Count { resource, count };
    let looked_at = vec![
        count("cards", cards),
        count("configs", node.configs.len()),
        count("providers", node.providers.len()),
    ];
    let mut report = DoctorReport::of(found.into_iter().flatten().collect(), looked_at, Vec::new());
    report.node = Some(facts(node));
    report
}

fn facts(node: &ObservedNode) -> NodeReport {
    let ObservedDriver { version, cards } = match &node.driver {
        Ok(driver) => driver.clone(),
        Err(_) => ObservedDriver { version: String::new(), cards: Vec::new() },
    };
    let modes = node.configs.iter().map(|(path, mode)| format!("{}: {mode}", path.display()));
    let folders = node.folders.iter().flatten().map(|folder| folder.display().to_string());
    NodeReport {
        driver: version,
        cards,
        runtimes: modes.collect(),
        specifications: folders.collect(),
    }
}

fn without_driver(node: &ObservedNode) -> Option<Finding> {
    let why = node.driver.as_ref().err()?;
    Some(
        Finding::problem("no-driver", "the driver cannot be asked: no card can be given out here")
            .seen(format!("libnvidia-ml.so.1: {why}"))
            .fix("nvidia-smi   # says the same if the driver is not loaded; on the node, not in a container"),
    )
}

fn without_cards(node: &ObservedNode) -> Option<Finding> {
    let driver = node.driver.as_ref().ok().filter(|driver| driver.cards.is_empty())?;
    Some(
        Finding::problem("no-cards", "the driver has no card")
            .seen(format!("driver {}: 0 cards", driver.version))
            .fix("lspci -d 10de: -nn   # which cards the machine has; then look at dmesg"),
    )
}

fn without_runtime(node: &ObservedNode) -> Option<Finding> {
    // One that is there and cannot be read is found otherwise.
    if !node.configs.is_empty() || node.folders.is_err() {
        return None;
    }
    Some(
        Finding::warning(
            "no-runtime",
            "NVIDIA's container runtime is not where it usually is: nobody may give containers their cards",
        )
        .seen("no /etc/nvidia-container-runtime/config.toml, and none of the GPU operator's")
        .fix("# install NVIDIA's container toolkit, or say with --runtime-config where it is"),
    )
}

fn refusing_runtime(node: &ObservedNode) -> Option<Finding> {
    let why = node.folders.as_ref().err()?;
    Some(
        Finding::problem(
            "runtime-refuses",
            "NVIDIA's container runtime does not grant cards as bindings name them",
        )
        .seen(why.clone())
        .seen_at(node.configs.iter().map(|(path, mode)| format!("{}: mode {mode}", path.display())))
        .fix("# mend that file, or where the GPU operator made it, its ClusterPolicy: docs/isolation.md"),
    )
}

fn without_specification(node: &ObservedNode) -> Option<Finding> {
    let why = node.kind.as_ref().err().filter(|_| node.folders.is_ok())?;
    Some(
        Finding::warning(
            "no-specification",
            "no CDI specification has the cards by UUID: isolation providers cannot be granted here",
        )
        .seen(why.clone())
        .fix("nvidia-ctk cdi generate --device-name-strategy=uuid --output=/var/run/cdi/nvidia.yaml"),
    )
}

fn incomplete_provider(node: &ObservedNode) -> Option<Finding> {
    let seen = |provider: &ObservedProvider| {
        let specification = provider.specification.display().to_string();
        let missing = provider.missing.iter();
        let said = missing.map(move |path| format!("{specification}: no {}", path.display()));
        said.collect::<Vec<_>>()
    };
    let seen: Vec<String> = node.providers.iter().flat_map(seen).collect();
    let first = node.providers.iter().find(|provider| !provider.missing.is_empty())?;
    Some(
        Finding::problem(
            "provider-incomplete",
            "files of an isolation provider are gone: containers of its shares do not start",
        )
        .seen_at(seen)
        .fix(fix!(
            "kubectl get pods -A -o wide -l app.kubernetes.io/name=divvy-provider   # the one on this node puts \
             back what {file} names when it starts again",
            file = first.specification.display().to_string()
        )),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_node::look::ObservedCard;

    fn healthy() -> ObservedNode {
        let card = ObservedCard { uuid: "GPU-1".into(), model: "A100".into(), bytes: 1 << 30 };
        ObservedNode {
            driver: Ok(ObservedDriver { version: "580".into(), cards: vec![card] }),
            configs: vec![("/etc/config.toml".into(), "auto".into())],
            folders: Ok(vec!["/etc/cdi".into()]),
            kind: Ok("nvidia.com/gpu".into()),
            providers: vec![ObservedProvider {
                specification: "/etc/cdi/p".into(),
                missing: vec![],
            }],
        }
    }

    type Break = fn(&mut ObservedNode);

    #[test]
    fn what_is_wrong_with_a_node_is_found_alone() {
        assert_eq!(diagnose_node(&healthy()).findings, []);
        let broken: [(&str, Break); 6] = [
            ("no-driver", |node| node.driver = Err("not found".into())),
            ("no-cards", |node| {
                node.driver = Ok(ObservedDriver { version: "580".into(), cards: vec![] });
            }),
            ("no-runtime", |node| node.configs.clear()),
            ("runtime-refuses", |node| {
                node.folders = Err("mode legacy".into());
                node.kind = Err("mode legacy".into());
            }),
            ("no-specification", |node| node.kind = Err("none".into())),
            ("provider-incomplete", |node| node.providers[0].missing.push("/gone".into())),
        ];
        for (name, break_it) in broken {
            let mut node = healthy();
            break_it(&mut node);
            let findings = diagnose_node(&node).findings;
            assert!(matches!(&*findings, [one] if one.name == name), "{name}: {findings:?}");
            assert!(!findings[0].evidence.is_empty() && !findings[0].fix.is_empty(), "{name}");
        }
    }
}
