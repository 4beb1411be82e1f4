//! A queue in which owners come in turn, with a limit on its length.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

/// Values that wait, of several owners. Owners have their turns one after the other, however many values each of them
/// has; the values of one owner come out in the order in which they came. Where the queue is full, a new value takes
/// the place of the newest one of the owner that has most.
#[derive(Debug)]
pub struct FairQueue<K, V> {
    most: usize,
    len: usize,
    next: u64,
    /// No owner without values.
    owners: HashMap<K, Own<V>>,
    /// The owners in the order of their next turns.
    turns: BTreeMap<u64, K>,
    /// The owners by the number of their values.
    by_len: BTreeSet<(usize, K)>,
}

#[derive(Debug)]
struct Own<V> {
    values: BTreeMap<u64, V>,
    /// The number of the owner's next turn.
    turn: u64,
}

/// The effect of [`FairQueue::push`].
#[derive(Debug, PartialEq, Eq)]
pub struct Pushed<V> {
    /// The number by which the value can be removed.
    pub number: u64,
    /// The value whose place it took.
    pub displaced: Option<V>,
}

impl<K: Hash + Ord + Clone, V> FairQueue<K, V> {
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

    /// Adds a value. `None` if the queue is full and no owner has two values more than this one, so that nothing would
    /// be gained.
    pub fn push(&mut self, owner: K, value: V) -> Option<Pushed<V>> {
        let displaced = if self.len < self.most { None } else { Some(self.displace(&owner)?) };
        let number = self.next;
        self.next += 1;
        let own = self.owners.entry(owner.clone()).or_insert_with(|| {
            self.turns.insert(number, owner.clone());
            Own { values: BTreeMap::new(), turn: number }
        });
        self.by_len.remove(&(own.values.len(), owner.clone()));
        own.values.insert(number, value);
        self.by_len.insert((own.values.len(), owner));
        self.len += 1;
        Some(Pushed { number, displaced })
    }

    /// Takes out the first value of the owner whose turn is next.
    pub fn pop(&mut self) -> Option<(K, V)> {
        let owner = self.turns.first_key_value()?.1.clone();
        let first = *self.owners.get(&owner)?.values.first_key_value()?.0;
        let value = self.remove(&owner, first)?;
        if let Some(own) = self.owners.get_mut(&owner) {
            self.turns.remove(&own.turn);
            own.turn = self.next;
            self.turns.insert(own.turn, owner.clone());
            self.next += 1;
        }
        Some((owner, value))
    }

    /// Takes out a value of an owner.
    pub fn remove(&mut self, owner: &K, number: u64) -> Option<V> {
        let own = self.owners.get_mut(owner)?;
        let before = own.values.len();
        let value = own.values.remove(&number)?;
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

    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes out the newest value of the owner that has most.
    fn displace(&mut self, by: &K) -> Option<V> {
        let own = self.owners.get(by).map_or(0, |own| own.values.len());
        let (_, greatest) = self.by_len.last().filter(|(len, _)| *len >= own + 2)?.clone();
        let newest = *self.owners.get(&greatest)?.values.last_key_value()?.0;
        self.remove(&greatest, newest)
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
        let again = queue.push('d', 7).unwrap().number;
        assert_eq!(queue.remove(&'d', again), Some(7));
        assert_eq!(queue.remove(&'d', again), None);
        queue.push('d', 8).unwrap();
        let rest = [('b', 4), ('c', 5), ('a', 2), ('d', 8), ('b', 6), ('a', 3)];
        assert_eq!(order(&mut queue), rest);
        assert!(queue.is_empty() && queue.owners.is_empty());
        assert!(queue.turns.is_empty() && queue.by_len.is_empty());
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
