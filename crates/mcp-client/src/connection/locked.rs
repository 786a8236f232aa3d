//! The lock of a connection's state.

use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;
use std::task::Waker;

use super::state::State;

/// The initial capacity of the list of tasks to wake. It is enough for the responses of one typical read.
const WAKERS_PER_BATCH: usize = 64;

/// The locked state. Tasks to wake are collected under the lock and woken after it is released: a woken task may start
/// on another thread at once, where it would wait for the lock.
pub(crate) struct Locked<'a> {
    // Fields are dropped in this order: the lock is released before the tasks are woken.
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

/// Tasks that are woken, in order, when this list is dropped.
#[derive(Default)]
pub(super) struct WakeList {
    first: Option<Waker>,
    // Usually empty, so that one task needs no allocation.
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
