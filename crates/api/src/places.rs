//! Limits of the server, and places that peers take up: connections, requests in flight, bytes of
//! bodies.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use weft_channel::ListenerLimits;
use weft_contract::resource::change::MAX_TIME;
use weft_limits::source_of;

/// What peers may take up. The defaults suit a network of some ten thousand clients.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections of a bind point.
    pub connections: usize,
    /// Connections from one address (one /64 network of IPv6).
    pub connections_per_source: usize,
    /// Connections that have not sent a whole request head yet; as many more wait in a line.
    pub pending: usize,
    /// The same from one address; more are closed.
    pub pending_per_source: usize,
    /// How long such a connection keeps its place, and a request whose body does not come, when
    /// others want it.
    pub grace: Duration,
    /// Time for the first whole request head.
    pub first_request: Duration,
    /// Time for the TLS handshake.
    pub handshake_timeout: Duration,
    /// Requests that are worked on; more are answered 429.
    pub requests: usize,
    /// The same from one address.
    pub requests_per_source: usize,
    /// Files that are sent; more are answered 429.
    pub files: usize,
    /// The same to one address.
    pub files_per_source: usize,
    /// Time that a client has to take a file; for a large one it has more. Then it is cut.
    pub file_time: Duration,
    /// Bytes of request bodies that are held; more are answered 429.
    pub body_bytes: usize,
    /// The same from one address: a document of the largest size and some more.
    pub body_bytes_per_source: usize,
    /// Time for an operation; then the answer is 503, and what was begun goes on
    /// (protocol: management-api 1).
    pub handler_timeout: Duration,
    /// The same for operations on whole networks.
    pub document_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 8192,
            connections_per_source: 1024,
            pending: 1024,
            pending_per_source: 256,
            grace: Duration::from_secs(1),
            first_request: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(5),
            requests: 1024,
            requests_per_source: 256,
            files: 1024,
            files_per_source: 256,
            // Others may be on the same connection.
            file_time: Duration::from_secs(60),
            body_bytes: 64 * 1024 * 1024,
            body_bytes_per_source: 20 * 1024 * 1024,
            handler_timeout: Duration::from_secs(10),
            document_timeout: MAX_TIME,
        }
    }
}

impl Limits {
    /// The part that the listening socket holds.
    pub(crate) fn listener(&self) -> ListenerLimits {
        ListenerLimits {
            pending: self.pending,
            pending_per_source: self.pending_per_source,
            grace: self.grace,
            handshake_timeout: self.handshake_timeout,
            connections: self.connections,
        }
    }
}

/// Places of which every source may hold a share.
#[derive(Debug)]
pub(crate) struct Places {
    limit: usize,
    per_source: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    all: usize,
    by_source: HashMap<IpAddr, usize>,
}

/// Places of one source; free again when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    source: IpAddr,
    count: usize,
}

impl Places {
    /// So many places, so many of them for one source.
    pub(crate) fn new(limit: usize, per_source: usize) -> Arc<Self> {
        Arc::new(Self { limit, per_source, held: Mutex::default() })
    }

    /// A place for a peer; none when all, or those of its source, are taken.
    pub(crate) fn take(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let mut place = self.none(peer);
        place.try_grow(1).then_some(place)
    }

    /// No place yet, to become some for a peer.
    pub(crate) fn none(self: &Arc<Self>, peer: IpAddr) -> Place {
        Place { places: Arc::clone(self), source: source_of(peer), count: 0 }
    }
}

impl Place {
    /// So many more; or none and no, when too few are left.
    pub(crate) fn try_grow(&mut self, more: usize) -> bool {
        let mut held = self.places.held.lock();
        let own = held.by_source.get(&self.source).copied().unwrap_or_default();
        let fits = |used: usize, limit: usize| limit.saturating_sub(used) >= more;
        if !fits(held.all, self.places.limit) || !fits(own, self.places.per_source) {
            return false;
        }
        if more > 0 {
            held.all += more;
            held.by_source.insert(self.source, own + more);
            self.count += more;
        }
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.count == 0 {
            return;
        }
        let mut held = self.places.held.lock();
        held.all -= self.count;
        if let Some(own) = held.by_source.get_mut(&self.source) {
            *own -= self.count;
            if *own == 0 {
                held.by_source.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_shared_and_given_back() {
        let places = Places::new(3, 2);
        let [a, b] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse::<IpAddr>().unwrap());
        let first = places.take(a).unwrap();
        let second = places.take(a).unwrap();
        assert!(places.take(a).is_none(), "the share of one source");
        let third = places.take(b).unwrap();
        assert!(places.take(b).is_none(), "all are taken");
        drop((first, third));
        assert!(places.take(b).is_some());
        drop(second);
        assert!(places.held.lock().by_source.is_empty());
    }

    #[test]
    fn places_may_be_many_at_once() {
        let places = Places::new(100, 60);
        let [a, b] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse::<IpAddr>().unwrap());
        let (mut one, mut two, mut other) = (places.none(a), places.none(a), places.none(b));
        assert!(one.try_grow(50) && !two.try_grow(11) && two.try_grow(10));
        assert!(!two.try_grow(1) && two.try_grow(0));
        assert!(!other.try_grow(41) && other.try_grow(40));
        drop(one);
        assert!(two.try_grow(50) && !other.try_grow(1));
        drop((two, other));
        let held = places.held.lock();
        assert!(held.all == 0 && held.by_source.is_empty());
    }
}
