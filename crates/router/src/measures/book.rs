//! Bytes of circuits that wait to be reported.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use weft_metrics::usage::{Bytes, Cells, Interval, Ledger, Tags, Way};

/// Length of intervals until the configuration is known.
const USUAL: Duration = Duration::from_secs(60);

/// The bytes that circuits carried, by interval.
#[derive(Debug)]
pub(crate) struct Book(Mutex<Ledger>);

impl Default for Book {
    fn default() -> Self {
        Self(Mutex::new(Ledger::new(USUAL)))
    }
}

impl Book {
    /// Sets the length of intervals.
    pub(crate) fn begin(&self, length: Duration) {
        *self.0.lock() = Ledger::new(length);
    }

    /// The length of intervals.
    pub(crate) fn length(&self) -> Duration {
        Duration::from_secs(self.0.lock().length())
    }

    /// The time until the present interval is over.
    pub(crate) fn left(&self) -> Duration {
        let (length, now) = (self.length(), since_epoch());
        let passed = now.as_nanos() % length.as_nanos();
        length - Duration::from_nanos(u64::try_from(passed).unwrap_or_default())
    }

    /// Adds bytes of a circuit to the present interval.
    pub(crate) fn note(&self, circuit: &Arc<str>, tags: &Tags, bytes: Bytes) {
        // A call just after an interval reports bytes of that interval.
        let at = since_epoch().saturating_sub(Duration::from_millis(500)).as_secs();
        self.0.lock().note(at, circuit, tags, bytes);
    }

    /// Takes out the intervals that have reached this age.
    pub(crate) fn due(&self, age: Duration) -> Vec<Interval> {
        self.0.lock().due(since_epoch().as_secs(), age)
    }
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The bytes that one circuit carries on this router.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    cells: Cells,
    tags: OnceLock<Tags>,
    book: Option<Arc<Book>>,
}

impl Carried {
    /// Makes a counter whose bytes are written into this book.
    pub(crate) fn of(book: &Arc<Book>) -> Self {
        Self { book: Some(Arc::clone(book)), ..Self::default() }
    }

    /// Sets the circuit's tags, as its controller gave them; the first call counts.
    pub(crate) fn tag(&self, tags: &BTreeMap<String, String>) {
        if !tags.is_empty() {
            self.tags.get_or_init(|| Arc::new(tags.clone()));
        }
    }

    /// Adds bytes.
    pub(crate) fn add(&self, way: Way, bytes: usize) {
        self.cells.add(way, bytes);
    }

    /// Adds bytes under a lock that all callers for this direction hold.
    pub(crate) fn add_locked(&self, way: Way, bytes: usize) {
        self.cells.add_locked(way, bytes);
    }

    /// Writes the bytes since the last call into the book.
    pub(crate) fn settle(&self, circuit: &Arc<str>) {
        let Some(book) = &self.book else { return };
        if let Some(bytes) = self.cells.take() {
            book.note(circuit, self.tags.get_or_init(Tags::default), bytes);
        }
    }
}
