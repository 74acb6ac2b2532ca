//! How a text is to look.

/// What the reader's terminal can show and how much they asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextOptions {
    /// Everything there is: more columns, no list cut short.
    pub wide: bool,
    /// ANSI colours.
    pub colour: bool,
    /// The terminal's columns; 0 if nothing is to be fitted into any width.
    pub width: usize,
}
