//! Title, totals, and what the looks of a card mean. A colour means a pod and nothing else, so
//! the examples here are grey.

use super::label::Type;
use super::palette::{EDGE, EMPTY, INK, LINE, MUTED, NEUTRAL, NEUTRAL_DARK, WARN};
use super::{MARGIN, WIDTH};
use std::fmt::Write;

const TOP: f64 = 84.0;
const FONT: Type = Type::plain(12.0);
const SWATCH: (f64, f64) = (22.0, 16.0);

/// Writes it; returns where the rows begin.
pub(super) fn header(out: &mut String, totals: &str, any_overbooked: bool) -> f64 {
    let _ = writeln!(
        out,
        "<text x=\"{MARGIN}\" y=\"42\" font-size=\"20\" font-weight=\"700\" fill=\"{INK}\">\
         Card map</text>\n\
         <text x=\"{MARGIN}\" y=\"66\" font-size=\"13\" fill=\"{MUTED}\">{}</text>",
        Type::plain(13.0).fit(totals, WIDTH - 2.0 * MARGIN)
    );
    let mut entries = vec![
        (whole(), "whole card of one pod"),
        (shared(), "shared, a band for each pod"),
        (plain(EMPTY, EDGE, " stroke-dasharray=\"3 2\""), "free"),
        (plain("url(#hatch)", LINE, ""), "stranded: too little for any known share"),
    ];
    if any_overbooked {
        entries.push((plain(EMPTY, WARN, " stroke-width=\"2\""), "overbooked"));
    }
    let mut x = MARGIN;
    for (swatch, label) in entries {
        let _ = writeln!(
            out,
            "<g transform=\"translate({x:.1} {TOP})\">{swatch}<text x=\"{:.0}\" y=\"12\" \
             font-size=\"{}\" fill=\"{MUTED}\">{label}</text></g>",
            SWATCH.0 + 7.0,
            FONT.size
        );
        x += SWATCH.0 + 7.0 + FONT.width(label) + 14.0;
    }
    TOP + 36.0
}

fn plain(fill: &str, edge: &str, style: &str) -> String {
    let (width, height) = SWATCH;
    format!(
        "<rect width=\"{width}\" height=\"{height}\" rx=\"3\" fill=\"{fill}\" \
         stroke=\"{edge}\"{style}/>"
    )
}

fn whole() -> String {
    let (width, height) = (SWATCH.0 - 5.0, SWATCH.1 - 5.0);
    let inner = format!(
        "<rect x=\"2.5\" y=\"2.5\" width=\"{width}\" height=\"{height}\" rx=\"2\" fill=\"none\" \
         stroke=\"{LINE}\"/>"
    );
    plain(NEUTRAL, LINE, "") + &inner
}

fn shared() -> String {
    let (width, half) = (SWATCH.0, SWATCH.1 / 2.0);
    let bands = format!(
        "<rect width=\"{width}\" height=\"{half}\" fill=\"{NEUTRAL}\"/>\
         <rect y=\"{half}\" width=\"{width}\" height=\"{half}\" fill=\"{NEUTRAL_DARK}\"/>"
    );
    bands + &plain("none", EDGE, "")
}
