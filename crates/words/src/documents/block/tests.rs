use super::super::yaml;
use super::*;
use crate::manifest::Object;
use proptest::prelude::*;
use serde_json::Value;

/// Holds the two readers against each other, with types and without; tells whether this one read.
fn compare(text: &str) -> bool {
    let value: Option<Value> = read(text);
    if let Some(value) = &value {
        let full: Option<Value> = yaml::full(text).ok();
        assert_eq!(full.as_ref(), Some(value), "{text}");
    }
    if let Some(object) = read::<Object>(text) {
        assert_eq!(yaml::full(text).ok(), Some(object), "{text}");
    }
    value.is_some()
}

const POD: &str = r#"---
apiVersion: v1
kind: Pod
metadata:
  name: p1   # a comment
  labels:
    app: web
    zone: "1"
    empty: ""
  annotations:
    gpu-fraction: "0.5"
    kubectl.kubernetes.io/last-applied-configuration: |
      {"apiVersion":"v1"}

      more
    stripped: |-
      text
    single: 'it is'
# between
spec:
  priority: 10
  replicas: 0
  half: 0.5
  nodeName: null
  none:
  tilde: ~
  yes: true
  list: []
  map: {}
  path: /usr/bin
  containers:
  - name: main
    image: nvcr.io/nvidia/pytorch:24.01-py3
    args:
    - run
    - "--fast"
    command: ["python", '-m', train, 5, null]  # flow
    resources:
      limits:
        cpu: 500m
        memory: 2Gi
        nvidia.com/gpu: 1

  -   name: other
      resources:
          limits:
              cpu: 2
  tolerations:
    - key: a
      operator: Exists
"#;

#[test]
fn what_kubectl_prints_is_read_and_as_the_full_parser_reads_it() {
    assert!(compare(POD));
    assert!(compare("a: 1\nb:\n- x\n- z\nc: d"));
    assert!(compare("- a: 1\n  b: 2\n- c: 3\n"));
}

#[test]
fn what_is_not_certain_is_left_to_the_full_parser() {
    for text in [
        "",
        "a",
        "a: &x b",
        "a: *x",
        "a: !!str b",
        "a: [b",
        "a: [b,]",
        "a: [,]",
        "a: [b]c",
        "a: [b: c]",
        "a: [[]]",
        "a: [*b]",
        "a: [\"b\"c]",
        "a: [b c]",
        "a: {b: c}",
        "a: >\n  b",
        "a: |2\n  b",
        "a: \"b\\n\"",
        "a: 'b''c'",
        "a: b\n  c",
        "a: b: c",
        "a: b:",
        "a: - b",
        "? a\n: b",
        "a:\tb",
        "a: b\n c: d",
        "a: b\na: c",
        "a:\n  b\n",
        "\"a\": b",
        "1: a",
        "<<: a",
        "a: yes",
        "a: 010",
        "a: 0x1",
        "a: 1e3",
        "a: 1_000",
        "a: .5",
        "a: -1",
        "a: NaN",
        "a: é",
        "a: b\r\n",
        "- - a",
        "-\n  a: b",
        "a: |\n\n  b",
        "a: |\n",
        "...",
        "a: b\n...",
        "%YAML 1.2\n---\na: b",
        "--- a",
        "a:\n  - b\n - c",
        "a:\n    b: c\n  d: e",
        "a: 'b",
        "null: a",
        "a: 12345678901234567890",
        "a: 10.0.0.1",
        "a: 2024-01-01",
        "a: \"b\" c",
        "a: @b",
        "a: ---",
        " a: b\nc: d",
        "a: 1.5.2",
    ] {
        assert!(!compare(text), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn both_readers_agree_on_changed_documents(
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), "[ \n:\\-{}\\[\\]\"'|>&*#%!,~a-c0-9.]{0,3}|\n *(- )?[a-c]: ?|null|0x1|1e3", 0usize..6),
            1..4,
        ),
    ) {
        let mut text: Vec<char> = POD.chars().collect();
        for (at, insert, remove) in changes {
            let at = at.index(text.len());
            text.splice(at..(at + remove).min(text.len()), insert.chars());
        }
        compare(&text.into_iter().collect::<String>());
    }

    #[test]
    fn both_readers_agree_on_any_lines(
        lines in prop::collection::vec((0usize..5, "(- ){0,2}([a-d]: ?)?(|a|\\||\\|-|\"b\"|'c'|[0-9.]{1,4}|[a-z0-9:# \\-]{1,6}|\\[\\]|\\[[a\"', ]{1,5}\\]|\\{\\}|~)( #.)? ?"), 0..8),
    ) {
        let text: String = lines.iter().map(|(indent, line)| format!("{}{line}\n", " ".repeat(*indent))).collect();
        compare(&text);
    }
}
