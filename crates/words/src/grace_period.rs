//! How long the containers of a share may take to end: for so long its cards stay closed if it is
//! deleted by force, for nobody sees when they have ended.

use crate::manifest::PodManifest;

/// The most that a share is given, in seconds, if nobody says otherwise.
pub const MAX_GRACE_PERIOD: u32 = 600;

/// Whether a share may have the time to end that its pod says, with at most so many seconds. If not,
/// the reason. Without a word of the pod it is Kubernetes' 30 s.
pub fn grace_period_allowed(spec: &PodManifest, most: u32) -> Result<(), String> {
    let asked = spec.termination_grace_period_seconds.unwrap_or(30);
    if asked <= i64::from(most) {
        return Ok(());
    }
    Err(format!(
        "spec.terminationGracePeriodSeconds: {asked} is too long for a pod with a GPU share, whose cards stay closed \
         for so long if it is deleted by force; allowed are 0 to {most}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_at_most_so_many_seconds_to_end() {
        for (asked, most, is_allowed) in [
            (Some(600), 600, true),
            (Some(601), 600, false),
            (Some(0), 1, true),
            (Some(i64::MIN), 1, true),
            (Some(i64::MAX), u32::MAX, false),
            (None, 30, true),
            (None, 29, false),
        ] {
            let termination_grace_period_seconds = asked;
            let spec = PodManifest { termination_grace_period_seconds, ..PodManifest::default() };
            let expected = format!(
                "spec.terminationGracePeriodSeconds: {} is too long for a pod with a GPU share, whose cards stay closed \
                 for so long if it is deleted by force; allowed are 0 to {most}",
                asked.unwrap_or(30)
            );
            let expected = if is_allowed { Ok(()) } else { Err(expected) };
            assert_eq!(grace_period_allowed(&spec, most), expected, "{asked:?} of {most}");
        }
    }
}
