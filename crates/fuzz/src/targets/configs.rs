//! Configuration files.

use crate::cost::Bound;
use serde_json::json;

const BOUND: Bound = Bound { base: 256 << 10, each: 512 };

/// A configuration: what is accepted can be placed by, also inside of a ConfigMap.
pub fn configs(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let read = BOUND.hold(text.len(), || divvy_words::config(text));
    let config = match read {
        Ok(config) => config,
        Err(why) => {
            let why = why.to_string();
            assert!(why.len() < 1_024 && !why.contains('\u{1b}'), "{why:?} of {text:?}");
            return;
        }
    };
    let weights = [config.weights.gpu, config.weights.cpu, config.weights.memory];
    assert!(weights.iter().any(|weight| *weight > 0), "{text:?}");
    assert!(weights.iter().all(|weight| *weight <= 1000), "{text:?}");
    let thresholds = [config.thresholds.gpu, config.thresholds.cpu, config.thresholds.memory];
    assert!(thresholds.iter().all(|part| (1..=1_000_000).contains(part)), "{text:?}");
    let is_map = serde_saphyr::from_str::<serde_json::Value>(text).is_ok_and(|v| v.is_object());
    let is_inside = text.contains("ConfigMap");
    if is_map && !is_inside {
        let map = json!({ "kind": "ConfigMap", "data": { "config.yaml": text } }).to_string();
        assert_eq!(divvy_words::config(&map), Ok(config), "{text:?}");
    }
}
