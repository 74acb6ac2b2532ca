//! Moments and how long ago they are.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Of a day, an hour, a minute, in seconds.
const UNITS: [(i64, &str); 3] = [(86_400, "d"), (3_600, "h"), (60, "m")];

/// The years that this form can write.
const FIRST: i64 = -62_167_219_200;
const LAST: i64 = 253_402_300_799;

/// `2026-01-31T12:00:00Z`, of seconds since 1970.
pub(crate) fn rfc3339(seconds: i64) -> String {
    let moment = OffsetDateTime::from_unix_timestamp(seconds.clamp(FIRST, LAST)).ok();
    moment.and_then(|moment| moment.format(&Rfc3339).ok()).unwrap_or_default()
}

/// `45s`, `7m`, `26h`, `3d`, as kubectl writes it: rounded down, two of a unit before it changes.
pub(crate) fn age(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let unit = UNITS.iter().find(|(size, _)| seconds >= 2 * size);
    match unit {
        Some((size, unit)) => format!("{}{unit}", seconds / size),
        None => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_kubernetes_writes_them() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_209_815, "2024-02-29T12:30:15Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (-62_167_219_200, "0000-01-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
            (i64::MAX, "9999-12-31T23:59:59Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
    }

    #[test]
    fn ages_change_their_unit_as_those_of_kubectl() {
        for (seconds, text) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (7_199, "119m"),
            (7_200, "2h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (31_536_000, "365d"),
        ] {
            assert_eq!(age(seconds), text, "{seconds}");
        }
    }
}
