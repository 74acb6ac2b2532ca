//! A small client: objects as JSON, many at a time.

use crate::ControlPlane;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What went wrong with a request.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The server said no.
    #[error("{method} {path}: {status}: {message}")]
    Refused {
        /// The method.
        method: Method,
        /// The path.
        path: String,
        /// The status.
        status: StatusCode,
        /// What it said.
        message: String,
    },
    /// There was no answer.
    #[error("{method} {path}: {why}")]
    NoAnswer {
        /// The method.
        method: Method,
        /// The path.
        path: String,
        /// Why.
        why: String,
    },
    /// There is no client.
    #[error("no client: {0}")]
    NoClient(String),
}

/// A client of the testbed's API server. It belongs to the runtime it was made in.
#[derive(Clone)]
pub struct Api {
    client: kube::Client,
}

impl Api {
    /// A client for this control plane.
    pub async fn connect(plane: &ControlPlane) -> Result<Self, ApiError> {
        Self::from_kubeconfig(&plane.kubeconfig()).await
    }

    /// A client for the cluster of a kubeconfig.
    pub async fn from_kubeconfig(path: &Path) -> Result<Self, ApiError> {
        let text = |e: &dyn std::error::Error| ApiError::NoClient(e.to_string());
        let kubeconfig = Kubeconfig::read_from(path).map_err(|e| text(&e))?;
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let mut config = config.map_err(|e| text(&e))?;
        // A test wants to see each answer.
        config.default_retry = false;
        Ok(Self { client: kube::Client::try_from(config).map_err(|e| text(&e))? })
    }

    /// The client below, for whoever forwards requests.
    pub(crate) fn client(&self) -> &kube::Client {
        &self.client
    }

    /// One request; an empty answer is `Null`.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Value, ApiError> {
        let no_answer = |why: String| {
            let (method, path) = (method.clone(), path.to_owned());
            ApiError::NoAnswer { method, path, why }
        };
        let body = body.map_or_else(Vec::new, |value| value.to_string().into_bytes());
        let request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header(http::header::CONTENT_TYPE, content_type)
            .body(Body::from(body))
            .map_err(|e| no_answer(e.to_string()))?;
        let response = self.client.send(request).await.map_err(|e| no_answer(e.to_string()))?;
        let status = response.status();
        let bytes = response.into_body().collect().await.map_err(|e| no_answer(e.to_string()))?;
        let value: Value = serde_json::from_slice(&bytes.to_bytes()).unwrap_or_default();
        if status.is_success() {
            return Ok(value);
        }
        let message = value["message"].as_str().unwrap_or_default().to_owned();
        Err(ApiError::Refused { method: method.clone(), path: path.to_owned(), status, message })
    }

    /// Reads an object or a list.
    pub async fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.send(Method::GET, path, JSON, None).await
    }

    /// Makes an object.
    pub async fn create(&self, object: &Value) -> Result<Value, ApiError> {
        self.send(Method::POST, &collection(object), JSON, Some(object)).await
    }

    /// Makes an object, and asks once more if there is no answer: a connection that was kept may be
    /// closed just when it is used. That it is there then tells that the first request arrived.
    pub async fn make(&self, object: &Value) -> Result<(), ApiError> {
        match self.create(object).await {
            Err(ApiError::NoAnswer { .. }) => match self.create(object).await {
                Err(ApiError::Refused { status: StatusCode::CONFLICT, .. }) => Ok(()),
                again => again.map(drop),
            },
            answer => answer.map(drop),
        }
    }

    /// Deletes an object in the same way.
    pub async fn unmake(&self, path: &str) -> Result<(), ApiError> {
        match self.delete(path).await {
            Err(ApiError::NoAnswer { .. }) => match self.delete(path).await {
                Err(ApiError::Refused { status: StatusCode::NOT_FOUND, .. }) => Ok(()),
                again => again.map(drop),
            },
            answer => answer.map(drop),
        }
    }

    /// Changes an object by a merge patch; the path may name a subresource.
    pub async fn patch(&self, path: &str, patch: &Value) -> Result<Value, ApiError> {
        self.send(Method::PATCH, path, "application/merge-patch+json", Some(patch)).await
    }

    /// Deletes an object at once, with no kubelet to ask.
    pub async fn delete(&self, path: &str) -> Result<Value, ApiError> {
        let options = serde_json::json!({"gracePeriodSeconds": 0});
        self.send(Method::DELETE, path, JSON, Some(&options)).await
    }

    /// Opens a watch; `accept` asks for another form than whole objects.
    pub async fn watch(&self, path: &str, accept: &str) -> Result<Lines, ApiError> {
        let no_answer = |why: String| {
            let (method, path) = (Method::GET, path.to_owned());
            ApiError::NoAnswer { method, path, why }
        };
        let request = Request::get(path).header(http::header::ACCEPT, accept).body(Body::empty());
        let request = request.map_err(|e| no_answer(e.to_string()))?;
        let response = self.client.send(request).await.map_err(|e| no_answer(e.to_string()))?;
        if !response.status().is_success() {
            return Err(no_answer(response.status().to_string()));
        }
        Ok(Lines { body: response.into_body(), rest: Vec::new(), read: 0 })
    }

    /// Makes many objects, so many at a time.
    pub async fn create_all(&self, objects: Vec<Value>, at_a_time: usize) -> Result<(), ApiError> {
        self.write_all(objects.into_iter().map(Write::Create).collect(), at_a_time).await
    }

    /// Deletes many objects, so many at a time.
    pub async fn delete_all(&self, paths: Vec<String>, at_a_time: usize) -> Result<(), ApiError> {
        self.write_all(paths.into_iter().map(Write::Delete).collect(), at_a_time).await
    }

    async fn write_all(&self, writes: Vec<Write>, at_a_time: usize) -> Result<(), ApiError> {
        let writes = Arc::new(writes);
        let next = Arc::new(AtomicUsize::new(0));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..at_a_time {
            let (api, writes, next) = (self.clone(), Arc::clone(&writes), Arc::clone(&next));
            tasks.spawn(async move {
                while let Some(write) = writes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match write {
                        Write::Create(object) => api.make(object).await?,
                        Write::Delete(path) => api.unmake(path).await?,
                    }
                }
                Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap_or_else(|e| Err(ApiError::NoClient(e.to_string())))?;
        }
        Ok(())
    }
}

enum Write {
    Create(Value),
    Delete(String),
}

/// The lines of a watch, one event each.
pub struct Lines {
    body: Body,
    rest: Vec<u8>,
    /// How far `rest` is known to hold no end of a line.
    read: usize,
}

impl Lines {
    /// The next line; nothing once the watch has ended or broken off.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let fresh = self.rest.get(self.read..).unwrap_or_default();
            if let Some(end) = fresh.iter().position(|b| *b == b'\n') {
                let rest = self.rest.split_off(self.read + end + 1);
                self.read = 0;
                return Some(std::mem::replace(&mut self.rest, rest));
            }
            self.read = self.rest.len();
            let frame = self.body.frame().await?.ok()?;
            self.rest.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        }
    }
}

/// Whole objects.
pub const JSON: &str = "application/json";

/// Where objects of this kind are made.
fn collection(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    let plural = match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    };
    let version = object["apiVersion"].as_str().unwrap_or("v1");
    let root = if version.contains('/') { "apis" } else { "api" };
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("/{root}/{version}/namespaces/{namespace}/{plural}"),
        None => format!("/{root}/{version}/{plural}"),
    }
}
