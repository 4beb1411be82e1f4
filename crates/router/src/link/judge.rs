//! The judgement of open links when a controller names other keys of their router than before.
//!
//! A link proves its router once, when it opens. The key that proved it may have been taken from the router since, and
//! the router may have got another one: a link that shows the former key is of nobody then.

use std::sync::Arc;

use weft_circuit::now;
use weft_identity::ExpectedRouter;

use super::{
    Links,
    live::LiveLink,
    registry::{News, Registry},
};
use crate::seam::{ControllerId, Peer};

/// The reason for closing a link that shows a former key of its router.
const OTHER_KEY: &str = "the key of the other end is not one of its router's keys any more";

impl Registry {
    /// Takes the reports of a controller about routers.
    pub(super) fn take(
        &mut self,
        from: &ControllerId,
        news: &[Peer],
        mut new_id: impl FnMut() -> String,
    ) -> News {
        let at = now();
        let mut all = News::default();
        for peer in news {
            let before = self.keys_of(&peer.id).map(<[_]>::to_vec);
            all.closing.extend(self.peer(from, peer, at, &mut new_id));
            if before.as_deref() != self.keys_of(&peer.id) {
                all.other_keys.push(peer.id.clone());
            }
        }
        all
    }
}

impl Links {
    /// Judges the links with a router of which a controller names other keys than before. A link that this router dialed
    /// is closed unless its other end has one of these keys; it is dialed again. Of a link that the other router dialed,
    /// with the key that it shows to controllers, these are asked.
    pub(super) fn judge_again(&self, peer: &str) {
        let all: Vec<_> = self.live.lock().values().cloned().collect();
        for live in all.iter().filter(|live| *live.link.peer == *peer) {
            self.judge(live);
        }
    }

    /// Judges a link by the keys of its router that a controller names now, if it names any.
    pub(super) fn judge(&self, live: &Arc<LiveLink>) {
        let peer = &live.link.peer;
        let keys = self.registry.lock().keys_of(peer).map(<[_]>::to_vec);
        let (Some(keys), Some(channel)) = (keys, live.channel()) else { return };
        let expected = ExpectedRouter::new(&**peer, keys);
        let Err(problem) = expected.prove(&channel.peer().certificates) else { return };
        match &live.leaf {
            Some(leaf) if self.confirmed.ask_again(peer, leaf) => self.unasked.notify_one(),
            _ => {
                tracing::warn!(
                    link = %live.link.id, %peer, %problem,
                    "a link is closed: a controller names other keys of its router than before; it is dialed again"
                );
                live.close(OTHER_KEY);
            }
        }
    }
}
