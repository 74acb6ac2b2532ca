//! Why a cluster could not be read: what was tried, and what to do.

use divvy_api::{Failure, Resource};
use std::time::Duration;

/// Why a collection could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// There is no way to the API server.
    #[error(
        "cannot reach the API server {server}: {why}; is it up, and is this the right cluster? \
         `kubectl config get-contexts` lists the contexts, --context and --kubeconfig choose one"
    )]
    Unreachable {
        /// Its address.
        server: String,
        /// What went wrong.
        why: String,
    },
    /// The answer did not come in time.
    #[error(
        "the API server {server} did not answer `list {resource}` within {seconds} s; \
         --request-timeout gives it longer"
    )]
    Late {
        /// Its address.
        server: String,
        /// What was asked for.
        resource: String,
        /// How long was waited.
        seconds: f32,
    },
    /// The API server does not know who asks.
    #[error(
        "the API server {server} does not accept the credentials of this context ({why}); \
         log in again, or choose another with --context"
    )]
    Unauthorized {
        /// Its address.
        server: String,
        /// What it said.
        why: String,
    },
    /// The API server knows who asks, and refuses.
    #[error(
        "not allowed to list {resource} in all namespaces ({why}); ask for the verb `list` on \
         {resource} in a ClusterRole"
    )]
    Forbidden {
        /// What was asked for.
        resource: String,
        /// What the API server said.
        why: String,
    },
    /// This API server does not have such objects.
    #[error("the API server {server} has no {resource}")]
    Absent {
        /// Its address.
        server: String,
        /// What was asked for.
        resource: String,
    },
    /// Reading took longer than the API server remembers.
    #[error("the list of {resource} took so long that the API server forgot it; try again")]
    Expired {
        /// What was asked for.
        resource: String,
    },
    /// Anything else.
    #[error("cannot list {resource} of the API server {server}: {why}")]
    Failed {
        /// Its address.
        server: String,
        /// What was asked for.
        resource: String,
        /// What went wrong.
        why: String,
    },
}

impl SnapshotError {
    /// One object is more than a page may be.
    pub(super) fn too_large(server: &str, resource: &Resource) -> Self {
        let why = format!("an object is larger than {} MiB", super::PAGE_BYTES >> 20);
        Self::Failed { server: server.to_owned(), resource: resource.full_name(), why }
    }

    /// An answer took too long.
    pub(super) fn late(server: &str, resource: &Resource, patience: Duration) -> Self {
        let seconds = patience.as_secs_f32();
        Self::Late { server: server.to_owned(), resource: resource.full_name(), seconds }
    }

    /// What it means that a list failed.
    pub(super) fn of(server: &str, resource: &Resource, failure: Failure) -> Self {
        let (server, resource) = (server.to_owned(), resource.full_name());
        match failure {
            Failure::Refused { code: 401, message: why } => Self::Unauthorized { server, why },
            Failure::Refused { code: 403, message: why } => Self::Forbidden { resource, why },
            Failure::NotFound(_) => Self::Absent { server, resource },
            Failure::Expired(_) => Self::Expired { resource },
            Failure::Unreachable { cause: why, .. } => Self::Unreachable { server, why },
            Failure::Busy { message: why, .. } => Self::Failed { server, resource, why },
            failure => Self::Failed { server, resource, why: failure.to_string() },
        }
    }
}
