//! What is switched on by name: `--feature-gates GPUIsolationLevel=true`.

use crate::problem::short;
use std::str::FromStr;

/// Features that are off unless somebody asks for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// Whether levels of isolation are told apart.
    pub isolation_level: bool,
}

const ISOLATION_LEVEL: &str = "GPUIsolationLevel";

impl FromStr for FeatureGates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut gates = Self::default();
        for gate in text.split(',').filter(|gate| !gate.is_empty()) {
            let (name, value) = gate.split_once('=').unwrap_or((gate, ""));
            if name != ISOLATION_LEVEL {
                return Err(format!(
                    "{:?} is no feature gate; known is {ISOLATION_LEVEL}",
                    short(name)
                ));
            }
            gates.isolation_level = value.parse().map_err(|_| {
                format!("{name}={}: allowed are {name}=true and {name}=false", short(value))
            })?;
        }
        Ok(gates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_named_with_true_or_false() {
        let read = |text: &str| text.parse::<FeatureGates>();
        let on = FeatureGates { isolation_level: true };
        assert_eq!(read(""), Ok(FeatureGates::default()));
        assert_eq!(read("GPUIsolationLevel=true"), Ok(on));
        assert_eq!(
            read("GPUIsolationLevel=true,GPUIsolationLevel=false"),
            Ok(FeatureGates::default())
        );
        assert_eq!(
            read("GpuIsolationLevel=true").unwrap_err(),
            "\"GpuIsolationLevel\" is no feature gate; known is GPUIsolationLevel"
        );
        for wrong in ["GPUIsolationLevel", "GPUIsolationLevel=", "GPUIsolationLevel=1"] {
            let why = read(wrong).unwrap_err();
            assert!(
                why.ends_with("allowed are GPUIsolationLevel=true and GPUIsolationLevel=false"),
                "{why}"
            );
        }
    }
}
