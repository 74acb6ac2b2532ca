//! ANSI colours, for readers that asked for them.

/// What a text is, not which colour it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tint {
    /// What was asked for has happened.
    Good,
    /// It waits.
    Waiting,
    /// It is wrong.
    Bad,
    /// It is there to be overlooked.
    Faint,
    /// It begins something.
    Strong,
    /// The n-th share of a card.
    Share(usize),
}

/// Paints, or leaves text as it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Painter {
    on: bool,
}

impl Painter {
    pub(crate) const fn new(on: bool) -> Self {
        Self { on }
    }

    pub(crate) fn paint(self, text: &str, tint: Tint) -> String {
        if !self.on || text.is_empty() {
            return text.to_owned();
        }
        let code = match tint {
            Tint::Good => "32",
            Tint::Waiting => "33",
            Tint::Bad => "31",
            Tint::Faint => "2",
            Tint::Strong => "1",
            // Neighbours differ; red and green are never next to each other.
            Tint::Share(n) => ["36", "33", "35", "32", "34"][n % 5],
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}
