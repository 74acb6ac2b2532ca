//! What runs beside the cards: the program of a reservation pod, which keeps one card from
//! everybody but the shares on it, and says which card that is; what puts an isolation provider on a
//! node ([`provider`]); the check inside of a container whether its limit is in force ([`limit`]); and what
//! a node can say of itself ([`look`]).
//!
//! From Kubernetes 1.36 on the kubelet says the UUID too, in the pod's status; the number of the card
//! nobody says but its reservation.

pub mod limit;
pub mod look;
pub mod provider;

use divvy_api::resources::PODS;
use divvy_api::{Api, Failure, PatchKind};
use divvy_words::cards::is_uuid;
use divvy_words::keys;
use nvml_wrapper::Nvml;
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// Why a reservation pod does not know its card.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// The driver's library cannot be used.
    #[error("failed to ask the driver for the card: {0}")]
    Driver(#[from] nvml_wrapper::error::NvmlError),
    /// It has another number of cards than one.
    #[error("found {0} devices, 1 was expected")]
    Count(u32),
}

/// The UUID of the one card that this container sees: as the device plugin wrote it, else as the
/// driver says.
pub fn own_card(visible_devices: Option<&str>) -> Result<String, CardError> {
    if let Some(uuid) = visible_devices.filter(|devices| is_uuid(devices)) {
        return Ok(uuid.to_owned());
    }
    let nvml = Nvml::init()?;
    match nvml.device_count()? {
        1 => Ok(nvml.device_by_index(0)?.uuid()?),
        count => Err(CardError::Count(count)),
    }
}

/// The number of the one card that this container sees, by its device node `/dev/nvidia<number>`:
/// containers have it under the name that it has on the machine.
pub fn own_number(devices: &Path) -> Option<u32> {
    let entries = std::fs::read_dir(devices).ok()?.flatten();
    let number = |name: &str| name.strip_prefix("nvidia")?.parse().ok();
    let mut numbers = entries.filter_map(|entry| number(entry.file_name().to_str()?));
    numbers.next().filter(|_| numbers.next().is_none())
}

/// How often a report is tried that failed for another reason than a refusal.
const TRIES: u32 = 10;

/// Writes the card on the pod, and its number if that is known, unless somebody forbids it.
pub async fn report(api: &Api, namespace: &str, pod: &str, card: &str, number: Option<u32>) {
    let number = number.map(|number| number.to_string());
    let annotations = json!({ keys::RESERVED_CARD: card, keys::RESERVED_NUMBER: number });
    let body = json!({ "metadata": { "annotations": annotations } }).to_string().into_bytes();
    let path = PODS.path_of(namespace, pod);
    for attempt in 1..=TRIES {
        let Err(why) = api.patch(&path, PatchKind::Merge, body.clone()).await else { return };
        if matches!(why, Failure::NotFound(_) | Failure::Refused { .. }) {
            tracing::info!(%why, "may not say which card this is; the kubelet has to");
            return;
        }
        tracing::warn!(%why, attempt, "failed to say which card this is, will try again");
        tokio::time::sleep(Duration::from_secs(1 << attempt.min(5))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_plugins_word_is_enough_and_no_other_word_is_taken_for_a_card() {
        assert_eq!(own_card(Some("GPU-1")).unwrap(), "GPU-1");
        for text in ["void", "all", "GPU-1,GPU-2", ""] {
            // No driver on this machine, or one that is asked.
            assert_ne!(own_card(Some(text)).ok().as_deref(), Some(text));
        }
    }

    #[test]
    fn the_number_of_a_card_is_that_of_its_one_device_node() {
        let devices = std::env::temp_dir().join(format!("divvy-devices-{}", std::process::id()));
        std::fs::create_dir_all(&devices).unwrap();
        let add = |name: &str| std::fs::write(devices.join(name), "").unwrap();
        for other in ["nvidiactl", "nvidia-uvm", "null"] {
            add(other);
        }
        assert_eq!(own_number(&devices), None);
        add("nvidia3");
        assert_eq!(own_number(&devices), Some(3));
        add("nvidia4");
        assert_eq!(own_number(&devices), None, "one of two is not the card");
        std::fs::remove_dir_all(&devices).unwrap();
        assert_eq!(own_number(&devices), None);
    }
}
