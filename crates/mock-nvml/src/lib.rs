//! A mock of NVIDIA's management library (NVML), loaded as `libnvidia-ml.so.1` by NVIDIA's own device
//! plugin and GPU feature discovery on a machine without a GPU.
//!
//! ```text
//!   file named by DIVVY_MOCK_NVML ─► Inventory ─► visible cards ─► C functions ─► NVIDIA's programs
//!   (read again on each call)             ▲
//!   NVIDIA_VISIBLE_DEVICES, /dev/nvidia<i>┘
//! ```
//!
//! Only what those programs call is here; NVIDIA's Go bindings find each function when it is first
//! called, so that the others may be missing. MIG is not mocked: every card says that it is off.

mod api;
mod events;
mod inventory;
mod visible;

pub use inventory::{Card, FILE, INSIDE, Inventory};
