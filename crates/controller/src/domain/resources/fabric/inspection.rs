//! Inspections of this controller and its routers (docs/protocol/operations.md 3).

use futures::FutureExt as _;
use weft_contract::resource::fabric::inspection::{InspectBody, Inspected};
use weft_contract::{Api, Verb, headers};
use weft_kernel::call::{Answer, Handler};
use weft_kernel::{Call, Caller, Failure, Reply};

use super::network;
use crate::Controller;

/// The operation.
pub(crate) const HANDLERS: &[(Api, &str, Handler<Controller>)] =
    &[(Api::Fabric, "inspect", inspect)];

/// Handles an inspection. The reply has no envelope, and lists the programs that could not be
/// asked.
fn inspect(controller: Controller, _caller: Caller, call: Call) -> Answer {
    async move {
        let body: InspectBody = call.decode(Verb::Create)?;
        let pattern = body.app_regex.unwrap_or_default();
        let values = body.requested_values.unwrap_or_default();
        let inspected: Inspected = network(&controller)?.inspect(&pattern, &values).await;
        let text = serde_json::to_vec(&inspected)
            .map_err(|error| Failure::unhandled(error.to_string()))?;
        Ok(Reply::raw(headers::JSON, text))
    }
    .boxed()
}
