//! The testbed itself: a real API server comes up, answers, and goes.
#![allow(clippy::unwrap_used)]

use divvy_testbed::{ControlPlane, Programs};
use std::io::Write;
use std::path::Path;

/// The control plane, or a line that says why the test is skipped.
fn control_plane(folder: &Path) -> Option<ControlPlane> {
    let programs = Programs::build(&mut |_| {});
    match programs.and_then(|programs| ControlPlane::start(&programs, folder)) {
        Ok(plane) => Some(plane),
        Err(why) => {
            // Not by println, which the test runner hides.
            let _ = writeln!(std::io::stdout(), "skipped: {why}");
            None
        }
    }
}

#[test]
fn an_api_server_starts_answers_and_ends_with_its_owner() {
    let folder = std::env::temp_dir().join(format!("divvy-testbed-{}", std::process::id()));
    let Some(plane) = control_plane(&folder) else { return };
    let run = |args: &[&str]| plane.kubectl().args(args).output().unwrap();
    let version = String::from_utf8(run(&["version", "-o", "json"]).stdout).unwrap();
    assert!(version.contains("\"gitVersion\": \"v1.37.0\""), "{version}");
    assert!(run(&["create", "namespace", "ml"]).status.success());
    let namespaces = String::from_utf8(run(&["get", "namespaces", "-o", "name"]).stdout).unwrap();
    assert!(namespaces.contains("namespace/ml"), "{namespaces}");

    let kubeconfig = plane.kubeconfig();
    let mut orphan = plane.kubectl();
    drop(plane);
    assert!(kubeconfig.exists(), "files stay for whoever looks into a failure");
    assert!(!orphan.args(["get", "--raw", "/readyz"]).output().unwrap().status.success());
    std::fs::remove_dir_all(&folder).unwrap();
}
