//! A link that this router wants to dial, and its dials.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use weft_config::router::Backoff;

use crate::seam::LinkListener;

/// A dialer of links.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    /// The dialer's name in the key of links; empty means `default`.
    pub(crate) binding: String,
    /// The dialer's groups: listeners of one of them are dialed.
    pub(crate) groups: Vec<String>,
    /// Waits while the peer is connected to a controller.
    pub(crate) healthy: Backoff,
    /// Waits while the peer is not connected to a controller.
    pub(crate) unhealthy: Backoff,
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
pub(crate) struct Dial {
    /// Key of the link.
    pub(crate) key: String,
    /// Id of the link.
    pub(crate) link: String,
    /// Number of the dial, from 1.
    pub(crate) iteration: u32,
    /// The router to dial.
    pub(crate) peer: String,
    /// The router's release, as controllers report it.
    pub(crate) version: String,
    /// The prints of the router's keys, if controllers name them.
    pub(crate) keys: Vec<String>,
    /// The address of the router's listener.
    pub(crate) address: String,
    /// The protocol of the router's listener.
    pub(crate) protocol: String,
    /// The number of the dialer.
    pub(crate) dialer: usize,
}

/// The state of a target (docs/protocol/data-plane.md 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// The target waits for its first dial.
    Pending,
    /// A dial is under way.
    Dialing,
    /// The last dial failed.
    DialFailed,
    /// The link has closed.
    LinkFailed,
    /// The link is open.
    Established,
}

impl Status {
    /// The state's name in inspections.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Dialing => "dialing",
            Self::DialFailed => "dialFailed",
            Self::LinkFailed => "linkFailed",
            Self::Established => "established",
        }
    }
}

/// A listener of the peer, and the dialer for it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) listener: LinkListener,
    /// The number of the dialer.
    pub(crate) dialer: usize,
}

/// A link that this router wants to dial, or has dialed.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) link: String,
    pub(crate) peer: String,
    /// The place that is dialed next; of an open link, the place that was dialed.
    place: Place,
    /// The other places with the target's key, which are dialed in turn after `place`.
    others: VecDeque<Place>,
    pub(crate) status: Status,
    pub(crate) iteration: u32,
    pub(crate) connected: u32,
    pub(crate) delay: Duration,
    /// The number of links in a row that closed soon.
    pub(crate) short: u32,
    /// The end of the last link, unless another one stands.
    pub(crate) lost: Option<Instant>,
    /// The time of the next dial; `None` while the link is open or being dialed.
    pub(crate) due: Option<Instant>,
}

impl Target {
    /// A target that leads to these places; `None` if there are none.
    pub(super) fn new(link: String, peer: &str, places: Vec<Place>, is_live: bool) -> Option<Self> {
        let mut others = VecDeque::from(places);
        let place = others.pop_front()?;
        Some(Self {
            link,
            peer: peer.to_owned(),
            place,
            others,
            status: if is_live { Status::Established } else { Status::Pending },
            iteration: 0,
            connected: 0,
            delay: Duration::ZERO,
            short: 0,
            lost: None,
            due: None,
        })
    }

    /// The place that is dialed next; of an open link, the place that was dialed.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// After a failed dial: the next dial is that of another place.
    pub(super) fn next_place(&mut self) {
        if let Some(next) = self.others.pop_front() {
            self.others.push_back(std::mem::replace(&mut self.place, next));
        }
    }

    /// True if the target leads to this address.
    pub(super) fn leads_to(&self, address: &str) -> bool {
        let places = std::iter::once(&self.place).chain(&self.others);
        places.into_iter().any(|place| place.listener.address == address)
    }

    /// Notes that the link was dialed at this address.
    pub(super) fn reached(&mut self, address: &str) {
        for _ in 0..self.others.len() {
            if self.place.listener.address == address {
                return;
            }
            self.next_place();
        }
    }

    /// Leads to these places from now on. True if the present address is not among them.
    pub(super) fn lead_to(&mut self, places: Vec<Place>) -> bool {
        let present = &self.place.listener.address;
        let at = places.iter().position(|place| place.listener.address == *present);
        let mut others = VecDeque::from(places);
        others.rotate_left(at.unwrap_or_default());
        if let Some(place) = others.pop_front() {
            self.place = place;
            self.others = others;
        }
        at.is_none()
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
