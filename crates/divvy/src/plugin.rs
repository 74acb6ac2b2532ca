//! `kubectl divvy`: what changes if the binary is linked as `kubectl-divvy`, and what kubectl asks
//! of `kubectl_complete-divvy`, which may be the same binary too.

use crate::{DONE, output};
use clap::{Arg, Command};
use std::fmt::Write;

/// By which name the binary was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// Its own.
    Divvy,
    /// As a plugin of kubectl.
    Plugin,
    /// By kubectl, to complete a command line of the plugin.
    Completion,
}

impl Called {
    /// From the name of the program's file.
    pub fn by(program: &str) -> Self {
        if program.starts_with("kubectl_complete-") {
            Self::Completion
        } else if program.starts_with("kubectl-") {
            Self::Plugin
        } else {
            Self::Divvy
        }
    }
}

/// The command line with `kubectl divvy` in all its texts.
pub fn renamed(command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    let rename = |text: String| {
        names.iter().fold(text, |text, name| {
            text.replace(&format!("divvy {name}"), &format!("kubectl divvy {name}"))
        })
    };
    rename_texts(command, &rename).bin_name("kubectl divvy")
}

fn rename_texts(mut command: Command, rename: &dyn Fn(String) -> String) -> Command {
    if let Some(text) = command.get_after_help().map(ToString::to_string) {
        command = command.after_help(rename(text));
    }
    if let Some(text) = command.get_long_about().map(ToString::to_string) {
        command = command.long_about(rename(text));
    }
    command = command.mut_args(|mut arg| {
        if let Some(text) = arg.get_help().map(ToString::to_string) {
            arg = arg.help(rename(text));
        }
        if let Some(text) = arg.get_long_help().map(ToString::to_string) {
            arg = arg.long_help(rename(text));
        }
        arg
    });
    command.mut_subcommands(|subcommand| rename_texts(subcommand, rename))
}

/// Prints what may follow the words so far, of which the last is being typed.
pub fn complete(mut command: Command, words: &[String]) -> anyhow::Result<u8> {
    command.build();
    output::write(&completions(&command, words))?;
    Ok(DONE)
}

/// Nothing but what is listed.
const NO_FILES: u8 = 4;
/// The shell's own: files.
const FILES: u8 = 0;

/// A line `word<tab>what it is` each, and `:` with what else the shell may offer.
fn completions(root: &Command, words: &[String]) -> String {
    let (typed, before) = words.split_last().map_or(("", words), |(last, rest)| (last, rest));
    let mut command = root;
    let mut option: Option<&Arg> = None;
    let mut positionals = command.get_positionals();
    for word in before {
        if option.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            option = command.get_arguments().find(|arg| wants_value(arg, word));
        } else if let Some(found) = command.find_subcommand(word) {
            command = found;
            positionals = command.get_positionals();
        } else {
            positionals.next();
        }
    }
    let mut found: Vec<(String, String)> = Vec::new();
    let mut rest = NO_FILES;
    if let Some(arg) = option.or_else(|| positionals.next().filter(|_| !typed.starts_with('-'))) {
        let values = arg.get_possible_values();
        found.extend(values.iter().map(|v| (v.get_name().to_owned(), first_line(v.get_help()))));
        let is_file = arg.get_value_names().is_some_and(|names| names.iter().any(|n| *n == "FILE"));
        rest = if is_file { FILES } else { NO_FILES };
    } else if typed.starts_with('-') {
        let longs = command.get_arguments().filter(|arg| !arg.is_hide_set());
        found.extend(longs.filter_map(|arg| {
            Some((format!("--{}", arg.get_long()?), first_line(arg.get_help())))
        }));
    } else {
        let commands = command.get_subcommands().filter(|c| !c.is_hide_set());
        found.extend(commands.map(|c| (c.get_name().to_owned(), first_line(c.get_about()))));
    }
    let mut text = String::new();
    for (word, help) in found.iter().filter(|(word, _)| word.starts_with(typed)) {
        let _ = writeln!(text, "{word}\t{help}");
    }
    let _ = writeln!(text, ":{rest}");
    text
}

/// Whether the next word is the value of this option.
fn wants_value(arg: &Arg, word: &str) -> bool {
    let long = arg.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long));
    let short = arg.get_short().is_some_and(|short| word == format!("-{short}"));
    (long || short) && arg.get_action().takes_values()
}

fn first_line(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    fn complete(words: &str) -> String {
        let mut command = Cli::command();
        command.build();
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        completions(&command, &words)
    }

    #[test]
    fn the_name_of_the_program_says_what_is_wanted() {
        for (name, called) in [
            ("divvy", Called::Divvy),
            ("kubectl-divvy", Called::Plugin),
            ("kubectl_complete-divvy", Called::Completion),
        ] {
            assert_eq!(Called::by(name), called, "{name}");
        }
    }

    #[test]
    fn a_plugin_calls_itself_kubectl_divvy_everywhere() {
        let mut command = renamed(Cli::command());
        command.build();
        let top = command.find_subcommand_mut("top").unwrap();
        let help = top.render_long_help().to_string();
        assert!(help.contains("Usage: kubectl divvy top"), "{help}");
        assert!(help.contains("  kubectl divvy top cards"), "{help}");
        assert!(help.contains("what `kubectl divvy snapshot` or"), "{help}");
        assert_eq!(help.matches("divvy ").count(), help.matches("kubectl divvy ").count());
    }

    #[test]
    fn kubectl_is_told_what_may_follow() {
        assert!(
            complete("").contains("top\tShow what is on which node, card or pod, and who waits\n")
        );
        assert_eq!(
            complete("sna"),
            "snapshot\tSave what a rehearsal reads of a live cluster\n:4\n"
        );
        assert_eq!(complete("top c"), "cards\tOne row a card\n:4\n");
        assert_eq!(complete("top -o j"), "json\tFor programs\n:4\n");
        assert_eq!(
            complete("explain p"),
            "pod\tSay where a pod goes, or why it waits: by node, \
            with the numbers and the nearest fit\n:4\n"
        );
        assert!(complete("top --kubec").starts_with("--kubeconfig\t"));
        assert_eq!(complete("simulate -f "), ":0\n");
        assert_eq!(complete("top cards --context prod --watc").lines().count(), 2);
    }
}
