//! The Lease object and the requests that read and write it.

use super::LeaseSettings;
use divvy_api::resources::LEASES;
use divvy_api::{Api, Failure, read};
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// What we read and write of a Lease; the rest goes back as it came.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LeaseObject {
    pub(super) spec: Spec,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// Equal as long as nobody took or renewed it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<u64>,
    acquire_time: Option<String>,
    renew_time: Option<String>,
    lease_transitions: Option<u32>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Spec {
    /// Who holds it; nobody if it is new or was given back.
    pub(super) fn holder(&self) -> Option<&str> {
        self.holder_identity.as_deref().filter(|holder| !holder.is_empty())
    }

    /// How long it holds without being renewed.
    pub(super) fn duration(&self, default: Duration) -> Duration {
        let seconds = self.lease_duration_seconds.filter(|seconds| *seconds > 0);
        seconds.map_or(default, Duration::from_secs)
    }

    /// The times are for people who look at it; nobody decides by them.
    pub(super) fn take(&mut self, settings: &LeaseSettings) {
        if self.holder() != Some(&settings.identity) {
            self.acquire_time = Some(now());
            self.lease_transitions =
                Some(self.lease_transitions.map_or(0, |count| count.saturating_add(1)));
            self.holder_identity = Some(settings.identity.clone());
        }
        self.lease_duration_seconds = Some(settings.duration.as_secs());
        self.renew_time = Some(now());
    }

    pub(super) fn give_back(&mut self) {
        self.holder_identity = None;
        self.lease_duration_seconds = Some(1);
        self.renew_time = Some(now());
    }
}

/// With the six decimals that the API wants here.
fn now() -> String {
    format!("{:.6}", Timestamp::now())
}

/// One Lease of the cluster.
#[derive(Clone)]
pub(super) struct Record {
    api: Api,
    namespace: String,
    name: String,
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Record({}/{})", self.namespace, self.name)
    }
}

impl Record {
    pub(super) fn new(api: Api, settings: &LeaseSettings) -> Self {
        let LeaseSettings { namespace, name, .. } = settings;
        // Two requests can fail before the fence closes.
        let api = api.with_patience(settings.renew_deadline / 2);
        Self { api, namespace: namespace.clone(), name: name.clone() }
    }

    pub(super) async fn get(&self) -> Result<LeaseObject, Failure> {
        answer(self.api.get(&self.path()).await)
    }

    pub(super) async fn create(&self, spec: &Spec) -> Result<LeaseObject, Failure> {
        let body = json!({
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": spec,
        });
        let path = LEASES.path_in(&self.namespace);
        read(&self.api.post(&path, body.to_string().into_bytes()).await?)
    }

    /// Only if it is still in the version that was read.
    pub(super) async fn replace(&self, lease: &LeaseObject) -> Result<LeaseObject, Failure> {
        let body = serde_json::to_vec(lease).map_err(|why| Failure::Unclear(why.to_string()))?;
        answer(self.api.put(&self.path(), body).await)
    }

    fn path(&self) -> String {
        LEASES.path_of(&self.namespace, &self.name)
    }
}

/// The usual refusals in fewer words than the server has for them.
fn answer(answer: Result<Vec<u8>, Failure>) -> Result<LeaseObject, Failure> {
    match answer {
        Ok(bytes) => read(&bytes),
        Err(Failure::NotFound(_)) => Err(Failure::NotFound("it does not exist".to_owned())),
        Err(Failure::Conflict(_)) => {
            Err(Failure::Conflict("somebody else wrote it at the same time".to_owned()))
        }
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_into_a_lease_goes_back_as_it_came() {
        let text = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease",
            "metadata":{"name":"divvy","resourceVersion":"7","labels":{"team":"ml"}},
            "spec":{"holderIdentity":"a","leaseDurationSeconds":15,"leaseTransitions":3,
                    "acquireTime":null,"renewTime":null,"strategy":"new"}}"#;
        let lease: LeaseObject = serde_json::from_str(text).unwrap();
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_value(lease).unwrap(), expected);
    }

    #[test]
    fn an_empty_or_missing_holder_is_nobody() {
        for (text, holder) in [
            ("{}", None),
            (r#"{"holderIdentity":""}"#, None),
            (r#"{"holderIdentity":"a"}"#, Some("a")),
        ] {
            assert_eq!(serde_json::from_str::<Spec>(text).unwrap().holder(), holder, "{text}");
        }
    }

    #[test]
    fn taking_counts_a_transition_and_renewing_does_not() {
        let settings = LeaseSettings::new("ns", "divvy").unwrap();
        let mut spec = Spec::default();
        spec.take(&settings);
        spec.take(&settings);
        assert_eq!((spec.holder(), spec.lease_transitions), (Some(&*settings.identity), Some(0)));
        spec.give_back();
        assert_eq!(spec.holder(), None);
        spec.take(&settings);
        assert_eq!(spec.lease_transitions, Some(1));
        assert_eq!(spec.duration(Duration::ZERO), settings.duration);
    }
}
