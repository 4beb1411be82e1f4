//! Service policies, edge router policies and service edge router policies
//! (docs/protocol/management-api.md 7.4). The three kinds differ in the kinds of entities on their
//! two sides.

use std::ops::ControlFlow;

use weft_contract::entity::DialBind;
use weft_contract::resource::edge_router_policy::{EdgeRouterPolicyBody, EdgeRouterPolicyDetail};
use weft_contract::resource::service_edge_router_policy::{
    ServiceEdgeRouterPolicyBody, ServiceEdgeRouterPolicyDetail,
};
use weft_contract::resource::service_policy::{ServicePolicyBody, ServicePolicyDetail};
use weft_contract::resource::{
    edge_router_policy as er_contract, service_edge_router_policy as ser_contract,
    service_policy as sp_contract,
};
use weft_contract::{Kind as ContractKind, NamedRole, Word as _};
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure, Result, convert};
use weft_model::entity::{
    EdgeRouterPolicy, Identity, OfKind as _, PolicyType, PostureCheck, Record, Router, Service,
    ServiceEdgeRouterPolicy, ServicePolicy,
};
use weft_model::{Choice as _, Id, Roles};

use super::identity::Identities;
use super::service::Services;
use crate::domain::context::Context;
use crate::domain::fields::{Fields, fields};
use crate::domain::resource::{ListedRecords, Readable, Resource};
use crate::domain::values::{choice, word};

/// Service policies.
pub(crate) struct ServicePolicies;
/// Edge router policies.
pub(crate) struct EdgeRouterPolicies;
/// Service edge router policies.
pub(crate) struct ServiceEdgeRouterPolicies;

/// Checks that every `@id` of a side names an existing entity that policies can select.
fn check_side<T: Record>(
    decision: &Decision<'_>,
    field: &str,
    (roles, before): (&Roles, Option<&Roles>),
) -> Result<()> {
    if before == Some(roles) {
        return Ok(());
    }
    let known =
        |id: &&Id| decision.tip().get::<T>(id).is_some_and(|record| record.attributes().is_some());
    let unknown: Vec<_> = roles.ids.iter().filter(|id| !known(id)).map(Id::to_string).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let reason = format!("no {} with these ids", T::KIND.collection());
    Err(Failure::field(field, reason, unknown.join(", ")))
}

/// Calls `visit` for the members of a side of a service policy.
fn each_member<T: Record + 'static>(
    context: &Context,
    policy: &ServicePolicy,
    side: usize,
    mut visit: impl FnMut(&T) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let snapshot = context.snapshot();
    let Some(ordinal) = snapshot.ordinal_of::<ServicePolicy>(&policy.base.id) else {
        return ControlFlow::Continue(());
    };
    let members = snapshot.members(ServicePolicy::KIND, ordinal, side);
    snapshot.entities::<T>(&members).try_for_each(|member| visit(member))
}

fields! {
    ServicePolicies of ServicePolicy, set by ServicePolicyBody, shown as ServicePolicyDetail,
    searched as "service-policies";

    tags;
    name { set, shown, searched }
    semantic { set by choice, shown by word, searched }
    identity_roles { set, shown, searched }
    service_roles { set, shown, searched }
    posture_check_roles { set, shown, searched }
    policy_type { set by granted, shown as r#type by word, searched as "type" }
    search Column::set("identities", Type::String, |context, it, visit| {
        each_member::<Identity>(context, it, ServicePolicy::IDENTITIES, |identity| {
            visit(Value::text(identity.base.id.as_str()))
        })
    })
    .linked(<Identities as Fields>::SYMBOLS, |context, it, visit| {
        each_member::<Identity>(context, it, ServicePolicy::IDENTITIES, |identity| {
            visit(&<Identities as Fields>::SYMBOLS.row(context, identity))
        })
    })
    .public_link();
    search Column::set("services", Type::String, |context, it, visit| {
        each_member::<Service>(context, it, ServicePolicy::SERVICES, |service| {
            visit(Value::text(service.base.id.as_str()))
        })
    })
    .linked(<Services as Fields>::SYMBOLS, |context, it, visit| {
        each_member::<Service>(context, it, ServicePolicy::SERVICES, |service| {
            visit(&<Services as Fields>::SYMBOLS.row(context, service))
        })
    })
    .public_link();
    show identity_roles_display by |context, it| named::<Identity>(context, &it.identity_roles);
    show service_roles_display by |context, it| named::<Service>(context, &it.service_roles);
    show posture_check_roles_display by |context, it| {
        named::<PostureCheck>(context, &it.posture_check_roles)
    };
}

impl Readable for ServicePolicies {
    const KIND: &'static ContractKind = &sp_contract::KIND;

    fn shown(_caller: &Caller) -> ListedRecords {
        ListedRecords::All
    }
}

impl Resource for ServicePolicies {
    type Prepared = ();

    fn validate(
        decision: &mut Decision<'_>,
        before: Option<&ServicePolicy>,
        after: &mut ServicePolicy,
        _prepared: &(),
    ) -> Result<()> {
        let side = |side: fn(&ServicePolicy) -> &Roles| (side(after), before.map(side));
        check_side::<Identity>(decision, "identityRoles", side(|it| &it.identity_roles))?;
        check_side::<Service>(decision, "serviceRoles", side(|it| &it.service_roles))?;
        let checks = side(|it| &it.posture_check_roles);
        check_side::<PostureCheck>(decision, "postureCheckRoles", checks)
    }
}

fields! {
    EdgeRouterPolicies of EdgeRouterPolicy, set by EdgeRouterPolicyBody,
    shown as EdgeRouterPolicyDetail, searched as "edge-router-policies";

    tags;
    name { set, shown, searched }
    semantic { set by choice, shown by word, searched }
    identity_roles { set, shown, searched }
    edge_router_roles { set, shown, searched }
    show identity_roles_display by |context, it| named::<Identity>(context, &it.identity_roles);
    show edge_router_roles_display by |context, it| named::<Router>(context, &it.edge_router_roles);
    show is_system by |_, it| it.base.is_system;
}

impl Readable for EdgeRouterPolicies {
    const KIND: &'static ContractKind = &er_contract::KIND;

    fn shown(_caller: &Caller) -> ListedRecords {
        ListedRecords::All
    }
}

impl Resource for EdgeRouterPolicies {
    type Prepared = ();

    fn validate(
        decision: &mut Decision<'_>,
        before: Option<&EdgeRouterPolicy>,
        after: &mut EdgeRouterPolicy,
        _prepared: &(),
    ) -> Result<()> {
        let side = |side: fn(&EdgeRouterPolicy) -> &Roles| (side(after), before.map(side));
        check_side::<Identity>(decision, "identityRoles", side(|it| &it.identity_roles))?;
        check_side::<Router>(decision, "edgeRouterRoles", side(|it| &it.edge_router_roles))
    }
}

fields! {
    ServiceEdgeRouterPolicies of ServiceEdgeRouterPolicy, set by ServiceEdgeRouterPolicyBody,
    shown as ServiceEdgeRouterPolicyDetail, searched as "service-edge-router-policies";

    tags;
    name { set, shown, searched }
    semantic { set by choice, shown by word, searched }
    service_roles { set, shown, searched }
    edge_router_roles { set, shown, searched }
    show service_roles_display by |context, it| named::<Service>(context, &it.service_roles);
    show edge_router_roles_display by |context, it| named::<Router>(context, &it.edge_router_roles);
}

impl Readable for ServiceEdgeRouterPolicies {
    const KIND: &'static ContractKind = &ser_contract::KIND;

    fn shown(_caller: &Caller) -> ListedRecords {
        ListedRecords::All
    }
}

impl Resource for ServiceEdgeRouterPolicies {
    type Prepared = ();

    fn validate(
        decision: &mut Decision<'_>,
        before: Option<&ServiceEdgeRouterPolicy>,
        after: &mut ServiceEdgeRouterPolicy,
        _prepared: &(),
    ) -> Result<()> {
        let side = |side: fn(&ServiceEdgeRouterPolicy) -> &Roles| (side(after), before.map(side));
        check_side::<Service>(decision, "serviceRoles", side(|it| &it.service_roles))?;
        check_side::<Router>(decision, "edgeRouterRoles", side(|it| &it.edge_router_roles))
    }
}

/// The roles of a side, with names in place of ids.
fn named<T: Record>(context: &Context, roles: &Roles) -> Vec<NamedRole> {
    convert::display::<T>(context.view(), roles)
}

/// The type of a service policy. The word "Invalid" appears in replies only, and is refused in
/// bodies.
fn granted(word: &DialBind) -> Result<PolicyType> {
    PolicyType::parse(word.as_str())
        .ok_or_else(|| Failure::field("type", "must be Dial or Bind", word.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::Bed;

    #[tokio::test]
    async fn policies_are_found_by_what_they_affect() {
        let bed = Bed::new().await;
        let admin = bed.admin().await;
        let body = json!({"name": "web", "encryptionRequired": true, "roleAttributes": ["web"]});
        let service = bed.create(&admin, "createService", body).await;
        for (name, role) in [("a", "#web"), ("b", "#mail")] {
            let body = json!({"name": name, "semantic": "AnyOf", "type": "Dial",
                "serviceRoles": [role], "identityRoles": ["#all"]});
            bed.create(&admin, "createServicePolicy", body).await;
        }
        for (filter, expected) in [
            (format!("anyOf(services) = \"{service}\""), &["a"][..]),
            ("isEmpty(services)".into(), &["b"]),
            ("not isEmpty(from services where name = \"web\")".into(), &["a"]),
            ("count(identities) = 1".into(), &["a", "b"]),
            ("isEmpty(from identities where isAdmin = true)".into(), &[]),
        ] {
            let filter = format!("{filter} sort by name");
            let found = bed.list(&admin, "listServicePolicies", &filter).await;
            let names: Vec<_> = found.iter().map(|it| it["name"].as_str().unwrap()).collect();
            assert_eq!(names, expected, "{filter}");
        }
    }

    #[tokio::test]
    async fn older_clients_ask_for_types_by_their_numbers() {
        let bed = Bed::new().await;
        let admin = bed.admin().await;
        for (name, kind) in [("bind", "Bind"), ("dial", "Dial")] {
            let body = json!({"name": name, "semantic": "AnyOf", "type": kind});
            bed.create(&admin, "createServicePolicy", body).await;
        }
        for (filter, expected) in [
            ("type = 1", &["dial"][..]),
            ("type=2", &["bind"]),
            ("type != 1", &["bind"]),
            ("type in [2]", &["bind"]),
            ("type in [1, 2]", &["bind", "dial"]),
            ("type not in [1]", &["bind"]),
            ("type = \"Dial\"", &["dial"]),
        ] {
            let filter = format!("{filter} sort by name");
            let found = bed.list(&admin, "listServicePolicies", &filter).await;
            let names: Vec<_> = found.iter().map(|it| it["name"].as_str().unwrap()).collect();
            assert_eq!(names, expected, "{filter}");
        }
    }
}
