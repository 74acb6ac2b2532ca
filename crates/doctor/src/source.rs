//! Where a cluster is looked at: a live one, or what somebody saved of it.

use crate::looked::Looked;
use divvy_api::{Failure, Resource};
use divvy_cluster::snapshot::{OnPage, Reader, SnapshotError};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Nobody has more of them where administrators alone make any.
const MOST_IN_NAMESPACE: usize = 100;

/// Where a cluster is looked at.
pub enum ClusterSource<'a> {
    /// At an API server; hears of each page.
    Live(&'a Reader, OnPage<'a>),
    /// In a file.
    Saved(&'a Saved),
}

/// What `kubectl get ... -o yaml` printed.
pub struct Saved {
    name: String,
    objects: Vec<Value>,
}

impl Saved {
    /// Reads the text of a file of this name, or says what is wrong with it.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let documents = divvy_words::untyped(text).map_err(|why| format!("{name}: {why}"))?;
        let flatten = |mut document: Value| match document.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => vec![document],
        };
        let objects = documents.into_iter().flat_map(flatten).collect();
        Ok(Self { name: name.to_owned(), objects })
    }

    fn of_kind(&self, resource: &Resource) -> impl Iterator<Item = &Value> {
        let is_it = move |object: &&Value| {
            object["kind"] == resource.kind && object["apiVersion"] == resource.api_version
        };
        self.objects.iter().filter(is_it)
    }
}

impl ClusterSource<'_> {
    /// All objects of a kind that matter. What we may not see is hidden; an error is that nobody
    /// can look at all.
    pub(crate) async fn all<T>(
        &self,
        resource: &Resource,
        matters: impl Fn(&T) -> bool + Sync,
    ) -> Result<Looked<T>, SnapshotError>
    where
        T: DeserializeOwned + Send,
    {
        let result = match self {
            Self::Live(reader, on_page) => {
                // What does not matter is counted, and takes no memory.
                let read = |item: &[u8]| {
                    let object: T = serde_json::from_slice(item).map_err(|why| {
                        Failure::Unclear(format!("an object cannot be read: {why}"))
                    })?;
                    Ok(Some(Some(object).filter(&matters).map(Box::new)))
                };
                let objects = reader.list(resource, &read, on_page).await;
                objects.map(|all| {
                    let count = all.len();
                    Looked::seen(all.into_iter().flatten().map(|object| *object).collect(), count)
                })
            }
            Self::Saved(saved) => {
                let found: Vec<&Value> = saved.of_kind(resource).collect();
                if found.is_empty() {
                    return Ok(Looked::hidden(format!("there are none in {}", saved.name)));
                }
                let read = |object: &&Value| T::deserialize(*object).ok().filter(&matters);
                Ok(Looked::seen(found.iter().filter_map(read).collect(), found.len()))
            }
        };
        looked(result)
    }

    /// The first objects of a kind in a namespace, those of them that matter.
    pub(crate) async fn some_in<T>(
        &self,
        resource: &Resource,
        namespace: &str,
        matters: impl Fn(&T) -> bool,
    ) -> Result<Looked<T>, SnapshotError>
    where
        T: DeserializeOwned,
    {
        let read = |items: &mut dyn Iterator<Item = &Value>| {
            let (mut all, mut count) = (Vec::new(), 0);
            for item in items.take(MOST_IN_NAMESPACE) {
                count += 1;
                all.extend(T::deserialize(item).ok().filter(&matters));
            }
            Looked::seen(all, count)
        };
        match self {
            Self::Live(reader, _) => {
                let path = format!("{}?limit={MOST_IN_NAMESPACE}", resource.path_in(namespace));
                let list = reader.get(&path, resource).await.map(|bytes| {
                    match serde_json::from_slice::<Value>(&bytes) {
                        Ok(list) => read(&mut list["items"].as_array().into_iter().flatten()),
                        Err(why) => Looked::hidden(format!("they cannot be read: {why}")),
                    }
                });
                looked(list)
            }
            Self::Saved(saved) => {
                let is_there = |object: &&Value| object["metadata"]["namespace"] == namespace;
                Ok(read(&mut saved.of_kind(resource).filter(is_there)))
            }
        }
    }

    /// One object, if it is there.
    pub(crate) async fn one<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Looked<T>, SnapshotError> {
        // Whoever wrote it somewhere else may have meant something else than an object.
        let is_name = |text: &str| divvy_words::is_subdomain(text);
        if !is_name(name) || !(namespace.is_empty() || is_name(namespace)) {
            return Ok(Looked::hidden(format!("{namespace:?} and {name:?} are no names")));
        }
        match self {
            Self::Live(..) => self.at(&resource.path_of(namespace, name), resource).await,
            Self::Saved(saved) => {
                let is_it = |object: &&Value| {
                    let metadata = &object["metadata"];
                    let place = metadata["namespace"].as_str().unwrap_or_default();
                    metadata["name"] == name && place == namespace
                };
                if saved.of_kind(resource).next().is_none() {
                    return Ok(Looked::hidden(format!("there are none in {}", saved.name)));
                }
                let found = saved.of_kind(resource).find(is_it);
                let found = found.and_then(|object| T::deserialize(object).ok());
                let count = usize::from(found.is_some());
                Ok(Looked::seen(found.into_iter().collect(), count))
            }
        }
    }

    /// What is at a path of the API server.
    pub(crate) async fn at<T: DeserializeOwned>(
        &self,
        path: &str,
        resource: &Resource,
    ) -> Result<Looked<T>, SnapshotError> {
        let Self::Live(reader, _) = self else {
            return Ok(Looked::hidden("it is in no file".to_owned()));
        };
        let result = match reader.get(path, resource).await {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(object) => Ok(Looked::seen(vec![object], 1)),
                Err(why) => Ok(Looked::hidden(format!("it cannot be read: {why}"))),
            },
            Err(why) => Err(why),
        };
        looked(result)
    }
}

fn looked<T>(result: Result<Looked<T>, SnapshotError>) -> Result<Looked<T>, SnapshotError> {
    match result {
        Ok(looked) => Ok(looked),
        Err(SnapshotError::Absent { .. }) => Ok(Looked::default()),
        Err(SnapshotError::Forbidden { .. }) => Ok(Looked::hidden("forbidden".to_owned())),
        Err(
            why @ (SnapshotError::Unreachable { .. }
            | SnapshotError::Late { .. }
            | SnapshotError::Unauthorized { .. }),
        ) => Err(why),
        Err(why) => Ok(Looked::hidden(why.to_string())),
    }
}
