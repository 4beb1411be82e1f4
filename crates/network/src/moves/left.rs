//! Routers that a circuit has left, and circuits whose end a router has reported.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weft_model::Id;

use crate::circuits::Circuit;

/// Most ended circuits that are remembered.
const MOST: usize = 65_536;
/// How long an ended circuit is remembered.
const KEPT: Duration = Duration::from_secs(10);

/// Routers that a circuit has left, and when.
#[derive(Debug)]
pub(crate) struct Left {
    pub(super) at: Instant,
    pub(super) circuit: Arc<str>,
    pub(super) routers: Vec<Id>,
    /// The router that is gone, if that is the reason: the others are told nothing if it is back by then.
    pub(super) for_loss_of: Option<Id>,
}

/// Circuits that have ended lately because a router at one of their ends said so, the oldest first. The routers at
/// the other ends keep such a circuit for payloads on their way. Once the first router is gone, nothing more comes.
#[derive(Debug, Default)]
pub(crate) struct Ended(Mutex<VecDeque<(Id, Left)>>);

impl Ended {
    /// Notes a circuit whose end a router has reported.
    pub(crate) fn note(&self, circuit: &Circuit, by: &Id, now: Instant) {
        let routers: Vec<Id> =
            circuit.path.nodes.iter().filter(|node| *node != by).cloned().collect();
        let mut ended = self.0.lock();
        let is_old = |(_, left): &(Id, Left)| now.saturating_duration_since(left.at) >= KEPT;
        while ended.front().is_some_and(is_old) || ended.len() >= MOST {
            ended.pop_front();
        }
        if !routers.is_empty() {
            let (circuit, for_loss_of) = (circuit.id.as_str().into(), Some(by.clone()));
            ended.push_back((by.clone(), Left { at: now, circuit, routers, for_loss_of }));
        }
    }

    /// Takes the circuits whose end a router had reported before it went.
    pub(super) fn take_of(&self, router: &Id, now: Instant) -> Vec<Left> {
        let mut ended = self.0.lock();
        let (of_it, others): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut *ended).into_iter().partition(|(by, _)| by == router);
        *ended = others;
        let is_young = |left: &Left| now.saturating_duration_since(left.at) < KEPT;
        let left = of_it.into_iter().map(|(_, left)| left).filter(is_young);
        left.map(|left| Left { at: now, ..left }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circuits::sample;

    #[test]
    fn ended_circuits_are_found_by_the_router_that_reported_them_for_a_while() {
        let (ended, now) = (Ended::default(), Instant::now());
        let [a, b] = ["a", "b"].map(Id::new);
        ended.note(&sample("old", &["a", "b"], &["l"]), &b, now);
        let later = now + KEPT;
        ended.note(&sample("c1", &["a", "x", "b"], &["l", "m"]), &b, later);
        ended.note(&sample("c2", &["a", "b"], &["l"]), &a, later);
        ended.note(&sample("alone", &["b"], &[]), &b, later);
        assert_eq!(ended.0.lock().len(), 2);
        let taken = ended.take_of(&b, later);
        let told: Vec<_> = taken.iter().map(|left| (&*left.circuit, left.routers.len())).collect();
        assert_eq!(told, [("c1", 2)]);
        assert!(ended.take_of(&b, later).is_empty());
        assert!(ended.take_of(&a, later + KEPT).is_empty(), "its time is over");
        (0..MOST + 10).for_each(|_| ended.note(&sample("c", &["a", "b"], &["l"]), &a, later));
        assert_eq!(ended.0.lock().len(), MOST);
    }
}
