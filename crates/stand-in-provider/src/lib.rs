//! For tests only: what stands in for HAMi-core, which divvy does not ship.
//!
//! ```text
//!   CUDA_DEVICE_MEMORY_LIMIT, ..._0 ─► limits ─► region: one file for all processes of a container
//!                                                   │  the first process decides
//!   a program ─► dlsym or nvmlDeviceGetMemoryInfo ──┴─► NVML's answer, with the limit as the total
//! ```
//!
//! It has HAMi-core's variables, the layout of its file, and like it needs `libcuda.so.1`, of which
//! there is a stub here for machines without a driver. It limits nobody: NVML's numbers are all that
//! changes. Nothing installs it by default.

#![cfg_attr(not(test), allow(dead_code))]

/// The library to preload, as a file.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libvgpu.so"));
/// A stub of `libcuda.so.1`, as a file.
pub const CUDA: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libcuda.so.1"));

mod limits;
mod region;

// Only to be looked at: its functions are in the library, and in no program.
#[cfg(clippy)]
mod intercept;
