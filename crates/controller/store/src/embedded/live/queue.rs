//! Live state that waits for the disk, and the thread that writes it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use redb::Database;
use tokio::sync::watch;

use super::super::failure::Failure;
use super::super::file::{self, Shared};
use super::super::journal::{Batch, Journal};
use super::super::tables::{LIVE, META, NOTES};
use super::opened::{FOLDED, Folded};
use crate::CommitError;

/// Longest wait of a write for others to join it.
const DELAY: Duration = Duration::from_millis(250);
/// Longest time for which values are only in the journal.
const FOLD: Duration = Duration::from_secs(2);
/// Shortest pause after a write that failed.
const RETRY: Duration = Duration::from_secs(1);

/// Values that the thread has not taken yet.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) values: Batch,
    /// Number of writes so far.
    pub(super) put: u64,
    /// True if a caller waits for the disk.
    pub(super) hurry: bool,
    /// True if a caller waits until the database contains everything.
    pub(super) fold: bool,
    /// True if the journal is given up, because the store is closed.
    pub(super) close: bool,
    pub(super) stop: bool,
}

/// Values that the thread has taken. Reads look here, too.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Values in the journal that the database does not contain yet, the oldest first. Each batch is larger than the next
    /// one, so that there are few. Only the thread changes the list, and it copies no values while it has the lock.
    pub(super) journaled: Vec<Arc<Batch>>,
    /// Values that are being written.
    pub(super) writing: Arc<Batch>,
}

/// Results so far. Writes are counted as in [`Pending::put`].
#[derive(Debug, Clone)]
pub(super) struct Settled {
    /// Writes that were tried.
    pub(super) tried: u64,
    /// Writes that are on the disk.
    pub(super) on_disk: u64,
    /// Writes that the database contains.
    pub(super) in_database: u64,
    /// The result of the last try.
    pub(super) outcome: Result<(), CommitError>,
    /// True if the journal takes values.
    pub(super) can_append: bool,
    /// True if the journal was given up, because the store was closed.
    pub(super) is_closed: bool,
}

#[derive(Debug)]
pub(super) struct Queue {
    /// Values since the thread last took them.
    pub(super) pending: Mutex<Pending>,
    pub(super) taken: Mutex<Taken>,
    pub(super) wake: Condvar,
    pub(super) settled: watch::Sender<Settled>,
}

/// A step of the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Append to the journal.
    Append,
    /// Bring everything into the database.
    Fold,
    /// Bring everything into the database; the journal is not used any more.
    Close,
    /// Bring everything into the database, and end the thread.
    Stop,
}

/// The times at which the thread has to act.
#[derive(Debug, Default)]
struct Times {
    /// Latest time of the next fold, while values are only in the journal.
    fold: Option<Instant>,
    /// End of the pause after a failure.
    pause: Option<Instant>,
}

impl Queue {
    /// A queue, with values that are in the journal only.
    pub(super) fn new(journaled: Batch, can_append: bool) -> Self {
        Self {
            pending: Mutex::default(),
            taken: Mutex::new(Taken {
                journaled: Some(journaled)
                    .filter(|it| !it.is_empty())
                    .map(Arc::new)
                    .into_iter()
                    .collect(),
                writing: Arc::default(),
            }),
            wake: Condvar::new(),
            settled: watch::Sender::new(Settled {
                tried: 0,
                on_disk: 0,
                in_database: 0,
                outcome: Ok(()),
                can_append,
                is_closed: false,
            }),
        }
    }

    /// The thread's loop. `unread` is the latest generation of the records in a journal that cannot be opened.
    pub(super) fn run(
        &self,
        shared: &Shared,
        mut journal: Option<Journal>,
        (mut is_open, unread): (bool, Option<u64>),
    ) {
        let mut times = Times::default();
        if !self.taken.lock().journaled.is_empty() {
            times.fold = Some(Instant::now() + DELAY);
        }
        loop {
            let can_append = journal.as_ref().is_some_and(Journal::takes_more);
            let (step, put, values) = self.next(&times, can_append);
            if let (Step::Append, Some(journal)) = (step, &mut journal)
                && self.append(journal, put, &values)
            {
                times.fold.get_or_insert_with(|| Instant::now() + FOLD);
                continue;
            }
            let is_last = matches!(step, Step::Stop | Step::Close);
            let done = self.fold(shared, (journal.as_mut(), unread), values, (is_last, is_open));
            if done.is_ok() {
                is_open = journal.is_some() && !is_last;
            }
            if is_last && done.is_ok() {
                journal.iter().for_each(Journal::cut);
            }
            if step == Step::Close {
                journal = None;
            }
            let failed = done.is_err();
            let can_append = journal.as_ref().is_some_and(Journal::takes_more);
            self.settle(put, done, (can_append, step == Step::Close));
            if step == Step::Stop {
                return;
            }
            let now = Instant::now();
            times = Times {
                fold: failed.then_some(now),
                pause: failed.then(|| now + shared.writing_pause().max(RETRY)),
            };
        }
    }

    /// Waits for the next step, and takes the values that are there.
    fn next(&self, times: &Times, can_append: bool) -> (Step, u64, Arc<Batch>) {
        let mut pending = self.pending.lock();
        let mut gathered = None;
        let step = loop {
            let now = Instant::now();
            let is_empty = pending.values.is_empty();
            if pending.stop {
                break Step::Stop;
            }
            if pending.close {
                break Step::Close;
            }
            // Without values here, all are on the disk: they were written for another caller that waited.
            pending.hurry &= !is_empty;
            let pause = times.pause.filter(|until| now < *until);
            if pending.hurry && can_append {
                let is_due = pending.fold || times.fold.is_some_and(|due| due <= now);
                break if is_due && pause.is_none() { Step::Fold } else { Step::Append };
            }
            let due = match pause {
                // New values do not shorten the pause after a failure.
                Some(until) => Some(until),
                None => {
                    if !is_empty {
                        gathered.get_or_insert(now + DELAY);
                    }
                    let due = [gathered, times.fold].into_iter().flatten().min();
                    if pending.fold || pending.hurry || due.is_some_and(|due| due <= now) {
                        break Step::Fold;
                    }
                    due
                }
            };
            match due {
                Some(due) => drop(self.wake.wait_until(&mut pending, due)),
                None => self.wake.wait(&mut pending),
            }
        };
        pending.hurry = false;
        if step != Step::Append {
            (pending.fold, pending.close) = (false, false);
        }
        let values = Arc::new(std::mem::take(&mut pending.values));
        self.taken.lock().writing = Arc::clone(&values);
        (step, pending.put, values)
    }

    /// Appends values to the journal. True if the values are on the disk.
    fn append(&self, journal: &mut Journal, put: u64, values: &Arc<Batch>) -> bool {
        if let Err(error) = journal.append(values) {
            tracing::warn!(%error, "the journal of sessions cannot be written");
            return false;
        }
        let journaled = self.taken.lock().journaled.clone();
        let journaled = with(journaled, Arc::clone(values));
        let former = {
            let mut taken = self.taken.lock();
            taken.writing = Arc::default();
            std::mem::replace(&mut taken.journaled, journaled)
        };
        // Dropped without the lock.
        drop(former);
        self.settled.send_modify(|settled| {
            (settled.tried, settled.on_disk, settled.outcome) = (put, put, Ok(()));
        });
        true
    }

    /// Brings the values of the journal and these into the database.
    fn fold(
        &self,
        shared: &Shared,
        (mut journal, unread): (Option<&mut Journal>, Option<u64>),
        values: Arc<Batch>,
        (is_last, is_open): (bool, bool),
    ) -> Result<(), CommitError> {
        let journaled = self.taken.lock().journaled.clone();
        let all = Batch::joined(journaled.iter().chain([&values]));
        if all.is_empty() && !(is_last && is_open && journal.is_some()) {
            return Ok(());
        }
        // The records of a journal that cannot be opened are older than these values: a later start
        // must not bring them back.
        let unread = unread.map(|generation| Folded { generation, is_open: false });
        let folded = journal.as_deref_mut().map_or(unread, |journal| {
            Some(Folded { generation: journal.begin_fold(), is_open: !is_last })
        });
        let done = write(shared, &all, folded, is_last).map_err(CommitError::from);
        match (&done, &mut journal) {
            (Ok(()), Some(journal)) => journal.folded(),
            // The journal may be readable where the database is not.
            (Err(_), Some(journal)) if is_last => drop(journal.append(&all)),
            _ => {}
        }
        done
    }

    /// Reports the result of a fold. Values that could not be written wait again, unless newer ones
    /// replace them.
    fn settle(
        &self,
        put: u64,
        outcome: Result<(), CommitError>,
        (can_append, is_closed): (bool, bool),
    ) {
        let done = {
            let mut pending = self.pending.lock();
            let mut taken = self.taken.lock();
            let written = std::mem::take(&mut taken.writing);
            match &outcome {
                Ok(()) => (written, std::mem::take(&mut taken.journaled)),
                Err(error) => {
                    tracing::warn!(%error, "sessions could not be written to the database; it is tried again");
                    pending.values.extend_older(Arc::unwrap_or_clone(written));
                    Default::default()
                }
            }
        };
        // Dropped without the locks.
        drop(done);
        self.settled.send_modify(|settled| {
            settled.tried = put;
            settled.can_append = can_append;
            settled.is_closed |= is_closed;
            if outcome.is_ok() {
                (settled.on_disk, settled.in_database) = (put, put);
            }
            settled.outcome = outcome;
        });
    }
}

/// Batches, each larger than the next one, and a newer one.
fn with(mut batches: Vec<Arc<Batch>>, newer: Arc<Batch>) -> Vec<Arc<Batch>> {
    batches.push(newer);
    while let [.., older, newer] = &batches[..]
        && older.len() <= newer.len()
    {
        let joined = Batch::joined([older, newer]);
        batches.truncate(batches.len() - 2);
        batches.push(Arc::new(joined));
    }
    batches
}

fn write(
    shared: &Shared,
    values: &Batch,
    folded: Option<Folded>,
    is_last: bool,
) -> Result<(), Failure> {
    let put = |database: &Database| {
        let transaction = file::begin(database)?;
        for (table, values) in [(LIVE, &values.entities), (NOTES, &values.notes)] {
            let mut table = transaction.open_table(table)?;
            for (key, value) in values {
                match value {
                    Some(value) => table.insert(key.as_slice(), value.as_slice())?,
                    None => table.remove(key.as_slice())?,
                };
            }
        }
        if let Some(folded) = folded {
            transaction.open_table(META)?.insert(FOLDED, folded.sealed().as_slice())?;
        }
        Ok(transaction.commit()?)
    };
    if is_last { shared.with(put) } else { shared.write(put) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_appends_are_few_batches_with_the_newest_values() {
        let mut batches = Vec::new();
        for number in 0..1000_u16 {
            let mut one = Batch::default();
            let key = (number % 300).to_be_bytes().to_vec();
            one.notes.insert(key, Some(number.to_be_bytes().to_vec()));
            batches = with(batches, Arc::new(one));
            assert!(batches.windows(2).all(|pair| pair[0].len() > pair[1].len()));
            assert!(batches.len() <= 10, "{}", batches.len());
        }
        let all = Batch::joined(&batches);
        assert_eq!(all.len(), 300);
        let newest = |key: u16| if key < 100 { 900 + key } else { 600 + key };
        for key in 0..300_u16 {
            let value = Some(newest(key).to_be_bytes().to_vec());
            assert_eq!(all.notes[&key.to_be_bytes()[..]], value);
        }
    }
}
