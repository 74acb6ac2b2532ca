//! Text that is known to fit. Which font a reader has is not known, so every width is that of a
//! wide one (DejaVu Sans), and what might not fit is not drawn.

use super::xml::escape;
use crate::wording::{cut_end, cut_middle};
use std::borrow::Cow;

/// A name that is cut shorter than this says nothing.
const SHORTEST: usize = 6;

/// How a text is set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Type {
    pub(super) size: f64,
    pub(super) bold: bool,
}

impl Type {
    pub(super) const fn plain(size: f64) -> Self {
        Self { size, bold: false }
    }

    pub(super) const fn bold(size: f64) -> Self {
        Self { size, bold: true }
    }

    /// The width of a text in pixels, or a little more.
    pub(super) fn width(self, text: &str) -> f64 {
        let ems: f64 = text.chars().map(em).sum();
        ems * self.size * if self.bold { 1.0 } else { 0.91 }
    }

    /// The text, or as much of it as fits with an ellipsis: of a sentence the start, of a name both
    /// ends, because names of pods that belong together begin alike.
    fn cut(self, text: &str, pixels: f64) -> Option<String> {
        if self.width(text) <= pixels {
            return Some(text.to_owned());
        }
        let cut = if text.contains(' ') { cut_end } else { cut_middle };
        // No letter is narrower than a third of its height.
        let most = text.chars().count().min((pixels / self.size * 3.0) as usize);
        let lengths = (SHORTEST + 1..most).rev();
        let mut texts = lengths.map(|length| cut(text, length));
        texts.find(|text| self.width(text) <= pixels).map(Cow::into_owned)
    }

    /// The first of the texts that fits, else the last one cut, else nothing; escaped.
    pub(super) fn first_that_fits(self, texts: &[&str], pixels: f64) -> String {
        let whole = texts.iter().find(|text| self.width(text) <= pixels);
        let text = whole.map(|text| (*text).to_owned());
        let text = text.or_else(|| self.cut(texts.last()?, pixels));
        escape(&text.unwrap_or_default())
    }

    /// A name in one line or two, each escaped: it is broken where its parts end, and where even two lines
    /// are too short the second is cut. Nothing if not even that says something.
    pub(super) fn two_lines(self, name: &str, pixels: f64) -> Option<(String, String)> {
        if self.width(name) <= pixels {
            return Some((escape(name), String::new()));
        }
        let mut breaks = name.match_indices(['-', '.', '/', '_']).map(|(at, _)| at + 1);
        let at = breaks.rfind(|at| self.width(&name[..*at]) <= pixels)?;
        let rest = self.cut(&name[at..], pixels)?;
        Some((escape(&name[..at]), escape(&rest)))
    }

    /// As much of a text as fits, escaped.
    pub(super) fn fit(self, text: &str, pixels: f64) -> String {
        self.first_that_fits(&[text], pixels)
    }
}

/// The width of a bold letter, in parts of the font size.
const fn em(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' => 0.4,
        'f' | 'r' | 't' | '-' | '/' | '(' | ')' | 'I' | 'J' => 0.5,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 1.1,
        'a'..='z' | '0'..='9' | '_' => 0.72,
        ' '..='~' => 0.88,
        _ => 1.1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_does_not_fit_is_cut_or_left_out() {
        let font = Type::bold(10.0);
        assert_eq!(font.fit("notebook-a", 100.0), "notebook-a");
        assert_eq!(font.fit("notebook-a-b", 68.0), "note…-a-b");
        assert_eq!(font.fit("notebook-a-b", 40.0), "", "n…b could be any of them");
        assert_eq!(font.fit("<<<<<<<<", 66.0), "&lt;&lt;&lt;…&lt;&lt;&lt;");
    }

    #[test]
    fn a_name_is_cut_in_its_middle_so_that_its_neighbours_look_different() {
        let font = Type::bold(10.0);
        let cut = |name| font.fit(name, 120.0);
        let (first, second) =
            (cut("train-large-model-worker-1"), cut("train-large-model-worker-2"));
        assert_ne!(first, second);
        assert_eq!(first, "train-la…-worker-1");
        let sentence = font.fit("the end of a sentence says least", 120.0);
        assert!(sentence.starts_with("the end of a") && sentence.ends_with('…'), "{sentence}");
    }

    #[test]
    fn names_that_differ_in_their_middle_are_told_apart_in_two_lines() {
        let font = Type::bold(14.0);
        let lines = |name| font.two_lines(name, 158.0).unwrap();
        assert_eq!(lines("a100-1"), ("a100-1".to_owned(), String::new()));
        let (first, second) = lines("ip-10-0-12-34.eu-central-1.compute.internal");
        assert_eq!((&*first, &*second), ("ip-10-0-12-34.eu-", "central-….internal"));
        let (other, _) = lines("ip-10-0-13-7.eu-central-1.compute.internal");
        assert_ne!(first, other);
        assert_eq!(font.two_lines("withoutanyplacetobreakitat", 158.0), None);
    }

    #[test]
    fn a_shorter_name_is_taken_before_one_is_cut() {
        let names = ["default/gpu-sharing", "gpu-sharing"];
        assert_eq!(Type::bold(10.0).first_that_fits(&names, 200.0), "default/gpu-sharing");
        assert_eq!(Type::bold(10.0).first_that_fits(&names, 80.0), "gpu-sharing");
        assert_eq!(Type::bold(10.0).first_that_fits(&names, 66.0), "gpu-…ring");
    }
}
