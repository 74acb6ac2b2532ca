//! A list in pages, read while it comes: all of it may be more than there is memory for.

mod split;

pub(crate) use split::MOST_ITEM;
pub use split::Split;

use crate::failure::{Failure, innermost};
use crate::observer::Verb;
use crate::request::{Api, next_piece};
use kube::client::Body;
use serde::Deserialize;

/// A list that is being read.
pub struct List<'a> {
    api: &'a Api,
    path: String,
    /// Objects in a page.
    limit: usize,
    /// Where the next page begins, as the server calls it.
    from: Option<String>,
    page: Option<(Body, Split)>,
}

/// How far a list is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListProgress {
    /// A piece of a page came.
    Piece,
    /// A page is complete.
    Page {
        /// How many objects are still to come, as far as the server says.
        left: u64,
    },
    /// All pages are complete.
    End {
        /// The version from which to watch.
        version: String,
    },
}

/// What is told of an object, or of a list besides its objects.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ListMetadata {
    pub(crate) resource_version: String,
    r#continue: Option<String>,
    remaining_item_count: Option<u64>,
}

#[derive(Deserialize)]
struct Rest {
    #[serde(default)]
    metadata: ListMetadata,
}

impl<'a> List<'a> {
    /// A list of what is at this path, so many objects a page.
    pub const fn new(api: &'a Api, path: String, limit: usize) -> Self {
        Self { api, path, limit, from: None, page: None }
    }

    /// Reads on; each object that is complete now goes to `tell`.
    pub async fn next(&mut self, tell: impl FnMut(&[u8])) -> Result<ListProgress, Failure> {
        let unclear = |why: String| Failure::Unclear(format!("the list cannot be read: {why}"));
        let (body, split) = match &mut self.page {
            Some(page) => page,
            None => {
                let body = self.api.open(Verb::List, &self.page_path()).await?;
                self.page.insert((body, Split::default()))
            }
        };
        let piece = tokio::time::timeout(self.api.patience(), next_piece(body)).await;
        let piece = piece.map_err(|_| unclear("nothing came for a while".to_owned()))?;
        let broken = |why: kube::Error| Failure::Unreachable {
            why: format!("the list cannot be read: {why}"),
            cause: innermost(&why),
        };
        if let Some(piece) = piece.map_err(broken)? {
            split.push(&piece, tell).map_err(|why| unclear(why.to_owned()))?;
            return Ok(ListProgress::Piece);
        }
        let rest = serde_json::from_slice(split.rest());
        let Rest { metadata } = rest.map_err(|why| unclear(why.to_string()))?;
        self.page = None;
        self.from = metadata.r#continue.filter(|token| !token.is_empty());
        Ok(match self.from {
            Some(_) => {
                ListProgress::Page { left: metadata.remaining_item_count.unwrap_or_default() }
            }
            None => ListProgress::End { version: metadata.resource_version },
        })
    }

    /// Begins the page that is being read again, with fewer objects from now on, so that what was
    /// told of it is void. Not if there is one object a page already.
    pub fn shorten(&mut self) -> bool {
        if self.limit <= 1 {
            return false;
        }
        self.page = None;
        self.limit = (self.limit / 8).max(1);
        true
    }

    fn page_path(&self) -> String {
        let path = format!("{}?limit={}", self.path, self.limit);
        match &self.from {
            Some(token) => format!("{path}&continue={token}"),
            None => path,
        }
    }
}
