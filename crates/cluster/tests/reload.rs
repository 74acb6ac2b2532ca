//! The configuration file is read again when its content changes, however it changes.
#![allow(clippy::unwrap_used)]

use divvy_cluster::metrics::Metrics;
use divvy_cluster::reload::reload;
use divvy_engine::{Config, Strategy};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::watch::Receiver;

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("divvy-reload-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

const PACK: &str = "scheduling: {strategy: binpack}";
const SPREAD: &str = "scheduling: {strategy: spread}";

/// All at once, as an editor does: a reader that comes in between finds no half of it.
fn write(path: &Path, text: &str) {
    let fresh = path.with_extension("new");
    fs::write(&fresh, text).unwrap();
    fs::rename(fresh, path).unwrap();
}

async fn next(config: &mut Receiver<Config>) -> Strategy {
    config.changed().await.unwrap();
    config.borrow_and_update().node
}

async fn count(metrics: &Metrics, result: &str, expected: u32) {
    let line = format!("divvy_config_reloads_total{{result=\"{result}\"}} {expected}\n");
    while !metrics.text().contains(&line) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_changed_file_brings_new_settings_and_a_wrong_one_keeps_the_old() {
    let folder = folder("file");
    let (path, metrics) = (folder.join("config.yaml"), Metrics::new());
    write(&path, PACK);
    let mut config = reload(path.clone(), metrics.clone()).unwrap();
    assert_eq!(config.borrow().node, Strategy::Binpack);
    write(&path, SPREAD);
    assert_eq!(next(&mut config).await, Strategy::Spread);

    write(&path, "scheduling: {strategy: random}");
    count(&metrics, "failed", 1).await;
    fs::remove_file(&path).unwrap();
    count(&metrics, "failed", 2).await;
    assert!(!config.has_changed().unwrap());
    write(&path, PACK);
    assert_eq!(next(&mut config).await, Strategy::Binpack);
    count(&metrics, "ok", 2).await;
    count(&metrics, "failed", 2).await;
    fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn the_link_of_a_config_map_is_followed_when_it_is_swapped() {
    let folder = folder("link");
    for (version, text) in [("..1", PACK), ("..2", SPREAD)] {
        fs::create_dir(folder.join(version)).unwrap();
        fs::write(folder.join(version).join("config.yaml"), text).unwrap();
    }
    symlink("..1", folder.join("..data")).unwrap();
    symlink("..data/config.yaml", folder.join("config.yaml")).unwrap();
    let mut config = reload(folder.join("config.yaml"), Metrics::new()).unwrap();
    assert_eq!(config.borrow().node, Strategy::Binpack);
    symlink("..2", folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    assert_eq!(next(&mut config).await, Strategy::Spread);
    fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn a_wrong_file_at_the_start_is_an_error_with_its_name() {
    let folder = folder("start");
    let path = folder.join("config.yaml");
    for (text, expected) in [
        (None, "No such file"),
        (Some("scheduling: {strategy: random}".to_owned()), "scheduling.strategy"),
        (Some(" ".repeat((1 << 20) + 1)), "longer than 1 MiB"),
    ] {
        if let Some(text) = text {
            fs::write(&path, text).unwrap();
        }
        let error = reload(path.clone(), Metrics::new()).unwrap_err();
        assert!(error.contains(expected) && error.contains("config.yaml"), "{error}");
    }
    fs::remove_dir_all(folder).unwrap();
}
