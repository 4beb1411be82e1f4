//! The channels that there are.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
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
    /// What ends the task that dials a controller.
    pub(super) dialing: HashMap<Id, CancellationToken>,
    /// The channel to each controller that this one has dialed.
    pub(super) dialed: HashMap<Id, Dialed>,
    /// The channels that others have dialed.
    pub(super) accepted: Vec<Accepted>,
    /// Since when a controller is waited for.
    pub(super) waits_since: Option<Instant>,
    /// Whether the log says that a controller was waited for in vain.
    pub(super) has_said_so: bool,
    /// The controllers that are alive, as this one has heard last; none before that.
    pub(super) alive: Option<HashSet<Id>>,
}

/// How long a controller that does not tell what it knows is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

impl Channels {
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
