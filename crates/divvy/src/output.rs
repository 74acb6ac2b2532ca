//! How answers leave: as text, JSON or YAML, to a terminal or a pipe.

use crate::cli::Format;
use anyhow::Context;
use divvy_sim::{ConfigEffect, ConfigOutcome, DisplacedDevices, More, Rehearsal};
use divvy_views::{MorePods, TextOptions};
use divvy_words::keys;
use serde::Serialize;
use std::io::{ErrorKind, IsTerminal, Write};
use std::time::{SystemTime, UNIX_EPOCH};

/// Prints `value` as asked; `text` is called for the formats that people read.
pub fn print<T: Serialize>(
    format: Format,
    value: &T,
    text: impl FnOnce(TextOptions) -> String,
) -> anyhow::Result<()> {
    write(&render(format, value, text)?)
}

/// What [`print`] prints.
pub fn render<T: Serialize>(
    format: Format,
    value: &T,
    text: impl FnOnce(TextOptions) -> String,
) -> anyhow::Result<String> {
    let mut rendered = match format {
        Format::Table | Format::Wide => text(text_options(format)),
        Format::Json => serde_json::to_string_pretty(value).context("cannot print as JSON")?,
        Format::Yaml => serde_saphyr::to_string(value).context("cannot print as YAML")?,
    };
    if !rendered.ends_with('\n') {
        rendered.push('\n');
    }
    Ok(rendered)
}

/// What the configs of a rehearsal make of its nodes, to be printed.
pub fn repartition(rehearsal: &Rehearsal) -> divvy_views::Repartition {
    let displaced = |displaced: &DisplacedDevices| divvy_views::Displaced {
        node: displaced.node.clone(),
        resource: displaced.device.map_or_else(|| keys::GPU.to_owned(), |d| d.to_string()),
        undivided: displaced.device.is_none(),
        held: displaced.held,
        left: displaced.left,
        pods: displaced
            .pods
            .iter()
            .map(|holder| divvy_views::DisplacedPod {
                pod: holder.pod.to_string(),
                request: holder.request.clone(),
            })
            .collect(),
    };
    let partition = |partition: &ConfigOutcome| divvy_views::Partition {
        config: partition.config.clone(),
        effect: match partition.effect {
            ConfigEffect::Applied => "applied",
            ConfigEffect::Unchanged => "unchanged",
            ConfigEffect::Withheld => "withheld",
        },
        nodes: partition.nodes.clone(),
        resources: partition.resources.clone(),
        message: partition.message(),
    };
    divvy_views::Repartition {
        displaced: rehearsal.displaced.iter().map(displaced).collect(),
        partitions: rehearsal.partitions.iter().map(partition).collect(),
    }
}

/// How many more of a workload would fit, to be printed.
pub fn more(more: &[More]) -> Vec<MorePods> {
    let more = more.iter().map(|more| {
        MorePods::new(more.objects.iter().map(|(kind, key)| (&**kind, key)), &more.fill)
    });
    more.collect()
}

/// Writes to standard output. A reader that has seen enough (`| head`) is no error.
pub fn write(text: &str) -> anyhow::Result<()> {
    write_if_read(text).map(|_| ())
}

/// The same, and says whether somebody still reads.
pub fn write_if_read(text: &str) -> anyhow::Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        result => result.map(|()| true).context("cannot write to standard output"),
    }
}

/// Says something on standard error, with nothing in it that a terminal would obey. Whoever closed
/// it does not want to know.
pub fn note(text: &str) {
    let _ = write!(std::io::stderr(), "{}", cleaned(text));
}

/// Lines with nothing in them that a terminal would obey.
pub fn cleaned(text: &str) -> String {
    text.lines().map(|line| divvy_views::clean(line).into_owned() + "\n").collect()
}

fn text_options(format: Format) -> TextOptions {
    let terminal = std::io::stdout().is_terminal();
    let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty())
        || std::env::var_os("TERM").is_some_and(|t| t == "dumb");
    let width = columns(std::env::var("COLUMNS").ok().as_deref()).or_else(|| {
        let size = terminal_size::terminal_size().filter(|_| terminal);
        size.map(|(width, _)| usize::from(width.0))
    });
    TextOptions {
        wide: format == Format::Wide,
        colour: terminal && !plain,
        width: width.filter(|_| terminal).unwrap_or(0),
        page: width.unwrap_or(0),
        no_headers: false,
    }
}

/// What the variable says that wins over the size of the terminal.
fn columns(given: Option<&str>) -> Option<usize> {
    given?.parse().ok().filter(|columns| (1..=u16::MAX.into()).contains(columns))
}

/// Seconds since 1970.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Lines of the terminal, 0 if that is not known.
pub fn height() -> usize {
    terminal_size::terminal_size().map_or(0, |(_, height)| usize::from(height.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_says_how_wide_the_terminal_is_if_it_is_a_number_of_columns() {
        for (given, columns_of_it) in [
            (Some("80"), Some(80)),
            (Some("1"), Some(1)),
            (Some("0"), None),
            (Some("70000"), None),
            (Some("wide"), None),
            (Some(""), None),
            (None, None),
        ] {
            assert_eq!(columns(given), columns_of_it, "{given:?}");
        }
    }
}
