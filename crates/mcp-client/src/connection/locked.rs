//! The lock of a connection's state.

use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;
use std::task::Waker;

use super::state::State;

/// The capacity for tasks that one read wakes; it grows if there are more.
const WAKERS_PER_BATCH: usize = 64;

/// The locked state. Tasks that are woken under the lock are woken when it is released, because they run on other
/// threads at once and would wait for the lock.
pub(crate) struct Locked<'a> {
    // Dropped first: the lock is released before the tasks are woken.
    state: MutexGuard<'a, State>,
    wakes: WakeList,
}

impl<'a> Locked<'a> {
    pub(super) fn new(state: MutexGuard<'a, State>) -> Self {
        Self { state, wakes: WakeList::default() }
    }
}

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if self.state.wakes.first.is_some() {
            self.wakes = std::mem::take(&mut self.state.wakes);
        }
    }
}

/// Tasks that are woken when this is dropped, in order.
#[derive(Default)]
pub(super) struct WakeList {
    first: Option<Waker>,
    // Usually empty: no allocation for one task.
    rest: Vec<Waker>,
}

impl WakeList {
    pub(super) fn push(&mut self, waker: Waker) {
        match &self.first {
            None => self.first = Some(waker),
            Some(_) => {
                if self.rest.capacity() == 0 {
                    self.rest.reserve_exact(WAKERS_PER_BATCH);
                }
                self.rest.push(waker);
            }
        }
    }
}

impl Drop for WakeList {
    fn drop(&mut self) {
        if let Some(first) = self.first.take() {
            first.wake();
            for waker in self.rest.drain(..) {
                waker.wake();
            }
        }
    }
}
