//! Who counts what is asked of the API.

/// What a request to the API does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "verbs of Kubernetes")]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
}

/// Why a watch began anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// The server ended it, as it does every few minutes.
    Ended,
    /// Its version is too old, so all is listed again.
    Expired,
    /// The connection or the server failed.
    Failed,
    /// Nothing was heard for too long.
    Silent,
}

/// Is told of every request and of every watch that begins anew.
pub trait Observer: Send + Sync {
    /// The API answered with this status, or not at all.
    fn request(&self, verb: Verb, code: Option<u16>);

    /// A watch of this resource began anew.
    fn watch_restart(&self, resource: &'static str, why: Restart);
}

/// Nobody counts.
impl Observer for () {
    fn request(&self, _: Verb, _: Option<u16>) {}

    fn watch_restart(&self, _: &'static str, _: Restart) {}
}

impl Verb {
    /// As Kubernetes writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }
}

impl Restart {
    /// In one word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Expired => "expired",
            Self::Failed => "failed",
            Self::Silent => "silent",
        }
    }
}
