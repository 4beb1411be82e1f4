//! New certificates for routers, with the connection cut at every step.

use serde_json::json;
use weft_contract::Api;
use weft_identity::{
    Certificate, CertificateRequest, KeyAlgorithm, KeyedChain, PrivateKey, SubjectName,
};
use weft_model::entity::Router;
use weft_store::{CommitError, InjectedFault};
use weft_wire::ProtoBody;
use weft_wire::edge_ctrl::{
    EnrollmentCertsResponse, EnrollmentExtendRouterRequest, EnrollmentExtendRouterVerifyRequest,
    ExtendVerifyResult, content_type,
};

use super::support::{Net, Peer, TestRouter, until};
use crate::testing::to;
use crate::{Caller, Health, Origin};

/// The step at which a renewal is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
enum Cut {
    /// The controller cannot write.
    Unwritten,
    /// After the request: the router never learns the result.
    Requested,
    /// The answer was read, and not stored.
    Answered,
    /// The answer was stored, and not confirmed.
    Kept,
    /// The confirmation was sent, and its answer not read.
    Confirming,
    /// The renewal is not interrupted.
    Never,
}

const CUTS: [Cut; 6] =
    [Cut::Unwritten, Cut::Requested, Cut::Answered, Cut::Kept, Cut::Confirming, Cut::Never];

/// A key, and requests of a router for certificates for it.
pub(super) struct Renewing {
    key: PrivateKey,
    subject: SubjectName,
}

impl Renewing {
    /// Requests for the key that the router has.
    pub(super) fn of(router: &TestRouter) -> Self {
        Self::with(router, router.chain.key().clone())
    }

    /// Requests for a new key.
    pub(super) fn another(router: &TestRouter) -> Self {
        Self::with(router, PrivateKey::generate(KeyAlgorithm::EcP256).unwrap())
    }

    fn with(router: &TestRouter, key: PrivateKey) -> Self {
        Self { key, subject: SubjectName::common_name(router.id.as_str()) }
    }

    pub(super) fn csr(&self) -> String {
        CertificateRequest::make_pem(&self.key, &self.subject, &[]).unwrap()
    }

    pub(super) fn request(&self, require_verification: bool) -> EnrollmentExtendRouterRequest {
        let (client_cert_csr, server_cert_csr) = (self.csr(), self.csr());
        EnrollmentExtendRouterRequest { client_cert_csr, server_cert_csr, require_verification }
    }

    pub(super) fn router(&self, of: &TestRouter, pem: &str) -> TestRouter {
        let chain = Certificate::from_pem(pem.as_bytes()).unwrap();
        TestRouter { id: of.id.clone(), chain: KeyedChain::new(chain, self.key.clone()).unwrap() }
    }
}

pub(super) fn entity(net: &Net, router: &TestRouter) -> Router {
    (**net.bed.controller.kernel().snapshot().get::<Router>(&router.id).unwrap()).clone()
}

pub(super) async fn answer(peer: &mut Peer) -> String {
    let answer = peer.expect(content_type::ENROLLMENT_CERTS_RESPONSE).await;
    EnrollmentCertsResponse::from_message(&answer).unwrap().client_cert_pem
}

/// Renews over the control channel up to the interruption; returns the certificate that the router
/// has stored then.
async fn renew(
    net: &Net,
    router: &TestRouter,
    own: &Renewing,
    verifies: bool,
    cut: Cut,
) -> Option<TestRouter> {
    let mut peer = net.connect(router).await;
    if cut == Cut::Unwritten {
        net.bed.store.push(InjectedFault::Fails(CommitError::Full));
        peer.send(own.request(verifies).to_message()).await;
        until(|| matches!(net.bed.controller.kernel().health(), Health::Failing(_))).await;
        peer.leave();
        return None;
    }
    peer.send(own.request(verifies).to_message()).await;
    if cut == Cut::Requested {
        // The request has taken effect, and its answer is not read.
        until(|| entity(net, router).unverified_fingerprint.is_some()).await;
        peer.leave();
        return None;
    }
    let pem = answer(&mut peer).await;
    if cut == Cut::Answered {
        peer.leave();
        return None;
    }
    let kept = own.router(router, &pem);
    if cut > Cut::Kept && verifies {
        let confirm = EnrollmentExtendRouterVerifyRequest { client_cert_pem: pem }.to_message();
        if cut == Cut::Confirming {
            peer.send(confirm).await;
        } else {
            let done = peer.ask(confirm).await;
            assert_eq!(ExtendVerifyResult::from_message(&done).unwrap().code, "");
        }
    }
    peer.leave();
    Some(kept)
}

/// The router connects again with the stored certificate, and older ones are refused from then on.
async fn comes_back(net: &Net, router: &TestRouter, kept: Option<TestRouter>, what: &str) {
    // The former certificate is accepted until a newer one was shown.
    net.dial(router).await.unwrap_or_else(|no| panic!("{what}: the old one is refused: {no}"));
    let Some(kept) = kept else { return };
    net.dial(&kept).await.unwrap_or_else(|no| panic!("{what}: the new one is refused: {no}"));
    let print = kept.chain.leaf().fingerprint().to_owned();
    until(|| entity(net, router).fingerprint.as_deref() == Some(&*print)).await;
    assert!(net.dial(router).await.is_err(), "{what}: the old one is taken");
    net.dial(&kept).await.unwrap();
}

#[tokio::test]
async fn a_renewal_cut_anywhere_locks_nobody_out() {
    let net = Net::new().await;
    for verifies in [true, false] {
        for cut in CUTS {
            let what = format!("{cut:?}, verifies: {verifies}");
            let router = net.router(&what).await;
            let own = Renewing::of(&router);
            let kept = renew(&net, &router, &own, verifies, cut).await;
            let is_kept = kept.is_some();
            comes_back(&net, &router, kept, &what).await;
            if !is_kept {
                // The router tries again, and succeeds.
                let kept = renew(&net, &router, &own, verifies, Cut::Never).await;
                comes_back(&net, &router, kept, &what).await;
            }
        }
    }
}

#[tokio::test]
async fn an_answer_that_comes_late_is_as_good_as_the_last_one() {
    let net = Net::new().await;
    let router = net.router("er1").await;
    let own = Renewing::of(&router);
    let mut peer = net.connect(&router).await;
    for _ in 0..3 {
        peer.send(own.request(false).to_message()).await;
    }
    let answers = [answer(&mut peer).await, answer(&mut peer).await, answer(&mut peer).await];
    peer.leave();
    assert_eq!((&answers[0], &answers[1]), (&answers[2], &answers[2]));
    comes_back(&net, &router, Some(own.router(&router, &answers[0])), "the first answer").await;
}

#[tokio::test]
async fn a_connection_with_a_certificate_of_before_renews_nothing() {
    let net = Net::new().await;
    let router = net.router("er1").await;
    let (own, thief) = (Renewing::another(&router), Renewing::another(&router));
    let old = net.connect(&router).await;
    let certificates = vec![router.chain.leaf().clone()];
    let shown = Caller::nobody(Origin { certificates, ..Origin::default() });
    let call = |of: &Renewing| {
        let body = json!({"certCsr": of.csr(), "serverCertCsr": of.csr()});
        to(Api::Client, "extendRouterEnrollment", &[]).with_json(&body)
    };
    let reply = net.bed.controller.call(shown.clone(), call(&own)).await.unwrap().data();
    let kept = own.router(&router, reply["cert"].as_str().unwrap());
    let print = kept.chain.leaf().fingerprint().to_owned();
    let _peer = net.connect(&kept).await;
    until(|| entity(&net, &router).fingerprint.as_deref() == Some(&*print)).await;
    // A thief of the old key gets no certificate with it.
    assert!(net.bed.controller.call(shown, call(&thief)).await.is_err());
    let _ = old.channel.send(thief.request(false).to_message()).await;
    super::support::soon(old.channel.closed()).await;
    let router = entity(&net, &router);
    assert_eq!(
        (router.fingerprint.as_deref(), router.unverified_fingerprint),
        (Some(&*print), None)
    );
}
