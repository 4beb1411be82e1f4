//! Stores the listeners on which a router takes controllers with the router's entity.

use std::sync::Arc;
use std::time::Duration;

use weft_kernel::Caller;
use weft_model::entity::Router;
use weft_network::ctrl_listeners::same;

use super::session::RouterSession;

/// Longest wait before a failed write is tried again, in seconds.
const LONGEST_WAIT: u64 = 60;

/// Stores the listeners that the router told, if they differ from the stored ones, while this
/// connection is the router's current one.
pub async fn keep(session: &Arc<RouterSession>) {
    let (auth, router) = (&session.plane.auth, &session.router);
    for attempt in 1.. {
        let known = session.entity();
        if known.is_none_or(|known| same(&known.ctrl_chan_listeners, &router.ctrl_listeners)) {
            return;
        }
        let (id, told) = (router.id.clone(), router.ctrl_listeners.clone());
        let caller = Caller::router(&router.id, "connect");
        let decided = auth.kernel().decide(&caller, move |decision| {
            let Some(known) = decision.tip().get::<Router>(&id) else { return Ok(()) };
            let mut changed = (**known).clone();
            changed.ctrl_chan_listeners.clone_from(&told);
            changed.base.updated_at = decision.now();
            decision.put(changed);
            Ok(())
        });
        let Err(problem) = decided.await else { return };
        tracing::warn!(router = %router.id, %problem, attempt, "the router's listeners for controllers were not stored; it is tried again");
        tokio::time::sleep(Duration::from_secs(LONGEST_WAIT.min(attempt))).await;
    }
}
