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

use crate::entity::{Identity, PolicyType, PostureCheck, Service, ServicePolicy};
use crate::posture::{Check, CheckFailure, PostureData};
use crate::{Id, Snapshot, Timestamp};

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

/// A policy that holds both the identity and the service, with what came of its posture checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedPolicy {
    /// Id of the policy.
    pub id: Id,
    /// Name of the policy.
    pub name: String,
    /// The posture checks: the end of their passing, if it has one, or why they failed.
    pub checks: Vec<(Id, Result<Option<Timestamp>, CheckFailure>)>,
}

impl JudgedPolicy {
    /// Whether all posture checks pass.
    pub fn is_passing(&self) -> bool {
        self.checks.iter().all(|(_, outcome)| outcome.is_ok())
    }

    /// The first time at which a posture check ends to pass.
    fn until(&self) -> Option<Timestamp> {
        self.checks.iter().filter_map(|(_, outcome)| outcome.ok().flatten()).min()
    }
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
    for policy in judge(facts, identity, service, action, posture, now) {
        if policy.is_passing() {
            ends.push(policy.until());
            granting.push(GrantingPolicy { id: policy.id, name: policy.name });
            continue;
        }
        let checks = policy.checks.into_iter();
        let checks =
            checks.filter_map(|(id, outcome)| Some(FailedCheck { id, failure: outcome.err()? }));
        failed.push(FailedPolicy { id: policy.id, name: policy.name, checks: checks.collect() });
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

/// Judges the posture checks of every policy of this type that holds both the identity and the service.
pub fn judge(
    facts: &(impl Facts + ?Sized),
    identity: &str,
    service: &str,
    action: PolicyType,
    posture: Posture<'_>,
    now: Timestamp,
) -> Vec<JudgedPolicy> {
    let outcome = |check: &Option<Check<'_>>| match (posture, check) {
        (Posture::Ignored, _) => Ok(None),
        (_, None) => Err(CheckFailure::Missing),
        (Posture::Unknown, Some(_)) => Err(CheckFailure::NoData),
        (Posture::Known(data), Some(check)) => check.evaluate(data, now),
    };
    let policies = facts.policies(identity, service, action).into_iter();
    let judged = policies.map(|policy| JudgedPolicy {
        id: Id::new(policy.id),
        name: policy.name.to_owned(),
        checks: policy.checks.iter().map(|(id, check)| (Id::new(id), outcome(check))).collect(),
    });
    judged.collect()
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
