//! The last changes that routers were told of, so that one that comes back, also after a restart of
//! the controller, is sent what it lacks instead of everything
//! (docs/protocol/edge-control-plane.md 5, 6).
//!
//! Kept in memory, encoded once, and beside it as notes of the store, which are written behind.
//! What a kill takes of them is noticed: a note says up to which revision they are complete, and
//! the change sets after it are looked through.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use weft_model::{Revision, Timeline};
use weft_store::{Live, ReadError, Space};
use weft_wire::edge_ctrl::data_model::ChangeSet;
use weft_wire::{Message, ProtoBody};

/// Change sets by index.
const SETS: Space = Space(16);
/// What is known of them.
const ABOUT: Space = Space(17);
/// Note: the timeline they belong to.
const TIMELINE: &str = "timeline";
/// Note: index of the last one, the revision up to which none is missing, and up to which index
/// nobody is believed.
const POSITION: &str = "position";

/// So many bytes are kept however small the model is.
const SMALL: usize = 4 * 1024 * 1024;

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// Change sets.
    pub entries: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { entries: 10_000, bytes: 64 * 1024 * 1024 }
    }
}

/// One change set, ready to be sent. Only its bytes are kept: decoded it takes many times as much.
#[derive(Debug)]
pub struct Entry {
    index: u64,
    previous_index: u64,
    body: Bytes,
}

impl Entry {
    fn new(set: &ChangeSet) -> Self {
        Self { index: set.index, previous_index: set.previous_index, body: set.to_body() }
    }

    /// Its index.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// The message for a router that has everything up to `position`. One that comes from between
    /// two indexes lacks nothing, but must not see a gap.
    pub(crate) fn message_after(&self, position: u64) -> Message {
        let same = || Message::new(ChangeSet::CONTENT_TYPE, self.body.clone());
        if self.previous_index == position {
            return same();
        }
        match ChangeSet::from_body(&self.body) {
            Ok(set) => ChangeSet { previous_index: position, ..set }.to_message(),
            // What was encoded here can be read here.
            Err(_) => same(),
        }
    }
}

/// What a router is to be sent.
#[derive(Debug)]
pub enum Replay {
    /// Nothing: it has everything.
    Nothing,
    /// These, in order.
    Entries(Vec<Arc<Entry>>),
    /// Everything.
    Full,
}

/// The log.
#[derive(Debug)]
pub struct Log {
    limits: LogLimits,
    entries: VecDeque<Arc<Entry>>,
    bytes: usize,
    /// Index of the last change set.
    index: u64,
    /// With this index or a later one nothing is missing.
    base: u64,
    /// A router that says that it is no further than this has what was wrong.
    disbelieved: u64,
}

/// What was kept of an earlier run.
#[derive(Debug)]
pub struct Kept {
    /// The log.
    pub log: Log,
    /// The log is complete up to this revision.
    pub complete: Revision,
}

impl Log {
    /// A log without history.
    pub fn at(index: u64, limits: LogLimits) -> Self {
        let entries = VecDeque::new();
        Self { limits, entries, bytes: 0, index, base: index, disbelieved: 0 }
    }

    /// The log of a model that is taken anew, with the limits of this one: whatever routers were
    /// sent until now may be wrong, also at the same index.
    pub fn anew(&self, index: u64) -> Self {
        Self { disbelieved: index, ..Self::at(index, self.limits) }
    }

    /// What an earlier run kept, if it is of this timeline.
    pub fn load(
        live: &dyn Live,
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
            log.append(Entry { index: set.index, previous_index: set.previous_index, body: note });
        }
        // The notes reach the disk in order, but the last ones may not have.
        let complete = match log.index == index {
            true => complete,
            false if log.index < index => return Ok(None),
            false => complete.max(log.index),
        };
        log.disbelieved = disbelieved;
        Ok(Some(Kept { log, complete: Revision(complete) }))
    }

    fn append(&mut self, entry: Entry) {
        self.index = entry.index;
        self.bytes += entry.body.len();
        self.entries.push_back(Arc::new(entry));
    }

    /// Index of the last change set.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Adds a change set, in memory and in the notes; old ones make room, also when all of them are
    /// more than `full`: a router that lacks so much is sent everything.
    pub fn push(&mut self, mut set: ChangeSet, full: usize, live: &dyn Live) {
        set.previous_index = self.index;
        let entry = Entry::new(&set);
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

    /// Notes that nothing is missing up to a revision.
    pub(crate) fn note_position(&self, complete: Revision, live: &dyn Live) {
        let position = format!("{} {complete} {}", self.index, self.disbelieved);
        live.put_note(ABOUT, POSITION, Some(position.into()));
    }

    /// Notes the timeline, and forgets what is of another.
    pub fn begin(&self, timeline: &Timeline, live: &dyn Live) -> Result<(), ReadError> {
        for (key, _) in live.notes(SETS)? {
            let index: u64 = key.parse().unwrap_or(0);
            if self.entries.binary_search_by_key(&index, |entry| entry.index).is_err() {
                live.put_note(SETS, &key, None);
            }
        }
        live.put_note(ABOUT, TIMELINE, Some(Bytes::copy_from_slice(timeline.0.as_bytes())));
        Ok(())
    }

    /// Bytes of the change sets after a position; none if not all of them are kept.
    pub(crate) fn bytes_after(&self, position: u64) -> Option<usize> {
        let newer = self.entries.iter().rev().take_while(|entry| entry.index > position);
        (position >= self.base).then(|| newer.map(|entry| entry.body.len()).sum())
    }

    /// What a router lacks that says that it has everything up to `position`.
    pub(crate) fn replay_claimed(&self, position: u64) -> Replay {
        if position <= self.disbelieved { Replay::Full } else { self.replay(position) }
    }

    /// What a router lacks that has everything up to `position`.
    pub(crate) fn replay(&self, position: u64) -> Replay {
        if position == self.index {
            return Replay::Nothing;
        }
        if position > self.index || position < self.base {
            return Replay::Full;
        }
        let missing = self.entries.iter().skip_while(|entry| entry.index() <= position);
        Replay::Entries(missing.cloned().collect())
    }
}

/// Keys sort as their indexes do.
fn key(index: u64) -> String {
    format!("{index:020}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_store::{Memory, Store};

    fn set(index: u64) -> ChangeSet {
        ChangeSet { index, ..ChangeSet::default() }
    }

    fn log(limits: LogLimits, live: &dyn Live, indexes: &[u64]) -> Log {
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
        // docs/protocol/edge-control-plane.md 21, with everything after the position.
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
