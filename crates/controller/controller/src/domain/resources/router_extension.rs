//! `POST /enroll/extend/router`: a router shows its certificate and gets new ones
//! (docs/protocol/auth.md 5.3). The old certificate is refused once the router has shown the new
//! one; if that is for another key, at once.

use weft_auth::enroll::issue::{check_enabled, client_leaf, issue, parse_csr};
use weft_auth::router_certificate;
use weft_auth::router_certificates::{self, CertificateExchange};
use weft_contract::resource::enrollment::{EnrollmentCerts, ExtendRouterBody};
use weft_contract::{Api, Verb};
use weft_identity::{Certificate, KeyPurpose, RequiredKeyUsage, Verify};
use weft_kernel::call::HandlerRow;
use weft_kernel::clock::system_time;
use weft_kernel::{Call, Reply, Result};

use crate::{Caller, Controller, Failure};

/// The operation.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] =
    &[(Api::Client, "extendRouterEnrollment", &extend)];

/// The leaf certificate that the router shows, if the network issued it. Further certificates of
/// the chain are ignored.
fn shown<'c>(controller: &Controller, caller: &'c Caller) -> Result<&'c Certificate> {
    let refused = || Failure::unauthorized("the certificate is not one of a router");
    let leaf = caller.leaf().ok_or_else(refused)?;
    let how = Verify { usage: RequiredKeyUsage::Client, ..Verify::default() };
    let bundle = controller.auth().keys().bundle.clone();
    bundle.verify_leaf(leaf, how, system_time(controller.kernel().now())).map_err(|_| refused())?;
    Ok(leaf)
}

async fn extend(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let body: ExtendRouterBody = call.decode(Verb::Create)?;
    let leaf = shown(&controller, &caller)?;
    let old = leaf.fingerprint().to_owned();
    let refused = || Failure::unauthorized("the certificate is not one of a router");
    let client = parse_csr(&body.cert_csr.unwrap_or_default())?;
    let server = parse_csr(&body.server_cert_csr.unwrap_or_default())?;
    let router = controller.kernel().router_by_fingerprint(&old).or_else(|| {
        let key = client.public_key();
        router_certificates::router_with_key(&controller.kernel().snapshot(), leaf, key)
    });
    let router = router.ok_or_else(refused)?;
    check_enabled(&router)?;
    let (id, is_edge) = (router.base.id.clone(), router.is_edge);
    let now = system_time(controller.kernel().now());
    let server =
        router_certificate::leaf(controller.auth(), &server, id.as_str(), KeyPurpose::Server, now)?;
    let wanted = client_leaf(controller.auth(), &client, &id, is_edge, now)?;
    let _in_work = controller.auth().renewals().begin(&id).await?;
    router_certificates::check_way_back(controller.auth(), &id)?;
    // First, because the exchange may be the end of the old certificate.
    let (_, server_cert) = issue(controller.auth(), &caller, server).await?;
    let exchange = CertificateExchange { id: &id, shown: &old, wanted, is_confirmed: false };
    // The control channel of the router stays, also after only the new certificate counts.
    let rely = |new: &str| {
        let live = controller.network().and_then(|it| it.routers().get(id.as_str()));
        live.filter(|live| live.stands_on(&old)).into_iter().for_each(|live| live.renewed(new));
    };
    let given = router_certificates::exchange(controller.auth(), &caller, exchange, rely).await?;
    let given = given.ok_or_else(refused)?;
    let cert = given.pem;
    Reply::detail(&EnrollmentCerts { cert, server_cert, ..EnrollmentCerts::default() })
}
