//! Notices functions that block their thread without saying so.
//!
//! Each thread that polls functions has a slot with the number of its step, odd while a function has the thread. A
//! thread of its own looks at the slots now and then, and sleeps while nobody calls.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mcp_protocol::visible::Visible;

/// How often the slots are looked at. A step that is there twice is too long.
const LOOK: Duration = Duration::from_millis(500);

static SLOTS: Mutex<Vec<Weak<Slot>>> = Mutex::new(Vec::new());

thread_local! {
    static LOCAL: Local = Local { slot: Slot::enlist(), named: Cell::new(ptr::null()) };
}

/// The slot of a thread, and what only the thread itself looks at.
struct Local {
    slot: Arc<Slot>,
    /// Where the name in the slot stands, so that the same one is not put there again.
    named: Cell<*const u8>,
}

impl Local {
    /// Begins a step. False inside of another one, which is watched already.
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

/// What a thread does now.
#[derive(Default)]
struct Slot {
    /// Odd while a function has the thread.
    step: AtomicU64,
    /// The step that was told of last, so that it is told of once.
    told: AtomicU64,
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

/// The thread that looks, from the first step on. It ends when this is dropped.
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
    /// Runs one step of a function. This is on the way of every call, and costs some nanoseconds.
    pub(crate) fn watch<T>(&self, name: &Arc<str>, step: impl FnOnce() -> T) -> T {
        // A thread that ends has no slot any more.
        let is_begun = LOCAL.try_with(|local| local.begin(name)).unwrap_or(false);
        let _ending = is_begun.then(|| {
            self.wake();
            Ending
        });
        step()
    }

    fn wake(&self) {
        let Some(watcher) = self.watcher.get_or_init(Watcher::start) else { return };
        // Without a fence, which would cost more than all the rest: a step that begins in the very moment in which the
        // watcher falls asleep may go unseen. The next one wakes it.
        if watcher.state.asleep.load(Ordering::Relaxed) {
            watcher.state.asleep.store(false, Ordering::SeqCst);
            watcher.unpark();
        }
    }
}

/// Ends a step, also when it panics.
struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = LOCAL.try_with(Local::end);
    }
}

impl Watcher {
    fn start() -> Option<Self> {
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let thread = thread::Builder::new().name("mcp-watchdog".to_owned()).spawn(move || shared.look());
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
    fn look(&self) {
        // What each thread did when it was looked at first.
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
                // A look may come early, or late after the process was stopped.
                let is_long = *step % 2 == 1 && *since + LOOK <= looked;
                if is_long && slot.told.swap(*step, Ordering::Relaxed) != *step {
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
                // Whoever began before that did not see it.
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
            thread::park_timeout(LOOK);
        }
    }
}

/// What every thread does now.
fn steps() -> Vec<(Arc<Slot>, u64)> {
    let slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    let alive = slots.iter().filter_map(Weak::upgrade);
    alive.map(|slot| (Arc::clone(&slot), slot.step.load(Ordering::SeqCst))).collect()
}
