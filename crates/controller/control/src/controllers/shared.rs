//! The channels that there are.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use weft_channel::ChannelHandle;
use weft_model::Id;

/// The channels between this controller and the others.
#[derive(Default)]
pub(crate) struct Controllers {
    pub(super) tls: OnceLock<Arc<rustls::ClientConfig>>,
    pub(super) state: Mutex<Channels>,
}

#[derive(Default)]
pub(super) struct Channels {
    /// The tasks that dial the other controllers.
    pub(super) dialing: HashMap<Id, Dialing>,
    /// The channel to each controller that this one has dialed.
    pub(super) dialed: HashMap<Id, Dialed>,
    /// The channels that others have dialed.
    pub(super) accepted: Vec<Accepted>,
    /// Since when a controller is waited for.
    pub(super) waits_since: Option<Instant>,
    /// Whether the log says that this wait was in vain.
    pub(super) has_said_so: bool,
    /// The controllers that are alive, as this one has heard last; none before that.
    pub(super) alive: Option<HashSet<Id>>,
    /// When others have ceased to be alive.
    pub(super) ended: HashMap<Id, Instant>,
}

/// How long a controller that does not tell what it knows is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the circuits of a controller that has ended may be known to nobody: it is taken over meanwhile.
const TAKEOVER: Duration = Duration::from_secs(10);

impl Channels {
    /// Notes which controllers are alive.
    pub(super) fn note_alive(&mut self, alive: HashSet<Id>, now: Instant) {
        let former = self.alive.replace(alive).unwrap_or_default();
        let alive = self.alive.as_ref();
        let is_alive = |id: &Id| alive.is_some_and(|alive| alive.contains(id));
        self.ended.retain(|id, _| !is_alive(id));
        let ended = former.into_iter().filter(|id| !is_alive(id));
        self.ended.extend(ended.map(|id| (id, now)));
    }

    /// Whether a controller may own circuits: it is alive, nobody knows, or it has just ended.
    pub(super) fn may_own(&self, id: &Id, now: Instant) -> bool {
        let Some(alive) = &self.alive else { return true };
        let has_just_ended = |at: &Instant| now.saturating_duration_since(*at) < TAKEOVER;
        alive.contains(id) || self.ended.get(id).is_some_and(has_just_ended)
    }

    /// Whether every other member that is alive has told all that it knew. One that tells nothing for a minute, for example
    /// because it does not reach this controller, is waited for no longer.
    pub(super) fn judge_heard(&mut self, members: &HashSet<&Id>, now: Instant) -> bool {
        let told = |id: &Id| self.accepted.iter().any(|it| it.controller == *id && it.has_told_all);
        let awaited = match &self.alive {
            Some(alive) => alive.iter().find(|id| members.contains(id) && !told(id)).cloned(),
            None => Some(Id::new("any")),
        };
        let Some(awaited) = awaited else {
            self.waits_since = None;
            self.has_said_so = false;
            return true;
        };
        let since = *self.waits_since.get_or_insert(now);
        let is_over = now.saturating_duration_since(since) >= PATIENCE;
        if is_over && self.alive.is_some() && !std::mem::replace(&mut self.has_said_so, true) {
            tracing::warn!(
                controller = %awaited,
                "a controller has not told what clients have reported of their devices, so that sessions may end which rest \
                 on it: look whether the controllers reach each other's control ports"
            );
        }
        is_over
    }
}

impl Controllers {
    /// Closes all channels: the controller stops.
    pub(crate) fn close(&self) {
        let state = self.state.lock();
        let accepted = state.accepted.iter().map(|it| &it.channel);
        let dialed = state.dialed.values().map(|it| &it.channel);
        for channel in dialed.chain(accepted) {
            channel.close("the controller is stopping");
        }
    }
}

/// A task that dials a controller.
pub(super) struct Dialing {
    /// What ends it.
    pub(super) stop: CancellationToken,
    /// Notified when the controller has dialed this one: it is there.
    pub(super) is_there: Arc<Notify>,
}

/// A channel that this controller has dialed.
pub(super) struct Dialed {
    pub(super) channel: ChannelHandle,
    /// What the other controller has shown.
    pub(super) leaf: Option<CertificateDer<'static>>,
    /// The version of the other controller.
    pub(super) version: String,
}

/// A channel that another controller has dialed.
pub(super) struct Accepted {
    pub(super) controller: Id,
    pub(super) channel: ChannelHandle,
    pub(super) leaf: CertificateDer<'static>,
    /// Whether the controller has told all that it knew when it had dialed.
    pub(super) has_told_all: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(names: &[&str]) -> HashSet<Id> {
        names.iter().map(|name| Id::new(name)).collect()
    }

    #[test]
    fn whoever_has_ended_owns_nothing_after_the_takeover() {
        let (mut channels, start, two) = (Channels::default(), Instant::now(), Id::new("two"));
        assert!(channels.may_own(&two, start), "nobody has said anything");
        channels.note_alive(ids(&["one", "two"]), start);
        assert!(
            channels.may_own(&two, start + TAKEOVER * 9)
                && !channels.may_own(&Id::new("three"), start)
        );
        channels.note_alive(ids(&["one"]), start);
        channels.note_alive(ids(&["one"]), start + TAKEOVER / 2);
        assert!(channels.may_own(&two, start + TAKEOVER / 2));
        assert!(!channels.may_own(&two, start + TAKEOVER));
        channels.note_alive(ids(&["one", "two"]), start + TAKEOVER);
        assert!(channels.may_own(&two, start + TAKEOVER * 9) && channels.ended.is_empty());
    }

    #[test]
    fn members_that_are_alive_are_waited_for_and_for_a_minute() {
        let (mut channels, start, two) = (Channels::default(), Instant::now(), Id::new("two"));
        let members: HashSet<&Id> = [&two].into();
        assert!(!channels.judge_heard(&members, start), "nobody knows who is alive");
        // A controller that is no member is not waited for, nor one that is not alive.
        channels.note_alive(ids(&["one", "gone"]), start);
        assert!(channels.judge_heard(&members, start));
        channels.note_alive(ids(&["one", "two"]), start);
        for (after, is_over) in [(0, false), (59, false), (60, true), (61, true)] {
            let now = start + Duration::from_secs(after);
            assert_eq!(channels.judge_heard(&members, now), is_over, "{after}");
        }
        channels.note_alive(ids(&["one"]), start);
        assert!(channels.judge_heard(&members, start) && channels.waits_since.is_none());
    }
}
