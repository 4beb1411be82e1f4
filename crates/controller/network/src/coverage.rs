//! How often each row of the tables of the state machines was taken, for tests of whole networks.
//!
//! Each thread counts for itself: a simulated network runs in one thread.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// A row of the table of a state machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoveredRow {
    /// The state and the event, as in `Better, Prepares`.
    pub name: String,
    /// How often it was taken.
    pub count: u64,
}

thread_local! {
    static TABLES: RefCell<BTreeMap<&'static str, Vec<CoveredRow>>> = RefCell::default();
}

/// The rows of all tables of which this thread has taken a row, by the name of the machine and in the order of the table.
pub fn tables() -> BTreeMap<&'static str, Vec<CoveredRow>> {
    TABLES.with_borrow(BTreeMap::clone)
}

/// Counts a row of the table of a machine. `key` gives the state and the event of a row.
pub(crate) fn count<R, S: Debug, E: Debug>(
    machine: &'static str,
    table: &[R],
    at: usize,
    key: impl Fn(&R) -> (S, E),
) {
    let named = |row| {
        let (state, event) = key(row);
        CoveredRow { name: format!("{state:?}, {event:?}"), count: 0 }
    };
    TABLES.with_borrow_mut(|tables| {
        let rows = tables.entry(machine).or_insert_with(|| table.iter().map(named).collect());
        if let Some(row) = rows.get_mut(at) {
            row.count += 1;
        }
    });
}
