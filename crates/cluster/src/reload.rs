//! The configuration file, read again when it changes.
//!
//! The content is compared, not times or file events: Kubernetes swaps a symbolic link above the
//! file of a ConfigMap, and editors replace files; a small file read once a second costs nothing.

use crate::metrics::Metrics;
use divvy_engine::Config;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::watch;

const PERIOD: Duration = Duration::from_secs(1);

/// A ConfigMap is at most this long; whatever is longer is not ours.
const MOST_BYTES: u64 = 1 << 20;

/// Reads the file and goes on watching it while somebody listens.
///
/// At the start a wrong file is an error. Later it is logged and counted, once for each content,
/// and the settings stay what they were.
pub fn reload(path: PathBuf, metrics: Metrics) -> Result<watch::Receiver<Config>, String> {
    let mut last = read(&path);
    let config = last.clone().and_then(|text| parse(&path, &text))?;
    let (tell, told) = watch::channel(config);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = tell.closed() => return,
                () = tokio::time::sleep(PERIOD) => {}
            }
            let file = path.clone();
            // A file on a network may hang; that is no reason to stop the others.
            let Ok(now) = tokio::task::spawn_blocking(move || read(&file)).await else { return };
            if now == last {
                continue;
            }
            let parsed = now.clone().and_then(|text| parse(&path, &text));
            last = now;
            metrics.config_reload(parsed.is_ok());
            match parsed {
                Err(why) => tracing::error!("{why}; the settings stay as they were"),
                Ok(config) if *tell.borrow() == config => {}
                Ok(config) => {
                    tracing::info!("{}: changed, the new settings are in force", path.display());
                    tell.send_replace(config);
                }
            }
        }
    });
    Ok(told)
}

fn read(path: &Path) -> Result<String, String> {
    use std::io::Read;
    let failed = |why: std::io::Error| format!("failed to read {}: {why}", path.display());
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut text = String::new();
    file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(format!("failed to read {}: longer than 1 MiB", path.display()));
    }
    Ok(text)
}

fn parse(path: &Path, text: &str) -> Result<Config, String> {
    divvy_words::config(text).map_err(|why| format!("{}: {why}", path.display()))
}
