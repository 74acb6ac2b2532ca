//! The functions that are found before NVML's own.
#![allow(non_snake_case, missing_docs)]
#![allow(clippy::missing_safety_doc)] // As in C: each pointer is null or valid for what is written.

use crate::limits::{CARDS, Limits, overridden};
use crate::region;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

type Return = c_uint;
type Device = *mut c_void;
type Find = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type Ask<T> = unsafe extern "C" fn(Device, *mut T) -> Return;

const SUCCESS: Return = 0;
const FUNCTION_NOT_FOUND: Return = 13;
const LAZY: c_int = 1;
const OVERRIDES: &str = "/overrideEnv";
const NVML: &CStr = c"libnvidia-ml.so.1";
const INDEX: &CStr = c"nvmlDeviceGetIndex";
const MEMORY: &CStr = c"nvmlDeviceGetMemoryInfo";
const MEMORY_2: &CStr = c"nvmlDeviceGetMemoryInfo_v2";
/// Under which versions C libraries have `dlsym`: x86-64 and arm64, and all since 2.34.
const VERSIONS: [&CStr; 3] = [c"GLIBC_2.34", c"GLIBC_2.2.5", c"GLIBC_2.17"];

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlvsym(library: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

// As in `mock-nvml`, which cannot be linked here: its functions would be found before NVML's own.
#[repr(C)]
pub struct Memory {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[repr(C)]
pub struct Memory2 {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// What comes after this library, in the order in which names are looked for.
fn next() -> *mut c_void {
    std::ptr::without_provenance_mut(usize::MAX)
}

/// The C library's own. This is called in programs that have hardly begun, by everything that looks
/// for a function: so nothing here but two words.
fn real_dlsym() -> Option<Find> {
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let mut found = FOUND.load(Ordering::Acquire);
    for version in VERSIONS {
        if found.is_null() {
            // SAFETY: both texts end with zero.
            found = unsafe { dlvsym(next(), c"dlsym".as_ptr(), version.as_ptr()) };
        }
    }
    FOUND.store(found, Ordering::Release);
    // SAFETY: null is none; what the C library has under this name is this function.
    unsafe { std::mem::transmute::<*mut c_void, Option<Find>>(found) }
}

/// A function of NVML itself.
fn real(name: &CStr) -> *mut c_void {
    let Some(find) = real_dlsym() else { return std::ptr::null_mut() };
    // SAFETY: the texts end with zero. A library that is loaded is not loaded a second time.
    unsafe {
        let library = dlopen(NVML.as_ptr(), LAZY);
        if library.is_null() { library } else { find(library, name.as_ptr()) }
    }
}

/// Also finds what comes after the caller as what comes after this library, as HAMi-core did for
/// long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void {
    let Some(find) = real_dlsym() else { return std::ptr::null_mut() };
    // SAFETY: what the caller gave.
    let found = unsafe { find(library, name) };
    if name.is_null() || found.is_null() {
        return found;
    }
    // SAFETY: not null, so by C's contract a text that ends with zero.
    let name = unsafe { CStr::from_ptr(name) };
    if name == MEMORY {
        nvmlDeviceGetMemoryInfo as *mut c_void
    } else if name == MEMORY_2 {
        nvmlDeviceGetMemoryInfo_v2 as *mut c_void
    } else {
        found
    }
}

/// How much of this card the process may have; 0 is all.
fn limit(device: Device) -> u64 {
    static LIMITS: OnceLock<Limits> = OnceLock::new();
    let limits = LIMITS.get_or_init(|| {
        let file = std::fs::read_to_string(OVERRIDES).unwrap_or_default();
        let variable = |name: &str| overridden(&file, name).or_else(|| std::env::var(name).ok());
        let path = variable("CUDA_DEVICE_MEMORY_SHARED_CACHE");
        let path = PathBuf::from(path.as_deref().unwrap_or("/tmp/cudevshr.cache"));
        let process = i32::try_from(std::process::id()).unwrap_or_default();
        region::enter(&path, &Limits::read(variable), process).unwrap_or_else(|why| {
            eprintln!("the stand-in provider: {}: {why}", path.display());
            // As HAMi-core does: who cannot be limited does not go on.
            std::process::exit(1)
        })
    });
    let index = real(INDEX);
    let mut at: c_uint = 0;
    if !index.is_null() {
        // SAFETY: what NVML has under this name is this function, and it writes one number.
        unsafe {
            let ask = std::mem::transmute::<*mut c_void, Ask<c_uint>>(index);
            let _ = ask(device, &raw mut at);
        }
    }
    limits.memory.get(at as usize % CARDS).copied().unwrap_or(0)
}

/// Asks NVML and, where there is a limit, lets `change` write it into the answer.
unsafe fn answer<T>(name: &CStr, device: Device, to: *mut T, change: fn(&mut T, u64)) -> Return {
    let real = real(name);
    if real.is_null() {
        return FUNCTION_NOT_FOUND;
    }
    // SAFETY: what NVML has under this name is this function; the rest is the caller's.
    let said = unsafe { std::mem::transmute::<*mut c_void, Ask<T>>(real)(device, to) };
    let limit = if said == SUCCESS { limit(device) } else { 0 };
    // SAFETY: null, or NVML has just written there.
    let answer = unsafe { to.as_mut() };
    if let Some(answer) = answer.filter(|_| limit > 0) {
        change(answer, limit);
    }
    said
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo(device: Device, to: *mut Memory) -> Return {
    let change = |memory: &mut Memory, limit| {
        memory.total = limit;
        memory.used = memory.used.min(limit);
        memory.free = limit - memory.used;
    };
    // SAFETY: what the caller gave.
    unsafe { answer(MEMORY, device, to, change) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Device, to: *mut Memory2) -> Return {
    let change = |memory: &mut Memory2, limit| {
        memory.total = limit;
        memory.reserved = 0;
        memory.used = memory.used.min(limit);
        memory.free = limit - memory.used;
    };
    // SAFETY: what the caller gave.
    unsafe { answer(MEMORY_2, device, to, change) }
}
