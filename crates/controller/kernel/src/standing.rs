//! The rights of a caller at the time of a decision: a request that waited must not be carried out with rights
//! that its caller has lost meanwhile.

use weft_contract::Permission;
use weft_model::entity::Identity;
use weft_model::{Id, Snapshot, Timestamp};

use super::caller::{Caller, Login};
use super::rank;
use crate::failure::{Failure, Result};

/// Refuses a caller whose identity is deleted or disabled by now, or has fewer rights than the caller came with.
/// The session and its factors are not looked at.
pub(crate) fn check(caller: &Caller, tip: &Snapshot, now: Timestamp) -> Result<()> {
    let Some(login) = caller.login() else { return Ok(()) };
    match tip.get::<Identity>(&Id::new(&login.identity)) {
        Some(identity) if !identity.is_disabled(now) => {
            if has_rights_of(identity, login) {
                return Ok(());
            }
            Err(Failure::unauthorized("the caller has lost rights since the request came"))
        }
        _ => Err(Failure::unauthorized("the caller's identity is disabled or does not exist")),
    }
}

/// Whether an identity has every right of a login.
fn has_rights_of(identity: &Identity, login: &Login) -> bool {
    if identity.is_admin || identity.is_default_admin {
        return true;
    }
    if login.is_admin {
        return false;
    }
    let own = || identity.permissions.iter().filter_map(|name| Permission::parse(name));
    // Usually the permissions are the same, in the same order.
    if own().eq(login.permissions.iter().copied()) {
        return true;
    }
    let own: Vec<Permission> = own().collect();
    login.permissions.iter().all(|permission| rank::holds(&own, *permission))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weft_contract::ErrorCode;
    use weft_model::entity::AuthPolicy;
    use weft_model::{Base, ChangeSet, Timeline};

    use super::*;
    use crate::caller::{Origin, SessionRef, Who};

    const NOW: Timestamp = Timestamp(1000);

    fn caller(is_admin: bool, permissions: &[&str]) -> Caller {
        let login = Login {
            identity: "i".into(),
            name: "i".into(),
            is_admin,
            permissions: permissions.iter().filter_map(|name| Permission::parse(name)).collect(),
            complete: true,
            session: SessionRef { id: "s".into(), token: "t".into(), legacy: true },
        };
        Caller { who: Who::Identity(Arc::new(login)), origin: Origin::default() }
    }

    /// The refusal of a caller whose identity is now as `change` makes it.
    fn now(caller: &Caller, change: impl FnOnce(&mut Identity)) -> Option<ErrorCode> {
        let mut identity = Identity {
            base: Base::new(Id::new("i"), NOW),
            name: "i".into(),
            auth_policy_id: Id::new(AuthPolicy::DEFAULT_ID),
            ..Identity::default()
        };
        change(&mut identity);
        let mut set = ChangeSet::default();
        set.put(AuthPolicy::default_policy(NOW));
        set.put(identity);
        let tip = Snapshot::empty(Timeline::default()).apply(&set).unwrap();
        check(caller, &tip, NOW).err().map(|failure| failure.code())
    }

    #[test]
    fn who_has_lost_rights_is_refused() {
        let refused = Some(ErrorCode::Unauthorized);
        let permissions = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect();
        let admin = caller(true, &[]);
        assert_eq!(now(&admin, |it| it.is_admin = true), None);
        assert_eq!(now(&admin, |_| {}), refused);
        let disabled = |it: &mut Identity| {
            it.is_admin = true;
            it.disabled_at = Some(NOW);
        };
        assert_eq!(now(&admin, disabled), refused);
        assert!(
            check(&admin, &Snapshot::empty(Timeline::default()), NOW).is_err(),
            "the identity is deleted"
        );

        let clerk = caller(false, &["service", "config.read"]);
        let with = |names: &[&str]| now(&clerk, |it| it.permissions = permissions(names));
        assert_eq!(with(&["service", "config.read"]), None);
        assert_eq!(with(&["config", "ops", "service"]), None, "more than before");
        assert_eq!(with(&["service.read", "config.read"]), refused);
        assert_eq!(with(&["service"]), refused);
        assert_eq!(now(&clerk, |it| it.is_admin = true), None);
        assert!(check(&Caller::system(), &Snapshot::empty(Timeline::default()), NOW).is_ok());
        assert!(
            check(&Caller::nobody(Origin::default()), &Snapshot::empty(Timeline::default()), NOW)
                .is_ok()
        );
    }
}
