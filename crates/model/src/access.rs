//! The access decision: may this identity dial or bind this service, and why or why not.
//!
//! Service sessions, policy advice, circuits, terminators and the router's own decisions all call
//! [`decide`]. It reads the model through [`Facts`], which the controller's [`Snapshot`] and a
//! router's copy of the data model both implement, so that they cannot disagree
//! (docs/protocol/edge-control-plane.md 12.2).
//!
//! A policy grants access if it holds both identity and service, is of the right type, and all its
//! posture checks pass. One such policy is enough; the answer names all of them. A posture check that
//! does not exist counts as failed.

use std::fmt;

use crate::{
    Id, Snapshot, Timestamp,
    entity::{Identity, PolicyType, PostureCheck, Service, ServicePolicy},
    posture::{Check, CheckFailure, PostureData},
};

/// State of an identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The identity does not exist.
    Unknown,
    /// The identity is disabled.
    Disabled,
    /// The identity may act.
    Active,
}

/// A policy that holds both the identity and the service.
#[derive(Debug, Clone)]
pub struct PolicyFacts<'a> {
    /// Id of the policy.
    pub id: &'a str,
    /// Name of the policy.
    pub name: &'a str,
    /// Posture checks by id; `None` for an unknown one.
    pub checks: Vec<(&'a str, Option<Check<'a>>)>,
}

/// The model, as far as the decision needs it.
pub trait Facts {
    /// State of the identity.
    fn standing(&self, identity: &str, now: Timestamp) -> Standing;

    /// True if the service exists.
    fn has_service(&self, service: &str) -> bool;

    /// The policies of a type that hold both the identity and the service.
    fn policies(&self, identity: &str, service: &str, action: PolicyType) -> Vec<PolicyFacts<'_>>;
}

/// The known posture of a device.
#[derive(Debug, Clone, Copy)]
pub enum Posture<'a> {
    /// The posture that the client reported.
    Known(&'a PostureData),
    /// No posture data is known: every check fails.
    Unknown,
    /// Posture checks are not evaluated: the policies alone decide.
    Ignored,
}

/// A policy that grants access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantingPolicy {
    /// Id of the policy.
    pub id: Id,
    /// Name of the policy.
    pub name: String,
}

/// A posture check that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedCheck {
    /// Id of the posture check.
    pub id: Id,
    /// Reason.
    pub failure: CheckFailure,
}

/// A policy that would grant access if its posture checks passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedPolicy {
    /// Id of the policy.
    pub id: Id,
    /// Name of the policy.
    pub name: String,
    /// The posture checks that failed.
    pub checks: Vec<FailedCheck>,
}

/// Why access is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    /// The identity does not exist.
    UnknownIdentity,
    /// The identity is disabled.
    DisabledIdentity,
    /// The service does not exist.
    UnknownService,
    /// No policy of the type holds both identity and service.
    NoPolicy(PolicyType),
    /// Every policy that holds both has failed posture checks.
    Posture(Vec<FailedPolicy>),
}

/// Result of the decision on access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessDecision {
    /// Access is granted.
    Granted {
        /// The policies that grant it.
        policies: Vec<GrantingPolicy>,
        /// End of the grant, unless the client reports its posture again; `None`: the grant lasts
        /// until the model changes.
        until: Option<Timestamp>,
    },
    /// Access is denied.
    Denied(Denial),
}

impl AccessDecision {
    /// True if access is granted.
    pub fn is_granted(&self) -> bool {
        matches!(self, Self::Granted { .. })
    }

    /// The granting policies, or the denial as an error.
    pub fn granted(self) -> Result<Vec<GrantingPolicy>, Denial> {
        match self {
            Self::Granted { policies, .. } => Ok(policies),
            Self::Denied(denial) => Err(denial),
        }
    }
}

impl Denial {
    /// Ids of all failed posture checks, sorted, without repetitions, as refusals on the wire name
    /// them.
    pub fn failed_checks(&self) -> Vec<&Id> {
        let Self::Posture(policies) = self else { return Vec::new() };
        let checks = policies.iter().flat_map(|policy| &policy.checks);
        let mut ids: Vec<_> = checks.map(|check| &check.id).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownIdentity => f.write_str("the identity does not exist"),
            Self::DisabledIdentity => f.write_str("the identity is disabled"),
            Self::UnknownService => f.write_str("the service does not exist"),
            Self::NoPolicy(PolicyType::Dial) => {
                f.write_str("no service policy lets the identity dial the service")
            }
            Self::NoPolicy(PolicyType::Bind) => {
                f.write_str("no service policy lets the identity bind the service")
            }
            Self::Posture(policies) => {
                f.write_str("posture checks failed: ")?;
                for (at, policy) in policies.iter().enumerate() {
                    let then = if at > 0 { "; " } else { "" };
                    write!(f, "{then}policy {}", policy.name)?;
                    for check in &policy.checks {
                        write!(f, ", check {}: {}", check.id, check.failure)?;
                    }
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for Denial {}

/// Decides whether `identity` may do `action` with `service` at `now`.
pub fn decide(
    facts: &(impl Facts + ?Sized),
    identity: &str,
    service: &str,
    action: PolicyType,
    posture: Posture<'_>,
    now: Timestamp,
) -> AccessDecision {
    match facts.standing(identity, now) {
        Standing::Unknown => return AccessDecision::Denied(Denial::UnknownIdentity),
        Standing::Disabled => return AccessDecision::Denied(Denial::DisabledIdentity),
        Standing::Active => {}
    }
    if !facts.has_service(service) {
        return AccessDecision::Denied(Denial::UnknownService);
    }
    let mut granting = Vec::new();
    let mut failed = Vec::new();
    let mut ends = Vec::new();
    for policy in facts.policies(identity, service, action) {
        let (id, name) = (Id::new(policy.id), policy.name.to_owned());
        match evaluate(&policy, posture, now) {
            Ok(until) => {
                ends.push(until);
                granting.push(GrantingPolicy { id, name });
            }
            Err(checks) => failed.push(FailedPolicy { id, name, checks }),
        }
    }
    if !granting.is_empty() {
        // The grant lasts as long as the longest-lasting policy.
        let until = ends.iter().all(Option::is_some).then(|| ends.into_iter().max()).flatten();
        return AccessDecision::Granted { policies: granting, until: until.flatten() };
    }
    AccessDecision::Denied(match failed.is_empty() {
        true => Denial::NoPolicy(action),
        false => Denial::Posture(failed),
    })
}

/// Evaluates the posture checks of a policy: the end of their passing, or the failed checks.
fn evaluate(
    policy: &PolicyFacts<'_>,
    posture: Posture<'_>,
    now: Timestamp,
) -> Result<Option<Timestamp>, Vec<FailedCheck>> {
    let mut until = None;
    let mut failed = Vec::new();
    for (id, check) in &policy.checks {
        let outcome = match (posture, check) {
            (Posture::Ignored, _) => Ok(None),
            (_, None) => Err(CheckFailure::Missing),
            (Posture::Unknown, Some(_)) => Err(CheckFailure::NoData),
            (Posture::Known(data), Some(check)) => check.evaluate(data, now),
        };
        match outcome {
            Ok(end) => until = until.into_iter().chain(end).min(),
            Err(failure) => failed.push(FailedCheck { id: Id::new(id), failure }),
        }
    }
    if failed.is_empty() { Ok(until) } else { Err(failed) }
}

impl Facts for Snapshot {
    fn standing(&self, identity: &str, now: Timestamp) -> Standing {
        match self.get::<Identity>(&Id::new(identity)) {
            None => Standing::Unknown,
            Some(identity) if identity.is_disabled(now) => Standing::Disabled,
            Some(_) => Standing::Active,
        }
    }

    fn has_service(&self, service: &str) -> bool {
        self.get::<Service>(&Id::new(service)).is_some_and(|service| !service.is_fabric_only)
    }

    fn policies(&self, identity: &str, service: &str, action: PolicyType) -> Vec<PolicyFacts<'_>> {
        let between = self.service_policies_between(&Id::new(identity), &Id::new(service));
        let of_type = between.into_iter().filter(|(_, policy)| policy.policy_type == action);
        of_type
            .map(|(ordinal, policy)| PolicyFacts {
                id: policy.base.id.as_str(),
                name: &policy.name,
                checks: self
                    .members(crate::Kind::ServicePolicy, ordinal, ServicePolicy::POSTURE_CHECKS)
                    .iter()
                    .filter_map(|check| self.at::<PostureCheck>(check))
                    .map(|check| (check.base.id.as_str(), Some(check.check())))
                    .collect(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
