//! Ports of the node.

use super::set;
use divvy_testbed::dice::Dice;
use serde_json::{Value, json};

const IPS: [&str; 6] = ["", "0.0.0.0", "127.0.0.1", "10.0.0.1", "::", "::1"];

pub(super) fn enter_pod(pod: &mut Value, dice: &mut Dice) {
    let is_host = dice.once_in(6);
    if is_host {
        set(pod, &["spec", "hostNetwork"], true.into());
    }
    for list in ["containers", "initContainers"] {
        let count = pod["spec"][list].as_array().map_or(0, Vec::len);
        for index in 0..count {
            let ports: Vec<Value> = (0..dice.index(3)).map(|_| port(is_host, dice)).collect();
            if !ports.is_empty() {
                pod["spec"][list][index]["ports"] = ports.into();
            }
        }
    }
}

fn port(is_host: bool, dice: &mut Dice) -> Value {
    let number = dice.of(&[80, 443, 8080]);
    let mut port = json!({"containerPort": number});
    if is_host {
        if dice.once_in(2) {
            port["hostPort"] = number.into();
        }
    } else if !dice.once_in(4) {
        port["hostPort"] = dice.of(&[80, 443, 8080, 0]).into();
    }
    if dice.once_in(2) {
        port["protocol"] = dice.of(&["TCP", "UDP", "SCTP"]).into();
    }
    if dice.once_in(2) {
        port["hostIP"] = dice.of(&IPS).into();
    }
    port
}
