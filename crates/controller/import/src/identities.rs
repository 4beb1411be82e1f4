//! Reads identities: who they are, what they may, and how they host services.

use std::collections::BTreeMap;

use weft_bolt::BoltContent;
use weft_contract::permission::Permission;
use weft_model::entity::{AuthPolicy, Identity, Precedence, ServiceConfigs};
use weft_model::{Entity, Id};

use crate::fields::{Fields, Taken, Value, value_of};
use crate::layout::Layout;

/// Why what a client says of its device is not taken.
const AT_LOGIN: &str = "clients report it again when they log in";

/// Reads an identity.
pub(crate) fn identity(fields: &mut Fields<'_, '_>, _: Layout) -> Taken<Entity> {
    let name = fields.name()?;
    fields.reported("envInfo", "envInfoOs", AT_LOGIN);
    fields.reported("sdkInfo", "sdkInfoVersion", AT_LOGIN);
    fields.reported("interfaces", "interfaces", AT_LOGIN);
    let costs = hosting(fields, "serviceHostingCosts")?;
    let costs =
        costs.into_iter().filter_map(|(service, cost)| Some((service, u16::try_from(cost).ok()?)));
    let costs = costs.collect();
    let precedences = hosting(fields, "serviceHostingPrecedences")?;
    let precedences =
        precedences.into_iter().map(|(service, number)| (service, precedence(number)));
    let policy = fields.id("authPolicyId");
    let identity = Identity {
        base: fields.base()?,
        name,
        identity_type: fields.choice("type", weft_model::entity::IdentityType::Default),
        external_id: fields.full_text("externalId").map(Into::into),
        auth_policy_id: policy.unwrap_or_else(|| Id::new(AuthPolicy::DEFAULT_ID)),
        is_admin: fields.flag("isAdmin", false),
        is_default_admin: fields.flag("isDefaultAdmin", false),
        role_attributes: fields.attributes()?,
        default_hosting_precedence: precedence(
            fields.number("defaultHostingPrecedence").unwrap_or_default(),
        ),
        default_hosting_cost: fields.cost("defaultHostingCost"),
        service_hosting_precedences: precedences.collect(),
        service_hosting_costs: costs,
        app_data: fields.object("appData")?,
        disabled_at: fields.time("disabledAt"),
        disabled_until: fields.time("disabledUntil"),
        service_configs: service_configs(fields)?.into_iter().collect(),
        permissions: permissions(fields)?.into(),
        enrolled_by: None,
    };
    Ok(identity.into())
}

/// The numbers of precedences are the same as weft's.
fn precedence(number: i64) -> Precedence {
    i32::try_from(number).ok().and_then(|number| number.try_into().ok()).unwrap_or_default()
}

/// Numbers by the ids of services.
fn hosting(fields: &mut Fields<'_, '_>, field: &'static str) -> Taken<BTreeMap<Id, i64>> {
    let mut numbers = BTreeMap::new();
    for (service, value) in fields.object(field)?.iter() {
        match (Id::parse(service), value.as_i64()) {
            (Ok(id), Some(number)) if (0..=i64::from(u16::MAX)).contains(&number) => {
                numbers.insert(id, number);
            }
            _ => fields.lose(field, format!("{value} for the service {service} is not a number")),
        }
    }
    Ok(numbers)
}

/// Configs in place of those of services: a bucket for each service, with the configs by their types.
fn service_configs(fields: &mut Fields<'_, '_>) -> Taken<BTreeMap<Id, ServiceConfigs>> {
    let field = "serviceConfigs";
    let mut all = BTreeMap::new();
    let Some(services) = fields.bucket(field) else { return Ok(all) };
    for entry in services.entries() {
        let entry = entry?;
        let BoltContent::Bucket(by_type) = entry.content else { continue };
        let mut configs = BTreeMap::new();
        for pair in by_type.entries() {
            let pair = pair?;
            let config = match pair.content {
                BoltContent::Value(value) => value_of(&value),
                BoltContent::Bucket(_) => Value::Unknown,
            };
            let Value::Text(config) = config else { continue };
            if let (Some(kind), Some(config)) = (id_of(&pair.key), id_of(&config)) {
                configs.insert(kind, config);
            }
        }
        match id_of(&entry.key) {
            Some(service) if !configs.is_empty() => {
                all.insert(service, ServiceConfigs { configs });
            }
            Some(_) => {}
            None => fields.lose(field, "the id of a service is none"),
        }
    }
    Ok(all)
}

fn id_of(bytes: &[u8]) -> Option<Id> {
    Id::parse(std::str::from_utf8(bytes).ok()?).ok()
}

/// Permissions; those that weft does not know are lost.
fn permissions(fields: &mut Fields<'_, '_>) -> Taken<Vec<std::sync::Arc<str>>> {
    let mut permissions = Vec::new();
    for name in fields.list("permissions")? {
        if Permission::parse(&name).is_some() {
            permissions.push(name.into());
        } else {
            fields.lose("permissions", format!("weft has no permission {name:?}"));
        }
    }
    Ok(permissions)
}
