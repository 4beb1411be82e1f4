//! Locks a password after wrong passwords in a row, if the auth policy says so
//! (docs/protocol/auth.md 7.4): for some time the password is refused, right or wrong. Sessions and
//! other ways to log in stay. The last administrator who can log in is not locked out; guesses of
//! that password are limited by [`super::guesses`].
//!
//! The counts are kept in memory and bounded; locks are part of the model, with the addresses that the
//! wrong passwords came from.

use std::net::IpAddr;
use std::sync::Arc;

use weft_kernel::Caller;
use weft_model::entity::{AuthPolicy, Authenticator, Identity};
use weft_model::{Id, Snapshot, Timestamp};

use crate::handle::Auth;

/// The auth policy of an identity; the default of the type if the policy is missing.
pub(crate) fn policy_of(snapshot: &Snapshot, identity: &Identity) -> AuthPolicy {
    let policy = snapshot.get::<AuthPolicy>(&identity.auth_policy_id);
    policy.map(|policy| (**policy).clone()).unwrap_or_default()
}

/// Counts a wrong password, at a login or at a change of the password, and locks it if the policy
/// says so.
pub async fn wrong_password(auth: &Auth, caller: &Caller, authenticator: &Authenticator) {
    let snapshot = auth.kernel().snapshot();
    let Some(identity) = snapshot.get::<Identity>(&authenticator.identity_id) else { return };
    let policy = policy_of(&snapshot, identity).updb;
    let from = caller.origin.remote.map(|remote| remote.ip());
    let locks = auth.lockouts().wrong(&authenticator.base.id, policy.max_attempts, from);
    if let Some(addresses) = locks {
        let minutes = u64::from(policy.lockout_duration_minutes);
        lock(auth, &identity.name, &authenticator.base.id, minutes, &addresses).await;
    }
}

/// Locks the password of the identity of this name; 0 minutes mean until an administrator enables the identity.
async fn lock(auth: &Auth, identity: &str, authenticator: &Id, minutes: u64, addresses: &[IpAddr]) {
    let id = authenticator.clone();
    let by: Vec<Arc<str>> = addresses.iter().map(|it| it.to_string().into()).collect();
    let own = Caller::own("lockout");
    let done = auth.kernel().decide(&own, move |decision| {
        let (tip, now) = (decision.tip(), decision.now());
        let Some(current) = tip.get::<Authenticator>(&id) else { return Ok(()) };
        if is_last_administrator(tip, &current.identity_id, now) {
            return Ok(());
        }
        let mut locked = (**current).clone();
        if let Some(updb) = &mut locked.updb {
            updb.locked_at = Some(now);
            let span = std::time::Duration::from_secs(minutes.saturating_mul(60));
            updb.locked_until = (minutes > 0).then(|| now.plus(span));
            updb.locked_by.clone_from(&by);
        }
        decision.put(locked);
        Ok(())
    });
    let done = done.await;
    let is_locked = |snapshot: &Snapshot| {
        let updb = snapshot.get::<Authenticator>(authenticator).and_then(|it| it.updb.as_ref());
        updb.is_some_and(|updb| updb.is_locked(auth.kernel().now()))
    };
    match done {
        Ok(_) if is_locked(&auth.kernel().snapshot()) => {
            tracing::warn!(identity, %authenticator, minutes, ?addresses, "too many wrong passwords: the password is locked now; `weft enable identity` unlocks it");
        }
        Ok(_) => tracing::warn!(
            identity,
            %authenticator,
            ?addresses,
            "too many wrong passwords of the last administrator: the password is not locked"
        ),
        Err(error) => {
            tracing::error!(identity, %authenticator, %error, "a password with too many wrong tries could not be locked")
        }
    }
}

/// Whether an identity is an administrator and no other administrator can log in.
fn is_last_administrator(tip: &Snapshot, identity: &Id, now: Timestamp) -> bool {
    let is_admin = |it: &Identity| it.is_admin || it.is_default_admin;
    let can_log_in = |it: &Identity| {
        let mut own = tip.referring::<Authenticator>(0, &it.base.id);
        let is_open = |own: &Authenticator| {
            own.cert.is_some() || own.updb.as_ref().is_some_and(|updb| !updb.is_locked(now))
        };
        !it.is_disabled(now) && own.any(|own| is_open(own))
    };
    let mut others = tip.list::<Identity>().filter(|it| it.base.id != *identity && is_admin(it));
    tip.get::<Identity>(identity).is_some_and(|it| is_admin(it)) && !others.any(|it| can_log_in(it))
}
