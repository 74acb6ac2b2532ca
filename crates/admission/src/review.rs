//! AdmissionReview: what the API server asks and what it is told.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use divvy_words::admission::{
    Mutation, Operation, PodChange, Settings, mutate, template, validate, void, warn,
};
use divvy_words::shortened;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

const VERSION: &str = "admission.k8s.io/v1";
/// It is repeated in the answer. Those of API servers have 36.
const MOST_UID_BYTES: usize = 64;

/// Which decision is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Webhook {
    Mutate,
    Void,
    Template,
    Validate,
    Warn,
}

impl Webhook {
    pub(crate) const ALL: [Self; 5] =
        [Self::Mutate, Self::Void, Self::Template, Self::Validate, Self::Warn];

    /// Whether a large review waits for its turn, and others behind it: nobody is to wait for a warning,
    /// which the API server goes on without.
    pub(crate) fn queues(self) -> bool {
        self != Self::Warn
    }

    /// The last part of its path, and its name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mutate => "mutate",
            Self::Void => "void",
            Self::Template => "template",
            Self::Validate => "validate",
            Self::Warn => "warn",
        }
    }
}

/// How a review ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    Patched,
    Denied,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a> {
    #[serde(default)]
    api_version: String,
    #[serde(borrow)]
    request: Option<Request<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    uid: String,
    operation: String,
    #[serde(default)]
    sub_resource: Option<String>,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    old_object: Option<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    api_version: &'static str,
    kind: &'static str,
    response: Response,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    uid: String,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Status {
    code: u16,
    reason: &'static str,
    message: String,
}

/// Answers a review; an error says what is wrong with the body.
pub(crate) fn answer(
    webhook: Webhook,
    body: &[u8],
    settings: &Settings,
) -> Result<(Vec<u8>, Verdict), String> {
    let question: Question<'_> = serde_json::from_slice(body)
        .map_err(|why| shortened(format_args!("the body is no AdmissionReview: {why}")))?;
    if question.api_version != VERSION {
        let given = question.api_version.chars().take(64).collect::<String>();
        return Err(format!("apiVersion: {given:?} is given; only {VERSION} is understood"));
    }
    let request = question.request.ok_or("request: missing in the AdmissionReview")?;
    if request.uid.len() > MOST_UID_BYTES {
        let given = request.uid.len();
        return Err(format!(
            "request.uid: {given} bytes are given; at most {MOST_UID_BYTES} are allowed"
        ));
    }
    let (response, verdict) = decide(webhook, request, settings)?;
    let answer = Answer { api_version: VERSION, kind: "AdmissionReview", response };
    let text = serde_json::to_vec(&answer).map_err(|why| why.to_string())?;
    Ok((text, verdict))
}

fn decide(
    webhook: Webhook,
    request: Request<'_>,
    settings: &Settings,
) -> Result<(Response, Verdict), String> {
    let allowed = Response { uid: request.uid, allowed: true, ..Response::default() };
    let operation = match (&*request.operation, request.sub_resource.as_deref().unwrap_or("")) {
        ("CREATE", "") => Operation::Create,
        ("UPDATE", "") => Operation::Update,
        ("UPDATE", "ephemeralcontainers") => Operation::EphemeralContainers,
        // A configuration that asks for more than we have to say.
        _ => return Ok((allowed, Verdict::Allowed)),
    };
    let change = PodChange { operation, pod: request.object, old: request.old_object };
    let decided = match webhook {
        Webhook::Mutate => mutate(&change, settings),
        Webhook::Void => void(&change, settings),
        Webhook::Template => template(change.pod, change.old, settings),
        Webhook::Validate => {
            validate(&change, settings).map(|warnings| Mutation { warnings, ..Mutation::default() })
        }
        Webhook::Warn => {
            Ok(Mutation { warnings: warn(change.pod, settings), ..Mutation::default() })
        }
    };
    match decided {
        Ok(mutation) => changed(allowed, mutation),
        Err(message) => {
            let message = shortened(message);
            let status = Some(Status { code: 403, reason: "Forbidden", message });
            Ok((Response { allowed: false, status, ..allowed }, Verdict::Denied))
        }
    }
}

fn changed(allowed: Response, mutation: Mutation) -> Result<(Response, Verdict), String> {
    let warnings = mutation.warnings.into_iter().map(shortened).collect();
    if mutation.patch.is_empty() {
        return Ok((Response { warnings, ..allowed }, Verdict::Allowed));
    }
    let patch = serde_json::to_vec(&mutation.patch).map_err(|why| why.to_string())?;
    let patch = Some(BASE64_STANDARD.encode(patch));
    Ok((Response { patch_type: Some("JSONPatch"), patch, warnings, ..allowed }, Verdict::Patched))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn settings() -> Settings {
        Settings {
            gpu_sharing: false,
            block_visible_devices: true,
            runtime_class: "nvidia".to_owned(),
            scheduler_names: vec!["divvy-scheduler".to_owned()],
            max_grace_period: 600,
            isolation: None,
        }
    }

    fn ask(webhook: Webhook, request: &Value) -> (Value, Verdict) {
        let review = json!({"apiVersion": VERSION, "kind": "AdmissionReview", "request": request});
        let (text, verdict) = answer(webhook, review.to_string().as_bytes(), &settings()).unwrap();
        (serde_json::from_slice(&text).unwrap(), verdict)
    }

    fn share(operation: &str) -> Value {
        json!({"uid": "u-1", "operation": operation, "object": {
            "metadata": {"namespace": "ml", "name": "p", "annotations": {"gpu-fraction": "0.5"}},
            "spec": {"schedulerName": "divvy-scheduler", "containers": [{"name": "m"}]},
        }})
    }

    #[test]
    fn a_patch_and_a_refusal_are_told_as_the_api_server_expects_them() {
        let (answer, verdict) = ask(Webhook::Mutate, &share("CREATE"));
        assert_eq!((&answer["response"]["uid"], verdict), (&json!("u-1"), Verdict::Patched));
        assert_eq!(answer["response"]["patchType"], "JSONPatch");
        let patch = BASE64_STANDARD.decode(answer["response"]["patch"].as_str().unwrap()).unwrap();
        let patch: Value = serde_json::from_slice(&patch).unwrap();
        assert_eq!(patch[0]["op"], "add");
        assert_eq!(patch[0]["path"], "/spec/containers/0/env");

        let (answer, verdict) = ask(Webhook::Validate, &share("CREATE"));
        assert_eq!(verdict, Verdict::Denied);
        let message = &answer["response"]["status"]["message"];
        let expected = json!({"uid": "u-1", "allowed": false, "status": {"code": 403, "reason": "Forbidden",
            "message": message}});
        assert_eq!(answer["response"], expected);
        let kais = "attempting to create a pod ml/p with gpu sharing request, while GPU sharing is disabled";
        assert!(message.as_str().unwrap().starts_with(kais), "{message}");
    }

    #[test]
    fn what_is_not_asked_of_us_is_allowed() {
        for (webhook, request) in [
            (Webhook::Validate, share("DELETE")),
            (Webhook::Mutate, share("CONNECT")),
            (Webhook::Void, share("CREATE")),
            (
                Webhook::Mutate,
                json!({"uid": "u-1", "operation": "UPDATE", "subResource": "status"}),
            ),
        ] {
            let (answer, verdict) = ask(webhook, &request);
            assert_eq!(answer["response"], json!({"uid": "u-1", "allowed": true}));
            assert_eq!(verdict, Verdict::Allowed);
        }
    }

    #[test]
    fn a_wrong_body_is_named() {
        let nothing = json!({"apiVersion": VERSION}).to_string();
        let old = json!({"apiVersion": "admission.k8s.io/v1beta1"}).to_string();
        let no_uid = json!({"apiVersion": VERSION, "request": {}}).to_string();
        for (body, expected) in [
            ("", "the body is no AdmissionReview: EOF"),
            ("[1", "the body is no AdmissionReview: "),
            ("{}", "apiVersion: \"\" is given; only admission.k8s.io/v1 is understood"),
            (&old, "apiVersion: \"admission.k8s.io/v1beta1\" is given"),
            (&nothing, "request: missing in the AdmissionReview"),
            (&no_uid, "the body is no AdmissionReview: missing field `uid`"),
        ] {
            let why = answer(Webhook::Validate, body.as_bytes(), &settings()).unwrap_err();
            assert!(why.starts_with(expected), "{body}: {why}");
        }
    }

    #[test]
    fn no_answer_repeats_a_long_text() {
        let long = "x".repeat(1 << 20);
        let uid = json!({"uid": long, "operation": "X"});
        for (request, expected) in [
            (&uid, "request.uid: 1048576 bytes are given; at most 64 are allowed"),
            (&json!(long), "the body is no AdmissionReview: invalid type: string \"xxx"),
        ] {
            let body = json!({"apiVersion": VERSION, "request": request}).to_string();
            let why = answer(Webhook::Validate, body.as_bytes(), &settings()).unwrap_err();
            assert!(why.starts_with(expected) && why.len() < 1100, "{} bytes", why.len());
        }
        let mut pod = share("CREATE");
        for field in ["namespace", "name"] {
            pod["object"]["metadata"][field] = json!(long);
        }
        let (answer, _) = ask(Webhook::Validate, &pod);
        let message = answer["response"]["status"]["message"].as_str().unwrap();
        assert!(message.ends_with("xxx...") && message.len() < 1100, "{} bytes", message.len());
    }
}
