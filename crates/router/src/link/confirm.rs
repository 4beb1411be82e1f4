//! The confirmation of routers whose links were accepted while no controller answered.
//!
//! When a controller connects, each of these routers is confirmed, one after the other. The links of
//! a router that the controller refuses are closed.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use weft_circuit::now;

use super::Links;
use super::machine::Input;
use crate::seam::Unverified;

/// The pause between two questions, so that a controller that returns does not get all questions at
/// once.
const PAUSE: Duration = Duration::from_millis(20);
/// The interval at which controllers that do not answer are asked again.
const RETRY: Duration = Duration::from_secs(30);

impl Links {
    /// Asks controllers to confirm the routers that were accepted without an answer.
    pub(super) async fn confirm_again(self: Arc<Self>) {
        let mut controllers = self.control.controller_changes();
        loop {
            tokio::select! {
                changed = controllers.changed() => if changed.is_err() { return },
                () = self.unasked.notified() => {}
                () = sleep(RETRY) => {}
            }
            let unasked = self.core.lock().machine.confirmed.awaited(now());
            for (router, leaf) in unasked {
                if !self.confirm(router, leaf).await {
                    break;
                }
                sleep(PAUSE).await;
            }
        }
    }

    /// Asks about a router. False if no controller answers.
    async fn confirm(self: &Arc<Self>, router: String, leaf: String) -> bool {
        let asked = timeout(RETRY, self.control.verify_router(&router, &leaf));
        let answer = asked.await.unwrap_or_else(|_| Err(Unverified::NotAsked(String::new())));
        self.step(match answer {
            Ok(()) => Input::Confirmed { router, leaf },
            Err(Unverified::Refused(reason)) => Input::Refused { router, leaf, reason },
            Err(Unverified::NotAsked(_)) => return false,
        });
        true
    }
}
