//! The parts of a controller of a test network, which is started from them, and again.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use weft_api::{ApiServer, Setup, base_urls};
use weft_channel::{ListenerLimits, Listeners, Registration};
use weft_client::{Credentials, ManagementClient, Tls};
use weft_config::web::WebOptions;
use weft_config::{BindPoint, HostPort, WebApi, WebServer};
use weft_control::{ControlOptions, ControlPlane};
use weft_controller::{Addresses, Controller, Durations, Keys, Settings};
use weft_identity::{
    Authority, AuthoritySpec, Identity, KeyAlgorithm, KeyPurpose, KeyedChain, Leaf, LiveIdentity,
    PrivateKey, San, SealKey, SpiffeId, SubjectName, TrustBundle,
};
use weft_network::{Network as Circuits, NetworkOptions};
use weft_store::{Memory, Store};

use crate::network::{PASSWORD, UNRESTRICTED, free_port, until_some};

const TRUST_DOMAIN: &str = "weft.test";

/// The parts of a controller, from which it can be started again.
pub(crate) struct Seed {
    pub(crate) keys: Keys,
    pub(crate) session_key: Arc<SealKey>,
    pub(crate) identity: Arc<LiveIdentity>,
    pub(crate) store: Arc<dyn Store>,
    /// Address of the APIs and the control plane, which share a port.
    pub(crate) port: u16,
    /// True if clients are told to log in by OpenID Connect, for tokens.
    pub(crate) announces_tokens: bool,
    pub(crate) durations: Durations,
}

/// A running controller.
pub(crate) struct Running {
    pub(crate) circuits: Circuits,
    pub(crate) control: ControlPlane,
    pub(crate) _registration: Registration,
    pub(crate) api: ApiServer,
    pub(crate) controller: Controller,
}

impl Seed {
    pub(crate) fn new() -> Self {
        let now = SystemTime::now();
        let spec = |name: &str| AuthoritySpec {
            trust_domain: Some(TRUST_DOMAIN.to_owned()),
            ..AuthoritySpec::new(name)
        };
        let root = Authority::make_root(&spec("root"), now).unwrap();
        let signer = root.make_intermediate(&spec("signer"), now).unwrap();
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let sans = vec![
            San::Uri(SpiffeId::controller(TRUST_DOMAIN, "ctrl1").to_string()),
            San::Dns("localhost".into()),
            San::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        ];
        let subject = SubjectName::common_name("ctrl1");
        let leaf = Leaf::for_key(key.public(), &subject, sans, KeyPurpose::Both, now).unwrap();
        let chain = vec![signer.issue(&leaf).unwrap(), signer.certificate().clone()];
        let chain = KeyedChain::new(chain, key).unwrap();
        let bundle = TrustBundle::new([root.certificate().clone(), signer.certificate().clone()]);
        let identity = Identity::new(Some(chain.clone()), vec![chain.clone()], bundle.clone());
        let keys = Keys {
            session: chain.clone(),
            enrollment: chain,
            authority: signer,
            bundle,
            trust_domain: TRUST_DOMAIN.into(),
        };
        let store = Arc::new(Memory::new());
        let session_key = Arc::new(SealKey::random().unwrap());
        let identity = LiveIdentity::fixed(identity);
        let port = free_port();
        let durations = Durations { token_key_known: Duration::ZERO, ..Durations::default() };
        Self { keys, session_key, identity, store, port, announces_tokens: false, durations }
    }

    pub(crate) fn web(&self) -> WebServer {
        let tokens = self.announces_tokens.then(|| WebApi::EdgeOidc(Default::default()));
        let mut server = self.usual_web();
        server.apis.extend(tokens);
        server
    }

    fn usual_web(&self) -> WebServer {
        WebServer {
            name: "all".into(),
            bind_points: vec![BindPoint::Underlay {
                interface: HostPort { host: "127.0.0.1".into(), port: self.port },
                address: HostPort { host: "localhost".into(), port: self.port },
                new_address: None,
            }],
            apis: vec![
                WebApi::EdgeManagement,
                WebApi::EdgeClient,
                WebApi::Fabric,
                WebApi::HealthChecks,
                WebApi::Metrics { scrape_cert: None, include_timestamps: false },
                WebApi::EdgeOidc(Default::default()),
            ],
            identity: None,
            options: WebOptions::default(),
        }
    }

    /// A client of the administrator.
    pub(crate) async fn log_in(&self) -> ManagementClient {
        let address = format!("localhost:{}", self.port).parse().unwrap();
        let tls = Tls::Anonymous(self.keys.bundle.clone());
        let admin = ManagementClient::new(address, &tls).unwrap();
        admin.login(&Credentials::password("admin", PASSWORD).unwrap()).await.unwrap();
        admin
    }

    pub(crate) async fn start(&self) -> Running {
        let web = self.web();
        let addresses = Addresses {
            api: format!("localhost:{}", self.port),
            ctrl: vec![format!("tls:localhost:{}", self.port)],
            apis: base_urls(std::slice::from_ref(&web), self.announces_tokens),
        };
        let settings = Settings {
            session_key: Some(Arc::clone(&self.session_key)),
            unrestricted_bindings: vec![UNRESTRICTED.into()],
            durations: self.durations.clone(),
            ..Settings::new("ctrl1", Arc::clone(&self.store), self.keys.clone(), addresses)
        };
        let controller = Controller::start(settings).await.unwrap();
        let circuits = controller.start_network(NetworkOptions::default());
        let options = ControlOptions::default();
        let control = ControlPlane::start(controller.auth(), circuits.clone(), options);
        let control = control.await.unwrap();
        let listeners = Arc::new(Listeners::new());
        let tls = ControlPlane::tls(&self.identity).unwrap();
        let bind = format!("127.0.0.1:{}", self.port);
        let registration = until_some(async || {
            let limits = ListenerLimits::default();
            control.listen(&listeners, &bind, limits, Arc::clone(&tls)).await.ok()
        })
        .await;
        let setup =
            Setup::new(controller.clone(), Arc::clone(&self.identity), Arc::clone(&listeners));
        let api = ApiServer::start(&[web], setup).await.unwrap();
        Running { circuits, control, _registration: registration, api, controller }
    }
}
