//! Sends routers news about each other and about this controller.

use std::collections::BTreeSet;
use std::sync::Arc;

use weft_channel::SendError;
use weft_model::Id;
use weft_model::entity::Router;
use weft_wire::ctrl::{PeerState, PeerStateChange, PeerStateChanges};
use weft_wire::{Message, ProtoBody as _};

use crate::peers::{GATHERING, RETRY, Telling};
use crate::plane::Plane;

impl Plane {
    /// Sends news after every change, and repeats failed ones at intervals.
    pub(crate) async fn tell_peers(self: Arc<Self>) {
        loop {
            let _ = tokio::time::timeout(RETRY, self.peers.wake.notified()).await;
            tokio::time::sleep(GATHERING).await;
            let routers = self.network.routers();
            let connected = || routers.all().iter().map(|router| router.id.clone()).collect();
            let Telling { all, alike, own } = self.peers.take(connected);
            if !alike.is_empty() {
                // Most routers get the same message, which is made once.
                let message = self.states_of(&all);
                for router in alike {
                    self.tell_peer(&router, message.clone(), &all);
                }
            }
            for (router, changed) in own {
                self.tell_peer(&router, self.states_of(&changed), &changed);
            }
        }
    }

    fn states_of(&self, changed: &BTreeSet<Id>) -> Message {
        PeerStateChanges { changes: changed.iter().map(|id| self.state_of(id)).collect() }
            .to_message()
    }

    fn tell_peer(&self, router: &Id, message: Message, changed: &BTreeSet<Id>) {
        let Some(live) = self.network.routers().get(router.as_str()) else { return };
        match live.channel.try_send(message) {
            // A router whose channel is closed gets everything when it connects again.
            Ok(()) | Err(SendError::Closed(_)) => {}
            Err(problem) => {
                tracing::debug!(%router, %problem, "news about other routers were not sent to a router; it is tried again");
                self.peers.put_back(router, changed.clone());
            }
        }
    }

    /// The present state of a router.
    fn state_of(&self, id: &Id) -> PeerStateChange {
        let change = |state: PeerState| PeerStateChange {
            id: id.to_string(),
            state: state.into(),
            ..PeerStateChange::default()
        };
        match self.network.routers().get(id.as_str()) {
            Some(live) => PeerStateChange {
                version: live.version.version.clone(),
                listeners: live.listeners(),
                ..change(PeerState::Healthy)
            },
            None if self.auth.snapshot().get::<Router>(id).is_some() => {
                change(PeerState::Unhealthy)
            }
            None => change(PeerState::Removed),
        }
    }
}
