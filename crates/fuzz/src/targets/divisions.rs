//! How cards are divided: the files of mig-parted, and the configs of the device plugin.

use crate::cost::Bound;
use divvy_ledger::mig::{Model, check};
use divvy_words::{is_device_plugin_config, mig_configs, mig_configs_text, plugin_config};

/// A JSON value takes far more than its text.
const BOUND: Bound = Bound { base: 1 << 20, each: 2048 };
const MODELS: [&str; 3] = ["NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "NVIDIA-A30"];

/// A text: what is accepted says what it is, and what is wrong is said in a sentence.
pub fn divisions(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let said = |why: String| {
        assert!(why.len() < 1_024 && !why.contains('\u{1b}'), "{why:?} of {text:?}");
    };
    match BOUND.hold(text.len(), || mig_configs(text)) {
        Err(why) => said(why.to_string()),
        Ok(configs) => {
            // A file without any config is none.
            if !configs.is_empty() {
                let printed = mig_configs_text(&configs);
                assert_eq!(mig_configs(&printed).as_ref(), Ok(&configs), "{printed:?} of {text:?}");
            }
            let models = MODELS.map(|name| name.parse::<&'static Model>().ok());
            for model in models.into_iter().chain([None]) {
                let verdicts = check(&configs, model);
                assert_eq!(verdicts.len(), configs.len(), "{text:?}");
                let _ = divvy_views::mig_check(&verdicts);
            }
        }
    }
    let _ = is_device_plugin_config(text);
    match BOUND.hold(text.len(), || plugin_config(text)) {
        Err(why) => said(why.to_string()),
        Ok(config) => {
            for (name, replicas) in config.sharing.iter().flat_map(|sharing| &sharing.resources) {
                assert!(*replicas >= 2 && !name.is_empty(), "{text:?}");
            }
        }
    }
}
