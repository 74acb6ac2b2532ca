//! How a text is to look.

/// What the reader's terminal can show and how much they asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextOptions {
    /// Everything there is: more columns, no list cut short.
    pub wide: bool,
    /// ANSI colours.
    pub colour: bool,
    /// The terminal's columns; 0 if there is none. Nothing is cut then.
    pub width: usize,
    /// Where lines of maps and lists of names are broken if there is no terminal; 0 if nobody says it.
    pub page: usize,
    /// Tables without their first line.
    pub no_headers: bool,
}

/// What is still read as one line where no terminal says how wide it is.
const READABLE: usize = 120;

impl TextOptions {
    /// Where the lines of a card map are broken. A map is looked at and not parsed, so it is
    /// never wider than a page, not even in a file.
    pub(crate) const fn map_width(self) -> usize {
        match (self.width, self.page) {
            (0, 0) => READABLE,
            (0, page) => page,
            (width, _) => width,
        }
    }

    /// Whether what is too long for a line is cut.
    pub(crate) const fn cuts(self) -> bool {
        self.width > 0 && !self.wide
    }

    /// The columns that lists of names are cut at.
    pub(crate) const fn list_width(self) -> usize {
        if self.wide { usize::MAX } else { self.map_width() }
    }
}
