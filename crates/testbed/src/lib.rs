//! A real Kubernetes control plane and a real node for tests and for play.
//!
//! ```text
//!   testbed/*/go.mod (exact pins) ─► Programs::build ─► cache, keyed by the pins
//!                                                         │
//!                     ControlPlane::start ─► etcd ─► kube-apiserver [─► controller-manager, kwok]
//!                                                         │ free loopback ports, random token
//!                                                         ▼
//!                                                    kubeconfig, logs; killed on drop
//!                                                         ▲
//!         Node::start ─► containerd, kubelet, device plugin ┘ mock cards, real containers
//! ```
//!
//! With the feature `api`: a client, a history of all pods and nodes, a checker that replays it, and
//! a proxy that injects faults.
//!
//! Nothing here knows divvy but the checker, which knows the annotation it checks. What a machine lacks is an [`Unavailable`] with the reason, so that a
//! test that needs it can say that it was skipped and why.

#[cfg(feature = "api")]
pub mod api;
pub mod chart;
#[cfg(feature = "api")]
pub mod checker;
pub mod dice;
#[cfg(feature = "api")]
pub mod history;
pub mod image;
pub mod manifests;
#[cfg(feature = "api")]
mod policies;
#[cfg(feature = "api")]
pub mod proxy;

mod control_plane;
mod guard;
mod key;
pub mod node;
mod ports;
mod process;
mod programs;

pub use control_plane::{ControlPlane, Kwok, KwokPods};
pub use ports::free_ports;
pub use process::Process;
pub use programs::{Program, Programs, cache};

/// Why there is no testbed on this machine.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// Go is not installed.
    #[error("Go is not installed (`go version` failed: {0}); install Go 1.26 or newer")]
    NoGo(String),
    /// The machine cannot run a node.
    #[error("no node can run here: {0}")]
    NoNode(String),
    /// The programs could not be built.
    #[error("`go build` of {what} failed, see {log}")]
    Build {
        /// Which module.
        what: String,
        /// Where the output is.
        log: String,
    },
    /// A program did not start.
    #[error("{program} did not become ready in {seconds} s: {why}; its log is {log}")]
    NotReady {
        /// Which.
        program: String,
        /// How long it was waited for.
        seconds: u64,
        /// What the last try said.
        why: String,
        /// Where its output is.
        log: String,
    },
    /// Something with files or processes.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        error: std::io::Error,
    },
}

pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Unavailable {
    let what = what.into();
    move |error| Unavailable::Io { what, error }
}
