//! Admission reviews: the patch applies, what comes of it is as good as what was given, a second
//! call changes nothing, and what is allowed is what the scheduler will bind.

use crate::cost::Bound;
use crate::edit::edit;
use crate::input::Input;
use crate::objects;
use crate::patch::patched;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use divvy_admission::{Settings, answer};
use divvy_words::manifest::{Metadata, PodManifest};
use divvy_words::{Priorities, grace_period_allowed, hand_off_ready, keys};
use serde::Deserialize;
use serde_json::{Value, json};

const BOUND: Bound = Bound { base: 256 << 10, each: 256 };
const WEBHOOKS: [&str; 5] = ["mutate", "void", "template", "validate", "warn"];

/// A review of a pod with changes, or any body.
pub fn reviews(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let settings = settings(&mut input);
    if input.once_in(8) {
        let body = input.rest();
        for webhook in WEBHOOKS {
            let _ = BOUND.hold(body.len(), || answer(webhook, body, &settings));
        }
        return;
    }
    let (operation, subresource) =
        input.pick(&[("CREATE", ""), ("UPDATE", ""), ("UPDATE", "ephemeralcontainers")]);
    let mut old = Value::Null;
    if operation == "UPDATE" {
        old = pod(&mut input);
    }
    let given = pod(&mut input);
    let review = Review { operation, subresource, old, settings };
    review.check(&given);
    let old = if operation == "UPDATE" { owner(&mut input, &review.old) } else { Value::Null };
    let given = owner(&mut input, &given);
    Review { operation, subresource: "", old, settings: review.settings }.check_owner(&given);
}

/// What makes such pods and may say how they are placed, with changes.
fn owner(input: &mut Input<'_>, pod: &Value) -> Value {
    let strategy = input.pick(&["spread", "binpack", "wrong", ""]);
    let annotations = match strategy {
        "" => json!({}),
        strategy => json!({ keys::STRATEGY: strategy }),
    };
    let mut template = json!({ "spec": pod["spec"] });
    if input.once_in(2) {
        template["metadata"] = json!({ "annotations": annotations });
    }
    let spec = match input.once_in(3) {
        true => json!({ "jobTemplate": { "spec": { "template": template } } }),
        false => json!({ "template": template }),
    };
    let mut owner = json!({ "metadata": { "annotations": annotations }, "spec": spec });
    edit(input, &mut owner);
    owner
}

/// Where a template may be.
const TEMPLATES: [&str; 2] = ["/spec/template", "/spec/jobTemplate/spec/template"];

fn settings(input: &mut Input<'_>) -> Settings {
    Settings {
        gpu_sharing: !input.once_in(4),
        block_visible_devices: !input.once_in(4),
        runtime_class: input.pick(&["nvidia", ""]).to_owned(),
        scheduler_names: keys::SCHEDULER_NAMES.map(str::to_owned).to_vec(),
        max_grace_period: 600,
        isolation: None,
    }
}

/// A pod as somebody creates it, with changes.
fn pod(input: &mut Input<'_>) -> Value {
    let pods: Vec<_> = objects::of_kind("Pod").collect();
    let mut pod = input.pick(&[pods[1], pods[1], pods[0], pods[2]]).clone();
    if !input.once_in(4) {
        for (part, field) in [("spec", "nodeName"), ("spec", "resourceClaims")] {
            if let Some(part) = pod[part].as_object_mut() {
                part.remove(field);
            }
        }
    }
    edit(input, &mut pod);
    pod
}

struct Review {
    operation: &'static str,
    subresource: &'static str,
    old: Value,
    settings: Settings,
}

impl Review {
    fn ask(&self, webhook: &str, pod: &Value) -> Value {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "u-7", "operation": self.operation, "subResource": self.subresource,
                "object": pod, "oldObject": self.old,
            },
        });
        let body = review.to_string().into_bytes();
        let answered = BOUND.hold(body.len(), || answer(webhook, &body, &self.settings));
        let text = answered.unwrap_or_else(|why| panic!("{why}: {pod}"));
        let answer: Value = serde_json::from_slice(&text).unwrap_or_default();
        assert_eq!(answer["response"]["uid"], "u-7", "{answer}");
        answer["response"].clone()
    }

    /// The pod after the patch of a webhook, and whether there was one; nothing if it is refused.
    fn changed(&self, webhook: &str, pod: &Value) -> Option<(Value, bool)> {
        let response = self.ask(webhook, pod);
        if response["allowed"] != true {
            return None;
        }
        let Some(patch) = response["patch"].as_str() else { return Some((pod.clone(), false)) };
        assert_eq!(response["patchType"], "JSONPatch");
        let steps = BASE64_STANDARD.decode(patch).unwrap_or_default();
        let steps: Value = serde_json::from_slice(&steps).unwrap_or_default();
        match patched(pod.clone(), &steps) {
            Ok(changed) => Some((changed, true)),
            Err(why) => panic!("{why} in {pod}"),
        }
    }

    /// Nobody is refused or changed by a word of advice.
    fn check_warnings(&self, given: &Value) {
        let response = self.ask("warn", given);
        assert_eq!(response["allowed"], true, "{given}");
        assert_eq!(response["patch"], Value::Null, "{given}");
        let warnings = response["warnings"].as_array().map_or(0, Vec::len);
        assert!(warnings <= 8, "{warnings} of {given}");
    }

    fn check(&self, given: &Value) {
        self.check_warnings(given);
        // What one of them refuses, because it cannot be read, is not stored.
        let Some((prepared, _)) = self.changed("mutate", given) else { return };
        let Some((prepared, _)) = self.changed("void", &prepared) else { return };
        assert_eq!(untouchable(prepared.clone()), untouchable(given.clone()), "{given}");
        for webhook in ["mutate", "void"] {
            let again = self.changed(webhook, &prepared);
            assert_eq!(again, Some((prepared.clone(), false)), "{webhook} changes {prepared}");
        }
        let before = parts(given);
        let after = parts(&prepared);
        assert_eq!(before.is_some(), after.is_some(), "{given} becomes {prepared}");
        let verdict = self.ask("validate", &prepared);
        if let Some((metadata, spec)) = after
            && verdict["allowed"] == true
            && self.operation == "CREATE"
        {
            self.agrees(&metadata, &spec);
        }
    }

    /// An owner's template gets its strategy at once, and nothing else.
    fn check_owner(&self, given: &Value) {
        self.check_warnings(given);
        let Some((prepared, _)) = self.changed("template", given) else { return };
        let again = self.changed("template", &prepared);
        assert_eq!(again, Some((prepared.clone(), false)), "template changes {prepared}");
        let own = &given["metadata"]["annotations"][keys::STRATEGY];
        let strategy = keys::STRATEGY.replace('/', "~1");
        for place in TEMPLATES {
            let place = format!("{place}/metadata/annotations/{strategy}");
            let [before, now] = [given, &prepared].map(|owner| owner.pointer(&place));
            assert!(
                now == before || now.is_none_or(|now| now == own),
                "{given} becomes {prepared}"
            );
        }
        let without_metadata = |mut owner: Value| {
            for place in TEMPLATES {
                let template = owner.pointer_mut(place).and_then(Value::as_object_mut);
                template.map(|template| template.remove("metadata"));
            }
            owner
        };
        assert_eq!(without_metadata(given.clone()), without_metadata(prepared));
    }

    /// What is allowed is what the scheduler binds.
    fn agrees(&self, metadata: &Metadata, spec: &PodManifest) {
        if !self.settings.places(&spec.scheduler_name) {
            return;
        }
        let asks = |key| metadata.annotations.get(key).is_some();
        let is_share = asks(keys::GPU_FRACTION) || asks(keys::GPU_MEMORY);
        assert!(!is_share || self.settings.gpu_sharing);
        assert_eq!(hand_off_ready(metadata, spec), Ok(()));
        if is_share {
            assert_eq!(grace_period_allowed(spec, self.settings.max_grace_period), Ok(()));
            let record = divvy_words::pod(metadata, spec, None, None, &Priorities::default());
            let request = &record.spec.request;
            assert!(request.is_share(), "{request:?} of {metadata:?}");
        }
    }
}

/// Metadata and spec, if both can be read.
fn parts(pod: &Value) -> Option<(Metadata, PodManifest)> {
    let part = |field: &str| pod.get(field).filter(|part| part.is_object());
    let metadata = Metadata::deserialize(part("metadata")?).ok()?;
    Some((metadata, PodManifest::deserialize(part("spec")?).ok()?))
}

/// The pod without all that admission may change.
fn untouchable(mut pod: Value) -> Value {
    let remove = |object: &mut Value, fields: &[&str]| {
        if let Some(members) = object.as_object_mut() {
            fields.iter().for_each(|field| {
                members.remove(*field);
            });
        }
    };
    if let Some(metadata) = pod.get_mut("metadata") {
        remove(metadata, &["annotations", "labels"]);
    }
    if let Some(spec) = pod.get_mut("spec") {
        remove(spec, &["runtimeClassName", "terminationGracePeriodSeconds", "volumes"]);
        for list in ["initContainers", "containers", "ephemeralContainers"] {
            let containers = spec.get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                remove(container, &["env", "envFrom", "volumeMounts"]);
            }
        }
    }
    pod
}
