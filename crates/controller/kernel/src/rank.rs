//! The rule of ranks (docs/protocol/management-api.md 4): a caller that is no administrator must
//! not create, become, weaken or lock out an identity with more rights than its own. Nor does it say how much
//! an identity may have of what all share ([`Identity::LIMIT_TAGS`]).
//!
//! It is applied in three places. [`check`] judges the change set of every decision, so that no
//! operation can forget it. [`guard`] is for actions that do not change the model (sessions,
//! traces). [`may_more`] hides secrets by which a reader could become another identity (tickets).
//!
//! The rule concerns callers with a session that act on other identities. An identity may change
//! itself as its operations allow, and a caller with a ticket is judged by the ticket.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weft_contract::{Action, Permission, Subject};
use weft_model::entity::{
    AuthPolicy, Authenticator, Ca, Enrollment, Identity, Mfa, Record, Revocation, RevocationType,
    Router,
};
use weft_model::{Base, Change, Entity, Id, Kind, Snapshot};

use super::caller::{Caller, Login, Who};
use super::gate;
use crate::failure::{Failure, Result};

/// Index of the reference from an identity to its auth policy.
const POLICY_OF_IDENTITY: usize = 0;
/// Index of the reference from an authenticator to the CA of its certificate.
const CA_OF_AUTHENTICATOR: usize = 1;
/// Index of the reference from an enrollment to its CA.
const CA_OF_ENROLLMENT: usize = 2;

/// Whether an identity is not the caller and has more rights.
pub fn may_more(caller: &Caller, identity: &Identity) -> bool {
    match &caller.who {
        _ if caller.is_admin() => false,
        Who::System => false,
        Who::Nobody(_) => true,
        Who::Identity(login) => {
            login.identity != identity.base.id.as_str() && exceeds(login, identity)
        }
    }
}

/// Refuses a caller that acts on an identity with more rights than its own.
pub fn guard(caller: &Caller, identity: &Identity) -> Result<()> {
    if may_more(caller, identity) { Err(refused(identity)) } else { Ok(()) }
}

/// Refuses as [`guard`] does, for the identity with this id, if it exists.
pub fn guard_owner(caller: &Caller, tip: &Snapshot, id: &Id) -> Result<()> {
    tip.get::<Identity>(id).map_or(Ok(()), |identity| guard(caller, identity))
}

fn refused(identity: &Identity) -> Failure {
    let name = &identity.name;
    let reason =
        format!("identity {name} has more rights than the caller: only administrators may");
    Failure::unauthorized(format!("{reason} change it and its authenticators"))
}

/// Whether an identity has a right that a login lacks.
fn exceeds(login: &Login, identity: &Identity) -> bool {
    if identity.is_admin || identity.is_default_admin {
        return true;
    }
    // An unknown permission grants nothing.
    let mut granted = identity.permissions.iter().filter_map(|name| Permission::parse(name));
    granted.any(|permission| !holds(&login.permissions, permission))
}

/// Whether permissions include another one.
pub(crate) fn holds(own: &[Permission], other: Permission) -> bool {
    own.contains(&other)
        || match other {
            Permission::AdminReadOnly => false,
            Permission::All(subject) => subject
                .actions()
                .iter()
                .all(|action| own.contains(&Permission::One(subject, *action))),
            Permission::One(subject, action) => {
                // The permission to read everything does not include inspections of routers.
                let is_read = action == Action::Read && subject != Subject::Ops;
                own.contains(&Permission::All(subject))
                    || (is_read && own.contains(&Permission::AdminReadOnly))
            }
        }
}

/// Judges the changes of a caller.
pub fn check(caller: &Caller, tip: &Snapshot, changes: &[Change]) -> Result<()> {
    match &caller.who {
        Who::Identity(login) if !caller.is_admin() => {
            let deleted = changes.iter().filter_map(|change| match change {
                Change::Delete(kind, id) => Some((*kind, id)),
                _ => None,
            });
            let rule = Rule { caller, login, tip, deleted: deleted.collect() };
            changes.iter().try_for_each(|change| rule.judge(change))
        }
        _ => Ok(()),
    }
}

struct Rule<'a> {
    caller: &'a Caller,
    login: &'a Login,
    tip: &'a Snapshot,
    /// The entities that the change set deletes.
    deleted: BTreeSet<(Kind, &'a Id)>,
}

impl Rule<'_> {
    fn judge(&self, change: &Change) -> Result<()> {
        let (kind, id) = (change.kind(), change.id());
        let before = self.tip.entity(kind, id);
        let after = match change {
            Change::Put(entity) => Some(entity),
            Change::Delete(..) | Change::Cold { .. } => None,
        };
        let sides = [before, after].into_iter().flatten();
        match kind {
            Kind::Identity => self.identity(of(before), of(after)),
            Kind::Router => self.router(id, of(before), of(after)),
            Kind::AuthPolicy => self.policy(id),
            Kind::Ca => sides.filter_map(Entity::get::<Ca>).try_for_each(|ca| self.ca(ca)),
            Kind::ExtJwtSigner => self.signer(id),
            Kind::Authenticator => sides
                .filter_map(Entity::get::<Authenticator>)
                .try_for_each(|it| self.owner(Some(&it.identity_id))),
            Kind::Enrollment => {
                let mut tickets = sides.filter_map(Entity::get::<Enrollment>);
                // A router's identity has the id of the router.
                tickets.try_for_each(|it| {
                    self.owner(it.identity_id.as_ref())?;
                    self.owner(it.router_id.as_ref())
                })
            }
            Kind::Mfa => sides
                .filter_map(Entity::get::<Mfa>)
                .try_for_each(|it| self.owner(Some(&it.identity_id))),
            Kind::Revocation => {
                sides.filter_map(Entity::get::<Revocation>).try_for_each(|it| self.revocation(it))
            }
            // Only administrators may run the operations on controller settings.
            Kind::ControllerSetting => {
                Err(Failure::unauthorized("controller settings are for administrators"))
            }
            // Controllers write it themselves.
            Kind::ControllerMember => {
                Err(Failure::unauthorized("no operation changes controllers"))
            }
            // These kinds decide who may use the network, and not who administers it: the
            // permissions for them are enough.
            Kind::Service
            | Kind::ConfigType
            | Kind::Config
            | Kind::ServicePolicy
            | Kind::EdgeRouterPolicy
            | Kind::ServiceEdgeRouterPolicy
            | Kind::PostureCheck
            | Kind::Terminator => Ok(()),
            // Change sets contain no sessions; sessions end as a consequence of other changes.
            Kind::ApiSession | Kind::ServiceSession => Ok(()),
        }
    }

    fn owner(&self, id: Option<&Id>) -> Result<()> {
        id.map_or(Ok(()), |id| guard_owner(self.caller, self.tip, id))
    }

    fn identity(&self, before: Option<&Identity>, after: Option<&Identity>) -> Result<()> {
        if let Some(before) = before
            && after.is_none_or(|after| !self.is_only_unlinked(before, after))
        {
            guard(self.caller, before)?;
        }
        let tags = |identity: Option<&'_ Identity>| {
            let tag = |name| identity.and_then(|it| it.base.tags.get(name)).cloned();
            Identity::LIMIT_TAGS.map(tag)
        };
        if after.is_some() && tags(before) != tags(after) {
            let [first, second] = Identity::LIMIT_TAGS;
            return Err(Failure::unauthorized(format!(
                "only administrators may set, change or remove the tags {first} and {second} of an identity"
            )));
        }
        let Some(after) = after.filter(|after| exceeds(self.login, after)) else { return Ok(()) };
        if before.is_some_and(|before| rights(before) == rights(after)) {
            return Ok(());
        }
        let reason = "only administrators may let an identity do more than they may themselves";
        Err(Failure::unauthorized(match gate::reads_kind(self.caller, Kind::Identity) {
            true => format!("{reason}: {}", after.name),
            false => reason.to_owned(),
        }))
    }

    /// A new holder of a router's place gets the router's identity. A router that has only lost
    /// references to deleted configs is not judged.
    fn router(&self, id: &Id, before: Option<&Router>, after: Option<&Router>) -> Result<()> {
        let is_unlinked = before.zip(after).is_some_and(|(before, after)| {
            let base = Base { updated_at: before.base.updated_at, ..after.base.clone() };
            let kept = before.configs.iter().filter(|config| {
                !self.deleted.contains(&(Kind::Config, *config)) || after.configs.contains(config)
            });
            kept.eq(&after.configs)
                && Router { base, configs: before.configs.clone(), ..after.clone() } == *before
        });
        if is_unlinked { Ok(()) } else { self.owner(Some(id)) }
    }

    /// Whether an identity has only lost references to deleted services.
    fn is_only_unlinked(&self, before: &Identity, after: &Identity) -> bool {
        let same = Identity {
            base: Base { updated_at: before.base.updated_at, ..after.base.clone() },
            service_hosting_precedences: before.service_hosting_precedences.clone(),
            service_hosting_costs: before.service_hosting_costs.clone(),
            service_configs: before.service_configs.clone(),
            ..after.clone()
        };
        same == *before
            && self.is_unlinked(
                &before.service_hosting_precedences,
                &after.service_hosting_precedences,
            )
            && self.is_unlinked(&before.service_hosting_costs, &after.service_hosting_costs)
            && self.is_unlinked(&before.service_configs, &after.service_configs)
    }

    /// Whether a map by service has only lost deleted services.
    fn is_unlinked<V: PartialEq>(&self, before: &BTreeMap<Id, V>, after: &BTreeMap<Id, V>) -> bool {
        let is_deleted = |service| self.deleted.contains(&(Kind::Service, service));
        after.iter().all(|(id, value)| before.get(id) == Some(value))
            && before.keys().all(|id| after.contains_key(id) || is_deleted(id))
    }

    /// An auth policy can weaken its identities or lock them out.
    fn policy(&self, id: &Id) -> Result<()> {
        let mut users = self.tip.referring::<Identity>(POLICY_OF_IDENTITY, id);
        users.try_for_each(|identity| guard(self.caller, identity))
    }

    /// The holder of the key of a CA with a claim can become any identity that has an external id,
    /// now or later.
    fn ca(&self, ca: &Ca) -> Result<()> {
        if ca.external_id_claim.is_some() {
            let reason = "only administrators may change CAs whose certificates claim external ids";
            return Err(Failure::unauthorized(reason));
        }
        let id = &ca.base.id;
        let mut logins = self.tip.referring::<Authenticator>(CA_OF_AUTHENTICATOR, id);
        logins.try_for_each(|it| self.owner(Some(&it.identity_id)))?;
        let mut tickets = self.tip.referring::<Enrollment>(CA_OF_ENROLLMENT, id);
        tickets.try_for_each(|it| self.owner(it.identity_id.as_ref()))
    }

    /// The holder of a signer's keys can become any identity whose auth policy allows the signer.
    fn signer(&self, id: &Id) -> Result<()> {
        let believes = |policy: &AuthPolicy| {
            let signers = &policy.ext_jwt.allowed_signers;
            let first = policy.ext_jwt.allowed && (signers.is_empty() || signers.contains(id));
            first || policy.secondary.require_ext_jwt_signer.as_ref() == Some(id)
        };
        let policies = self.tip.list::<AuthPolicy>().filter(|policy| believes(policy));
        for policy in policies {
            self.policy(&policy.base.id).map_err(|_| {
                let reason =
                    "tokens of the signer log in identities with more rights than the caller";
                let whose = match gate::reads_kind(self.caller, Kind::AuthPolicy) {
                    true => format!("authentication policy {}", policy.name),
                    false => "their authentication policy".to_owned(),
                };
                Failure::unauthorized(format!(
                    "{reason}: name the signers that {whose} allows, or ask an administrator"
                ))
            })?;
        }
        Ok(())
    }

    /// A revocation of an identity's tokens locks the identity out. The owners of other tokens are
    /// unknown.
    fn revocation(&self, revocation: &Revocation) -> Result<()> {
        match revocation.revocation_type {
            RevocationType::Identity => self.owner(Some(&revocation.base.id)),
            _ => Err(Failure::unauthorized("only administrators may revoke tokens")),
        }
    }
}

fn of<T: Record>(entity: Option<&Entity>) -> Option<&T> {
    entity.and_then(Entity::get::<T>).map(|it| &**it)
}

/// The rights of an identity that matter for ranks.
fn rights(identity: &Identity) -> (bool, bool, &[Arc<str>]) {
    (identity.is_admin, identity.is_default_admin, &identity.permissions)
}
