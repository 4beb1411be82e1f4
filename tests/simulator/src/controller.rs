//! A controller: the network with a kernel below, and a control plane in small that passes the messages of routers on.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use weft_channel::memory::{Wire, pair};
use weft_channel::{
    Behaviour, ChannelHandle, ChannelOptions, ConnectionParts, Established, Handler, Reading,
    UnderlayInfo, UnderlayWaker,
};
use weft_identity::{
    Authority, AuthoritySpec, KeyAlgorithm, KeyPurpose, KeyedChain, Leaf, PrivateKey, SubjectName,
    TrustBundle,
};
use weft_kernel::clock::Clock;
use weft_kernel::random::SeededRandom;
use weft_kernel::{Addresses, Kernel, Keys, Settings};
use weft_model::entity::{Base, Router, Service, Terminator};
use weft_model::{Entity, Id, Revision, Snapshot, Timeline, Timestamp};
use weft_network::network::{LoginCounts, Logins};
use weft_network::routers::LiveRouter;
use weft_network::{Network, NetworkOptions};
use weft_store::Memory;
use weft_wire::ctrl::{
    CarriedCircuits, CircuitConfirmation, Fault, RouteResult, RouterHello, RouterLinks,
    ValidateTerminatorsV2Response, content_type,
};
use weft_wire::{Message, ProtoBody as _, VersionInfo, WireError};

/// The id of a controller, which routers of other programs name in their answers.
pub(crate) fn id(number: usize) -> String {
    format!("ctrl{}", number + 1)
}

/// The time of day of a run: it begins at the same moment in each.
#[derive(Debug)]
struct SimulatedClock(Instant);

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        Timestamp(1_800_000_000_000).plus(self.0.elapsed())
    }
}

/// Every service session exists.
struct EverySession;

impl Logins for EverySession {
    fn has_session(&self, _: &str) -> bool {
        true
    }

    fn counts(&self) -> LoginCounts {
        LoginCounts::default()
    }
}

/// Keys for the kernel, which uses none of them in a run.
fn keys() -> Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    let make = || {
        let now = SystemTime::now();
        let root = Authority::make_root(&AuthoritySpec::new("root"), now).ok()?;
        let signer = root.make_intermediate(&AuthoritySpec::new("signer"), now).ok()?;
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).ok()?;
        let subject = SubjectName::common_name("controller");
        let leaf = Leaf::for_key(key.public(), &subject, Vec::new(), KeyPurpose::Both, now).ok()?;
        let chain = KeyedChain::new(vec![root.issue(&leaf).ok()?], key).ok()?;
        Some(Keys {
            session: chain.clone(),
            enrollment: chain,
            authority: signer,
            bundle: TrustBundle::new([root.certificate().clone()]),
            trust_domain: "weft.test".into(),
        })
    };
    KEYS.get_or_init(|| make().unwrap_or_else(|| panic!("no keys for the kernel"))).clone()
}

/// What the model of a run has: routers, and services with terminators at some of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Entities {
    pub(crate) routers: Vec<String>,
    /// Each service with the routers of its terminators.
    pub(crate) services: Vec<(String, Vec<String>)>,
}

/// The binding of all terminators.
pub(crate) const BINDING: &str = "tunnel";

/// The address of the terminators of a service.
pub(crate) fn address(service: &str) -> String {
    format!("tcp:{service}.example:80")
}

/// The id of the terminator of a service at a router.
pub(crate) fn terminator_id(service: &str, router: &str) -> String {
    format!("{service}-at-{router}")
}

impl Entities {
    /// The services that are hosted at a router.
    pub(crate) fn hosted_at(&self, router: &str) -> Vec<String> {
        let at = self.services.iter().filter(|(_, routers)| routers.iter().any(|it| it == router));
        at.map(|(service, _)| service.clone()).collect()
    }

    fn snapshot(&self, now: Timestamp) -> Snapshot {
        let mut loader = Snapshot::loader(Timeline::default(), Revision::default());
        let base = |id: &str| Base::new(Id::new(id), now);
        let mut all: Vec<Entity> = Vec::new();
        for id in &self.routers {
            let router = Router {
                base: base(id),
                name: id.as_str().into(),
                fingerprint: Some(format!("print of {id}").into()),
                is_verified: true,
                ..Router::default()
            };
            all.push(Entity::Router(Arc::new(router)));
        }
        for (id, routers) in &self.services {
            let service =
                Service { base: base(id), name: id.as_str().into(), ..Service::default() };
            all.push(Entity::Service(Arc::new(service)));
            for router in routers {
                let terminator = Terminator {
                    base: base(&terminator_id(id, router)),
                    service_id: Id::new(id),
                    router_id: Id::new(router),
                    binding: BINDING.into(),
                    address: address(id).into(),
                    ..Terminator::default()
                };
                all.push(Entity::Terminator(Arc::new(terminator)));
            }
        }
        for entity in all {
            if let Err(problem) = loader.put(entity) {
                panic!("the model of the run: {problem}");
            }
        }
        match loader.finish() {
            Ok(snapshot) => snapshot,
            Err(problem) => panic!("the model of the run: {problem}"),
        }
    }
}

/// A controller at work.
#[derive(Clone)]
pub(crate) struct Controller {
    pub(crate) network: Network,
    kernel: Kernel,
}

impl Controller {
    /// Starts the controller of this number; `start` is the beginning of the run, and `seed` that of its random numbers.
    pub(crate) fn start(number: usize, entities: &Entities, start: Instant, seed: u64) -> Self {
        let clock = Arc::new(SimulatedClock(start));
        let snapshot = entities.snapshot(Timestamp(1_800_000_000_000));
        let store = Arc::new(Memory::new());
        let mut settings = Settings::new(id(number), store, keys(), Addresses::default());
        settings.clock = clock;
        settings.random = Arc::new(SeededRandom::new(seed));
        let kernel = Kernel::start(settings, snapshot);
        let options = NetworkOptions::default();
        let network = Network::start(kernel.clone(), Arc::new(EverySession), options);
        Self { network, kernel }
    }

    /// The model as it is now.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.kernel.snapshot()
    }

    /// Connects a router: returns its side of the control channel, and the wire; none if the controller refuses.
    pub(crate) fn connect(&self, router: &str, delay: Duration) -> Option<(Established, Wire)> {
        let options = |side: &str| ChannelOptions::control(format!("{side} of {router}"));
        let (near, far, wire) = pair(options("router"), options("controller"), delay);
        let hello = RouterHello { version: Some(VersionInfo::default()), ..RouterHello::default() };
        let (id, handle, now) = (Id::new(router), far.handle(), self.kernel.now());
        let live = Arc::new(LiveRouter::new(id, handle, hello, ("print", None), now)?);
        self.network.connected(&live).ok()?;
        let channel = far.start(Arc::new(FromRouter(self.clone(), Arc::clone(&live))));
        let (closed, this) = (channel.closed(), self.clone());
        tokio::spawn(async move {
            this.network.validate_router(&live.id);
            closed.await;
            this.network.disconnected(&live);
        });
        Some((near, wire))
    }
}

/// Passes the messages of a router on.
#[derive(Clone)]
struct FromRouter(Controller, Arc<LiveRouter>);

impl Behaviour for FromRouter {
    fn attach(&self, _: &UnderlayInfo, _: &UnderlayWaker, _: &ChannelHandle) -> ConnectionParts {
        ConnectionParts { handler: Box::new(self.clone()), outbox: None }
    }
}

impl Handler for FromRouter {
    fn on_message(&mut self, message: Message, _: &ChannelHandle) -> Reading {
        if let Err(problem) = self.dispatch(&message) {
            panic!("a message of a router: {problem}");
        }
        Reading::Continue
    }
}

impl FromRouter {
    fn dispatch(&self, message: &Message) -> Result<(), WireError> {
        let Self(Controller { network, .. }, router) = self;
        match message.content_type {
            content_type::ROUTE_RESULT => {
                network.on_route_result(&router.id, RouteResult::from_message(message)?);
            }
            content_type::FAULT => network.on_fault(router, &Fault::from_message(message)?),
            content_type::CIRCUIT_CONFIRMATION => {
                network.on_confirmation(router, &CircuitConfirmation::from_message(message)?);
            }
            content_type::CARRIED_CIRCUITS => {
                network.on_carried(router, CarriedCircuits::from_message(message)?);
            }
            content_type::ROUTER_LINKS => {
                network.on_links(router, &RouterLinks::from_message(message)?);
            }
            content_type::VALIDATE_TERMINATORS_V2_RESPONSE => {
                let answer = ValidateTerminatorsV2Response::from_message(message)?;
                network.on_validated(router, &answer);
            }
            other => tracing::debug!(content_type = other, "a message that no run needs"),
        }
        Ok(())
    }
}
