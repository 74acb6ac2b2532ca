//! Label selectors as kubectl takes them on its command line: `app=web,tier!=test,env in (a, b),!old`.

use crate::problem::short;
use divvy_engine::{Requirement, Selector, Test, Values};

/// Reads a selector. All that its commas divide must hold.
pub fn selector(text: &str) -> Result<Selector, String> {
    let requirements = parts(text).into_iter().map(|part| requirement(part.trim()));
    Ok(Selector::all(requirements.collect::<Result<Vec<_>, _>>()?))
}

/// Between commas, but for those in parentheses.
fn parts(text: &str) -> Vec<&str> {
    let mut depth = 0usize;
    text.split(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

fn requirement(part: &str) -> Result<Requirement, String> {
    let wrong = || {
        format!(
            "{:?} is no part of a selector; allowed are key=value, key!=value, key in (a,b), key notin \
             (a,b), key and !key, with commas between them",
            short(part)
        )
    };
    let of = |key: &str, test: Test| {
        let is_key =
            !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        if is_key { Ok(Requirement { key: key.into(), test }) } else { Err(wrong()) }
    };
    let one = |value: &str| Values::from(vec![value.trim().into()]);
    let is_value = |value: &str| !value.contains(['=', '!', '(', ')']);
    if let Some((key, value)) = part.split_once("!=") {
        return if is_value(value) {
            of(key.trim(), Test::NotIn(one(value)))
        } else {
            Err(wrong())
        };
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return if is_value(value) { of(key.trim(), Test::In(one(value))) } else { Err(wrong()) };
    }
    if let Some(list) = part.strip_suffix(')') {
        let (words, values) = list.split_once('(').ok_or_else(wrong)?;
        let values: Vec<Box<str>> = values.split(',').map(|value| value.trim().into()).collect();
        let mut words = words.split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(key), Some("in"), None) => of(key, Test::In(values.into())),
            (Some(key), Some("notin"), None) => of(key, Test::NotIn(values.into())),
            _ => Err(wrong()),
        };
    }
    match part.strip_prefix('!') {
        Some(key) => of(key.trim(), Test::DoesNotExist),
        None => of(part, Test::Exists),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_engine::Labels;
    use proptest::prelude::*;

    #[test]
    fn selectors_mean_what_they_mean_to_kubectl() {
        let labels: Labels = [("app", "web"), ("gpu.example/model", "a100")].into_iter().collect();
        for (text, expected) in [
            ("app=web", true),
            ("app==web", true),
            ("app = web", true),
            ("app!=web", false),
            ("tier!=test", true),
            ("app in (api, web)", true),
            ("app in (api),app=web", false),
            ("app notin (api)", true),
            ("app", true),
            ("!app", false),
            ("!tier,gpu.example/model=a100", true),
            ("tier", false),
            ("app=", false),
        ] {
            assert_eq!(selector(text).unwrap().matches(&labels), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_selector_is_told_with_what_is_allowed() {
        for text in ["", "a b", "=x", "a in b", "a in (b", "a of (b)", "a=b=c", ",", "a,,b", "a>5"]
        {
            let why = selector(text).unwrap_err();
            assert!(
                why.contains("is no part of a selector; allowed are key=value"),
                "{text}: {why}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z!=(), ]{0,30}|.*") {
            let _ = selector(&text);
        }
    }
}
