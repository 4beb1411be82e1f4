//! The last change sets for routers. A router that comes back, also after a restart of the
//! controller, is sent the missing ones instead of everything (docs/protocol/edge-control-plane.md
//! 5, 6).
//!
//! The change sets are kept encoded in memory, and also as notes in the store, which are written shortly
//! after. A kill may lose the last notes. One note has the revision up to which the notes are complete;
//! the change sets of the store after that revision are examined at the start.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use weft_model::{Revision, Timeline};
use weft_store::{LiveStore, ReadError, Space};
use weft_wire::edge_ctrl::data_model::ChangeSet;
use weft_wire::{Message, ProtoBody};

/// The space of notes with change sets, by index.
const SETS: Space = Space(16);
/// The space of notes about the log.
const ABOUT: Space = Space(17);
/// Name of the note with the timeline of the change sets.
const TIMELINE: &str = "timeline";
/// Name of the note with the position: the last index, the revision up to which the log is
/// complete, and the index up to which claims of routers are not believed.
const POSITION: &str = "position";

/// Bytes that are kept even for a small model.
const SMALL: usize = 4 * 1024 * 1024;

/// Limits of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// Most change sets.
    pub entries: usize,
    /// Most bytes of all change sets.
    pub bytes: usize,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { entries: 10_000, bytes: 64 * 1024 * 1024 }
    }
}

/// An encoded change set. Decoded it would take many times as much memory.
#[derive(Debug)]
pub struct LogEntry {
    index: u64,
    previous_index: u64,
    body: Bytes,
}

impl LogEntry {
    fn new(set: &ChangeSet) -> Self {
        Self { index: set.index, previous_index: set.previous_index, body: set.to_body() }
    }

    /// Its index.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// The message for a router that has everything up to `position`. For a router between two
    /// indexes the message is adapted, so that it sees no gap.
    pub(crate) fn message_after(&self, position: u64) -> Message {
        let same = || Message::new(ChangeSet::CONTENT_TYPE, self.body.clone());
        if self.previous_index == position {
            return same();
        }
        match ChangeSet::from_body(&self.body) {
            Ok(set) => ChangeSet { previous_index: position, ..set }.to_message(),
            // A message that was encoded here can be decoded.
            Err(_) => same(),
        }
    }
}

/// The messages that a router needs.
#[derive(Debug)]
pub enum Replay {
    /// None: it has everything.
    Nothing,
    /// These change sets, in order.
    Entries(Vec<Arc<LogEntry>>),
    /// A full state.
    Full,
}

/// The log of change sets.
#[derive(Debug)]
pub struct Log {
    limits: LogLimits,
    entries: VecDeque<Arc<LogEntry>>,
    bytes: usize,
    /// Index of the last change set.
    index: u64,
    /// A router with this index or a later one can be served from the log.
    base: u64,
    /// Routers that claim this index or an earlier one are sent everything, because what they have
    /// may be wrong.
    disbelieved: u64,
}

/// The log of an earlier run.
#[derive(Debug)]
pub struct Kept {
    /// The log.
    pub log: Log,
    /// The revision up to which the log is complete.
    pub complete: Revision,
}

impl Log {
    /// An empty log at an index.
    pub fn at(index: u64, limits: LogLimits) -> Self {
        let entries = VecDeque::new();
        Self { limits, entries, bytes: 0, index, base: index, disbelieved: 0 }
    }

    /// An empty log with the same limits, after the model was built anew: everything that routers
    /// were sent so far may be wrong, even at the same index.
    pub fn anew(&self, index: u64) -> Self {
        Self { disbelieved: index, ..Self::at(index, self.limits) }
    }

    /// Loads the log of an earlier run, if it has this timeline.
    pub fn load(
        live: &dyn LiveStore,
        timeline: &Timeline,
        limits: LogLimits,
    ) -> Result<Option<Kept>, ReadError> {
        let about = live.notes(ABOUT)?;
        let note = |key: &str| about.iter().find(|(own, _)| own == key).map(|(_, value)| value);
        let same = note(TIMELINE).is_some_and(|own| **own == *timeline.0.as_bytes());
        let position = note(POSITION).and_then(|note| std::str::from_utf8(note).ok());
        let position = position.and_then(|note| {
            let mut numbers = note.split(' ').map(|number| number.parse::<u64>().ok());
            Some((numbers.next()??, numbers.next()??, numbers.next().flatten().unwrap_or(0)))
        });
        let Some((index, complete, disbelieved)) = position.filter(|_| same) else {
            return Ok(None);
        };
        let mut log = Self::at(0, limits);
        for (_, note) in live.notes(SETS)? {
            let Ok(set) = ChangeSet::from_body(&note) else { continue };
            if log.index != set.previous_index {
                log = Self::at(set.previous_index, limits);
            }
            log.append(LogEntry {
                index: set.index,
                previous_index: set.previous_index,
                body: note,
            });
        }
        // Notes reach the disk in order, but the last ones may be missing.
        let complete = match log.index == index {
            true => complete,
            false if log.index < index => return Ok(None),
            false => complete.max(log.index),
        };
        log.disbelieved = disbelieved;
        Ok(Some(Kept { log, complete: Revision(complete) }))
    }

    fn append(&mut self, entry: LogEntry) {
        self.index = entry.index;
        self.bytes += entry.body.len();
        self.entries.push_back(Arc::new(entry));
    }

    /// Index of the last change set.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Adds a change set, in memory and in the notes. Old ones are dropped above the limits, and
    /// when all together are larger than a full state (`full` bytes): a router that lacks so much
    /// is sent everything.
    pub fn push(&mut self, mut set: ChangeSet, full: usize, live: &dyn LiveStore) {
        set.previous_index = self.index;
        let entry = LogEntry::new(&set);
        live.put_note(SETS, &key(entry.index()), Some(entry.body.clone()));
        self.append(entry);
        let most = self.limits.bytes.min(full.max(SMALL));
        while self.entries.len() > self.limits.entries || self.bytes > most {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.bytes -= oldest.body.len();
            self.base = oldest.index();
            live.put_note(SETS, &key(oldest.index()), None);
        }
    }

    /// Notes the revision up to which the log is complete.
    pub(crate) fn note_position(&self, complete: Revision, live: &dyn LiveStore) {
        let position = format!("{} {complete} {}", self.index, self.disbelieved);
        live.put_note(ABOUT, POSITION, Some(position.into()));
    }

    /// Notes the timeline, and drops change sets of others.
    pub fn begin(&self, timeline: &Timeline, live: &dyn LiveStore) -> Result<(), ReadError> {
        for (key, _) in live.notes(SETS)? {
            let index: u64 = key.parse().unwrap_or(0);
            if self.entries.binary_search_by_key(&index, |entry| entry.index).is_err() {
                live.put_note(SETS, &key, None);
            }
        }
        live.put_note(ABOUT, TIMELINE, Some(Bytes::copy_from_slice(timeline.0.as_bytes())));
        Ok(())
    }

    /// Bytes of the change sets after a position; none if some of them are missing.
    pub(crate) fn bytes_after(&self, position: u64) -> Option<usize> {
        let newer = self.entries.iter().rev().take_while(|entry| entry.index > position);
        (position >= self.base).then(|| newer.map(|entry| entry.body.len()).sum())
    }

    /// The messages for a router that claims to have everything up to `position`.
    pub(crate) fn replay_claimed(&self, position: u64) -> Replay {
        if position <= self.disbelieved { Replay::Full } else { self.replay(position) }
    }

    /// The messages for a router that has everything up to `position`.
    pub(crate) fn replay(&self, position: u64) -> Replay {
        if position == self.index {
            return Replay::Nothing;
        }
        if position > self.index || position < self.base {
            return Replay::Full;
        }
        // Every connected router asks after each change, and most lack only the last entry.
        let first = self.entries.partition_point(|entry| entry.index() <= position);
        Replay::Entries(self.entries.range(first..).cloned().collect())
    }
}

/// The key of a note; keys sort by index.
fn key(index: u64) -> String {
    format!("{index:020}")
}

#[cfg(test)]
mod tests {
    use weft_store::{Memory, Store};

    use super::*;

    fn set(index: u64) -> ChangeSet {
        ChangeSet { index, ..ChangeSet::default() }
    }

    fn log(limits: LogLimits, live: &dyn LiveStore, indexes: &[u64]) -> Log {
        let mut log = Log::at(0, limits);
        indexes.iter().for_each(|index| log.push(set(*index), 0, live));
        log
    }

    fn replayed(log: &Log, position: u64) -> Option<Vec<u64>> {
        match log.replay(position) {
            Replay::Nothing => Some(Vec::new()),
            Replay::Entries(entries) => Some(entries.iter().map(|entry| entry.index()).collect()),
            Replay::Full => None,
        }
    }

    #[test]
    fn what_is_missing_is_replayed_and_nothing_is_lost_in_holes() {
        // The example of docs/protocol/edge-control-plane.md 21, and the change sets after the
        // position.
        let store = Memory::new();
        let log = log(LogLimits::default(), store.live(), &[1, 2, 5]);
        assert_eq!(replayed(&log, 1), Some(vec![2, 5]));
        assert_eq!(replayed(&log, 3), Some(vec![5]));
        assert_eq!(replayed(&log, 5), Some(vec![]));
        assert_eq!(replayed(&log, 6), None);
        let Replay::Entries(entries) = log.replay(3) else { panic!() };
        let message = entries[0].message_after(3);
        assert_eq!(ChangeSet::from_message(&message).unwrap().previous_index, 3);
        let message = entries[0].message_after(2);
        assert_eq!(ChangeSet::from_message(&message).unwrap().previous_index, 2);
    }

    #[test]
    fn exactly_the_later_change_sets_are_replayed() {
        let store = Memory::new();
        let limits = LogLimits { entries: 4, ..LogLimits::default() };
        // Every log with some of seven change sets.
        for some in 1_u64..1 << 7 {
            let indexes: Vec<u64> = (1..=7).filter(|index| some >> (index - 1) & 1 == 1).collect();
            let log = log(limits, store.live(), &indexes);
            let base = indexes.iter().rev().nth(limits.entries).copied().unwrap_or(0);
            let last = *indexes.last().unwrap();
            for position in 0..=8 {
                let later = indexes.iter().copied().filter(|index| *index > position);
                let is_known = (base..=last).contains(&position);
                let expected = is_known.then(|| later.collect());
                assert_eq!(replayed(&log, position), expected, "{indexes:?} from {position}");
            }
        }
    }

    #[test]
    fn the_log_is_bounded() {
        let store = Memory::new();
        let limits = LogLimits { entries: 5, ..LogLimits::default() };
        let indexes: Vec<u64> = (1..=10).collect();
        let log = log(limits, store.live(), &indexes);
        assert_eq!(replayed(&log, 4), None);
        assert_eq!(replayed(&log, 5), Some(vec![6, 7, 8, 9, 10]));
        assert_eq!(store.live().notes(SETS).unwrap().len(), 5);
    }

    #[test]
    fn no_more_is_kept_than_everything_takes() {
        let store = Memory::new();
        let mut log = Log::at(0, LogLimits::default());
        let large = |index| ChangeSet { timestamp_id: "t".repeat(SMALL / 4), ..set(index) };
        (1..=20).for_each(|index| log.push(large(index), SMALL * 2, store.live()));
        assert!((SMALL..=SMALL * 2).contains(&log.bytes), "{}", log.bytes);
        assert_eq!(replayed(&log, 5), None);
        assert_eq!(replayed(&log, 19), Some(vec![20]));
        log.push(large(21), 0, store.live());
        assert!(log.bytes <= SMALL);
    }

    #[test]
    fn a_log_is_loaded_in_its_timeline_alone() {
        let store = Memory::new();
        let (live, here) = (store.live(), Timeline("here".into()));
        let log = log(LogLimits::default(), live, &[3, 4, 9]);
        log.begin(&here, live).unwrap();
        log.note_position(Revision(12), live);
        let kept = Log::load(live, &here, LogLimits::default()).unwrap().unwrap();
        assert_eq!((kept.log.index(), kept.complete), (9, Revision(12)));
        assert_eq!(replayed(&kept.log, 3), Some(vec![4, 9]));
        let elsewhere = Timeline("elsewhere".into());
        assert!(Log::load(live, &elsewhere, LogLimits::default()).unwrap().is_none());
        let anew = kept.log.anew(9);
        anew.note_position(Revision(12), live);
        let kept = Log::load(live, &here, LogLimits::default()).unwrap().unwrap();
        assert!(matches!(kept.log.replay_claimed(9), Replay::Full));
        assert!(matches!(kept.log.replay(9), Replay::Nothing));
        live.put_note(SETS, &key(9), None);
        assert!(Log::load(live, &here, LogLimits::default()).unwrap().is_none());
    }
}
