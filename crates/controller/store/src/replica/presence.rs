//! The announcements of the controllers that share a store: each says that it is alive while it runs, and hears of the
//! others.

use std::sync::Arc;

use tokio::sync::watch;

use super::driver::REQUEST;
use super::shared_log::{ALIVE, SharedLog};
use crate::standing::{Alive, Presence, ReplicaState};
use crate::{Embedded, Store as _};

/// Says every few seconds that the controller is alive, and hears which others are.
pub(super) async fn announce(
    log: Arc<dyn SharedLog>,
    (copy, states): (Embedded, watch::Receiver<ReplicaState>),
    mut own: Presence,
    alive: watch::Sender<Alive>,
) {
    loop {
        own.revision = *copy.heads().borrow();
        own.writes = states.borrow().obstacle.is_none();
        let told = async {
            log.announce(own.clone()).await?;
            log.announced().await
        };
        // Whoever hears of nobody says of nobody that it is alive.
        let told = tokio::time::timeout(REQUEST, told).await;
        let heard = match told.ok().and_then(Result::ok) {
            Some(controllers) => Alive { controllers, is_heard: true },
            None => Alive { controllers: vec![own.clone()], is_heard: false },
        };
        alive.send_if_modified(|known| {
            *known != heard && {
                *known = heard;
                true
            }
        });
        tokio::time::sleep(ALIVE / 3).await;
    }
}
