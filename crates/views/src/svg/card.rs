//! One card: a vessel that its shares fill from the bottom.

use super::label::Type;
use super::palette::{EDGE, EMPTY, INK, LINE as DARK, MUTED, Palette, WARN};
use super::xml::escape;
use crate::bar::degree;
use crate::cards::{CardUse, CardUseState, ShareUse};
use crate::wording::{Names, count};
use divvy_ledger::Bytes;
use std::fmt::Write;

/// The height of a card, and of the line with its number above it.
pub(super) const HEIGHT: f64 = 92.0;
pub(super) const HEAD: f64 = 18.0;
/// A line of text; a band of less than two has only the name in it.
const LINE: f64 = 14.0;
const FONT: f64 = 11.0;
/// A band less high than this has no text in it, only a tooltip.
const THINNEST: f64 = 13.0;
/// The second outline of a card that is held whole.
const INSET: f64 = 4.5;

/// What all cards of a picture have in common.
pub(super) struct CardStyle<'s> {
    pub(super) palette: Palette<'s>,
    pub(super) names: Names,
    pub(super) width: f64,
}

impl CardStyle<'_> {
    /// A card with its number above it; its upper left corner is at `x`, `y`.
    pub(super) fn card(&self, out: &mut String, card: &CardUse<'_>, x: f64, y: f64) {
        let width = self.width;
        let _ = writeln!(out, "<g transform=\"translate({x:.1} {:.1})\">", y + HEAD);
        let degree = degree(card);
        let degree = match card.class {
            Some(class) => format!("{} {}", escape(class), degree.trim()),
            None => degree,
        };
        let (colour, degree) = match card.overbooked {
            true => (WARN, "overbooked"),
            false => (MUTED, degree.trim()),
        };
        let _ = writeln!(
            out,
            "<text x=\"2\" y=\"-6\" font-size=\"{FONT}\" fill=\"{MUTED}\">{}</text>\
             <text x=\"{:.1}\" y=\"-6\" font-size=\"{FONT}\" fill=\"{colour}\" \
             text-anchor=\"end\">{degree}</text>",
            card.label(),
            width - 2.0,
        );
        out.push_str("<g clip-path=\"url(#card)\">\n");
        let _ = writeln!(out, "<rect width=\"{width:.1}\" height=\"{HEIGHT}\" fill=\"{EMPTY}\"/>");
        let mut top = HEIGHT;
        for share in &card.shares {
            let height = self.height(card, share.bytes.raw());
            top -= height;
            self.share(out, card, share, top, height);
        }
        self.free(out, card, top.max(0.0));
        out.push_str("</g>\n");
        self.outline(out, card);
        out.push_str("</g>\n");
    }

    /// Dashed if it is free, double if it is held whole, strong if it takes nobody new.
    fn outline(&self, out: &mut String, card: &CardUse<'_>) {
        let mut line = |inset: f64, radius: u32, colour: &str, style: &str| {
            let _ = writeln!(
                out,
                "<rect x=\"{inset}\" y=\"{inset}\" width=\"{:.1}\" height=\"{:.1}\" \
                 rx=\"{radius}\" fill=\"none\" stroke=\"{colour}\"{style}/>",
                self.width - 2.0 * inset,
                HEIGHT - 2.0 * inset
            );
        };
        match card.state {
            CardUseState::Free => line(0.5, 8, EDGE, " stroke-dasharray=\"4 3\""),
            CardUseState::Shared
            | CardUseState::TimeSliced
            | CardUseState::Mps
            | CardUseState::Sliced => line(0.5, 8, EDGE, ""),
            CardUseState::Whole => {
                line(0.5, 8, DARK, "");
                line(INSET, 5, DARK, "");
            }
        }
        if card.overbooked {
            line(1.0, 8, WARN, " stroke-width=\"2\"");
        }
    }

    fn height(&self, card: &CardUse<'_>, bytes: u64) -> f64 {
        bytes as f64 / card.capacity.raw().max(1) as f64 * HEIGHT
    }

    fn share(
        &self,
        out: &mut String,
        card: &CardUse<'_>,
        share: &ShareUse<'_>,
        top: f64,
        height: f64,
    ) {
        let part = card.capacity.with(Bytes(share.bytes.raw())).percent();
        let amount = match card.state {
            CardUseState::Whole => "whole card".to_owned(),
            _ if share.slices > 0 => count(share.slices as usize, "slice"),
            _ => share.bytes.to_string(),
        };
        let colour = self.palette.colour(share.pod);
        let _ = writeln!(
            out,
            "<g><title>{}: {}, {part} % of card {}</title><rect y=\"{top:.2}\" width=\"{:.1}\" \
             height=\"{height:.2}\" fill=\"{colour}\" stroke=\"#ffffff\"/>",
            escape(&share.pod.to_string()),
            share.bytes,
            card.label(),
            self.width
        );
        // Where the name that tells namespaces apart has no place, the tooltip still has it.
        let (name, short) = (self.names.of(share.pod), Names::Short.of(share.pod));
        let names = [&*name, &*short];
        let middle = top + height / 2.0;
        let bold = Type::bold(FONT);
        let room = self.room();
        let has_short = names.iter().any(|name| bold.width(name) <= room);
        let lines = (!has_short && height >= 3.0 * LINE + 6.0)
            .then(|| bold.two_lines(&short, room))
            .flatten();
        if let Some((first, second)) = lines {
            self.line(out, &first, bold, middle - 10.0, INK);
            self.line(out, &second, bold, middle + 4.0, INK);
            self.text(out, &[&amount], Type::plain(FONT), middle + 18.0, INK);
        } else if height >= 2.0 * LINE + 2.0 {
            self.text(out, &names, bold, middle - 3.0, INK);
            self.text(out, &[&amount], Type::plain(FONT), middle + 11.0, INK);
        } else if height >= THINNEST {
            // With room for what hangs below the line: the lowest band ends where the card does.
            let size = (height - 3.5).min(FONT);
            self.text(out, &names, Type::bold(size), middle + size * 0.36, INK);
        }
        out.push_str("</g>\n");
    }

    /// What is left on top. Hatched if it is of no use to anybody.
    fn free(&self, out: &mut String, card: &CardUse<'_>, height: f64) {
        let free = card.free();
        if free.raw() == 0 {
            return;
        }
        let stranded = card.stranded.raw() > 0;
        let what = match (card.overbooked, stranded) {
            (true, _) => "free, overbooked: takes nobody new".to_owned(),
            (false, true) => "free, too little for any known share".to_owned(),
            (false, false) => "free".to_owned(),
        };
        let fill = if stranded { "url(#hatch)" } else { EMPTY };
        let _ = writeln!(
            out,
            "<g><title>card {}: {free} {what}</title>\
             <rect width=\"{:.1}\" height=\"{height:.2}\" fill=\"{fill}\"/>",
            card.label(),
            self.width
        );
        if height >= LINE && !stranded {
            let text = match card.state {
                CardUseState::Free => "free".to_owned(),
                _ => format!("{free} free"),
            };
            self.text(out, &[&text], Type::plain(FONT), height / 2.0 + 4.0, MUTED);
        }
        out.push_str("</g>\n");
    }

    /// The first of the texts that fits on the card, in the middle; nothing if none does.
    fn text(&self, out: &mut String, texts: &[&str], font: Type, y: f64, colour: &str) {
        let text = font.first_that_fits(texts, self.room());
        if !text.is_empty() {
            self.line(out, &text, font, y, colour);
        }
    }

    /// For text on a card.
    fn room(&self) -> f64 {
        self.width - 2.0 * INSET - 4.0
    }

    /// A line in the middle; `text` is escaped.
    fn line(&self, out: &mut String, text: &str, font: Type, y: f64, colour: &str) {
        let weight = if font.bold { " font-weight=\"600\"" } else { "" };
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{y:.1}\" font-size=\"{:.1}\" fill=\"{colour}\" \
             text-anchor=\"middle\"{weight}>{text}</text>",
            self.width / 2.0,
            font.size
        );
    }
}
