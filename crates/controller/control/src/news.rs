//! Sends routers news about each other and about this controller.

use std::collections::BTreeSet;
use std::sync::Arc;

use weft_channel::SendError;
use weft_model::Id;
use weft_model::entity::Router;
use weft_wire::ctrl::{Listener, PeerState, PeerStateChange, PeerStateChanges};
use weft_wire::{Message, ProtoBody as _};

use crate::peers::{GATHERING, RETRY, Telling};
use crate::plane::Plane;

/// Most bytes of the changes in one message, unless one change has more. Routers read messages of up
/// to 16 MiB.
const MAX_PART: usize = 1 << 20;

/// A message, and the routers that it is about.
struct Part {
    message: Message,
    about: Vec<Id>,
}

/// The bytes of a change in a message, somewhat more than its encoding has.
fn size(change: &PeerStateChange) -> usize {
    let of = |text: &String| text.len() + 8;
    let listener = |one: &Listener| {
        let names = of(&one.address) + of(&one.protocol) + of(&one.local_binding);
        8 + names + one.groups.iter().map(of).sum::<usize>()
    };
    let listeners = change.listeners.iter().map(listener).sum::<usize>();
    let keys = change.server_keys.iter().map(of).sum::<usize>();
    16 + of(&change.id) + of(&change.version) + listeners + keys
}

/// Changes in as few messages as their bytes allow.
fn parts(changes: impl Iterator<Item = PeerStateChange>) -> Vec<Part> {
    let (mut parts, mut gathered, mut bytes) = (Vec::new(), Vec::new(), 0);
    let part = |changes: Vec<PeerStateChange>| Part {
        about: changes.iter().map(|change| Id::new(&change.id)).collect(),
        message: PeerStateChanges { changes }.to_message(),
    };
    for change in changes {
        let size = size(&change);
        if bytes + size > MAX_PART && !gathered.is_empty() {
            parts.push(part(std::mem::take(&mut gathered)));
            bytes = 0;
        }
        bytes += size;
        gathered.push(change);
    }
    parts.push(part(gathered));
    parts
}

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
                let parts = self.states_of(&all);
                alike.iter().for_each(|router| self.tell_peer(router, &parts));
            }
            for (router, changed) in own {
                self.tell_peer(&router, &self.states_of(&changed));
            }
        }
    }

    fn states_of(&self, changed: &BTreeSet<Id>) -> Vec<Part> {
        parts(changed.iter().map(|id| self.state_of(id)))
    }

    fn tell_peer(&self, router: &Id, parts: &[Part]) {
        let Some(live) = self.network.routers().get(router.as_str()) else { return };
        for (at, part) in parts.iter().enumerate() {
            match live.channel.try_send(part.message.clone()) {
                Ok(()) => {}
                // A router whose channel is closed gets everything when it connects again.
                Err(SendError::Closed(_)) => return,
                Err(problem) => {
                    tracing::debug!(%router, %problem, "news about other routers were not sent to a router; it is tried again");
                    let unsent = parts.iter().skip(at).flat_map(|part| part.about.iter().cloned());
                    return self.peers.put_back(router, unsent.collect());
                }
            }
        }
    }

    /// The present state of a router. A disabled router counts as removed, so that the others close
    /// their links with it.
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
                server_keys: live.keys(),
                ..change(PeerState::Healthy)
            },
            None if self
                .auth
                .kernel()
                .snapshot()
                .get::<Router>(id)
                .is_some_and(|one| !one.disabled) =>
            {
                change(PeerState::Unhealthy)
            }
            None => change(PeerState::Removed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_about_many_routers_are_several_messages() {
        let long = Listener { address: "a".repeat(30_000), ..Listener::default() };
        let change = |number: usize| PeerStateChange {
            id: format!("r{number}"),
            listeners: vec![long.clone()],
            ..PeerStateChange::default()
        };
        let parts = parts((0..100).map(change));
        assert_eq!(parts.len(), 3);
        let read = |part: &Part| PeerStateChanges::from_message(&part.message).unwrap().changes;
        let told: Vec<String> = parts.iter().flat_map(read).map(|change| change.id).collect();
        assert_eq!(told.len(), 100);
        assert!(parts.iter().all(|part| part.message.body.len() <= MAX_PART));
        let about: Vec<String> =
            parts.iter().flat_map(|part| &part.about).map(Id::to_string).collect();
        assert_eq!(about, told);
    }
}
