//! Pods that ask as Koordinator's do.

use super::*;

fn asking(resource: &str, amount: &str) -> Value {
    let list = json!({resource: amount, "cpu": "1"});
    json!({"name": "c", "resources": {"limits": list, "requests": list}})
}

#[test]
fn the_containers_that_ask_read_all_cards_of_the_pod_and_the_others_get_none() {
    let asks = || asking("koordinator.sh/gpu", "50");
    let given = pod(
        json!({}),
        json!({"containers": [{"name": "log"}, asks(), asks()], "initContainers": [{"name": "init"}]}),
    );
    let (pod, warnings) = admitted(&given);
    assert_eq!(warnings, [""; 0]);
    for place in ["/spec/containers/1/env", "/spec/containers/2/env"] {
        assert_eq!(pod.pointer(place), Some(&json!(hand_off_variables())), "{place}");
    }
    for place in ["/spec/containers/0/env", "/spec/initContainers/0/env"] {
        assert_eq!(pod.pointer(place), Some(&json!([void_entry()])), "{place}");
    }
    assert_eq!(pod["spec"]["runtimeClassName"], "nvidia");
    assert_eq!(pod["spec"]["containers"][1]["resources"], asks()["resources"], "as it was asked");
    assert_eq!(is_ready(&pod), Ok(()));
    let said = is_ready(&given).unwrap_err();
    assert!(said.starts_with("the variable NVIDIA_VISIBLE_DEVICES of container init"), "{said}");
    assert_eq!(verdict(&given), Ok(Vec::new()));
}

#[test]
fn whole_cards_are_asked_of_the_device_plugin_by_its_own_name() {
    for (resource, amount, cards) in
        [("koordinator.sh/gpu", "200", "2"), ("koordinator.sh/gpu-memory-ratio", "100", "1")]
    {
        let given = pod(json!({}), json!({"containers": [asking(resource, amount)]}));
        let (admitted, _) = admitted(&given);
        let list = json!({"nvidia.com/gpu": cards, "cpu": "1"});
        let expected = json!({"limits": list, "requests": list});
        assert_eq!(admitted["spec"]["containers"][0]["resources"], expected);
        assert_eq!(verdict(&given), Ok(Vec::new()));
        let not_seen = "container c asks for whole cards by Koordinator's names, and would get none; divvy's \
                        admission writes nvidia.com/gpu instead: create the pod anew while the admission runs";
        assert_eq!(is_ready(&given), Err(not_seen.to_owned()));
        assert_eq!(is_ready(&admitted), Ok(()));
    }
    let mut both = pod(json!({}), json!({"containers": [asking("koordinator.sh/gpu", "100")]}));
    both["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = json!("1");
    assert_eq!(
        verdict(&both).unwrap_err(),
        "cannot have both resources koordinator.sh/gpu... and nvidia.com/gpu"
    );
}

#[test]
fn what_makes_no_sense_is_refused_with_its_field() {
    let given = pod(json!({}), json!({"containers": [asking("koordinator.sh/gpu", "150")]}));
    assert_eq!(
        verdict(&given).unwrap_err(),
        "spec.containers[0].resources: koordinator.sh/gpu: 150; allowed are 1 to 100, and multiples of 100"
    );
    let off = Settings { gpu_sharing: false, ..settings() };
    let given = pod(json!({}), json!({"containers": [asking("koordinator.sh/gpu", "50")]}));
    let said = validate(&created(&admitted(&given).0), &off).unwrap_err();
    assert!(said.contains("while GPU sharing is disabled; "), "{said}");
}

#[test]
fn containers_for_debugging_get_no_card_of_such_a_pod() {
    let mut given = pod(json!({}), json!({"containers": [asking("koordinator.sh/gpu", "50")]}));
    let old = given.clone();
    given["spec"]["ephemeralContainers"] = json!([{"name": "debug"}]);
    let change = asked(Operation::EphemeralContainers, &given, &old);
    let debugged = patched(&given, &mutate(&change, &settings()).patch);
    assert_eq!(debugged["spec"]["ephemeralContainers"][0]["env"], json!([void_entry()]));
}
