//! One scheduler works, the others wait: leader election by a Lease.
//!
//! ```text
//!   renewal sent ──────────────── fence closes ──────── others may lead
//!        0            (renew_deadline)  10 s    (duration)    15 s
//!                                        └─ what is under way ─┘
//!                                           lands or is dropped
//! ```
//!
//! Nobody trusts anybody's wall clock. A holder counts from the moment it *sent* its last renewal,
//! a candidate from the moment it first *saw* that renewal, which is later, each on its own
//! monotonic clock. So the fence of the old leader is closed before a new one starts, as long as
//! both clocks run at about the same speed.

mod record;

use divvy_api::{Api, Failure, Fence};
use record::{LeaseObject, Record, Spec};
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Which lease, who we are, and how patient everybody is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Where the Lease is.
    pub namespace: String,
    /// Its name: those who share it compete.
    pub name: String,
    /// Different for each process, also for two in one pod or one pod after the other.
    pub identity: String,
    /// A lease that was not renewed for so long may be taken; whole seconds.
    pub duration: Duration,
    /// A leader that could not renew for so long stops writing.
    pub renew_deadline: Duration,
    /// How often a leader renews and a candidate looks.
    pub retry: Duration,
}

/// Why there is no election.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Times that would let two lead at once, or a name that is none.
    #[error("leader election: {0}")]
    Settings(String),
    /// Nothing to make an identity of.
    #[error("leader election: no random bytes from /dev/urandom: {0}")]
    Random(std::io::Error),
}

impl LeaseSettings {
    /// The usual times, and an identity that was never used before.
    pub fn new(namespace: &str, name: &str) -> Result<Self, LeaseError> {
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity().map_err(LeaseError::Random)?,
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        })
    }

    fn check(&self) -> Result<(), LeaseError> {
        let Self { namespace, name, duration, renew_deadline, retry, .. } = self;
        let wrong = |text| Err(LeaseError::Settings(text));
        for (field, value) in [("namespace", namespace), ("name", name)] {
            let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
            if value.is_empty() || value.starts_with('.') || !value.chars().all(legal) {
                return wrong(format!(
                    "{field} {value:?}: allowed are lower-case letters, digits, '-' and '.'"
                ));
            }
        }
        if duration.subsec_nanos() != 0 {
            return wrong(format!("duration {duration:?}: allowed are whole seconds"));
        }
        if retry.is_zero() || retry >= renew_deadline || renew_deadline >= duration {
            return wrong(format!(
                "retry {retry:?}, renew deadline {renew_deadline:?}, duration {duration:?}: each \
                 must be less than the next"
            ));
        }
        Ok(())
    }
}

fn identity() -> std::io::Result<String> {
    let mut random = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Ok(format!("{}_{:016x}", host.trim(), u64::from_ne_bytes(random)))
}

/// Spreads those who would otherwise all ask at the same moment.
fn jitter(period: Duration) -> Duration {
    let random = RandomState::new().hash_one(()) % 201;
    period.mul_f64(0.8 + random as f64 / 1000.0)
}

/// Waits until we lead. What was read from the API before that is old: list only afterwards.
///
/// `api` must not be fenced: a candidate has to ask.
pub async fn lead(
    api: Api,
    settings: LeaseSettings,
    fence: Fence,
) -> Result<Leadership, LeaseError> {
    settings.check()?;
    let record = Record::new(api, &settings);
    let mut candidate = Candidate { record, settings, fence, seen: None, problem: None };
    loop {
        match candidate.attempt().await {
            Ok(Attempt::Leads(lease)) => return Ok(candidate.begin(lease)),
            Ok(Attempt::Waits(left)) => {
                candidate.problem = None;
                tokio::time::sleep(left.min(jitter(candidate.settings.retry))).await;
            }
            Err(failure) => {
                candidate.report(&failure);
                tokio::time::sleep(jitter(candidate.settings.retry)).await;
            }
        }
    }
}

struct Candidate {
    record: Record,
    settings: LeaseSettings,
    fence: Fence,
    /// What the lease said last, and since when on our clock.
    seen: Option<(Spec, Instant)>,
    problem: Option<String>,
}

enum Attempt {
    Leads(LeaseObject),
    Waits(Duration),
}

impl Candidate {
    async fn attempt(&mut self) -> Result<Attempt, Failure> {
        let found = match self.record.get().await {
            Ok(lease) => Some(lease),
            Err(Failure::NotFound(_)) => None,
            Err(failure) => return Err(failure),
        };
        if let Some(lease) = &found {
            self.see(&lease.spec);
        }
        // Also when it was deleted: whoever held it goes on until it notices.
        let left = self.left();
        if !left.is_zero() {
            return Ok(Attempt::Waits(left));
        }
        let sent = Instant::now();
        let lease = match found {
            Some(mut lease) => {
                lease.spec.take(&self.settings);
                self.record.replace(&lease).await?
            }
            None => {
                let mut spec = Spec::default();
                spec.take(&self.settings);
                self.record.create(&spec).await?
            }
        };
        self.fence.extend(sent + self.settings.renew_deadline);
        // An answer that took too long: the lease is ours, but it has to be renewed first.
        let leads = self.fence.is_open();
        Ok(if leads { Attempt::Leads(lease) } else { Attempt::Waits(self.settings.retry) })
    }

    fn see(&mut self, spec: &Spec) {
        let old = self.seen.as_ref().map(|(spec, _)| spec);
        if old == Some(spec) {
            return;
        }
        let holder = spec.holder().filter(|holder| *holder != self.settings.identity);
        if let Some(holder) = holder
            && old.and_then(Spec::holder) != Some(holder)
        {
            tracing::info!(lease = self.settings.name, holder, "another scheduler leads; waiting");
        }
        self.seen = Some((spec.clone(), Instant::now()));
    }

    /// How long the one who was seen last may still lead.
    fn left(&self) -> Duration {
        let Some((spec, since)) = &self.seen else { return Duration::ZERO };
        match spec.holder() {
            Some(holder) if holder != self.settings.identity => {
                spec.duration(self.settings.duration).saturating_sub(since.elapsed())
            }
            _ => Duration::ZERO,
        }
    }

    /// Once for each new text, because it may go on for hours.
    fn report(&mut self, failure: &Failure) {
        let LeaseSettings { namespace, name, .. } = &self.settings;
        let problem = failure.to_string();
        if self.problem.as_ref() != Some(&problem) && !matches!(failure, Failure::Conflict(_)) {
            tracing::warn!("failed to take the lease {namespace}/{name}: {problem}; trying on");
        }
        self.problem = Some(problem);
    }

    fn begin(self, lease: LeaseObject) -> Leadership {
        let Self { record, settings, fence, .. } = self;
        let (tell, lost) = watch::channel(None);
        let (identity, keeper) = (settings.identity.clone(), record.clone());
        let open = fence.clone();
        let task = tokio::spawn(async move {
            let why = keep(&keeper, lease, &settings, &open).await;
            open.shut();
            tell.send_replace(Some(why));
        });
        Leadership { record, identity, fence, task, lost }
    }
}

/// Why we lead no more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The API could not be reached for too long, or the process was stopped for too long.
    #[error("the lease was not renewed in time{}{}", if .0.is_empty() { "" } else { ": " }, .0)]
    Expired(String),
    /// Somebody holds it now; possible only if it expired, or was changed by hand.
    #[error("the lease is held by {0}")]
    Taken(String),
    /// It was deleted or emptied by hand.
    #[error("the lease was deleted")]
    Deleted,
}

/// Renews until that is no longer possible.
async fn keep(
    record: &Record,
    mut lease: LeaseObject,
    settings: &LeaseSettings,
    fence: &Fence,
) -> Lost {
    let mut problem = String::new();
    loop {
        let turn = async {
            tokio::time::sleep(jitter(settings.retry)).await;
            // After a pause both the sleep and the fence are over; then nothing is sent.
            if !fence.is_open() {
                return Err(Lost::Expired(String::new()));
            }
            renew(record, &mut lease, settings, fence).await
        };
        match tokio::time::timeout(fence.left(), turn).await {
            Err(_) => return Lost::Expired(problem),
            Ok(Err(Lost::Expired(_))) => return Lost::Expired(problem),
            Ok(Err(lost)) => return lost,
            Ok(Ok(None)) => problem.clear(),
            Ok(Ok(Some(failure))) => {
                problem = failure.to_string();
                tracing::warn!("failed to renew the lease {}: {problem}", settings.name);
            }
        }
    }
}

/// One renewal: done, or what failed this time, or the end.
async fn renew(
    record: &Record,
    lease: &mut LeaseObject,
    settings: &LeaseSettings,
    fence: &Fence,
) -> Result<Option<Failure>, Lost> {
    lease.spec.take(settings);
    let sent = Instant::now();
    let failure = match record.replace(lease).await {
        Ok(renewed) => {
            fence.extend(sent + settings.renew_deadline);
            *lease = renewed;
            return Ok(None);
        }
        Err(failure) => failure,
    };
    if matches!(failure, Failure::Conflict(_)) {
        // Ours without our knowing, if the answer to an earlier renewal was lost.
        match record.get().await {
            Ok(current) => *lease = current,
            Err(Failure::NotFound(_)) => return Err(Lost::Deleted),
            Err(failure) => return Ok(Some(failure)),
        }
        return match lease.spec.holder() {
            Some(holder) if holder == settings.identity => Ok(Some(failure)),
            Some(holder) => Err(Lost::Taken(holder.to_owned())),
            None => Err(Lost::Deleted),
        };
    }
    if matches!(failure, Failure::NotFound(_)) {
        return Err(Lost::Deleted);
    }
    Ok(Some(failure))
}

/// While it exists, the lease is renewed in the background.
#[derive(Debug)]
pub struct Leadership {
    record: Record,
    identity: String,
    fence: Fence,
    task: JoinHandle<()>,
    lost: watch::Receiver<Option<Lost>>,
}

impl Leadership {
    /// Waits until we lead no more. The fence is shut by then, and the process should end: what it
    /// has decided and not written is void.
    pub async fn lost(&mut self) -> Lost {
        let lost = self.lost.wait_for(Option::is_some).await;
        lost.ok().and_then(|lost| lost.clone()).unwrap_or(Lost::Expired(String::new()))
    }

    /// Gives the lease back, so that another one takes over at its next look. The fence is shut
    /// first. Call it when the last write was answered, because the other one does not wait.
    pub async fn release(mut self) {
        self.fence.shut();
        self.task.abort();
        let _ = (&mut self.task).await;
        // Twice: a renewal that was under way may have been faster.
        for _ in 0..2 {
            match self.give_back().await {
                Ok(()) => return tracing::info!("gave the lease back"),
                Err(Failure::Conflict(_)) => {}
                Err(why) => return tracing::warn!("failed to give the lease back: {why}"),
            }
        }
    }

    async fn give_back(&self) -> Result<(), Failure> {
        let mut lease = self.record.get().await?;
        if lease.spec.holder() == Some(&self.identity) {
            lease.spec.give_back();
            self.record.replace(&lease).await?;
        }
        Ok(())
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        self.task.abort();
    }
}
