//! Why a cluster could not be read: what was tried, and what to do.

use super::Resource;
use std::error::Error;

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

    /// What an error of the client means.
    pub(super) fn of(server: &str, resource: &Resource, why: &kube::Error) -> Self {
        let (server, resource) = (server.to_owned(), resource.full_name());
        match why {
            kube::Error::Api(status) => {
                let why = status.message.clone();
                match status.code {
                    401 => Self::Unauthorized { server, why },
                    403 => Self::Forbidden { resource, why },
                    404 => Self::Absent { server, resource },
                    410 => Self::Expired { resource },
                    _ => Self::Failed { server, resource, why },
                }
            }
            kube::Error::HyperError(_) | kube::Error::Service(_) => {
                Self::Unreachable { server, why: innermost(why) }
            }
            _ => Self::Failed { server, resource, why: innermost(why) },
        }
    }
}

/// The cause behind all others: those in front of it only say that something failed.
fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
