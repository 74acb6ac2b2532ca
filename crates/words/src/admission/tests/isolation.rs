//! Levels of isolation: the matrix, the default, the limits, and what a tenant tries.

use super::*;
use crate::isolation::{Isolation, Level, Provider};
use std::collections::BTreeSet;

const LEVEL: &str = "koordinator.sh/gpu-share-isolation-level";
const PROVIDER: &str = "koordinator.sh/gpu-isolation-provider";

fn on() -> Settings {
    let both = Provider {
        name: "MPS".to_owned(),
        levels: vec![Level::Isolated, Level::Shared],
        ..Provider::hami_core()
    };
    let isolation = Isolation::new(vec![Provider::hami_core(), both]);
    Settings { isolation: Some(isolation), ..settings() }
}

/// A share pod with these labels.
fn labelled(provider: Option<&str>, level: Option<&str>, spec: Value) -> Value {
    let mut pod = half(spec);
    for (key, value) in [(PROVIDER, provider), (LEVEL, level)] {
        if let Some(value) = value {
            pod["metadata"]["labels"][key] = json!(value);
        }
    }
    pod
}

fn one() -> Value {
    json!({"containers": [{"name": "main"}]})
}

fn isolated(spec: Value) -> Value {
    labelled(Some("HAMi-core"), None, spec)
}

fn admit(pod: &Value, settings: &Settings) -> (Value, Result<Vec<String>, String>) {
    let first = patched(pod, &mutate(&created(pod), settings).patch);
    let second = mutate(&created(&first), settings);
    assert_eq!(second, Mutation::default(), "once is enough");
    let said = validate(&created(&first), settings);
    (first, said)
}

#[test]
fn every_row_of_the_matrix_is_decided() {
    let (hami, mps) = (Some("HAMi-core"), Some("MPS"));
    for (row, provider, level, stored, refused) in [
        (1, None, None, Some("Shared"), ""),
        (2, hami, None, Some("Isolated"), ""),
        (
            3,
            mps,
            None,
            None,
            "missing; provider MPS has several levels, allowed are Isolated, Shared",
        ),
        (4, Some("x"), None, None, "\"x\" is no provider; known are HAMi-core, MPS"),
        (
            4,
            Some("x"),
            Some("Shared"),
            Some("Shared"),
            "\"x\" is no provider; known are HAMi-core, MPS",
        ),
        (
            5,
            None,
            Some("Isolated"),
            Some("Isolated"),
            "missing; Isolated needs a provider, known are HAMi-core, MPS",
        ),
        (6, None, Some("Shared"), Some("Shared"), ""),
        (7, hami, Some("Isolated"), Some("Isolated"), ""),
        (8, hami, Some("Shared"), Some("Shared"), "Shared; provider HAMi-core allows Isolated"),
        (8, mps, Some("Shared"), Some("Shared"), ""),
        (
            9,
            hami,
            Some("Isoalted"),
            Some("Isoalted"),
            "\"Isoalted\"; allowed are Isolated and Shared",
        ),
        (9, None, Some(""), Some(""), "\"\"; allowed are Isolated and Shared"),
    ] {
        let (pod, said) = admit(&labelled(provider, level, one()), &on());
        let now = pod["metadata"]["labels"].get(LEVEL).and_then(Value::as_str);
        assert_eq!(now, stored, "row {row}");
        match refused {
            "" => assert_eq!(said, Ok(Vec::new()), "row {row}"),
            text => assert!(said.clone().unwrap_err().ends_with(text), "row {row}: {said:?}"),
        }
    }
    // Row 10: no share.
    let whole = json!({"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]});
    for spec in [whole, one()] {
        let mut given = pod(json!({}), spec);
        given["metadata"]["labels"] = json!({LEVEL: "x", PROVIDER: "HAMi-core"});
        let (stored, said) = admit(&given, &on());
        assert_eq!(stored, given);
        let ignored =
            format!("metadata.labels[\"{LEVEL}\"] has no effect: only GPU shares have a level");
        assert_eq!(said, Ok(vec![ignored]));
    }
    // Row 12: the gate is off.
    let given = labelled(hami, Some("Isoalted"), one());
    let (stored, said) = admit(&given, &settings());
    assert_eq!(stored["metadata"], given["metadata"]);
    assert_eq!(stored["spec"]["containers"][0]["env"], json!(hand_off_variables()));
    let off = format!(
        "metadata.labels[\"{PROVIDER}\"] has no effect: the feature gate GPUIsolationLevel is off"
    );
    assert_eq!(said, Ok(vec![off]));
    assert_eq!(admit(&labelled(None, Some("x"), one()), &settings()).1, Ok(Vec::new()));
}

#[test]
fn level_and_provider_of_a_share_are_fixed_when_its_pod_is_created() {
    let old = labelled(Some("HAMi-core"), Some("Isolated"), one());
    for (key, value, expected) in [
        (LEVEL, json!("Shared"), "\"Isolated\" cannot become \"Shared\""),
        (LEVEL, Value::Null, "\"Isolated\" cannot become absent"),
        (PROVIDER, json!("MPS"), "\"HAMi-core\" cannot become \"MPS\""),
    ] {
        let mut pod = old.clone();
        pod["metadata"]["labels"][key] = value;
        let change = asked(Operation::Update, &pod, &old);
        let said = validate(&change, &on()).unwrap_err();
        assert!(said.contains(expected) && said.contains(key), "{said}");
        assert_eq!(validate(&change, &settings()), Ok(Vec::new()));
    }
    assert_eq!(validate(&asked(Operation::Update, &old, &old), &on()), Ok(Vec::new()));
}

/// What could switch HAMi-core off, at values that do not.
fn safe_values() -> Vec<Value> {
    let safe = Provider::hami_core().environment;
    safe.iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
}

fn limit(name: &str, annotation: &str) -> Value {
    let path = format!("metadata.annotations['{annotation}']");
    json!({"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}})
}

#[test]
fn the_container_of_an_isolated_share_reads_its_limits_whatever_it_says_itself() {
    let memory = || limit("CUDA_DEVICE_MEMORY_LIMIT", "divvy.dev/memory-limit");
    let own = json!([
        {"name": "A", "value": "1"}, {"name": "CUDA_DEVICE_MEMORY_LIMIT", "value": "0"}, memory(),
    ]);
    let given = isolated(
        json!({"containers": [{"name": "main", "env": own}, {"name": "log", "env": own}]}),
    );
    let first = mutate(&created(&given), &on());
    assert_eq!(first.warnings.len(), 1, "{:?}", first.warnings);
    let (pod, said) = admit(&given, &on());
    let mut expected = hand_off_variables();
    expected.push(memory());
    expected.extend(safe_values());
    expected.push(json!({"name": "A", "value": "1"}));
    assert_eq!(pod["spec"]["containers"][0]["env"], json!(expected));
    assert_eq!(said, Ok(Vec::new()));
    // Compute is limited where it is asked.
    let limits = json!({"koordinator.sh/gpu-core": "30", "koordinator.sh/gpu-memory": "1Gi"});
    let mut given =
        isolated(json!({"containers": [{"name": "main", "resources": {"limits": limits}}]}));
    given["metadata"]["annotations"] = json!({});
    let (pod, said) = admit(&given, &on());
    assert_eq!(said, Ok(Vec::new()));
    let env = pod["spec"]["containers"][0]["env"].as_array().unwrap();
    assert_eq!(env[4..6], [memory(), limit("CUDA_DEVICE_SM_LIMIT", "divvy.dev/compute-limit")]);
    assert_eq!(env[6..], safe_values());
    // A share that is not isolated has none of this.
    let (pod, _) = admit(&labelled(None, None, one()), &on());
    assert_eq!(pod["spec"]["containers"][0]["env"], json!(hand_off_variables()));
}

#[test]
fn no_second_entry_of_a_limit_is_accepted_and_no_mount_in_front_of_the_provider() {
    let (admitted, _) = admit(&isolated(one()), &on());
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut pod = admitted.clone();
        change(&mut pod["spec"]["containers"][0]);
        validate(&created(&pod), &on()).err()
    };
    assert_eq!(refused(&|_| ()), None);
    for name in ["CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT"] {
        let second = json!({"name": name, "value": "0"});
        let said = refused(&|c| c["env"].as_array_mut().unwrap().push(second.clone()));
        let said = said.unwrap_or_default();
        assert!(said.contains(&format!("the variable {name} of container main")), "{said}");
    }
    for name in ["CUDA_DISABLE_CONTROL", "CUDA_DEVICE_MEMORY_LIMIT_0", "CUDA_DEVICE_SM_LIMIT_15"] {
        let off = json!({"name": name, "value": "true"});
        let said = refused(&|c| c["env"].as_array_mut().unwrap().push(off.clone()));
        let said = said.unwrap_or_default();
        assert!(
            said.contains(&format!("the variable {name} of container main can switch")),
            "{said}"
        );
        // In its place another value, a text from elsewhere, or nothing: `envFrom` would say it then.
        let from = json!({"configMapKeyRef": {"name": "x", "key": "y"}});
        for other in [
            Some(json!({"name": name, "value": "80g"})),
            Some(json!({"name": name, "valueFrom": from})),
            None,
        ] {
            let said = refused(&|c| {
                let env = c["env"].as_array_mut().unwrap();
                env.retain(|entry| entry["name"] != name);
                env.extend(other.clone());
            });
            let said = said.unwrap_or_default();
            assert!(said.contains(&format!("the variable {name} of")), "{other:?}: {said}");
        }
    }
    for path in [
        "/etc",
        "/etc/",
        "//etc/.",
        "/etc/../etc",
        "etc",
        "/",
        "/etc/ld.so.preload",
        "/etc/./ld.so.preload",
        "/usr/local/vgpu",
        "/usr/local/vgpu/x",
        "/usr/local",
        "/usr//local/../local/vgpu/",
        // Older versions set the variables that they find there.
        "/overrideEnv",
    ] {
        let said = refused(&|c| c["volumeMounts"] = json!([{"name": "v", "mountPath": path}]));
        let said = said.unwrap_or_default();
        assert!(said.contains("would hide") && said.contains("volumeMounts[0]"), "{path}: {said}");
    }
    let block = json!([{"name": "v", "devicePath": "/etc/ld.so.preload"}]);
    let said = refused(&|c| c["volumeDevices"] = block.clone()).unwrap_or_default();
    assert!(said.contains("volumeDevices[0].devicePath"), "{said}");
    // The loader would find the file of the termination message too short, and go on.
    for path in ["/usr/local/vgpu/libvgpu.so", "/etc//ld.so.preload", "/overrideEnv"] {
        let said = refused(&|c| c["terminationMessagePath"] = json!(path)).unwrap_or_default();
        assert!(said.contains("containers[0].terminationMessagePath: "), "{path}: {said}");
    }
    assert_eq!(refused(&|c| c["terminationMessagePath"] = json!("/dev/termination-log")), None);
    for path in ["/etc/app", "/usr/local/vgpus", "/data", "/etc/ld.so.preload.d"] {
        let said = refused(&|c| c["volumeMounts"] = json!([{"name": "v", "mountPath": path}]));
        assert_eq!(said, None, "{path}");
    }
}

#[test]
fn off_switches_have_their_safe_values_in_every_process_and_one_that_says_another_is_refused() {
    let off = |value: &str| json!({"name": "CUDA_DISABLE_CONTROL", "value": value});
    let with =
        |env: Value| admit(&isolated(json!({"containers": [{"name": "main", "env": env}]})), &on());
    let (pod, said) = with(json!([off("false")]));
    assert_eq!(said, Ok(Vec::new()), "it says the same");
    let env = pod["spec"]["containers"][0]["env"].as_array().unwrap();
    let names: BTreeSet<&str> = env.iter().filter_map(|entry| entry["name"].as_str()).collect();
    assert_eq!((env.len(), env.len()), (names.len(), 5 + safe_values().len()));
    for env in [json!([off("true")]), json!([off("false"), off("true")])] {
        let said = with(env).1.unwrap_err();
        assert!(said.contains("can switch provider HAMi-core off: leave it out"), "{said}");
    }
    // The scheduler looks at what comes behind the limits.
    let mut copied = pod.clone();
    let env = copied["spec"]["containers"][0]["env"].as_array_mut().unwrap();
    env.retain(|entry| entry["name"] != "CUDA_DISABLE_CONTROL");
    env.insert(0, off("false"));
    let (again, said) = admit(&copied, &on());
    assert_eq!(said, Ok(Vec::new()));
    let env = again["spec"]["containers"][0]["env"].as_array().unwrap();
    assert_eq!(env.len(), 5 + safe_values().len());
    assert_eq!(env[0]["name"], "NVIDIA_VISIBLE_DEVICES");
    // Any other container is nobody's business here, nor one of a Shared pod.
    let (pod, _) = admit(&labelled(None, None, one()), &on());
    assert_eq!(pod["spec"]["containers"][0]["env"], json!(hand_off_variables()));
}

#[test]
fn no_volume_brings_the_limits_of_another_container() {
    let (admitted, _) = admit(&isolated(one()), &on());
    let said = |path: &str, volume: Value| {
        let mut pod = admitted.clone();
        pod["spec"]["volumes"] = json!([volume]);
        pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": path}]);
        validate(&created(&pod), &on())
    };
    let claim = json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}});
    for path in ["/tmp", "/tmp/", "/tmp/cudevshr.cache", "/tmp/./cudevshr.cache"] {
        let refused = said(path, claim.clone()).unwrap_err();
        assert!(
            refused.contains("could bring a /tmp/cudevshr.cache of another container"),
            "{refused}"
        );
        let own = said(path, json!({"name": "v", "emptyDir": {"medium": "Memory"}}));
        assert_eq!(own, Ok(Vec::new()), "{path}");
    }
    assert_eq!(said("/tmp/models", claim), Ok(Vec::new()));
}

#[test]
fn a_limit_is_for_one_container() {
    let asks = json!({"name": "c", "resources": {"limits": {"koordinator.sh/gpu": "50"}}});
    let mut given = isolated(json!({"containers": [asks, asks]}));
    given["metadata"]["annotations"] = json!({});
    let said = admit(&given, &on()).1.unwrap_err();
    assert!(said.ends_with("allowed is one container in an Isolated pod"), "{said}");
    given["metadata"]["labels"] = json!({LEVEL: "Shared"});
    assert_eq!(admit(&given, &on()).1, Ok(Vec::new()));
}

#[test]
fn an_init_container_behind_a_sidecar_runs_beside_it_and_one_in_front_does_not() {
    let init = json!({"name": "i", "resources": {"limits": {"koordinator.sh/gpu": "50"}}});
    let mut sidecar = init.clone();
    sidecar["restartPolicy"] = json!("Always");
    let said = |inits: Value| {
        let mut given = isolated(json!({"initContainers": inits, "containers": [{"name": "c"}]}));
        given["metadata"]["annotations"] = json!({});
        admit(&given, &on()).1
    };
    assert_eq!(said(json!([init, sidecar])), Ok(Vec::new()));
    assert_eq!(said(json!([init, init])), Ok(Vec::new()));
    for inits in [json!([sidecar, init]), json!([sidecar, sidecar])] {
        assert!(said(inits).unwrap_err().ends_with("one container in an Isolated pod"));
    }
}

#[test]
fn no_pod_reads_a_limit_before_somebody_has_looked_at_all_of_it() {
    let env = json!([limit("X", "divvy.dev/memory-limit")]);
    let given = |level| labelled(None, level, json!({"containers": [{"name": "c", "env": env}]}));
    for settings in [settings(), on()] {
        let said = admit(&given(Some("Shared")), &settings).1.unwrap_err();
        assert!(said.contains("c reads the annotation divvy.dev/memory-limit"), "{said}");
    }
}

#[test]
fn the_scheduler_binds_no_isolated_pod_whose_limits_are_not_read() {
    let ready = |pod: &Value, compute: u8| {
        let metadata = Metadata::deserialize(&pod["metadata"]).unwrap();
        let spec = PodManifest::deserialize(&pod["spec"]).unwrap();
        let half = divvy_ledger::Fraction::parse("0.5").unwrap();
        let part = divvy_ledger::Part {
            class: divvy_ledger::Class(1),
            compute: divvy_ledger::Percent(compute),
            ..divvy_ledger::Part::of(divvy_ledger::Portion::Fraction(half))
        };
        let request = divvy_ledger::Request::share(1, part);
        crate::limits_ready(Some(&Isolation::default()), &request, &metadata, &spec)
    };
    let (pod, _) = admit(&isolated(one()), &on());
    assert_eq!(ready(&pod, 0), Ok(()));
    let said = ready(&pod, 30).unwrap_err();
    assert!(said.starts_with("the variable CUDA_DEVICE_SM_LIMIT of container main"), "{said}");
    let mut twice = pod.clone();
    let second = json!({"name": "CUDA_DEVICE_MEMORY_LIMIT", "value": "80g"});
    twice["spec"]["containers"][0]["env"].as_array_mut().unwrap().push(second);
    assert!(ready(&twice, 0).unwrap_err().contains("CUDA_DEVICE_MEMORY_LIMIT"), "the last counts");
    let mut off = pod.clone();
    let other = json!({"name": "CUDA_DISABLE_CONTROL", "value": "true"});
    off["spec"]["containers"][0]["env"].as_array_mut().unwrap().push(other);
    assert!(ready(&off, 0).unwrap_err().contains("CUDA_DISABLE_CONTROL"));
    let (plain, _) = admit(&isolated(one()), &settings());
    assert!(ready(&plain, 0).unwrap_err().contains("CUDA_DEVICE_MEMORY_LIMIT"));
}
