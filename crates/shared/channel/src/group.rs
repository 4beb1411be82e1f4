//! Rules for channels of several connections (docs/protocol/channel.md 7.3).

use std::time::Duration;

use subtle::ConstantTimeEq;
use weft_wire::hello::underlay;

/// The number of connections of one type in a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypePolicy {
    /// The type.
    pub kind: String,
    /// The number that the dialer maintains.
    pub desired: usize,
    /// The channel closes when it has fewer connections of the type than this.
    pub min: usize,
}

impl TypePolicy {
    /// A type with these numbers.
    pub fn new(kind: impl Into<String>, desired: usize, min: usize) -> Self {
        Self { kind: kind.into(), desired, min }
    }
}

/// The times of a dialer that adds connections to its channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RedialPolicy {
    /// The wait after the first connection before further ones are dialed.
    pub start_delay: Duration,
    /// Shortest time between dials.
    pub min_interval: Duration,
    /// A connection that closes sooner counts as a failed dial; `None` counts none.
    pub min_stable: Option<Duration>,
    /// The wait after the first failure; doubled by each further one.
    pub backoff: Duration,
    /// Longest wait.
    pub max_backoff: Duration,
    /// True if the channel lives on without connections, and dials until it has one again.
    pub survive: bool,
}

impl RedialPolicy {
    /// The settings of dialers of links and of SDKs.
    pub const LINK: Self = Self {
        start_delay: Duration::from_secs(3),
        min_interval: Duration::ZERO,
        min_stable: Some(Duration::from_secs(30)),
        backoff: Duration::from_secs(2),
        max_backoff: Duration::from_secs(60),
        survive: false,
    };
    /// The settings of a router's dialer of controllers.
    pub const CONTROL: Self = Self {
        start_delay: Duration::from_secs(5),
        min_interval: Duration::from_secs(1),
        min_stable: None,
        survive: true,
        ..Self::LINK
    };

    /// The wait after this many failures in a row.
    pub fn delay(&self, failures: u32) -> Duration {
        if failures == 0 {
            return Duration::ZERO;
        }
        let doubled = self.backoff.saturating_mul(1 << (failures - 1).min(16));
        doubled.min(self.max_backoff)
    }
}

/// The connections that a channel may have and must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPolicy {
    /// The types; a dialer begins with the first one.
    pub types: Vec<TypePolicy>,
    /// The channel closes when it has fewer connections in all than this.
    pub min_total: usize,
    /// Most connections of the channel; further ones are refused.
    pub max_total: usize,
    /// The times of a dialer that adds connections; `None` for a listener.
    pub redial: Option<RedialPolicy>,
}

/// Most connections that a listener accepts into one group.
const MAX_TOTAL: usize = 200;

impl GroupPolicy {
    /// The group of a control channel, for the listener. Messages under way on a default connection
    /// that is lost cannot be sent again, and later ones would be handled without them. The channel
    /// closes instead, and both sides begin again. A channel may begin with another type.
    pub fn control_listener() -> Self {
        let types = vec![TypePolicy::new(underlay::CTRL_DEFAULT, 0, 1)];
        Self { types, min_total: 1, max_total: 16, redial: None }
    }

    /// The group of a control channel, for the router; `high` if the controller supports groups.
    pub fn control_dialer(high: bool) -> Self {
        let types = vec![
            TypePolicy::new(underlay::CTRL_DEFAULT, 1, 0),
            TypePolicy::new(underlay::CTRL_HIGH, usize::from(high), 0),
        ];
        Self { types, min_total: 0, max_total: 16, redial: Some(RedialPolicy::CONTROL) }
    }

    /// The group of a link, for the listener.
    pub fn link_listener() -> Self {
        let types = vec![TypePolicy::new(underlay::LINK_DEFAULT, 0, 1)];
        Self { types, min_total: 1, max_total: MAX_TOTAL, redial: None }
    }

    /// The group of a link, for the dialer.
    pub fn link_dialer(default: usize, ack: usize, start_delay: Duration) -> Self {
        let types = vec![
            TypePolicy::new(underlay::LINK_DEFAULT, default.max(1), 1),
            TypePolicy::new(underlay::LINK_ACK, ack, 0),
        ];
        let redial = RedialPolicy { start_delay, ..RedialPolicy::LINK };
        Self { types, min_total: 1, max_total: MAX_TOTAL, redial: Some(redial) }
    }

    /// The group of an SDK's channel, for the router.
    pub fn edge_listener() -> Self {
        let types = vec![TypePolicy::new(underlay::EDGE_DEFAULT, 0, 1)];
        Self { types, min_total: 1, max_total: 32, redial: None }
    }

    /// The missing type of connection, if the channel must close; `live` are the types of its
    /// connections.
    pub(crate) fn violated(&self, live: &[&str]) -> Option<String> {
        if live.len() < self.min_total {
            return Some(format!("{} of at least {}", live.len(), self.min_total));
        }
        self.types.iter().find_map(|policy| {
            let count = live.iter().filter(|kind| **kind == policy.kind).count();
            let missing = count < policy.min;
            missing.then(|| format!("{count} of at least {} {}", policy.min, policy.kind))
        })
    }

    /// The type that a dialer should dial next.
    pub(crate) fn missing(&self, live: &[&str]) -> Option<&str> {
        if live.len() >= self.max_total {
            return None;
        }
        let below = |policy: &&TypePolicy| {
            live.iter().filter(|kind| **kind == policy.kind).count() < policy.desired
        };
        self.types.iter().find(below).map(|policy| policy.kind.as_str())
    }
}

/// Compares secrets in constant time. An empty secret never matches.
pub(crate) fn secrets_match(ours: &[u8], theirs: &[u8]) -> bool {
    !ours.is_empty() && bool::from(ours.ct_eq(theirs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints() {
        let link = GroupPolicy::link_dialer(3, 1, Duration::ZERO);
        assert!(link.violated(&["link.default"]).is_none());
        assert!(link.violated(&["link.ack"]).is_some());
        assert_eq!(link.missing(&["link.default", "link.ack"]), Some("link.default"));
        assert_eq!(link.missing(&["link.default"; 3]), Some("link.ack"));
        let control = GroupPolicy::control_dialer(false);
        assert!(control.violated(&[]).is_none());
        assert_eq!(control.missing(&["ctrl.default"]), None);
        let control = GroupPolicy::control_listener();
        assert!(control.violated(&[]).is_some() && control.violated(&["ctrl.high"]).is_some());
        assert!(control.violated(&["ctrl.default"]).is_none());
    }

    #[test]
    fn backoff() {
        let seconds = |failures| RedialPolicy::LINK.delay(failures).as_secs();
        assert_eq!([0, 1, 2, 3, 5, 6, 99].map(seconds), [0, 2, 4, 8, 32, 60, 60]);
    }

    #[test]
    fn secrets() {
        assert!(secrets_match(b"abc", b"abc"));
        assert!(!secrets_match(b"abc", b"abd") && !secrets_match(b"abc", b"ab"));
        assert!(!secrets_match(b"", b""));
    }
}
