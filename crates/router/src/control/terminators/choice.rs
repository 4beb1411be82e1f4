//! The controller to ask about a terminator, and the waits between attempts.

use std::sync::Arc;
use std::time::Duration;

use super::table::Registration;
use crate::control::shared::Core;
use crate::controllers::Controller;
use crate::seam::TerminatorHost;

/// The first and the longest wait before the next attempt, after a controller was busy or away.
pub(super) const WAITS: (Duration, Duration) =
    (Duration::from_millis(500), Duration::from_secs(30));

/// The wait after this many refusals of a terminator of the router itself: 2 s, then ever longer up to 2
/// minutes. The controller may have had no leader for a moment only, and policies may change.
pub(super) fn wait_after(refusals: u32) -> Duration {
    const FIRST: Duration = Duration::from_secs(2);
    const LONGEST: Duration = Duration::from_secs(120);
    FIRST.saturating_mul(1 << refusals.saturating_sub(1).min(10)).min(LONGEST)
}

/// The wait, half as long to half longer at random, so that many terminators are not asked for at once.
pub(super) fn jittered(wait: Duration) -> Duration {
    wait.mul_f64(0.5 + rand::random::<f64>())
}

/// The controller to ask, once there is one. An opaque session is known to one controller only.
pub(super) async fn controller_for(core: &Core, entry: &Registration) -> Arc<Controller> {
    let mut changes = core.controllers.changes();
    loop {
        changes.mark_unchanged();
        if let Some(controller) = controller_now(core, entry) {
            return controller;
        }
        if changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The controller to ask, if there is one.
pub(super) fn controller_now(core: &Core, entry: &Registration) -> Option<Arc<Controller>> {
    let owner = match &entry.state.lock().request.host {
        TerminatorHost::Sdk { session, .. } if session.legacy => session.controller.clone(),
        _ => None,
    };
    match owner {
        Some(owner) => core.controllers.get(&owner),
        None => core.controllers.for_changes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_of_the_router_is_hosted_soon_after_a_short_refusal() {
        let waits: Vec<u64> = (1..=8).map(|refusals| wait_after(refusals).as_secs()).collect();
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 120, 120]);
        assert_eq!(wait_after(u32::MAX), wait_after(8));
    }
}
