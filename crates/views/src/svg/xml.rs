//! Text inside XML.

/// Safe as content and as an attribute. Pod names come from users.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML has no way to write these, not even escaped.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// As much of a text as fits into so many pixels, escaped. Fonts differ, so this is careful.
pub(super) fn fit(text: &str, pixels: f64, font_size: f64) -> String {
    let room = (pixels / (font_size * 0.57)).floor().max(0.0) as usize;
    if text.chars().count() <= room {
        return escape(text);
    }
    match room {
        0 | 1 => String::new(),
        room => {
            let start: String = text.chars().take(room - 1).collect();
            format!("{}…", escape(start.trim_end_matches(['-', '.', ' '])))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_control_characters_are_escaped() {
        assert_eq!(
            escape("<a b='1' c=\"2\">&\x1b\u{0}"),
            "&lt;a b=&#39;1&#39; c=&quot;2&quot;&gt;&amp;\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn text_that_does_not_fit_is_cut() {
        assert_eq!(fit("notebook-a", 100.0, 11.0), "notebook-a");
        assert_eq!(fit("notebook-a", 40.0, 11.0), "noteb…");
        assert_eq!(fit("<<<<<<<<", 26.0, 11.0), "&lt;&lt;&lt;…");
        assert_eq!(fit("notebook-a", 5.0, 11.0), "");
    }
}
