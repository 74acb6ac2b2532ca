//! What NVIDIA's programs ask of slices. A GPU instance and its compute instance have the number of the
//! slice's handle.

use super::{
    Device, NOT_FOUND, NOT_SUPPORTED, Return, Thing, code, handle, index, present, present_thing,
    put, slice_handle,
};
use crate::inventory::Card;
use crate::mig::{Profile, Slice};
use crate::visible::Sight;
use std::ffi::{c_uint, c_ulonglong, c_void};

type GpuInstance = *mut c_void;
type ComputeInstance = *mut c_void;

/// How many slices a card has at most.
const MOST: c_uint = 7;
/// `NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED`.
const SHARED: c_uint = 0;

#[repr(C)]
#[derive(Debug, PartialEq, Eq)]
pub struct Attributes {
    multiprocessors: c_uint,
    copy_engines: c_uint,
    decoders: c_uint,
    encoders: c_uint,
    jpeg_engines: c_uint,
    optical_flow_engines: c_uint,
    gpu_instance_slices: c_uint,
    compute_instance_slices: c_uint,
    memory_mib: c_ulonglong,
}

#[repr(C)]
pub struct GpuInstanceProfile {
    id: c_uint,
    is_p2p_supported: c_uint,
    slices: c_uint,
    instances: c_uint,
    multiprocessors: c_uint,
    copy_engines: c_uint,
    decoders: c_uint,
    encoders: c_uint,
    jpeg_engines: c_uint,
    optical_flow_engines: c_uint,
    memory_mib: c_ulonglong,
}

#[repr(C)]
pub struct Placement {
    start: c_uint,
    size: c_uint,
}

#[repr(C)]
pub struct GpuInstanceInfo {
    device: Device,
    id: c_uint,
    profile: c_uint,
    placement: Placement,
}

#[repr(C)]
pub struct ComputeInstanceProfile {
    id: c_uint,
    slices: c_uint,
    instances: c_uint,
    multiprocessors: c_uint,
    copy_engines: c_uint,
    decoders: c_uint,
    encoders: c_uint,
    jpeg_engines: c_uint,
    optical_flow_engines: c_uint,
}

#[repr(C)]
pub struct ComputeInstanceInfo {
    device: Device,
    gpu_instance: GpuInstance,
    id: c_uint,
    profile: c_uint,
    placement: Placement,
}

/// Of the handle of a slice, or of one of its instances.
fn slice(function: &str, of: Device) -> Result<(Card, Slice, &'static Profile), Return> {
    match present_thing(function, of)? {
        Thing::Card(_) => Err(NOT_SUPPORTED),
        Thing::Slice(card, slice) => {
            let profile = card.profile(&slice).ok_or(NOT_SUPPORTED)?;
            Ok((card, slice, profile))
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceIsMigDeviceHandle(of: Device, to: *mut c_uint) -> Return {
    let is_slice = present_thing("nvmlDeviceIsMigDeviceHandle", of)
        .map(|thing| c_uint::from(matches!(thing, Thing::Slice(..))));
    // SAFETY: the caller's pointer, as nvml.h asks; so below.
    code(is_slice.and_then(|is_slice| unsafe { put(to, is_slice) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMaxMigDeviceCount(of: Device, to: *mut c_uint) -> Return {
    let card = present("nvmlDeviceGetMaxMigDeviceCount", of);
    // SAFETY: as above.
    code(card.and_then(|card| unsafe { put(to, if card.slices.is_some() { MOST } else { 0 }) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    of: Device,
    at: c_uint,
    to: *mut Device,
) -> Return {
    let find = || {
        let card = present("nvmlDeviceGetMigDeviceHandleByIndex", of)?;
        let seen = Sight::of_this_process().slices(index(of), &card);
        let slice = *seen.get(at as usize).ok_or(NOT_FOUND)?;
        Ok(slice_handle(index(of), card.instance(slice)))
    };
    // SAFETY: as above.
    code(find().and_then(|slice| unsafe { put(to, slice) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(
    of: Device,
    to: *mut Device,
) -> Return {
    let found = slice("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", of);
    // SAFETY: as above.
    code(found.and_then(|_| unsafe { put(to, handle(index(of))) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGpuInstanceId(of: Device, to: *mut c_uint) -> Return {
    let found = slice("nvmlDeviceGetGpuInstanceId", of);
    // SAFETY: as above.
    code(found.and_then(|(card, slice, _)| unsafe { put(to, card.instance(&slice)) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeInstanceId(of: Device, to: *mut c_uint) -> Return {
    let found = slice("nvmlDeviceGetComputeInstanceId", of);
    // SAFETY: as above.
    code(found.and_then(|_| unsafe { put(to, 0) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetAttributes_v2(of: Device, to: *mut Attributes) -> Return {
    let attributes = slice("nvmlDeviceGetAttributes_v2", of).map(|(card, _, profile)| Attributes {
        multiprocessors: profile.multiprocessors,
        copy_engines: profile.compute,
        decoders: profile.decoders,
        encoders: 0,
        jpeg_engines: profile.media,
        optical_flow_engines: profile.media,
        gpu_instance_slices: profile.compute,
        compute_instance_slices: profile.compute,
        memory_mib: card.slice_mib(profile),
    });
    // SAFETY: as above.
    code(attributes.and_then(|attributes| unsafe { put(to, attributes) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGpuInstanceProfileInfo(
    of: Device,
    number: c_uint,
    to: *mut GpuInstanceProfile,
) -> Return {
    let find = || {
        let card = present("nvmlDeviceGetGpuInstanceProfileInfo", of)?;
        let profile = card.profiles().iter().find(|profile| profile.number == number);
        let profile = profile.ok_or(NOT_SUPPORTED)?;
        Ok(GpuInstanceProfile {
            id: profile.id,
            is_p2p_supported: 0,
            slices: profile.compute,
            instances: profile.most,
            multiprocessors: profile.multiprocessors,
            copy_engines: profile.compute,
            decoders: profile.decoders,
            encoders: 0,
            jpeg_engines: profile.media,
            optical_flow_engines: profile.media,
            memory_mib: card.slice_mib(profile),
        })
    };
    // SAFETY: as above.
    code(find().and_then(|profile| unsafe { put(to, profile) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGpuInstanceById(
    of: Device,
    id: c_uint,
    to: *mut GpuInstance,
) -> Return {
    let find = || {
        let card = present("nvmlDeviceGetGpuInstanceById", of)?;
        let slices = card.slices.as_ref().ok_or(NOT_SUPPORTED)?;
        let slice = slices.iter().find(|slice| card.instance(slice) == id).ok_or(NOT_FOUND)?;
        Ok(slice_handle(index(of), card.instance(slice)))
    };
    // SAFETY: as above.
    code(find().and_then(|instance| unsafe { put(to, instance) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpuInstanceGetInfo(
    of: GpuInstance,
    to: *mut GpuInstanceInfo,
) -> Return {
    let info = slice("nvmlGpuInstanceGetInfo", of).map(|(card, slice, profile)| GpuInstanceInfo {
        device: handle(index(of)),
        id: card.instance(&slice),
        profile: profile.id,
        placement: Placement { start: slice.start, size: profile.memory },
    });
    // SAFETY: as above.
    code(info.and_then(|info| unsafe { put(to, info) }))
}

/// Of all of the instance: it is not divided further.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpuInstanceGetComputeInstanceProfileInfo(
    of: GpuInstance,
    number: c_uint,
    engines: c_uint,
    to: *mut ComputeInstanceProfile,
) -> Return {
    let find = || {
        let (_, _, profile) = slice("nvmlGpuInstanceGetComputeInstanceProfileInfo", of)?;
        if number != profile.compute_instance() || engines != SHARED {
            return Err(NOT_SUPPORTED);
        }
        Ok(ComputeInstanceProfile {
            id: number,
            slices: profile.compute,
            instances: 1,
            multiprocessors: profile.multiprocessors,
            copy_engines: profile.compute,
            decoders: profile.decoders,
            encoders: 0,
            jpeg_engines: profile.media,
            optical_flow_engines: profile.media,
        })
    };
    // SAFETY: as above.
    code(find().and_then(|profile| unsafe { put(to, profile) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpuInstanceGetComputeInstanceById(
    of: GpuInstance,
    id: c_uint,
    to: *mut ComputeInstance,
) -> Return {
    let found = slice("nvmlGpuInstanceGetComputeInstanceById", of);
    let only = found.and(if id == 0 { Ok(of) } else { Err(NOT_FOUND) });
    // SAFETY: as above.
    code(only.and_then(|only| unsafe { put(to, only) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlComputeInstanceGetInfo_v2(
    of: ComputeInstance,
    to: *mut ComputeInstanceInfo,
) -> Return {
    let info =
        slice("nvmlComputeInstanceGetInfo_v2", of).map(|(_, _, profile)| ComputeInstanceInfo {
            device: of,
            gpu_instance: of,
            id: 0,
            profile: profile.compute_instance(),
            placement: Placement { start: 0, size: profile.compute },
        });
    // SAFETY: as above.
    code(info.and_then(|info| unsafe { put(to, info) }))
}
