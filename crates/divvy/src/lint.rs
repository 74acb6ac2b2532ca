//! `divvy lint`

use crate::cli::Format;
use crate::{BAD_INPUT, DONE, input, kustomize, output};
use anyhow::{Context, bail};
use clap::Args;
use divvy_lint::{Fixed, LintReport, NamedText};
use divvy_sim::{Input, InputError, read_each};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "\
Examples:
  divvy lint -f manifests/       a line for each finding
  divvy lint -f pod.yaml --diff  what --fix would change
  divvy lint -f pod.yaml --fix   mend it in place, comments and order kept
  divvy lint -k overlays/prod    what a kustomization makes
  helm template CHART | divvy lint -f -

What is found, and what can be mended: docs/lint.md. Nothing is contacted. Files that hold no Kubernetes \
objects, such as Chart.yaml or the templates of a chart, are named and passed over; so are those that cannot \
be read, with exit code 1.

Exit codes: 0 nothing was found, or all was mended, 2 something is left, 1 a file cannot be read, or there \
is nothing to look at.")]
pub struct LintArgs {
    /// Manifests: a file, a folder of .yaml, .yml and .json files, or - for standard input; may be
    /// given more than once, and are looked at together
    #[arg(
        short = 'f',
        long = "filename",
        value_name = "FILE",
        required_unless_present = "kustomize"
    )]
    pub files: Vec<PathBuf>,
    /// Also read folders in folders of -f
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// A folder with a kustomization, as `kubectl apply -k` takes it; kubectl makes the manifests
    #[arg(short = 'k', long, value_name = "DIR", conflicts_with = "fix")]
    pub kustomize: Option<PathBuf>,
    /// Where the pods stand in objects of kinds that divvy does not know, as for simulate; may be given
    /// more than once
    #[arg(long, value_name = "FILE")]
    pub pods_of: Vec<PathBuf>,
    /// Mend the files in place, print what was changed as a diff, and say what is left
    #[arg(long, conflicts_with = "diff")]
    pub fix: bool,
    /// Print what --fix would change, and change nothing
    #[arg(long)]
    pub diff: bool,
    /// How to print the findings
    #[arg(short, long, default_value = "table")]
    pub output: Format,
}

/// Something was found.
const FOUND: u8 = 2;

pub fn run(args: &LintArgs) -> anyhow::Result<u8> {
    if args.fix && args.files.iter().any(|file| file == Path::new("-")) {
        bail!("--fix writes files, and - is standard input: use --diff, or give the file");
    }
    let rules = input::pod_rules(&args.pods_of)?;
    let (inputs, broken) = read(args);
    let texts: Vec<NamedText<'_>> =
        inputs.iter().map(|Input { name, text }| NamedText { name, text }).collect();
    let linted = divvy_lint::lint(&texts, &rules);
    // Nothing to look at is not clean: a pipe that broke must not pass.
    if linted.objects == 0 {
        if let Some(broken) = broken.into_iter().next() {
            return Err(broken.error);
        }
        if let Some(why) = linted.unread.into_iter().next() {
            return Err(why.into());
        }
        let input = inputs.into_iter().next().map(|input| input.name).unwrap_or_default();
        return Err(InputError::Empty { input }.into());
    }
    let is_broken = !broken.is_empty() || linted.unread.iter().any(|why| !why.no_object);
    let (mut fixed, left) = match args.fix || args.diff {
        true => divvy_lint::fix(&texts, &rules),
        false => (Vec::new(), Vec::new()),
    };
    let mut report = LintReport::new(inputs.len(), linted);
    broken.into_iter().for_each(|broken| report.pass_over(broken.file, broken.why));
    let unwritten = if args.fix { write(&mut fixed) } else { Vec::new() };
    if args.fix {
        report.mended(left, &unwritten.iter().map(|(name, _)| &**name).collect::<Vec<_>>());
    }
    report.show(fixed.iter().map(divvy_lint::diff).collect());
    let goes_on = report.has_diff() && !std::io::stdout().is_terminal();
    output::print(args.output, &report, |_| {
        let text = divvy_lint::text(&report, args.fix);
        // A diff goes on to `patch` as it is.
        if goes_on { text } else { output::cleaned(&text) }
    })?;
    for (_, why) in &unwritten {
        output::note(&format!("error: {why:#}"));
    }
    Ok(match (is_broken || !unwritten.is_empty(), report.is_clean()) {
        (true, _) => BAD_INPUT,
        (false, true) => DONE,
        (false, false) => FOUND,
    })
}

/// What cannot be read hides nothing of the rest.
struct Broken {
    file: String,
    why: String,
    /// Both in one.
    error: anyhow::Error,
}

fn read(args: &LintArgs) -> (Vec<Input>, Vec<Broken>) {
    let (mut inputs, mut broken) = (Vec::new(), Vec::new());
    for read in read_each(args.files.iter().map(PathBuf::as_path), args.recursive) {
        match read {
            Ok(input) => inputs.push(input),
            Err(error) => {
                let (file, why) = error.parts();
                broken.push(Broken { file, why, error: error.into() });
            }
        }
    }
    if let Some(folder) = &args.kustomize {
        match kustomize::build(folder) {
            Ok(input) => inputs.push(input),
            Err(error) => {
                let (file, all) = (kustomize::name(folder), error.to_string());
                let why = all.strip_prefix(&format!("{file}: ")).unwrap_or(&all).to_owned();
                broken.push(Broken { file, why, error });
            }
        }
    }
    (inputs, broken)
}

/// Writes what was mended; what cannot be written is as it was.
fn write(fixed: &mut Vec<Fixed>) -> Vec<(String, anyhow::Error)> {
    let mut unwritten = Vec::new();
    fixed.retain(|file| {
        let written = match file.is_changed() {
            true => std::fs::write(&file.name, &file.after),
            false => Ok(()),
        };
        let failed = written.with_context(|| format!("cannot write {}", file.name)).err();
        let is_written = failed.is_none();
        unwritten.extend(failed.map(|why| (file.name.clone(), why)));
        is_written
    });
    unwritten
}
