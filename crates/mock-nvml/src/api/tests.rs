//! The library as a C program sees it.

use super::*;
use crate::FILE;
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A file that the environment of this process names; one test at a time.
struct Machine {
    inventory: Inventory,
    path: std::path::PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Machine {
    fn new(cards: u32) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let path = std::env::temp_dir().join(format!("mock-nvml-{}.json", std::process::id()));
        // SAFETY: the lock is held, and only these tests look at the environment.
        unsafe { std::env::set_var(FILE, &path) };
        let inventory = Inventory::new((0..cards).map(Card::a100).collect());
        let machine = Self { inventory, path, _alone: alone };
        machine.inventory.write(&machine.path).unwrap();
        machine
    }

    fn change(&mut self, change: impl FnOnce(&mut Inventory)) {
        change(&mut self.inventory);
        self.inventory.write(&self.path).unwrap();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What a function that takes a pointer for its answer says.
fn answer<T>(call: impl FnOnce(*mut T) -> Return) -> Result<T, Return> {
    let mut room = MaybeUninit::uninit();
    match call(room.as_mut_ptr()) {
        // SAFETY: it was written.
        SUCCESS => Ok(unsafe { room.assume_init() }),
        code => Err(code),
    }
}

fn device(index: c_uint) -> Result<Device, Return> {
    // SAFETY: room for the answer is given, here and below.
    answer(|to| unsafe { nvmlDeviceGetHandleByIndex_v2(index, to) })
}

fn text(room: usize, call: impl FnOnce(*mut c_char, c_uint) -> Return) -> Result<String, Return> {
    let mut bytes = vec![0 as c_char; room];
    match call(bytes.as_mut_ptr(), c_uint::try_from(room).unwrap()) {
        // SAFETY: it ends with zero.
        SUCCESS => Ok(unsafe { CStr::from_ptr(bytes.as_ptr()) }.to_str().unwrap().to_owned()),
        code => Err(code),
    }
}

fn uuid(device: Device) -> Result<String, Return> {
    // SAFETY: as above.
    text(96, |to, room| unsafe { nvmlDeviceGetUUID(device, to, room) })
}

fn memory(device: Device) -> Result<u64, Return> {
    // SAFETY: as above.
    answer(|to| unsafe { nvmlDeviceGetMemoryInfo(device, to) }).map(|memory: Memory| memory.total)
}

#[test]
fn cards_are_as_the_file_says() {
    let machine = Machine::new(8);
    assert_eq!(nvmlInit_v2(), SUCCESS);
    // SAFETY: as above.
    assert_eq!(answer(|to| unsafe { nvmlDeviceGetCount_v2(to) }), Ok(8));
    let third = device(2).unwrap();
    assert_eq!(uuid(third), Ok(machine.inventory.cards[2].uuid.clone()));
    assert_eq!(memory(third), Ok(40 << 30));
    let name = std::ffi::CString::new(uuid(third).unwrap()).unwrap();
    // SAFETY: as above.
    let same = answer(|to| unsafe { nvmlDeviceGetHandleByUUID(name.as_ptr(), to) });
    assert_eq!(same, Ok(third));
    // SAFETY: as above.
    let pci: PciInfo = answer(|to| unsafe { nvmlDeviceGetPciInfo_v3(third, to) }).unwrap();
    // SAFETY: it ends with zero.
    let bus = unsafe { CStr::from_ptr(pci.bus_id.as_ptr()) };
    assert_eq!(bus, c"00000000:12:00.0");
    // SAFETY: as above.
    assert_eq!(answer(|to| unsafe { nvmlDeviceGetIndex(third, to) }), Ok(2));
    // SAFETY: as above.
    let memory: Memory2 = answer(|to| unsafe { nvmlDeviceGetMemoryInfo_v2(third, to) }).unwrap();
    assert_eq!(memory.total, 40_960 << 20);
    assert_eq!(device(8), Err(INVALID_ARGUMENT));
    // SAFETY: as above.
    let short = text(4, |to, room| unsafe { nvmlDeviceGetName(third, to, room) });
    assert_eq!(short, Err(INSUFFICIENT_SIZE));
    // SAFETY: null is refused.
    assert_eq!(unsafe { nvmlDeviceGetMemoryInfo(third, std::ptr::null_mut()) }, INVALID_ARGUMENT);
}

#[test]
fn a_function_fails_as_long_as_the_file_says_so() {
    let mut machine = Machine::new(1);
    machine.change(|i| i.failing = [("nvmlInit_v2".to_owned(), DRIVER_NOT_LOADED)].into());
    assert_eq!(nvmlInit_v2(), DRIVER_NOT_LOADED);
    machine.change(|i| i.failing = [("nvmlDeviceGetMemoryInfo".to_owned(), 999)].into());
    assert_eq!(nvmlInit_v2(), SUCCESS);
    let card = device(0).unwrap();
    assert_eq!(memory(card), Err(999));
    machine.change(|i| i.failing.clear());
    assert!(memory(card).is_ok());
    std::fs::remove_file(&machine.path).unwrap();
    assert_eq!(nvmlInit_v2(), DRIVER_NOT_LOADED, "no file is a machine without the driver");
}

#[test]
fn a_lost_card_says_so_and_is_told_once_to_whoever_waits() {
    let mut machine = Machine::new(2);
    let cards = [device(0).unwrap(), device(1).unwrap()];
    // SAFETY: as above.
    let set = answer(|to| unsafe { nvmlEventSetCreate(to) }).unwrap();
    for card in cards {
        assert_eq!(nvmlDeviceRegisterEvents(card, XID_CRITICAL_ERROR, set), SUCCESS);
    }
    // SAFETY: as above.
    let wait = || answer(|to| unsafe { nvmlEventSetWait_v2(set, to, 0) });
    let told = |event: Result<EventData, Return>| {
        event.map(|event| (event.device, event.event_type, event.event_data))
    };
    assert_eq!(told(wait()), Err(TIMEOUT));
    machine.change(|i| i.cards[1].lost = true);
    assert_eq!(told(wait()), Ok((cards[1], XID_CRITICAL_ERROR, XID_FALLEN_OFF)));
    assert_eq!(told(wait()), Err(TIMEOUT), "once");
    assert_eq!(memory(cards[1]), Err(GPU_IS_LOST));
    assert_eq!(device(1), Err(GPU_IS_LOST));
    assert!(uuid(cards[1]).is_ok(), "the event names the card by it");
    assert!(memory(cards[0]).is_ok());
    machine.change(|i| i.cards[1].lost = false);
    assert_eq!(told(wait()), Err(TIMEOUT));
    assert!(memory(cards[1]).is_ok());
    machine.change(|i| i.cards[1].lost = true);
    assert!(wait().is_ok(), "lost again, told again");
    machine.change(|i| i.cards[0].failed = true);
    assert_eq!(told(wait()), Ok((cards[0], XID_CRITICAL_ERROR, XID_DOUBLE_BIT)));
    assert!(memory(cards[0]).is_ok(), "it answers");
    assert_eq!(nvmlEventSetFree(set), SUCCESS);
    assert_eq!(nvmlEventSetFree(set), INVALID_ARGUMENT);
}

#[test]
fn slices_of_a_card_are_found_and_described_as_nvidias_programs_ask() {
    use super::mig::*;
    let mut machine = Machine::new(2);
    let cards = [device(0).unwrap(), device(1).unwrap()];
    // SAFETY: as above.
    let most = |card| answer(|to| unsafe { nvmlDeviceGetMaxMigDeviceCount(card, to) });
    // SAFETY: as above.
    let slice = |i| answer(|to| unsafe { nvmlDeviceGetMigDeviceHandleByIndex(cards[1], i, to) });
    assert_eq!(most(cards[1]), Ok(0));
    assert_eq!(slice(0), Err(NOT_FOUND));
    machine.change(|i| i.cards[1] = Card::a100_80(1).divided(&["3g.40gb", "1g.10gb"]).unwrap());
    let mode = |card| {
        let mut pending = 2;
        // SAFETY: as above.
        answer(|to| unsafe { nvmlDeviceGetMigMode(card, to, &raw mut pending) })
    };
    assert_eq!((mode(cards[0]), mode(cards[1])), (Ok(0), Ok(1)));
    assert_eq!((most(cards[0]), most(cards[1])), (Ok(0), Ok(7)));
    let (small, large) = (slice(0).unwrap(), slice(1).unwrap());
    assert_eq!(slice(2), Err(NOT_FOUND));
    assert_eq!(memory(small), Ok(9_856 << 20));
    assert_eq!(memory(large), Ok(40_192 << 20));
    assert_eq!(uuid(large), Ok("MIG-00000001-0009-5a10-8000-000000000002".to_owned()));
    // SAFETY: as above.
    let parent = answer(|to| unsafe { nvmlDeviceGetDeviceHandleFromMigDeviceHandle(large, to) });
    assert_eq!(parent, Ok(cards[1]));
    let name = std::ffi::CString::new(uuid(small).unwrap()).unwrap();
    // SAFETY: as above.
    let same = answer(|to| unsafe { nvmlDeviceGetHandleByUUID(name.as_ptr(), to) });
    assert_eq!(same, Ok(small));
    // SAFETY: as above.
    let is_slice = |of| answer(|to| unsafe { nvmlDeviceIsMigDeviceHandle(of, to) });
    assert_eq!((is_slice(cards[1]), is_slice(large)), (Ok(0), Ok(1)));
    // SAFETY: as above.
    assert_eq!(answer(|to| unsafe { nvmlDeviceGetIndex(large, to) }), Ok(1));
    // SAFETY: as above.
    assert_eq!(answer(|to| unsafe { nvmlDeviceGetMinorNumber(large, to) }), Err(NOT_SUPPORTED));
    // SAFETY: as above.
    let id = answer(|to| unsafe { nvmlDeviceGetGpuInstanceId(large, to) }).unwrap();
    assert_eq!(id, 2);
    // SAFETY: as above.
    let instance = answer(|to| unsafe { nvmlDeviceGetGpuInstanceById(cards[1], id, to) }).unwrap();
    let fits = |number| {
        let ask = nvmlGpuInstanceGetComputeInstanceProfileInfo;
        // SAFETY: as above.
        answer(|to| unsafe { ask(instance, number, 0, to) }).map(|_: ComputeInstanceProfile| ())
    };
    assert_eq!((fits(1), fits(2)), (Err(NOT_SUPPORTED), Ok(())));
    machine.change(|i| i.cards[1].slices = Some(Vec::new()));
    assert_eq!(memory(small), Err(INVALID_ARGUMENT), "it is gone");
}
