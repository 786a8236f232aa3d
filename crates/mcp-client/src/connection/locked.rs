//! The lock of a connection's state.

use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;
use std::task::Waker;

use super::state::State;

/// The locked state. The last task that was woken under the lock is woken when it is released, so that it does not have to
/// wait for the lock. Others are woken at once.
pub(crate) struct Locked<'a> {
    // Dropped first: the lock is released before the task is woken.
    state: MutexGuard<'a, State>,
    wakes: Wake,
}

impl<'a> Locked<'a> {
    pub(super) fn new(state: MutexGuard<'a, State>) -> Self {
        Self { state, wakes: Wake(None) }
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
        self.wakes.0 = self.state.wakes.take();
    }
}

/// A task that is woken when this is dropped.
struct Wake(Option<Waker>);

impl Drop for Wake {
    fn drop(&mut self) {
        if let Some(waker) = self.0.take() {
            waker.wake();
        }
    }
}
