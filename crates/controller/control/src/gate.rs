//! Decides which routers may connect (docs/protocol/control-plane.md 2.2, docs/protocol/channel.md
//! 10), and which controllers (docs/protocol/control-plane.md 31).
//!
//! A router is proved by its leaf certificate: it leads to the CA bundle, and is the one enrolled
//! for the id in the hello. Further connections of a channel pass the same checks; the churn limit
//! is for new channels only.

use std::sync::Arc;

use rustls_pki_types::CertificateDer;
use weft_channel::{
    Admission, ChannelOptions, Established, GroupPolicy, HelloGate, PeerHello, Refusal,
};
use weft_identity::{Certificate, PublicKey, Verify};
use weft_kernel::clock::system_time;
use weft_model::Id;
use weft_model::entity::Router;
use weft_network::routers::LiveRouter;
use weft_wire::ctrl::RouterHello;
use weft_wire::hello::{Hello, RejectClass};

use super::session::RouterSession;
use crate::admitted::admitted;
use crate::controllers::accept::welcome;
use crate::controllers::proof::member_of;
use crate::plane::Plane;

/// Judges the hellos of routers and of other controllers.
pub struct Gate(pub Arc<Plane>);

impl HelloGate for Gate {
    /// Refuses peers without a certificate of a router or controller before their hello is read.
    fn screen(&self, certificates: &[CertificateDer<'static>]) -> Result<(), Refusal> {
        let Some(leaf) = certificates.first() else {
            return Err(Refusal::close("no certificate was presented"));
        };
        let shown = weft_identity::fingerprint(leaf);
        match self.0.auth.kernel().router_by_fingerprint(&shown) {
            Some(_) => Ok(()),
            None if self.member(certificates).is_some() => Ok(()),
            None => Err(Refusal::close(
                "no router or controller has the certificate that was presented",
            )),
        }
    }

    async fn check(&self, peer: &PeerHello) -> Result<Admission, Refusal> {
        if let Some(controller) = self.member(&peer.certificates) {
            return self.admit_controller(peer, controller);
        }
        let router = self.authenticate(peer)?;
        let id = &router.base.id;
        if peer.joining.is_none() {
            let may = self.0.network.may_connect(id);
            may.map_err(|why| Refusal::answer(RejectClass::Busy, why.to_string()))?;
        }
        let label = format!("router {} [{id}]", router.name);
        Ok(Admission {
            listener_id: self.0.auth.kernel().settings().id.clone(),
            identity: id.as_str().as_bytes().to_vec(),
            headers: self.0.headers(),
            channel: self.0.channel_options(label),
            group: Some(GroupPolicy::control_listener()),
        })
    }

    async fn established(&self, channel: Established) {
        let peer = channel.peer();
        if let Some(controller) = self.member(&peer.certificates)
            && let Some(leaf) = peer.leaf().cloned()
        {
            welcome(&self.0, controller, leaf, channel);
            return;
        }
        let token = peer.id.clone().unwrap_or_default();
        let hello = Hello { headers: peer.headers.clone(), ..Hello::new(token.as_str()) };
        let hello = RouterHello::from_hello(&hello);
        let now = self.0.auth.kernel().now();
        let leaf = peer.leaf().cloned().map(Certificate::from_der);
        let Some(Ok(leaf)) = leaf else { return };
        let (id, handle) = (Id::new(&token), channel.handle());
        let key = leaf.public_key().ok().map(PublicKey::print);
        let shown = (leaf.fingerprint(), key);
        let Some(live) = LiveRouter::new(id, handle, hello, shown, now) else {
            tracing::warn!(router = %token, peer = %peer.remote, "a router is refused: its hello has no version");
            return;
        };
        RouterSession::begin(&self.0, Arc::new(live), channel);
    }
}

impl Gate {
    /// The other controller that a chain proves; none of a controller that is alone.
    fn member(&self, certificates: &[CertificateDer<'static>]) -> Option<Id> {
        let (auth, kernel) = (&self.0.auth, self.0.auth.kernel());
        let leaf = certificates.first()?;
        // Looked up first: routers come in crowds, and their fingerprints have an index.
        let is_router = kernel.router_by_fingerprint(&weft_identity::fingerprint(leaf)).is_some();
        if is_router || !auth.is_member() {
            return None;
        }
        let snapshot = kernel.snapshot();
        let member = member_of(&snapshot, &kernel.settings().id, leaf);
        member.map(|member| member.base.id.clone())
    }

    /// Admits a controller. Its certificate leads to the root of the network, too.
    fn admit_controller(&self, peer: &PeerHello, controller: Id) -> Result<Admission, Refusal> {
        self.verify(peer)?;
        Ok(Admission {
            listener_id: self.0.auth.kernel().settings().id.clone(),
            identity: controller.as_str().as_bytes().to_vec(),
            headers: self.0.headers(),
            channel: ChannelOptions::control(format!("controller {controller}")),
            group: None,
        })
    }

    /// Verifies the chain of a peer. A peer without a certificate of the network is disconnected without an answer.
    fn verify(&self, peer: &PeerHello) -> Result<(), Refusal> {
        let auth = &self.0.auth;
        if self.0.is_stopping() {
            return Err(Refusal::close("the controller is stopping"));
        }
        let (now, bundle) = (system_time(auth.kernel().now()), auth.keys().bundle.clone());
        bundle
            .verify(&peer.certificates, Verify::default(), now)
            .map_err(|problem| Refusal::close(format!("certificate: {problem}")))
            .map(drop)
    }

    /// The router that a leaf certificate proves.
    fn authenticate(&self, peer: &PeerHello) -> Result<Arc<Router>, Refusal> {
        let auth = &self.0.auth;
        self.verify(peer)?;
        if auth.is_outdated() {
            return Err(Refusal::answer(
                RejectClass::Busy,
                "the controller knows less than others and cannot catch up".to_owned(),
            ));
        }
        let leaf = peer.certificates.first().cloned().map(Certificate::from_der);
        let Some(Ok(leaf)) = leaf else {
            return Err(Refusal::close("no certificate was presented"));
        };
        let id = peer.hello.token.as_str();
        let no = |text: String| Refusal::answer(RejectClass::NotPermitted, text);
        let snapshot = auth.kernel().snapshot();
        let router = admitted(&snapshot, id, |known| known == leaf.fingerprint()).map_err(no)?;
        if router.fingerprint.as_deref() != Some(leaf.fingerprint()) {
            self.0.network.spawn(super::renewal::confirm_seen(
                auth.clone(),
                router.base.id.clone(),
                leaf,
            ));
        }
        Ok(Arc::clone(router))
    }
}
