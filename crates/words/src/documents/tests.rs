use super::*;
use std::sync::atomic::AtomicUsize;

fn all(text: &str) -> Result<Vec<Entry>, ReadError> {
    read("test.yaml", text, &|_| ())
}

/// `Kind/name` of each object, `Kind/name: error` of a malformed one.
fn names(text: &str) -> Vec<String> {
    let name = |entry: Entry| match entry {
        Entry::Object(object) => format!("{}/{}", object.kind, object.metadata.name),
        Entry::Malformed { kind, name, error, .. } => format!("{kind}/{name}: {error}"),
    };
    all(text).unwrap().into_iter().map(name).collect()
}

#[test]
fn documents_are_read_in_every_form() {
    let pod = |name: &str| format!("apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n");
    let (a, b) = (pod("a"), pod("b"));
    for (text, expected) in [
        (String::new(), ""),
        ("\n# nothing\n---\n---\n--- # still nothing\n...\n".to_owned(), ""),
        ("null\n---\n~\n".to_owned(), ""),
        ("# c\rkind: Pod\r".to_owned(), "Pod/"),
        (a.clone(), "Pod/a"),
        (format!("{a}---\n{b}"), "Pod/a Pod/b"),
        (format!("---\n# first\n{a}--- \n\n---\n{b}---"), "Pod/a Pod/b"),
        (format!("\u{feff}{a}"), "Pod/a"),
        (format!("{a}---\n{b}").replace('\n', "\r\n"), "Pod/a Pod/b"),
        (format!("%YAML 1.2\n---\n{a}...\n%YAML 1.2\n# why\n---\n{b}...\n"), "Pod/a Pod/b"),
        (format!("{a}...\n{b}"), "Pod/a Pod/b"),
        ("--- {kind: Pod, metadata: {name: a}}\n".to_owned(), "Pod/a"),
        ("{kind: Pod, metadata: {name: a}}\n---\nkind: Pod\n".to_owned(), "Pod/a Pod/"),
        ("kind: Pod\nmetadata:\n  name: a\n  annotations:\n    x: |\n      ---\n      kind: Node\n".to_owned(), "Pod/a"),
        (r#"{"kind":"Pod","metadata":{"name":"a"}}"#.to_owned(), "Pod/a"),
        ("{\"kind\":\"Pod\"}\n{\"kind\":\"Node\"} null".to_owned(), "Pod/ Node/"),
        (r#"{"kind":"Pod","metadata":{"name":"a","name":"b"}}"#.to_owned(), "Pod/b"),
        ("kind: List\nitems:\n- kind: Pod\n-\n- kind: List\n  items: [{kind: Node}]\n".to_owned(), "Pod/ Node/"),
        ("items:\n- apiVersion: v1\n  kind: Pod\nkind: List\n".to_owned(), "Pod/"),
        ("kind: PodList\napiVersion: v1\nitems: [{metadata: {name: a}}]".to_owned(), "Pod/a"),
        (r#"{"kind":"NodeList","items":[{"metadata":{"name":"a"}},{"kind":"Pod"}]}"#.to_owned(), "Node/a Pod/"),
        ("kind: List\nitems: []".to_owned(), ""),
        ("kind: List".to_owned(), ""),
        ("kind: Widget\nspec: [whatever]\nstatus: 3".to_owned(), "Widget/"),
        ("kind: Job\napiVersion: batch.volcano.sh/v1\nspec: 3".to_owned(), "Job/"),
        ("spec: {replicas: 2}\nkind: Deployment\nmetadata: null".to_owned(), "Deployment/"),
    ] {
        assert_eq!(names(&text).join(" "), expected, "{text}");
    }
}

#[test]
fn aliases_and_merge_keys_are_followed() {
    let text =
        "kind: Pod\nmetadata: &m {name: a, labels: {x: y}}\nspec:\n  nodeSelector: {<<: *s}\n";
    assert!(all(text).is_err(), "an anchor that does not exist");
    let text = "kind: Pod\nmetadata: {name: a, labels: &l {x: v}}\nspec:\n  nodeSelector: {<<: *l, z: w}\n";
    let Entry::Object(object) = all(text).unwrap().swap_remove(0) else { panic!() };
    let Content::Pod(spec, _) = object.content else { panic!() };
    assert_eq!(spec.node_selector.iter().collect::<Vec<_>>(), [("x", "v"), ("z", "w")]);
}

#[test]
fn what_has_the_wrong_type_is_malformed_and_the_rest_is_read() {
    let integer = "an integer from -2147483648 to 2147483647";
    for (fields, expected) in [
        ("spec: {containers: [{}, {name: 1}]}", "spec.containers[1].name: 1 is a number, expected a string".to_owned()),
        ("spec: {containers: {name: 1}}", "spec.containers: an object, expected a list".to_owned()),
        ("spec: {priority: 1.5, nodeName: []}", "spec.nodeName: a list, expected a string".to_owned()),
        ("spec: {priority: 3000000000}", format!("spec.priority: 3000000000 is a number, expected {integer}")),
        ("spec: 3", "spec: 3 is a number, expected an object".to_owned()),
        ("metadata: {name: p, labels: [a]}", "metadata.labels: a list, expected an object of strings".to_owned()),
        ("metadata: {name: p, ownerReferences: [{controller: 'true'}]}", "metadata.ownerReferences[0].controller: \"true\" is a string, expected true or false".to_owned()),
        ("spec: {containers: [{resources: {limits: {a.com/b: []}}}]}", "spec.containers[0].resources.limits[\"a.com/b\"]: a list, expected a quantity: a number, or a string like 500m or 1Gi".to_owned()),
        ("spec: {containers: [{resources: {limits: {cpu: true}}}]}", "spec.containers[0].resources.limits.cpu: true is a boolean, expected a quantity: a number, or a string like 500m or 1Gi".to_owned()),
        ("apiVersion: {}", "apiVersion: an object, expected a string".to_owned()),
    ] {
        let name = if fields.contains("name: p") { "p" } else { "" };
        let read = names(&format!("kind: Pod\n{fields}\n---\nkind: Node\n"));
        assert_eq!(read, [format!("Pod/{name}: {expected}"), "Node/".to_owned()]);
    }
}

#[test]
fn errors_name_document_and_line_and_show_the_place() {
    let long = format!("kind: Pod\n{}: b: c", "x".repeat(200));
    for (text, expected) in [
        (
            "kind: Pod\n---\n\n# c\n---\nkind: Pod\na: b: c\n",
            "test.yaml: document 2, line 7: mapping values are not allowed in this context\n7 | a: b: c\n  |     ^",
        ),
        (
            "kind: Pod\nkind: Node\n",
            "test.yaml: document 1, line 2: duplicate mapping key: kind\n2 | kind: Node\n  | ^",
        ),
        (
            "kind: Pod\n---\nhello\n",
            "test.yaml: document 2, line 2: \"hello\" is a string, expected a Kubernetes object",
        ),
        ("- 1", "test.yaml: document 1, line 1: a list, expected a Kubernetes object"),
        ("a: b", "test.yaml: document 1, line 1: no Kubernetes object: kind is missing"),
        ("kind: 3", "test.yaml: document 1, line 1: kind: 3 is a number, expected a name"),
        (
            "kind: List\nitems: [{kind: Pod}, 3]",
            "test.yaml: document 1, line 1: items[1]: 3 is a number, expected a Kubernetes object",
        ),
        (
            "{\"kind\": \"Pod\"}\n{\"kind\": }",
            "test.yaml: document 2, line 2: not JSON: expected value\n2 | {\"kind\": }\n  |          ^",
        ),
        ("{\"a\": 1}", "test.yaml: document 1, line 1: no Kubernetes object: kind is missing"),
    ] {
        assert_eq!(all(text).unwrap_err().to_string(), expected, "{text}");
    }
    let error = all(&long).unwrap_err().to_string();
    assert!(error.lines().all(|line| line.len() < 100), "{error}");
}

#[test]
fn what_would_exhaust_memory_or_stack_is_refused() {
    let mut bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (from, to) in "abcdefghijk".chars().zip("bcdefghijkl".chars()) {
        let items = vec![format!("*{from}"); 9].join(", ");
        bomb.push_str(&format!("{to}: &{to} [{items}]\n"));
    }
    let error = all(&format!("kind: Pod\n{bomb}metadata: *l\n")).unwrap_err();
    assert_eq!(error.message, "aliases repeat too much");
    let error = all("kind: Pod\nspec: &s {a: *s}\n").unwrap_err();
    assert_eq!(error.message, "an alias contains itself");
    let deep = 100_000;
    let harmless = format!("{{\"kind\":\"Pod\",\"x\":{}{}}}", "[".repeat(deep), "]".repeat(deep));
    assert_eq!(names(&harmless), ["Pod/"], "what is not read is skipped without a stack");
    for text in [
        format!("kind: Pod\nspec: {}", "[".repeat(deep)),
        format!("kind: Pod\nspec: {}{}", "[".repeat(deep), "]".repeat(deep)),
        format!("kind: Pod\nspec:\n  {}", "- ".repeat(deep)),
        (0..1_000).fold("kind: Pod\n".to_owned(), |text, i| text + &" ".repeat(i) + "a:\n"),
        format!("{}1{}", "{\"a\":".repeat(deep), "}".repeat(deep)),
        format!("{{\"kind\":\"Pod\",\"spec\":{}{}}}", "[".repeat(deep), "]".repeat(deep)),
    ] {
        let error = all(&text).unwrap_err();
        assert!(error.to_string().len() < 400, "{error}");
    }
}

/// A List as kubectl prints it, of `count` pods.
fn list_of(count: usize, indent: &str) -> String {
    let mut text = "apiVersion: v1\nitems:\n".to_owned();
    for i in 0..count {
        for line in [
            format!("- apiVersion: v1\n{indent}  kind: Pod"),
            format!("  metadata:\n{indent}    name: p{i}\n{indent}    labels:\n{indent}      a: |"),
            "        - text that\n\n".to_owned() + indent + "        - looks like items",
            format!("  spec:\n{indent}    containers:\n{indent}    - name: main"),
        ] {
            text.push_str(&format!("{indent}{line}\n"));
        }
    }
    text + "kind: List\nmetadata:\n  resourceVersion: \"\"\n"
}

#[test]
fn a_large_list_is_cut_and_reads_the_same() {
    for indent in ["", "  "] {
        let text = list_of(1_200, indent);
        let pieces = yaml::pieces(&text, true);
        assert!(pieces.len() > 2 && pieces.iter().all(|piece| piece.shape.is_cut()));
        let cut = all(&text).unwrap();
        let mut whole = Vec::new();
        assert!(yaml::read_document(&text, &mut whole).is_ok());
        assert_eq!(cut.len(), 1_200);
        assert!(cut == whole, "the order and the objects are the same");
    }
}

#[test]
fn a_large_list_with_anchors_is_read_as_a_whole() {
    let anchored = list_of(1_200, "").replacen("spec:\n", "spec: &first\n", 1);
    let (head, tail) =
        anchored.rsplit_once("  spec:\n    containers:\n    - name: main\n").unwrap();
    let text = format!("{head}  spec: *first\n{tail}");
    let entries = all(&text).unwrap();
    let Some(Entry::Object(last)) = entries.last() else { panic!() };
    let Content::Pod(spec, _) = &last.content else { panic!() };
    assert_eq!((entries.len(), spec.containers.len()), (1_200, 1));
}

#[test]
fn one_wrong_item_of_a_large_list_is_malformed_by_itself() {
    let text = list_of(1_200, "").replacen("name: main", "name: 7", 1);
    let entries = names(&text);
    assert_eq!(entries[0], "Pod/p0: spec.containers[0].name: 7 is a number, expected a string");
    assert_eq!(entries[1_199], "Pod/p1199");
    let text = list_of(1_200, "").replacen("name: p1000\n", "name: a: b\n", 1);
    let error = all(&text).unwrap_err();
    let line = text.lines().position(|line| line.contains("a: b")).unwrap() + 1;
    assert_eq!((error.document, error.line), (1, line));
}

#[test]
fn many_documents_keep_their_order_and_all_bytes_are_told() {
    let texts: Vec<String> =
        (0..6_000).map(|i| format!("kind: Pod\nmetadata: {{name: p{i}}}\n")).collect();
    let json: Vec<String> = (0..6_000)
        .map(|i| format!("{{\"kind\":\"Pod\",\"metadata\":{{\"name\":\"p{i}\"}}}}"))
        .collect();
    let list = format!("{{\"items\":[{}],\"kind\":\"List\"}}", json.join(",\n"));
    for text in [texts.join("---\n"), json.join("\n"), list] {
        let told = AtomicUsize::new(0);
        let count = |bytes| _ = told.fetch_add(bytes, Ordering::Relaxed);
        let entries = read("test", &text, &count).unwrap();
        assert_eq!(entries.len(), 6_000);
        for (i, entry) in entries.iter().enumerate() {
            let Entry::Object(object) = entry else { panic!("{entry:?}") };
            assert_eq!(&*object.metadata.name, format!("p{i}"));
        }
        assert_eq!(told.load(Ordering::Relaxed), text.len());
    }
}

#[test]
fn the_first_error_is_the_same_in_every_run() {
    let mut texts: Vec<String> = (0..12_000).map(|i| format!("kind: Pod\nid: {i}\n")).collect();
    for bad in [11_000, 7_345, 9_000] {
        texts[bad] = "kind: [\n".to_owned();
    }
    let text = texts.join("---\n");
    for _ in 0..3 {
        assert_eq!(all(&text).unwrap_err().document, 7_346);
    }
}

#[test]
fn no_item_of_a_large_list_is_lost_where_its_form_is_unusual() {
    let item = |i: usize| {
        format!("{{kind: Pod, metadata: {{name: p{i}, labels: {{a: {}}}}}}}", "x".repeat(900))
    };
    let items =
        |indent: &str| -> String { (0..80).map(|i| format!("{indent}- {}\n", item(i))).collect() };
    let (left, right) = (items(""), items("  "));
    for (text, count) in [
        (format!("kind: List\napiVersion: v1\nitems:\n    # my pods\n{right}"), 80),
        (format!("kind: List\napiVersion: v1\nitems:\n    # my pods\n\n{left}"), 80),
        (format!("items:\n# my pods\n{right}apiVersion: v1\nkind: List\n"), 80),
    ] {
        assert!(yaml::pieces(&text, true).iter().all(|piece| piece.shape.is_cut()));
        assert_eq!(all(&text).unwrap().len(), count);
    }
    let twice = format!("kind: List\nitems:\n{left}items:\n{left}");
    assert_eq!(all(&twice).unwrap_err().message, "duplicate mapping key: items");
    for end in ["  ...\n", "  ---\n", "  ... # c\n", " x\n", "\t- kind: Pod\n"] {
        let text = format!("kind: List\napiVersion: v1\nitems:\n{right}{end}");
        assert!(all(&text).is_err(), "{end:?}");
    }
    let text = format!("{{kind: List,\nitems:\n{left}}}");
    assert!(all(&text).is_err());
    let quoted = format!("kind: List\na: \"\nitems:\n{left}\"\n");
    assert!(all(&quoted).map_or(true, |entries| entries.is_empty()));
    let returns = format!("kind: List\nitems: # c\r- kind: Node\n{left}");
    assert!(all(&returns).map_or(true, |entries| entries.len() == 81));
}

#[test]
fn a_number_that_is_too_large_for_a_float_stays_the_text_as_written() {
    let huge = ["7e8843921", "1e4000", "123.5e4000", "-1e999", "+1E+999"];
    let digits = "9".repeat(400);
    for huge in huge.into_iter().chain([digits.as_str()]) {
        let block = format!(
            "kind: Pod\nmetadata:\n  name: {huge}\n  labels:\n    é: é\n    commit: {huge} # c\nspec:\n  nodeSelector:\n    a: {huge}\n"
        );
        let flow = format!(
            "{{kind: Pod, metadata: {{name: {huge}, labels: {{é: é, commit: {huge}}}}}, spec: {{nodeSelector: {{a: {huge}}}}}}}"
        );
        let alias = block
            .replacen("name: ", "name: &n ", 1)
            .replace(&format!("commit: {huge}"), "commit: *n");
        for text in [block.replace("    é: é\n", ""), block, flow, alias] {
            let Entry::Object(object) = all(&text).unwrap().swap_remove(0) else {
                panic!("{text}")
            };
            let Content::Pod(spec, _) = object.content else { panic!("{text}") };
            let labels = &object.metadata.labels;
            assert_eq!(&*object.metadata.name, huge, "{text}");
            assert_eq!(
                (labels.get("commit"), labels.problem("", "")),
                (Some(huge), None),
                "{text}"
            );
            assert_eq!(
                (spec.node_selector.get("a"), spec.node_selector.problem("", "")),
                (Some(huge), None)
            );
        }
    }
    assert!(all("kind: Pod\nmetadata: {name: !!float 1e999}\n").is_err());
}

#[test]
fn a_list_where_an_object_is_expected_is_malformed() {
    for (fields, expected) in [
        ("metadata:\n- p1\n", "metadata: a list, expected an object"),
        ("metadata: []\n", "metadata: a list, expected an object"),
        ("spec: [[]]\n", "spec: a list, expected an object"),
        ("status: [a]\n", "status: a list, expected an object"),
        ("spec:\n  affinity:\n  - a\n", "spec.affinity: a list, expected an object"),
        (
            "spec:\n  affinity: {nodeAffinity: [a]}\n",
            "spec.affinity.nodeAffinity: a list, expected an object",
        ),
        ("spec:\n  resources: [a]\n", "spec.resources: a list, expected an object"),
        ("spec:\n  containers:\n  - - a\n", "spec.containers[0]: a list, expected an object"),
        ("spec:\n  containers:\n  - [a]\n", "spec.containers[0]: a list, expected an object"),
        (
            "spec:\n  containers:\n  - resources:\n    - nvidia.com/gpu: 1\n",
            "spec.containers[0].resources: a list, expected an object",
        ),
        (
            "spec:\n  resourceClaims:\n  - []\n",
            "spec.resourceClaims[0]: a list, expected an object",
        ),
    ] {
        let text = format!("apiVersion: v1\nkind: Pod\n{fields}");
        assert_eq!(names(&text), [format!("Pod/: {expected}")], "{text}");
        let value = yaml::full::<serde_json::Value>(&text).unwrap();
        assert_eq!(names(&value.to_string()), [format!("Pod/: {expected}")], "{value}");
    }
    let text = r#"{"kind":"Pod","metadata":["p1",null,"ns1"]} ["List",[{"kind":"Pod"}]]"#;
    assert_eq!(all(text).unwrap_err().message, "a list, expected a Kubernetes object");
}

#[test]
fn only_lists_of_kubernetes_are_taken_apart_and_no_other_kind_vanishes() {
    for (text, expected) in [
        (
            "apiVersion: example.com/v1\nkind: AllowList\nitems: [a, 3]\n---\nkind: Pod\n",
            "AllowList/ Pod/",
        ),
        (
            "apiVersion: example.com/v1\nitems: [a, 3]\nkind: AllowList\nmetadata: {name: x}\n",
            "AllowList/x",
        ),
        ("apiVersion: v1\nitems: 7\nkind: Foo\n", "Foo/"),
        ("items: {a: b}\nkind: Pod\n", "Pod/"),
        ("apiVersion: example.com/v1\nkind: List\nitems: [{kind: Pod}]\n", "List/"),
        ("apiVersion: example.com/v1\nkind: PodList\nitems: [{kind: Pod}]\n", "PodList/"),
        ("apiVersion: v1\nkind: ListList\nitems: [{kind: Pod}]\n", "ListList/"),
        (
            "apiVersion: apps/v1\nkind: DeploymentList\nitems: [{metadata: {name: d}}]\n",
            "Deployment/d",
        ),
        (
            "apiVersion: scheduling.k8s.io/v1\nitems: [{metadata: {name: c}}]\nkind: PriorityClassList\n",
            "PriorityClass/c",
        ),
    ] {
        assert_eq!(names(text).join(" "), expected, "{text}");
        if !text.contains("---") {
            let value = yaml::full::<serde_json::Value>(text).unwrap();
            assert_eq!(names(&value.to_string()).join(" "), expected, "{value}");
        }
    }
}

#[test]
fn a_list_whose_items_are_no_list_is_an_error() {
    for kind in ["List", "PodList"] {
        for (items, given) in
            [("{a: b}", "an object"), ("5", "5 is a number"), ("x", "\"x\" is a string")]
        {
            let expected = format!("items: {given}, expected a list");
            let text = format!("apiVersion: v1\nkind: {kind}\nitems: {items}\n");
            assert_eq!(all(&text).unwrap_err().message, expected);
            let text = format!("apiVersion: v1\nitems: {items}\nkind: {kind}\n");
            assert_eq!(all(&text).unwrap_err().message, expected);
            let value = yaml::full::<serde_json::Value>(&text).unwrap();
            assert_eq!(all(&value.to_string()).unwrap_err().message, expected);
        }
    }
}

#[test]
fn a_priority_class_whose_value_is_no_integer_is_malformed() {
    for (value, given) in [("\"1000\"", "\"1000\" is a string"), ("1.5", "1.5 is a number")] {
        let class = format!(
            "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: c}}\nvalue: {value}\n"
        );
        let expected = format!(
            "PriorityClass/c: value: {given}, expected an integer from -2147483648 to 2147483647"
        );
        assert_eq!(names(&class), std::slice::from_ref(&expected));
        let list =
            format!("kind: List\nitems: [{}]", yaml::full::<serde_json::Value>(&class).unwrap());
        assert_eq!(names(&list), [expected]);
    }
}

#[test]
fn a_count_may_be_written_with_decimals_that_are_zero() {
    for (replicas, expected) in [
        ("3.0", Some(3)),
        ("-0.0", Some(0)),
        ("3", Some(3)),
        ("3.5", None),
        ("3e9", None),
        ("3000000000.0", None),
    ] {
        let text =
            format!("apiVersion: apps/v1\nkind: Deployment\nspec:\n  replicas: {replicas}\n");
        let read = match all(&text).unwrap().swap_remove(0) {
            Entry::Object(Object { content: Content::Workload(workload), .. }) => workload.replicas,
            _ => None,
        };
        assert_eq!(read, expected, "{replicas}");
    }
}
