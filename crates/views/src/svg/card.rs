//! One card: a vessel that its shares fill from the bottom.

use super::palette::{EDGE, EMPTY, INK, MUTED, Palette};
use super::xml::{escape, fit};
use crate::bar::degree;
use crate::cards::{CardUse, CardUseState, ShareUse};
use crate::wording::Names;
use divvy_ledger::Bytes;
use std::fmt::Write;

/// The height of a card, and of the line with its number above it.
pub(super) const HEIGHT: f64 = 92.0;
pub(super) const HEAD: f64 = 18.0;
/// A line of text; a band of less than two has only the name in it.
const LINE: f64 = 14.0;
const FONT: f64 = 11.0;
/// A band less high than this has no text in it, only a tooltip.
const THINNEST: f64 = 9.5;
const BOLD: &str = " font-weight=\"600\"";

/// What all cards of a picture have in common.
pub(super) struct Look<'s> {
    pub(super) palette: Palette<'s>,
    pub(super) names: Names,
    pub(super) width: f64,
}

impl Look<'_> {
    /// A card with its number above it; its upper left corner is at `x`, `y`.
    pub(super) fn card(&self, out: &mut String, card: &CardUse<'_>, x: f64, y: f64) {
        let width = self.width;
        let _ = writeln!(out, "<g transform=\"translate({x:.1} {:.1})\">", y + HEAD);
        let _ = writeln!(
            out,
            "<text x=\"2\" y=\"-6\" font-size=\"{FONT}\" fill=\"{MUTED}\">{}</text>\
             <text x=\"{:.1}\" y=\"-6\" font-size=\"{FONT}\" fill=\"{MUTED}\" \
             text-anchor=\"end\">{}</text>",
            card.index,
            width - 2.0,
            degree(card).trim()
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
        let dashes = match card.state {
            CardUseState::Free => " stroke-dasharray=\"4 3\"",
            CardUseState::Whole | CardUseState::Shared => "",
        };
        let _ = writeln!(
            out,
            "<rect x=\"0.5\" y=\"0.5\" width=\"{:.1}\" height=\"{:.1}\" rx=\"8\" fill=\"none\" \
             stroke=\"{EDGE}\"{dashes}/></g>",
            width - 1.0,
            HEIGHT - 1.0
        );
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
            CardUseState::Shared | CardUseState::Free => share.bytes.to_string(),
        };
        let colour = self.palette.colour(share.pod);
        let _ = writeln!(
            out,
            "<g><title>{}: {}, {part} % of card {}</title><rect y=\"{top:.2}\" width=\"{:.1}\" \
             height=\"{height:.2}\" fill=\"{colour}\" stroke=\"#ffffff\"/>",
            escape(&share.pod.to_string()),
            share.bytes,
            card.index,
            self.width
        );
        let name = self.names.of(share.pod);
        let middle = top + height / 2.0;
        if height >= 2.0 * LINE + 2.0 {
            self.text(out, &name, FONT, middle - 3.0, INK, BOLD);
            self.text(out, &amount, FONT, middle + 11.0, INK, "");
        } else if height >= THINNEST {
            let font = (height - 2.0).min(FONT);
            self.text(out, &name, font, middle + font * 0.36, INK, BOLD);
        }
        out.push_str("</g>\n");
    }

    /// What is left on top. Hatched if it is of no use to this workload.
    fn free(&self, out: &mut String, card: &CardUse<'_>, height: f64) {
        let free = card.free();
        if free.raw() == 0 {
            return;
        }
        let stranded = card.stranded.raw() > 0;
        let what =
            if stranded { "free, too little for any share of this workload" } else { "free" };
        let fill = if stranded { "url(#hatch)" } else { EMPTY };
        let _ = writeln!(
            out,
            "<g><title>card {}: {free} {what}</title>\
             <rect width=\"{:.1}\" height=\"{height:.2}\" fill=\"{fill}\"/>",
            card.index, self.width
        );
        if height >= LINE && !stranded {
            let text = match card.state {
                CardUseState::Free => "free".to_owned(),
                CardUseState::Whole | CardUseState::Shared => format!("{free} free"),
            };
            self.text(out, &text, FONT, height / 2.0 + 4.0, MUTED, "");
        }
        out.push_str("</g>\n");
    }

    fn text(&self, out: &mut String, text: &str, font: f64, y: f64, colour: &str, style: &str) {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{y:.1}\" font-size=\"{font:.1}\" fill=\"{colour}\" \
             text-anchor=\"middle\"{style}>{}</text>",
            self.width / 2.0,
            // Bold letters are a tenth wider.
            fit(text, self.width - 8.0, if style == BOLD { font * 1.1 } else { font })
        );
    }
}
