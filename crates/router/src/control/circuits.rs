//! Requests to controllers for circuits: for SDKs, for the router's own tunneler and for its other
//! listeners (docs/protocol/edge-control-plane.md 13, 15.1; docs/protocol/data-plane.md 6).

use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_channel::{Lane, RequestError};
use weft_spans::{Span, SpanKind, attribute};
use weft_wire::ctrl::{self, CircuitFailed, CircuitSuccess};
use weft_wire::edge_ctrl::{
    CreateCircuitV2, CreateTunnelCircuitV2Request, CreateTunnelCircuitV2Response, CreatedCircuit,
    EdgeError, ErrorCode, content_type,
};
use weft_wire::{Message, ProtoBody, WireError};
use weft_xgress::Role;

use super::hint::hint;
use super::shared::Core;
use crate::controllers::Controller;
use crate::seam::{
    BindingCircuitRequest, CircuitRequest, ControllerId, NewCircuit, Refusal, RetryHint,
    TunnelCircuitRequest,
};

/// The time without a sign of life after which another controller is asked, too.
const SILENCE: Duration = Duration::from_secs(1);
const NO_CONTROLLER: &str = "no controller available, cannot create circuit";

/// The controller to ask, or the refusal that no controller is connected.
fn there(controller: Option<Arc<Controller>>) -> Result<Arc<Controller>, Refusal> {
    controller.ok_or_else(|| Refusal::new(ErrorCode::INTERNAL, RetryHint::DEFAULT, NO_CONTROLLER))
}

/// Has a circuit made for an SDK. A legacy session is known to one controller only.
pub(crate) async fn for_sdk(core: &Core, request: CircuitRequest) -> Result<NewCircuit, Refusal> {
    let session = &request.session;
    let controller = there(match &session.controller {
        Some(id) if session.legacy => core.controllers.get(id),
        _ => core.controllers.any(),
    })?;
    let message = CreateCircuitV2 {
        session_token: request.grant.token,
        api_session_token: session.token.clone(),
        fingerprints: session.fingerprints.clone(),
        terminator_instance_id: request.instance,
        peer_data: request.peer_data,
    };
    let mut message = message.to_message().map_err(not_sent)?;
    if let Some(trace) = request.trace {
        trace.put(&mut message.headers);
    }
    let (controller, reply) = ask_in_turn(core, controller, message, request.timeout).await?;
    let created = CreatedCircuit::from_message(&reply).map_err(malformed)?;
    Ok(NewCircuit {
        id: created.circuit_id,
        address: created.address,
        peer_data: created.peer_data,
        controller: controller.id.clone(),
    })
}

/// Asks for a circuit for the router's own identity.
pub(crate) async fn for_tunnel(
    core: &Core,
    request: TunnelCircuitRequest,
) -> Result<NewCircuit, Refusal> {
    let mut span = begin(core, &request.service, "tunnel");
    let made = ask_for_tunnel(core, request, &span).await;
    end(&mut span, &made);
    made
}

async fn ask_for_tunnel(
    core: &Core,
    request: TunnelCircuitRequest,
    span: &Span,
) -> Result<NewCircuit, Refusal> {
    let controller = there(core.controllers.any())?;
    let message = CreateTunnelCircuitV2Request {
        service_name: request.service,
        terminator_instance_id: request.instance,
        peer_data: request.peer_data,
        end_key: request.end_key,
    };
    let message = traced(message.to_message(), span);
    let (controller, reply) = ask_in_turn(core, controller, message, request.timeout).await?;
    let created = CreateTunnelCircuitV2Response::from_message(&reply).map_err(malformed)?;
    Ok(NewCircuit {
        id: created.circuit_id,
        address: created.address,
        peer_data: created.peer_data,
        controller: controller.id.clone(),
    })
}

/// Asks for a circuit for a listener other than `edge`.
pub(crate) async fn for_binding(
    core: &Core,
    request: BindingCircuitRequest,
) -> Result<NewCircuit, Refusal> {
    let mut span = begin(core, &request.service, "transport");
    let made = ask_for_binding(core, request, &span).await;
    end(&mut span, &made);
    made
}

async fn ask_for_binding(
    core: &Core,
    request: BindingCircuitRequest,
    span: &Span,
) -> Result<NewCircuit, Refusal> {
    let controller = there(core.controllers.any())?;
    let message = ctrl::CircuitRequest {
        ingress_id: request.client,
        service: request.service,
        peer_data: request.peer_data,
    };
    let message = traced(message.to_message(), span);
    let (controller, reply) = ask_in_turn(core, controller, message, request.timeout).await?;
    let created = CircuitSuccess::from_message(&reply).map_err(malformed)?;
    Ok(NewCircuit {
        id: created.circuit_id,
        address: created.address,
        peer_data: created.peer_data,
        controller: controller.id.clone(),
    })
}

/// The span of a dial that begins at this router.
fn begin(core: &Core, service: &str, binding: &str) -> Span {
    let mut span = core.options.spans.start("router.dial", SpanKind::Server, None);
    span.set(attribute::ROUTER_ID, &core.options.router_id);
    span.set(attribute::SERVICE_NAME, service);
    span.set(attribute::LISTENER, binding);
    span
}

/// Records the outcome of a dial in its span.
fn end(span: &mut Span, made: &Result<NewCircuit, Refusal>) {
    match made {
        Ok(circuit) => {
            span.set(attribute::CIRCUIT_ID, &circuit.id);
            span.set(attribute::CONTROLLER_ID, &*circuit.controller);
        }
        Err(refusal) => {
            span.set(attribute::ERROR_CODE, refusal.code);
            span.fail(&refusal.message);
        }
    }
}

fn traced(mut message: Message, span: &Span) -> Message {
    if let Some(context) = span.context() {
        context.put(&mut message.headers);
    }
    message
}

/// Asks controllers one after the other, until one makes the circuit, or refuses it for a reason that holds at all of them.
/// Others may do better than a controller that does not know the session (while etcd has no quorum, only the one knows a new
/// session at which the session began), that lacks routers (the controller may have started just now, and not every router
/// reaches every controller), or that did not answer.
async fn ask_in_turn(
    core: &Core,
    first: Arc<Controller>,
    message: Message,
    timeout: Duration,
) -> Result<(Arc<Controller>, Message), Refusal> {
    let begun = Instant::now();
    let unknown = [ErrorCode::INVALID_API_SESSION.0, ErrorCode::INVALID_SESSION.0];
    let may_another = |refusal: &Refusal| refusal.elsewhere || unknown.contains(&refusal.code);
    let mut asked = vec![first.id.clone()];
    let refused = match ask_any(core, first, message.clone(), timeout, &mut asked).await {
        Err(refused) if may_another(&refused) => refused,
        other => return other,
    };
    for other in core.controllers.all().into_iter().filter(|it| !asked.contains(&it.id)) {
        let left = timeout.saturating_sub(begun.elapsed());
        if left.is_zero() || !core.controllers.is_responsive(&other) {
            continue;
        }
        match ask(core, &other, message.clone(), left).await {
            Err(refused) if may_another(&refused) => {}
            reply => return reply.map(|reply| (other, reply)),
        }
    }
    Err(refused)
}

/// Asks a controller for a circuit, and a second one if the first is silent or its channel closes. The circuit of the later
/// answer is taken down ([`on_late`]). The id of the second one is added to `asked_ids`.
async fn ask_any(
    core: &Core,
    first: Arc<Controller>,
    message: Message,
    timeout: Duration,
    asked_ids: &mut Vec<ControllerId>,
) -> Result<(Arc<Controller>, Message), Refusal> {
    if core.controllers.count() < 2 {
        return ask(core, &first, message, timeout).await.map(|reply| (first, reply));
    }
    let mut asked = std::pin::pin!(ask(core, &first, message.clone(), timeout));
    let refusal = tokio::select! {
        reply = &mut asked => match reply {
            Err(refusal) if first.channel.is_closed() => Some(refusal),
            reply => return reply.map(|reply| (Arc::clone(&first), reply)),
        },
        () = until_silent(core, &first) => None,
    };
    let Some(second) = core.controllers.any_but(&first.id) else {
        return match refusal {
            Some(refusal) => Err(refusal),
            None => asked.await.map(|reply| (Arc::clone(&first), reply)),
        };
    };
    tracing::debug!(first = %first.id, second = %second.id, "a second controller is asked for a circuit");
    asked_ids.push(second.id.clone());
    let other = ask(core, &second, message, timeout);
    let of_second = |reply| (Arc::clone(&second), reply);
    let is_third = |it: &Arc<Controller>| {
        it.id != first.id && it.id != second.id && core.controllers.is_responsive(it)
    };
    if refusal.is_some() {
        return other.await.map(of_second);
    }
    let mut other = std::pin::pin!(other);
    tokio::select! {
        biased;
        reply = &mut asked => match reply {
            Ok(reply) => Ok((Arc::clone(&first), reply)),
            Err(_) => other.await.map(of_second),
        },
        reply = &mut other => match reply {
            Ok(reply) => Ok(of_second(reply)),
            // A third one may answer before the first one does.
            Err(refusal) if refusal.elsewhere && core.controllers.all().iter().any(is_third) => {
                Err(refusal)
            }
            Err(_) => asked.await.map(|reply| (Arc::clone(&first), reply)),
        },
    }
}

/// Returns once a controller does not answer pings in time while there is another one. A controller that only takes long
/// for a circuit answers them.
async fn until_silent(core: &Core, controller: &Controller) {
    loop {
        tokio::time::sleep(SILENCE / 2).await;
        let is_alone = core.controllers.any_but(&controller.id).is_none();
        if !is_alone && !controller.answers(SILENCE / 2).await {
            return;
        }
    }
}

/// Sends a request whose failure is an [`EdgeError`] or a [`CircuitFailed`]. A controller that is silent is not waited for
/// as long as one that only takes long for the circuit.
async fn ask(
    core: &Core,
    controller: &Arc<Controller>,
    message: Message,
    timeout: Duration,
) -> Result<Message, Refusal> {
    let patience = core.options.request_timeout;
    let reply = tokio::select! {
        // A channel that closes ends both; the answer about the circuit says more.
        biased;
        reply = controller.channel.request_on(Lane::High, message, timeout) => {
            reply.map_err(|problem| no_answer(controller, &problem, timeout))?
        }
        () = silence(controller, patience) => {
            return Err(no_answer(controller, &RequestError::Timeout, patience));
        }
    };
    if reply.content_type == ctrl::content_type::CIRCUIT_FAILED {
        let CircuitFailed { error, elsewhere } =
            CircuitFailed::from_message(&reply).map_err(malformed)?;
        let refusal = Refusal::new(ErrorCode::INTERNAL, RetryHint::DEFAULT, error);
        return Err(Refusal { elsewhere, ..refusal });
    }
    if reply.content_type != content_type::ERROR {
        return Ok(reply);
    }
    Err(edge_error(EdgeError::from_message(&reply).map_err(malformed)?))
}

/// Takes down a circuit whose answer comes when nobody waits for it any more.
pub(crate) fn on_late(core: &Core, controller: &Controller, answer: &Message) {
    let id = match answer.content_type {
        content_type::CREATE_TUNNEL_CIRCUIT_V2_RESPONSE => {
            CreateTunnelCircuitV2Response::from_message(answer).map(|made| made.circuit_id)
        }
        ctrl::content_type::CIRCUIT_SUCCESS => {
            CircuitSuccess::from_message(answer).map(|made| made.circuit_id)
        }
        _ => CreatedCircuit::from_message(answer).map(|made| made.circuit_id),
    };
    match id {
        Ok(id) => {
            let data = core.data.get().into_iter();
            data.for_each(|data| data.end_gone(&controller.id, &id, Role::Initiator));
        }
        Err(problem) => controller.not_understood(answer, &problem),
    }
}

/// Returns once a controller has not answered a ping for half of this time. The first ping is sent when the other
/// half is over: few circuits take so long.
async fn silence(controller: &Controller, patience: Duration) {
    let half = patience / 2;
    loop {
        tokio::time::sleep(half).await;
        let ping = Message::new(weft_wire::content_type::PING, "dial");
        match controller.channel.request_on(Lane::High, ping, half).await {
            // With too many requests under way none more is sent.
            Ok(_) | Err(RequestError::TooMany) => {}
            Err(_) => return,
        }
    }
}

/// The refusal of a controller.
pub(crate) fn edge_error(error: EdgeError) -> Refusal {
    let text = if error.text.is_empty() {
        format!("the controller refused the request (code {})", error.code.0)
    } else {
        error.text
    };
    let code = if error.code == ErrorCode::NONE { ErrorCode::INTERNAL } else { error.code };
    let refusal = Refusal::new(code, hint(error.retry_hint.0), text);
    Refusal { circuit: error.circuit_id, elsewhere: error.elsewhere, ..refusal }
}

fn no_answer(controller: &Controller, problem: &RequestError, timeout: Duration) -> Refusal {
    let text = match problem {
        RequestError::Timeout => {
            format!("controller {} did not answer within {timeout:?}", controller.id)
        }
        other => format!("controller {}: {other}", controller.id),
    };
    let hint = match problem {
        RequestError::TooMany => RetryHint::TOO_BUSY,
        _ => RetryHint::DEFAULT,
    };
    Refusal { elsewhere: true, ..Refusal::new(ErrorCode::INTERNAL, hint, text) }
}

fn malformed(problem: WireError) -> Refusal {
    let text = format!("the answer of the controller cannot be read: {problem}");
    Refusal::new(ErrorCode::INTERNAL, RetryHint::DEFAULT, text)
}

fn not_sent(problem: WireError) -> Refusal {
    let text = format!("the request cannot be sent: {problem}");
    Refusal::new(ErrorCode::INTERNAL, RetryHint::NOT_RETRIABLE, text)
}
