//! Background work: fetches key sets of external signers again, ends sessions and grants, and drops posture data, former keys, traces of
//! identities and revocations whose time is over.

use std::time::Duration;

use weft_kernel::events::EndCause;
use weft_model::Timestamp;

use super::handle::{Auth, WeakAuth};
use super::key_sets::refresh::refresh;
use super::sessions::follow::follow_model;
use super::sessions::stands::stands;
use super::{bearer, lapsed, members, revocations, router_certificate, signer_warnings};
use crate::factors::is_complete;

/// The interval at which sessions are checked for their end (docs/protocol/auth.md 10.3).
const ENDS: Duration = Duration::from_secs(1);
/// The other work is done once in this many of those intervals.
const SWEEP: u32 = 5;

/// Brings loaded sessions in line with the model, and follows the model from now on.
pub fn begin(auth: &Auth) {
    let snapshot = auth.kernel().snapshot();
    auth.sessions().upgrade(&snapshot);
    router_certificate::warn_of_old_names(auth, &snapshot);
    signer_warnings::warn(auth, &snapshot);
    // The last run may have stopped between a change of the model and the end of the sessions that
    // depend on it.
    let now = auth.kernel().now();
    match auth.is_member() {
        // They are judged when it is certain what other controllers have done.
        true => {
            auth.sessions().count_whole(|session| !is_complete(&snapshot, session));
            auth.sessions().judge_soon(now);
        }
        false => {
            auth.sessions().retain(&EndCause::Away, |session| stands(&snapshot, session, now));
            auth.sessions().wait_again(|session| !is_complete(&snapshot, session));
        }
    }
    auth.end_of_stolen_keys();
    auth.sessions().tell_away();
    auth.sessions().follow_others();
    // What others know is heard when their channels are open.
    if auth.is_member() && auth.kernel().settings().joins {
        let _ = auth.heard_all_postures(false);
    }
    tokio::spawn(follow_model(auth.weak()));
    tokio::spawn(members::follow_keys(auth.weak()));
    tokio::spawn(members::network_key::follow(auth.weak()));
    tokio::spawn(sweep(auth.weak()));
    tokio::spawn(revocations::purge(auth.weak()));
    tokio::spawn(bearer::revoke::follow_ends(auth.weak()));
    tokio::spawn(lapsed::enable(auth.weak()));
    tokio::spawn(refresh(auth.weak()));
}

/// Ends idle sessions, and stores the activity of the others at intervals.
async fn sweep(weak: WeakAuth) {
    let mut ticks = tokio::time::interval(ENDS);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for tick in (0..SWEEP).cycle() {
        ticks.tick().await;
        let Some(auth) = weak.upgrade() else { return };
        // It may look at all sessions, and many may end at once.
        // One time for the question and the judgement: a session that becomes due in between, for example because the
        // process was paused, is judged at the next tick.
        let agreed = auth.agreed_now();
        let has_due = agreed.is_some_and(|now| auth.sessions().has_due(now));
        let is_current = !has_due || auth.knows_latest().await;
        let sweep = move || sweep_once(&auth, tick == 0, (agreed, is_current));
        let swept = tokio::task::spawn_blocking(sweep).await;
        if let Err(error) = swept {
            tracing::warn!(%error, "sessions and keys could not be looked at; it is tried again");
        }
    }
}

/// Ends what is over at the time on which the controllers agree, if there is one and the model is current.
fn sweep_once(auth: &Auth, is_all: bool, (agreed, is_current): (Option<Timestamp>, bool)) {
    let snapshot = auth.kernel().snapshot();
    match (agreed, is_current) {
        (Some(now), true) => auth.sessions().end_due(&snapshot, now),
        (Some(now), false) => auth.sessions().put_off_due(now),
        (None, _) => {}
    }
    auth.sessions().end_crowded_out(|session| !is_complete(&snapshot, session));
    if is_all {
        auth.sessions().sweep(auth.kernel().now());
        auth.kernel().traces().sweep(auth.kernel().now());
        auth.sweep_postures();
        auth.unfinished().sweep();
        auth.sweep_keys();
    }
}
