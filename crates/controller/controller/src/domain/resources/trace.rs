//! Switches the tracing of an identity's circuits on and off (docs/protocol/management-api.md 7.1).

use std::time::Duration;

use weft_config::parse_duration;
use weft_contract::resource::identity::{TraceBody, TraceDetail};
use weft_contract::{Api, Timestamp as TimeWord, Verb};
use weft_kernel::call::HandlerRow;
use weft_kernel::traces::{Channel, Trace};
use weft_kernel::{Call, Caller, Failure, Reply, Result, convert, rank};
use weft_model::Id;

use super::identity::Identities;
use crate::Controller;
use crate::domain::resource::require;

/// The operation.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] =
    &[(Api::Management, "updateIdentityTracing", &update)];

/// Longest name of a trace, in bytes.
const MAX_NAME: usize = 256;

async fn update(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let body: TraceBody = call.decode(Verb::Replace)?;
    let context = controller.context(&caller);
    let identity = require::<Identities>(context.view(), call.id(0))?;
    rank::guard(&caller, identity)?;
    let identity = identity.base.id.clone();
    if !body.enabled.unwrap_or(false) {
        controller.kernel().traces().end(&identity);
        return Reply::detail(&TraceDetail { until: TimeWord::ZERO, ..TraceDetail::default() });
    }
    let length = length(body.duration.as_deref().unwrap_or_default())?;
    let name = body.trace_id.unwrap_or_default();
    if name.len() > MAX_NAME {
        let reason = format!("must be at most {MAX_NAME} bytes long");
        return Err(Failure::field("traceId", reason, name.len().to_string()));
    }
    let id = if name.is_empty() { controller.kernel().ids().token().to_string() } else { name };
    let until = context.now().plus(length);
    let channels = Channel::named(&body.channels.unwrap_or_default());
    begin(&controller, &identity, Trace { id: id.clone(), until, channels });
    Reply::detail(&TraceDetail { enabled: true, trace_id: id, until: convert::time(until) })
}

fn begin(controller: &Controller, identity: &Id, trace: Trace) {
    tracing::info!(%identity, trace = trace.id, "circuits of the identity are traced");
    controller.kernel().traces().begin(identity, trace);
}

fn length(text: &str) -> Result<Duration> {
    let parsed = parse_duration(text);
    let refused = |reason: String| Failure::field("duration", reason, text);
    let parsed = parsed.map_err(refused)?;
    if parsed.negative || parsed.length.is_zero() {
        return Err(refused("must be longer than nothing, such as 5m".into()));
    }
    Ok(parsed.length)
}
