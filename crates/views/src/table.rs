//! Columns as kubectl prints them: plain, left-aligned, no boxes, nothing behind the last cell.

use crate::options::TextOptions;
use crate::paint::{Painter, Tint};
use crate::wording::{clean, cut_end, cut_list, cut_middle};
use crate::xml::escape;
use std::borrow::Cow;
use std::cmp::Ordering;

/// Between columns. Two, so that `awk -F'  +'` keeps cells with single spaces together.
const GAP: usize = 2;
/// Where a terminal is too narrow, columns become as narrow as this, step by step: names first, then
/// sentences, of which the start says most.
const STEPS: [(Width, usize); 6] = [
    (Width::Name, 28),
    (Width::Sentence, 40),
    (Width::Name, 16),
    (Width::Sentence, 24),
    (Width::Name, 12),
    (Width::Sentence, 16),
];
/// After so many of these all is still read well.
const READ_WELL: usize = 2;
/// What the names of most resources begin with; without it they are still known.
const VENDOR: &str = "nvidia.com/";
/// The column that says how a row stands: it stays.
const STATUS: &str = "STATUS";

/// What the cells of a column are, as far as it matters for cutting them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    /// They are cut in the middle: names that belong together begin alike.
    Name,
    /// They are cut at the end, as lists are.
    Sentence,
    /// They are never cut: a part of a number is another number.
    Amount,
}

/// One cell.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    tint: Option<Tint>,
    /// Whether it is names with commas between them, of which a few say enough.
    is_list: bool,
}

impl Cell {
    /// Names; `-` if there are none.
    pub(crate) fn list(names: impl IntoIterator<Item = String>) -> Self {
        let names = names.into_iter().collect::<Vec<_>>().join(",");
        let text = if names.is_empty() { "-" } else { &*names };
        Self { is_list: true, ..text.into() }
    }

    pub(crate) fn tinted(text: &str, tint: Tint) -> Self {
        Self { tint: Some(tint), ..text.into() }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self { text: clean(text).into_owned(), tint: None, is_list: false }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

/// Rows under a header.
#[derive(Clone, Debug)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<Cell>>,
    /// What is said instead of a table without rows.
    nothing: String,
    /// Columns that a narrow terminal leaves out before names are cut short, the first of these first.
    least: &'static [&'static str],
}

impl Table {
    /// The header, in upper case.
    pub(crate) fn new(header: &[&str]) -> Self {
        Self {
            header: header.iter().map(|name| (*name).to_owned()).collect(),
            rows: Vec::new(),
            nothing: String::new(),
            least: &[],
        }
    }

    /// Which columns a narrow terminal can do without, the first of these first.
    pub(crate) fn least(self, least: &'static [&'static str]) -> Self {
        Self { least, ..self }
    }

    /// What is said instead of a table without rows.
    pub fn or_say(self, nothing: impl Into<String>) -> Self {
        Self { nothing: nothing.into(), ..self }
    }

    pub(crate) fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, each with its end. On a terminal they are no longer than it is wide, unless all is
    /// asked for; elsewhere nothing is cut.
    pub fn render(&self, options: TextOptions) -> String {
        if self.rows.is_empty() && !self.nothing.is_empty() {
            return format!("{}\n", self.nothing);
        }
        let painter = Painter::new(options.colour);
        let header = (!options.no_headers).then_some(&self.header).into_iter();
        let mut widths: Vec<usize> = self.header.iter().map(|h| h.chars().count()).collect();
        if options.no_headers {
            widths.fill(0);
        }
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.text.chars().count());
            }
        }
        let mut left_out = Vec::new();
        if options.width > 0 && !options.wide {
            left_out = self.shorten(&mut widths, options.width);
        }
        let mut out = String::new();
        let header: Vec<Vec<Cell>> =
            header.map(|header| header.iter().map(|h| Cell::from(h.as_str())).collect()).collect();
        for row in header.iter().chain(&self.rows) {
            write_row(&mut out, row, &widths, painter);
        }
        if !left_out.is_empty() {
            let left_out = left_out.join(", ");
            out.push_str(&format!("... without {left_out}: -o wide shows all\n"));
        }
        out
    }

    /// The rows by one column: the largest amounts first, and texts by letter. Amounts of the same
    /// size, and what is no amount, keep their order.
    pub fn sort_by(&mut self, column: &str) -> Result<(), String> {
        let Some(at) = self.header.iter().position(|name| name.eq_ignore_ascii_case(column)) else {
            let allowed: Vec<String> = self.header.iter().map(|h| h.to_ascii_lowercase()).collect();
            return Err(format!("no column {column:?}; there are {}", allowed.join(", ")));
        };
        self.rows.sort_by(|a, b| match (a.get(at), b.get(at)) {
            (Some(a), Some(b)) => match (amount(&a.text), amount(&b.text)) {
                (Some(a), Some(b)) => b.total_cmp(&a),
                (a @ Some(_), None) | (a @ None, Some(_)) => b_first(a.is_none()),
                (None, None) => a.text.cmp(&b.text),
            },
            _ => Ordering::Equal,
        });
        Ok(())
    }

    /// As RFC 4180 has it: a line each, in quotes what needs them.
    pub fn csv(&self, no_headers: bool) -> String {
        let header = self.header.iter().map(String::as_str);
        let header: Vec<&str> = header.filter(|_| !no_headers).collect();
        let rows = self.rows.iter().map(|row| row.iter().map(|cell| &*cell.text).collect());
        let mut out = String::new();
        for row in std::iter::once(header).filter(|header| !header.is_empty()).chain(rows) {
            let cells: Vec<Cow<'_, str>> = row.into_iter().map(quoted).collect();
            out.push_str(&cells.join(","));
            out.push('\n');
        }
        out
    }

    /// As a table of a page.
    pub(crate) fn html(&self) -> String {
        if self.rows.is_empty() {
            return format!("<p>{}</p>\n", escape(&self.nothing));
        }
        let line = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
            let cells = cells.map(|text| format!("<{tag}>{}</{tag}>", escape(text)));
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        // A page breaks lines between words.
        let apart = |cell: &Cell| match cell.is_list {
            true => cell.text.replace(',', ", "),
            false => cell.text.clone(),
        };
        let rows = self.rows.iter().map(|row| {
            let cells: Vec<String> = row.iter().map(apart).collect();
            line("td", &mut cells.iter().map(String::as_str))
        });
        let rows: String = rows.collect();
        let header = line("th", &mut self.header.iter().map(String::as_str));
        format!("<table>\n<thead>{header}</thead>\n<tbody>\n{rows}</tbody>\n</table>\n")
    }

    /// Takes from the widest columns what is too much for a line as far as they are still read well, then
    /// whole columns that matter least, then the rest of what names and sentences can do without, and then
    /// the last columns, but for how rows stand and what they are about. Returns the names of those that go.
    fn shorten(&self, widths: &mut [usize], line: usize) -> Vec<&str> {
        let kinds: Vec<Width> = (0..widths.len()).map(|column| self.kind(column)).collect();
        if excess(widths, line) > 0 {
            self.without_vendor(widths);
        }
        let mut whole = widths.to_vec();
        let mut left_out = Vec::new();
        let named = self.least.iter().filter_map(|name| self.header.iter().position(|h| h == name));
        let stands =
            |column: &usize| kinds[*column] == Width::Sentence || self.header[*column] == STATUS;
        let last = (1..widths.len()).rev().filter(|column| !stands(column));
        let to_go = named.map(|column| (column, READ_WELL)).chain(last.map(|c| (c, STEPS.len())));
        let mut to_go = to_go.peekable();
        loop {
            widths.copy_from_slice(&whole);
            let steps = to_go.peek().map_or(STEPS.len(), |(_, steps)| *steps);
            self.cut(widths, &kinds, line, &STEPS[..steps]);
            let Some((column, _)) = to_go.next().filter(|_| excess(widths, line) > 0) else {
                break;
            };
            if std::mem::take(&mut whole[column]) > 0 {
                left_out.push(column);
            }
        }
        left_out.sort_unstable();
        left_out.into_iter().filter_map(|column| Some(&**self.header.get(column)?)).collect()
    }

    /// Resources need less room without their vendor.
    fn without_vendor(&self, widths: &mut [usize]) {
        for (column, width) in widths.iter_mut().enumerate() {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            let cells = cells.map(|cell| without_vendor(&cell.text).chars().count());
            let header = self.header[column].chars().count();
            *width = cells.max().unwrap_or(0).max(header).min(*width);
        }
    }

    fn cut(&self, widths: &mut [usize], kinds: &[Width], line: usize, steps: &[(Width, usize)]) {
        for &(kind, least) in steps {
            // The name of a column is read whole.
            let least = |column: usize| least.max(self.header[column].chars().count());
            loop {
                let excess = excess(widths, line);
                let is_wide = |i: &usize| kinds[*i] == kind && widths[*i] > least(*i);
                let mut wide: Vec<usize> = (0..widths.len()).filter(is_wide).collect();
                wide.sort_by_key(|i| std::cmp::Reverse(widths[*i]));
                let Some(widest) = wide.first().copied().filter(|_| excess > 0) else { break };
                // No further than the next one: they are cut together then.
                let floor = wide.get(1).map_or(0, |next| widths[*next].saturating_sub(1));
                widths[widest] =
                    widths[widest].saturating_sub(excess).max(floor).max(least(widest));
            }
        }
    }

    fn kind(&self, column: usize) -> Width {
        let cells = || self.rows.iter().filter_map(|row| row.get(column)).map(|cell| &*cell.text);
        let is_list = self.rows.iter().filter_map(|row| row.get(column)).any(|cell| cell.is_list);
        if cells().all(is_amount) && !is_list {
            Width::Amount
        } else if is_list || cells().any(|text| text.contains(' ')) {
            Width::Sentence
        } else {
            Width::Name
        }
    }
}

/// What is longer has the same amount in other units behind it: `2 x 40000 MiB (39.1 GiB, 0.49 each)`.
const LONGEST_AMOUNT: usize = 24;

/// Resources, or amounts of them, without their vendor. In a sentence `gpu` alone would be another word.
fn without_vendor(text: &str) -> Cow<'_, str> {
    let is_resource = text.starts_with(VENDOR) || text.starts_with(|c: char| c.is_ascii_digit());
    if is_resource { text.replace(VENDOR, "").into() } else { text.into() }
}

/// An amount that is too long without the same in other units.
fn without_other_units(text: &str, width: usize) -> &str {
    let is_number = text.starts_with(|c: char| c.is_ascii_digit());
    let own = text.split_once(" (").filter(|_| is_number && text.chars().count() > width);
    own.map_or(text, |(own, _)| own)
}

/// Whether a cell may stand among amounts, as cards do by their numbers.
fn is_amount(text: &str) -> bool {
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '#'));
    let is_name = text.contains(VENDOR) || text.contains(" or ");
    (is_number && text.len() <= LONGEST_AMOUNT && !is_name) || matches!(text, "" | "no GPU")
}

/// By how much a line of such columns is too long; those without width are not there.
fn excess(widths: &[usize], line: usize) -> usize {
    let shown = widths.iter().filter(|width| **width > 0);
    let (sum, count) = shown.fold((0, 0usize), |(sum, count), width| (sum + width, count + 1));
    (sum + GAP * count.saturating_sub(1)).saturating_sub(line)
}

const fn b_first(is_b: bool) -> Ordering {
    if is_b { Ordering::Greater } else { Ordering::Less }
}

/// What a cell amounts to: its first number with its unit, if it begins with one that is not only part
/// of a name: `79.1/80.0Gi`, `50Mi/80.0Gi`, `5/8`, `1.5`, `90s`.
fn amount(text: &str) -> Option<f64> {
    let (used, total) = text.split_once('/').unwrap_or((text, ""));
    let split = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '-'));
        let (number, unit) = text.split_at(end.unwrap_or(text.len()));
        Some((number.parse::<f64>().ok()?, scale(unit)?, !unit.is_empty()))
    };
    let (number, own, has_unit) = split(used)?;
    let shared = if has_unit { own } else { split(total).map_or(1.0, |(_, scale, _)| scale) };
    Some(number * shared)
}

/// What a unit of a cell is of the smallest.
fn scale(unit: &str) -> Option<f64> {
    Some(match unit {
        "" | "B" | "s" | "card" | "GPU" | "GPUs" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        "Mi" | "MiB" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    })
}

/// In quotes if it has what would end a cell.
fn quoted(text: &str) -> Cow<'_, str> {
    if text.contains(['"', ',', '\n', '\r']) {
        Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(text)
    }
}

fn write_row(out: &mut String, row: &[Cell], widths: &[usize], painter: Painter) {
    // Spaces are owed until something follows them: no line ends in one.
    let mut owed = 0;
    for (cell, width) in row.iter().zip(widths).filter(|(_, width)| **width > 0) {
        let is_long = cell.text.chars().count() > *width;
        let text = if is_long { without_vendor(&cell.text) } else { (&*cell.text).into() };
        let text = match text.contains(' ') {
            true => cut_end(without_other_units(&text, *width), *width),
            false if cell.is_list => cut_list(&text, *width),
            false => cut_middle(&text, *width),
        };
        if !text.is_empty() {
            out.extend(std::iter::repeat_n(' ', owed));
            owed = 0;
            match cell.tint {
                Some(tint) => out.push_str(&painter.paint(&text, tint)),
                None => out.push_str(&text),
            }
        }
        // Escape codes take no place on the screen, so the text alone is counted.
        owed += width - text.chars().count().min(*width) + GAP;
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_by_amounts_whatever_their_units() {
        let mut table = Table::new(&["NODE", "GPU-MEM", "AGE"]);
        for (node, memory, age) in [
            ("a", "50Mi/80.0Gi", "90s"),
            ("b", "-", "2m"),
            ("c", "79.1/80.0Gi", "3h"),
            ("d", "0.0/80.0Gi", "1d"),
        ] {
            table.push(vec![node.into(), memory.into(), age.into()]);
        }
        let mut order = |column| {
            table.sort_by(column).unwrap();
            table.rows.iter().map(|row| row[0].text.clone()).collect::<Vec<_>>().concat()
        };
        assert_eq!(order("gpu-mem"), "cadb");
        assert_eq!(order("AGE"), "dcba");
        assert_eq!(order("node"), "abcd");
        let why = table.sort_by("size").unwrap_err();
        assert_eq!(why, "no column \"size\"; there are node, gpu-mem, age");
    }

    #[test]
    fn csv_keeps_what_would_end_a_cell_in_quotes_and_cuts_nothing() {
        let mut table = Table::new(&["POD", "MESSAGE"]);
        table.push(vec!["a".into(), "\"2Gi\" given, write 2048".into()]);
        assert_eq!(table.csv(false), "POD,MESSAGE\na,\"\"\"2Gi\"\" given, write 2048\"\n");
        assert_eq!(table.csv(true), "a,\"\"\"2Gi\"\" given, write 2048\"\n");
    }

    #[test]
    fn a_page_shows_no_markup_of_users() {
        let mut table = Table::new(&["POD"]);
        table.push(vec!["<script>alert(1)</script>".into()]);
        assert!(table.html().contains("<td>&lt;script&gt;alert(1)&lt;/script&gt;</td>"));
    }

    #[test]
    fn without_headers_only_rows_are_left_and_no_wider_than_they_need() {
        let mut table = Table::new(&["NAMESPACE", "POD"]);
        table.push(vec!["ml".into(), "a".into()]);
        let options = TextOptions { no_headers: true, ..TextOptions::default() };
        assert_eq!(table.render(options), "ml  a\n");
    }

    fn table() -> Table {
        let mut table = Table::new(&["POD", "NODE", "STATUS"]);
        table.push(vec!["ml/größe".into(), "".into(), Cell::tinted("placed", Tint::Good)]);
        table.push(vec!["a".into(), Cell::tinted("n-1", Tint::Bad), "".into()]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_in_characters() {
        insta::assert_snapshot!(table().render(TextOptions::default()), @"
        POD       NODE  STATUS
        ml/größe        placed
        a         n-1
        ");
    }

    #[test]
    fn colours_do_not_move_columns_and_no_line_ends_in_a_space() {
        let plain = table().render(TextOptions::default());
        let colour = table().render(TextOptions { colour: true, ..TextOptions::default() });
        let stripped = ["32", "31", "0"]
            .iter()
            .fold(colour.clone(), |text, code| text.replace(&format!("\x1b[{code}m"), ""));
        assert_ne!(plain, colour);
        assert_eq!(plain, stripped);
        assert!(plain.lines().all(|line| !line.ends_with(' ')));
    }

    #[test]
    fn a_table_is_as_wide_as_the_terminal_and_keeps_both_ends_of_names() {
        let mut table = Table::new(&["POD", "NODE", "STATUS"]);
        let pod = "research-and-development/train-large-language-model-worker-17";
        let why = "pending: largest free share 6.0 GiB < 10.0 GiB asked, and nothing else is free";
        table.push(vec![pod.into(), "ip-10-0-0-1.example.internal".into(), why.into()]);
        let at = |width| table.render(TextOptions { width, ..TextOptions::default() });
        insta::assert_snapshot!(at(100), @"
        POD                           NODE                          STATUS
        research-and-…odel-worker-17  ip-10-0-0-1.example.internal  pending: largest free share 6.0 GiB <…
        ");
        for width in [200, 120, 100, 80, 60] {
            assert!(at(width).lines().all(|line| line.chars().count() <= width), "{width}");
        }
        let whole = at(0);
        assert!(whole.contains(pod) && whole.contains(why), "a pipe gets all of it: {whole}");
        let wide = TextOptions { width: 80, wide: true, ..TextOptions::default() };
        assert_eq!(table.render(wide), whole);
    }

    #[test]
    fn amounts_are_never_cut_and_the_last_columns_of_a_narrow_terminal_are_named() {
        let mut table = Table::new(&["NODE", "GPU-MEM", "SHARES", "MEMORY", "MESSAGE"]);
        let row =
            ["a100-40-1", "640.0/640.0Gi", "12", "1024.0/2048.0Gi", "all of its cards are held"];
        table.push(row.map(Cell::from).to_vec());
        let at = |width| table.render(TextOptions { width, ..TextOptions::default() });
        assert!(!at(80).contains("..."), "{}", at(80));
        insta::assert_snapshot!(at(56), @"
        NODE       GPU-MEM        SHARES  MESSAGE
        a100-40-1  640.0/640.0Gi  12      all of its cards are…
        ... without MEMORY: -o wide shows all
        ");
        insta::assert_snapshot!(at(30), @"
        NODE       MESSAGE
        a100-40-1  all of its cards a…
        ... without GPU-MEM, SHARES, MEMORY: -o wide shows all
        ");
        assert!(at(0).contains("640.0/640.0Gi") && !at(0).contains("..."));
    }

    #[test]
    fn what_matters_least_goes_before_names_are_cut_short_and_how_a_row_stands_stays() {
        let header = ["NAME", "NODE", "CPU", "MEMORY", "STATUS", "QUEUE"];
        let mut table = Table::new(&header).least(&["MEMORY", "CPU"]);
        let name = "train-large-model-worker-17";
        table.push(
            [name, "gpu-node-0001", "12.5", "64.0Gi", "terminating", "research"]
                .map(Cell::from)
                .to_vec(),
        );
        let at = |width| table.render(TextOptions { width, ..TextOptions::default() });
        assert!(!at(80).contains("..."), "{}", at(80));
        insta::assert_snapshot!(at(60), @"
        NAME                    NODE           STATUS       QUEUE
        train-larg…l-worker-17  gpu-node-0001  terminating  research
        ... without CPU, MEMORY: -o wide shows all
        ");
        insta::assert_snapshot!(at(40), @"
        NAME          NODE           STATUS
        train…ker-17  gpu-node-0001  terminating
        ... without CPU, MEMORY, QUEUE: -o wide shows all
        ");
    }

    #[test]
    fn resources_lose_their_vendor_and_lists_their_rest_before_columns_go() {
        let mut table = Table::new(&["NAME", "ASKED", "PODS"]);
        let pods = ["ml/notebook-a", "ml/notebook-b", "ml/notebook-c"].map(str::to_owned);
        table.push(vec!["student-0".into(), "2xnvidia.com/mig-1g.10gb".into(), Cell::list(pods)]);
        assert_eq!(without_vendor("no nvidia.com/gpu there"), "no nvidia.com/gpu there");
        let at = |width| table.render(TextOptions { width, ..TextOptions::default() });
        assert!(at(0).contains("2xnvidia.com/mig-1g.10gb") && at(0).contains(",ml/notebook-c"));
        insta::assert_snapshot!(at(60), @"
        NAME       ASKED          PODS
        student-0  2xmig-1g.10gb  ml/notebook-a,ml/notebook-b,+1
        ");
        assert!(table.html().contains("<td>ml/notebook-a, ml/notebook-b, ml/notebook-c</td>"));
    }

    #[test]
    fn of_an_amount_that_is_too_long_the_other_units_go() {
        let mut table = Table::new(&["POD", "ASKED", "STATUS"]);
        let status = "pending: largest free share 6.0 GiB < 10.0 GiB asked";
        for asked in ["2 x 60000 MiB (58.5 GiB, 0.73 each)", "0.25 (20.0 GiB)"] {
            table.push(["ml/train-0", asked, status].map(Cell::from).to_vec());
        }
        let text = table.render(TextOptions { width: 60, ..TextOptions::default() });
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert!(text.contains("  2 x 60000 MiB  ") && !text.contains("58"), "{text}");
        assert!(text.contains("  0.25 (20.0 GiB)  "), "{text}");
    }

    #[test]
    fn control_characters_of_users_do_not_reach_the_terminal() {
        let mut table = Table::new(&["POD"]);
        table.push(vec!["a\x1b[31m\nb".into()]);
        assert_eq!(table.render(TextOptions::default()), "POD\na\\u{1b}[31m\\nb\n");
    }
}
