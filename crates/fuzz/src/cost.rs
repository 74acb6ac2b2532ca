//! What reading an input costs in memory. Time is not measured, but whatever takes long for what
//! it reads also allocates: the sum of all that was ever allocated is bounded too.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, and what it was asked for.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static EVER: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

fn took(bytes: usize) {
    EVER.fetch_add(bytes, Relaxed);
    let now = NOW.fetch_add(bytes, Relaxed).wrapping_add(bytes);
    // What was given back by a thread that began before the counting may go below 0.
    if now < usize::MAX / 2 {
        PEAK.fetch_max(now, Relaxed);
    }
}

// SAFETY: each call is handed to the system's allocator as it is; only numbers are added.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        NOW.fetch_sub(layout.size(), Relaxed);
        took(size);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// What may be allocated: so much whatever is read, and so much for each byte of it.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Bytes in use at a time, for an input of no size.
    pub base: usize,
    /// Bytes in use at a time, for each byte of the input.
    pub each: usize,
}

/// All that was ever allocated may be so many times what may be in use at a time.
const CHURN: usize = 16;

impl Bound {
    /// Does something with an input of `size` bytes.
    ///
    /// # Panics
    /// If it takes more memory than that.
    pub fn hold<T>(self, size: usize, what: impl FnOnce() -> T) -> T {
        let (before, ever) = (NOW.load(Relaxed), EVER.load(Relaxed));
        PEAK.store(before, Relaxed);
        let result = what();
        let most = self.base + self.each * size;
        let peak = PEAK.load(Relaxed).saturating_sub(before);
        let ever = EVER.load(Relaxed).wrapping_sub(ever);
        assert!(peak <= most, "{peak} bytes are in use to read {size} bytes, allowed are {most}");
        let most = most * CHURN;
        assert!(ever <= most, "{ever} bytes are allocated for {size} bytes, allowed are {most}");
        result
    }
}
