//! Byte budgets in a tree: owners draw bytes and give them back when they are dropped.
//!
//! A process has one budget; links, circuits and buffers have child budgets with limits of their
//! own. Drawing from a child draws from all its ancestors. A [`Grant`] holds the bytes drawn and
//! returns them when it is dropped, so that no path out of a function can leak them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A limit on bytes that many owners draw from. Clones are the same budget.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Node>);

#[derive(Debug)]
struct Node {
    parent: Option<Budget>,
    limit: AtomicU64,
    used: AtomicU64,
}

impl Budget {
    /// A budget without a parent.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self(Arc::new(Node { parent: None, limit: AtomicU64::new(limit), used: AtomicU64::new(0) }))
    }

    /// A budget without a limit, for tests and for owners bounded by other means.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::new(u64::MAX)
    }

    /// A child budget: its bytes count in this budget too.
    #[must_use]
    pub fn child(&self, limit: u64) -> Self {
        Self(Arc::new(Node {
            parent: Some(self.clone()),
            limit: AtomicU64::new(limit),
            used: AtomicU64::new(0),
        }))
    }

    /// Draws `bytes`. `None`, and nothing drawn, if this budget or an ancestor has less left.
    #[must_use]
    pub fn try_take(&self, bytes: u64) -> Option<Grant> {
        let mut grant = self.empty();
        grant.try_grow(bytes).then_some(grant)
    }

    /// Draws `bytes` regardless of the limits, for what must be held so that work goes on: the next
    /// payload in order, a message that is already read. The budget counts as overdrawn until the
    /// bytes are returned, so that other draws fail.
    pub fn take_anyway(&self, bytes: u64) -> Grant {
        let mut grant = self.empty();
        grant.grow_anyway(bytes);
        grant
    }

    /// A grant of 0 bytes, which can grow.
    pub fn empty(&self) -> Grant {
        Grant { budget: self.clone(), bytes: 0 }
    }

    /// Bytes drawn from this budget and its children.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Limit of this budget in bytes, without its ancestors' limits.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.0.limit.load(Ordering::Relaxed)
    }

    /// Bytes that could be drawn now: the smallest remainder of this budget and its ancestors.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.chain().map(|node| node.left()).min().unwrap_or(0)
    }

    /// The budget at the top, from which this budget and all its ancestors draw.
    #[must_use]
    pub fn whole(&self) -> &Self {
        let mut whole = self;
        while let Some(parent) = &whole.0.parent {
            whole = parent;
        }
        whole
    }

    fn chain(&self) -> impl Iterator<Item = &Node> {
        std::iter::successors(Some(&*self.0), |node| node.parent.as_ref().map(|p| &*p.0))
    }

    fn take(&self, bytes: u64) -> bool {
        for (depth, node) in self.chain().enumerate() {
            if !node.try_add(bytes) {
                self.chain().take(depth).for_each(|node| node.sub(bytes));
                return false;
            }
        }
        true
    }
}

impl Node {
    fn left(&self) -> u64 {
        self.limit.load(Ordering::Relaxed).saturating_sub(self.used.load(Ordering::Relaxed))
    }

    fn try_add(&self, bytes: u64) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|total| *total <= limit)
            })
            .is_ok()
    }

    fn sub(&self, bytes: u64) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "a budget got back more than it gave");
    }
}

/// Bytes drawn from a [`Budget`], returned when the grant is dropped.
#[derive(Debug)]
#[must_use = "a grant that is dropped gives its bytes back"]
pub struct Grant {
    budget: Budget,
    bytes: u64,
}

impl Grant {
    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The budget that the bytes were drawn from.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Draws `more` bytes. Returns false, and draws none, if they do not fit.
    pub fn try_grow(&mut self, more: u64) -> bool {
        let ok = self.budget.take(more);
        if ok {
            self.bytes += more;
        }
        ok
    }

    /// Draws `more` bytes regardless of the limits (see [`Budget::take_anyway`]).
    pub fn grow_anyway(&mut self, more: u64) {
        let more = more.min(u64::MAX - self.bytes);
        self.budget.chain().for_each(|node| {
            node.used.fetch_add(more, Ordering::Relaxed);
        });
        self.bytes += more;
    }

    /// Returns `less` bytes, or all bytes if the grant holds fewer.
    pub fn shrink(&mut self, less: u64) {
        let less = less.min(self.bytes);
        self.budget.chain().for_each(|node| node.sub(less));
        self.bytes -= less;
    }

    /// Splits `bytes` off into a new grant, or all bytes if the grant holds fewer. Nothing is drawn
    /// or returned: the bytes change owner.
    pub fn split(&mut self, bytes: u64) -> Grant {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Grant { budget: self.budget.clone(), bytes }
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_child_draws_from_its_parent() {
        let process = Budget::new(100);
        let (a, b) = (process.child(80), process.child(80));
        let held = a.try_take(60).unwrap();
        assert!(a.try_take(30).is_none(), "over its own limit");
        assert!(b.try_take(50).is_none(), "over the parent's limit");
        assert_eq!((a.used(), b.used(), process.used()), (60, 0, 60));
        assert_eq!((a.free(), b.free()), (20, 40));
        assert_eq!((b.whole().used(), process.whole().limit()), (60, 100));
        drop(held);
        assert_eq!((a.used(), process.used()), (0, 0));
        assert!(b.try_take(80).is_some());
    }

    #[test]
    fn overdraft_is_counted_and_returned() {
        let budget = Budget::new(10);
        let mut grant = budget.take_anyway(25);
        assert_eq!((budget.used(), budget.free()), (25, 0));
        assert!(budget.try_take(1).is_none());
        grant.shrink(20);
        assert_eq!(budget.free(), 5);
        let part = grant.split(2);
        assert_eq!((grant.bytes(), part.bytes(), budget.used()), (3, 2, 5));
        drop((grant, part));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_huge_draw_is_refused_not_wrapped() {
        let budget = Budget::unlimited();
        let held = budget.try_take(5).unwrap();
        assert!(budget.try_take(u64::MAX).is_none());
        assert_eq!(budget.used(), held.bytes());
    }

    #[test]
    fn threads_never_draw_more_than_there_is() {
        let parent = Budget::new(1000);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let child = parent.child(400);
                let parent = &parent;
                scope.spawn(move || {
                    for i in 0..2000u64 {
                        let grant = child.try_take(i % 300);
                        assert!(parent.used() <= 1000 + 4 * 300);
                        drop(grant);
                    }
                    assert_eq!(child.used(), 0);
                });
            }
        });
        assert_eq!(parent.used(), 0);
    }

    proptest! {
        #[test]
        fn used_is_the_sum_of_grants(
            ops in prop::collection::vec((0usize..3, 0u8..5, 0u64..120), 1..200)
        ) {
            let root = Budget::new(300);
            let budgets = [root.clone(), root.child(150), root.child(250)];
            let mut grants: Vec<(usize, Grant)> = Vec::new();
            for (which, op, bytes) in ops {
                match op {
                    0 | 1 => grants.extend(budgets[which].try_take(bytes).map(|g| (which, g))),
                    2 => grants.truncate(which),
                    3 => if let Some((_, g)) = grants.first_mut() { g.shrink(bytes) },
                    _ => if let Some((_, g)) = grants.last_mut() { g.try_grow(bytes); },
                }
                let sum = |w: usize| grants.iter()
                    .filter(|(of, _)| w == 0 || *of == w).map(|(_, g)| g.bytes()).sum::<u64>();
                for (w, budget) in budgets.iter().enumerate() {
                    prop_assert_eq!(budget.used(), sum(w));
                    prop_assert!(budget.used() <= budget.limit());
                }
            }
            grants.clear();
            prop_assert_eq!(root.used(), 0);
        }
    }
}
