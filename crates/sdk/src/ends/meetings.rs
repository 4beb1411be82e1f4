//! What this program remembers of ends that have proved themselves to it: by that, they do so briefly the next time.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use tokio::time::Instant;
use weft_e2e::ending::Hint;
use weft_e2e::proof::Memory;

use crate::peer::Peer;

/// Most ends that are remembered in either role; the oldest ones give way.
const MOST: usize = 4096;

/// Ends that are remembered: hosts by the own session and their hint, dialers by their session.
#[derive(Debug, Default)]
pub(super) struct Meetings {
    hosts: Table<(String, Hint)>,
    dialers: Table<String>,
    /// The session of each dialer, by the name of the memory.
    names: HashMap<[u8; 16], String>,
}

impl Meetings {
    pub(super) fn host(&self, session: &str, hint: Hint, now: Instant) -> Option<Memory<Peer>> {
        self.hosts.get(&(session.to_owned(), hint), now)
    }

    pub(super) fn meet(&mut self, session: &str, hint: Hint, host: Memory<Peer>, until: Instant) {
        self.hosts.put((session.to_owned(), hint), host, until);
    }

    pub(super) fn forget(&mut self, session: &str, hint: Hint) {
        self.hosts.entries.remove(&(session.to_owned(), hint));
    }

    pub(super) fn dialer(&self, name: &[u8; 16], now: Instant) -> Option<Memory<Peer>> {
        let session = self.names.get(name)?;
        self.dialers.get(session, now).filter(|memory| memory.name == *name)
    }

    /// Remembers a dialer, of each session the newest meeting only.
    pub(super) fn remember(&mut self, dialer: Memory<Peer>, until: Instant) {
        let (name, session) = (dialer.name, dialer.peer.session.clone());
        for gone in self.dialers.put(session.clone(), dialer, until) {
            self.names.remove(&gone.name);
        }
        self.names.insert(name, session);
    }
}

/// Memories with their ends.
#[derive(Debug)]
struct Table<K> {
    entries: HashMap<K, (Memory<Peer>, Instant)>,
    /// Keys, the oldest first; also of entries that were forgotten.
    order: VecDeque<K>,
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self { entries: HashMap::new(), order: VecDeque::new() }
    }
}

impl<K: Clone + Eq + Hash> Table<K> {
    fn get(&self, key: &K, now: Instant) -> Option<Memory<Peer>> {
        let (memory, until) = self.entries.get(key)?;
        (now < *until).then(|| memory.clone())
    }

    /// Puts a memory, and returns those that it displaces.
    fn put(&mut self, key: K, memory: Memory<Peer>, until: Instant) -> Vec<Memory<Peer>> {
        let former = self.entries.insert(key.clone(), (memory, until));
        if former.is_none() {
            self.order.push_back(key);
        }
        let mut gone: Vec<_> = former.map(|(memory, _)| memory).into_iter().collect();
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            gone.extend(self.entries.remove(&oldest).map(|(memory, _)| memory));
        }
        gone
    }
}
