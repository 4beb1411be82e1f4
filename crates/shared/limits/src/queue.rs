//! A queue in which owners come in turn, with a limit on its length.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

/// Values that wait, of several owners. Owners have their turns one after the other, however many values each of them
/// has; the values of one owner come out in the order in which they came. Owners may have parts (the identities at an
/// address): these have the turns of their owner one after the other in the same way. Where the queue is full, a new
/// value takes the place of the last one of the owner that has most.
#[derive(Debug)]
pub struct FairQueue<K, V, P = ()> {
    most: usize,
    len: usize,
    next: u64,
    /// No owner without values.
    owners: HashMap<K, Own<V, P>>,
    /// The owners in the order of their next turns.
    turns: BTreeMap<u64, K>,
    /// The owners by the number of their values.
    by_len: BTreeSet<(usize, K)>,
}

#[derive(Debug)]
struct Own<V, P> {
    values: BTreeMap<QueuePosition, (P, V)>,
    /// The number of the owner's next turn.
    turn: u64,
    /// The round of the value that came out last.
    round: u64,
}

/// The position of a value among those of its owner. Each part of the owner has one value in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueuePosition {
    round: u64,
    number: u64,
}

/// The effect of [`FairQueue::push`].
#[derive(Debug, PartialEq, Eq)]
pub struct QueuePush<V> {
    /// The position by which the value can be removed.
    pub position: QueuePosition,
    /// The value whose place it took.
    pub displaced: Option<V>,
}

impl<K: Hash + Ord + Clone, V, P: PartialEq> FairQueue<K, V, P> {
    /// An empty queue for so many values.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            most,
            len: 0,
            next: 0,
            owners: HashMap::new(),
            turns: BTreeMap::new(),
            by_len: BTreeSet::new(),
        }
    }

    /// Adds a value of a part of an owner. `None` if the queue is full and no owner has two values more than this one,
    /// so that nothing would be gained.
    pub fn push_part(&mut self, owner: K, part: P, value: V) -> Option<QueuePush<V>> {
        let displaced = if self.len < self.most { None } else { Some(self.displace(&owner)?) };
        let number = self.next;
        self.next += 1;
        let own = self.owners.entry(owner.clone()).or_insert_with(|| {
            self.turns.insert(number, owner.clone());
            Own { values: BTreeMap::new(), turn: number, round: 0 }
        });
        let mut last = own.values.iter().rev();
        let round = last.find(|(_, (other, _))| *other == part).map_or(own.round, |it| it.0.round);
        let position = QueuePosition { round: round + 1, number };
        self.by_len.remove(&(own.values.len(), owner.clone()));
        own.values.insert(position, (part, value));
        self.by_len.insert((own.values.len(), owner));
        self.len += 1;
        Some(QueuePush { position, displaced })
    }

    /// Takes out the first value of the owner whose turn is next.
    pub fn pop(&mut self) -> Option<(K, V)> {
        self.pop_where(|_| true)
    }

    /// Takes out the first value of the owner whose turn is next among those that may have one.
    pub fn pop_where(&mut self, may: impl Fn(&K) -> bool) -> Option<(K, V)> {
        let owner = self.turns.values().find(|owner| may(owner))?.clone();
        let value = self.pop_of(&owner)?;
        Some((owner, value))
    }

    /// Takes out the first value of an owner, which then has had its turn.
    pub fn pop_of(&mut self, owner: &K) -> Option<V> {
        let first = *self.owners.get(owner)?.values.first_key_value()?.0;
        let value = self.remove(owner, first)?;
        if let Some(own) = self.owners.get_mut(owner) {
            self.turns.remove(&own.turn);
            own.turn = self.next;
            own.round = first.round;
            self.turns.insert(own.turn, owner.clone());
            self.next += 1;
        }
        Some(value)
    }

    /// Takes out a value of an owner.
    pub fn remove(&mut self, owner: &K, position: QueuePosition) -> Option<V> {
        let own = self.owners.get_mut(owner)?;
        let before = own.values.len();
        let (_, value) = own.values.remove(&position)?;
        self.len -= 1;
        self.by_len.remove(&(before, owner.clone()));
        if before > 1 {
            self.by_len.insert((before - 1, owner.clone()));
        } else if let Some(own) = self.owners.remove(owner) {
            self.turns.remove(&own.turn);
        }
        Some(value)
    }

    /// The number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The number of values of an owner.
    #[must_use]
    pub fn len_of(&self, owner: &K) -> usize {
        self.owners.get(owner).map_or(0, |own| own.values.len())
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        *self = Self::new(self.most);
    }

    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes out the last value of the owner that has most.
    fn displace(&mut self, by: &K) -> Option<V> {
        let own = self.len_of(by);
        let (_, greatest) = self.by_len.last().filter(|(len, _)| *len >= own + 2)?.clone();
        let last = *self.owners.get(&greatest)?.values.last_key_value()?.0;
        self.remove(&greatest, last)
    }
}

impl<K: Hash + Ord + Clone, V> FairQueue<K, V> {
    /// Adds a value of an owner without parts. `None` if the queue is full and no owner has two values more than this
    /// one.
    pub fn push(&mut self, owner: K, value: V) -> Option<QueuePush<V>> {
        self.push_part(owner, (), value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(queue: &mut FairQueue<char, u32>) -> Vec<(char, u32)> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn owners_come_in_turn() {
        let mut queue = FairQueue::new(9);
        for (owner, value) in [('a', 1), ('a', 2), ('a', 3), ('b', 4), ('c', 5), ('b', 6)] {
            queue.push(owner, value).unwrap();
        }
        assert_eq!(queue.pop(), Some(('a', 1)));
        // Whoever leaves and comes back has no second turn in a round.
        let again = queue.push('d', 7).unwrap().position;
        assert_eq!(queue.remove(&'d', again), Some(7));
        assert_eq!(queue.remove(&'d', again), None);
        queue.push('d', 8).unwrap();
        let rest = [('b', 4), ('c', 5), ('a', 2), ('d', 8), ('b', 6), ('a', 3)];
        assert_eq!(order(&mut queue), rest);
        assert!(queue.is_empty() && queue.owners.is_empty());
        assert!(queue.turns.is_empty() && queue.by_len.is_empty());
    }

    #[test]
    fn the_parts_of_an_owner_come_in_turn() {
        let mut queue = FairQueue::new(usize::MAX);
        let (greedy, second, modest) = (('a', 1), ('a', 2), ('b', 1));
        for (owner, part) in [greedy, greedy, greedy, second, second, modest, greedy, modest] {
            queue.push_part(owner, part, part);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [greedy, modest, second, modest, greedy, second, greedy, greedy]);
    }

    #[test]
    fn a_part_that_comes_later_has_the_next_round_and_not_all_missed_ones() {
        let mut queue = FairQueue::new(usize::MAX);
        let push = |queue: &mut FairQueue<_, _, _>, part: &'static str, count: usize| {
            for _ in 0..count {
                queue.push_part('a', part, part);
            }
        };
        push(&mut queue, "old", 4);
        let mut order = vec![queue.pop(), queue.pop()];
        push(&mut queue, "new", 3);
        order.extend((0..5).map(|_| queue.pop()));
        let order: Vec<_> = order.into_iter().map(|it| it.unwrap().1).collect();
        assert_eq!(order, ["old", "old", "old", "new", "old", "new", "new"]);
    }

    #[test]
    fn owners_that_may_not_have_a_value_are_passed() {
        let mut queue = FairQueue::new(9);
        for (owner, value) in [('a', 1), ('b', 2), ('a', 3)] {
            queue.push(owner, value).unwrap();
        }
        assert_eq!(queue.pop_where(|owner| *owner == 'b'), Some(('b', 2)));
        assert_eq!(queue.pop_where(|owner| *owner == 'b'), None);
        assert_eq!(
            (queue.pop_of(&'a'), queue.pop_of(&'b'), queue.len_of(&'a')),
            (Some(1), None, 1)
        );
        queue.clear();
        assert!(queue.is_empty() && queue.pop().is_none());
    }

    #[test]
    fn where_it_is_full_whoever_has_most_gives_way() {
        let mut queue = FairQueue::new(6);
        for value in 0..6 {
            assert_eq!(queue.push('a', value).unwrap().displaced, None);
        }
        assert!(queue.push('a', 6).is_none(), "nobody has more");
        let displaced: Vec<_> =
            (10..20).map_while(|value| queue.push('b', value)?.displaced).collect();
        assert_eq!(displaced, [5, 4, 3], "half of the places");
        assert_eq!(queue.push('c', 20).unwrap().displaced, Some(12));
        assert_eq!(queue.len(), 6);
        assert_eq!(order(&mut queue).len(), 6);
    }
}
