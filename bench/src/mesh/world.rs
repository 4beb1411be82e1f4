//! A controller in this process, with a network of simulated routers.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use weft_channel::{ListenerLimits, Listeners, Registration};
use weft_control::{ControlOptions, ControlPlane};
use weft_controller::{Addresses, Controller, Keys, Settings};
use weft_identity::{
    Authority, AuthoritySpec, Identity, KeyAlgorithm, KeyPurpose, KeyedChain, Leaf, LiveIdentity,
    PrivateKey, San, SealKey, SubjectName, TrustBundle,
};
use weft_model::entity::{Router, Service, Terminator};
use weft_model::{Base, ChangeSet, Id, Timestamp};
use weft_network::{Network, NetworkOptions};
use weft_store::Memory;
use weft_wire::ProtoBody as _;
use weft_wire::ctrl::{RouterLink, RouterLinks};
use weft_wire::metrics::{Histogram, MetricsMessage, link_latency_name};

use super::plan::Plan;
use super::router::{Done, SimulatedRouter};
use crate::router::Credentials;

/// Number of changes in one change set, and of routers that connect at the same time.
const BATCH: usize = 5_000;
const CONNECTING: usize = 32;

/// A running network.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) network: Network,
    pub(crate) routers: Vec<SimulatedRouter>,
    pub(crate) done: Arc<Done>,
    plane: ControlPlane,
    _listening: Registration,
}

/// Time and memory that the start of a network takes.
pub(crate) struct Took {
    pub(crate) connecting: Duration,
    pub(crate) links: Duration,
    pub(crate) metrics: Duration,
    pub(crate) bytes_of_links: u64,
}

pub(crate) fn service_name(number: usize) -> String {
    format!("service-{number:04}")
}

pub(crate) fn link_id(number: usize) -> String {
    format!("link{number:018}")
}

pub(crate) fn router_id(number: usize) -> Id {
    Id::new(&format!("router{number:04}"))
}

fn keys() -> weft_identity::Result<Keys> {
    let now = SystemTime::now();
    let root = Authority::make_root(&AuthoritySpec::new("root"), now)?;
    let signer = root.make_intermediate(&AuthoritySpec::new("signer"), now)?;
    let key = PrivateKey::generate(KeyAlgorithm::EcP256)?;
    let sans = vec![San::Dns("localhost".into()), San::Ip([127, 0, 0, 1].into())];
    let subject = SubjectName::common_name("ctrl");
    let leaf = Leaf::for_key(key.public(), &subject, sans, KeyPurpose::Both, now)?;
    let chain = KeyedChain::new(vec![root.issue(&leaf)?], key)?;
    let bundle = TrustBundle::new([root.certificate().clone(), signer.certificate().clone()]);
    Ok(Keys {
        session: chain.clone(),
        enrollment: chain,
        authority: signer,
        bundle,
        trust_domain: "weft.bench".into(),
    })
}

impl World {
    /// Starts a network: routers connect, and report their links and latencies.
    pub(crate) async fn start(plan: Plan) -> io::Result<(Self, Took)> {
        let keys = keys().map_err(io::Error::other)?;
        let identity = Identity::new(None, vec![keys.session.clone()], keys.bundle.clone());
        let (signer, bundle) = (keys.authority.clone(), keys.bundle.clone());
        let settings = Settings {
            session_key: Some(Arc::new(SealKey::random().map_err(io::Error::other)?)),
            unrestricted_bindings: vec!["*".into()],
            ..Settings::new("ctrl", Arc::new(Memory::new()), keys, Addresses::default())
        };
        let controller = Controller::start(settings).await.map_err(io::Error::other)?;
        let options = NetworkOptions { churn_limit: Duration::ZERO, ..NetworkOptions::default() };
        let network = controller.start_network(options);
        let options = ControlOptions::default();
        let plane = ControlPlane::start(controller.auth(), network.clone(), options).await;
        let plane = plane.map_err(io::Error::other)?;
        let tls = ControlPlane::tls(&LiveIdentity::fixed(identity)).map_err(io::Error::other)?;
        let limits = ListenerLimits { pending_per_source: 512, ..ListenerLimits::default() };
        let listening = plane.listen(&Listeners::new(), "127.0.0.1:0", limits, tls).await;
        let listening = listening.map_err(io::Error::other)?;
        let port = listening.local_addr().port();

        let credentials = (0..plan.routers).map(|at| Credentials::make(router_id(at), &signer));
        let credentials = credentials.collect::<io::Result<Vec<_>>>()?;
        fill(&controller, &plan, &credentials).await?;
        let done = Arc::new(Done::default());
        let begun = Instant::now();
        let connecting =
            credentials.iter().map(|who| SimulatedRouter::connect(who, &bundle, port, &done));
        let routers: Vec<_> = stream::iter(connecting).buffered(CONNECTING).try_collect().await?;
        for router in &routers {
            router.settled().await?;
        }
        let connecting = begun.elapsed();
        let world = Self { plan, network, routers, done, plane, _listening: listening };
        let before = resident();
        let begun = Instant::now();
        world.report_links().await?;
        let links = begun.elapsed();
        let bytes_of_links = resident().saturating_sub(before);
        let begun = Instant::now();
        world.report_latencies().await?;
        let metrics = begun.elapsed();
        Ok((world, Took { connecting, links, metrics, bytes_of_links }))
    }

    async fn report_links(&self) -> io::Result<()> {
        let mut reports: Vec<Vec<RouterLink>> = vec![Vec::new(); self.routers.len()];
        for (number, link) in self.plan.links.iter().enumerate() {
            reports[link.from].push(RouterLink {
                id: link_id(number),
                dest_router_id: router_id(link.to).to_string(),
                link_protocol: "tls".into(),
                dial_address: format!("tls:10.0.{}.{}:6000", link.to / 256, link.to % 256),
                iteration: 1,
                ..RouterLink::default()
            });
        }
        for (router, links) in self.routers.iter().zip(reports) {
            router.send(RouterLinks { links, full_refresh: true }.to_message()).await?;
        }
        self.settled().await
    }

    /// Reports the latency of every link, from both of its ends.
    async fn report_latencies(&self) -> io::Result<()> {
        let mut reports = vec![MetricsMessage::default(); self.routers.len()];
        for (number, link) in self.plan.links.iter().enumerate() {
            let mean = link.latency as f64 * 1e6;
            for end in [link.from, link.to] {
                let measured = Histogram { mean, ..Histogram::default() };
                let name = link_latency_name(&link_id(number));
                reports[end].histograms.insert(name, measured);
            }
        }
        for (router, report) in self.routers.iter().zip(reports) {
            router.send(report.to_message()).await?;
        }
        self.settled().await
    }

    /// Returns when the controller has handled all earlier messages.
    async fn settled(&self) -> io::Result<()> {
        for router in &self.routers {
            router.settled().await?;
        }
        Ok(())
    }

    pub(crate) async fn stop(self) {
        self.plane.stop();
        self.network.stop().await;
    }
}

/// The memory of this process, in bytes.
pub(crate) fn resident() -> u64 {
    crate::cpu::resident(std::process::id()).unwrap_or_default()
}

async fn fill(controller: &Controller, plan: &Plan, who: &[Credentials]) -> io::Result<()> {
    let now = Timestamp(1_704_067_200_000);
    let mut set = ChangeSet::default();
    for router in who {
        set.put(Router {
            base: Base::new(router.id.clone(), now),
            name: router.id.as_str().into(),
            fingerprint: Some(router.fingerprint().into()),
            is_verified: true,
            ..Router::default()
        });
    }
    for (number, hosts) in plan.hosts.iter().enumerate() {
        let service = Id::new(&service_name(number));
        set.put(Service {
            base: Base::new(service.clone(), now),
            name: service.as_str().into(),
            ..Service::default()
        });
        for (at, host) in hosts.iter().enumerate() {
            set.put(Terminator {
                base: Base::new(Id::new(&format!("t{number:04}-{at}")), now),
                service_id: service.clone(),
                router_id: router_id(*host),
                binding: "transport".into(),
                address: "tcp:10.1.1.1:80".into(),
                ..Terminator::default()
            });
        }
    }
    for part in set.changes.chunks(BATCH) {
        let part = ChangeSet { changes: part.to_vec(), ..ChangeSet::default() };
        let done = controller.kernel().submit(move |_| Ok(part.clone())).await;
        done.map_err(|failure| io::Error::other(failure.to_string()))?;
    }
    Ok(())
}
