//! Config types (docs/protocol/management-api.md 7.3).

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value as Json;
use weft_contract::resource::config::{CONFIG_TYPE_KIND, ConfigTypeBody, ConfigTypeDetail, Target};
use weft_contract::{Kind as ContractKind, Verb};
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure, convert};
use weft_model::Id;
use weft_model::entity::{Config, ConfigTarget, ConfigType};
use weft_model::filter::{Table, Type, Value};

use crate::Controller;
use crate::domain::context::Context;
use crate::domain::resource::{Readable, Resource, detail_base};
use crate::domain::schema::Schema;
use crate::domain::symbols::symbols;

/// The resource.
pub(crate) struct ConfigTypes;

/// The name that stands for all config types in queries.
const RESERVED: &str = "all";

static SYMBOLS: Table<Context, ConfigType> = symbols!("config-types", ConfigType {
    Column::one("name", Type::String, |_, it| Value::text(&it.name)).public(),
    Column::one("schema", Type::String, |_, it| Value::Text(it.schema.to_text().into())).public(),
    Column::one("target", Type::String, |_, it| Value::text(it.target.as_str())).public(),
});

impl Readable for ConfigTypes {
    type Record = ConfigType;
    type Detail = ConfigTypeDetail;

    const KIND: &'static ContractKind = &CONFIG_TYPE_KIND;
    const SYMBOLS: &'static Table<Context, ConfigType> = &SYMBOLS;

    fn detail(_context: &Context, record: &ConfigType) -> ConfigTypeDetail {
        ConfigTypeDetail {
            base: detail_base::<Self>(&record.base),
            name: record.name.to_string(),
            schema: convert::json(&record.schema),
            target: Target::parse(record.target.as_str()).unwrap_or_default(),
        }
    }
}

impl Resource for ConfigTypes {
    type Body = ConfigTypeBody;
    type Prepared = ();

    fn prepare<'a>(
        _controller: &'a Controller,
        _caller: &'a Caller,
        body: &'a ConfigTypeBody,
        _verb: Verb,
        _id: &'a Id,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        let checked = match &body.schema {
            Some(schema) if !schema.is_empty() => Schema::compile(&Json::Object(schema.clone()))
                .map(drop)
                .map_err(|reason| Failure::field("schema", reason, "")),
            _ => Ok(()),
        };
        async move { checked }.boxed()
    }

    fn keep(current: &ConfigType, fresh: &mut ConfigType) {
        fresh.target = current.target;
    }

    fn merge(
        record: &mut ConfigType,
        body: &ConfigTypeBody,
        _prepared: &(),
        verb: Verb,
    ) -> Result<(), Failure> {
        if let Some(name) = &body.name {
            if name == RESERVED {
                return Err(Failure::field("name", "all is a reserved name", name));
            }
            record.name = name.as_str().into();
        }
        if let Some(schema) = &body.schema {
            record.schema = schema.clone().into();
        }
        if let Some(tags) = &body.tags {
            record.base.tags = convert::from_tags(tags);
        }
        if let Some(target) = body.target {
            let wanted = ConfigTarget::parse(target.as_str()).unwrap_or_default();
            if verb != Verb::Create && wanted != record.target {
                let reason = "the target of a config type cannot be changed";
                return Err(Failure::field("target", reason, target.as_str()));
            }
            record.target = wanted;
        }
        Ok(())
    }

    fn validate(
        _decision: &mut Decision<'_>,
        _before: Option<&ConfigType>,
        _after: &mut ConfigType,
        _prepared: &(),
    ) -> Result<(), Failure> {
        Ok(())
    }
}

/// Configs that one entity may carry together: of this target, one per type
/// (docs/protocol/management-api.md 7.2, 7.5).
pub(crate) fn check_configs(
    decision: &Decision<'_>,
    target: ConfigTarget,
    configs: &[Id],
) -> Result<(), Failure> {
    let mut seen: Vec<Id> = Vec::with_capacity(configs.len());
    for id in configs {
        let config = decision.require::<Config>("configs", id)?;
        let of_type = decision.require::<ConfigType>("configs", &config.config_type_id)?;
        if of_type.target != target {
            let reason = format!("configs here must be of a type with target {target}");
            return Err(Failure::field("configs", reason, id.as_str()));
        }
        if seen.contains(&config.config_type_id) {
            let reason = format!("only one config of type {} is allowed", of_type.name);
            return Err(Failure::field("configs", reason, id.as_str()));
        }
        seen.push(config.config_type_id.clone());
    }
    Ok(())
}
