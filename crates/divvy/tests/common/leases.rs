//! What becomes of a scheduler that loses its lease.

use divvy_testbed::Process;

/// Whether it has ended because it lost its lease, as happens on a busy machine: whoever keeps it
/// running starts it again. It ends for no other reason.
pub fn has_lost_its_lease(divvy: &mut Process) -> bool {
    let ended = divvy.exited().is_some();
    let log = std::fs::read_to_string(divvy.log()).unwrap_or_default();
    let lost = ["the lease was not renewed in time", "the lease is held by"];
    assert!(!ended || lost.iter().any(|why| log.contains(why)), "{log}");
    ended
}
