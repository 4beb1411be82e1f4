//! A link that this router wants to dial, and its waits.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use weft_config::router::Backoff;

use super::table::State;
use crate::seam::LinkListener;

/// A link that was open for this long is dialed again at once when it closes.
pub(super) const STEADY: Duration = Duration::from_secs(30);
/// The wait after the second of several links that closed sooner; each further wait is twice as long.
pub(super) const FIRST_WAIT: Duration = Duration::from_millis(50);
/// Longest of these waits: circuits wait 5 s for a link that comes back.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// The time after the end of a link in which failed dials are repeated after these short waits, because the
/// circuits of the link wait for it.
pub(super) const AWAITED: Duration = Duration::from_secs(5);

/// A dialer of links.
#[derive(Clone, Debug)]
pub(in crate::link) struct Dialer {
    /// The dialer's name in the key of links; empty means `default`.
    pub(in crate::link) binding: String,
    /// The dialer's groups: listeners of one of them are dialed.
    pub(in crate::link) groups: Vec<String>,
    /// Waits while the peer is connected to a controller.
    pub(in crate::link) healthy: Backoff,
    /// Waits while the peer is not connected to a controller.
    pub(in crate::link) unhealthy: Backoff,
}

impl Dialer {
    /// The wait that follows a wait of `before`. `chance` is between 0 and 1.
    pub(super) fn wait_after(&self, before: Duration, is_healthy: bool, chance: f64) -> Duration {
        let backoff = if is_healthy { &self.healthy } else { &self.unhealthy };
        let factor = (backoff.factor + chance.clamp(0.0, 1.0) - 0.5).max(1.0);
        before.mul_f64(factor).clamp(backoff.min, backoff.max.max(backoff.min))
    }
}

/// A dial that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::link) struct Dial {
    /// Key of the link.
    pub(in crate::link) key: String,
    /// Id of the link.
    pub(in crate::link) link: String,
    /// Number of the dial, from 1.
    pub(in crate::link) iteration: u32,
    /// The router to dial.
    pub(in crate::link) peer: String,
    /// The router's release, as controllers report it.
    pub(in crate::link) version: String,
    /// The prints of the router's keys, if controllers name them.
    pub(in crate::link) keys: Vec<String>,
    /// The address of the router's listener.
    pub(in crate::link) address: String,
    /// The protocol of the router's listener.
    pub(in crate::link) protocol: String,
    /// The number of the dialer.
    pub(in crate::link) dialer: usize,
}

/// A listener of the peer, and the dialer for it.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) listener: LinkListener,
    /// The number of the dialer.
    pub(super) dialer: usize,
}

/// A link that this router wants to dial, or has dialed.
#[derive(Clone, Debug)]
pub(in crate::link) struct Target {
    pub(in crate::link) link: String,
    pub(super) peer: String,
    pub(super) state: State,
    /// The route that is dialed next; of an open link, the route that was dialed.
    pub(super) route: Route,
    /// The other routes with the target's key, which are dialed in turn after `route`.
    others: VecDeque<Route>,
    pub(in crate::link) iteration: u32,
    pub(in crate::link) connected: u32,
    pub(in crate::link) delay: Duration,
    /// The number of links in a row that closed soon.
    short: u32,
    /// The time at which the open link took the key.
    since: Instant,
    /// The end of the last link, unless another one is open.
    lost: Option<Instant>,
    /// The time of the next dial; `None` while the link is open or being dialed.
    pub(super) due: Option<Instant>,
}

impl Target {
    /// A target that leads over these routes; `None` if there are none.
    pub(super) fn new(link: String, peer: &str, routes: Vec<Route>, now: Instant) -> Option<Self> {
        let mut others = VecDeque::from(routes);
        let route = others.pop_front()?;
        Some(Self {
            link,
            peer: peer.to_owned(),
            state: State::Gone,
            route,
            others,
            iteration: 0,
            connected: 0,
            delay: Duration::ZERO,
            short: 0,
            since: now,
            lost: None,
            due: None,
        })
    }

    /// The listener that is dialed next; of an open link, the one that was dialed.
    pub(in crate::link) fn listener(&self) -> &LinkListener {
        &self.route.listener
    }

    /// The state's name in inspections.
    pub(in crate::link) fn status(&self) -> &'static str {
        match self.state {
            State::Pending => "pending",
            State::Dialing => "dialing",
            State::DialFailed => "dialFailed",
            State::LinkFailed => "linkFailed",
            _ => "established",
        }
    }

    /// The next dial is that of another route.
    pub(super) fn next_route(&mut self) {
        if let Some(next) = self.others.pop_front() {
            self.others.push_back(std::mem::replace(&mut self.route, next));
        }
    }

    /// True if the target leads to this address.
    pub(super) fn leads_to(&self, address: &str) -> bool {
        let routes = std::iter::once(&self.route).chain(&self.others);
        routes.into_iter().any(|route| route.listener.address == address)
    }

    /// Notes that the link was dialed at this address.
    pub(super) fn reached(&mut self, address: &str) {
        for _ in 0..self.others.len() {
            if self.route.listener.address == address {
                return;
            }
            self.next_route();
        }
    }

    /// Leads over these routes from now on. True if the present address is not among them.
    pub(super) fn lead_over(&mut self, routes: Vec<Route>) -> bool {
        let present = &self.route.listener.address;
        let at = routes.iter().position(|route| route.listener.address == *present);
        let mut others = VecDeque::from(routes);
        others.rotate_left(at.unwrap_or_default());
        if let Some(route) = others.pop_front() {
            self.route = route;
            self.others = others;
        }
        at.is_none()
    }

    /// True while circuits of the last link wait for it.
    pub(super) fn is_awaited(&self, now: Instant) -> bool {
        self.lost.is_some_and(|lost| now.saturating_duration_since(lost) < AWAITED)
    }

    /// Notes that a link took the key.
    pub(super) fn connect(&mut self, now: Instant) {
        self.connected += 1;
        self.delay = Duration::ZERO;
        self.lost = None;
        self.since = now;
    }

    /// Notes that the link has closed. It is dialed again at once, unless the link before it had closed
    /// soon, too: a peer that accepts links and closes them is dialed with a pause.
    pub(super) fn lose(&mut self, now: Instant) {
        let lasted = now.saturating_duration_since(self.since);
        self.lost = Some(now);
        self.short = if lasted < STEADY { self.short.saturating_add(1) } else { 0 };
        self.delay = match self.short {
            0 | 1 => Duration::ZERO,
            short => (FIRST_WAIT * (1 << (short - 2).min(10))).min(LONGEST_WAIT),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_stay_in_their_bounds() {
        let (healthy, unhealthy) = (Backoff::healthy(), Backoff::unhealthy());
        let dialer = Dialer { binding: String::new(), groups: Vec::new(), healthy, unhealthy };
        for (is_healthy, backoff) in [(true, &dialer.healthy), (false, &dialer.unhealthy)] {
            let mut wait = Duration::ZERO;
            for chance in [0.0, 1.0, f64::NAN.max(0.0), 0.3, 1.0].repeat(8) {
                wait = dialer.wait_after(wait, is_healthy, chance);
                assert!((backoff.min..=backoff.max).contains(&wait), "{wait:?}");
            }
            assert_eq!(wait, backoff.max);
        }
    }
}
