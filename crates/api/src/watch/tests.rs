use super::*;
use crate::fence::Fence;
use crate::resources::PODS;
use serde_json::Value;

/// As much of a pod as it takes to tell one from another, and one that cannot be read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pod {
    metadata: PodMetadata,
    #[serde(rename = "spec")]
    _spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodMetadata {
    namespace: String,
    name: String,
    resource_version: String,
}

#[derive(Debug, Default, Deserialize)]
struct Spec {
    #[serde(rename = "containers")]
    _containers: Vec<Value>,
}

impl Pod {
    fn key(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.metadata.name)
    }
}

impl Item for Pod {
    fn version(&self) -> &str {
        &self.metadata.resource_version
    }

    fn unreadable(text: &str, _: &str) -> Option<Self> {
        let mut object: Value = serde_json::from_str(text).ok()?;
        let metadata = serde_json::from_value(object["metadata"].take()).ok()?;
        Some(Self { metadata, ..Self::default() })
    }
}

fn read(text: &str) -> (Vec<String>, String, Result<(), Failure>) {
    let mut version = "1".to_owned();
    let mut changes: Vec<Change<Pod>> = Vec::new();
    let result = read_lines(&PODS, text.as_bytes(), &mut version, &mut changes);
    let say = |change: Change<Pod>| match change {
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
fn an_object_in_many_pieces_is_told_once_it_is_whole() {
    let text = format!("{}\n{}\n", line("ADDED", "a", "7"), line("ADDED", "b", "8"));
    for size in 1..=text.len() {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for piece in text.as_bytes().chunks(size) {
            lines.push(piece, |whole| found.push([whole, b"\n"].concat()));
        }
        assert_eq!(found.concat(), text.as_bytes(), "{size}");
        assert!(lines.0.is_empty());
    }
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

/// A list of two pages, then a watch of a bookmark and a pod.
async fn serve() -> String {
    let answer = |uri: http::Uri| {
        let asked = uri.query().unwrap_or_default();
        let item = r#"{"metadata":{"namespace":"ml","name":"p","resourceVersion":"7"}}"#;
        std::future::ready(match asked {
            _ if asked.contains("watch=true") => {
                format!("{}\n{}\n", line("BOOKMARK", "", "40"), line("ADDED", "a", "41"))
            }
            _ if asked.contains("continue=") => {
                format!(r#"{{"metadata":{{"resourceVersion":"39"}},"items":[{item}]}}"#)
            }
            _ => format!(
                r#"{{"metadata":{{"resourceVersion":"39","continue":"c"}},"items":[{item}]}}"#
            ),
        })
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = axum::Router::new().fallback(answer);
    tokio::spawn(async { axum::serve(listener, server).await });
    url
}

#[tokio::test]
async fn all_is_known_up_to_a_version_at_the_end_of_a_list_and_with_what_a_watch_tells() {
    let mut config = kube::Config::new(serve().await.parse().unwrap());
    config.root_cert = Some(Vec::new());
    let api = Api::connect(config, Fence::open()).unwrap();
    let pace = Pace { page: 1, silence: Duration::from_secs(60) };
    let (tell, mut told) = mpsc::channel::<Batch<Pod>>(1);
    tokio::spawn(watch(api, PODS, pace, tell));
    let mut versions = Vec::new();
    while versions.last() != Some(&Some(41)) {
        let batch = told.recv().await.unwrap();
        assert_eq!(batch.watch, "pods");
        versions.push(batch.version);
    }
    // The bookmark and the pod may come together.
    versions.retain(|version| *version != Some(40));
    assert_eq!(versions, [None, Some(39), Some(41)]);
}
