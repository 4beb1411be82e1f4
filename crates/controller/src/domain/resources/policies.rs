//! Service policies, edge router policies and service edge router policies
//! (docs/protocol/management-api.md 7.4). They differ in their sides only.

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
use weft_contract::{Kind as ContractKind, Verb};
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure, convert};
use weft_model::entity::{
    EdgeRouterPolicy, Identity, PolicyType, PostureCheck, Record, Router, Service,
    ServiceEdgeRouterPolicy, ServicePolicy,
};
use weft_model::filter::{Table, Type, Value};
use weft_model::{Id, Roles};

use super::identity::Identities;
use super::service::Services;
use crate::domain::context::Context;
use crate::domain::resource::{Readable, Resource, Shown, detail_base, nothing_prepared};
use crate::domain::symbols::{each_role, symbols};

/// Service policies.
pub(crate) struct ServicePolicies;
/// Edge router policies.
pub(crate) struct EdgeRouterPolicies;
/// Service edge router policies.
pub(crate) struct ServiceEdgeRouterPolicies;

/// Every `@id` of a side must be an existing entity that policies can mean.
fn check_side<T: Record>(
    decision: &Decision<'_>,
    field: &str,
    roles: &Roles,
    before: Option<&Roles>,
) -> Result<(), Failure> {
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

/// Shows the members of a side of a service policy.
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

/// A policy: body members to roles, roles to checks, roles to details.
macro_rules! policy {
    (
        $resource:ident, $record:ident, $body:ident, $detail:ident, $kind:expr, $collection:literal,
        sides { $($roles:ident $display:ident $name:literal $side:ident,)* }
        $(merge { $merge:expr })?
        $(show { $show:expr })?
        $(columns { $($column:expr,)* })?
    ) => {
        const _: () = {
            static SYMBOLS: Table<Context, $record> = symbols!($collection, $record {
                Column::one("name", Type::String, |_, it| Value::text(&it.name)).public(),
                Column::one("semantic", Type::String, |_, it| Value::text(it.semantic.as_str()))
                    .public(),
                $(Column::set($name, Type::String, |_, it, visit| each_role(&it.$roles, visit))
                    .public(),)*
                $($($column,)*)?
            });

            impl Readable for $resource {
                type Record = $record;
                type Detail = $detail;

                const KIND: &'static ContractKind = $kind;
                const SYMBOLS: &'static Table<Context, $record> = &SYMBOLS;

                fn shown(_caller: &Caller) -> Shown {
                    Shown::All
                }

                fn detail(context: &Context, record: &$record) -> $detail {
                    let mut detail = $detail {
                        base: detail_base::<Self>(&record.base),
                        name: record.name.to_string(),
                        semantic: convert::semantic(record.semantic),
                        ..$detail::default()
                    };
                    $(
                        detail.$roles = record.$roles.to_strings();
                        detail.$display = convert::display::<$side>(context.view(), &record.$roles);
                    )*
                    $($show(&mut detail, record);)?
                    detail
                }
            }

            impl Resource for $resource {
                type Body = $body;
                nothing_prepared!();

                fn merge(
                    record: &mut $record,
                    body: &$body,
                    _prepared: &(),
                    _verb: Verb,
                ) -> Result<(), Failure> {
                    if let Some(name) = &body.name {
                        record.name = name.as_str().into();
                    }
                    if let Some(semantic) = body.semantic {
                        record.semantic = convert::from_semantic(semantic);
                    }
                    $(if let Some(roles) = &body.$roles {
                        record.$roles = convert::roles($name, roles)?;
                    })*
                    $($merge(record, body)?;)?
                    if let Some(tags) = &body.tags {
                        record.base.tags = convert::from_tags(tags);
                    }
                    Ok(())
                }

                fn validate(
                    decision: &mut Decision<'_>,
                    before: Option<&$record>,
                    after: &mut $record,
                    _prepared: &(),
                ) -> Result<(), Failure> {
                    $(
                        let old = before.map(|before| &before.$roles);
                        check_side::<$side>(decision, $name, &after.$roles, old)?;
                    )*
                    Ok(())
                }
            }
        };
    };
}

policy!(
    ServicePolicies, ServicePolicy, ServicePolicyBody, ServicePolicyDetail, &sp_contract::KIND,
    "service-policies",
    sides {
        identity_roles identity_roles_display "identityRoles" Identity,
        service_roles service_roles_display "serviceRoles" Service,
        posture_check_roles posture_check_roles_display "postureCheckRoles" PostureCheck,
    }
    merge {
        |record: &mut ServicePolicy, body: &ServicePolicyBody| match body.policy_type {
            Some(word) => granted(word).map(|granted| record.policy_type = granted),
            None => Ok(()),
        }
    }
    show {
        |detail: &mut ServicePolicyDetail, record: &ServicePolicy| {
            detail.r#type = convert::policy_type(record.policy_type);
        }
    }
    columns {
        Column::one("type", Type::String, |_, it: &ServicePolicy| {
            Value::text(it.policy_type.as_str())
        })
        .public(),
        Column::set("identities", Type::String, |context, it: &ServicePolicy, visit| {
            each_member::<Identity>(context, it, ServicePolicy::IDENTITIES, |identity| {
                visit(Value::text(identity.base.id.as_str()))
            })
        })
        .linked(Identities::SYMBOLS, |context, it, visit| {
            each_member::<Identity>(context, it, ServicePolicy::IDENTITIES, |identity| {
                visit(&Identities::SYMBOLS.row(context, identity))
            })
        })
        .public_link(),
        Column::set("services", Type::String, |context, it: &ServicePolicy, visit| {
            each_member::<Service>(context, it, ServicePolicy::SERVICES, |service| {
                visit(Value::text(service.base.id.as_str()))
            })
        })
        .linked(Services::SYMBOLS, |context, it, visit| {
            each_member::<Service>(context, it, ServicePolicy::SERVICES, |service| {
                visit(&Services::SYMBOLS.row(context, service))
            })
        })
        .public_link(),
    }
);

policy!(
    EdgeRouterPolicies, EdgeRouterPolicy, EdgeRouterPolicyBody, EdgeRouterPolicyDetail,
    &er_contract::KIND, "edge-router-policies",
    sides {
        identity_roles identity_roles_display "identityRoles" Identity,
        edge_router_roles edge_router_roles_display "edgeRouterRoles" Router,
    }
    show {
        |detail: &mut EdgeRouterPolicyDetail, record: &EdgeRouterPolicy| {
            detail.is_system = record.base.is_system;
        }
    }
);

policy!(
    ServiceEdgeRouterPolicies, ServiceEdgeRouterPolicy, ServiceEdgeRouterPolicyBody,
    ServiceEdgeRouterPolicyDetail, &ser_contract::KIND, "service-edge-router-policies",
    sides {
        service_roles service_roles_display "serviceRoles" Service,
        edge_router_roles edge_router_roles_display "edgeRouterRoles" Router,
    }
);

/// What a service policy grants; "Invalid" is a word of replies only.
fn granted(word: DialBind) -> Result<PolicyType, Failure> {
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
}
