//! Overrides: configs that an identity sees for a service in place of the service's own
//! (docs/protocol/management-api.md 7.1).

use weft_contract::resource::config::CONFIG_COLLECTION;
use weft_contract::resource::identity::{ServiceConfigBody, ServiceConfigDetail};
use weft_contract::resource::service::COLLECTION as SERVICES;
use weft_contract::{Api, Body as _, EntityRef, Method, Verb, body};
use weft_kernel::call::HandlerRow;
use weft_kernel::decision::Decision;
use weft_kernel::{Call, Caller, Failure, Reply, Result, convert};
use weft_model::Id;
use weft_model::entity::{Config, ConfigTarget, ConfigType, Identity, Service};

use super::identity::Identities;
use crate::Controller;
use crate::domain::resource::require;

/// The operations.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[
    (Api::Management, "listIdentitysServiceConfigs", &list),
    (Api::Management, "associateIdentitysServiceConfigs", &add),
    (Api::Management, "disassociateIdentitysServiceConfigs", &remove),
];

/// Service and config of one override.
struct Pair {
    service: Id,
    config: Id,
}

async fn list(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let context = controller.context(&caller);
    let view = context.view();
    let identity = require::<Identities>(view, call.id(0))?;
    let mut pairs = Vec::new();
    for (service, overrides) in &identity.service_configs {
        for config in overrides.configs.values() {
            let reference = |collection, id: &Id, name: Option<&str>| {
                EntityRef::short(collection, id.as_str(), name.unwrap_or_default())
            };
            let service_name = view.get::<Service>(service.as_str()).map(|it| &*it.name);
            let config_name = view.get::<Config>(config.as_str()).map(|it| &*it.name);
            pairs.push(ServiceConfigDetail {
                config: reference(CONFIG_COLLECTION, config, config_name),
                config_id: config.to_string(),
                service: reference(SERVICES, service, service_name),
                service_id: service.to_string(),
            });
        }
    }
    Reply::whole_list(&pairs)
}

async fn change(
    controller: Controller,
    caller: Caller,
    call: Call,
    apply: fn(&Decision<'_>, &mut Identity, &Pair) -> Result<()>,
) -> Result<Reply> {
    let pairs = pairs(&call)?;
    let id = call.id(0).to_owned();
    controller
        .kernel()
        .decide(&caller, move |decision| {
            let current = require::<Identities>(decision.view(), &id)?;
            decision.guard(current)?;
            let mut identity = (**current).clone();
            for pair in &pairs {
                apply(decision, &mut identity, pair)?;
            }
            if identity != **current {
                identity.base.updated_at = decision.now();
                decision.put(identity);
            }
            Ok(())
        })
        .await?;
    Reply::empty()
}

fn pairs(call: &Call) -> Result<Vec<Pair>> {
    // A delete without body removes no override.
    if call.row.method == Method::Delete && call.body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Vec::new());
    }
    let bodies: Vec<ServiceConfigBody> = body::read(&call.body)?;
    let pair = |(at, body): (usize, ServiceConfigBody)| {
        if let Some(field) = body.missing(Verb::Create).into_iter().next() {
            let field = format!("{at}.{field}");
            return Err(Failure::field(&field, format!("{field} in body is required"), ""));
        }
        Ok(Pair {
            service: convert::id_field("serviceId", &body.service_id.unwrap_or_default())?,
            config: convert::id_field("configId", &body.config_id.unwrap_or_default())?,
        })
    };
    bodies.into_iter().enumerate().map(pair).collect()
}

async fn add(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    change(controller, caller, call, |decision, identity, pair| {
        associate(decision, identity, &pair.service, &pair.config)
    })
    .await
}

/// Adds overrides to an identity. It has one config for each service and config type: a later pair
/// replaces an earlier one.
pub(crate) fn associate(
    decision: &Decision<'_>,
    identity: &mut Identity,
    service: &Id,
    config: &Id,
) -> Result<()> {
    let found = decision.tip().get::<Config>(config);
    let found = found.ok_or_else(|| Failure::not_found("config", config.as_str()))?;
    let of_type = decision.require::<ConfigType>("configId", &found.config_type_id)?;
    if of_type.target != ConfigTarget::Service {
        let reason = "only configs of a type with target service can be used here";
        return Err(Failure::field("serviceConfigs", reason, config.as_str()));
    }
    decision.require_services("serviceConfigs", [service])?;
    let overrides = identity.service_configs.entry(service.clone()).or_default();
    overrides.configs.insert(found.config_type_id.clone(), config.clone());
    Ok(())
}

async fn remove(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    change(controller, caller, call, |_decision, identity, pair| {
        if let Some(overrides) = identity.service_configs.get_mut(&pair.service) {
            overrides.configs.retain(|_, config| *config != pair.config);
            if overrides.configs.is_empty() {
                identity.service_configs.remove(&pair.service);
            }
        }
        Ok(())
    })
    .await
}
