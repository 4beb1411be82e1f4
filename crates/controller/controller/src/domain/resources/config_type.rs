//! Config types (docs/protocol/management-api.md 7.3).

use std::sync::Arc;

use serde_json::Value as Json;
use weft_contract::json::JsonMap as ContractMap;
use weft_contract::resource::config::{CONFIG_TYPE_KIND, ConfigTypeBody, ConfigTypeDetail};
use weft_contract::{Kind as ContractKind, Verb, Word as _};
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure, Result, convert, gate};
use weft_model::entity::{Config, ConfigTarget, ConfigType};
use weft_model::{Id, JsonMap, Kind};

use crate::Controller;
use crate::domain::fields::{Fields as _, fields};
use crate::domain::resource::{Readable, Resource};
use crate::domain::values::word;
use crate::schema::Schema;

/// The resource.
pub(crate) struct ConfigTypes;

/// The word that means all config types in queries, and that no type may have as its name.
const RESERVED: &str = "all";

fields! {
    ConfigTypes of ConfigType, set by ConfigTypeBody, shown as ConfigTypeDetail,
    searched as "config-types";

    tags;
    name { set by free_name, shown, searched }
    schema { set, shown by present, searched }
    target { kept, merged, shown by word, searched }
    read target;
}

impl Readable for ConfigTypes {
    const KIND: &'static ContractKind = &CONFIG_TYPE_KIND;
}

impl Resource for ConfigTypes {
    type Prepared = ();

    async fn prepare(
        controller: &Controller,
        caller: &Caller,
        body: &ConfigTypeBody,
        _verb: Verb,
        _id: &Id,
    ) -> Result<()> {
        let schema = body.schema.clone().filter(|schema| !schema.is_empty());
        let Some(schema) = schema else { return Ok(()) };
        // Some schemas take milliseconds: callers take turns, on threads for blocking work.
        let work = move || {
            Schema::compile(&Json::Object(schema))
                .map(drop)
                .map_err(|reason| Failure::field("schema", reason, ""))
        };
        controller.kernel().scans().work(caller, work).await
    }

    fn merge(
        record: &mut ConfigType,
        body: &ConfigTypeBody,
        _prepared: &(),
        verb: Verb,
    ) -> Result<()> {
        Self::set(record, body, verb)?;
        if let Some(target) = body.target {
            let wanted: ConfigTarget = convert::choice(target);
            if verb != Verb::Create && wanted != record.target {
                let reason = "the target of a config type cannot be changed";
                return Err(Failure::field("target", reason, target.as_str()));
            }
            record.target = wanted;
        }
        Ok(())
    }
}

/// The schema that answers show.
fn present(schema: &JsonMap) -> Option<ContractMap> {
    Some(convert::json(schema)).filter(|schema| !schema.is_empty())
}

/// Checks that a name is not the reserved word.
fn free_name(name: &str) -> Result<Arc<str>> {
    match name {
        RESERVED => Err(Failure::field("name", "all is a reserved name", name)),
        name => Ok(name.into()),
    }
}

/// Checks the configs that one entity carries together: all are for this target, and each is of
/// another type (docs/protocol/management-api.md 7.2, 7.5).
pub(crate) fn check_configs(
    decision: &Decision<'_>,
    target: ConfigTarget,
    configs: &[Id],
) -> Result<()> {
    let mut seen: Vec<Id> = Vec::with_capacity(configs.len());
    for id in configs {
        let config = decision.require::<Config>("configs", id)?;
        let of_type = decision.require::<ConfigType>("configs", &config.config_type_id)?;
        if of_type.target != target {
            let reason = format!("configs here must be of a type with target {target}");
            return Err(Failure::field("configs", reason, id.as_str()));
        }
        if seen.contains(&config.config_type_id) {
            let reason = match gate::reads_kind(decision.caller(), Kind::ConfigType) {
                true => format!("only one config of type {} is allowed", of_type.name),
                false => "only one config of a type is allowed".to_owned(),
            };
            return Err(Failure::field("configs", reason, id.as_str()));
        }
        seen.push(config.config_type_id.clone());
    }
    Ok(())
}
