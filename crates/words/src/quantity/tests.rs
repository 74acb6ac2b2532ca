use super::*;
use proptest::prelude::*;

fn nano(text: &str) -> Option<i128> {
    Quantity::parse(text).ok().map(|q| q.nano)
}

#[test]
fn every_notation_of_kubernetes_is_read_exactly() {
    for (text, nanos) in [
        ("0", 0),
        ("1", NANO),
        ("+1", NANO),
        ("-1", -NANO),
        ("5.", 5 * NANO),
        (".5", NANO / 2),
        ("0.5", NANO / 2),
        ("00.50", NANO / 2),
        ("1n", 1),
        ("1u", 1_000),
        ("1m", 1_000_000),
        ("1500m", 1_500_000_000),
        ("1k", 1_000 * NANO),
        ("1M", 1_000_000 * NANO),
        ("1G", 1_000_000_000 * NANO),
        ("1T", 1_000_000_000_000 * NANO),
        ("1P", 1_000_000_000_000_000 * NANO),
        ("1E", 1_000_000_000_000_000_000 * NANO),
        ("1Ki", 1024 * NANO),
        ("1Mi", (1 << 20) * NANO),
        ("1.5Gi", 3 * (1 << 29) * NANO),
        ("0.5Ki", 512 * NANO),
        ("1Ti", (1 << 40) * NANO),
        ("1Pi", (1 << 50) * NANO),
        ("1Ei", (1 << 60) * NANO),
        ("0.001Ei", 1_152_921_504_606_846_976_000_000),
        ("1e3", 1_000 * NANO),
        ("1E3", 1_000 * NANO),
        ("1e+3", 1_000 * NANO),
        ("12e-1", 1_200_000_000),
        ("1.25e1", 12_500_000_000),
        ("0e99999", 0),
        ("-0", 0),
    ] {
        assert_eq!(nano(text), Some(nanos), "{text}");
    }
}

#[test]
fn what_is_too_fine_is_rounded_away_from_zero() {
    for (text, nanos) in [
        ("0.1n", 1),
        ("-0.1n", -1),
        ("1e-400", 1),
        ("1e-9223372036854775808", 1),
        ("0.0000000001", 1),
        ("1.0000000001", NANO + 1),
        ("0.0000000000000000000000001", 1),
        ("1.0000000000000000000000001Ki", 1024 * NANO + 1),
    ] {
        assert_eq!(nano(text), Some(nanos), "{text}");
    }
}

#[test]
fn what_is_too_large_becomes_the_largest() {
    for text in ["9223372036854775808", "10E", "8Ei", "1e19", "1e9223372036854775807", "99999Ei"] {
        assert_eq!(nano(text), Some(MAX), "{text}");
        assert_eq!(nano(&format!("-{text}")), Some(-MAX), "-{text}");
    }
    let long = "9".repeat(10_000);
    assert_eq!(Quantity::parse(&long).unwrap().value_ceil(), i64::MAX as u64);
    assert_eq!(Quantity::parse(&long).unwrap().milli_ceil(), i64::MAX as u64);
    assert_eq!(nano("9223372036854775806.5"), Some(MAX - NANO / 2));
}

#[test]
fn what_is_no_quantity_is_refused() {
    for text in [
        "",
        ".",
        "+",
        "-",
        "--1",
        " 1",
        "1 ",
        "1.1.1",
        "1..",
        "K",
        "1K",
        "1ki",
        "1KI",
        "1i",
        "1e",
        "1e+",
        "1e1.5",
        "1e1k",
        "1mm",
        "0x10",
        "1_000",
        "NaN",
        "inf",
        "١",
        "1Zi",
        "1 Gi",
        "five",
        "1e9223372036854775808",
    ] {
        let error = Quantity::parse(text).unwrap_err().to_string();
        assert!(error.contains(&format!("{text:?}")), "{text}: {error}");
    }
}

#[test]
fn values_are_rounded_up() {
    for (text, milli, value) in
        [("1m", 1, 1), ("1u", 1, 1), ("1500m", 1500, 2), ("0", 0, 0), ("-5", 0, 0), ("2", 2000, 2)]
    {
        let q = Quantity::parse(text).unwrap();
        assert_eq!((q.milli_ceil(), q.value_ceil()), (milli, value), "{text}");
    }
}

#[test]
fn numbers_of_json_are_read_as_their_text() {
    for (json, text) in [
        ("2", "2"),
        ("0.1", "0.1"),
        ("1e9", "1G"),
        ("1e-3", "1m"),
        ("-1", "-1"),
        ("\"1Gi\"", "1Gi"),
    ] {
        let read: WrittenAmount = serde_json::from_str(json).unwrap();
        assert_eq!(read.0, Quantity::parse(text), "{json}");
    }
}

proptest! {
    #[test]
    fn what_is_shown_reads_back(nano in -MAX..=MAX) {
        let q = Quantity { nano };
        prop_assert_eq!(Quantity::parse(&q.to_string()), Ok(q));
    }

    #[test]
    fn integers_are_exact(n in any::<i64>(), scale in 0usize..3) {
        let (suffix, factor) = [("", 1), ("k", 1000), ("Ki", 1024)][scale];
        let q = Quantity::parse(&format!("{n}{suffix}")).unwrap();
        prop_assert_eq!(q.nano, (i128::from(n) * factor * NANO).clamp(-MAX, MAX));
    }

    #[test]
    fn no_text_panics(text in "[-+0-9.eEKMGTPimnuk]{0,40}|.*") {
        let _ = Quantity::parse(&text).map(|q| (q.milli_ceil(), q.value_ceil(), q.plus(q)));
    }
}
