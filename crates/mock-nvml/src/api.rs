//! The C functions, with the names, structures and codes of `nvml.h`.
#![allow(non_snake_case, missing_docs)]
#![allow(clippy::missing_safety_doc)] // As in C: each pointer is null or valid for what is written.

use crate::events;
use crate::inventory::{Card, Inventory};
use crate::mig::Slice;
use crate::visible::Sight;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::time::{Duration, Instant};

mod mig;

type Return = c_uint;
/// A card or a slice, as a number that is never null: see [`handle`].
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

/// Sixteen numbers for each card: the first is the card itself, the others are its GPU instances.
const OF_CARD: usize = 16;

fn handle(index: usize) -> Device {
    std::ptr::without_provenance_mut((index + 1) * OF_CARD)
}

fn slice_handle(index: usize, instance: u32) -> Device {
    std::ptr::without_provenance_mut((index + 1) * OF_CARD + 1 + instance as usize)
}

/// The card of a handle, also of a slice's.
fn index(device: Device) -> usize {
    (device.addr() / OF_CARD).wrapping_sub(1)
}

/// What a handle stands for.
enum Thing {
    Card(Card),
    Slice(Card, Slice),
}

/// Of the handle of a card or a slice: even a lost one is known, the driver remembers.
fn known(function: &str, device: Device) -> Result<Thing, Return> {
    let inventory = ask(function)?;
    let card = inventory.cards.get(index(device)).cloned().ok_or(INVALID_ARGUMENT)?;
    let Some(instance) = (device.addr() % OF_CARD).checked_sub(1) else {
        return Ok(Thing::Card(card));
    };
    let is_it = |slice: &&Slice| card.instance(slice) as usize == instance;
    let slice = card.slices.iter().flatten().find(is_it).cloned().ok_or(INVALID_ARGUMENT)?;
    Ok(Thing::Slice(card, slice))
}

/// Of a handle of either kind.
fn present_thing(function: &str, device: Device) -> Result<Thing, Return> {
    let thing = known(function, device)?;
    let (Thing::Card(card) | Thing::Slice(card, _)) = &thing;
    if card.lost { Err(GPU_IS_LOST) } else { Ok(thing) }
}

/// Of the handle of a card.
fn present(function: &str, device: Device) -> Result<Card, Return> {
    match present_thing(function, device)? {
        Thing::Card(card) => Ok(card),
        Thing::Slice(..) => Err(NOT_SUPPORTED),
    }
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
    let count = ask("nvmlDeviceGetCount_v2").map(|i| Sight::of_this_process().cards(&i).len());
    // SAFETY: the caller's pointer, as nvml.h asks.
    code(count.and_then(|count| unsafe { put(to, c_uint::try_from(count).unwrap_or(0)) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(at: c_uint, to: *mut Device) -> Return {
    let find = || {
        let inventory = ask("nvmlDeviceGetHandleByIndex_v2")?;
        let seen = Sight::of_this_process().cards(&inventory);
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
        let sight = Sight::of_this_process();
        let of = |index: usize| {
            let card = &inventory.cards[index];
            let is_it = |slice: &&Slice| card.slice_uuid(slice).as_bytes() == uuid;
            let found = match card.uuid.as_bytes() == uuid {
                true => handle(index),
                false => {
                    let slice = sight.slices(index, card).into_iter().find(is_it)?;
                    slice_handle(index, card.instance(slice))
                }
            };
            Some(if card.lost { Err(GPU_IS_LOST) } else { Ok(found) })
        };
        sight.cards(&inventory).into_iter().find_map(of).ok_or(NOT_FOUND)?
    };
    // SAFETY: the caller's pointer, as nvml.h asks.
    code(find().and_then(|device| unsafe { put(to, device) }))
}

/// Answers on a lost card too: whoever hears of the loss asks which card it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(of: Device, to: *mut c_char, room: c_uint) -> Return {
    let uuid = known("nvmlDeviceGetUUID", of).map(|thing| match thing {
        Thing::Card(card) => card.uuid,
        Thing::Slice(card, slice) => card.slice_uuid(&slice),
    });
    // SAFETY: the caller's pointer, as nvml.h asks.
    code(uuid.and_then(|uuid| unsafe { put_text(to, room, &uuid) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(of: Device, to: *mut c_char, room: c_uint) -> Return {
    let name = present_thing("nvmlDeviceGetName", of).map(|thing| match thing {
        Thing::Card(card) => card.name,
        Thing::Slice(card, slice) => format!("{} MIG {}", card.name, slice.profile),
    });
    // SAFETY: the caller's pointer, as nvml.h asks.
    code(name.and_then(|name| unsafe { put_text(to, room, &name) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMinorNumber(of: Device, to: *mut c_uint) -> Return {
    // SAFETY: the caller's pointer, as nvml.h asks.
    code(present("nvmlDeviceGetMinorNumber", of).and_then(|card| unsafe { put(to, card.minor) }))
}

fn memory(function: &str, of: Device) -> Result<u64, Return> {
    let mib = match present_thing(function, of)? {
        Thing::Card(card) => card.mib,
        Thing::Slice(card, slice) => {
            card.profile(&slice).map_or(0, |profile| card.slice_mib(profile))
        }
    };
    Ok(mib << 20)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo(of: Device, to: *mut Memory) -> Return {
    let memory =
        memory("nvmlDeviceGetMemoryInfo", of).map(|total| Memory { total, free: total, used: 0 });
    // SAFETY: the caller's pointer, as nvml.h asks.
    code(memory.and_then(|memory| unsafe { put(to, memory) }))
}

/// The version that the caller wrote is that of the structure: the second.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(of: Device, to: *mut Memory2) -> Return {
    let version = (c_uint::try_from(size_of::<Memory2>()).unwrap_or(0)) | 2 << 24;
    let memory = memory("nvmlDeviceGetMemoryInfo_v2", of).map(|total| Memory2 {
        version,
        total,
        reserved: 0,
        free: total,
        used: 0,
    });
    // SAFETY: the caller's pointer, as nvml.h asks.
    code(memory.and_then(|memory| unsafe { put(to, memory) }))
}

/// Its place among the cards that the caller sees, or among the slices of its card.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetIndex(of: Device, to: *mut c_uint) -> Return {
    let find = || {
        let sight = Sight::of_this_process();
        let at = match known("nvmlDeviceGetIndex", of)? {
            Thing::Card(_) => {
                let seen = sight.cards(&ask("nvmlDeviceGetIndex")?);
                seen.iter().position(|card| *card == index(of))
            }
            Thing::Slice(card, slice) => {
                let seen = sight.slices(index(of), &card);
                seen.iter().position(|other| **other == slice)
            }
        };
        c_uint::try_from(at.ok_or(INVALID_ARGUMENT)?).map_err(|_| INVALID_ARGUMENT)
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

/// The same now and after a reset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(
    of: Device,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> Return {
    // SAFETY: the caller's pointers, as nvml.h asks.
    code(present("nvmlDeviceGetMigMode", of).and_then(|card| unsafe {
        let mode = c_uint::from(card.slices.is_some());
        put(current, mode)?;
        put(pending, mode)
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
