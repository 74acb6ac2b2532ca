//! A stub of the driver's CUDA library: enough to be needed. `build.rs` compiles it.
#![no_std]
#![allow(non_snake_case)]

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// Says that all is well.
#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_flags: u32) -> u32 {
    0
}
