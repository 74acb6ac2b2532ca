use super::*;
use crate::objects::PodItem;

const SOURCE: Source = Source { name: "pods", path: "/api/v1/pods", optional: false };

fn read(text: &str) -> (Vec<String>, String, Result<(), Failure>) {
    let mut version = "1".to_owned();
    let mut changes: Vec<Change<PodItem>> = Vec::new();
    let result = read_lines(&SOURCE, text.as_bytes(), &mut version, &mut changes);
    let say = |change: Change<PodItem>| match change {
        Change::Seen(pod) => format!("seen {}", pod.key()),
        Change::Gone(pod) => format!("gone {}", pod.key()),
        Change::Relisting | Change::Listed => "list".to_owned(),
    };
    (changes.into_iter().map(say).collect(), version, result)
}

fn line(kind: &str, name: &str, version: &str) -> String {
    format!(
        r#"{{"type":"{kind}","object":{{"kind":"Pod","metadata":{{"namespace":"ml","name":"{name}","resourceVersion":"{version}"}}}}}}"#
    )
}

#[test]
fn lines_of_a_watch_are_told_in_order_and_the_version_follows() {
    let text = [line("ADDED", "a", "5"), line("MODIFIED", "b", "7"), line("DELETED", "a", "9")];
    let (changes, version, result) = read(&text.join("\n"));
    assert_eq!(changes, ["seen ml/a", "seen ml/b", "gone ml/a"]);
    assert_eq!((version.as_str(), result), ("9", Ok(())));
}

#[test]
fn a_bookmark_moves_the_version_and_tells_nothing() {
    let (changes, version, _) = read(&line("BOOKMARK", "", "40"));
    assert_eq!((changes.len(), version.as_str()), (0, "40"));
}

#[test]
fn an_expired_version_and_other_errors_are_told_apart() {
    let gone = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}"#;
    assert_eq!(read(gone).2, Err(Failure::Expired("too old".into())));
    let other = r#"{"type":"ERROR","object":{"kind":"Status","code":500,"message":"oops"}}"#;
    assert_eq!(read(other).2, Err(Failure::Unclear("oops".into())));
}

#[test]
fn what_came_before_a_broken_line_is_not_lost() {
    let (changes, _, result) = read(&format!("{}\n{{broken", line("ADDED", "a", "5")));
    assert_eq!(changes, ["seen ml/a"]);
    assert!(matches!(result, Err(Failure::Unclear(_))));
}

#[test]
fn an_object_that_cannot_be_read_does_not_stop_the_watch() {
    let odd = r#"{"type":"ADDED","object":{"metadata":{"namespace":"ml","name":"odd","resourceVersion":"6"},"spec":{"containers":{}}}}"#;
    let (changes, version, result) = read(&format!("{odd}\n{}", line("ADDED", "a", "7")));
    assert_eq!(changes, ["seen ml/odd", "seen ml/a"]);
    assert_eq!((version.as_str(), result), ("7", Ok(())));
}
