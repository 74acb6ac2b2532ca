//! The values that labels have.

pub(super) type Label = [(&'static str, &'static str); 1];

/// How one try to place a pod ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// A place was found and its binding accepted.
    Scheduled,
    /// There is no place now.
    Unschedulable,
    /// A place was found, but its binding was not accepted.
    Error,
}

/// How a binding ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingResult {
    /// The pod is bound.
    Bound,
    /// The pod or its node is gone.
    Gone,
    /// The pod is bound already, or changed meanwhile.
    Conflict,
    /// The API or an admission webhook does not want it.
    Refused,
    /// No answer, or an error of the server: nobody knows until the pod is read again.
    Unknown,
}

impl Attempt {
    pub(super) const ALL: [Self; 3] = [Self::Scheduled, Self::Unschedulable, Self::Error];

    pub(super) const fn label(self) -> Label {
        let name = match self {
            Self::Scheduled => "scheduled",
            Self::Unschedulable => "unschedulable",
            Self::Error => "error",
        };
        [("result", name)]
    }
}

impl BindingResult {
    pub(super) const ALL: [Self; 5] =
        [Self::Bound, Self::Gone, Self::Conflict, Self::Refused, Self::Unknown];

    pub(super) const fn label(self) -> Label {
        let name = match self {
            Self::Bound => "bound",
            Self::Gone => "gone",
            Self::Conflict => "conflict",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
        };
        [("result", name)]
    }
}
