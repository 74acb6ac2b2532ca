//! What the webhooks tell Prometheus.

use crate::review::{Verdict, Webhook};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::{
    counter::Counter,
    family::Family,
    gauge::Gauge,
    histogram::{Histogram, exponential_buckets},
    info::Info,
};
use prometheus_client::registry::{Registry, Unit};
use std::sync::Arc;
use std::time::Duration;

type Label = [(&'static str, &'static str); 1];
type Labels = [(&'static str, &'static str); 2];

/// All metrics of a process; a clone counts into the same.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    reviews: Family<Labels, Counter>,
    duration: Family<Label, Histogram>,
    connections: Gauge,
    renewals: Family<Label, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

const RESULTS: [&str; 4] = ["allowed", "patched", "denied", "malformed"];

impl Metrics {
    /// All at zero.
    pub fn new() -> Self {
        let seconds = || Histogram::new(exponential_buckets(0.000_016, 2.0, 20));
        let mut inner = Inner {
            registry: Registry::with_prefix("divvy"),
            reviews: Family::default(),
            duration: Family::new_with_constructor(seconds),
            connections: Gauge::default(),
            renewals: Family::default(),
        };
        let r = &mut inner.registry;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        r.register("build", "Which divvy this is", Info::new(version));
        let help = "Admission reviews, by how they ended";
        r.register("admission_reviews", help, inner.reviews.clone());
        let help = "Time from the whole body of a review to its answer";
        r.register_with_unit("admission_duration", help, Unit::Seconds, inner.duration.clone());
        let help = "Connections that are open";
        r.register("admission_connections", help, inner.connections.clone());
        let help = "Looks at the certificate, by how they ended";
        r.register("admission_certificate_checks", help, inner.renewals.clone());
        // Rates need a zero to start from.
        for webhook in Webhook::ALL {
            for result in RESULTS {
                let labels = [("webhook", webhook.name()), ("result", result)];
                inner.reviews.get_or_create(&labels).inc_by(0);
            }
        }
        for result in ["ok", "failed"] {
            inner.renewals.get_or_create(&[("result", result)]).inc_by(0);
        }
        Self(Arc::new(inner))
    }

    /// A review was answered, or its body made no sense.
    pub(crate) fn review(&self, webhook: Webhook, verdict: Option<Verdict>, took: Duration) {
        let result = match verdict {
            Some(Verdict::Allowed) => "allowed",
            Some(Verdict::Patched) => "patched",
            Some(Verdict::Denied) => "denied",
            None => "malformed",
        };
        let labels = [("webhook", webhook.name()), ("result", result)];
        self.0.reviews.get_or_create(&labels).inc();
        let duration = self.0.duration.get_or_create(&[("webhook", webhook.name())]);
        duration.observe(took.as_secs_f64());
    }

    /// How many connections there are.
    pub(crate) fn set_connections(&self, count: usize) {
        self.0.connections.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// The certificate was looked at.
    pub(crate) fn certificate_check(&self, ok: bool) {
        let result = if ok { "ok" } else { "failed" };
        self.0.renewals.get_or_create(&[("result", result)]).inc();
    }

    /// All of it as OpenMetrics text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a String does not fail.
        let _ = encode(&mut text, &self.0.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_in_the_docs_with_its_labels() {
        let docs = include_str!("../../../docs/operations.md");
        let metrics = Metrics::new();
        metrics.review(Webhook::ALL[0], None, Duration::ZERO);
        let text = metrics.text();
        for name in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let (name, _) = name.split_once(' ').unwrap();
            let series = text.lines().find(|line| line.starts_with(name)).unwrap();
            let (series, _) = series.split_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let name =
                ["_sum", "_count"].iter().fold(name, |name, part| name.trim_end_matches(part));
            let labels: Vec<&str> =
                labels.split("\",").filter_map(|l| Some(l.split_once('=')?.0)).collect();
            let labels =
                if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let row = docs.lines().any(|row| row.starts_with(&format!("| `{name}{labels}` |")));
            assert!(row, "{name}{labels}");
        }
    }
}
