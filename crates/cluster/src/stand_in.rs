//! Stand-ins until the real ones are here.
#![allow(missing_docs, dead_code, unused_variables, clippy::all, clippy::needless_pass_by_value)]
pub mod serve {
    use crate::metrics::Metrics;
    #[derive(Clone, Default)]
    pub struct Health(());
    impl Health {
        pub fn beat(&self) {}
        pub fn set_missing(&self, missing: impl Iterator<Item = &'static str>) {}
    }
    pub async fn serve(listener: tokio::net::TcpListener, metrics: Metrics, health: Health) {}
}
