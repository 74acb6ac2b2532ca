//! Where manifests come from: files, folders and standard input.

use divvy_words::{ReadError, keys};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Why the input cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A folder has nothing to read.
    #[error(
        "{}: no .yaml, .yml or .json file in this folder; -R looks into folders in it too",
        path.display()
    )]
    EmptyFolder {
        /// Which.
        path: PathBuf,
    },
    /// Standard input was asked for twice.
    #[error("- (standard input) can be given only once")]
    StdinTwice,
    /// A file is not UTF-8.
    #[error("{input}: line {line} is not UTF-8 text")]
    NotText {
        /// Its name.
        input: String,
        /// The first line that is not, from 1.
        line: usize,
    },
    /// A file is UTF-16.
    #[error("{input}: the file is UTF-16, as some editors on Windows write it; save it as UTF-8")]
    Utf16 {
        /// Its name.
        input: String,
    },
    /// Nothing of what is given makes pods.
    #[error("nothing to place: {found} given, and none of that makes pods{meant}")]
    NothingToPlace {
        /// What is given, by kind.
        found: String,
        /// What may have been meant.
        meant: String,
    },
    /// More pods than a rehearsal takes.
    #[error("the manifests make {pods} pods; a rehearsal takes at most {MAX_PODS}")]
    TooMany {
        /// How many.
        pods: usize,
    },
    /// A text holds nothing.
    #[error("{input} holds no Kubernetes object")]
    Empty {
        /// Its name.
        input: String,
    },
    /// A text makes no sense.
    #[error(transparent)]
    Text(#[from] ReadError),
    /// A config of the device plugin, the MIG manager or the operator makes no sense.
    #[error("{0}")]
    Config(String),
    /// A node makes no sense.
    #[error("{input}: {message}")]
    Node {
        /// Where it stands.
        input: String,
        /// What is wrong.
        message: String,
    },
}

/// More pods than this are a slip of the keyboard, and would not fit into memory.
pub(crate) const MAX_PODS: usize = 4_000_000;

/// A text and its name.
#[derive(Clone, Debug)]
pub struct Input {
    /// The path, or `-`.
    pub name: String,
    /// What it says.
    pub text: String,
}

impl InputError {
    /// The name of what cannot be read, and why.
    pub fn parts(&self) -> (String, String) {
        let name = match self {
            Self::Unreadable { path, .. } | Self::EmptyFolder { path } => {
                path.display().to_string()
            }
            Self::NotText { input, .. }
            | Self::Utf16 { input }
            | Self::Empty { input }
            | Self::Node { input, .. } => input.clone(),
            Self::Text(why) => why.source_name.clone(),
            _ => "-".to_owned(),
        };
        let all = self.to_string();
        let heads = [format!("cannot read {name}: "), format!("{name}: ")];
        let why = heads.iter().find_map(|head| all.strip_prefix(head)).unwrap_or(&all);
        let why = why.to_owned();
        (name, why)
    }
}

impl Input {
    /// A cluster of one node with nothing but cards and more CPU and memory than anybody asks.
    pub fn node_of_cards(name: &str, model: &str, cards: u32) -> Self {
        let text = format!(
            "apiVersion: v1\nkind: Node\nmetadata:\n  name: {name}\n  labels:\n    \
             {product}: {model}\n    {count}: \"{cards}\"\nstatus:\n  allocatable:\n    \
             {gpu}: {cards}\n    cpu: 1000000\n    memory: 1Pi\n    pods: 1000000\n",
            product = keys::LABEL_GPU_PRODUCT,
            count = keys::LABEL_GPU_COUNT,
            gpu = keys::GPU,
        );
        Self { name: format!("{cards} x {model}"), text }
    }
}

/// Reads files, the manifests of folders, and `-`; of folders in these only if that is asked, as
/// kubectl does.
pub fn read_inputs<'a>(
    paths: impl IntoIterator<Item = &'a Path>,
    recursive: bool,
) -> Result<Vec<Input>, InputError> {
    read_each(paths, recursive).into_iter().collect()
}

/// The same, for whoever can do with some of them.
pub fn read_each<'a>(
    paths: impl IntoIterator<Item = &'a Path>,
    recursive: bool,
) -> Vec<Result<Input, InputError>> {
    let mut inputs = Vec::new();
    let mut has_stdin = false;
    for path in paths {
        if path == Path::new("-") {
            inputs.push(match std::mem::replace(&mut has_stdin, true) {
                true => Err(InputError::StdinTwice),
                false => read_stdin(path),
            });
        } else if path.is_dir() {
            match manifests_in(path, recursive) {
                Ok(files) if files.is_empty() => {
                    inputs.push(Err(InputError::EmptyFolder { path: path.to_owned() }));
                }
                Ok(mut files) => {
                    files.sort();
                    inputs.extend(files.iter().map(|file| read_file(file)));
                }
                Err(why) => inputs.push(Err(why)),
            }
        } else {
            inputs.push(read_file(path));
        }
    }
    inputs
}

fn read_stdin(path: &Path) -> Result<Input, InputError> {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).map_err(unreadable(path))?;
    decode("-".to_owned(), bytes)
}

fn read_file(path: &Path) -> Result<Input, InputError> {
    let bytes = std::fs::read(path).map_err(unreadable(path))?;
    decode(path.display().to_string(), bytes)
}

fn decode(name: String, bytes: Vec<u8>) -> Result<Input, InputError> {
    if is_utf16(&bytes) {
        return Err(InputError::Utf16 { input: name });
    }
    String::from_utf8(bytes).map(|text| Input { name: name.clone(), text }).map_err(|error| {
        let read = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = read.iter().filter(|b| **b == b'\n').count() + 1;
        InputError::NotText { input: name, line }
    })
}

/// By its byte order mark, or by a first character that is ASCII beside a zero.
fn is_utf16(bytes: &[u8]) -> bool {
    let is_ascii = |b: &u8| b.is_ascii_graphic() || b.is_ascii_whitespace();
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
        [0, letter, 0, other, ..] | [letter, 0, other, 0, ..] => {
            is_ascii(letter) && is_ascii(other)
        }
        _ => false,
    }
}

/// Links to folders are not followed: they may lead back.
fn manifests_in(folder: &Path, recursive: bool) -> Result<Vec<PathBuf>, InputError> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable(folder))? {
        let entry = entry.map_err(unreadable(folder))?;
        let path = entry.path();
        if recursive && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files.extend(manifests_in(&path, recursive)?);
        }
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        if matches!(extension, "yaml" | "yml" | "json") && path.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}

fn unreadable(path: &Path) -> impl FnOnce(std::io::Error) -> InputError + '_ {
    |error| InputError::Unreadable { path: path.to_owned(), error }
}
