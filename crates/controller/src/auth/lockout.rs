//! How often a password was wrong in a row, and what follows when the policy says so
//! (docs/protocol/auth.md 7.4): the password is refused for a while, right or wrong. Sessions that
//! are up go on, other ways to log in stay, and the last administrator who can log in is not locked
//! out: how fast his password can be guessed is limited all the same ([`super::guesses`]).
//!
//! The counts are class Memory, bounded; what is locked is a part of the model.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use weft_model::entity::{Authenticator, Identity};
use weft_model::{Id, Snapshot, Timestamp};

use super::login::policy_of;
use crate::{Caller, Controller};

/// Authenticators that are counted for; beyond that the counts start anew.
const COUNTED: usize = 100_000;

/// Wrong passwords in a row, by authenticator.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lockouts(Arc<Mutex<HashMap<Id, u32>>>);

impl Lockouts {
    /// Counts a wrong password. True if the limit is reached now, which also starts anew.
    pub(crate) fn wrong(&self, authenticator: &Id, max_attempts: u32) -> bool {
        let mut counts = self.0.lock();
        if counts.len() >= COUNTED && !counts.contains_key(authenticator) {
            counts.clear();
        }
        let count = counts.entry(authenticator.clone()).or_default();
        *count = count.saturating_add(1);
        let is_over = max_attempts > 0 && *count >= max_attempts;
        if is_over {
            counts.remove(authenticator);
        }
        is_over
    }

    /// Forgets the count after a right password.
    pub(crate) fn right(&self, authenticator: &Id) {
        self.0.lock().remove(authenticator);
    }
}

/// Counts a wrong password, at a login or in a change of it, as the policy of the identity says.
pub(crate) async fn wrong_password(controller: &Controller, authenticator: &Authenticator) {
    let snapshot = controller.snapshot();
    let Some(identity) = snapshot.get::<Identity>(&authenticator.identity_id) else { return };
    let policy = policy_of(&snapshot, identity).updb;
    if controller.lockouts().wrong(&authenticator.base.id, policy.max_attempts) {
        let minutes = u64::from(policy.lockout_duration_minutes);
        lock(controller, &authenticator.base.id, minutes).await;
    }
}

/// Refuses a password from now on; 0 minutes are "until somebody enables the identity".
async fn lock(controller: &Controller, authenticator: &Id, minutes: u64) {
    let id = authenticator.clone();
    let own = Caller::own("lockout");
    let done = controller.decide(&own, move |decision| {
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
        }
        locked.base.updated_at = now;
        decision.put(locked);
        Ok(())
    });
    let done = done.await;
    let is_locked = |snapshot: &Snapshot| {
        let updb = snapshot.get::<Authenticator>(authenticator).and_then(|it| it.updb.as_ref());
        updb.is_some_and(|updb| updb.is_locked(controller.now()))
    };
    match done {
        Ok(_) if is_locked(&controller.snapshot()) => {
            tracing::warn!(%authenticator, minutes, "too many wrong passwords: it is refused now");
        }
        Ok(_) => tracing::warn!(
            %authenticator,
            "too many wrong passwords for the last administrator: it is not locked"
        ),
        Err(error) => tracing::error!(%authenticator, %error, "it could not be locked"),
    }
}

/// Whether an identity is an administrator, and no other one could log in.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_wrong_ones_in_a_row_count() {
        let lockouts = Lockouts::default();
        let id = Id::new("a");
        assert!(!lockouts.wrong(&id, 2));
        lockouts.right(&id);
        assert!(!lockouts.wrong(&id, 2));
        assert!(lockouts.wrong(&id, 2));
        assert!(!lockouts.wrong(&id, 0));
    }
}
