//! The edge to a live Kubernetes API.
