//! What this program remembers of ends that have proved themselves to it: by that, they do so briefly the next time.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Instant;

use super::Peer;
use crate::proof::{Hint, PeerMemory};

/// Most ends that are remembered in either role; the oldest ones give way.
const MOST: usize = 4096;

/// A host: the own session, its hint and the instance that was dialed.
pub(super) type HostName = (String, Hint, String);

/// Ends that are remembered: hosts by their names, dialers by their hint.
#[derive(Debug, Default)]
pub(super) struct Meetings {
    hosts: Table<HostName>,
    dialers: Table<Hint>,
    /// The hint of each session of dialers.
    sessions: HashMap<String, Hint>,
}

impl Meetings {
    pub(super) fn host(&self, name: &HostName, now: Instant) -> Option<PeerMemory<Peer>> {
        self.hosts.get(name, now)
    }

    pub(super) fn meet(&mut self, name: HostName, host: PeerMemory<Peer>, until: Instant) {
        self.hosts.put(name, host, until);
    }

    pub(super) fn dialer(&self, hint: &Hint, now: Instant) -> Option<PeerMemory<Peer>> {
        self.dialers.get(hint, now)
    }

    /// Remembers a dialer, of each session the newest meeting only.
    pub(super) fn remember(&mut self, hint: Hint, dialer: PeerMemory<Peer>, until: Instant) {
        let session = dialer.peer.session.clone();
        if let Some(former) = self.sessions.get(&session).filter(|former| **former != hint) {
            self.dialers.remove(former);
        }
        for gone in self.dialers.put(hint, dialer, until) {
            self.sessions.remove(&gone.peer.session);
        }
        self.sessions.insert(session, hint);
    }
}

/// Memories with their ends.
#[derive(Debug)]
struct Table<K> {
    entries: HashMap<K, (PeerMemory<Peer>, Instant)>,
    /// The keys of the entries, the oldest first.
    order: VecDeque<K>,
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self { entries: HashMap::new(), order: VecDeque::new() }
    }
}

impl<K: Clone + Eq + Hash> Table<K> {
    fn get(&self, key: &K, now: Instant) -> Option<PeerMemory<Peer>> {
        let (memory, until) = self.entries.get(key)?;
        (now < *until).then(|| memory.clone())
    }

    /// Puts a memory, and returns those that it displaces.
    fn put(&mut self, key: K, memory: PeerMemory<Peer>, until: Instant) -> Vec<PeerMemory<Peer>> {
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

    fn remove(&mut self, key: &K) {
        if self.entries.remove(key).is_some() {
            self.order.retain(|other| other != key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::KeyPair;
    use crate::proof::{
        AcceptedStatement, EndKey, ExchangeFacts, First, ProvingEnd, Second, print,
    };

    /// What a host remembers of a dialer with this session.
    fn memory(session: &str, good_until: Instant) -> PeerMemory<Peer> {
        let mut rng = rand::rng();
        let (dialer, host) =
            (KeyPair::generate(&mut rng).unwrap(), KeyPair::generate(&mut rng).unwrap());
        let key = EndKey::generate().unwrap();
        let end = ProvingEnd { key: &key, statement: "s" };
        let (one, other) = (dialer.public_key(), host.public_key());
        let fresh = rand::random();
        let facts = ExchangeFacts { service: "web", circuit: "c", dialer: one, host: other, fresh };
        let (_, said) = First::of_dialer(&facts, end).unwrap();
        let keys = host.server_session(&one).unwrap();
        let peer = Peer {
            identity: "i".into(),
            name: "n".into(),
            session: session.into(),
            service: "web".into(),
            instance: String::new(),
            met_as: String::new(),
            good_until,
        };
        let stated = AcceptedStatement { print: print(key.public()), peer };
        let host = Second { facts, end, keys: &keys };
        host.hears_dialer(&said, |_| Ok(stated)).unwrap().0.memory
    }

    #[test]
    fn of_each_session_the_newest_meeting_counts_and_none_for_ever() {
        let now = Instant::now();
        let later = now + Duration::from_secs(9);
        let mut meetings = Meetings::default();
        let (old, new, other) = (memory("s1", later), memory("s1", later), memory("s2", later));
        let named = |meetings: &Meetings, hint, now| {
            meetings.dialer(&[hint; 16], now).map(|memory| memory.name)
        };
        meetings.remember([1; 16], old.clone(), later);
        assert_eq!(named(&meetings, 1, now), Some(old.name));
        meetings.remember([1; 16], new.clone(), later);
        assert_eq!(named(&meetings, 1, now), Some(new.name));
        // A session that shows another hint has one memory still.
        meetings.remember([2; 16], old.clone(), later);
        assert_eq!((named(&meetings, 1, now), named(&meetings, 2, now)), (None, Some(old.name)));
        meetings.remember([1; 16], new.clone(), later);
        // So has a hint that two sessions show.
        meetings.remember([3; 16], other.clone(), later);
        meetings.remember([1; 16], other.clone(), later);
        assert_eq!((named(&meetings, 1, now), named(&meetings, 3, now)), (Some(other.name), None));
        assert_eq!((meetings.dialers.order.len(), meetings.sessions.len()), (1, 1));
        assert_eq!(named(&meetings, 1, later), None);
        // The oldest ones give way.
        for session in 0..MOST {
            let mut memory = other.clone();
            memory.peer.session = format!("more {session}");
            let hint = u128::try_from(session).unwrap().to_be_bytes();
            meetings.remember(hint, memory, later);
        }
        assert_eq!(named(&meetings, 1, now), None);
        let dialers = &meetings.dialers;
        assert_eq!((dialers.entries.len(), meetings.sessions.len()), (MOST, MOST));
        assert_eq!(dialers.order.len(), MOST);
        let name = |session: &str, instance: &str| (session.into(), [1; 16], instance.into());
        meetings.meet(name("s1", "a"), new, later);
        assert!(meetings.host(&name("s1", "a"), now).is_some());
        assert!(meetings.host(&name("s2", "a"), now).is_none());
        assert!(meetings.host(&name("s1", "b"), now).is_none());
    }
}
