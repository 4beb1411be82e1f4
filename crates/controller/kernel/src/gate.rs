//! The gate: decides from the caller and the operation whether the operation may run
//! (docs/protocol/management-api.md 4). The operation's handler checks its own rules afterwards.

use weft_contract::{Access, Kind, Operation, resource};

use super::caller::{Caller, Who};
use crate::failure::{Failure, Result};

/// The routers of the management API, which are of one kind with those of the fabric API.
const EDGE_ROUTERS: &str = "edge-routers";

/// Refuses callers that may not run the operation.
pub fn pass(caller: &Caller, row: &Operation) -> Result<()> {
    if row.access == Access::Public {
        return Ok(());
    }
    let login = match &caller.who {
        Who::System => return Ok(()),
        Who::Nobody(challenge) => {
            let failure = Failure::unauthorized("no valid session");
            return Err(match challenge {
                Some(challenge) => failure.with_challenge(*challenge),
                None => failure,
            });
        }
        Who::Identity(login) => login,
    };
    if row.access == Access::Partial {
        return Ok(());
    }
    if !login.complete {
        return Err(Failure::unauthorized("the session needs a second factor"));
    }
    let allowed = match row.access {
        Access::Public | Access::Partial | Access::Authenticated => true,
        Access::Admin => caller.is_admin(),
        Access::AdminOrReadOnly => caller.reads_all(),
        Access::Permission(subject, action) => caller.may(subject, action),
        Access::Granted(subject, action) => caller.is_granted(subject, action),
    };
    if allowed {
        return Ok(());
    }
    Err(Failure::unauthorized(match row.access {
        Access::Permission(subject, action) | Access::Granted(subject, action) => {
            format!("the operation needs the permission {subject}.{action}")
        }
        _ => "the operation needs an administrator".to_owned(),
    }))
}

/// Whether the caller may read the details of a kind, named as in paths.
pub fn reads(caller: &Caller, kind: &str) -> bool {
    let kind = resource::kind(kind);
    kind.and_then(Kind::detail).is_some_and(|row| pass(caller, row).is_ok())
}

/// Whether the caller may read the details of a kind of the model.
pub fn reads_kind(caller: &Caller, kind: weft_model::Kind) -> bool {
    reads(caller, kind.collection())
        || (kind == weft_model::Kind::Router && reads(caller, EDGE_ROUTERS))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weft_contract::paths::Api;
    use weft_contract::{ErrorCode, Permission};

    use super::super::caller::{Login, Origin, SessionRef};
    use super::*;

    fn caller(is_admin: bool, permissions: &[&str], complete: bool) -> Caller {
        let permissions = permissions.iter().filter_map(|name| Permission::parse(name)).collect();
        let session = SessionRef { id: "s".into(), token: "t".into(), legacy: true };
        let login = Login {
            identity: "i".into(),
            name: "i".into(),
            is_admin,
            permissions,
            complete,
            session,
        };
        Caller { who: Who::Identity(Arc::new(login)), origin: Origin::default() }
    }

    fn row(id: &str) -> &'static Operation {
        resource::operation(Api::Management, id).unwrap()
    }

    #[test]
    fn nobody_gets_only_what_is_public() {
        let nobody = Caller::nobody(Origin::default());
        for row in resource::operations(Api::Management) {
            let passed = pass(&nobody, row);
            assert_eq!(passed.is_ok(), row.access == Access::Public, "{}", row.id);
            if let Err(failure) = passed {
                assert_eq!(failure.code(), ErrorCode::Unauthorized);
                assert!(failure.challenge().is_some());
            }
        }
    }

    #[test]
    fn every_operation_lets_admins_in_and_no_pending_factor() {
        for row in resource::operations(Api::Management) {
            assert!(pass(&caller(true, &[], true), row).is_ok(), "{}", row.id);
            let open = matches!(row.access, Access::Public | Access::Partial);
            assert_eq!(pass(&caller(true, &["identity"], false), row).is_ok(), open, "{}", row.id);
        }
    }

    #[test]
    fn permissions_open_exactly_their_operations() {
        let reader = caller(false, &["identity.read"], true);
        assert!(pass(&reader, row("listIdentities")).is_ok());
        assert!(pass(&reader, row("createIdentity")).is_err());
        assert!(pass(&reader, row("listServices")).is_err());
        assert!(reads(&reader, "identities") && !reads(&reader, "services"));
        assert!(!reads(&reader, "unknown"));
        let auditor = caller(false, &["admin_readonly"], true);
        assert!(pass(&auditor, row("listServices")).is_ok());
        assert!(pass(&auditor, row("listAuthenticators")).is_ok());
        assert!(pass(&auditor, row("deleteService")).is_err());
        assert!(pass(&auditor, row("listSummary")).is_ok());
        assert!(pass(&auditor, row("createDatabaseSnapshot")).is_err());
    }
}
