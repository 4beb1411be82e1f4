//! The listeners on which routers take links of other routers, and the keys that its listeners prove (of routers of
//! weft). A router's hello names them, and a report when they change (docs/protocol/control-plane.md 8). All other routers are told of them, so
//! that they have limits.

use std::time::{Duration, Instant};

use weft_limits::TokenBucket;
use weft_wire::ctrl::{Listener, Listeners};

/// Most listeners of a router, and most groups of a listener.
const MAX_LISTENERS: usize = 16;
const MAX_GROUPS: usize = 16;
/// Longest address, in bytes.
const MAX_ADDRESS: usize = 300;
/// Longest protocol, longest name of a group, and longest binding, in bytes.
const MAX_NAME: usize = 100;

/// Most keys of a router.
const MAX_KEYS: usize = 16;

/// How often the listeners of a router may change: this many times at once, and once more in each
/// [`CHANGE_INTERVAL`]. Every other router is told of each change.
const CHANGES: u32 = 16;
const CHANGE_INTERVAL: Duration = Duration::from_secs(10);

/// The listeners and keys that are kept, and the number of listeners that are left out.
pub(crate) fn kept(said: Listeners) -> (Listeners, usize) {
    let count = said.listeners.len();
    let fits = |one: &Listener| {
        one.address.len() <= MAX_ADDRESS
            && [&one.protocol, &one.local_binding].iter().all(|name| name.len() <= MAX_NAME)
            && one.groups.len() <= MAX_GROUPS
            && one.groups.iter().all(|group| group.len() <= MAX_NAME)
    };
    let listeners = said.listeners.into_iter().filter(fits).take(MAX_LISTENERS);
    let listeners: Vec<Listener> = listeners.collect();
    let left_out = count - listeners.len();
    let server_keys = said.server_keys.into_iter().filter(|key| is_print(key));
    let server_keys = server_keys.take(MAX_KEYS).collect();
    (Listeners { listeners, server_keys }, left_out)
}

/// Whether a text is a SHA-256 in lowercase hex.
fn is_print(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The effect of a report of listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reported {
    /// The listeners are known.
    Known,
    /// Other routers have to be told.
    Changed,
    /// The report came too soon, and waits.
    TooSoon,
}

/// The listeners of a connected router, which may change [`CHANGES`] times at once, and once more in each
/// [`CHANGE_INTERVAL`].
#[derive(Debug)]
pub(crate) struct LinkListeners {
    known: Listeners,
    /// The newest report, if it came too soon.
    waiting: Option<Listeners>,
    changes: TokenBucket,
}

impl LinkListeners {
    /// The listeners of a hello.
    pub(crate) fn new(known: Listeners, now: Instant) -> Self {
        let changes = TokenBucket::every(CHANGE_INTERVAL, CHANGES, now);
        Self { known, waiting: None, changes }
    }

    /// Takes a report. A report that changes nothing counts for no limit.
    pub(crate) fn report(&mut self, listeners: Listeners, now: Instant) -> Reported {
        if listeners == self.known {
            self.waiting = None;
            return Reported::Known;
        }
        self.waiting = Some(listeners);
        match self.settle(now) {
            true => Reported::Changed,
            false => Reported::TooSoon,
        }
    }

    /// The listeners and keys that other routers are told of.
    pub(crate) fn known(&self) -> &Listeners {
        &self.known
    }

    /// Takes the report that waits, if the limit allows the change; true if the listeners changed.
    pub(crate) fn settle(&mut self, now: Instant) -> bool {
        if self.waiting.is_none() || !self.changes.try_take(1, now) {
            return false;
        }
        self.known = self.waiting.take().unwrap_or_default();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(address: &str, groups: Vec<String>) -> Listener {
        Listener {
            address: address.to_owned(),
            protocol: "tls".to_owned(),
            groups,
            local_binding: "eth0".to_owned(),
        }
    }

    #[test]
    fn the_newest_report_counts_once_the_limit_allows_it() {
        let start = Instant::now();
        let of = |number: u32| Listeners {
            listeners: vec![listener(&format!("tls:a:{number}"), Vec::new())],
            server_keys: Vec::new(),
        };
        let mut listeners = LinkListeners::new(of(0), start);
        for _ in 0..100 {
            assert_eq!(listeners.report(of(0), start), Reported::Known);
        }
        for number in 1..=CHANGES {
            assert_eq!(listeners.report(of(number), start), Reported::Changed);
        }
        for number in [70, 71, 72] {
            assert_eq!(listeners.report(of(number), start), Reported::TooSoon);
        }
        assert!(!listeners.settle(start));
        assert_eq!(*listeners.known(), of(CHANGES));
        assert!(listeners.settle(start + CHANGE_INTERVAL));
        assert_eq!(*listeners.known(), of(72));
        assert!(!listeners.settle(start + 2 * CHANGE_INTERVAL), "nothing waits");
        let later = start + 2 * CHANGE_INTERVAL;
        assert_eq!(listeners.report(of(72), later), Reported::Known);
        assert_eq!(listeners.report(of(73), later), Reported::Changed);
        // The router has taken back what waits.
        assert_eq!(listeners.report(of(74), later), Reported::TooSoon);
        assert_eq!(listeners.report(of(73), later), Reported::Known);
        assert!(!listeners.settle(later + CHANGE_INTERVAL));
        assert_eq!(*listeners.known(), of(73));
    }

    #[test]
    fn keys_of_routers_have_a_form_and_a_limit() {
        let of = |server_keys| kept(Listeners { listeners: Vec::new(), server_keys }).0.server_keys;
        let key = "0f".repeat(32);
        let odd = [String::new(), key.to_uppercase(), format!("{key}0"), "x".repeat(64)];
        let known = vec![key; 100];
        assert_eq!(of([&odd[..], &known[..1]].concat()), known[..1]);
        assert_eq!(of(known).len(), MAX_KEYS);
    }

    #[test]
    fn listeners_for_links_have_limits() {
        let of = |listeners| {
            let (kept, left_out) = kept(Listeners { listeners, server_keys: Vec::new() });
            (kept.listeners, left_out)
        };
        let usual = vec![listener("tls:a:1", vec!["default".to_owned()])];
        assert_eq!(of(usual.clone()), (usual.clone(), 0));
        let long = listener(&"a".repeat(MAX_ADDRESS + 1), Vec::new());
        let odd = Listener { protocol: "p".repeat(MAX_NAME + 1), ..usual[0].clone() };
        let bound = Listener { local_binding: "b".repeat(MAX_NAME + 1), ..usual[0].clone() };
        assert_eq!(of(vec![long, odd, usual[0].clone(), bound]), (usual, 3));
        let grouped = |count, length| listener("tls:a:1", vec!["g".repeat(length); count]);
        let (many, left_out) = of(vec![grouped(MAX_GROUPS, MAX_NAME); 100]);
        assert_eq!((many.len(), left_out), (MAX_LISTENERS, 100 - MAX_LISTENERS));
        // Left out as a whole: without one of its groups a listener would be dialed by others.
        for odd in [grouped(MAX_GROUPS + 1, 1), grouped(1, MAX_NAME + 1)] {
            assert_eq!(of(vec![odd]), (Vec::new(), 1));
        }
    }
}
