//! Work, counted while it is done: searches, plans and explanations may be very long, and a thread that makes them
//! cannot be stopped from outside.
//!
//! A *unit* of work takes about as long as a look at one entity and one simple comparison: some 20 ns in a program
//! that was built for use. Whoever does the work spends units before each part of it, and ends when it is told to.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use roaring::RoaringBitmap;

/// Units between two questions whether the work is still wanted.
const BETWEEN: u64 = 4096;

/// How much work may be done. Clones share the units that were spent. The default has no end, and counts nothing.
#[derive(Clone, Default)]
pub struct Meter(Option<Arc<Counter>>);

struct Counter {
    most: u64,
    asks: Box<dyn Fn() -> Option<Ended> + Send + Sync>,
    /// Units spent in all, and for each part. One thread at a time does the work, so that no addition has to be
    /// atomic.
    spent: AtomicU64,
    tests: AtomicU64,
    index: AtomicU64,
    order: AtomicU64,
    rows: AtomicU64,
    plan: AtomicU64,
    policies: AtomicU64,
    /// The number of units at which the next question is asked.
    next: AtomicU64,
    end: AtomicU8,
}

/// A part of some work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub enum Part {
    /// Tests of a filter on entities, and on what is linked to them.
    #[strum(to_string = "tests of the filter on entities")]
    Tests,
    /// Entries of indexes, and operations on sets of entities.
    #[strum(to_string = "entries of indexes that the filter asks for")]
    Index,
    /// Comparisons of a sort.
    #[strum(to_string = "comparisons of the sort")]
    Order,
    /// Entities on a page.
    #[strum(to_string = "entities on the page")]
    Rows,
    /// Entries of a document, and what they change.
    #[strum(to_string = "entries of the document and what they change")]
    Plan,
    /// Policies, and the entities that they select.
    #[strum(to_string = "policies and the entities that they select")]
    Policies,
}

/// Why work ended too early: what was found so far is not all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// Nobody waits for the work any more.
    #[error("nobody waits for it any more")]
    GivenUp,
    /// The program stops.
    #[error("the program stops")]
    Stopping,
    /// The work takes more than this many units, most of them for this part.
    #[error("it takes more than {0} units of work, most of them for {1}")]
    TooMuch(u64, Part),
}

const GOES_ON: u8 = 0;
const GIVEN_UP: u8 = 1;
const STOPPING: u8 = 2;
const TOO_MUCH: u8 = 3;

impl Meter {
    /// Lets work take at most this many units.
    pub fn new(most: u64) -> Self {
        Self::asking(most, || None)
    }

    /// Lets work take at most this many units, and asks from time to time whether it has to end.
    pub fn asking(most: u64, asks: impl Fn() -> Option<Ended> + Send + Sync + 'static) -> Self {
        let zero = || AtomicU64::new(0);
        Self(Some(Arc::new(Counter {
            most,
            asks: Box::new(asks),
            spent: zero(),
            tests: zero(),
            index: zero(),
            order: zero(),
            rows: zero(),
            plan: zero(),
            policies: zero(),
            next: zero(),
            end: AtomicU8::new(GOES_ON),
        })))
    }

    /// Spends units on a part of the work. False if the work has to end: this part must not be done.
    pub fn spend(&self, part: Part, units: u64) -> bool {
        self.0.as_ref().is_none_or(|counter| counter.spend(part, units))
    }

    /// Fails if the work had to end.
    pub fn check(&self) -> Result<(), Ended> {
        self.0.as_ref().and_then(|counter| counter.ended()).map_or(Ok(()), Err)
    }

    /// Spends units, and fails if the work has to end.
    pub fn take(&self, part: Part, units: u64) -> Result<(), Ended> {
        self.spend(part, units);
        self.check()
    }

    /// Whether the work ended because it takes too much.
    pub fn is_exceeded(&self) -> bool {
        matches!(self.check(), Err(Ended::TooMuch(..)))
    }

    /// The number of units that were spent.
    pub fn spent(&self) -> u64 {
        self.0.as_ref().map_or(0, |counter| counter.spent.load(Ordering::Relaxed))
    }
}

impl Counter {
    fn spend(&self, part: Part, units: u64) -> bool {
        if self.end.load(Ordering::Relaxed) != GOES_ON {
            return false;
        }
        add(self.of(part), units);
        let spent = add(&self.spent, units);
        if spent > self.most {
            self.end.store(TOO_MUCH, Ordering::Relaxed);
            return false;
        }
        spent < self.next.load(Ordering::Relaxed) || self.ask(spent)
    }

    /// Asks whether the work has to end. False if so.
    fn ask(&self, spent: u64) -> bool {
        self.next.store(spent.saturating_add(BETWEEN), Ordering::Relaxed);
        let end = match (self.asks)() {
            None => return true,
            Some(Ended::GivenUp) => GIVEN_UP,
            Some(Ended::Stopping) => STOPPING,
            Some(Ended::TooMuch(..)) => TOO_MUCH,
        };
        self.end.store(end, Ordering::Relaxed);
        false
    }

    fn ended(&self) -> Option<Ended> {
        match self.end.load(Ordering::Relaxed) {
            GIVEN_UP => Some(Ended::GivenUp),
            STOPPING => Some(Ended::Stopping),
            TOO_MUCH => Some(Ended::TooMuch(self.most, self.greatest())),
            _ => None,
        }
    }

    fn of(&self, part: Part) -> &AtomicU64 {
        match part {
            Part::Tests => &self.tests,
            Part::Index => &self.index,
            Part::Order => &self.order,
            Part::Rows => &self.rows,
            Part::Plan => &self.plan,
            Part::Policies => &self.policies,
        }
    }

    /// The part that took most.
    fn greatest(&self) -> Part {
        use Part::{Index, Order, Plan, Policies, Rows, Tests};
        let spent = |part: &Part| self.of(*part).load(Ordering::Relaxed);
        [Tests, Index, Order, Rows, Plan, Policies]
            .into_iter()
            .max_by_key(spent)
            .unwrap_or(Part::Tests)
    }
}

/// Adds units; returns the sum.
fn add(to: &AtomicU64, units: u64) -> u64 {
    let sum = to.load(Ordering::Relaxed).saturating_add(units);
    to.store(sum, Ordering::Relaxed);
    sum
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(counter) => write!(f, "Meter({} of {})", self.spent(), counter.most),
            None => f.write_str("Meter(endless)"),
        }
    }
}

/// The units of an operation on a set of ordinals: a sixteenth of its entries, of which a container for 65,536
/// ordinals counts 4096 at most, because it becomes a bitmap then.
pub(crate) fn of_set(entries: u64, highest: u32) -> u64 {
    let containers = u64::from(highest >> 16) + 1;
    1 + entries.min(containers * 4096) / 16
}

/// The units of an operation on this set.
pub(crate) fn of_bitmap(set: &RoaringBitmap) -> u64 {
    of_set(set.len(), set.max().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn work_ends_at_its_budget_and_says_what_took_most() {
        let meter = Meter::new(100);
        assert!(meter.spend(Part::Index, 30) && meter.spend(Part::Tests, 70));
        assert_eq!(meter.check(), Ok(()));
        assert!(!meter.clone().spend(Part::Order, 1));
        assert_eq!(meter.check(), Err(Ended::TooMuch(100, Part::Tests)));
        assert!(!meter.spend(Part::Tests, 0), "it does not begin again");
        assert_eq!(meter.spent(), 101);
        assert!(Meter::default().spend(Part::Rows, u64::MAX));
    }

    #[test]
    fn work_ends_soon_after_it_has_to() {
        let stops = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stops);
        let meter = Meter::asking(u64::MAX, move || {
            asked.load(Ordering::Relaxed).then_some(Ended::Stopping)
        });
        assert!((0..2 * BETWEEN).all(|_| meter.spend(Part::Policies, 1)));
        stops.store(true, Ordering::Relaxed);
        let left = (0..2 * BETWEEN).take_while(|_| meter.spend(Part::Policies, 1)).count() as u64;
        assert!(left <= BETWEEN, "{left}");
        assert_eq!(meter.check(), Err(Ended::Stopping));
    }
}
