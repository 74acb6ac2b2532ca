//! The lines of a document, one at a time.

use super::Unsure;

/// The text from the current line on. Empty lines and comments are passed over.
pub(super) struct Lines<'de> {
    /// What follows the current line.
    rest: &'de str,
    /// How far the current line is indented.
    pub(super) indent: usize,
    /// The current line without its indentation, or what is left of it.
    pub(super) content: &'de str,
    /// Whether there are no more lines.
    pub(super) done: bool,
    /// How many maps and lists are open.
    pub(super) depth: usize,
    /// The keys of all maps that are open, so that not every map has to allocate its own.
    pub(super) keys: Vec<&'de str>,
}

impl<'de> Lines<'de> {
    /// At the first line.
    pub(super) fn new(text: &'de str) -> Self {
        let (depth, keys) = (0, Vec::new());
        let mut lines = Self { rest: text, indent: 0, content: "", done: false, depth, keys };
        lines.advance();
        lines
    }

    fn next_raw(&mut self) -> Option<&'de str> {
        if self.rest.is_empty() {
            return None;
        }
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        self.rest = rest;
        Some(line)
    }

    pub(super) fn advance(&mut self) {
        while let Some(line) = self.next_raw() {
            let content = line.trim_start_matches(' ');
            if !content.is_empty() && !content.starts_with('#') {
                self.indent = line.len() - content.len();
                self.content = content;
                return;
            }
        }
        self.done = true;
        self.indent = 0;
        self.content = "";
    }

    pub(super) fn is_item(&self) -> bool {
        self.content.starts_with("- ")
    }

    /// Whether the current line belongs to what stands at `parent`.
    pub(super) fn is_below(&self, parent: Option<usize>) -> bool {
        !self.done && parent.is_none_or(|parent| self.indent > parent)
    }

    /// Takes `key:` from the current line and returns it with the rest of the line.
    pub(super) fn key(&self) -> Result<(&'de str, &'de str), Unsure> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_./-".contains(&b);
        let end = self.content.bytes().position(|b| !allowed(b)).ok_or(Unsure)?;
        let (key, after) = self.content.split_at_checked(end).ok_or(Unsure)?;
        let value = after.strip_prefix(':').ok_or(Unsure)?;
        // Numbers are compared by value, and a null is no string.
        let certain = key.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
            && key.len() < 256
            && !key.eq_ignore_ascii_case("null");
        if !certain || !(value.is_empty() || value.starts_with(' ')) {
            return Err(Unsure);
        }
        Ok((key, value.trim_start_matches(' ')))
    }

    /// The literal block that follows a line which ends in `|` or `|-`.
    pub(super) fn literal(&mut self, header: &str, parent: usize) -> Result<String, Unsure> {
        let keep_end = match header {
            "|" => true,
            "|-" => false,
            _ => return Err(Unsure),
        };
        let mut text = String::new();
        let mut indent = None;
        let mut empty = 0;
        loop {
            let before = self.rest;
            let Some(line) = self.next_raw() else { break };
            let content = line.trim_start_matches(' ');
            let own = line.len() - content.len();
            let least = indent.unwrap_or(parent + 1);
            if content.is_empty() {
                // Spaces beyond the indentation would belong to the text.
                if own > least || indent.is_none() {
                    return Err(Unsure);
                }
                empty += 1;
                continue;
            }
            if own < least {
                // Between the two indentations it is an error, which the full parser explains.
                if own > parent {
                    return Err(Unsure);
                }
                self.rest = before;
                break;
            }
            let indent = *indent.get_or_insert(own);
            text.extend(std::iter::repeat_n('\n', empty));
            empty = 0;
            text.push_str(line.get(indent..).ok_or(Unsure)?);
            text.push('\n');
        }
        if indent.is_none() {
            return Err(Unsure);
        }
        if !keep_end {
            text.pop();
        }
        Ok(text)
    }
}
