//! Whatever a text says: nothing panics, what is mended is mended, and the rest stays.

use super::bad::manifests;
use super::{fix, is_mended, lint};
use crate::{LintResult, NamedText};
use proptest::prelude::*;

/// Pieces of manifests, right and wrong.
const PIECES: [&str; 40] = [
    "apiVersion: v1\n",
    "kind: Pod\n",
    "kind: Pods\n",
    "apiVersion: extensions/v1beta1\n",
    "kind: Deployment\n",
    "metadata:\n",
    "  name: a\n",
    "  annotations:\n",
    "  annotation:\n",
    "    gpu_fraction: \"0.5\"\n",
    "    gpu-fraction: 0.5\n",
    "  labels:\n",
    "    gpu-memory: 5\n",
    "spec:\n",
    "  template:\n",
    "    metadata:\n",
    "    spec:\n",
    "  containers:\n",
    "      containers:\n",
    "  - name: c\n",
    "    resources:\n",
    "    resource: {limit: {nvidia.com/gpu: 0.5}}\n",
    "      limits:\n",
    "        nvidia.com/gpu: 0.5\n",
    "        nvidia.com/gpumem: 5\n",
    "      requests: {nvidia.com/gpu: 1}\n",
    "---\n",
    "# c\n",
    "{",
    "}",
    "[",
    "]",
    "&a ",
    "*a ",
    "<<: *a\n",
    "- ",
    "|\n",
    "\r\n",
    "\t",
    "kind: DeviceClass\n",
];

/// Manifests whose lines are those of a real one, with some changed.
fn texts() -> impl Strategy<Value = String> {
    let pieces = prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..30);
    prop_oneof![pieces.prop_map(|pieces| pieces.concat()), ".{0,200}"]
}

/// Real manifests with lines left out, repeated and moved.
fn changed() -> impl Strategy<Value = String> {
    let mut real: Vec<String> = manifests().into_iter().map(|(_, text)| text).collect();
    real.extend([
        include_str!("../../../../examples/partitions/recipe-time-slicing.yaml"),
        include_str!("../../../../examples/mixed-team.yaml"),
        "apiVersion: v1\nkind: Pod\nmetadata:\n  labels:\n    gpu-fraction: \"0.5\"\nspec:\n  containers:\n  - name: c\n    \
         resources:\n      limits:\n        nvidia.com/gpu: 0.5\n        nvidia.com/gpumem: 1\n      requests: \
         {nvidia.com/gpus: 1, nvidia.com/gpucores: 3}\n",
        "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata:\n  name: nvidia.com/x\nspec:\n  config:\n    opaque:\n      \
         driver: nvidia.com/gpu\n      parameters:\n        sharing:\n          replicas: 4\n",
        "{\"apiVersion\": \"apps/v1\", \"kind\": \"deployment\",\n\"metadata\": {\"annotations\": {\"gpu_fraction\": \
         \"0.5\"}},\n\"spec\": {\"template\": {\"spec\": {\"containers\": [\n{\"name\": \"c\", \"resource\": {}}\n]}}}}\n",
    ].map(str::to_owned));
    (prop::sample::select(real), prop::collection::vec((0usize..60, 0usize..4, 0usize..60), 0..6))
        .prop_map(|(text, changes)| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            for (at, what, other) in changes {
                let (at, other) = (at % lines.len().max(1), other % lines.len().max(1));
                match what {
                    _ if lines.is_empty() => {}
                    0 => drop(lines.remove(at)),
                    1 => lines.insert(other, lines[at].clone()),
                    2 => lines.swap(at, other),
                    _ => lines[at] = format!("  {}", lines[at]),
                }
            }
            lines.join("\n") + "\n"
        })
}

fn holds(text: &str) {
    let texts = [NamedText { name: "f", text }];
    let LintResult { findings, unread, .. } = lint(&texts);
    let (fixed, left) = fix(&texts);
    let after = &fixed[0].after;
    assert!(findings.iter().any(|f| f.fixable) || after == text);
    if unread.is_empty() {
        is_mended(text, after);
    }
    let again = [NamedText { name: "f", text: after }];
    assert_eq!(lint(&again).unread.len(), unread.len());
    let (twice, still) = fix(&again);
    assert_eq!(&twice[0].after, after, "of {text}");
    assert_eq!(still, left, "of {text}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_mended_once(text in texts()) {
        holds(&text);
    }

    #[test]
    fn a_changed_manifest_is_mended_once(text in changed()) {
        holds(&text);
    }
}
