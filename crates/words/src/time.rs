//! Times as Kubernetes writes them.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Seconds since 1970 of an RFC 3339 time like `2026-01-31T12:00:00Z`.
pub(crate) fn seconds(text: &str) -> Option<i64> {
    // The library takes any character between date and time, Kubernetes takes this one.
    let is_divided = matches!(text.as_bytes().get(10), Some(b'T' | b't'));
    let time = OffsetDateTime::parse(text, &Rfc3339).ok().filter(|_| is_divided)?;
    Some(time.unix_timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_read_in_every_form_of_rfc_3339() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-03-01T00:00:00Z", Some(951_868_800)),
            ("2024-02-29T12:30:15Z", Some(1_709_209_815)),
            ("2024-02-29t12:30:15.123456z", Some(1_709_209_815)),
            ("2024-02-29T13:30:15+01:00", Some(1_709_209_815)),
            ("2024-02-29T07:00:15-05:30", Some(1_709_209_815)),
            ("1969-12-31T23:59:59Z", Some(-1)),
            ("0000-01-01T00:00:00Z", Some(-62_167_219_200)),
            ("9999-12-31T23:59:59Z", Some(253_402_300_799)),
            ("2023-02-29T00:00:00Z", None),
            ("2024-13-01T00:00:00Z", None),
            ("2024-00-01T00:00:00Z", None),
            ("2024-01-01T24:00:00Z", None),
            ("2024-01-01T00:00:00", None),
            ("2024-01-01T00:00:00.Z", None),
            ("2024-01-01", None),
            ("2024-01-01 00:00:00Z", None),
            ("24-01-01T00:00:00Z", None),
            ("2024-01-01T00:00:00+1", None),
            ("", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[-0-9TZ:.+]{0,30}|.*") {
            let _ = seconds(&text);
        }
    }
}
