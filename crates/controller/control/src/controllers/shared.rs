//! The channels that there are.

use std::sync::{Arc, OnceLock};

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
    pub(super) dialed: HashMap<Id, ChannelHandle>,
    /// The channels that others have dialed.
    pub(super) accepted: Vec<Accepted>,
    /// The other controllers that are alive, as far as this one has heard; none while nobody says that.
    pub(super) alive: Option<HashSet<Id>>,
}

impl Channels {
    /// Whether every other controller that is alive has told all that it knew.
    pub(super) fn has_heard_all(&self) -> bool {
        let told = |id: &Id| self.accepted.iter().any(|it| it.controller == *id && it.has_told_all);
        self.alive.as_ref().is_some_and(|alive| alive.iter().all(told))
    }
}

impl Controllers {
    /// Closes all channels: the controller stops.
    pub(crate) fn close(&self) {
        let state = self.state.lock();
        let accepted = state.accepted.iter().map(|it| &it.channel);
        for channel in state.dialed.values().chain(accepted) {
            channel.close("the controller is stopping");
        }
    }
}

/// A channel that another controller has dialed.
pub(super) struct Accepted {
    pub(super) controller: Id,
    pub(super) channel: ChannelHandle,
    pub(super) leaf: CertificateDer<'static>,
    /// Whether the controller has told all that it knew when it had dialed.
    pub(super) has_told_all: bool,
}
