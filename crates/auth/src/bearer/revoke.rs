//! Tells routers that the tokens of an ended session count no more (docs/protocol/auth.md 16).
//!
//! A session that ends before its tokens leaves a note in the store, in the same order of writes as its own end. This
//! task turns the notes into revocations of the model, which routers follow, and removes the notes afterwards: a kill in
//! between loses nothing.
//!
//! Each revocation is a row of the model that every router gets. An identity whose sessions end early again and again gets
//! one row for all of its tokens instead of further ones, and its other sessions by tokens log in again. Many sessions that
//! end together get one row with a list of them. Routers of other programs know no lists: for them there is a row for each
//! identity.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure};
use weft_model::entity::{Revocation, RevocationType};
use weft_model::{Base, Id, Timestamp, session_list};

use super::unrevoked::{Ended, JUMP, Pending, Turn};
use crate::handle::{Auth, WeakAuth};

/// Time until a change that failed is tried again, and until the next look at routers that have connected.
const AGAIN: Duration = Duration::from_secs(1);
/// A session whose tokens ended within this time ended with them.
const WITH_TOKENS: Duration = Duration::from_secs(60);
/// The interval at which sessions of lists are forgotten whose tokens have ended.
const EXPIRY: Duration = Duration::from_secs(60);

/// Revokes the tokens of ended sessions as long as the controller runs.
pub(crate) async fn follow_ends(weak: WeakAuth) {
    let mut expired = Instant::now();
    loop {
        let Some(auth) = weak.upgrade() else { return };
        let done = match auth.sessions().unrevoked().turn() {
            Turn::Each(ended) => revoke_each(&auth, ended).await.map(|()| true),
            Turn::Together(ended) => revoke_together(&auth, ended).await.map(|()| true),
            Turn::Nothing => tell_others(&auth).await,
        };
        let live = auth.settings().store.live();
        if expired.elapsed() > EXPIRY {
            expired = Instant::now();
            auth.sessions().unrevoked().expire(live, auth.now());
        }
        match done {
            Ok(true) => tokio::task::yield_now().await,
            Ok(false) => {
                let unrevoked = Arc::clone(auth.sessions().unrevoked());
                drop(auth);
                // The controller may stop meanwhile, which nobody tells.
                let _ = tokio::time::timeout(AGAIN, unrevoked.more.notified()).await;
            }
            Err(error) => {
                tracing::warn!(%error, "the tokens of ended sessions are not revoked yet, and routers may accept them; it is tried again");
                drop(auth);
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// Whether the tokens of an ended session may be good somewhere.
fn may_be_good(ended: &Pending, now: Timestamp) -> bool {
    let since = now.since(ended.end);
    ended.end > now || (WITH_TOKENS..JUMP).contains(&since)
}

/// A revocation of this kind.
fn revocation(id: &Id, kind: RevocationType, now: Timestamp, end: Timestamp) -> Revocation {
    Revocation {
        base: Base::new(id.clone(), now),
        revocation_type: kind,
        expires_at: end,
        ..Revocation::default()
    }
}

/// Writes the revocations of these sessions, as far as their access tokens have not expired. Refresh tokens need none: the
/// controller knows the session no more.
async fn revoke_each(auth: &Auth, ended: Ended) -> Result<(), Failure> {
    let now = auth.now();
    let last = now.plus(auth.settings().durations.access_token);
    let mut due: BTreeMap<Id, Revocation> = BTreeMap::new();
    let current = ended.iter().filter(|(_, it)| may_be_good(it, now));
    for (session, Pending { identity, end, is_counted }) in current {
        let row = match is_counted.unwrap_or(true) {
            true => revocation(session, RevocationType::ApiSession, now, last.min(*end)),
            false => of_identity(identity, now, last),
        };
        due.insert(row.base.id.clone(), row);
    }
    write(auth, due.into_values().collect()).await?;
    auth.sessions().unrevoked().done(auth.settings().store.live(), &ended);
    Ok(())
}

/// Writes one revocation with a list of these sessions.
async fn revoke_together(auth: &Auth, ended: Ended) -> Result<(), Failure> {
    let now = auth.now();
    let last = now.plus(auth.settings().durations.access_token);
    let (mut keys, mut due, mut end) = (Vec::new(), Vec::new(), now);
    for (session, pending) in ended.iter().filter(|(_, it)| may_be_good(it, now)) {
        end = end.max(last.min(pending.end));
        match session_list::key(session.as_str()) {
            Some(key) => keys.push(key),
            None => due.push(revocation(session, RevocationType::ApiSession, now, end)),
        }
    }
    if !keys.is_empty() {
        let count = keys.len();
        let list = auth.ids().token();
        due.push(Revocation {
            sessions: session_list::pack(keys),
            ..revocation(&list, RevocationType::ApiSession, now, end)
        });
        tracing::info!(
            count,
            "sessions by tokens have ended together; routers are told in one list"
        );
    }
    write(auth, due).await?;
    auth.sessions().unrevoked().listed(ended);
    Ok(())
}

/// Tells routers that know no lists of sessions in lists. True if there may be more to tell.
async fn tell_others(auth: &Auth) -> Result<bool, Failure> {
    let others = !auth.online().all_know_session_lists();
    let ended = auth.sessions().unrevoked().for_others(others);
    if ended.is_empty() {
        return Ok(false);
    }
    let now = auth.now();
    let last = now.plus(auth.settings().durations.access_token);
    let mut by_identity: BTreeMap<&Id, Vec<(&Id, &Pending)>> = BTreeMap::new();
    for (session, pending) in ended.iter().filter(|(_, it)| may_be_good(it, now)) {
        by_identity.entry(&pending.identity).or_default().push((session, pending));
    }
    let mut due = Vec::new();
    for (identity, own) in by_identity {
        // An identity with another session by tokens goes on with that.
        let others = auth.sessions().of_identity(identity);
        let one_by_one = others.iter().any(|session| session.tokens.is_some());
        let end = |pending: &Pending| last.min(pending.end);
        match one_by_one {
            true => due.extend(own.iter().map(|(session, pending)| {
                revocation(session, RevocationType::ApiSession, now, end(pending))
            })),
            false => {
                let end = own.iter().map(|(_, pending)| end(pending)).max().unwrap_or(last);
                due.push(of_identity(identity, now, end));
            }
        }
    }
    write(auth, due).await?;
    auth.sessions().unrevoked().done(auth.settings().store.live(), &ended);
    Ok(true)
}

/// A revocation of all tokens of an identity until now.
fn of_identity(identity: &Id, now: Timestamp, end: Timestamp) -> Revocation {
    let row = revocation(identity, RevocationType::Identity, now, end);
    Revocation { issued_before: Some(now), ..row }
}

/// Writes revocations. One of an identity that is there covers what it covered.
async fn write(auth: &Auth, due: Vec<Revocation>) -> Result<(), Failure> {
    if due.is_empty() {
        return Ok(());
    }
    let decide = move |decision: &mut Decision<'_>| {
        for row in &due {
            let mut row = row.clone();
            if let Some(earlier) = decision.tip().get::<Revocation>(&row.base.id) {
                row.base = Base { updated_at: decision.now(), ..earlier.base.clone() };
                row.expires_at = row.expires_at.max(earlier.expires_at);
                row.issued_before = row.issued_before.max(earlier.issued_before);
            }
            decision.put(row);
        }
        Ok(())
    };
    auth.decide(&Caller::own("end of sessions"), decide).await.map(drop)
}
