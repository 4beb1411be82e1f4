//! Controllers that dial this router (docs/protocol/control-plane.md 23).
//!
//! A controller commands this router, so that the proof has to be strict. The authorities of the network
//! issue certificates to every identity and router, too: a chain alone is not enough. The leaf must name a
//! controller by its SPIFFE id, which controllers put into no certificate that they issue
//! (docs/protocol/auth.md 2.3). If this router knows ids of controllers, the id must be one of them.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use weft_channel::{
    AcceptOptions, Admission, ChannelAcceptor, Established, GroupPolicy, HelloGate, ListenerLimits,
    Listeners, PeerHello, Refusal, RegisterError, Registration, TlsSource,
};
use weft_circuit::now;
use weft_config::router::CtrlListener;
use weft_identity::{Certificate, Identity, SpiffeId, SpiffeSubject};
use weft_limits::LogLines;
use weft_wire::ctrl::{ControllerHello, CtrlChanListener};
use weft_wire::hello::{Hello, RejectClass, alpn};
use weft_wire::{Headers, controller_capability};

use super::shared::Core;
use super::{ControlHalf, announce, connect};
use crate::authority::leads_to_authority;
use crate::controllers::Controller;
use crate::seam::ControllerId;

impl ControlHalf {
    /// Listens for controllers; returns the listener that controllers are told of. Controllers are
    /// admitted once the router has begun to connect.
    pub(crate) async fn listen(
        &self,
        sockets: &Listeners,
        config: &CtrlListener,
        handshake_timeout: Duration,
        tls: TlsSource,
    ) -> Result<(Registration, CtrlChanListener), RegisterError> {
        let (channel, usual) = (&config.options, ListenerLimits::default());
        let at_once = channel.max_outstanding_connects.saturating_add(channel.max_queued_connects);
        let limits =
            ListenerLimits { pending: usual.pending.max(at_once), handshake_timeout, ..usual };
        let hello = AcceptOptions {
            hello_timeout: channel.connect_timeout,
            vouches: true,
            ..AcceptOptions::default()
        };
        let lines = Mutex::new(LogLines::new(now()));
        let gate = Gate { core: self.0.clone(), write_timeout: channel.write_timeout, lines };
        let acceptor = Arc::new(ChannelAcceptor::new(gate, hello));
        let bind = config.bind.host_port();
        let registration = sockets.listen(&bind, limits, &[alpn::CTRL], tls, acceptor).await?;
        let mut advertise = config.advertise.clone();
        if advertise.port == 0 {
            advertise.port = registration.local_addr().port();
        }
        let groups = config.groups.clone();
        Ok((registration, CtrlChanListener { address: advertise.to_string(), groups }))
    }
}

/// Admits controllers at one listener.
struct Gate {
    core: Arc<Core>,
    write_timeout: Option<Duration>,
    /// Lines of the log about peers that are refused, and have shown a certificate of the network.
    lines: Mutex<LogLines>,
}

impl Gate {
    /// The id of the controller that shows this chain, or the refusal of another peer.
    fn proved(&self, chain: &[CertificateDer<'static>]) -> Result<String, Refusal> {
        proved(&self.core.identity.current(), chain).map_err(|unproved| {
            if let Unproved::Other { name, reason } = &unproved {
                let text = "a program that is no controller of this network connected as one";
                match self.lines.lock().due(now()) {
                    Some(left_out) => tracing::warn!(name, reason, left_out, "{text}"),
                    None => tracing::debug!(name, reason, "{text}"),
                }
            }
            Refusal::close(unproved.to_string())
        })
    }

    fn refuse(&self, id: &str, peer: &PeerHello, reason: String) -> Refusal {
        let remote = peer.remote;
        match self.lines.lock().due(now()) {
            Some(left_out) => tracing::warn!(
                controller = id, peer = %remote, reason, left_out, "a controller is refused"
            ),
            None => {
                tracing::debug!(controller = id, peer = %remote, reason, "a controller is refused");
            }
        }
        Refusal::answer(RejectClass::NotPermitted, reason)
    }
}

impl HelloGate for Gate {
    /// A peer that is no controller is disconnected before its hello is read.
    fn screen(&self, certificates: &[CertificateDer<'static>]) -> Result<(), Refusal> {
        self.proved(certificates).map(|_| ())
    }

    async fn check(&self, peer: &PeerHello) -> Result<Admission, Refusal> {
        let core = &self.core;
        if core.data.get().is_none() || core.stop.is_cancelled() {
            return Err(Refusal::close("the router starts or stops"));
        }
        let id = self.proved(&peer.certificates)?;
        let no = |reason: String| self.refuse(&id, peer, reason);
        if peer.hello.token != id {
            return Err(no(format!(
                "its hello has the id {:?}, its certificate {id:?}",
                peer.hello.token
            )));
        }
        let known = core.cluster.ids();
        if !known.is_empty() && !known.iter().any(|one| **one == *id) {
            return Err(no(format!(
                "it is none of the controllers that this router knows: {}; if they were replaced, \
                 delete {} and start the router anew",
                known.join(", "),
                core.options.endpoints_file.display()
            )));
        }
        let said = ControllerHello::from_hello(&peer.hello);
        if said.version.is_none() {
            return Err(no("its hello has no version".to_owned()));
        }
        if !said.capabilities.has(controller_capability::JWT_LEGACY_SESSIONS) {
            return Err(no(
                "it does not issue signed service sessions: it is older than 2.0".into()
            ));
        }
        if peer.joining.is_none() && core.controllers.get(&id).is_some() {
            let text = format!("already connected to controller {id}");
            return Err(Refusal::answer(RejectClass::Busy, text));
        }
        if core.cluster.is_cut(&id) {
            let text = "the connection is kept cut by a user of the router's machine";
            return Err(Refusal::answer(RejectClass::Busy, text));
        }
        let mut headers = Headers::new();
        announce::hello(core).write(&mut headers);
        let mut channel = connect::channel_options(core, format!("ctrl {id} from {}", peer.remote));
        channel.write_timeout = self.write_timeout;
        Ok(Admission {
            listener_id: core.options.router_id.clone(),
            identity: Vec::new(),
            headers,
            channel,
            group: Some(GroupPolicy::control_listener()),
        })
    }

    async fn established(&self, channel: Established) {
        let (core, peer) = (&self.core, channel.peer());
        let id = peer.id.clone().unwrap_or_default();
        let hello = Hello { headers: peer.headers.clone(), ..Hello::new(id.as_str()) };
        let said = ControllerHello::from_hello(&hello);
        let controller = Arc::new(Controller {
            last_ping: Arc::default(),
            id: ControllerId::from(id),
            channel: channel.handle(),
            capabilities: said.capabilities,
            version: said.version.and_then(|version| version.release()),
            address: format!("tls:{}", peer.remote),
        });
        if !core.controllers.add(controller.clone()) {
            tracing::debug!(controller = %controller.id, "already connected to the controller");
            return;
        }
        let registered = connect::Registered::new(core, &controller);
        core.spawn(connect::run(core.clone(), channel, controller, registered));
    }
}

/// Why a peer is no controller of this network.
#[derive(Debug, thiserror::Error)]
enum Unproved {
    /// The peer has shown no certificate of this network.
    #[error("{0}")]
    Stranger(String),
    /// The peer has shown a certificate of something else than a controller.
    #[error("{reason}")]
    Other { name: String, reason: String },
}

/// The id of the controller that shows this chain.
fn proved(identity: &Identity, chain: &[CertificateDer<'static>]) -> Result<String, Unproved> {
    let stranger = Unproved::Stranger;
    leads_to_authority(identity, chain)
        .map_err(|problem| stranger(format!("certificate: {problem}")))?;
    let leaf = chain.first().cloned();
    let leaf = leaf.ok_or_else(|| stranger("no certificate was presented".to_owned()))?;
    let leaf = Certificate::from_der(leaf).map_err(|error| stranger(error.to_string()))?;
    let own = identity.client().and_then(|client| spiffe(client.leaf()).ok());
    controller_of(&leaf, own.map(|own| own.trust_domain).as_deref()).map_err(|reason| {
        Unproved::Other { name: leaf.common_name().unwrap_or_default().to_owned(), reason }
    })
}

/// The controller that a certificate names, in this trust domain, if that is known.
fn controller_of(leaf: &Certificate, trust_domain: Option<&str>) -> Result<String, String> {
    let named = spiffe(leaf)?;
    let id = match &named.subject {
        SpiffeSubject::Controller(id) => id.clone(),
        _ => return Err(format!("its certificate is that of {named}, which is not a controller")),
    };
    if trust_domain.is_some_and(|own| own != named.trust_domain) {
        let own = trust_domain.unwrap_or_default();
        return Err(format!(
            "its certificate is of trust domain {}, not {own}",
            named.trust_domain
        ));
    }
    // The certificate of every controller has its id as common name (docs/protocol/config.md 5.1).
    match leaf.common_name() == Some(id.as_str()) {
        true => Ok(id),
        false => Err(format!("its certificate names controller {id}, but its common name differs")),
    }
}

/// The one SPIFFE id of a certificate.
fn spiffe(leaf: &Certificate) -> Result<SpiffeId, String> {
    let mut uris = leaf.spiffe_uris();
    let (Some(uri), None) = (uris.next(), uris.next()) else {
        return Err(
            "its certificate does not name exactly one SPIFFE id; that of a controller is \
                    spiffe://<trust domain>/controller/<id>"
                .into(),
        );
    };
    uri.parse().map_err(|error: weft_identity::Error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use weft_identity::{
        Authority, AuthoritySpec, KeyAlgorithm, KeyPurpose, KeyedChain, Leaf, PrivateKey, San,
        SubjectName, TrustBundle,
    };

    use super::*;

    fn authority() -> Authority {
        Authority::make_root(&AuthoritySpec::new("root"), SystemTime::now()).unwrap()
    }

    fn issue(by: &Authority, name: &str, uris: &[&str]) -> KeyedChain {
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let sans = uris.iter().map(|&uri| San::Uri(uri.to_owned())).collect();
        let subject = SubjectName::common_name(name);
        let now = SystemTime::now();
        let leaf = Leaf::for_key(key.public(), &subject, sans, KeyPurpose::Both, now).unwrap();
        KeyedChain::new(vec![by.issue(&leaf).unwrap()], key).unwrap()
    }

    /// The controller of which a router with this certificate takes a chain to be, or the refusal.
    fn taken(
        router: &KeyedChain,
        root: &Authority,
        chain: &[&KeyedChain],
    ) -> Result<String, String> {
        let bundle = TrustBundle::new([root.certificate().clone()]);
        let identity = Identity::new(Some(router.clone()), Vec::new(), bundle);
        let chain: Vec<_> = chain.iter().map(|one| one.leaf().der().clone()).collect();
        proved(&identity, &chain).map_err(|unproved| unproved.to_string())
    }

    #[test]
    fn only_a_leaf_that_names_a_controller_of_this_network_is_one() {
        let (root, elsewhere) = (authority(), authority());
        let own = issue(&root, "r1", &["spiffe://net/router/r1"]);
        let controller = issue(&root, "ctrl1", &["spiffe://net/controller/ctrl1"]);
        assert_eq!(taken(&own, &root, &[&controller]).as_deref(), Ok("ctrl1"));
        for (name, uris) in [
            ("ctrl1", &[][..]),
            ("r2", &["spiffe://net/router/r2"]),
            ("ctrl1", &["spiffe://net/identity/ctrl1"]),
            ("ctrl1", &["spiffe://net/controller/ctrl1/more"]),
            ("ctrl1", &["https://net/controller/ctrl1"]),
            ("ctrl1", &["spiffe://other/controller/ctrl1"]),
            ("r2", &["spiffe://net/controller/ctrl1"]),
            ("ctrl1", &["spiffe://net/router/r2", "spiffe://net/controller/ctrl1"]),
        ] {
            let other = issue(&root, name, uris);
            assert!(taken(&own, &root, &[&other]).is_err(), "{name} {uris:?}");
            // The controller's own certificate behind it is public and proves nothing.
            assert!(taken(&own, &root, &[&other, &controller]).is_err(), "{name} {uris:?}");
        }
        let stranger = issue(&elsewhere, "ctrl1", &["spiffe://net/controller/ctrl1"]);
        assert!(taken(&own, &root, &[&stranger]).is_err());
        assert!(taken(&own, &root, &[&stranger, &controller]).is_err());
        assert!(taken(&own, &root, &[]).is_err());
        // A router whose certificate names no trust domain takes any of its authorities.
        let unnamed = issue(&root, "r1", &[]);
        assert_eq!(taken(&unnamed, &root, &[&controller]).as_deref(), Ok("ctrl1"));
    }
}
