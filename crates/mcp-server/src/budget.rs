//! Budgets for limited resources: calls in flight, open streams, memory of clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An upper bound for the memory of a parsed JSON value, as a multiple of the length of its text.
pub(crate) const PARSED_SIZE_FACTOR: usize = 16;

/// A limited amount of a resource. A share of a nested budget also counts in its parent.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    used: AtomicUsize,
    parent: Option<Arc<Budget>>,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicUsize::new(0), parent: None })
    }

    /// Takes a share; `None` if not enough is left.
    pub(crate) fn take(self: &Arc<Self>, amount: usize) -> Option<Share> {
        self.add(amount).then(|| Share { budget: Arc::clone(self), amount })
    }

    /// Takes a share even if that exceeds the limit, for work that was already admitted.
    pub(crate) fn overdraw(self: &Arc<Self>, amount: usize) -> Share {
        self.add_beyond(amount);
        Share { budget: Arc::clone(self), amount }
    }

    /// Returns true if nothing is left in this budget, regardless of its parent.
    pub(crate) fn is_spent(&self) -> bool {
        self.left() == 0
    }

    /// Returns the amount that is left in this budget, regardless of its parent.
    pub(crate) fn left(&self) -> usize {
        self.limit.saturating_sub(self.used())
    }

    /// Returns the amount that can be taken until half of the limit of this budget is in use, regardless of its parent.
    pub(crate) fn left_of_half(&self) -> usize {
        (self.limit / 2).saturating_sub(self.used())
    }

    /// Returns the amount in use.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn add(&self, amount: usize) -> bool {
        let fits = |used: usize| used.checked_add(amount).filter(|used| *used <= self.limit);
        if self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_err() {
            return false;
        }
        let has_room_above = self.parent.as_ref().is_none_or(|parent| parent.add(amount));
        if !has_room_above {
            self.used.fetch_sub(amount, Ordering::Relaxed);
        }
        has_room_above
    }

    fn add_beyond(&self, amount: usize) {
        self.used.fetch_add(amount, Ordering::Relaxed);
        if let Some(parent) = &self.parent {
            parent.add_beyond(amount);
        }
    }

    fn remove(&self, amount: usize) {
        self.used.fetch_sub(amount, Ordering::Relaxed);
        if let Some(parent) = &self.parent {
            parent.remove(amount);
        }
    }
}

/// Nested budgets, which only HTTP uses.
#[cfg(feature = "http")]
impl Budget {
    /// Creates a nested budget, whose shares are also shares of `parent`.
    pub(crate) fn within(parent: &Arc<Self>, limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicUsize::new(0), parent: Some(Arc::clone(parent)) })
    }

    /// Returns true if at least three quarters of the limit are in use: the caller should then free resources.
    pub(crate) fn is_short(&self) -> bool {
        self.used() >= self.limit - self.limit / 4
    }
}

/// An amount that was taken from a budget. Dropping the share frees the amount.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    amount: usize,
}

impl Share {
    /// Changes the amount. Returns false, and changes nothing, if not enough is left.
    pub(crate) fn resize(&mut self, amount: usize) -> bool {
        if amount > self.amount && !self.budget.add(amount - self.amount) {
            return false;
        }
        self.budget.remove(self.amount.saturating_sub(amount));
        self.amount = amount;
        true
    }

    /// Changes the amount even if that exceeds the limit.
    pub(crate) fn resize_beyond(&mut self, amount: usize) {
        self.budget.add_beyond(amount.saturating_sub(self.amount));
        self.budget.remove(self.amount.saturating_sub(amount));
        self.amount = amount;
    }
}

#[cfg(feature = "http")]
impl Share {
    /// Adds to the amount. Returns false, and changes nothing, if not enough is left.
    pub(crate) fn grow(&mut self, more: usize) -> bool {
        self.resize(self.amount.saturating_add(more))
    }

    /// Adds to the amount even if that exceeds the limit.
    pub(crate) fn grow_beyond(&mut self, more: usize) {
        self.resize_beyond(self.amount.saturating_add(more));
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.remove(self.amount);
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use super::*;

    #[test]
    fn dropped_share_returns_its_amount() {
        let budget = Budget::new(10);
        let share = budget.take(10).unwrap();
        assert!(budget.is_spent() && budget.take(1).is_none());
        drop(share);
        assert!(!budget.is_spent() && budget.take(usize::MAX).is_none());
        assert!(budget.take(10).is_some());
    }

    #[test]
    fn nested_budget_is_limited_by_both() {
        let all = Budget::new(10);
        let (one, other) = (Budget::within(&all, 8), Budget::within(&all, 8));
        assert!(one.take(9).is_none());
        let mut share = one.take(8).unwrap();
        assert!(other.take(3).is_none() && other.take(2).is_some());
        assert!(!share.resize(9) && share.resize(4));
        let rest = other.take(6).unwrap();
        assert!(all.is_spent() && !one.is_spent() && !share.resize(5));
        assert_eq!((one.left(), one.used(), all.left()), (4, 4, 0));
        share.resize_beyond(7);
        assert!(all.take(1).is_none());
        drop((share, rest));
        assert!(all.take(10).is_some());
        let beyond = one.overdraw(20);
        assert!(all.is_spent() && one.is_spent() && one.is_short());
        drop(beyond);
        assert!(!one.is_short());
        assert!(one.take(8).is_some());
    }

    #[test]
    fn budget_is_short_when_three_quarters_are_used() {
        let budget = Budget::new(100);
        let mut share = budget.take(74).unwrap();
        assert!(!budget.is_short());
        assert!(share.grow(1) && budget.is_short());
    }

    #[test]
    fn share_of_an_overdrawn_budget_may_keep_its_size() {
        let budget = Budget::new(10);
        let mut share = budget.take(4).unwrap();
        share.resize_beyond(11);
        assert_eq!(budget.used(), 11);
        share.grow_beyond(2);
        assert_eq!(budget.used(), 13);
        assert!(share.resize(13) && !share.resize(14) && share.resize(12));
        assert_eq!(budget.used(), 12);
        share.resize_beyond(3);
        assert_eq!(budget.used(), 3);
    }
}
