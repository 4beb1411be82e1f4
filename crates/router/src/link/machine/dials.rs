//! The times of dials, and their ends.

use std::time::{Duration, Instant};

use super::table::{Action, Event};
use super::target::{FIRST_WAIT, LONGEST_WAIT};
use super::{Dial, Handle, KnownPeer, Machine, Output};

impl<L: Handle> Machine<L> {
    /// Carries out an action on the target with this key.
    pub(super) fn act_on_target(&mut self, key: &str, action: Action) {
        let now = self.now;
        let Some(target) = self.targets.get_mut(key) else { return };
        match action {
            Action::DialAfterFailure => return self.dial_after_failure(key, false),
            Action::DialAfterRefusal => return self.dial_after_failure(key, true),
            Action::StartDial => return self.start_dial(key),
            Action::NextAddress => return target.next_route(),
            Action::CountConnection => return target.connect(now),
            Action::DialNow => target.delay = Duration::ZERO,
            Action::DialAfterEnd => target.lose(now),
            _ => return self.dial_at(key, None),
        }
        let at = now + target.delay;
        self.dial_at(key, Some(at));
    }

    /// Sets the time of the next dial, if there is to be one.
    fn dial_at(&mut self, key: &str, at: Option<Instant>) {
        let Some(target) = self.targets.get_mut(key) else { return };
        if let Some(former) = std::mem::replace(&mut target.due, at) {
            self.due.remove(&(former, key.to_owned()));
        }
        self.due.extend(at.map(|at| (at, key.to_owned())));
    }

    /// The next dial follows a failed one after a wait. After a refusal the wait is longer by a moment,
    /// unless circuits wait for the link.
    fn dial_after_failure(&mut self, key: &str, was_refused: bool) {
        let Some(target) = self.targets.get_mut(key) else { return };
        let healthy = self.peers.get(&target.peer).is_some_and(KnownPeer::is_healthy);
        let Some(dialer) = self.dialers.get(target.route.dialer) else { return };
        let chance = self.random.fraction();
        let mut extra = Duration::ZERO;
        if target.is_awaited(self.now) {
            let twice = (2 * target.delay).mul_f64(0.75 + chance / 2.0);
            target.delay = twice.clamp(FIRST_WAIT, LONGEST_WAIT);
        } else {
            target.delay = dialer.wait_after(target.delay, healthy, chance);
            if was_refused {
                extra = Duration::from_secs(1) + Duration::from_secs(3).mul_f64(chance);
            }
        }
        let at = self.now + target.delay + extra;
        self.dial_at(key, Some(at));
    }

    fn start_dial(&mut self, key: &str) {
        let Some(target) = self.targets.get_mut(key) else { return };
        target.due = None;
        target.iteration += 1;
        self.dialing += 1;
        let known = self.peers.get(&target.peer);
        let keys = known.and_then(KnownPeer::keys).map(<[_]>::to_vec);
        self.outputs.push_back(Output::Dial(Dial {
            key: key.to_owned(),
            link: target.link.clone(),
            iteration: target.iteration,
            peer: target.peer.clone(),
            version: known.map(|known| known.version.clone()).unwrap_or_default(),
            keys: keys.unwrap_or_default(),
            address: target.route.listener.address.clone(),
            protocol: target.route.listener.protocol.clone(),
            dialer: target.route.dialer,
        }));
    }

    /// A dial of this address has ended without a link. Only the latest dial of a target counts.
    pub(super) fn end_dial(&mut self, key: &str, dial: (&str, u32), address: &str, event: Event) {
        let Some(target) = self.targets.get(key) else { return };
        if (target.link.as_str(), target.iteration) == dial {
            let is_given_up = target.route.listener.address != address;
            self.target_event(key, if is_given_up { Event::AddressGone } else { event });
        }
    }

    /// Keeps at most the dials due that workers and queue have room for. The others wait as if they had
    /// failed.
    pub(super) fn bound_queue(&mut self) {
        let most = self.limits.0.saturating_sub(self.dialing) + self.limits.1;
        let due = self.due.iter().take_while(|(at, _)| *at <= self.now);
        let beyond: Vec<String> = due.skip(most).map(|(_, key)| key.clone()).collect();
        for key in beyond {
            tracing::debug!(%key, "too many links wait to be dialed; this link is dialed later");
            self.dial_after_failure(&key, false);
        }
    }
}
