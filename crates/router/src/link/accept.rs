//! Links that other routers open (docs/protocol/data-plane.md 3.4 to 3.7).
//!
//! The identity of a router that opens a link is that of its leaf certificate. The leaf must lead to an
//! authority of this router's identity, and a controller must confirm it as that router's. While no
//! controller can be asked, a router is accepted that a controller has confirmed within a day, with the
//! same leaf.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use weft_channel::{
    AcceptOptions, Admission, ChannelAcceptor, ChannelOptions, Established, GroupPolicy, HelloGate,
    ListenerLimits, Listeners, PeerHello, Refusal, RegisterError, TlsSource,
};
use weft_circuit::now;
use weft_config::router::LinkListener as ListenerConfig;
use weft_wire::hello::{Hello, alpn};
use weft_wire::link::{LinkHello, SplitPart};
use weft_wire::{Headers, Scheme};

use super::machine::{Facts, Input};
use super::{Links, datagram, interfaces};
use crate::authority::leads_to_authority;
use crate::seam::{LinkListener, Unverified};

/// How long the first half of a split link waits for the second.
const HALF: Duration = Duration::from_secs(30);
/// Most bytes of an id or a name in a hello.
const MAX_NAME: usize = 256;
/// Most first halves that wait.
const MAX_HALVES: usize = 1024;
/// Most first halves of one router that wait.
const MAX_HALVES_OF_ONE: usize = 16;
/// Longest wait for a controller's confirmation of a router.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest wait if a controller has confirmed the router within a day.
const PATIENCE_IF_KNOWN: Duration = Duration::from_secs(2);

impl Links {
    /// Listens for other routers at a listener of the configuration.
    pub(crate) async fn listen(
        self: &Arc<Self>,
        listeners: &Listeners,
        config: &ListenerConfig,
        tls: TlsSource,
    ) -> Result<(SocketAddr, LinkListener, datagram::Socket), RegisterError> {
        let protocol = config.bind.scheme.name().to_owned();
        let binding = interfaces::listener_binding(config);
        let gate = LinkGate {
            links: Arc::downgrade(self),
            protocol: protocol.clone(),
            binding: binding.clone(),
            write_timeout: config.options.write_timeout,
            halves: Arc::default(),
        };
        // The hello waits for the answer of a controller.
        let hello_timeout = config.options.connect_timeout.max(Duration::from_secs(10));
        let hello = AcceptOptions { hello_timeout, vouches: true, ..AcceptOptions::default() };
        let acceptor = Arc::new(ChannelAcceptor::new(gate, hello));
        let bind = config.bind.host_port();
        let (channel, usual) = (&config.options, ListenerLimits::default());
        let at_once = channel.max_outstanding_connects.saturating_add(channel.max_queued_connects);
        // As for SDKs, the file can only raise the number of unauthenticated peers.
        let limits = ListenerLimits {
            pending: usual.pending.max(at_once),
            handshake_timeout: self.options.handshake_timeout,
            ..usual
        };
        let listen =
            |protocols| listeners.listen(&bind, limits, protocols, tls.clone(), acceptor.clone());
        let registration = if config.bind.scheme == Scheme::Dtls {
            let own = &self.options;
            let limits =
                ListenerLimits { handshake_timeout: own.datagram_handshake_timeout, ..limits };
            let (identity, runtime) = (Arc::clone(&self.identity), own.threads.pick());
            let acceptor = (*acceptor).clone();
            let listening =
                datagram::listen(&bind, identity, limits, own.datagrams, runtime, acceptor);
            datagram::Socket::Datagrams(listening.await?)
        } else {
            // On a shared port, a peer that offers no protocol may belong to another listener.
            match listen(&[alpn::LINK, ""]).await {
                Err(RegisterError::Taken { protocol, .. }) if protocol.is_empty() => {
                    listen(&[alpn::LINK]).await?.into()
                }
                listened => listened?.into(),
            }
        };
        let bound = registration.local_addr();
        let mut advertise = config.advertise.clone();
        if advertise.port == 0 {
            advertise.port = bound.port();
        }
        let listener = LinkListener {
            address: advertise.to_string(),
            protocol,
            groups: config.groups.clone(),
            local_binding: binding,
        };
        Ok((bound, listener, registration))
    }
}

/// Admits routers at one listener.
struct LinkGate {
    links: Weak<Links>,
    /// Protocol of the listener.
    protocol: String,
    /// The listener's name in the key of links.
    binding: String,
    write_timeout: Option<Duration>,
    /// First halves of split links, by the key that both halves share.
    halves: Arc<Mutex<HashMap<String, Half>>>,
}

/// The first half of a split link.
struct Half {
    hello: LinkHello,
    part: SplitPart,
    leaf: Vec<u8>,
    channel: Established,
    since: Instant,
}

impl Half {
    fn waits(&self) -> bool {
        now().saturating_duration_since(self.since) < HALF
    }
}

/// Why a peer may not open a link.
enum NotAdmitted {
    /// The peer has shown no certificate of the network.
    Stranger(String),
    /// The peer has shown a certificate of the network.
    Router(String),
}

impl LinkGate {
    fn refuse(&self, links: &Links, peer: &PeerHello, why: NotAdmitted) -> Refusal {
        let (reason, is_stranger) = match why {
            NotAdmitted::Stranger(reason) => (reason, true),
            NotAdmitted::Router(reason) => (reason, false),
        };
        if let Some(left_out) = links.refused.count(is_stranger) {
            tracing::warn!(
                peer = %peer.remote, %reason, left_out,
                "a link is refused; {left_out} more were refused since the last such line"
            );
        }
        Refusal::close(reason)
    }

    async fn admit(&self, links: &Arc<Links>, peer: &PeerHello) -> Result<(), NotAdmitted> {
        let stranger = NotAdmitted::Stranger;
        let leaf = peer.certificates.first();
        let leaf = leaf.ok_or_else(|| stranger("no certificate was presented".to_owned()))?;
        leads_to_authority(&links.identity.current(), &peer.certificates).map_err(stranger)?;
        self.admit_router(links, peer, leaf).await.map_err(NotAdmitted::Router)
    }

    /// Judges the hello of a peer whose certificate is one of the network.
    async fn admit_router(
        &self,
        links: &Arc<Links>,
        peer: &PeerHello,
        leaf: &CertificateDer<'_>,
    ) -> Result<(), String> {
        let hello = LinkHello::from_hello(&peer.hello).map_err(|problem| problem.to_string())?;
        let own = &links.options.router_id;
        if hello.dialed_router_id.as_ref().is_some_and(|meant| meant != own) {
            let meant = hello.dialed_router_id.unwrap_or_default();
            return Err(format!("the link is meant for router {meant}, and this is router {own}"));
        }
        let longest =
            [&hello.link_id, &hello.connection_id, &hello.dialer_binding].map(String::len);
        if longest.iter().any(|length| *length > MAX_NAME) {
            return Err(format!("an id or name in its hello is longer than {MAX_NAME} bytes"));
        }
        if hello.router_id == *own {
            return Err("the link comes from this router itself".to_owned());
        }
        if peer.joining.is_some() {
            // The channel compares the certificate with that of its first connection, which was
            // confirmed.
            return Ok(());
        }
        let fingerprint = weft_identity::fingerprint(leaf);
        let router = &hello.router_id;
        let known = links.core.lock().machine.confirmed.holds(router, &fingerprint, now());
        let asked = links.control.verify_router(router, &fingerprint);
        // The dialer does not wait long, and a router that a controller has confirmed is accepted without
        // an answer.
        let patience = if known { PATIENCE_IF_KNOWN } else { PATIENCE };
        let answer = tokio::time::timeout(patience, asked).await;
        let silent = || Unverified::NotAsked(format!("no answer within {patience:?}"));
        match answer.unwrap_or_else(|_| Err(silent())) {
            Ok(()) => {
                links.step(Input::Confirmed { router: router.clone(), leaf: fingerprint });
                Ok(())
            }
            Err(Unverified::Refused(reason)) => {
                let problem = format!("a controller does not know it as router {router}: {reason}");
                links.step(Input::Refused { router: router.clone(), leaf: fingerprint, reason });
                Err(problem)
            }
            Err(Unverified::NotAsked(reason)) => {
                if links.core.lock().machine.confirmed.accept_unasked(router, &fingerprint, now()) {
                    links.unasked.notify_one();
                    tracing::info!(
                        %router,
                        "link accepted: a controller confirmed the router within a day, and none \
                         can be asked now"
                    );
                    return Ok(());
                }
                Err(format!("no controller could be asked about router {router}: {reason}"))
            }
        }
    }

    /// Returns this half with the other half, if the other half waits; otherwise this half waits.
    fn join(&self, half: Half) -> Option<(Half, Half)> {
        let mut halves = self.halves.lock();
        halves.retain(|_, half| half.waits());
        let id = half.hello.connection_id.clone();
        let Some(other) = halves.remove(&id) else {
            let router = &half.hello.router_id;
            let of_router = halves.values().filter(|half| half.hello.router_id == *router).count();
            if halves.len() < MAX_HALVES && of_router < MAX_HALVES_OF_ONE {
                halves.insert(id, half);
            }
            return None;
        };
        let same = other.leaf == half.leaf
            && other.hello.link_id == half.hello.link_id
            && other.hello.router_id == half.hello.router_id
            && other.hello.iteration == half.hello.iteration;
        if !same || other.part == half.part {
            tracing::warn!(
                router = %half.hello.router_id,
                "the two connections of a split link do not match; both are closed"
            );
            return None;
        }
        Some(if half.part == SplitPart::Payload { (half, other) } else { (other, half) })
    }
}

impl HelloGate for LinkGate {
    async fn check(&self, peer: &PeerHello) -> Result<Admission, Refusal> {
        let Some(links) = self.links.upgrade() else {
            return Err(Refusal::close("the router is shutting down"));
        };
        if let Err(reason) = self.admit(&links, peer).await {
            return Err(self.refuse(&links, peer, reason));
        }
        let router = LinkHello::from_hello(&peer.hello).map(|hello| hello.router_id);
        let label = format!("link from {}", router.unwrap_or_default());
        Ok(Admission {
            listener_id: links.options.router_id.clone(),
            identity: Vec::new(),
            headers: Headers::default(),
            channel: ChannelOptions {
                write_timeout: self.write_timeout,
                ..links.channel_options(label)
            },
            group: Some(GroupPolicy::link_listener()),
        })
    }

    async fn established(&self, channel: Established) {
        let Some(links) = self.links.upgrade() else { return };
        let token = channel.peer().id.clone().unwrap_or_default();
        let headers = channel.peer().headers.clone();
        let leaf = channel.peer().leaf().map(|leaf| weft_identity::fingerprint(leaf));
        let hello = Hello { token, headers, sequence: 0 };
        let hello = match LinkHello::from_hello(&hello) {
            Ok(hello) => hello,
            Err(problem) => {
                tracing::warn!(%problem, "the hello of a link is not understood");
                return;
            }
        };
        let channels = match hello.part {
            None => vec![(None, channel)],
            Some(part) => {
                let leaf = channel.peer().leaf().map(|leaf: &CertificateDer<'_>| leaf.to_vec());
                let half = Half {
                    hello: hello.clone(),
                    part,
                    leaf: leaf.unwrap_or_default(),
                    channel,
                    since: now(),
                };
                let Some((payload, ack)) = self.join(half) else {
                    let halves = Arc::clone(&self.halves);
                    return links.spawn(async move {
                        tokio::time::sleep(HALF).await;
                        halves.lock().retain(|_, half| half.waits());
                    });
                };
                vec![(Some(payload.part), payload.channel), (Some(ack.part), ack.channel)]
            }
        };
        let key = weft_wire::link::key(
            &hello.dialer_binding,
            &self.protocol,
            &hello.router_id,
            &self.binding,
        );
        let facts = Facts {
            number: links.numbers.fetch_add(1, Ordering::Relaxed),
            key,
            id: hello.link_id,
            peer: hello.router_id,
            iteration: hello.iteration,
            dialed: None,
            leaf,
        };
        links.opened(facts, &self.protocol, channels);
    }
}
