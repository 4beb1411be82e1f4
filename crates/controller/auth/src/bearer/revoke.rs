//! Tells routers that the tokens of an ended session count no more (docs/protocol/auth.md 16).
//!
//! A session that ends before its tokens leaves a note in the store, in the same order of writes as its own end. This
//! task turns the notes into revocations of the model, which routers follow, and removes the notes afterwards: a kill in
//! between loses nothing.
//!
//! Each revocation is a row of the model that every router gets. An identity whose sessions end early again and again gets
//! one row for all of its tokens instead of further ones, and its other sessions by tokens log in again. Many sessions that
//! end together get one row with a list of them. Routers of other programs know no lists: for them there is a row for each
//! identity, in batches at a pace.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure, Result};
use weft_model::entity::{Revocation, RevocationType};
use weft_model::{Base, Id, Timestamp, session_list};

use super::unrevoked::{Ended, EndedTogether, JUMP, Pending, RevocationBatch};
use crate::handle::{Auth, WeakAuth};

/// Time until a change that failed is tried again, and until the next look at routers that have connected.
const AGAIN: Duration = Duration::from_secs(1);
/// A session whose tokens ended within this time ended with them.
const WITH_TOKENS: Duration = Duration::from_secs(60);
/// By how much the clock of another controller may be ahead before sessions are revoked one by one.
const BEHIND: Duration = Duration::from_secs(1);
/// A clock that is further ahead than this is wrong, or was wrong some hours ago.
const AHEAD: Duration = Duration::from_secs(60);
/// The interval at which sessions of lists are forgotten whose tokens have ended.
const EXPIRY: Duration = Duration::from_secs(60);

/// Revokes the tokens of ended sessions as long as the controller runs.
pub(crate) async fn follow_ends(weak: WeakAuth) {
    let (mut expired, mut has_failed) = (Instant::now(), false);
    loop {
        let Some(auth) = weak.upgrade() else { return };
        let done = match auth.sessions().unrevoked().next_batch() {
            RevocationBatch::Each(ended) => {
                revoke_each(&auth, ended).await.map(|()| Duration::ZERO)
            }
            RevocationBatch::Together(ended) => {
                revoke_together(&auth, ended).await.map(|()| Duration::ZERO)
            }
            RevocationBatch::Nothing => tell_others(&auth).await,
        };
        if expired.elapsed() > EXPIRY {
            expired = Instant::now();
            expire(&auth).await;
        }
        has_failed &= done.is_err();
        match done {
            Ok(Duration::ZERO) => tokio::task::yield_now().await,
            Ok(wait) => {
                let unrevoked = Arc::clone(auth.sessions().unrevoked());
                drop(auth);
                // The controller may stop meanwhile, which nobody tells.
                let _ = tokio::time::timeout(wait, unrevoked.more.notified()).await;
            }
            Err(error) if std::mem::replace(&mut has_failed, true) => {
                tracing::debug!(%error, "the tokens of ended sessions are still not revoked");
                drop(auth);
                tokio::time::sleep(AGAIN).await;
            }
            Err(error) => {
                tracing::warn!(%error, "the tokens of ended sessions are not revoked yet, and routers may accept them; it is tried again");
                drop(auth);
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// Forgets sessions of lists whose tokens have ended. There may be a million.
async fn expire(auth: &Auth) {
    let auth = auth.clone();
    let expired = tokio::task::spawn_blocking(move || {
        auth.sessions()
            .unrevoked()
            .expire(auth.kernel().settings().store.live(), auth.kernel().now());
    });
    if let Err(error) = expired.await {
        tracing::warn!(%error, "sessions of lists whose tokens have ended are not forgotten yet; it is tried again");
    }
}

/// Whether the clock seems to be ahead of the right one, by its readings of the last hours, or behind that of another
/// controller, which may have issued tokens that a revocation until now would not cover.
fn is_uncertain(auth: &Auth, now: Timestamp) -> bool {
    let is_behind = auth.kernel().latest_issue().since(now) > BEHIND;
    is_behind || auth.settled_now().is_some_and(|settled| now.since(settled) > AHEAD)
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

/// Until when the tokens of ended sessions are good somewhere. Refresh tokens of weft need no revocation: the controller
/// knows the session no more. Those of a former program would begin it again.
#[derive(Clone, Copy)]
struct LastTokens {
    /// The end of access tokens that are issued now.
    access: Timestamp,
    /// The end of the tokens of a former program.
    former: Option<Timestamp>,
}

impl LastTokens {
    fn of(auth: &Auth, now: Timestamp) -> Self {
        let access = now.plus(auth.kernel().settings().durations.access_token);
        Self { access, former: auth.last_earlier_token(now) }
    }

    /// The end of the last token of any session.
    fn latest(self) -> Timestamp {
        self.former.map_or(self.access, |former| former.max(self.access))
    }

    /// The end of the last token of a session whose own tokens end then.
    fn of_session(self, end: Timestamp) -> Timestamp {
        self.former.map_or(self.access.min(end), |former| former.max(self.access.min(end)))
    }

    /// Whether the tokens of an ended session, the last of which ends then, may be good somewhere.
    fn may_be_good(self, end: Timestamp, now: Timestamp) -> bool {
        self.former.is_some() || end > now || (WITH_TOKENS..JUMP).contains(&now.since(end))
    }
}

/// Revokes a session of a former program of which nothing is known here.
pub(crate) async fn revoke_unknown(auth: &Auth, session: &Id, identity: &Id) -> Result<()> {
    let now = auth.kernel().now();
    let Some(end) = auth.last_earlier_token(now) else { return Ok(()) };
    let row = match auth.sessions().unrevoked().count(identity) {
        true => revocation(session, RevocationType::ApiSession, now, end),
        false => of_identity(identity, now, end),
    };
    write(auth, vec![row]).await
}

/// Writes the revocations of these sessions, as far as their tokens have not expired.
async fn revoke_each(auth: &Auth, ended: Ended) -> Result<()> {
    let now = auth.kernel().now();
    let last = LastTokens::of(auth, now);
    let (mut due, is_uncertain) = (BTreeMap::<Id, Revocation>::new(), is_uncertain(auth, now));
    let current = ended.iter().filter(|(_, it)| last.may_be_good(it.end, now));
    for (session, Pending { identity, end, is_counted }) in current {
        let row = match is_counted.unwrap_or(true) {
            // By a clock that is ahead, a revocation of the identity would cover logins that are still to come.
            false if *end > now && !is_uncertain => of_identity(identity, now, last.latest()),
            _ => revocation(session, RevocationType::ApiSession, now, last.of_session(*end)),
        };
        due.insert(row.base.id.clone(), row);
    }
    write(auth, due.into_values().collect()).await?;
    auth.sessions().unrevoked().done(auth.kernel().settings().store.live(), &ended);
    Ok(())
}

/// Writes one revocation with a list of these sessions. The list is made, and its sessions are noted, on threads for long
/// work.
async fn revoke_together(auth: &Auth, ended: Arc<EndedTogether>) -> Result<()> {
    let now = auth.kernel().now();
    let last = LastTokens::of(auth, now);
    let count = ended.len();
    let fault = |error: tokio::task::JoinError| {
        Failure::unhandled(format!(
            "{count} sessions that ended together cannot be listed: {error}"
        ))
    };
    let (own, listed) = (auth.clone(), Arc::clone(&ended));
    let due = tokio::task::spawn_blocking(move || list_of(&own, &listed, now, last));
    write(auth, due.await.map_err(fault)?).await?;
    let auth = auth.clone();
    let noted = tokio::task::spawn_blocking(move || {
        auth.sessions().unrevoked().listed(
            auth.kernel().settings().store.live(),
            &ended,
            last.latest(),
        );
    });
    noted.await.map_err(fault)
}

/// The revocation with a list of these sessions, and those of sessions that no list can have. From the end of the last
/// access token on nobody has to be told.
fn list_of(
    auth: &Auth,
    ended: &EndedTogether,
    now: Timestamp,
    last: LastTokens,
) -> Vec<Revocation> {
    let (mut keys, mut due, mut until) = (Vec::new(), Vec::new(), now);
    for (session, pending) in ended {
        let end = last.of_session(pending.end);
        if !last.may_be_good(end, now) {
            continue;
        }
        until = until.max(end);
        match session_list::key(session.as_str()) {
            Some(key) => keys.push(key),
            None => due.push(revocation(session, RevocationType::ApiSession, now, end)),
        }
    }
    if !keys.is_empty() {
        let count = keys.len();
        let list = auth.kernel().ids().token();
        due.push(Revocation {
            sessions: session_list::pack(keys),
            ..revocation(&list, RevocationType::ApiSession, now, until)
        });
        tracing::info!(
            count,
            "sessions by tokens have ended together; routers are told in one list"
        );
    }
    due
}

/// Tells routers that know no lists of some sessions in lists. Returns the time until the next look at those that are left.
async fn tell_others(auth: &Auth) -> Result<Duration> {
    let others = !auth.kernel().online().all_know_session_lists();
    let ended = match auth.sessions().unrevoked().for_others(others, Instant::now()) {
        Ok(ended) if ended.is_empty() => return Ok(AGAIN),
        Ok(ended) => ended,
        Err(wait) => return Ok(wait),
    };
    write(auth, rows_for_others(auth, &ended)).await?;
    auth.sessions().unrevoked().done(auth.kernel().settings().store.live(), &ended);
    Ok(Duration::ZERO)
}

/// The revocations of sessions of lists for routers that know no lists.
fn rows_for_others(auth: &Auth, ended: &[(Id, Pending)]) -> Vec<Revocation> {
    let now = auth.kernel().now();
    let last = LastTokens::of(auth, now);
    let mut by_identity: BTreeMap<&Id, Vec<(&Id, &Pending)>> = BTreeMap::new();
    for (session, pending) in ended.iter().filter(|(_, it)| last.may_be_good(it.end, now)) {
        by_identity.entry(&pending.identity).or_default().push((session, pending));
    }
    let (mut due, is_uncertain) = (Vec::new(), is_uncertain(auth, now));
    for (identity, own) in by_identity {
        // An identity with another session goes on with that: its tokens, or the service tokens in it, stay good. By a
        // clock that is ahead, a revocation of the identity would cover logins that are still to come.
        let one_by_one = is_uncertain
            || own.iter().any(|(_, pending)| pending.end <= now)
            || !auth.sessions().of_identity(identity).is_empty();
        let end = |pending: &Pending| last.of_session(pending.end);
        match one_by_one {
            true => due.extend(own.iter().map(|(session, pending)| {
                revocation(session, RevocationType::ApiSession, now, end(pending))
            })),
            false => {
                let end =
                    own.iter().map(|(_, pending)| end(pending)).max().unwrap_or(last.latest());
                due.push(of_identity(identity, now, end));
            }
        }
    }
    due
}

/// A revocation of all tokens of an identity until now.
fn of_identity(identity: &Id, now: Timestamp, end: Timestamp) -> Revocation {
    let row = revocation(identity, RevocationType::Identity, now, end);
    Revocation { issued_before: Some(now), ..row }
}

/// Writes revocations. One of an identity that is there covers what it covered.
async fn write(auth: &Auth, due: Vec<Revocation>) -> Result<()> {
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
    auth.kernel().decide(&Caller::own("end of sessions"), decide).await.map(drop)
}

#[cfg(test)]
mod tests {
    use weft_model::entity::ApiSession;

    use super::*;
    use crate::token_keys::tests::auth;

    fn ended(identity: &str, session: &str, end: Timestamp) -> (Id, Pending) {
        let identity = Id::new(identity);
        (Id::new(session), Pending { identity, end, is_counted: Some(false) })
    }

    fn kinds(rows: &[Revocation]) -> Vec<(&str, RevocationType)> {
        rows.iter().map(|row| (row.base.id.as_str(), row.revocation_type)).collect()
    }

    #[tokio::test]
    async fn an_identity_is_revoked_only_if_that_covers_no_other_login() {
        let auth = auth();
        let now = auth.kernel().now();
        let (ahead, past) = (now.plus(Duration::from_secs(600)), Timestamp(now.0 - 600_000));
        let opaque = ApiSession {
            base: Base::new(Id::new("goes on"), now),
            identity_id: Id::new("bob"),
            last_activity_at: now,
            ..ApiSession::default()
        };
        auth.sessions().open(opaque, "a token", |_| true).unwrap();
        let all = [
            ended("ann", "a1", ahead),
            ended("ann", "a2", ahead),
            ended("bob", "b1", ahead),
            // The clock may be ahead: then logins by the right time come before this one.
            ended("cid", "c1", past),
            ended("cid", "c2", ahead),
        ];
        let single = RevocationType::ApiSession;
        let rows = rows_for_others(&auth, &all);
        let one_each = [("b1", single), ("c1", single), ("c2", single)];
        assert_eq!(kinds(&rows)[0], ("ann", RevocationType::Identity));
        assert_eq!(kinds(&rows)[1..], one_each);

        revoke_each(&auth, vec![ended("dan", "d1", past), ended("eve", "e1", ahead)])
            .await
            .unwrap();
        let snapshot = auth.kernel().snapshot();
        let found =
            |id: &str| snapshot.get::<Revocation>(&Id::new(id)).map(|it| it.revocation_type);
        assert_eq!((found("d1"), found("dan")), (Some(single), None));
        assert_eq!((found("e1"), found("eve")), (None, Some(RevocationType::Identity)));
    }
}
