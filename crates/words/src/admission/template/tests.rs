use super::*;
use crate::admission::patch::patched;
use crate::keys::STRATEGY;
use serde_json::value::to_raw_value;

fn settings() -> Settings {
    Settings {
        gpu_sharing: false,
        block_visible_devices: true,
        runtime_class: String::new(),
        scheduler_names: vec!["kai-scheduler".to_owned()],
        max_grace_period: 600,
        isolation: None,
    }
}

fn annotated(strategy: Option<&str>) -> Value {
    strategy.map_or(json!({}), |strategy| json!({"annotations": {STRATEGY: strategy}}))
}

fn deployment(own: Option<&str>, of_pods: Option<&str>) -> Value {
    let template =
        json!({"metadata": annotated(of_pods), "spec": {"schedulerName": "kai-scheduler"}});
    json!({"kind": "Deployment", "metadata": annotated(own), "spec": {"template": template}})
}

fn ask(object: &Value, old: &Value) -> Result<Mutation, String> {
    let (object, old) = (to_raw_value(object).unwrap(), to_raw_value(old).unwrap());
    template(Some(&object), Some(&old), &settings())
}

/// The strategy of the pods after the webhook, and what it says.
fn passed_on(object: &Value, old: &Value) -> (Option<String>, Vec<String>) {
    let Mutation { patch, warnings } = ask(object, old).unwrap();
    let changed = patched(object, &patch);
    assert_eq!(ask(&changed, old).unwrap().patch, [], "a second call changes {changed}");
    let at = if changed["kind"] == "CronJob" { "/spec/jobTemplate/spec" } else { "/spec" };
    let strategy = &changed.pointer(at).unwrap()["template"]["metadata"]["annotations"][STRATEGY];
    (strategy.as_str().map(str::to_owned), warnings)
}

#[test]
fn pods_follow_their_owner_unless_their_template_says_otherwise() {
    let (spread, binpack) = (Some("spread"), Some("binpack"));
    for (before, own, of_pods, expected) in [
        // New.
        (None, spread, None, spread),
        (None, spread, binpack, binpack),
        (None, None, spread, spread),
        (None, None, None, None),
        // Changed: what came from here follows, what the template says for itself stays.
        (spread, binpack, spread, binpack),
        (spread, binpack, None, binpack),
        (spread, None, spread, None),
        (binpack, None, spread, spread),
        (binpack, spread, spread, spread),
    ] {
        let old = before.map_or(Value::Null, |before| deployment(Some(before), None));
        let (strategy, warnings) = passed_on(&deployment(own, of_pods), &old);
        assert_eq!(strategy.as_deref(), expected, "{before:?} {own:?} {of_pods:?}");
        assert_eq!(warnings, [""; 0]);
    }
}

#[test]
fn templates_are_found_with_and_without_metadata_and_in_cron_jobs() {
    let spec = json!({"template": {"spec": {"schedulerName": "kai-scheduler"}}});
    let job = json!({"kind": "Job", "metadata": annotated(Some("spread")), "spec": spec});
    assert_eq!(passed_on(&job, &Value::Null).0.as_deref(), Some("spread"));
    let cron = json!({"kind": "CronJob", "metadata": annotated(Some("spread")),
        "spec": {"jobTemplate": {"spec": spec}}});
    assert_eq!(passed_on(&cron, &Value::Null).0.as_deref(), Some("spread"));
    let mut null = job;
    null["spec"]["template"]["metadata"] = json!({"creationTimestamp": null, "annotations": null});
    assert_eq!(passed_on(&null, &Value::Null).0.as_deref(), Some("spread"));
}

#[test]
fn owners_of_pods_of_other_schedulers_are_left_alone() {
    let mut other = deployment(Some("spread"), None);
    other["spec"]["template"]["spec"]["schedulerName"] = json!("default-scheduler");
    assert_eq!(ask(&other, &Value::Null).unwrap(), Mutation::default());
}

#[test]
fn a_strategy_that_is_none_is_told_and_not_passed_on() {
    let (strategy, warnings) = passed_on(&deployment(Some("sprad"), None), &Value::Null);
    assert_eq!(strategy, None);
    let expected = "metadata.annotations[\"scheduling.run.ai/scheduling-strategy\"]: \"sprad\" is not passed on to its \
        pods; allowed are binpack, spread";
    assert_eq!(warnings, [expected]);
    let long = "x".repeat(1 << 18);
    let (_, warnings) = passed_on(&deployment(Some(&long), None), &Value::Null);
    assert!(warnings[0].len() < 400, "{} bytes", warnings[0].len());
}

#[test]
fn an_owner_that_cannot_be_read_is_refused_with_the_field() {
    let mut wrong = deployment(None, None);
    wrong["metadata"]["annotations"] = json!([1]);
    let why = ask(&wrong, &Value::Null).unwrap_err();
    assert!(why.starts_with("metadata: "), "{why}");
}
