//! What may be wrong, a file for what belongs together. A check is a function of what was looked at.

mod certificates;
mod compare;
mod devices;
mod installed;
mod mig;
mod nodes;
mod others;
mod pods;
mod policies;
mod reservations;
mod time_slices;
mod versions;
mod webhooks;

use crate::finding::{DoctorReport, Finding};
use crate::observed::Observed;

type Check = fn(&Observed) -> Vec<Finding>;

const CHECKS: [Check; 11] = [
    installed::check,
    others::check,
    webhooks::check,
    certificates::check,
    policies::check,
    reservations::check,
    nodes::check,
    pods::check,
    time_slices::check,
    mig::check,
    devices::check,
];

/// What is wrong with a cluster.
pub fn diagnose(cluster: &Observed) -> DoctorReport {
    let findings = CHECKS.iter().flat_map(|check| check(cluster)).collect();
    let (looked_at, not_looked_at) = cluster.account();
    DoctorReport::of(findings, looked_at, not_looked_at)
}

#[cfg(test)]
mod tests;
