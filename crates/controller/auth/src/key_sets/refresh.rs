//! Fetches the key sets in use again, and forgets those of signers that are gone.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::time::Instant;
use weft_model::entity::ExtJwtSigner;

use crate::handle::{Auth, WeakAuth};

/// The interval of the task.
const INTERVAL: Duration = Duration::from_secs(60);
/// Fetches at the same time.
const AT_ONCE: usize = 8;

/// Fetches sets again while the controller runs.
pub(crate) async fn refresh(weak: WeakAuth) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(auth) = weak.upgrade() else { return };
        fetch_due(&auth).await;
    }
}

/// Fetches the sets whose time has come.
pub(super) async fn fetch_due(auth: &Auth) {
    let snapshot = auth.kernel().snapshot();
    let sets = Arc::clone(auth.key_sets());
    sets.retain(|id| snapshot.get::<ExtJwtSigner>(id).map(|signer| &**signer));
    let fetches = sets.due().into_iter().map(|(id, set)| {
        let sets = Arc::clone(&sets);
        async move {
            let _turn = set.turn.lock().await;
            set.begin(Instant::now());
            sets.fetch(&id, &set).await;
        }
    });
    futures::stream::iter(fetches).buffer_unordered(AT_ONCE).collect::<()>().await;
}
