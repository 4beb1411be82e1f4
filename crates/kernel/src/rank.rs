//! The one rule between identities (docs/protocol/management-api.md 4): who is no administrator
//! does not make, become, weaken or lock out an identity that may do more than he may.
//!
//! It is asked in three places. [`check`] judges the change set of every decision, whatever
//! operation made it, so that no operation can forget it; [`guard`] is for what is no change of the
//! model (sessions, traces); [`may_more`] hides what makes its reader somebody else (tickets).
//!
//! An identity changes what is its own as its operations allow, and who shows a ticket is judged by
//! the ticket: the rule is about who has a session and acts on others.

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_contract::{Action, Permission, Subject};
use weft_model::entity::{
    AuthPolicy, Authenticator, Ca, Enrollment, Identity, Mfa, Record, Revocation, RevocationType,
    Router,
};
use weft_model::{Base, Change, Entity, Id, Kind, Snapshot};

use super::caller::{Caller, Login, Who};
use crate::failure::Failure;

/// The reference of an identity to its authentication policy.
const POLICY_OF_IDENTITY: usize = 0;
/// The reference of an authenticator to the CA of its certificate.
const CA_OF_AUTHENTICATOR: usize = 1;
/// The reference of an enrollment to the CA that it names.
const CA_OF_ENROLLMENT: usize = 2;

/// Whether an identity is somebody else who may do more than the caller.
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

/// Refuses who acts on an identity that may do more than he may.
pub fn guard(caller: &Caller, identity: &Identity) -> Result<(), Failure> {
    if may_more(caller, identity) { Err(refused(identity)) } else { Ok(()) }
}

/// The same for the identity of an id, if there is one.
pub fn guard_owner(caller: &Caller, tip: &Snapshot, id: &Id) -> Result<(), Failure> {
    tip.get::<Identity>(id).map_or(Ok(()), |identity| guard(caller, identity))
}

fn refused(identity: &Identity) -> Failure {
    let name = &identity.name;
    let reason = format!("identity {name} may do more than who asks: only administrators may");
    Failure::unauthorized(format!("{reason} change it and what it logs in with"))
}

/// Whether an identity may do anything that a login may not.
fn exceeds(login: &Login, identity: &Identity) -> bool {
    if identity.is_admin || identity.is_default_admin {
        return true;
    }
    // A permission that is not known allows nothing.
    let mut granted = identity.permissions.iter().filter_map(|name| Permission::parse(name));
    granted.any(|permission| !holds(&login.permissions, permission))
}

/// Whether permissions allow all that another one does.
fn holds(own: &[Permission], other: Permission) -> bool {
    own.contains(&other)
        || match other {
            Permission::AdminReadOnly => false,
            Permission::All(subject) => subject
                .actions()
                .iter()
                .all(|action| own.contains(&Permission::One(subject, *action))),
            Permission::One(subject, action) => {
                // What looks into routers is not for who may merely read everything.
                let is_read = action == Action::Read && subject != Subject::Ops;
                own.contains(&Permission::All(subject))
                    || (is_read && own.contains(&Permission::AdminReadOnly))
            }
        }
}

/// Judges what a caller wants to change.
pub fn check(caller: &Caller, tip: &Snapshot, changes: &[Change]) -> Result<(), Failure> {
    match &caller.who {
        Who::Identity(login) if !caller.is_admin() => {
            let rule = Rule { caller, login, tip };
            changes.iter().try_for_each(|change| rule.judge(change))
        }
        _ => Ok(()),
    }
}

struct Rule<'a> {
    caller: &'a Caller,
    login: &'a Login,
    tip: &'a Snapshot,
}

impl Rule<'_> {
    fn judge(&self, change: &Change) -> Result<(), Failure> {
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
                // The identity of a router has its id.
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
            // Nobody but administrators has an operation for it.
            Kind::ControllerSetting => {
                Err(Failure::unauthorized("controller settings are for administrators"))
            }
            // What they allow to whom is what the permissions for them are there for: to use the
            // network, not to administer it.
            Kind::Service
            | Kind::ConfigType
            | Kind::Config
            | Kind::ServicePolicy
            | Kind::EdgeRouterPolicy
            | Kind::ServiceEdgeRouterPolicy
            | Kind::PostureCheck
            | Kind::Terminator => Ok(()),
            // Sessions are no part of change sets; those that end with an entity end by it.
            Kind::ApiSession | Kind::Session => Ok(()),
        }
    }

    fn owner(&self, id: Option<&Id>) -> Result<(), Failure> {
        id.map_or(Ok(()), |id| guard_owner(self.caller, self.tip, id))
    }

    fn identity(&self, before: Option<&Identity>, after: Option<&Identity>) -> Result<(), Failure> {
        if let Some(before) = before
            && after.is_none_or(|after| !is_only_unlinked(before, after))
        {
            guard(self.caller, before)?;
        }
        let Some(after) = after.filter(|after| exceeds(self.login, after)) else { return Ok(()) };
        if before.is_some_and(|before| rights(before) == rights(after)) {
            return Ok(());
        }
        let reason = "only administrators may let an identity do more than they may themselves";
        Err(Failure::unauthorized(format!("{reason}: {}", after.name)))
    }

    /// Who takes a router's place takes the place of its identity.
    fn router(
        &self,
        id: &Id,
        before: Option<&Router>,
        after: Option<&Router>,
    ) -> Result<(), Failure> {
        let is_unlinked = before.zip(after).is_some_and(|(before, after)| {
            let base = Base { updated_at: before.base.updated_at, ..after.base.clone() };
            Router { base, configs: before.configs.clone(), ..after.clone() } == *before
        });
        if is_unlinked { Ok(()) } else { self.owner(Some(id)) }
    }

    /// Who says how an identity logs in weakens it or locks it out.
    fn policy(&self, id: &Id) -> Result<(), Failure> {
        let mut users = self.tip.referring::<Identity>(POLICY_OF_IDENTITY, id);
        users.try_for_each(|identity| guard(self.caller, identity))
    }

    /// A CA with a claim makes every identity that has an external id, and will have one, of who
    /// has its key.
    fn ca(&self, ca: &Ca) -> Result<(), Failure> {
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

    /// The tokens of a signer are whoever policies let them be.
    fn signer(&self, id: &Id) -> Result<(), Failure> {
        let believes = |policy: &AuthPolicy| {
            let signers = &policy.ext_jwt.allowed_signers;
            let first = policy.ext_jwt.allowed && (signers.is_empty() || signers.contains(id));
            first || policy.secondary.require_ext_jwt_signer.as_ref() == Some(id)
        };
        let policies = self.tip.list::<AuthPolicy>().filter(|policy| believes(policy));
        for policy in policies {
            self.policy(&policy.base.id).map_err(|_| {
                let reason =
                    "tokens of the signer log in identities that may do more than who asks";
                Failure::unauthorized(format!(
                    "{reason}: name the signers that authentication policy {} allows, or ask an \
                     administrator",
                    policy.name
                ))
            })?;
        }
        Ok(())
    }

    /// An identity whose tokens are refused is locked out. Of other tokens nobody knows whose they
    /// are.
    fn revocation(&self, revocation: &Revocation) -> Result<(), Failure> {
        match revocation.revocation_type {
            RevocationType::Identity => self.owner(Some(&revocation.base.id)),
            _ => Err(Failure::unauthorized("only administrators may revoke tokens")),
        }
    }
}

fn of<T: Record>(entity: Option<&Entity>) -> Option<&T> {
    entity.and_then(Entity::get::<T>).map(|it| &**it)
}

/// What an identity may do to others.
fn rights(identity: &Identity) -> (bool, bool, &[Arc<str>]) {
    (identity.is_admin, identity.is_default_admin, &identity.permissions)
}

/// Whether an identity has only lost what it said of services that are no more.
fn is_only_unlinked(before: &Identity, after: &Identity) -> bool {
    let same = Identity {
        base: Base { updated_at: before.base.updated_at, ..after.base.clone() },
        service_hosting_precedences: before.service_hosting_precedences.clone(),
        service_hosting_costs: before.service_hosting_costs.clone(),
        service_configs: before.service_configs.clone(),
        ..after.clone()
    };
    same == *before
        && is_part(&after.service_hosting_precedences, &before.service_hosting_precedences)
        && is_part(&after.service_hosting_costs, &before.service_hosting_costs)
        && is_part(&after.service_configs, &before.service_configs)
}

fn is_part<V: PartialEq>(part: &BTreeMap<Id, V>, whole: &BTreeMap<Id, V>) -> bool {
    part.iter().all(|(id, value)| whole.get(id) == Some(value))
}
