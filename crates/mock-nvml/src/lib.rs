//! A mock of NVIDIA's management library (NVML), loaded as `libnvidia-ml.so.1` by NVIDIA's own device
//! plugin and GPU feature discovery on a machine without a GPU.
//!
//! ```text
//!   file named by DIVVY_MOCK_NVML ─► Inventory ─► what is visible ─► C functions ─► NVIDIA's programs
//!   (read again on each call)              ▲
//!   NVIDIA_VISIBLE_DEVICES, /dev/nvidia... ┘
//! ```
//!
//! Only what those programs call is here; NVIDIA's Go bindings find each function when it is first
//! called, so that the others may be missing.

mod api;
mod events;
mod inventory;
mod mig;
mod visible;

pub use inventory::{Card, FILE, INSIDE, Inventory};
pub use mig::Slice;
