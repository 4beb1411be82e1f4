//! The confirmation of routers whose links were accepted while no controller answered.
//!
//! When a controller connects, each of these routers is confirmed, one after the other. The links of
//! a router that the controller refuses are closed.

use std::{sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};
use weft_circuit::now;

use super::Links;
use crate::seam::Unverified;

/// The pause between two questions, so that a controller that returns does not get all questions at
/// once.
const PAUSE: Duration = Duration::from_millis(20);
/// The interval at which controllers that do not answer are asked again.
const RETRY: Duration = Duration::from_secs(30);
/// The reason for closing a link whose router was refused.
pub(super) const REFUSED_LATER: &str = "a controller refuses the router";

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
            for (router, leaf) in self.confirmed.awaited(now()) {
                if !self.confirm(&router, &leaf).await {
                    break;
                }
                sleep(PAUSE).await;
            }
        }
    }

    /// Asks about a router. False if no controller answers.
    async fn confirm(&self, router: &str, leaf: &str) -> bool {
        let asked = timeout(RETRY, self.control.verify_router(router, leaf));
        match asked.await.unwrap_or_else(|_| Err(Unverified::NotAsked(String::new()))) {
            Ok(()) => self.confirmed.note(router, leaf, now()),
            Err(Unverified::Refused(reason)) => self.refused_later(router, leaf, &reason),
            Err(Unverified::NotAsked(_)) => return false,
        }
        true
    }

    /// Handles a controller's refusal of a router. If the router was accepted without an answer before,
    /// its links are closed.
    pub(super) fn refused_later(&self, router: &str, leaf: &str, reason: &str) {
        if !self.confirmed.refuse(router, leaf, now()) {
            return;
        }
        let is_of = |shown: &Option<String>| shown.as_deref() == Some(leaf);
        let all: Vec<_> = self.live.lock().values().cloned().collect();
        for live in all.iter().filter(|live| *live.link.peer == *router && is_of(&live.leaf)) {
            tracing::warn!(
                link = %live.link.id, %router, %reason,
                "a link is closed: it was accepted while no controller could be asked, or its router has got \
                 another key since, and now a controller refuses its certificate"
            );
            live.close(REFUSED_LATER);
        }
    }
}
