//! Inspections of this controller and its routers (docs/protocol/operations.md 3).
//!
//! Routers of OpenZiti also answer with the content of entities. The permission `ops.read` is no permission to read
//! these entities, so that such values need a caller that may read them.

use futures::FutureExt as _;
use weft_contract::permission::{Action, Permission, Subject};
use weft_contract::resource::fabric::inspection::{InspectBody, Inspected};
use weft_contract::{Api, Verb, headers};
use weft_kernel::call::{Answer, Handler};
use weft_kernel::{Call, Caller, Failure, Reply};

use super::network;
use crate::Controller;

/// The operation.
pub(crate) const HANDLERS: &[(Api, &str, Handler<Controller>)] =
    &[(Api::Fabric, "inspect", inspect)];

/// The value with the router's copy of the data model: identities, services, configs with their data, policies and
/// more. The names of further values with parts of it begin with the same words.
const DATA_MODEL: &str = "router-data-model";
/// The value that begins like [`DATA_MODEL`], and only says how far the copy has come.
const DATA_MODEL_INDEX: &str = "router-data-model-index";
/// The value with the configs that a router is kept by.
const CONFIGS_OF_ROUTER: &str = "router-config-registry";

/// Refuses a caller that asks for values with the content of entities that the caller may not read. All known names
/// are ASCII; whether another program takes a different letter for one of theirs is not known here, so that names
/// with such letters are for callers that may read everything.
fn may_ask(caller: &Caller, values: &[String]) -> Result<(), Failure> {
    for value in values {
        let name = value.to_ascii_lowercase();
        let is_whole = name.starts_with(DATA_MODEL) && name != DATA_MODEL_INDEX;
        let has_configs = name.starts_with(CONFIGS_OF_ROUTER);
        let needed = if (is_whole || !name.is_ascii()) && !caller.reads_all() {
            Permission::AdminReadOnly
        } else if has_configs && !caller.may(Subject::Config, Action::Read) {
            Permission::One(Subject::Config, Action::Read)
        } else {
            continue;
        };
        let shown: String = value.chars().take(64).collect();
        let text = format!("the value {shown} has entities that need the permission {needed}");
        return Err(Failure::unauthorized(text));
    }
    Ok(())
}

/// Handles an inspection. The reply has no envelope, and lists the programs that could not be
/// asked.
fn inspect(controller: Controller, caller: Caller, call: Call) -> Answer {
    async move {
        let body: InspectBody = call.decode(Verb::Create)?;
        let pattern = body.app_regex.unwrap_or_default();
        let values = body.requested_values.unwrap_or_default();
        may_ask(&caller, &values)?;
        let inspected: Inspected = network(&controller)?.inspect(&pattern, &values).await;
        let text = serde_json::to_vec(&inspected)
            .map_err(|error| Failure::unhandled(error.to_string()))?;
        Ok(Reply::raw(headers::JSON, text))
    }
    .boxed()
}
