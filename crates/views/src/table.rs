//! Columns as kubectl prints them: plain, left-aligned, no boxes, nothing behind the last cell.

use crate::paint::{Painter, Tint};
use crate::wording::clean;

/// Between columns. Two, so that `awk -F'  +'` keeps cells with single spaces together.
const GAP: usize = 2;

/// One cell.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    tint: Option<Tint>,
}

impl Cell {
    pub(crate) fn tinted(text: &str, tint: Tint) -> Self {
        Self { tint: Some(tint), ..text.into() }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self { text: clean(text).into_owned(), tint: None }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

/// Rows under a header.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// The header, in upper case.
    pub(crate) fn new(header: &[&'static str]) -> Self {
        Self { header: header.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, each with its end.
    pub(crate) fn render(&self, painter: Painter) -> String {
        let mut widths: Vec<usize> = self.header.iter().map(|h| h.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.text.chars().count());
            }
        }
        let mut out = String::new();
        let header: Vec<Cell> = self.header.iter().map(|h| Cell::from(*h)).collect();
        for row in std::iter::once(&header).chain(&self.rows) {
            write_row(&mut out, row, &widths, painter);
        }
        out
    }
}

fn write_row(out: &mut String, row: &[Cell], widths: &[usize], painter: Painter) {
    // Spaces are owed until something follows them: no line ends in one.
    let mut owed = 0;
    for (cell, width) in row.iter().zip(widths) {
        if !cell.text.is_empty() {
            out.extend(std::iter::repeat_n(' ', owed));
            owed = 0;
            match cell.tint {
                Some(tint) => out.push_str(&painter.paint(&cell.text, tint)),
                None => out.push_str(&cell.text),
            }
        }
        // Escape codes take no place on the screen, so the text alone is counted.
        owed += width - cell.text.chars().count().min(*width) + GAP;
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["POD", "NODE", "STATUS"]);
        table.push(vec!["ml/größe".into(), "".into(), Cell::tinted("placed", Tint::Good)]);
        table.push(vec!["a".into(), Cell::tinted("n-1", Tint::Bad), "".into()]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_in_characters() {
        insta::assert_snapshot!(table().render(Painter::new(false)), @"
        POD       NODE  STATUS
        ml/größe        placed
        a         n-1
        ");
    }

    #[test]
    fn colours_do_not_move_columns_and_no_line_ends_in_a_space() {
        let plain = table().render(Painter::new(false));
        let colour = table().render(Painter::new(true));
        let stripped = ["32", "31", "0"]
            .iter()
            .fold(colour.clone(), |text, code| text.replace(&format!("\x1b[{code}m"), ""));
        assert_ne!(plain, colour);
        assert_eq!(plain, stripped);
        assert!(plain.lines().all(|line| !line.ends_with(' ')));
    }

    #[test]
    fn control_characters_of_users_do_not_reach_the_terminal() {
        let mut table = Table::new(&["POD"]);
        table.push(vec!["a\x1b[31m\nb".into()]);
        assert_eq!(table.render(Painter::new(false)), "POD\na\\u{1b}[31m\\nb\n");
    }
}
