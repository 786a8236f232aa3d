//! Reports async handlers that block their thread.
//!
//! Each thread that polls handlers has a slot with the number of its step, which is odd while a handler runs. The
//! watchdog thread checks the slots periodically and is parked while there are no calls.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mcp_protocol::visible::Visible;

/// The interval of the checks. A step that is seen in two checks has blocked its thread.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

static SLOTS: Mutex<Vec<Weak<Slot>>> = Mutex::new(Vec::new());

thread_local! {
    static LOCAL: Local = Local { slot: Slot::enlist(), named: Cell::new(ptr::null()) };
}

/// The slot of a thread, and data that only the thread itself uses.
struct Local {
    slot: Arc<Slot>,
    /// The address of the name in the slot, to skip storing the same name again.
    named: Cell<*const u8>,
}

impl Local {
    /// Begins a step. Returns false inside another step, which is already watched.
    fn begin(&self, name: &Arc<str>) -> bool {
        let step = self.slot.step.load(Ordering::Relaxed);
        if step % 2 == 1 {
            return false;
        }
        if self.named.replace(name.as_ptr()) != name.as_ptr() {
            *self.slot.name.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(name));
        }
        self.slot.step.store(step + 1, Ordering::Release);
        true
    }

    fn end(&self) {
        self.slot.step.store(self.slot.step.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

/// The current step of a thread.
#[derive(Default)]
struct Slot {
    /// Odd while a handler runs.
    step: AtomicU64,
    /// The last step that was reported, so that each is reported once.
    reported: AtomicU64,
    name: Mutex<Option<Arc<str>>>,
}

impl Slot {
    fn enlist() -> Arc<Self> {
        let slot = Arc::new(Self::default());
        let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|slot| slot.strong_count() > 0);
        slots.push(Arc::downgrade(&slot));
        slot
    }

    fn name(&self) -> Arc<str> {
        self.name.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
    }
}

/// The watchdog thread, started at the first step and stopped when this is dropped.
#[derive(Default)]
pub(crate) struct Watchdog {
    watcher: OnceLock<Option<Watcher>>,
}

struct Watcher {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    asleep: AtomicBool,
    over: AtomicBool,
}

impl Watchdog {
    /// Runs one step of a handler. Costs some nanoseconds in every call.
    pub(crate) fn watch<T>(&self, name: &Arc<str>, step: impl FnOnce() -> T) -> T {
        // A thread that is exiting has no slot.
        let is_begun = LOCAL.try_with(|local| local.begin(name)).unwrap_or(false);
        let _guard = is_begun.then(|| {
            self.wake();
            StepGuard
        });
        step()
    }

    fn wake(&self) {
        let Some(watcher) = self.watcher.get_or_init(Watcher::start) else { return };
        // Without a fence, which would cost more than everything else: a step that begins just as the watcher parks may
        // be missed. The next step wakes the watcher.
        if watcher.state.asleep.load(Ordering::Relaxed) {
            watcher.state.asleep.store(false, Ordering::SeqCst);
            watcher.unpark();
        }
    }
}

/// A guard that ends a step, also if it panics.
struct StepGuard;

impl Drop for StepGuard {
    fn drop(&mut self) {
        let _ = LOCAL.try_with(Local::end);
    }
}

impl Watcher {
    fn start() -> Option<Self> {
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let thread =
            thread::Builder::new().name("mcp-watchdog".to_owned()).spawn(move || shared.run_checks());
        match thread {
            Ok(thread) => Some(Self { state, thread: Some(thread) }),
            Err(error) => {
                tracing::warn!(%error, "the watchdog thread cannot be started; blocking handlers will not be reported");
                None
            }
        }
    }

    fn unpark(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::SeqCst);
        self.unpark();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl State {
    fn run_checks(&self) {
        // The step of each thread, and the time it was first seen.
        let mut seen: Vec<(Arc<Slot>, u64, Instant)> = Vec::new();
        while !self.over.load(Ordering::SeqCst) {
            let looked = Instant::now();
            let mut now: Vec<_> = steps().into_iter().map(|(slot, step)| (slot, step, looked)).collect();
            for (slot, step, since) in &mut now {
                if let Some((.., first)) =
                    seen.iter().find(|(old, at, _)| Arc::ptr_eq(old, slot) && at == step)
                {
                    *since = *first;
                }
                // A check may be early, or late after the process was suspended.
                let is_long = *step % 2 == 1 && *since + CHECK_INTERVAL <= looked;
                if is_long && slot.reported.swap(*step, Ordering::Relaxed) != *step {
                    let name = slot.name();
                    // The name of a resource is a URI that the client chose.
                    tracing::warn!(
                        name = %Visible::name(&name),
                        "handler blocks its thread and delays other calls; wrap it in `blocking`"
                    );
                }
            }
            let same = |slot: &Arc<Slot>, step: u64| {
                step.is_multiple_of(2)
                    && seen.iter().any(|(old, at, _)| Arc::ptr_eq(old, slot) && *at == step)
            };
            if now.iter().all(|(slot, step, _)| same(slot, *step)) {
                self.asleep.store(true, Ordering::SeqCst);
                // Checks again, because a step that began before the store did not see it.
                if steps().iter().all(|(slot, step)| same(slot, *step)) {
                    seen.clear();
                    while self.asleep.load(Ordering::SeqCst) && !self.over.load(Ordering::SeqCst) {
                        thread::park();
                    }
                    continue;
                }
                self.asleep.store(false, Ordering::SeqCst);
            }
            seen = now;
            thread::park_timeout(CHECK_INTERVAL);
        }
    }
}

/// Returns the current step of every thread.
fn steps() -> Vec<(Arc<Slot>, u64)> {
    let slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    let alive = slots.iter().filter_map(Weak::upgrade);
    alive.map(|slot| (Arc::clone(&slot), slot.step.load(Ordering::SeqCst))).collect()
}
