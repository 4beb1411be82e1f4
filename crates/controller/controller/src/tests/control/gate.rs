//! Routers that lose the right to be connected: while they connect, and once they are connected.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use weft_channel::{
    AcceptOptions, Admission, ChannelAcceptor, Established, HelloGate, ListenerLimits, Listeners,
    PeerHello, Refusal,
};
use weft_contract::Api;
use weft_control::ControlPlane;
use weft_control::gate::Gate;
use weft_identity::{CertificateRequest, Identity, LiveIdentity, San, SubjectName};
use weft_model::entity::Router;
use weft_wire::ProtoBody;
use weft_wire::ctrl::{self, PeerStateChanges};
use weft_wire::edge_ctrl::{EnrollmentExtendRouterRequest, content_type};
use weft_wire::hello::alpn;

use super::support::{Net, Peer, TestRouter, soon, until};
use crate::testing::to;
use crate::{Caller, Origin};

/// A gate that holds admitted routers back until the test lets them through.
struct Doorkeeper {
    gate: Arc<Gate>,
    admitted: mpsc::UnboundedSender<Established>,
}

impl HelloGate for Doorkeeper {
    async fn check(&self, peer: &PeerHello) -> Result<Admission, Refusal> {
        self.gate.check(peer).await
    }

    async fn established(&self, channel: Established) {
        let _ = self.admitted.send(channel);
    }
}

/// Waits until the controller has handled every change so far: another router is told of the last
/// one.
async fn heard(net: &Net, witness: &mut Peer, name: &str) {
    let last = net.router(name).await;
    net.manage("deleteEdgeRouter", &[last.id.as_str()], Value::Null).await;
    loop {
        let news = witness.expect(ctrl::content_type::PEER_STATE_CHANGE).await;
        let news = PeerStateChanges::from_message(&news).unwrap();
        if news.changes.iter().any(|change| change.id == last.id.as_str()) {
            return;
        }
    }
}

#[tokio::test]
async fn who_is_cut_off_between_gate_and_registration_does_not_stay() {
    let net = Net::new().await;
    let other = net.router("witness").await;
    let mut witness = net.connect(&other).await;
    let gate = Arc::new(Gate(Arc::clone(&net.plane.0)));
    let (admitted, mut channels) = mpsc::unbounded_channel();
    let doorkeeper = Doorkeeper { gate: Arc::clone(&gate), admitted };
    let keys = net.bed.controller.auth().keys();
    let identity = Identity::new(None, vec![keys.session.clone()], keys.bundle.clone());
    let tls = ControlPlane::tls(&LiveIdentity::fixed(identity)).unwrap();
    let (listeners, limits) = (Listeners::new(), ListenerLimits::default());
    let acceptor = Arc::new(ChannelAcceptor::new(doorkeeper, AcceptOptions::default()));
    let listening = listeners.listen("127.0.0.1:0", limits, &[alpn::CTRL], tls, acceptor);
    let listening = listening.await.unwrap();

    for (number, operation) in
        ["deleteEdgeRouter", "patchEdgeRouter", "reEnrollEdgeRouter", ""].into_iter().enumerate()
    {
        let router = net.router(&format!("er{number}")).await;
        let mut options = net.options(&router);
        options.address.port = listening.local_addr().port();
        let peer = Peer::start(soon(weft_channel::dial(options)).await.unwrap());
        let channel = soon(channels.recv()).await.unwrap();
        let body = match operation {
            "patchEdgeRouter" => json!({"disabled": true}),
            _ => Value::Null,
        };
        if !operation.is_empty() {
            net.manage(operation, &[router.id.as_str()], body).await;
            heard(&net, &mut witness, &format!("last{number}")).await;
        }
        gate.established(channel).await;
        if operation.is_empty() {
            peer.settled().await;
            continue;
        }
        soon(peer.channel.closed()).await;
        assert!(net.network.routers().get(router.id.as_str()).is_none(), "{operation}");
        assert!(!net.bed.controller.kernel().online().is_online(router.id.as_str()), "{operation}");
    }
}

fn csr(router: &TestRouter, sans: &[San]) -> String {
    let name = SubjectName::common_name(router.id.as_str());
    CertificateRequest::make_pem(router.chain.key(), &name, sans).unwrap()
}

#[tokio::test]
async fn a_renewed_certificate_keeps_the_connection_and_another_ends_it() {
    let net = Net::new().await;
    let (router, other) = (net.router("er1").await, net.router("witness").await);
    let mut peer = net.connect(&router).await;
    let mut witness = net.connect(&other).await;
    let waiting = || {
        let snapshot = net.bed.controller.kernel().snapshot();
        snapshot.get::<Router>(&router.id).unwrap().unverified_fingerprint.clone()
    };
    assert_eq!(waiting(), None);
    let body = json!({"certCsr": csr(&router, &[]), "serverCertCsr": csr(&router, &[])});
    let certificates = vec![router.chain.leaf().clone()];
    let shown = Caller::nobody(Origin { certificates, ..Origin::default() });
    net.bed.client(&shown, "extendRouterEnrollment", &[], body).await.unwrap();
    let second = waiting();
    assert!(second.is_some());
    let another = [San::Dns("er1.example".into())];
    let request = EnrollmentExtendRouterRequest {
        client_cert_csr: csr(&router, &another),
        server_cert_csr: csr(&router, &another),
        require_verification: false,
    };
    peer.send(request.to_message()).await;
    peer.expect(content_type::ENROLLMENT_CERTS_RESPONSE).await;
    assert_ne!(waiting(), second);
    // Certificates that could not be stored do not take the place of the one that counts.
    let live = net.network.routers().get(router.id.as_str()).unwrap();
    (0..20).for_each(|number| live.renewed(&format!("{number:040}")));
    assert!(live.stands_on(live.shown()));
    heard(&net, &mut witness, "last1").await;
    peer.settled().await;

    let call = to(Api::Fabric, "patchRouter", &[router.id.as_str()])
        .with_json(&json!({"fingerprint": "0".repeat(40)}));
    net.bed.controller.call(net.admin.clone(), call).await.unwrap();
    soon(peer.channel.closed()).await;
    until(|| net.network.routers().get(router.id.as_str()).is_none()).await;
    witness.settled().await;
}
