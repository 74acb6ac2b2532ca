//! The C functions, with the names, structures and codes of `nvml.h`.
#![allow(non_snake_case, missing_docs)]
#![allow(clippy::missing_safety_doc)] // As in C: each pointer is null or valid for what is written.

use crate::events;
use crate::inventory::{Card, FILE, Inventory};
use crate::visible::visible;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::path::Path;
use std::time::{Duration, Instant};

type Return = c_uint;
/// A card's index plus one, so that it is never null.
type Device = *mut c_void;
type EventSet = *mut c_void;

const SUCCESS: Return = 0;
const INVALID_ARGUMENT: Return = 2;
const NOT_SUPPORTED: Return = 3;
const NOT_FOUND: Return = 6;
const INSUFFICIENT_SIZE: Return = 7;
const DRIVER_NOT_LOADED: Return = 9;
const TIMEOUT: Return = 10;
const GPU_IS_LOST: Return = 15;

const TOPOLOGY_NODE: c_uint = 40;
const XID_CRITICAL_ERROR: c_ulonglong = 8;
/// "GPU has fallen off the bus".
const XID_FALLEN_OFF: c_ulonglong = 79;
/// Memory that cannot be corrected.
const XID_DOUBLE_BIT: c_ulonglong = 48;

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

#[repr(C)]
pub struct PciInfo {
    bus_id_legacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    pci_device_id: c_uint,
    pci_subsystem_id: c_uint,
    bus_id: [c_char; 32],
}

#[repr(C)]
pub struct EventData {
    device: Device,
    event_type: c_ulonglong,
    event_data: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// What the file says now, unless it says that this function fails.
fn ask(function: &str) -> Result<Inventory, Return> {
    let inventory = Inventory::read().ok_or(DRIVER_NOT_LOADED)?;
    match inventory.failing.get(function) {
        Some(code) => Err(*code),
        None => Ok(inventory),
    }
}

fn visible_now(inventory: &Inventory) -> Vec<usize> {
    // Who does not know the file is in a container, and may have lost its environment or have another
    // one than its first process: what counts there are the device nodes.
    let by_nodes = std::env::var_os(FILE).is_none().then(|| "void".to_owned());
    let variable = by_nodes.or_else(|| std::env::var("NVIDIA_VISIBLE_DEVICES").ok());
    let has_node = |minor| Path::new(&format!("/dev/nvidia{minor}")).exists();
    visible(inventory, variable.as_deref(), has_node)
}

fn index(device: Device) -> usize {
    device.addr().wrapping_sub(1)
}

fn handle(index: usize) -> Device {
    std::ptr::without_provenance_mut(index + 1)
}

/// A card as far as even a lost one is known: the driver remembers.
fn known(function: &str, device: Device) -> Result<Card, Return> {
    let inventory = ask(function)?;
    inventory.cards.get(index(device)).cloned().ok_or(INVALID_ARGUMENT)
}

fn present(function: &str, device: Device) -> Result<Card, Return> {
    let card = known(function, device)?;
    if card.lost { Err(GPU_IS_LOST) } else { Ok(card) }
}

fn code(result: Result<(), Return>) -> Return {
    result.err().unwrap_or(SUCCESS)
}

unsafe fn put<T>(to: *mut T, value: T) -> Result<(), Return> {
    if to.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not null, so by C's contract the caller's room for one value.
    unsafe { to.write(value) };
    Ok(())
}

unsafe fn put_text(to: *mut c_char, room: c_uint, text: &str) -> Result<(), Return> {
    if to.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    if text.len() >= room as usize {
        return Err(INSUFFICIENT_SIZE);
    }
    // SAFETY: the text and the zero after it fit the room that the caller says it has.
    unsafe {
        to.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
        to.add(text.len()).write(0);
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> Return {
    code(ask("nvmlInit_v2").map(|_| ()))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> Return {
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(result: Return) -> *const c_char {
    let text: &CStr = match result {
        SUCCESS => c"The operation was successful",
        INVALID_ARGUMENT => c"Invalid argument",
        NOT_SUPPORTED => c"Not supported",
        NOT_FOUND => c"Not found",
        INSUFFICIENT_SIZE => c"Insufficient size",
        DRIVER_NOT_LOADED => c"Driver not loaded",
        TIMEOUT => c"Timeout",
        GPU_IS_LOST => c"GPU is lost",
        _ => c"Unknown error",
    };
    text.as_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(to: *mut c_char, room: c_uint) -> Return {
    // SAFETY: the caller's pointer, as nvml.h asks.
    code(
        ask("nvmlSystemGetDriverVersion")
            .and_then(|i| unsafe { put_text(to, room, &i.driver_version) }),
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion(to: *mut c_int) -> Return {
    // SAFETY: the caller's pointer, as nvml.h asks.
    code(ask("nvmlSystemGetCudaDriverVersion").and_then(|i| unsafe { put(to, i.cuda_version) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(to: *mut c_uint) -> Return {
    let count = ask("nvmlDeviceGetCount_v2").map(|i| visible_now(&i).len());
    // SAFETY: the caller's pointer, as nvml.h asks.
    code(count.and_then(|count| unsafe { put(to, c_uint::try_from(count).unwrap_or(0)) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(at: c_uint, to: *mut Device) -> Return {
    let find = || {
        let inventory = ask("nvmlDeviceGetHandleByIndex_v2")?;
        let seen = visible_now(&inventory);
        let index = *seen.get(at as usize).ok_or(INVALID_ARGUMENT)?;
        if inventory.cards[index].lost { Err(GPU_IS_LOST) } else { Ok(handle(index)) }
    };
    // SAFETY: the caller's pointer, as nvml.h asks.
    code(find().and_then(|device| unsafe { put(to, device) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, to: *mut Device) -> Return {
    let find = || {
        let inventory = ask("nvmlDeviceGetHandleByUUID")?;
        if uuid.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: not null, so by C's contract a text that ends with zero.
        let uuid = unsafe { CStr::from_ptr(uuid) }.to_bytes();
        let is_it = |i: &usize| inventory.cards[*i].uuid.as_bytes() == uuid;
        let index = visible_now(&inventory).into_iter().find(is_it).ok_or(NOT_FOUND)?;
        if inventory.cards[index].lost { Err(GPU_IS_LOST) } else { Ok(handle(index)) }
    };
    // SAFETY: the caller's pointer, as nvml.h asks.
    code(find().and_then(|device| unsafe { put(to, device) }))
}

/// Answers on a lost card too: whoever hears of the loss asks which card it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(of: Device, to: *mut c_char, room: c_uint) -> Return {
    // SAFETY: the caller's pointer, as nvml.h asks.
    code(known("nvmlDeviceGetUUID", of).and_then(|card| unsafe { put_text(to, room, &card.uuid) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(of: Device, to: *mut c_char, room: c_uint) -> Return {
    let card = present("nvmlDeviceGetName", of);
    // SAFETY: the caller's pointer, as nvml.h asks.
    code(card.and_then(|card| unsafe { put_text(to, room, &card.name) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMinorNumber(of: Device, to: *mut c_uint) -> Return {
    // SAFETY: the caller's pointer, as nvml.h asks.
    code(present("nvmlDeviceGetMinorNumber", of).and_then(|card| unsafe { put(to, card.minor) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo(of: Device, to: *mut Memory) -> Return {
    let memory = present("nvmlDeviceGetMemoryInfo", of).map(|card| {
        let total = card.mib << 20;
        Memory { total, free: total, used: 0 }
    });
    // SAFETY: the caller's pointer, as nvml.h asks.
    code(memory.and_then(|memory| unsafe { put(to, memory) }))
}

/// The version that the caller wrote is that of the structure: the second.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(of: Device, to: *mut Memory2) -> Return {
    let version = (c_uint::try_from(size_of::<Memory2>()).unwrap_or(0)) | 2 << 24;
    let memory = present("nvmlDeviceGetMemoryInfo_v2", of).map(|card| {
        let total = card.mib << 20;
        Memory2 { version, total, reserved: 0, free: total, used: 0 }
    });
    // SAFETY: the caller's pointer, as nvml.h asks.
    code(memory.and_then(|memory| unsafe { put(to, memory) }))
}

/// Its place among the cards that the caller sees.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetIndex(of: Device, to: *mut c_uint) -> Return {
    let find = || {
        let inventory = ask("nvmlDeviceGetIndex")?;
        let seen = visible_now(&inventory);
        let at = seen.iter().position(|card| *card == index(of)).ok_or(INVALID_ARGUMENT)?;
        c_uint::try_from(at).map_err(|_| INVALID_ARGUMENT)
    };
    // SAFETY: the caller's pointer, as nvml.h asks.
    code(find().and_then(|at| unsafe { put(to, at) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(of: Device, to: *mut PciInfo) -> Return {
    let info = present("nvmlDeviceGetPciInfo_v3", of).map(|card| {
        // One bus for each card, after those that a machine's own devices use.
        let bus = card.minor + 0x10;
        let mut info = PciInfo {
            bus_id_legacy: [0; 16],
            domain: 0,
            bus,
            device: 0,
            pci_device_id: 0x20b0_10de,
            pci_subsystem_id: 0x134f_10de,
            bus_id: [0; 32],
        };
        fill(&mut info.bus_id_legacy, &format!("0000:{bus:02X}:00.0"));
        fill(&mut info.bus_id, &format!("00000000:{bus:02X}:00.0"));
        info
    });
    // SAFETY: the caller's pointer, as nvml.h asks.
    code(info.and_then(|info| unsafe { put(to, info) }))
}

/// Text that is shorter than the array, which is all zeros.
fn fill(array: &mut [c_char], text: &str) {
    for (to, from) in array.iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCudaComputeCapability(
    of: Device,
    major: *mut c_int,
    minor: *mut c_int,
) -> Return {
    // SAFETY: the caller's pointers, as nvml.h asks.
    code(present("nvmlDeviceGetCudaComputeCapability", of).and_then(|card| unsafe {
        put(major, card.compute.0)?;
        put(minor, card.compute.1)
    }))
}

/// Off, now and after a reset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(
    of: Device,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> Return {
    // SAFETY: the caller's pointers, as nvml.h asks.
    code(present("nvmlDeviceGetMigMode", of).and_then(|_| unsafe {
        put(current, 0)?;
        put(pending, 0)
    }))
}

/// All cards hang on one NUMA node, equally far from each other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTopologyCommonAncestor(
    of: Device,
    and: Device,
    to: *mut c_uint,
) -> Return {
    let both = present("nvmlDeviceGetTopologyCommonAncestor", of)
        .and_then(|_| present("nvmlDeviceGetTopologyCommonAncestor", and));
    // SAFETY: the caller's pointer, as nvml.h asks.
    code(both.and_then(|_| unsafe { put(to, TOPOLOGY_NODE) }))
}

/// No links.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkState(
    of: Device,
    _link: c_uint,
    to: *mut c_uint,
) -> Return {
    // SAFETY: the caller's pointer, as nvml.h asks.
    code(present("nvmlDeviceGetNvLinkState", of).and_then(|_| unsafe { put(to, 0) }))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGpuFabricInfo(_of: Device, _to: *mut c_void) -> Return {
    NOT_SUPPORTED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetSupportedEventTypes(
    of: Device,
    to: *mut c_ulonglong,
) -> Return {
    let card = present("nvmlDeviceGetSupportedEventTypes", of);
    // SAFETY: the caller's pointer, as nvml.h asks.
    code(card.and_then(|_| unsafe { put(to, XID_CRITICAL_ERROR) }))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceRegisterEvents(
    of: Device,
    _types: c_ulonglong,
    set: EventSet,
) -> Return {
    code(present("nvmlDeviceRegisterEvents", of).and_then(|_| {
        events::register(set.addr(), index(of)).then_some(()).ok_or(INVALID_ARGUMENT)
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetCreate(to: *mut EventSet) -> Return {
    // SAFETY: the caller's pointer, as nvml.h asks.
    code(
        ask("nvmlEventSetCreate")
            .and_then(|_| unsafe { put(to, std::ptr::without_provenance_mut(events::create())) }),
    )
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetFree(set: EventSet) -> Return {
    if events::free(set.addr()) { SUCCESS } else { INVALID_ARGUMENT }
}

/// Looks at the file until a registered card is lost or fails, or the time is over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetWait_v2(
    set: EventSet,
    to: *mut EventData,
    milliseconds: c_uint,
) -> Return {
    let end = Instant::now() + Duration::from_millis(milliseconds.into());
    loop {
        let inventory = match ask("nvmlEventSetWait_v2") {
            Ok(inventory) => inventory,
            Err(code) => return code,
        };
        if let Some(card) = events::next_bad(set.addr(), &inventory) {
            let data = EventData {
                device: handle(card),
                event_type: XID_CRITICAL_ERROR,
                event_data: match inventory.cards.get(card).is_some_and(|card| card.lost) {
                    true => XID_FALLEN_OFF,
                    false => XID_DOUBLE_BIT,
                },
                gpu_instance: c_uint::MAX,
                compute_instance: c_uint::MAX,
            };
            // SAFETY: the caller's pointer, as nvml.h asks.
            return code(unsafe { put(to, data) });
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return TIMEOUT;
        }
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
}

#[cfg(test)]
mod tests;
