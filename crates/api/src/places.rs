//! Limits of the server, and places that peers take up: connections, requests in flight.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use weft_channel::ListenerLimits;

/// What peers may take up. The defaults suit a network of some ten thousand clients.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections of a bind point.
    pub connections: usize,
    /// Connections from one address (one /64 network of IPv6).
    pub connections_per_source: usize,
    /// Connections that have not sent a whole request head yet; more wait in the kernel.
    pub pending: usize,
    /// The same from one address; more are closed.
    pub pending_per_source: usize,
    /// Time for the TLS handshake.
    pub handshake_timeout: Duration,
    /// Requests that are worked on; more are answered 429.
    pub requests: usize,
    /// The same from one address.
    pub requests_per_source: usize,
    /// Bytes of request bodies that are held; more are answered 429.
    pub body_bytes: u64,
    /// Time for an operation; then the answer is 503, and what was begun goes on
    /// (protocol: management-api 1).
    pub handler_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 8192,
            connections_per_source: 1024,
            pending: 1024,
            pending_per_source: 256,
            handshake_timeout: Duration::from_secs(5),
            requests: 1024,
            requests_per_source: 256,
            body_bytes: 64 * 1024 * 1024,
            handler_timeout: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// The part that the listening socket holds.
    pub(crate) fn listener(&self) -> ListenerLimits {
        ListenerLimits {
            pending: self.pending,
            pending_per_source: self.pending_per_source,
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

/// A place; free again when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    source: IpAddr,
}

impl Places {
    /// So many places, so many of them for one source.
    pub(crate) fn new(limit: usize, per_source: usize) -> Arc<Self> {
        Arc::new(Self { limit, per_source, held: Mutex::default() })
    }

    /// A place for a peer; none when all, or those of its source, are taken.
    pub(crate) fn take(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let source = source_of(peer);
        let mut held = self.held.lock();
        let own = held.by_source.get(&source).copied().unwrap_or_default();
        if held.all >= self.limit || own >= self.per_source {
            return None;
        }
        held.all += 1;
        held.by_source.insert(source, own + 1);
        Some(Place { places: Arc::clone(self), source })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.places.held.lock();
        held.all -= 1;
        if let Some(own) = held.by_source.get_mut(&self.source) {
            *own -= 1;
            if *own == 0 {
                held.by_source.remove(&self.source);
            }
        }
    }
}

/// Whom an address stands for: one host, or in IPv6 the network one site can draw from freely.
fn source_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(network.into())
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
    fn a_site_is_one_source() {
        let [a, b, c] = ["2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1"]
            .map(|text| source_of(text.parse().unwrap()));
        assert_eq!(a, b);
        assert_ne!(a, c);
        let mapped = source_of("::ffff:192.0.2.1".parse().unwrap());
        assert_eq!(mapped, "192.0.2.1".parse::<IpAddr>().unwrap());
    }
}
