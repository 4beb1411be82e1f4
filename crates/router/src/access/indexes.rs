//! What controllers have said of the changes that they know (docs/protocol/edge-control-plane.md 6.3,
//! docs/protocol/control-plane.md 30).
//!
//! A controller that is cut off from what the others share knows of no later change, and cannot find that out by itself.
//! Its routers can: they hear the revisions of all. They hand the highest one on to controllers that are behind, with the
//! seal by which these recognise it, and take their changes from a controller that has them.
//!
//! Pure: the caller passes the time and sends the messages.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weft_wire::edge_ctrl::data_model::{CurrentIndex, SealedRevision};

use crate::seam::ControllerId;

/// How long the controller of the subscription may be behind another one before the router subscribes there. Controllers
/// tell their revisions every 30 s, and the one that is told first is not behind for that.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What connected controllers have told.
#[derive(Debug, Default)]
pub(crate) struct Indexes {
    told: BTreeMap<ControllerId, Told>,
    /// What was told last with the highest revision that came with a seal.
    sealed: Option<CurrentIndex>,
}

#[derive(Debug)]
struct Told {
    known: u64,
    /// The time since which another connected controller has told more.
    behind_since: Option<Instant>,
}

impl Indexes {
    /// A controller has told its index. One that `seals` revisions knows as much as that; without a seal it is alone, or cut
    /// off from what is shared, and cannot say how much of it it knows. What another one knows is its index.
    pub(crate) fn hear(
        &mut self,
        controller: &ControllerId,
        told: CurrentIndex,
        seals: bool,
        now: Instant,
    ) {
        let revision = told.sealed.as_ref().map(|sealed| sealed.revision);
        let known = revision.unwrap_or(if seals { 0 } else { told.index });
        let behind_since = self.told.get(controller).and_then(|known| known.behind_since);
        self.told.insert(controller.clone(), Told { known, behind_since });
        if revision.is_some_and(|revision| revision > self.sealed_revision()) {
            self.sealed = Some(told);
        }
        self.compare(now);
    }

    fn sealed_revision(&self) -> u64 {
        let sealed: Option<&SealedRevision> =
            self.sealed.as_ref().and_then(|it| it.sealed.as_ref());
        sealed.map_or(0, |sealed| sealed.revision)
    }

    /// A controller has connected or disconnected.
    pub(crate) fn forget(&mut self, controller: &str, now: Instant) {
        self.told.remove(controller);
        self.compare(now);
    }

    /// The model has another timeline: its revisions cannot be compared with those of the former one.
    pub(crate) fn begin_anew(&mut self) {
        *self = Self::default();
    }

    fn compare(&mut self, now: Instant) {
        let highest = self.highest();
        for told in self.told.values_mut() {
            let is_behind = highest.is_some_and(|highest| told.known < highest);
            told.behind_since = is_behind.then(|| told.behind_since.unwrap_or(now));
        }
    }

    fn highest(&self) -> Option<u64> {
        self.told.values().map(|told| told.known).max()
    }

    /// Whether a controller has been behind another one for longer than [`PATIENCE`].
    pub(crate) fn is_behind(&self, controller: &str, now: Instant) -> bool {
        let since = self.told.get(controller).and_then(|told| told.behind_since);
        since.is_some_and(|since| now.saturating_duration_since(since) > PATIENCE)
    }

    /// A controller that knows most.
    pub(crate) fn most_advanced(&self) -> Option<&ControllerId> {
        let highest = self.highest()?;
        self.told.iter().find(|(_, told)| told.known == highest).map(|(id, _)| id)
    }

    /// The controllers that know less than the highest revision that came with a seal, and what was told with that.
    pub(crate) fn to_tell(&self) -> impl Iterator<Item = (&ControllerId, &CurrentIndex)> {
        let newest = self.sealed_revision();
        self.sealed.iter().flat_map(move |sealed| {
            let behind = self.told.iter().filter(move |(_, told)| told.known < newest);
            behind.map(move |(id, _)| (id, sealed))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(revision: u64, seal: &'static [u8]) -> CurrentIndex {
        let sealed = Some(SealedRevision { revision, seal: seal.into() });
        CurrentIndex { index: 5, sealed }
    }

    fn bare(index: u64) -> CurrentIndex {
        CurrentIndex { index, sealed: None }
    }

    fn told(indexes: &Indexes) -> Vec<(String, u64)> {
        let told = indexes.to_tell();
        told.map(|(id, told)| (id.to_string(), told.sealed.as_ref().unwrap().revision)).collect()
    }

    #[test]
    fn the_highest_sealed_revision_is_for_those_that_told_a_lower_one() {
        let (mut indexes, now) = (Indexes::default(), Instant::now());
        let [a, b, c]: [ControllerId; 3] = ["a".into(), "b".into(), "c".into()];
        indexes.hear(&a, sealed(7, b"a7"), true, now);
        assert_eq!(told(&indexes), []);
        indexes.hear(&b, sealed(9, b"b9"), true, now);
        indexes.hear(&c, bare(12), false, now);
        assert_eq!(told(&indexes), [("a".to_owned(), 9)], "what has no seal is not handed on");
        indexes.hear(&a, sealed(9, b"a9"), true, now);
        assert_eq!(told(&indexes), []);
        // The seal of a controller that has gone is as good as before.
        indexes.hear(&b, sealed(20, b"b20"), true, now);
        indexes.forget(&b, now);
        assert_eq!(told(&indexes), [("a".to_owned(), 20), ("c".to_owned(), 20)]);
        indexes.begin_anew();
        indexes.hear(&a, sealed(1, b"a1"), true, now);
        assert_eq!(told(&indexes), []);
    }

    #[test]
    fn a_controller_that_is_cut_off_is_behind_whatever_it_says() {
        let (mut indexes, now) = (Indexes::default(), Instant::now());
        let [a, b]: [ControllerId; 2] = ["a".into(), "b".into()];
        indexes.hear(&a, bare(1000), true, now);
        indexes.hear(&b, sealed(990, b"b990"), true, now);
        assert_eq!(told(&indexes), [("a".to_owned(), 990)]);
        assert!(indexes.is_behind(&a, now + PATIENCE * 2));
        assert_eq!(indexes.most_advanced(), Some(&b));
    }

    #[test]
    fn a_controller_is_behind_while_another_one_is_ahead_of_it() {
        let (mut indexes, now) = (Indexes::default(), Instant::now());
        let [a, b]: [ControllerId; 2] = ["a".into(), "b".into()];
        let later = now + PATIENCE + Duration::from_secs(1);
        // As controllers of the original tell it.
        let hear = |indexes: &mut Indexes, id, index, at| indexes.hear(id, bare(index), false, at);
        hear(&mut indexes, &a, 7, now);
        hear(&mut indexes, &b, 8, now);
        assert!(!indexes.is_behind(&a, now) && indexes.is_behind(&a, later));
        assert!(!indexes.is_behind(&b, later) && !indexes.is_behind("c", later));
        assert_eq!(indexes.most_advanced(), Some(&b));
        // It is as long behind if it follows, but not to the end.
        hear(&mut indexes, &b, 10, now + PATIENCE);
        hear(&mut indexes, &a, 9, now + PATIENCE);
        assert!(indexes.is_behind(&a, later));
        hear(&mut indexes, &a, 10, later);
        assert!(!indexes.is_behind(&a, later + PATIENCE + PATIENCE));
        hear(&mut indexes, &b, 11, later);
        indexes.forget(&b, later);
        assert!(!indexes.is_behind(&a, later + PATIENCE + PATIENCE), "nobody is ahead any more");
        assert_eq!(Indexes::default().most_advanced(), None);
    }
}
