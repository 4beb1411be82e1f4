//! Bytes of circuits, until they are reported.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use weft_metrics::usage::{Bytes, Cells, Interval, Ledger, Tags, Way};

/// Length of intervals until the file is known.
const USUAL: Duration = Duration::from_secs(60);

/// What circuits carried, interval by interval.
#[derive(Debug)]
pub(crate) struct Book(Mutex<Ledger>);

impl Default for Book {
    fn default() -> Self {
        Self(Mutex::new(Ledger::new(USUAL)))
    }
}

impl Book {
    /// Intervals are so long from now on.
    pub(crate) fn begin(&self, length: Duration) {
        *self.0.lock() = Ledger::new(length);
    }

    /// Length of intervals.
    pub(crate) fn length(&self) -> Duration {
        Duration::from_secs(self.0.lock().length())
    }

    /// How long until the interval of now is over.
    pub(crate) fn left(&self) -> Duration {
        let (length, now) = (self.length(), since_epoch());
        let passed = now.as_nanos() % length.as_nanos();
        length - Duration::from_nanos(u64::try_from(passed).unwrap_or_default())
    }

    /// A circuit carried this much, up to now.
    pub(crate) fn note(&self, circuit: &Arc<str>, tags: &Tags, bytes: Bytes) {
        // Who looks right after an interval means the one that is over.
        let at = since_epoch().saturating_sub(Duration::from_millis(500)).as_secs();
        self.0.lock().note(at, circuit, tags, bytes);
    }

    /// Takes out the intervals of this age.
    pub(crate) fn due(&self, age: Duration) -> Vec<Interval> {
        self.0.lock().due(since_epoch().as_secs(), age)
    }
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// What one circuit carries here.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    cells: Cells,
    tags: OnceLock<Tags>,
    book: Option<Arc<Book>>,
}

impl Carried {
    /// To be written into this book.
    pub(crate) fn of(book: &Arc<Book>) -> Self {
        Self { book: Some(Arc::clone(book)), ..Self::default() }
    }

    /// What the circuit is for, as its controller says; the first word counts.
    pub(crate) fn tag(&self, tags: &BTreeMap<String, String>) {
        if !tags.is_empty() {
            self.tags.get_or_init(|| Arc::new(tags.clone()));
        }
    }

    /// So many bytes more.
    pub(crate) fn add(&self, way: Way, bytes: usize) {
        self.cells.add(way, bytes);
    }

    /// The same under a lock that all hold who count this way.
    pub(crate) fn add_locked(&self, way: Way, bytes: usize) {
        self.cells.add_locked(way, bytes);
    }

    /// Writes what came since the last time into the book.
    pub(crate) fn settle(&self, circuit: &Arc<str>) {
        let Some(book) = &self.book else { return };
        if let Some(bytes) = self.cells.take() {
            book.note(circuit, self.tags.get_or_init(Tags::default), bytes);
        }
    }
}
