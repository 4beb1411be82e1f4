//! A controller made of a table, and an access half that believes.

use weft_wire::ctrl::{Route, Unroute};

use super::*;
use crate::seam::{PeerData, Release, RouteError};

/// Work that a fake does once.
pub(super) type Hook = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

fn run(hook: &Hook) {
    let work = hook.lock().take();
    if let Some(work) = work {
        work();
    }
}

/// A controller: services by name, circuits over this one router.
#[derive(Default)]
pub(super) struct Table {
    pub(super) data: OnceLock<Weak<DataHalf>>,
    pub(super) terminators: Mutex<HashMap<String, TerminatorRequest>>,
    /// The services of all terminators that were asked for, in order.
    pub(super) asked_for: Mutex<Vec<String>>,
    /// Services that are an address.
    pub(super) addresses: Mutex<HashMap<String, String>>,
    pub(super) ended: Mutex<Vec<(String, Role)>>,
    pub(super) removed: Mutex<Vec<String>>,
    /// Service sessions that were asked about.
    pub(super) validated: Mutex<Vec<(ControllerId, Vec<String>)>>,
    /// Connections by identity, as told last.
    pub(super) connected: Mutex<HashMap<String, usize>>,
    pub(super) next: AtomicU32,
    /// Work that runs while a circuit is made.
    pub(super) meanwhile: Mutex<Option<BoxFuture<'static, ()>>>,
    /// Work that runs when a terminator is about to be made.
    pub(super) before_making: Hook,
    /// Work that runs when terminators are about to be removed.
    pub(super) before_removal: Hook,
    /// Circuits are taken down again before their dialer hears of them.
    pub(super) short_lived: AtomicBool,
}

impl Table {
    async fn circuit(self: Arc<Self>, request: CircuitRequest) -> Result<NewCircuit, Refusal> {
        let meanwhile = self.meanwhile.lock().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile.await;
        }
        let service = &request.grant.service;
        let terminator = self.terminators.lock().get(service).cloned();
        let address = self.addresses.lock().get(service).cloned();
        let (binding, destination) = match (&terminator, address) {
            (Some(terminator), _) => ("edge", terminator.id.clone()),
            (None, Some(address)) => ("transport", address),
            (None, None) => return Err(refusal("no terminators")),
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (ingress, egress) = (format!("in{number}"), format!("out{number}"));
        let forward = |from: &str, to: &str, kind| Forward {
            source: from.to_owned(),
            destination: to.to_owned(),
            kind,
        };
        let controller: ControllerId = "ctrl".into();
        let command = RouteCommand {
            circuit: format!("circuit{number}"),
            egress: Some(Egress {
                binding: binding.to_owned(),
                address: egress.clone(),
                destination,
                peer_data: request.peer_data,
                trace: request.trace,
            }),
            forwards: vec![
                forward(&ingress, &egress, ForwardKind::End),
                forward(&egress, &ingress, ForwardKind::Start),
            ],
            timeout: PATIENCE,
            tags: BTreeMap::new(),
            taken_down: CancellationToken::new(),
        };
        let id = command.circuit.clone();
        let data = self.data.get().and_then(Weak::upgrade).unwrap();
        let dialed = route(&data, 0, command).await.map_err(|failure| refusal(&failure.text))?;
        if self.short_lived.load(Ordering::Relaxed) {
            unroute(&data, &id, true);
        }
        let mut peer_data = terminator.map(|terminator| terminator.peer_data).unwrap_or_default();
        peer_data.extend(dialed);
        Ok(NewCircuit { id, address: ingress, peer_data, controller })
    }
}

/// Sets a route up, as this controller commands it.
pub(super) fn route(
    data: &DataHalf,
    attempt: u32,
    command: RouteCommand,
) -> BoxFuture<'static, Result<PeerData, RouteError>> {
    let route = Route { circuit_id: command.circuit.clone(), attempt, ..Route::default() };
    match data.begin(&"ctrl".into(), &route) {
        Ok(begun) => begun.set_up(command),
        Err(why) => async { Err(why.into()) }.boxed(),
    }
}

/// Ends a circuit, as this controller commands it.
pub(super) fn unroute(data: &DataHalf, circuit: &str, now: bool) {
    let unroute = Unroute { circuit_id: circuit.to_owned(), now, term: 0 };
    data.unroute(&"ctrl".into(), &unroute).unwrap();
}

pub(super) struct FakeControl(pub(super) Arc<Table>);

impl Control for FakeControl {
    fn create_circuit(
        &self,
        request: CircuitRequest,
    ) -> BoxFuture<'static, Result<NewCircuit, Refusal>> {
        Arc::clone(&self.0).circuit(request).boxed()
    }

    fn create_tunnel_circuit(
        &self,
        _: TunnelCircuitRequest,
    ) -> BoxFuture<'static, Result<NewCircuit, Refusal>> {
        async { Err(refusal("not here")) }.boxed()
    }

    fn create_binding_circuit(
        &self,
        _: BindingCircuitRequest,
    ) -> BoxFuture<'static, Result<NewCircuit, Refusal>> {
        async { Err(refusal("not here")) }.boxed()
    }

    fn create_terminator(
        &self,
        request: TerminatorRequest,
    ) -> BoxFuture<'static, Result<(), Refusal>> {
        let crate::seam::TerminatorHost::Sdk { grant, .. } = &request.host else {
            panic!("an SDK hosts")
        };
        run(&self.0.before_making);
        self.0.asked_for.lock().push(grant.service.clone());
        self.0.terminators.lock().insert(grant.service.clone(), request);
        async { Ok(()) }.boxed()
    }

    fn update_terminator(&self, id: &str, update: TerminatorUpdate) {
        for terminator in self.0.terminators.lock().values_mut().filter(|known| known.id == id) {
            terminator.cost = update.cost.unwrap_or(terminator.cost);
        }
    }

    fn remove_terminators(&self, ids: Vec<String>) {
        run(&self.0.before_removal);
        self.0.terminators.lock().retain(|_, known| !ids.contains(&known.id));
        self.0.removed.lock().extend(ids);
    }

    fn health_event(&self, _: &str, _: bool) {}

    fn circuit_ended(&self, _: &ControllerId, circuit: &str, end: Role, _: Option<u32>) {
        self.0.ended.lock().push((circuit.to_owned(), end));
        // The test may be over.
        if let Some(data) = self.0.data.get().and_then(Weak::upgrade) {
            unroute(&data, circuit, false);
        }
    }

    fn forward_faults(&self, _: Option<&ControllerId>, _: Vec<String>) {}

    fn is_connected(&self, _: &ControllerId) -> bool {
        true
    }
    fn idle_circuits(&self, _: &ControllerId, _: Vec<(String, Duration)>) {}
    fn circuits_taken(&self, _: &ControllerId, _: Vec<String>) {}

    fn link_fault(&self, _: &str, _: u32) {}
    fn validate_service_sessions(&self, controller: &ControllerId, ids: Vec<String>) {
        self.0.validated.lock().push((controller.clone(), ids));
    }

    fn identity_connections(&self, identity: &str, connections: usize) {
        self.0.connected.lock().insert(identity.to_owned(), connections);
    }
}

/// Believes every session token that does not end with `bad`; a service token is the service's name.
pub(super) struct Believer {
    pub(super) events: broadcast::Sender<AccessEvent>,
    pub(super) ended: Ended,
    /// Sessions that end just before a reader subscribes, so that it misses the event.
    pub(super) end_before_next: Ended,
    /// The sessions whose tokens begin with `slow` are judged after this.
    pub(super) judge_slow: CancellationToken,
    /// Work that runs while a service token is judged.
    pub(super) while_judging: Hook,
}

/// Sessions that do not stand any more, whether that was told or not.
pub(super) type Ended = Arc<Mutex<HashSet<String>>>;

/// An event that tells a reader that it has fallen behind.
pub(super) fn fallen_behind() -> AccessEvent {
    AccessEvent::SessionEnded { session: "(fallen behind)".to_owned() }
}

impl Access for Believer {
    fn authenticate(
        &self,
        token: Bytes,
        _: Vec<Bytes>,
    ) -> BoxFuture<'static, Result<Arc<ApiSession>, Refusal>> {
        let id = String::from_utf8_lossy(&token).into_owned();
        let judge_slow = self.judge_slow.clone();
        async move {
            if id.starts_with("slow") {
                judge_slow.cancelled().await;
            }
            if id.ends_with("bad") {
                return Err(refusal("who are you?"));
            }
            Ok(Arc::new(ApiSession {
                token: id.clone(),
                identity: format!("identity of {id}"),
                id,
                identity_name: None,
                legacy: true,
                controller: Some("ctrl".into()),
                fingerprints: Vec::new(),
                release: Release::default(),
            }))
        }
        .boxed()
    }

    fn stands(&self, session: &ApiSession) -> bool {
        !self.ended.lock().contains(&session.id)
    }

    fn judge(&self, _: &ApiSession, token: &[u8], purpose: Use) -> Result<AccessGrant, Refusal> {
        run(&self.while_judging);
        let token = String::from_utf8_lossy(token).into_owned();
        if token == "forbidden" {
            return Err(Refusal { code: 14, ..refusal("access denied") });
        }
        let service_session = format!("{token} session");
        Ok(AccessGrant { service: token.clone(), service_session, token, purpose })
    }

    fn renew(&self, _: &ApiSession, _: Bytes) -> Result<Arc<ApiSession>, Refusal> {
        Err(refusal("not a bearer session"))
    }

    fn events(&self) -> BoxStream<'static, AccessEvent> {
        self.ended.lock().extend(self.end_before_next.lock().drain());
        let events = self.events.subscribe();
        futures::stream::unfold(events, |mut events| async {
            let event = events.recv().await.ok().filter(|event| *event != fallen_behind())?;
            Some((event, events))
        })
        .boxed()
    }

    fn tunnel_services(&self) -> BoxStream<'static, Arc<Vec<Arc<TunnelService>>>> {
        futures::stream::pending().boxed()
    }

    fn admits(&self, _: &[Bytes]) -> bool {
        true
    }
}

pub(super) fn refusal(message: &str) -> Refusal {
    Refusal::plain(message)
}
