//! Reviews, honest and not.

use hyper::body::Bytes;
use serde_json::{Value, json};

/// The largest body that is read.
const MOST: usize = 7 << 20;

/// A new pod with half a card.
pub fn share() -> Value {
    json!({
        "metadata": {"namespace": "ml", "name": "p", "annotations": {"gpu-fraction": "0.5"}},
        "spec": {"schedulerName": "divvy-scheduler", "containers": [{"name": "main"}]},
    })
}

/// The review of one that is far larger than most.
pub fn large_share() -> Bytes {
    let mut pod = share();
    pod["metadata"]["managedFields"] = json!([{"manager": "x".repeat(1 << 20)}]);
    review(&pod)
}

/// The review of a new pod.
pub fn review(pod: &Value) -> Bytes {
    framed("", &pod.to_string(), "")
}

fn framed(before: &str, middle: &str, after: &str) -> Bytes {
    let head = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","object":"#;
    Bytes::from([head, before, middle, after, "}}"].concat())
}

/// Reviews as large as they can be.
pub struct Hostile {
    /// What they are full of.
    pub name: &'static str,
    pub pod: Bytes,
    /// Of something that makes such pods.
    pub owner: Bytes,
}

/// Reviews as large as they can be, by what they are full of.
pub fn hostile() -> Vec<Hostile> {
    let pod = |metadata: &str, spec: &str| {
        format!(
            r#"{{"metadata":{{"annotations":{{"gpu-fraction":"0.5"}}{metadata}}},"spec":{{"schedulerName":"divvy-scheduler"{spec}}}}}"#
        )
    };
    // `$` is where the elements go, and their number.
    let main = |rest: &str| format!(r#","containers":[{{"name":"main"{rest}}}]"#);
    let annotations =
        |pod: String| pod.replace(r#""gpu-fraction":"0.5""#, r#""gpu-fraction":"0.5",$"#);
    let kai =
        |pod: String| pod.replace(r#"":"0.5""#, r#"":"0.5","runai/shared-gpu-configmap":"k""#);
    let all: [(&'static str, String, &str); 16] = [
        ("env", pod("", &main(r#","env":[$]"#)), r#"{"name":"a"}"#),
        ("our-env", pod("", &main(r#","env":[$]"#)), r#"{"name":"DIVVY_CARDS"}"#),
        ("lists", "[$]".to_owned(), "[0]"),
        ("env-lists", pod("", &main(r#","env":[{"name":"a"},$]"#)), "[0]"),
        ("other-lists", pod("", &(main("") + r#","other":[$]"#)), "[0]"),
        ("labels", pod(r#","labels":{$}"#, &main("")), r#""l#":"""#),
        ("our-labels", pod(r#","labels":{$}"#, &main("")), r#""runai-gpu-group/#":"""#),
        ("annotations", annotations(pod("", &main(""))), r#""a#":"""#),
        ("our-annotations", annotations(pod("", &main(""))), r#""mps":"""#),
        ("wrong-annotations", annotations(pod("", &main(""))), r#""a#":1"#),
        ("volumes", pod("", &(main("") + r#","volumes":[$]"#)), r#"{"name":"v"}"#),
        ("containers", pod("", r#","containers":[$]"#), r#"{"name":"c"}"#),
        ("no-containers", pod("", r#","containers":[$]"#), "{}"),
        (
            "resources",
            pod("", r#","containers":[$]"#),
            r#"{"resources":{"limits":{&},"requests":{&}}}"#,
        ),
        (
            "capabilities",
            pod("", &main(r#","securityContext":{"capabilities":{"add":[$]}}"#)),
            r#""""#,
        ),
        (
            "kai",
            kai(pod("", &main(r#","env":[$]"#))),
            r#"{"valueFrom":{"configMapKeyRef":{"name":"k-#x"}}}"#,
        ),
    ];
    let owner = |pod: &str| {
        let strategy = r#"{"annotations":{"scheduling.run.ai/scheduling-strategy":"spread"}}"#;
        format!(r#"{{"metadata":{strategy},"spec":{{"template":{pod}}}}}"#)
    };
    let reviews = |(name, pod, element): (&'static str, String, &str)| Hostile {
        name,
        pod: filled(&pod, element),
        owner: filled(&owner(&pod), element),
    };
    all.map(reviews).into()
}

/// Reviews that would have long answers, by what these would repeat or say, each with how many
/// connections it is for.
pub fn talkative() -> Vec<(&'static str, Bytes, usize)> {
    let review = |request: String| {
        Bytes::from(format!(r#"{{"apiVersion":"admission.k8s.io/v1","request":{request}}}"#))
    };
    // A soft hyphen of two bytes is quoted with six.
    let long = "\u{ad}".repeat((MOST - 200) / 2);
    let containers = vec!["{}"; 1000].join(",");
    let pod = format!(
        r#"{{"metadata":{{"annotations":{{"gpu-fraction":"0.5"}}}},"spec":{{"schedulerName":"divvy-scheduler","initContainers":[{containers}],"containers":[{containers}]}}}}"#
    );
    vec![
        ("uid", review(format!(r#"{{"uid":"{long}","operation":"X"}}"#)), 60),
        ("request", review(format!(r#""{long}""#)), 30),
        ("object", framed("\"", &long, "\""), 30),
        ("patch", framed("", &pod, ""), 500),
    ]
}

/// The review of a pod with as many elements as fit in at the `$`. A `#` in an element is its
/// number, a `&` is as many resources as a list keeps.
fn filled(pod: &str, element: &str) -> Bytes {
    let resources: Vec<String> = (0..256).map(|i| format!(r#""nvidia.com/gpu{i}":1"#)).collect();
    let element = element.replace('&', &resources.join(","));
    let (before, after) = pod.split_once('$').unwrap();
    let room = MOST - framed(before, "", after).len();
    let mut middle = String::with_capacity(room);
    for number in 0.. {
        let comma = if number == 0 { "" } else { "," };
        let next = element.replace('#', &number.to_string());
        if middle.len() + comma.len() + next.len() > room {
            break;
        }
        middle.push_str(comma);
        middle.push_str(&next);
    }
    framed(before, &middle, after)
}
