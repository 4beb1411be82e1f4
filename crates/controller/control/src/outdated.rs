//! A controller that has not known for long what others have written stands down: it takes no routers, so that these dial
//! through the others, until it has caught up (docs/protocol/control-plane.md 30).

use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_wire::edge_ctrl::data_model::CurrentIndex;

use crate::data_model::RouterModel;
use crate::plane::Plane;

/// The interval at which the controller compares itself with what it has heard.
const LOOK: Duration = Duration::from_secs(1);

impl RouterModel {
    /// What routers are told of an index of this model, with the seal by which other controllers recognise it.
    pub(crate) fn current_index(&self, index: u64) -> CurrentIndex {
        CurrentIndex { index, seal: self.auth().seal_index(self.timeline(), index).into() }
    }

    /// A router hands on what another controller has told it.
    pub(crate) fn hear(&self, told: &CurrentIndex) {
        if !self.auth().hear_index(self.timeline(), told.index, &told.seal) {
            tracing::debug!(index = told.index, "an index without a good seal is ignored");
        }
    }
}

impl Plane {
    /// Watches whether others have written what this controller does not have, and disconnects its routers while that has
    /// been so for too long.
    pub(crate) async fn watch_others(self: Arc<Self>) {
        if !self.auth.is_member() {
            return;
        }
        let mut ticks = tokio::time::interval(LOOK);
        loop {
            ticks.tick().await;
            // An index is the revision of a change, so that a controller with that revision has it.
            let own = self.auth.kernel().snapshot().revision();
            self.auth.compare_index(own.0, Instant::now());
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
