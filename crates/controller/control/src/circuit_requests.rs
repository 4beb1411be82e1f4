//! Circuits that routers request: for SDKs, for their own tunneler, for other bindings
//! (docs/protocol/edge-control-plane.md 13, 15.1; docs/protocol/control-plane.md 12.1, 12.5).

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use weft_auth::service_session::Checked;
use weft_channel::Lane;
use weft_kernel::traces::Channel;
use weft_model::Id;
use weft_model::access::{Posture, decide};
use weft_model::entity::{Identity, IdentityType, PolicyType, Service};
use weft_network::create::{CircuitSpec, MadeCircuit};
use weft_network::failure::{CircuitFailure, FailureCause};
use weft_network::tags::CircuitTags;
use weft_spans::{Span, SpanKind, attribute};
use weft_wire::ctrl::peer_data_key::{DIALER_IDENTITY_ID, DIALER_IDENTITY_NAME};
use weft_wire::ctrl::{self, CircuitFailed, CircuitRequest, CircuitSuccess};
use weft_wire::edge_ctrl::{
    self, CircuitForm, CreateCircuitRequest, CreateCircuitResponse, CreateCircuitV2,
    CreateCircuitV3, CreateTunnelCircuitV2Request, CreateTunnelCircuitV2Response, CreatedCircuit,
    EdgeError, ErrorCode,
};
use weft_wire::{Message, PeerData, ProtoBody, TraceContext, WireError};

use super::edge_errors::{busy, error, malformed, of_session, too_busy};
use super::session::RouterSession;
use super::{demand, rights};

/// The refusal of a dial whose circuit was made after a right had been taken away.
const LOST_MEANWHILE: &str = "an end has lost its right to the service while the circuit was made";
/// Longest id of a client that a binding names, in bytes.
const MAX_INGRESS_ID: usize = 1024;
/// The header of peer data with the public key of an end.
const PUBLIC_KEY: u32 = weft_wire::edge::header::PUBLIC_KEY.cast_unsigned();
/// The header of peer data with the name of the dialer.
const CALLER_ID: u32 = weft_wire::edge::header::CALLER_ID.cast_unsigned();

/// Makes a circuit in a task, if the router has room for one more, and waits for it.
pub fn spawn(session: &Arc<RouterSession>, message: &Message) {
    let is_of_standstill = session.plane.standstill.is_over_just_now(Instant::now());
    let Some(room) = session.making.take().filter(|_| !is_of_standstill) else {
        if let Some(reply) = busy(message) {
            session.answer(Lane::High, message, reply);
        }
        return;
    };
    let (session, message) = (Arc::clone(session), message.clone());
    session.plane.network.clone().spawn(async move {
        let mut span = begin(&session, &message);
        match serve(&session, &message, &mut span).await {
            Ok(reply) => {
                if reply.circuit.is_none() && span.is_kept() {
                    span.fail(&reply.message.text());
                }
                answer(&session, &message, reply).await;
            }
            Err(problem) => {
                span.fail(&problem);
                if let Some(reply) = malformed(&message, &problem) {
                    answer(&session, &message, Reply { message: reply, circuit: None }).await;
                }
                session.not_understood(&message, &problem);
            }
        }
        drop(room);
    });
}

/// The span of a request for a circuit. The trace that a router names is believed.
fn begin(session: &RouterSession, message: &Message) -> Span {
    let spans = &session.plane.network.options().spans;
    if !spans.is_on() {
        return Span::none();
    }
    let parent = TraceContext::take(&message.headers);
    let mut span = spans.start("controller.circuit", SpanKind::Server, parent);
    span.set(attribute::CONTROLLER_ID, &session.plane.auth.kernel().settings().id);
    span.set(attribute::ROUTER_ID, session.router.id.as_str());
    span
}

async fn answer(session: &RouterSession, request: &Message, reply: Reply) {
    let Reply { message, circuit } = reply;
    let sent = session.router.channel.send_on(Lane::High, message.in_reply_to(request)).await;
    if let (Err(problem), Some(circuit)) = (sent, circuit) {
        tracing::info!(circuit, %problem, "a circuit is removed, because the answer to its router could not be sent");
        session.plane.network.remove_circuit(&circuit, true);
    }
}

/// A reply, and the circuit to remove if the reply cannot be sent.
struct Reply {
    message: Message,
    circuit: Option<String>,
}

async fn serve(
    session: &RouterSession,
    message: &Message,
    span: &mut Span,
) -> Result<Reply, WireError> {
    match message.content_type {
        ctrl::content_type::CIRCUIT_REQUEST => {
            Ok(for_binding(session, CircuitRequest::from_message(message)?, span).await)
        }
        edge_ctrl::content_type::CREATE_TUNNEL_CIRCUIT_V2_REQUEST => {
            let request = CreateTunnelCircuitV2Request::from_message(message)?;
            Ok(for_tunneler(session, request, span).await)
        }
        edge_ctrl::content_type::CREATE_CIRCUIT_REQUEST => {
            let request = CreateCircuitRequest::from_message(message)?;
            Ok(for_old_router(session, request, span).await)
        }
        edge_ctrl::content_type::CREATE_CIRCUIT_V3_REQUEST => {
            let request = CreateCircuitV3::from_message(message)?;
            let made = for_sdk_by_token(session, request, span).await;
            answered(session, made, CircuitForm::V3)
        }
        _ => {
            let made = for_sdk(session, CreateCircuitV2::from_message(message)?, span).await;
            answered(session, made, CircuitForm::V2)
        }
    }
}

fn answered(
    session: &RouterSession,
    made: Result<MadeCircuit, EdgeError>,
    form: CircuitForm,
) -> Result<Reply, WireError> {
    match made {
        Ok(made) => created(session, made, form),
        Err(error) => Ok(refuse(error)),
    }
}

fn refuse(error: EdgeError) -> Reply {
    Reply { message: error.to_message(), circuit: None }
}

fn created(
    session: &RouterSession,
    made: MadeCircuit,
    form: CircuitForm,
) -> Result<Reply, WireError> {
    let circuit = made.id.clone();
    let answer = CreatedCircuit {
        circuit_id: made.id,
        address: made.address,
        peer_data: made.peer_data,
        tags: made.tags,
    };
    match answer.to_message(form) {
        Ok(message) => Ok(Reply { message, circuit: Some(circuit) }),
        Err(problem) => {
            // The reply is too large for the router, so that the router would wait in vain.
            session.plane.network.remove_circuit(&circuit, true);
            Err(problem)
        }
    }
}

/// Makes a circuit for the service session of an SDK.
async fn for_sdk(
    session: &RouterSession,
    request: CreateCircuitV2,
    span: &mut Span,
) -> Result<MadeCircuit, EdgeError> {
    let auth = &session.plane.auth;
    let checked = auth
        .check_service_session(
            &session.router.id,
            &request.api_session_token,
            &request.session_token,
            PolicyType::Dial,
        )
        .map_err(|refusal| of_session(&refusal, session.router.capabilities))?;
    let dial = Dial::of(checked, request.terminator_instance_id, request.peer_data);
    dial.make(session, span).await
}

/// Makes a circuit for a router that uses the first form of the request.
async fn for_old_router(
    session: &RouterSession,
    request: CreateCircuitRequest,
    span: &mut Span,
) -> Reply {
    let request = CreateCircuitV2 {
        session_token: request.session_token,
        api_session_token: request.api_session_token,
        fingerprints: request.fingerprints,
        terminator_instance_id: request.terminator_instance_id,
        peer_data: request.peer_data,
    };
    match for_sdk(session, request, span).await {
        Ok(made) => {
            let circuit = Some(made.id.clone());
            let answer = CreateCircuitResponse {
                circuit_id: made.id,
                address: made.address,
                peer_data: made.peer_data,
                tags: made.tags,
            };
            Reply { message: answer.to_message(), circuit }
        }
        Err(error) => refuse(error),
    }
}

/// Makes a circuit for the signed API session of an SDK, without a service session of its client.
async fn for_sdk_by_token(
    session: &RouterSession,
    request: CreateCircuitV3,
    span: &mut Span,
) -> Result<MadeCircuit, EdgeError> {
    let checked = session
        .plane
        .auth
        .check_dial_by_token(
            &session.router.id,
            &request.api_session_token,
            &request.identity_id,
            &Id::new(&request.service_id),
        )
        .map_err(|refusal| of_session(&refusal, session.router.capabilities))?;
    let id = chosen_id(&request.circuit_id)?;
    if id.as_deref().is_some_and(|id| session.plane.network.is_id_of_controller(id)) {
        let text = "the id of the circuit begins as those that controllers choose";
        return Err(error(ErrorCode::INTERNAL, text.to_owned()));
    }
    let dial = Dial::of(checked, request.terminator_instance_id, request.peer_data);
    Dial { id, ..dial }.make(session, span).await
}

/// The id that a router chose for a circuit; none if it chose none. It is a key of tables and a text of events.
fn chosen_id(text: &str) -> Result<Option<String>, EdgeError> {
    if text.is_empty() {
        return Ok(None);
    }
    let refused = |problem| error(ErrorCode::INTERNAL, format!("the id of the circuit: {problem}"));
    Id::parse(text).map(|id| Some(id.to_string())).map_err(refused)
}

/// The id of the client that a binding named. It is a key of tables and a text of events.
fn ingress_id(text: String) -> Result<String, EdgeError> {
    match text.len() <= MAX_INGRESS_ID {
        true => Ok(text),
        false => {
            let text = format!("the id of the ingress has more than {MAX_INGRESS_ID} bytes");
            Err(error(ErrorCode::INTERNAL, text))
        }
    }
}

/// Makes a circuit for the router's own identity.
async fn for_tunneler(
    session: &RouterSession,
    request: CreateTunnelCircuitV2Request,
    span: &mut Span,
) -> Reply {
    let made = async {
        let snapshot = session.plane.auth.kernel().snapshot();
        let service = snapshot.by_name::<Service>(&request.service_name);
        let service = service.filter(|service| !service.is_fabric_only).cloned();
        let service = service.ok_or_else(|| {
            let text = format!("service {} does not exist", request.service_name);
            error(ErrorCode::INVALID_SERVICE, text)
        })?;
        let identity = own_identity(session, &service, PolicyType::Dial)?;
        demand::of_tunneler(&service, &request.end_key)?;
        let dial = Dial {
            service,
            instance: request.terminator_instance_id,
            client: session.router.id.to_string(),
            is_of_session: false,
            identity,
            peer_data: request.peer_data,
            id: None,
        };
        dial.make(session, span).await
    };
    match made.await {
        Ok(made) => {
            let circuit = Some(made.id.clone());
            let answer = CreateTunnelCircuitV2Response {
                circuit_id: made.id,
                address: made.address,
                peer_data: made.peer_data,
                tags: made.tags,
            };
            Reply { message: answer.to_message(), circuit }
        }
        Err(error) => refuse(error),
    }
}

/// Checks that the router's own identity may use a service over this router
/// (docs/protocol/edge-control-plane.md 15).
pub fn own_identity(
    session: &RouterSession,
    service: &Service,
    wanted: PolicyType,
) -> Result<Arc<Identity>, EdgeError> {
    let (snapshot, id) = (session.plane.auth.kernel().snapshot(), &session.router.id);
    let enabled =
        session.entity().is_some_and(|router| router.is_edge && router.is_tunneler_enabled);
    let identity = snapshot
        .get::<Identity>(id)
        .filter(|it| enabled && it.identity_type == IdentityType::Router);
    let identity = identity.ok_or_else(|| {
        error(ErrorCode::TUNNELING_NOT_ENABLED, "the router has no identity of its own")
    })?;
    let now = session.plane.auth.kernel().now();
    // A router has no posture data, so posture checks fail.
    decide(&*snapshot, id.as_str(), service.base.id.as_str(), wanted, Posture::Unknown, now)
        .granted()
        .map_err(|denial| error(ErrorCode::ACCESS_DENIED, denial.to_string()))?;
    if !snapshot.is_router_usable(id, &service.base.id, id) {
        let text =
            "no edge router policy lets the router's identity use the router for the service";
        return Err(error(ErrorCode::ACCESS_DENIED, text));
    }
    Ok(Arc::clone(identity))
}

/// A dial that is permitted.
struct Dial {
    service: Arc<Service>,
    instance: String,
    /// The session or the identity that dials, for events.
    client: String,
    is_of_session: bool,
    identity: Arc<Identity>,
    peer_data: PeerData,
    /// The id that the router chose for the circuit.
    id: Option<String>,
}

impl Dial {
    /// The dial of a service session that was checked.
    fn of(checked: Checked, instance: String, peer_data: PeerData) -> Self {
        Self {
            service: checked.service,
            instance,
            client: checked.session.to_string(),
            is_of_session: true,
            identity: checked.identity,
            peer_data,
            id: None,
        }
    }

    async fn make(
        self,
        session: &RouterSession,
        span: &mut Span,
    ) -> Result<MadeCircuit, EdgeError> {
        span.set(attribute::SERVICE_NAME, &*self.service.name);
        let identity = &self.identity.base.id;
        span.set(attribute::IDENTITY_ID, identity.as_str());
        let encrypted = self.service.encryption_required;
        if encrypted && !self.peer_data.contains_key(&PUBLIC_KEY) {
            let text = "the service requires encryption, and the dialer sent no key";
            return Err(error(ErrorCode::ENCRYPTION_DATA_MISSING, text));
        }
        demand::of_dialer(&self.service, &self.peer_data)?;
        let service = self.service.base.id.clone();
        let target = match self.instance.as_str() {
            "" => service.clone(),
            instance => Id::new(&format!("{instance}@{service}")),
        };
        let tags = CircuitTags {
            service: Some(target),
            client: Some(identity.clone()),
            ..CircuitTags::default()
        };
        let mut peer_data = self.peer_data;
        name_dialer(&mut peer_data, Some(&self.identity));
        let spec = CircuitSpec {
            router: session.router.id.clone(),
            service,
            instance: self.instance,
            client: self.client,
            is_of_session: self.is_of_session,
            dialer_proves: demand::is_proving(&peer_data),
            peer_data,
            tags,
            id: self.id,
        };
        let dialing = session.making.dialing(identity).ok_or_else(too_busy)?;
        let network = &session.plane.network;
        let made = network.create_circuit(&spec, span).await;
        drop(dialing);
        trace(session, identity, &spec.service, &made);
        let made = made.map_err(|failure| {
            let code = match failure.cause {
                FailureCause::InvalidService => ErrorCode::INVALID_SERVICE,
                _ => ErrorCode::INTERNAL,
            };
            let (elsewhere, circuit_id) =
                (failure.cause.is_for_want_of_routers(), Some(failure.circuit));
            EdgeError { circuit_id, elsewhere, ..error(code, failure.text) }
        })?;
        if encrypted && !made.peer_data.contains_key(&PUBLIC_KEY) {
            network.remove_circuit(&made.id, true);
            let text = "the service requires encryption, and the host sent no key";
            let error = error(ErrorCode::ENCRYPTION_DATA_MISSING, text);
            return Err(EdgeError { circuit_id: Some(made.id), ..error });
        }
        if let Err(error) = demand::of_host(&self.service, &made.peer_data) {
            network.remove_circuit(&made.id, true);
            return Err(EdgeError { circuit_id: Some(made.id), ..error });
        }
        if !rights::still_held(&session.plane, &made.id) {
            let error = error(ErrorCode::ACCESS_DENIED, LOST_MEANWHILE);
            return Err(EdgeError { circuit_id: Some(made.id), ..error });
        }
        Ok(made)
    }
}

/// Names the dialer to the host. What the dialer or its router wrote is replaced: hosts decide by it.
fn name_dialer(peer_data: &mut PeerData, identity: Option<&Identity>) {
    for key in [DIALER_IDENTITY_ID, DIALER_IDENTITY_NAME, CALLER_ID] {
        peer_data.remove(&key);
    }
    if let Some(identity) = identity {
        let name = Bytes::from(identity.name.to_string());
        peer_data.insert(DIALER_IDENTITY_ID, Bytes::from(identity.base.id.to_string()));
        peer_data.insert(DIALER_IDENTITY_NAME, name.clone());
        peer_data.insert(CALLER_ID, name);
    }
}

/// Logs how a circuit was made, if the identity has a trace.
fn trace(
    session: &RouterSession,
    identity: &Id,
    service: &Id,
    made: &Result<MadeCircuit, CircuitFailure>,
) {
    let auth = &session.plane.auth;
    let wanted = |channel| auth.kernel().traces().of(identity, channel, auth.kernel().now());
    let router = &session.router.id;
    if let (Some(trace), Ok(made)) = (wanted(Channel::SelectPath), made)
        && let Some(circuit) = session.plane.network.circuits().get(&made.id)
    {
        let (terminator, path) = (&circuit.terminator, &circuit.path);
        tracing::info!(trace, %identity, %service, %router, circuit = made.id, %terminator, ?path, "path selected");
    }
    let Some(trace) = wanted(Channel::EstablishPath) else { return };
    match made {
        Ok(made) => {
            tracing::info!(trace, %identity, %service, %router, circuit = made.id, "path established");
        }
        Err(failure) => {
            let circuit = &failure.circuit;
            tracing::info!(trace, %identity, %service, %router, circuit, %failure, "path not established");
        }
    }
}

/// Checks that a binding of the router other than `edge` may use a service. Such a dial has no
/// session. Either the configuration lets the router use every service, or the policies of its
/// tunneler allow this one. Returns the identity whose policies count, if any do.
pub(crate) fn own_binding(
    session: &RouterSession,
    service: &Service,
    wanted: PolicyType,
) -> Result<Option<Arc<Identity>>, EdgeError> {
    let router = &session.router.id;
    let entity = session.entity();
    let name = entity.as_ref().map(|router| &*router.name);
    let listed = &session.plane.auth.kernel().settings().unrestricted_bindings;
    if listed.iter().any(|it| it == "*" || it == router.as_str() || Some(it.as_str()) == name) {
        return Ok(None);
    }
    own_identity(session, service, wanted).map(Some).map_err(|denied| {
        let hint = "bindings of the router use what the policies of its tunneler allow, or \
                    everything if network.unrestrictedBindings of the controller names the router";
        tracing::warn!(%router, service = %service.name, denied = denied.text, "{hint}");
        EdgeError { text: format!("{}; {hint}", denied.text), ..denied }
    })
}

/// Makes a circuit for a binding of the router other than `edge`.
async fn for_binding(session: &RouterSession, request: CircuitRequest, span: &mut Span) -> Reply {
    let target = request.service.as_str();
    let (instance, name) = target.split_once('@').unwrap_or(("", target));
    let snapshot = session.plane.auth.kernel().snapshot();
    let failed = |error: String| {
        let message = CircuitFailed { error, elsewhere: false }.to_message();
        Reply { message, circuit: None }
    };
    let Some(service) = snapshot.by_id_or_name::<Service>(name) else {
        return failed(format!("service {name} does not exist"));
    };
    let identity = match own_binding(session, service, PolicyType::Dial) {
        Ok(identity) => identity,
        Err(denied) => return failed(denied.text),
    };
    if let Err(denied) = demand::of_binding(service) {
        return failed(denied.text);
    }
    let client = match ingress_id(request.ingress_id) {
        Ok(id) => id,
        Err(problem) => return failed(problem.text),
    };
    let mut peer_data = request.peer_data;
    name_dialer(&mut peer_data, identity.as_deref());
    span.set(attribute::SERVICE_NAME, &*service.name);
    let service = service.base.id.clone();
    let dialer = identity.as_ref().map(|identity| identity.base.id.clone());
    let dialing = dialer.as_ref().map(|dialer| session.making.dialing(dialer));
    if let Some(None) = dialing {
        return failed(weft_wire::BUSY_TEXT.to_owned());
    }
    let spec = CircuitSpec {
        router: session.router.id.clone(),
        tags: CircuitTags {
            service: Some(service.clone()),
            client: identity.map(|identity| identity.base.id.clone()),
            ..CircuitTags::default()
        },
        service,
        instance: instance.to_owned(),
        client,
        is_of_session: false,
        dialer_proves: false,
        peer_data,
        id: None,
    };
    match session.plane.network.create_circuit(&spec, span).await {
        Ok(made) if !rights::still_held(&session.plane, &made.id) => {
            failed(LOST_MEANWHILE.to_owned())
        }
        Ok(made) => {
            let circuit = Some(made.id.clone());
            let answer = CircuitSuccess {
                circuit_id: made.id,
                address: made.address,
                peer_data: made.peer_data,
            };
            Reply { message: answer.to_message(), circuit }
        }
        Err(CircuitFailure { cause, text: error, .. }) => {
            let elsewhere = cause.is_for_want_of_routers();
            let message = CircuitFailed { error, elsewhere }.to_message();
            Reply { message, circuit: None }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_a_router_chooses_for_a_circuit_has_a_bound() {
        assert_eq!(chosen_id("").unwrap(), None);
        let longest = "c".repeat(Id::MAX_LEN);
        assert_eq!(chosen_id(&longest).unwrap(), Some(longest.clone()));
        assert_eq!(ingress_id("i".repeat(MAX_INGRESS_ID)).unwrap().len(), MAX_INGRESS_ID);
        assert!(ingress_id("i".repeat(MAX_INGRESS_ID + 1)).is_err());
        for wrong in [format!("{longest}c"), "c".repeat(1 << 20), "a\nb".to_owned()] {
            let refused = chosen_id(&wrong).unwrap_err();
            assert_eq!(refused.code, ErrorCode::INTERNAL);
        }
    }
}
