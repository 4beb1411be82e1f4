//! The changes between versions of the graph, kept for a while so that trees can be updated.

use std::collections::VecDeque;

/// Changed pairs that are kept for trees of earlier versions; they take 2 MiB.
const MAX_KEPT: usize = 262_144;

/// The changes of a version, as pairs of neighbours.
#[derive(Debug)]
struct Step {
    version: u64,
    changed: Vec<(u32, u32)>,
}

/// The changes from version to version.
#[derive(Debug, Default)]
pub(super) struct History {
    steps: VecDeque<Step>,
    kept: usize,
}

impl History {
    pub(super) fn add(&mut self, version: u64, changed: Vec<(u32, u32)>) {
        self.kept += changed.len();
        self.steps.push_back(Step { version, changed });
        while self.kept > MAX_KEPT || self.steps.len() > MAX_KEPT {
            let Some(oldest) = self.steps.pop_front() else { return };
            self.kept -= oldest.changed.len();
        }
    }

    /// The changes since a version; none if some of them are not kept, or if there are more than
    /// `most`.
    pub(super) fn since(&self, version: u64, most: usize) -> Option<Vec<(u32, u32)>> {
        let first = self.steps.front()?.version;
        let skipped = usize::try_from((version + 1).checked_sub(first)?).ok()?;
        let steps = self.steps.iter().skip(skipped);
        let mut counted = 0;
        let is_beyond = |step: &Step| {
            counted += step.changed.len();
            counted > most
        };
        if steps.clone().any(is_beyond) {
            return None;
        }
        let mut changed: Vec<_> = steps.flat_map(|step| step.changed.iter().copied()).collect();
        changed.sort_unstable();
        changed.dedup();
        Some(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_that_is_not_kept_is_not_claimed() {
        let mut history = History::default();
        assert_eq!(history.since(3, MAX_KEPT), None);
        history.add(4, vec![(1, 2)]);
        history.add(5, vec![(3, 4), (1, 2)]);
        assert_eq!(history.since(2, MAX_KEPT), None);
        assert_eq!(history.since(3, MAX_KEPT), Some(vec![(1, 2), (3, 4)]));
        assert_eq!(history.since(4, MAX_KEPT), Some(vec![(1, 2), (3, 4)]));
        assert_eq!((history.since(3, 2), history.since(4, 2).is_some()), (None, true));
        assert_eq!(history.since(5, MAX_KEPT), Some(vec![]));
        history.add(6, vec![(0, 0); MAX_KEPT]);
        assert_eq!((history.since(4, MAX_KEPT), history.kept), (None, MAX_KEPT));
    }
}
