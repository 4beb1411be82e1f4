//! Policies. Only their role lists are read; which entities they select is decided again.

use weft_model::entity::{EdgeRouterPolicy, PolicyType, ServiceEdgeRouterPolicy, ServicePolicy};
use weft_model::{Choice, Entity, Roles, Semantic};

use crate::fields::{Fields, Taken, Untaken};
use crate::layout::Layout;

/// Reads a service policy.
pub(crate) fn service_policy(fields: &mut Fields<'_, '_>, _: Layout) -> Taken<Entity> {
    let name = fields.name()?;
    let policy_type = match fields.number("type") {
        None | Some(1) => PolicyType::Dial,
        Some(2) => PolicyType::Bind,
        Some(other) => {
            return Err(Untaken::Entity(format!("weft has no type {other}")));
        }
    };
    let policy = ServicePolicy {
        base: fields.base()?,
        name,
        policy_type,
        semantic: semantic(fields),
        identity_roles: roles(fields, "identityRoles")?,
        service_roles: roles(fields, "serviceRoles")?,
        posture_check_roles: roles(fields, "postureCheckRoles")?,
    };
    Ok(policy.into())
}

/// Reads an edge router policy.
pub(crate) fn edge_router_policy(fields: &mut Fields<'_, '_>, _: Layout) -> Taken<Entity> {
    let name = fields.name()?;
    let policy = EdgeRouterPolicy {
        base: fields.base()?,
        name,
        semantic: semantic(fields),
        identity_roles: roles(fields, "identityRoles")?,
        edge_router_roles: roles(fields, "edgeRouterRoles")?,
    };
    Ok(policy.into())
}

/// Reads a service edge router policy.
pub(crate) fn service_edge_router_policy(fields: &mut Fields<'_, '_>, _: Layout) -> Taken<Entity> {
    let name = fields.name()?;
    let policy = ServiceEdgeRouterPolicy {
        base: fields.base()?,
        name,
        semantic: semantic(fields),
        service_roles: roles(fields, "serviceRoles")?,
        edge_router_roles: roles(fields, "edgeRouterRoles")?,
    };
    Ok(policy.into())
}

/// The semantic, in whatever case. Another one selects fewer entities as `AllOf`.
pub(crate) fn semantic(fields: &mut Fields<'_, '_>) -> Semantic {
    match fields.full_text("semantic") {
        Some(text) if text.eq_ignore_ascii_case(Semantic::AnyOf.as_str()) => Semantic::AnyOf,
        Some(text) if !text.eq_ignore_ascii_case(Semantic::AllOf.as_str()) => {
            fields.lose("semantic", format!("weft has no {text:?}; AllOf is taken"));
            Semantic::AllOf
        }
        _ => Semantic::AllOf,
    }
}

/// A role list. A policy with an entry that means nothing is not taken: without the entry it might select more.
fn roles(fields: &mut Fields<'_, '_>, field: &'static str) -> Taken<Roles> {
    let mut list = fields.list(field)?;
    // The original takes `#all` among other entries for `#all` alone.
    if list.iter().any(|role| role == "#all") {
        list.retain(|role| role == "#all");
    }
    Roles::parse(&list).map_err(|error| Untaken::Entity(error.to_string()))
}
