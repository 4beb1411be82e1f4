//! Configs (docs/protocol/management-api.md 7.3).

use weft_contract::json::narrow_numbers;
use weft_contract::resource::config::{
    CONFIG_KIND, CONFIG_TYPE_COLLECTION, ConfigBody, ConfigDetail,
};
use weft_contract::{Kind as ContractKind, Verb};
use weft_kernel::decision::Decision;
use weft_kernel::view::View;
use weft_kernel::{Caller, Failure, Result, convert};
use weft_model::entity::{Config, ConfigType};
use weft_model::filter::Index;
use weft_model::{Id, JsonMap, Snapshot};

use crate::Controller;
use crate::domain::fields::fields;
use crate::domain::resource::{ListedRecords, Readable, Resource};
use crate::domain::schema::check;

/// The resource.
pub(crate) struct Configs;

/// The result of checking the data against the schema of the config's type. The check runs in
/// prepare, because large data would hold up the writer.
#[derive(Default)]
pub(crate) struct Prepared {
    of: JsonMap,
    /// The result; none if the body has no data.
    outcome: Option<Result<()>>,
}

fields! {
    Configs of Config, set by ConfigBody, shown as ConfigDetail, searched as "configs";

    tags;
    name { set, shown, searched }
    config_type_id {
        set on Create by type_id, shown, searched as "type" indexed Index::Link(0)
    }
    data { set by kept, shown }
    show config_type by |context, it| {
        convert::mention::<ConfigType>(context.view(), CONFIG_TYPE_COLLECTION, &it.config_type_id)
    };
}

impl Readable for Configs {
    const KIND: &'static ContractKind = &CONFIG_KIND;

    fn shown(_caller: &Caller) -> ListedRecords {
        ListedRecords::All
    }
}

impl Resource for Configs {
    type Prepared = Prepared;

    async fn prepare(
        controller: &Controller,
        _caller: &Caller,
        body: &ConfigBody,
        verb: Verb,
        id: &Id,
    ) -> Result<Prepared> {
        let of = schema_of(&controller.kernel().snapshot(), body, verb, id);
        let data = body.data.as_ref().map(kept);
        let work = move || {
            let outcome = data.map(|data| check(&of, &data?));
            Prepared { of, outcome }
        };
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|error| Failure::unhandled(format!("the check failed: {error}")))
    }

    fn validate(
        decision: &mut Decision<'_>,
        before: Option<&Config>,
        after: &mut Config,
        prepared: &Prepared,
    ) -> Result<()> {
        let of_type = decision.require::<ConfigType>("type", &after.config_type_id)?;
        if before.is_some_and(|before| before.data == after.data) {
            return Ok(());
        }
        match &prepared.outcome {
            Some(outcome) if prepared.of == of_type.schema => outcome.clone(),
            // The type changed since prepare: the data is checked anew. The check is pure, so every
            // run of the decision gives the same result.
            _ => check(&of_type.schema, &after.data),
        }
    }
}

/// The type that a body names.
fn type_id(id: &str) -> Result<Id> {
    convert::id_field("type", id)
}

/// Data of a body as the model keeps it.
fn kept(data: &weft_contract::JsonMap) -> Result<JsonMap> {
    let mut data = data.clone();
    data.values_mut().for_each(narrow_numbers);
    Ok(data.into())
}

/// The schema of the config type of a config: that of the body of a create, or that of the config.
fn schema_of(snapshot: &Snapshot, body: &ConfigBody, verb: Verb, id: &Id) -> JsonMap {
    let view = View::of(snapshot);
    let type_id = match verb {
        Verb::Create => body.config_type_id.as_deref().unwrap_or_default().to_owned(),
        _ => view
            .get::<Config>(id.as_str())
            .map_or_else(String::new, |config| config.config_type_id.to_string()),
    };
    view.get::<ConfigType>(&type_id).map(|t| t.schema.clone()).unwrap_or_default()
}
