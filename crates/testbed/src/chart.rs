//! Charts, by the real Helm.

use crate::{Program, Programs, Unavailable, io};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Where Helm says which file a manifest is from.
const SOURCE: &str = "# Source: ";

/// Helm, which is built first if it is not there yet.
pub fn helm(say: &mut dyn FnMut(&str)) -> Result<Command, Unavailable> {
    let programs = Programs::build_one(Program::Helm, say)?;
    Ok(Command::new(programs.path(Program::Helm)))
}

/// What a chart makes with these values in a namespace: the manifests of each of its files, in the
/// order in which Helm makes them. Tests and other hooks are not among them.
pub fn render(
    mut helm: Command,
    chart: &Path,
    values: &Path,
    namespace: &str,
) -> Result<BTreeMap<String, String>, Unavailable> {
    let what = || format!("cannot render {}", chart.display());
    helm.args(["template", "divvy", "--no-hooks", "--namespace", namespace, "--values"]);
    let output = helm.arg(values).arg(chart).output().map_err(io(what()))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(io(what())(std::io::Error::other(why)));
    }
    Ok(split(&String::from_utf8_lossy(&output.stdout)))
}

/// The manifests by the name of their file.
fn split(text: &str) -> BTreeMap<String, String> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for document in text.split(&format!("---\n{SOURCE}")).skip(1) {
        let (source, manifest) = document.split_once('\n').unwrap_or((document, ""));
        let name = source.rsplit('/').next().unwrap_or(source);
        let file = files.entry(name.to_owned()).or_default();
        if !file.is_empty() {
            file.push_str("---\n");
        }
        file.push_str(manifest.trim());
        file.push('\n');
    }
    files
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn manifests_of_one_file_are_one_text_in_their_order() {
        let text = "---\n# Source: c/templates/a.yaml\n# why\nkind: A\n\n---\n# Source: c/templates/b.yaml\n\
                    kind: B\n---\n# Source: c/templates/a.yaml\nkind: C\n";
        let files: Vec<_> = split(text).into_iter().collect();
        let expected = [("a.yaml", "# why\nkind: A\n---\nkind: C\n"), ("b.yaml", "kind: B\n")]
            .map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(files, expected);
    }
}
