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
    assert!(error.message.contains("alias") || error.message.contains("anchor"), "{error}");
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
