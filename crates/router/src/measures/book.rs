//! Bytes of circuits that wait to be reported.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use weft_channel::clock::since_1970;
use weft_metrics::usage::{Cells, Interval, Ledger, Tags, UsageDirection};

/// Length of intervals until the configuration is known.
const USUAL: Duration = Duration::from_secs(60);

/// The bytes that circuits carried, by interval, and the tags of these circuits.
#[derive(Debug)]
pub(crate) struct Book {
    ledger: Mutex<Ledger>,
    tags: Mutex<SharedTags>,
}

impl Default for Book {
    fn default() -> Self {
        Self { ledger: Mutex::new(Ledger::new(USUAL)), tags: Mutex::default() }
    }
}

impl Book {
    /// Sets the length of intervals.
    pub(crate) fn begin(&self, length: Duration) {
        *self.ledger.lock() = Ledger::new(length);
    }

    /// The length of intervals.
    pub(crate) fn length(&self) -> Duration {
        Duration::from_secs(self.ledger.lock().length())
    }

    /// The time until the present interval is over.
    pub(crate) fn left(&self) -> Duration {
        let (length, now) = (self.length(), since_1970());
        let passed = now.as_nanos() % length.as_nanos();
        length - Duration::from_nanos(u64::try_from(passed).unwrap_or_default())
    }

    /// Adds the bytes since the last call for this circuit to the present interval.
    fn note(&self, circuit: &Arc<str>, tags: &Tags, cells: &Cells) {
        // A call just after an interval reports bytes of that interval.
        let at = since_1970().saturating_sub(Duration::from_millis(500)).as_secs();
        // Under the lock, because the end of a circuit and that of an interval may come together.
        let mut ledger = self.ledger.lock();
        if let Some(bytes) = cells.take() {
            ledger.note(at, circuit, tags, bytes);
        }
    }

    /// The same tags, in memory that all circuits with these tags share.
    fn share(&self, tags: &BTreeMap<String, String>) -> Tags {
        self.tags.lock().share(tags)
    }

    /// Takes out the intervals that have reached this age.
    pub(crate) fn due(&self, age: Duration) -> Vec<Interval> {
        self.ledger.lock().due(since_1970().as_secs(), age)
    }
}

/// The tags of circuits, each set once. Tags name the dialer, the host and the service: circuits are many
/// and outlive their end in an interval that waits to be reported, their tags are few.
#[derive(Debug, Default)]
struct SharedTags {
    sets: HashSet<Tags>,
    prune_at: usize,
}

/// Unused tags are searched for once there are more sets than this.
const FIRST_PRUNE: usize = 1024;

impl SharedTags {
    fn share(&mut self, tags: &BTreeMap<String, String>) -> Tags {
        if let Some(known) = self.sets.get(tags) {
            return Arc::clone(known);
        }
        if self.sets.len() >= self.prune_at.max(FIRST_PRUNE) {
            self.sets.retain(|tags| Arc::strong_count(tags) > 1);
            self.prune_at = 2 * self.sets.len();
        }
        let tags = Arc::new(tags.clone());
        self.sets.insert(Arc::clone(&tags));
        tags
    }
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
        if let Some(book) = &self.book
            && !tags.is_empty()
        {
            self.tags.get_or_init(|| book.share(tags));
        }
    }

    /// Adds bytes.
    pub(crate) fn add(&self, direction: UsageDirection, bytes: usize) {
        self.cells.add(direction, bytes);
    }

    /// Adds bytes under a lock that all callers for this direction hold.
    pub(crate) fn add_locked(&self, direction: UsageDirection, bytes: usize) {
        self.cells.add_locked(direction, bytes);
    }

    /// Writes the bytes since the last call into the book.
    pub(crate) fn settle(&self, circuit: &Arc<str>) {
        let Some(book) = &self.book else { return };
        book.note(circuit, self.tags.get_or_init(Tags::default), &self.cells);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn tags(service: usize) -> BTreeMap<String, String> {
        BTreeMap::from([("serviceId".to_owned(), service.to_string())])
    }

    #[tokio::test(start_paused = true)]
    async fn an_interval_is_due_once_the_clock_says_so() {
        let (book, circuit) = (Arc::new(Book::default()), Arc::from("circuit"));
        // An interval has just begun.
        advance(book.left() + USUAL / 6).await;
        let (carried, now) = (Carried::of(&book), since_1970().as_secs());
        carried.add(UsageDirection::IngressRx, 7);
        carried.settle(&circuit);
        let (left, age) = (book.left(), 2 * USUAL);
        assert!(left > USUAL / 2 && book.due(age).is_empty(), "{left:?}");
        advance(USUAL / 2).await;
        assert!(book.left() < left && book.due(age).is_empty(), "{left:?}");
        advance(age).await;
        let due = book.due(age);
        assert!(due.len() == 1 && now.abs_diff(due[0].start) <= USUAL.as_secs() / 2, "{due:?}");
        assert_eq!(due[0].circuits[&circuit].0.iter().sum::<u64>(), 7);
    }

    #[test]
    fn circuits_with_the_same_tags_share_them() {
        let book = Arc::new(Book::default());
        let (one, other) = (Carried::of(&book), Carried::of(&book));
        one.tag(&tags(1));
        other.tag(&tags(1));
        one.tag(&tags(2));
        let of = |carried: &Carried| Arc::clone(carried.tags.get().expect("tagged"));
        assert!(Arc::ptr_eq(&of(&one), &of(&other)));
        assert_eq!(*of(&one), tags(1));
    }

    #[test]
    fn tags_that_no_circuit_has_any_more_are_forgotten() {
        let mut shared = SharedTags::default();
        let kept: Vec<Tags> = (0..10).map(|service| shared.share(&tags(service))).collect();
        (10..5 * FIRST_PRUNE).for_each(|service| drop(shared.share(&tags(service))));
        assert!(shared.sets.len() <= FIRST_PRUNE);
        assert!(kept.iter().all(|tags| Arc::ptr_eq(&shared.share(tags), tags)));
    }
}
