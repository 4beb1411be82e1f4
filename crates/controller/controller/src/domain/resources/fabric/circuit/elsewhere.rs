//! The circuits of other controllers: questions to them, and answers to theirs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use weft_contract::resource::fabric::circuit::CircuitDetail;
use weft_kernel::call::{Content, QueryParameters};
use weft_kernel::{Caller, Failure, Reply, Result};
use weft_model::filter::Page;
use weft_network::elsewhere::{AnswerFromElsewhere, ControllerAnswer, ControllerCall};

use super::{Circuits, ListedCircuit};
use crate::Controller;
use crate::domain::live::{self, InMemoryKind as _, OtherParts};
use crate::domain::resources::fabric::network;

/// Most circuits that a controller tells another one for a list.
const MOST_TOLD: u64 = 5_000;
/// How long a controller that was asked works on a list: nobody waits for it any longer.
const PATIENCE: Duration = Duration::from_millis(900);

const LIST: &str = "listCircuits";
const DETAIL: &str = "detailCircuit";
const DELETE: &str = "deleteCircuit";

/// Asks the other controllers, if the network runs.
async fn ask(controller: &Controller, call: &ControllerCall) -> Vec<AnswerFromElsewhere> {
    match controller.network() {
        Some(network) => network.ask_elsewhere(call).await,
        None => Vec::new(),
    }
}

/// The parts of the other controllers of a page. A controller that does not answer within a second is missing.
pub(super) async fn parts(
    controller: &Controller,
    query: &QueryParameters,
    page: Page,
) -> Result<OtherParts<ListedCircuit>> {
    let text = |name| query.get(name).unwrap_or_default().to_owned();
    // Whatever is on the page, is among so many of each.
    let wanted = page.limit.map_or(u64::MAX, |limit| page.offset.saturating_add(limit));
    let call = ControllerCall {
        operation: LIST.to_owned(),
        filter: text("filter"),
        sort: text("sort"),
        most: wanted.min(MOST_TOLD),
        ..ControllerCall::default()
    };
    let mut parts = OtherParts::default();
    for AnswerFromElsewhere { controller, answer } in ask(controller, &call).await {
        let answer = answer.filter(|answer| answer.status == 200);
        let read = |answer: ControllerAnswer| {
            let circuits: Vec<CircuitDetail> = serde_json::from_slice(&answer.data).ok()?;
            Some((circuits, answer.total))
        };
        // A long list takes milliseconds, in which other requests go on.
        let told = match answer {
            Some(answer) => tokio::task::spawn_blocking(move || read(answer)).await.ok().flatten(),
            None => None,
        };
        let Some((circuits, total)) = told else {
            parts.missing.push(controller);
            continue;
        };
        let more = total.saturating_sub(circuits.len() as u64);
        if more > 0 && wanted > MOST_TOLD {
            let reason = format!(
                "controller {controller} has {total} circuits that match, and tells at most {MOST_TOLD}: use a filter"
            );
            return Err(Failure::field("offset", reason, page.offset.to_string()));
        }
        parts.more += more;
        let circuits = circuits.into_iter().map(|it| ListedCircuit::Elsewhere(Box::new(it)));
        parts.records.extend(circuits.map(Arc::new));
    }
    Ok(parts)
}

/// A circuit of another controller.
pub(super) async fn detail(controller: &Controller, id: &str) -> Result<CircuitDetail> {
    let data = about(controller, DETAIL, id, false).await?;
    serde_json::from_slice(&data).map_err(|error| Failure::unhandled(error.to_string()))
}

/// Ends a circuit of another controller.
pub(super) async fn delete(controller: &Controller, id: &str, immediate: bool) -> Result<()> {
    about(controller, DELETE, id, immediate).await.map(drop)
}

/// The data of the controller that has a circuit. Without one the error names those that did not answer.
async fn about(
    controller: &Controller,
    operation: &str,
    id: &str,
    immediate: bool,
) -> Result<Bytes> {
    let call = ControllerCall {
        operation: operation.to_owned(),
        entity: id.to_owned(),
        immediate,
        ..ControllerCall::default()
    };
    let mut missing = Vec::new();
    for AnswerFromElsewhere { controller, answer } in ask(controller, &call).await {
        match answer {
            Some(answer) if answer.status == 200 => return Ok(answer.data),
            Some(answer) if answer.status == 404 => {}
            _ => missing.push(controller),
        }
    }
    if missing.is_empty() {
        return Err(Failure::not_found(Circuits::NAME, id));
    }
    let text = format!(
        "no controller that answers has {} {id}, and there is no answer of {}",
        Circuits::NAME,
        missing.join(", ")
    );
    Err(Failure::unhandled(text).with_status(503).with_retry_after(Duration::from_secs(1)))
}

/// The answer to another controller, about the circuits of this one.
pub(crate) async fn answer(controller: &Controller, call: ControllerCall) -> ControllerAnswer {
    match carry_out(controller, call).await {
        Ok((data, total)) => ControllerAnswer { status: 200, data, total },
        Err(failure) => {
            let status = u32::from(failure.status());
            ControllerAnswer { status, data: failure.to_string().into(), total: 0 }
        }
    }
}

async fn carry_out(controller: &Controller, asked: ControllerCall) -> Result<(Bytes, u64)> {
    let caller = Caller::own("another controller");
    let reply = match asked.operation.as_str() {
        LIST => {
            let query = [("filter", asked.filter), ("sort", asked.sort)];
            let query = query.map(|(name, value)| (name.to_owned(), value)).into();
            let page = Page { offset: 0, limit: Some(asked.most.min(MOST_TOLD)) };
            let selection = live::selection::<Circuits>(&caller, &QueryParameters(query))?;
            let selection = selection.with_page(page);
            live::own_page::<Circuits>(controller, &caller, selection, Instant::now() + PATIENCE)
                .await?
        }
        DETAIL => {
            let context = controller.context(&caller);
            let own = live::require::<Circuits>(&context, &asked.entity)?;
            Reply::detail(&Circuits::detail(&context, &own)?)?
        }
        DELETE => {
            if !network(controller)?.remove_circuit(&asked.entity, asked.immediate) {
                return Err(Failure::not_found(Circuits::NAME, &asked.entity));
            }
            Reply::empty()?
        }
        other => {
            let text = format!("{other} is not carried out for other controllers");
            return Err(Failure::unhandled(text).with_status(501));
        }
    };
    let Content::Data { data, meta } = reply.content else { return Ok((Bytes::new(), 0)) };
    let total = meta.pagination.map_or(0, |page| page.total_count.unsigned_abs());
    Ok((data.into(), total))
}
