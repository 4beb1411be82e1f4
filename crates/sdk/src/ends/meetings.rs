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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weft_e2e::KeyPair;
    use weft_e2e::proof::{AtHost, Dialer, End, EndKey, Facts, Host, Stated, print};

    use super::*;

    /// What a host remembers of a dialer with this session.
    fn memory(session: &str, good_until: Instant) -> Memory<Peer> {
        let mut rng = rand::rng();
        let (dialer, host) =
            (KeyPair::generate(&mut rng).unwrap(), KeyPair::generate(&mut rng).unwrap());
        let key = EndKey::generate().unwrap();
        let end = End { key: &key, statement: "s" };
        let (one, other) = (dialer.public_key(), host.public_key());
        let facts = Facts { service: "web", circuit: "c", dialer: one, host: other };
        let keys = dialer.client_session(&other).unwrap();
        let (_, said) = Dialer::<Peer>::new(facts, end, &keys, None).unwrap();
        let keys = host.server_session(&one).unwrap();
        let peer = Peer {
            identity: "i".into(),
            name: "n".into(),
            session: session.into(),
            service: "web".into(),
            good_until,
        };
        let stated = Stated { print: print(key.public()), peer };
        match (Host { facts, end, keys: &keys }).take(&said, |_| Ok(stated), |_| None).unwrap() {
            AtHost::Proved(proved, _) => proved.memory,
            AtHost::Again(_) => panic!("nothing was remembered"),
        }
    }

    #[test]
    fn of_each_session_the_newest_meeting_counts_and_none_for_ever() {
        let now = Instant::now();
        let later = now + Duration::from_secs(9);
        let mut meetings = Meetings::default();
        let (old, new, other) = (memory("s1", later), memory("s1", later), memory("s2", later));
        meetings.remember(old.clone(), later);
        assert!(meetings.dialer(&old.name, now).is_some());
        meetings.remember(new.clone(), later);
        meetings.remember(other.clone(), later);
        assert!(meetings.dialer(&old.name, now).is_none());
        assert!(
            meetings.dialer(&new.name, now).is_some()
                && meetings.dialer(&new.name, later).is_none()
        );
        assert_eq!(meetings.names.len(), 2);
        // The oldest ones give way.
        for session in 0..MOST {
            let mut memory = other.clone();
            memory.peer.session = format!("more {session}");
            memory.name = u128::try_from(session).unwrap().to_be_bytes();
            meetings.remember(memory, later);
        }
        assert!(meetings.dialer(&new.name, now).is_none());
        assert_eq!((meetings.dialers.entries.len(), meetings.names.len()), (MOST, MOST));
        meetings.meet("s1", [1; 16], new, later);
        assert!(
            meetings.host("s1", [1; 16], now).is_some()
                && meetings.host("s2", [1; 16], now).is_none()
        );
        meetings.forget("s1", [1; 16]);
        assert!(meetings.host("s1", [1; 16], now).is_none());
    }
}
