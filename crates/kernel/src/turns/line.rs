//! Requests that wait, and the fair order of their turns.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use tokio::sync::oneshot;

/// Waiting requests. Callers have turns one after the other, however much each of them asks for; the parts of a
/// caller (the identities at an address) have the turns of the caller one after the other in the same way.
#[derive(Debug)]
pub struct Line<K, T> {
    /// Callers without a waiting request are not in the map.
    waiting: HashMap<K, Waiting<T>>,
    /// The waiting callers, in the order of their next turns.
    order: VecDeque<K>,
}

/// The waiting requests of a caller, in the order of their turns.
#[derive(Debug)]
struct Waiting<T> {
    requests: VecDeque<Request<T>>,
    /// The round of the request that had its turn last.
    round: u64,
}

#[derive(Debug)]
struct Request<T> {
    part: String,
    /// Each part has one request in a round.
    round: u64,
    told: oneshot::Sender<T>,
}

impl<K, T> Default for Line<K, T> {
    fn default() -> Self {
        Self { waiting: HashMap::new(), order: VecDeque::new() }
    }
}

impl<K: Clone + Eq + Hash, T> Line<K, T> {
    /// Puts a request of a part of a caller into the line; none if `most` requests of the caller wait already. The
    /// receiver is told when the request has its turn.
    pub fn join(&mut self, whose: &K, part: &str, most: usize) -> Option<oneshot::Receiver<T>> {
        let known = self.waiting.get_mut(whose);
        if let Some(own) = known {
            // Requests that were given up hold no place.
            own.requests.retain(|request| !request.told.is_closed());
            if own.requests.len() >= most {
                return None;
            }
        } else {
            self.order.push_back(whose.clone());
        }
        let own = self.waiting.entry(whose.clone());
        let own = own.or_insert_with(|| Waiting { requests: VecDeque::new(), round: 0 });
        let (told, turn) = oneshot::channel();
        let last = own.requests.iter().rev().find(|request| request.part == part);
        let round = last.map_or(own.round, |last| last.round) + 1;
        let place = own.requests.partition_point(|request| request.round <= round);
        own.requests.insert(place, Request { part: part.to_owned(), round, told });
        Some(turn)
    }

    /// Takes out the request whose turn is next among the callers who may have one, with its caller.
    pub fn next(&mut self, may: impl Fn(&K) -> bool) -> Option<(K, oneshot::Sender<T>)> {
        loop {
            let place = self.order.iter().position(&may)?;
            let whose = self.order.remove(place)?;
            let Some(own) = self.waiting.get_mut(&whose) else { continue };
            // Requests that were given up are skipped.
            while own.requests.pop_front_if(|request| request.told.is_closed()).is_some() {}
            let next = own.requests.pop_front();
            if let Some(next) = &next {
                own.round = next.round;
            }
            if own.requests.is_empty() {
                self.waiting.remove(&whose);
            } else {
                self.order.push_back(whose.clone());
            }
            if let Some(next) = next {
                return Some((whose, next.told));
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which requests have their turns.
    fn order(asked: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
        let mut line: Line<&str, ()> = Line::default();
        let mut turns: Vec<_> = asked
            .iter()
            .map(|(whose, part)| (*whose, *part, line.join(whose, part, usize::MAX).unwrap()))
            .collect();
        let mut order = Vec::new();
        while let Some((_, told)) = line.next(|_| true) {
            told.send(()).unwrap();
            let next = turns.iter_mut().position(|(.., turn)| turn.try_recv().is_ok()).unwrap();
            let (whose, part, _) = turns.remove(next);
            order.push((whose, part));
        }
        assert!(line.is_empty());
        order
    }

    #[test]
    fn callers_come_in_turn_and_the_parts_of_each() {
        let [greedy, second, modest] = [("a", "1"), ("a", "2"), ("b", "1")];
        let asked = [greedy, greedy, greedy, second, second, modest, greedy, modest];
        let turns = [greedy, modest, second, modest, greedy, second, greedy, greedy];
        assert_eq!(order(&asked), turns);
    }

    #[test]
    fn whoever_comes_later_has_the_next_round_and_not_all_missed_ones() {
        let mut line: Line<&str, u8> = Line::default();
        let join = |line: &mut Line<_, _>, part| line.join(&"a", part, 9).unwrap();
        let mut first = [(); 4].map(|()| join(&mut line, "old"));
        for turn in &mut first[..2] {
            line.next(|_| true).unwrap().1.send(0).unwrap();
            turn.try_recv().unwrap();
        }
        let mut later = [(); 3].map(|()| join(&mut line, "new"));
        let mut next = |turn: &mut oneshot::Receiver<u8>| {
            line.next(|_| true).unwrap().1.send(0).unwrap();
            turn.try_recv().unwrap();
        };
        next(&mut first[2]);
        next(&mut later[0]);
        next(&mut first[3]);
        next(&mut later[1]);
        next(&mut later[2]);
    }

    #[test]
    fn nobody_waits_beyond_the_limit_or_is_passed_without_need() {
        let mut line: Line<&str, ()> = Line::default();
        let own = [(); 2].map(|()| line.join(&"a", "", 2).unwrap());
        assert!(line.join(&"a", "", 2).is_none());
        let _other = line.join(&"b", "", 2).unwrap();
        drop(own);
        // Requests that were given up hold no place and have no turn.
        let _again = line.join(&"a", "", 2).unwrap();
        assert_eq!(line.next(|whose| *whose == "b").unwrap().0, "b");
        assert_eq!(line.next(|_| true).unwrap().0, "a");
        assert!(line.next(|_| true).is_none() && line.is_empty());
    }
}
