use super::*;
use crate::{Entry, Priorities, config, pod, read, testing};

#[test]
fn a_text_is_cut_between_characters_and_says_so() {
    assert_eq!(shortened("a"), "a");
    assert_eq!(shortened("x".repeat(1000)), "x".repeat(1000));
    assert_eq!(shortened("x".repeat(1001)), "x".repeat(1000) + "...");
    let text = shortened(format_args!("x{}{}", "é".repeat(400), "é".repeat(400)));
    assert_eq!(text, format!("x{}...", "é".repeat(499)));
}

#[test]
fn nothing_that_is_quoted_acts_on_a_terminal() {
    assert_eq!(short("a\"\\é\u{1b}[2J\u{202e}b\n").to_string(), "a\"\\é\\u{1b}[2J\\u{202e}b\\n");
    assert_eq!(format!("{:?}", short("a\u{1b}\u{202e}")), "\"a\\u{1b}\\u{202e}\"");
    let bad = "x\\e[2J\\u202e\\u2066\\x7f\\x9b";
    let pods = [
        format!("name: \"{bad}\""),
        format!("name: p, namespace: \"{bad}\""),
        format!("name: p, labels: {{\"{bad}\": 1}}"),
        format!("name: p, creationTimestamp: \"{bad}\""),
        format!(
            "name: p, annotations: {{gpu-fraction: \"0.5\", gpu-fraction-container-name: \"{bad}\"}}"
        ),
    ];
    let resource = |field: &str| {
        format!(
            "kind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{{resources: {{{field}}}}}]}}\n"
        )
    };
    let texts =
        pods.iter().map(|metadata| format!("kind: Pod\nmetadata: {{{metadata}}}\n")).chain([
            resource(&format!("limits: {{\"{bad}\": 1}}")),
            resource(&format!("limits: {{\"a/{bad}\": 1}}, requests: {{\"a/{bad}\": 2}}")),
            resource(&format!("limits: {{cpu: \"{bad}\"}}")),
        ]);
    for text in texts {
        let (metadata, spec) = testing::pod(&text);
        let record = pod(&metadata, &spec, None, None, &Priorities::default());
        let key = record.key.to_string();
        assert!(key.chars().all(is_visible), "{key:?}");
        let invalid = record.invalid.unwrap();
        assert!(invalid.chars().all(is_visible), "{invalid:?}");
    }
    for text in [
        format!("kind: Pod\nspec: \"{bad}\"\n"),
        format!("kind: Pod\nmetadata: {{\"labels\": [\"{bad}\"]}}\n"),
        format!("kind: Node\nstatus: {{\"capacity\": {{\"{bad}\": []}}}}\n"),
        format!("kind: Pod\n\"{bad}\": 1\n\"{bad}\": 2\n"),
        "kind: Pod\na: \u{202e} b: c\n".to_owned(),
        format!("\"{bad}\""),
    ] {
        let error = match read("test", &text, &|_| ()) {
            Ok(mut entries) => match entries.swap_remove(0) {
                Entry::Malformed { error, .. } => error,
                entry @ Entry::Object(_) => panic!("{entry:?}"),
            },
            Err(error) => error.to_string(),
        };
        assert!(error.chars().all(|c| is_visible(c) || c == '\n'), "{error:?}");
    }
    for text in [
        format!("\"{bad}\": 1"),
        format!("gpuSharing: {{strategy: \"{bad}\"}}"),
        format!("\"{bad}\": 1\n\"{bad}\": 1"),
    ] {
        let error = config(&text).unwrap_err().to_string();
        assert!(error.chars().all(is_visible), "{error:?}");
    }
}
