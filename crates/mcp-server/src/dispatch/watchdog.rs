//! Reports async handlers that block their thread.
//!
//! Each thread that polls handlers has a slot with a step counter. The counter is incremented before and after each
//! poll of a handler, so that it is odd while the handler runs. The watchdog thread checks the slots periodically and
//! is parked while there are no calls.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mcp_protocol::safe_text::SafeText;

/// The interval of the checks. A handler that is in the same step at two checks blocks its thread.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The slots of all threads that poll handlers.
static THREAD_SLOTS: Mutex<Vec<Weak<ThreadSlot>>> = Mutex::new(Vec::new());

thread_local! {
    static CURRENT_THREAD: CurrentThread = CurrentThread { slot: ThreadSlot::register(), last_name: Cell::new(ptr::null()) };
}

/// The slot of a thread, and data that only the thread itself uses.
struct CurrentThread {
    slot: Arc<ThreadSlot>,
    /// The address of the name in the slot, so that the same name is not stored again.
    last_name: Cell<*const u8>,
}

impl CurrentThread {
    /// Begins a step. Returns false if this thread is already inside a step, which is then being watched.
    fn begin(&self, name: &Arc<str>) -> bool {
        let step = self.slot.step.load(Ordering::Relaxed);
        if step % 2 == 1 {
            return false;
        }
        if self.last_name.replace(name.as_ptr()) != name.as_ptr() {
            *self.slot.name.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(name));
        }
        self.slot.step.store(step + 1, Ordering::Release);
        true
    }

    fn end(&self) {
        self.slot.step.store(self.slot.step.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

/// The step counter of a thread, and the name of its handler.
#[derive(Default)]
struct ThreadSlot {
    /// Odd while a handler runs.
    step: AtomicU64,
    /// The last step that was reported, so that each step is reported only once.
    reported: AtomicU64,
    name: Mutex<Option<Arc<str>>>,
}

impl ThreadSlot {
    /// Creates the slot of the current thread.
    fn register() -> Arc<Self> {
        let slot = Arc::new(Self::default());
        let mut slots = THREAD_SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|slot| slot.strong_count() > 0);
        slots.push(Arc::downgrade(&slot));
        slot
    }

    fn name(&self) -> Arc<str> {
        self.name.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
    }
}

/// The watchdog thread. It is started at the first step and stopped when the `Watchdog` is dropped.
#[derive(Default)]
pub(crate) struct Watchdog {
    thread: OnceLock<Option<WatchdogThread>>,
}

struct WatchdogThread {
    state: Arc<State>,
    handle: Option<JoinHandle<()>>,
}

/// The flags that the watchdog thread shares with its owner.
#[derive(Default)]
struct State {
    is_parked: AtomicBool,
    is_stopped: AtomicBool,
}

impl Watchdog {
    /// Runs one step (one poll) of a handler under the watchdog, which costs a few nanoseconds.
    pub(crate) fn watch<T>(&self, name: &Arc<str>, step: impl FnOnce() -> T) -> T {
        // A thread that is exiting has no slot.
        let is_begun = CURRENT_THREAD.try_with(|local| local.begin(name)).unwrap_or(false);
        let _guard = is_begun.then(|| {
            self.wake();
            StepGuard
        });
        step()
    }

    fn wake(&self) {
        let Some(thread) = self.thread.get_or_init(WatchdogThread::start) else { return };
        // Relaxed, because a fence would cost more than the rest of this function. A step that begins just as the
        // thread parks may be missed; the next step wakes the thread.
        if thread.state.is_parked.load(Ordering::Relaxed) {
            thread.state.is_parked.store(false, Ordering::SeqCst);
            thread.unpark();
        }
    }
}

/// A guard that ends a step, even if the step panics.
struct StepGuard;

impl Drop for StepGuard {
    fn drop(&mut self) {
        let _ = CURRENT_THREAD.try_with(CurrentThread::end);
    }
}

impl WatchdogThread {
    fn start() -> Option<Self> {
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let thread =
            thread::Builder::new().name("mcp-watchdog".to_owned()).spawn(move || shared.run_checks());
        match thread {
            Ok(handle) => Some(Self { state, handle: Some(handle) }),
            Err(error) => {
                tracing::warn!(%error, "the watchdog thread cannot be started; blocking handlers will not be reported");
                None
            }
        }
    }

    fn unpark(&self) {
        if let Some(handle) = &self.handle {
            handle.thread().unpark();
        }
    }
}

impl Drop for WatchdogThread {
    fn drop(&mut self) {
        self.state.is_stopped.store(true, Ordering::SeqCst);
        self.unpark();
        if let Some(handle) = self.handle.take() {
            let _ = handle.join();
        }
    }
}

impl State {
    fn run_checks(&self) {
        // The step of each thread, and the time at which this step was first seen.
        let mut seen: Vec<(Arc<ThreadSlot>, u64, Instant)> = Vec::new();
        while !self.is_stopped.load(Ordering::SeqCst) {
            let now = Instant::now();
            let mut current: Vec<_> = steps().into_iter().map(|(slot, step)| (slot, step, now)).collect();
            for (slot, step, since) in &mut current {
                if let Some((.., first)) =
                    seen.iter().find(|(old, at, _)| Arc::ptr_eq(old, slot) && at == step)
                {
                    *since = *first;
                }
                // The time is measured, because a check can be early, or late after the process was suspended.
                let is_long = *step % 2 == 1 && *since + CHECK_INTERVAL <= now;
                if is_long && slot.reported.swap(*step, Ordering::Relaxed) != *step {
                    let name = slot.name();
                    // Escaped, because the name of a resource is a URI from the client.
                    tracing::warn!(
                        name = %SafeText::name(&name),
                        "handler blocks its thread and delays other calls; wrap it in `blocking`"
                    );
                }
            }
            let is_idle = |slot: &Arc<ThreadSlot>, step: u64| {
                step.is_multiple_of(2)
                    && seen.iter().any(|(old, at, _)| Arc::ptr_eq(old, slot) && *at == step)
            };
            if current.iter().all(|(slot, step, _)| is_idle(slot, *step)) {
                self.is_parked.store(true, Ordering::SeqCst);
                // Checks again, because a step that began before the flag was set did not wake this thread.
                if steps().iter().all(|(slot, step)| is_idle(slot, *step)) {
                    seen.clear();
                    while self.is_parked.load(Ordering::SeqCst) && !self.is_stopped.load(Ordering::SeqCst) {
                        thread::park();
                    }
                    continue;
                }
                self.is_parked.store(false, Ordering::SeqCst);
            }
            seen = current;
            thread::park_timeout(CHECK_INTERVAL);
        }
    }
}

/// Returns the current step of every thread.
fn steps() -> Vec<(Arc<ThreadSlot>, u64)> {
    let slots = THREAD_SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    let alive = slots.iter().filter_map(Weak::upgrade);
    alive.map(|slot| (Arc::clone(&slot), slot.step.load(Ordering::SeqCst))).collect()
}
