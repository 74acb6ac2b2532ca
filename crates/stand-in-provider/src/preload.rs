//! The library that is preloaded. `build.rs` compiles it.

mod intercept;
mod limits;
mod region;
