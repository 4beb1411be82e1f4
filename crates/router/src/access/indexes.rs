//! What controllers have said of the indexes of their data models (docs/protocol/edge-control-plane.md 6.3,
//! docs/protocol/control-plane.md 30).
//!
//! A controller that is cut off from what the others share knows of no later change, and cannot find that out by itself.
//! Its routers can: they hear the indexes of all. They hand the highest one on to controllers that are behind, with the
//! seal by which these recognise it, and take their changes from a controller that has them.
//!
//! Pure: the caller passes the time and sends the messages.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weft_wire::edge_ctrl::data_model::CurrentIndex;

use crate::seam::ControllerId;

/// How long the controller of the subscription may be behind another one before the router subscribes there. Controllers
/// tell their indexes every 30 s, and the one that is told first is not behind for that.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The indexes that connected controllers have told.
#[derive(Debug, Default)]
pub(crate) struct Indexes {
    told: BTreeMap<ControllerId, Told>,
    /// The highest index that came with a seal.
    sealed: Option<CurrentIndex>,
}

#[derive(Debug)]
struct Told {
    index: u64,
    /// The time since which another connected controller has told a higher index.
    behind_since: Option<Instant>,
}

impl Indexes {
    /// A controller has told its index.
    pub(crate) fn hear(&mut self, controller: &ControllerId, told: CurrentIndex, now: Instant) {
        let behind_since = self.told.get(controller).and_then(|known| known.behind_since);
        self.told.insert(controller.clone(), Told { index: told.index, behind_since });
        let is_news = self.sealed.as_ref().is_none_or(|known| told.index > known.index);
        if is_news && !told.seal.is_empty() {
            self.sealed = Some(told);
        }
        self.compare(now);
    }

    /// A controller has connected or disconnected.
    pub(crate) fn forget(&mut self, controller: &str, now: Instant) {
        self.told.remove(controller);
        self.compare(now);
    }

    /// The model has another timeline: its indexes cannot be compared with those of the former one.
    pub(crate) fn begin_anew(&mut self) {
        *self = Self::default();
    }

    fn compare(&mut self, now: Instant) {
        let highest = self.highest();
        for told in self.told.values_mut() {
            let is_behind = highest.is_some_and(|highest| told.index < highest);
            told.behind_since = is_behind.then(|| told.behind_since.unwrap_or(now));
        }
    }

    fn highest(&self) -> Option<u64> {
        self.told.values().map(|told| told.index).max()
    }

    /// Whether a controller has been behind another one for longer than [`PATIENCE`].
    pub(crate) fn is_behind(&self, controller: &str, now: Instant) -> bool {
        let since = self.told.get(controller).and_then(|told| told.behind_since);
        since.is_some_and(|since| now.saturating_duration_since(since) > PATIENCE)
    }

    /// A controller that has told the highest index.
    pub(crate) fn most_advanced(&self) -> Option<&ControllerId> {
        let highest = self.highest()?;
        self.told.iter().find(|(_, told)| told.index == highest).map(|(id, _)| id)
    }

    /// The controllers that know less than the highest index that came with a seal, and that index.
    pub(crate) fn to_tell(&self) -> impl Iterator<Item = (&ControllerId, &CurrentIndex)> {
        let sealed = self.sealed.iter();
        sealed.flat_map(|sealed| {
            let behind = self.told.iter().filter(|(_, told)| told.index < sealed.index);
            behind.map(move |(id, _)| (id, sealed))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(index: u64, seal: &'static [u8]) -> CurrentIndex {
        CurrentIndex { index, seal: seal.into() }
    }

    fn told(indexes: &Indexes) -> Vec<(String, u64)> {
        indexes.to_tell().map(|(id, told)| (id.to_string(), told.index)).collect()
    }

    #[test]
    fn the_highest_sealed_index_is_for_those_that_told_a_lower_one() {
        let (mut indexes, now) = (Indexes::default(), Instant::now());
        let [a, b, c]: [ControllerId; 3] = ["a".into(), "b".into(), "c".into()];
        indexes.hear(&a, index(7, b"a7"), now);
        assert_eq!(told(&indexes), []);
        indexes.hear(&b, index(9, b"b9"), now);
        indexes.hear(&c, index(12, b""), now);
        assert_eq!(told(&indexes), [("a".to_owned(), 9)], "what has no seal is not handed on");
        indexes.hear(&a, index(9, b"a9"), now);
        assert_eq!(told(&indexes), []);
        // The seal of a controller that has gone is as good as before.
        indexes.hear(&b, index(20, b"b20"), now);
        indexes.forget(&b, now);
        assert_eq!(told(&indexes), [("a".to_owned(), 20), ("c".to_owned(), 20)]);
        indexes.begin_anew();
        indexes.hear(&a, index(1, b"a1"), now);
        assert_eq!(told(&indexes), []);
    }

    #[test]
    fn a_controller_is_behind_while_another_one_is_ahead_of_it() {
        let (mut indexes, now) = (Indexes::default(), Instant::now());
        let [a, b]: [ControllerId; 2] = ["a".into(), "b".into()];
        let later = now + PATIENCE + Duration::from_secs(1);
        indexes.hear(&a, index(7, b""), now);
        indexes.hear(&b, index(8, b""), now);
        assert!(!indexes.is_behind(&a, now) && indexes.is_behind(&a, later));
        assert!(!indexes.is_behind(&b, later) && !indexes.is_behind("c", later));
        assert_eq!(indexes.most_advanced(), Some(&b));
        // It is as long behind if it follows, but not to the end.
        indexes.hear(&b, index(10, b""), now + PATIENCE);
        indexes.hear(&a, index(9, b""), now + PATIENCE);
        assert!(indexes.is_behind(&a, later));
        indexes.hear(&a, index(10, b""), later);
        assert!(!indexes.is_behind(&a, later + PATIENCE + PATIENCE));
        indexes.hear(&b, index(11, b""), later);
        indexes.forget(&b, later);
        assert!(!indexes.is_behind(&a, later + PATIENCE + PATIENCE), "nobody is ahead any more");
        assert_eq!(Indexes::default().most_advanced(), None);
    }
}
