//! A controller that has not known for long what others have written stands down: it takes no routers, so that these dial
//! through the others, until it has caught up (docs/protocol/control-plane.md 30).

use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_wire::edge_ctrl::data_model::{CurrentIndex, SealedRevision};

use crate::data_model::RouterModel;
use crate::plane::Plane;
use crate::standstill;

/// The interval at which the controller compares itself with what it has heard.
const LOOK: Duration = Duration::from_secs(1);

impl RouterModel {
    /// What routers are told of this model, with what they hand on to other controllers.
    pub(crate) fn current_index(&self) -> CurrentIndex {
        let revision = self.auth().kernel().snapshot().revision().0;
        let seal = self.auth().seal_revision(self.timeline(), revision);
        let sealed = seal.map(|seal| SealedRevision { revision, seal: seal.into() });
        CurrentIndex { index: self.index(), sealed }
    }

    /// A router hands on what another controller has told it.
    pub(crate) fn hear(&self, told: &CurrentIndex) {
        let is_heard = told.sealed.as_ref().is_some_and(|SealedRevision { revision, seal }| {
            self.auth().hear_revision(self.timeline(), *revision, seal)
        });
        if !is_heard {
            tracing::debug!("a revision without a good seal is ignored");
        }
    }
}

impl Plane {
    /// Notes at intervals that the process runs ([`Standstill`](crate::standstill::Standstill)).
    pub(crate) async fn note_that_it_runs(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(standstill::TICK);
        loop {
            ticks.tick().await;
            self.standstill.is_over_just_now(Instant::now());
        }
    }

    /// Watches whether others have written what this controller does not have, and disconnects its routers while that has
    /// been so for too long.
    pub(crate) async fn watch_others(self: Arc<Self>) {
        if !self.auth.is_member() {
            return;
        }
        let mut ticks = tokio::time::interval(LOOK);
        loop {
            ticks.tick().await;
            self.auth.compare_revision(Instant::now()).await;
            self.auth.compare_clock();
            self.judge_what_was_heard();
            if self.auth.is_outdated() {
                // A router that has passed the gate a moment ago is found the next time.
                for router in self.network.routers().all() {
                    router
                        .channel
                        .close("the controller knows less than others and cannot catch up");
                }
            }
        }
    }
}
