//! `POST /enroll/extend/router`: a router shows its certificate and gets new ones
//! (docs/protocol/auth.md 5.3). The old certificate is refused once the router has shown the new
//! one.

use futures::FutureExt as _;
use weft_auth::enroll::issue::{check_enabled, client_leaf, issue, parse_csr};
use weft_auth::{router_certificate, router_certificates};
use weft_contract::resource::enrollment::{EnrollmentCerts, ExtendRouterBody};
use weft_contract::{Api, Verb};
use weft_identity::{Certificate, Purpose, Usage, Verify};
use weft_kernel::call::{Answer, Handler};
use weft_kernel::clock::system_time;
use weft_kernel::{Call, Reply};

use crate::{Caller, Controller, Failure};

/// The operation.
pub(crate) const HANDLERS: &[(Api, &str, Handler<Controller>)] =
    &[(Api::Client, "extendRouterEnrollment", extend)];

/// The leaf certificate that the router shows, if the network issued it. Further certificates of
/// the chain are ignored.
fn shown<'c>(controller: &Controller, caller: &'c Caller) -> Result<&'c Certificate, Failure> {
    let refused = || Failure::unauthorized("the certificate is not one of a router");
    let leaf = caller.leaf().ok_or_else(refused)?;
    let how = Verify { usage: Usage::Client, ..Verify::default() };
    let bundle = controller.keys().bundle.clone();
    bundle.verify_leaf(leaf, how, system_time(controller.now())).map_err(|_| refused())?;
    Ok(leaf)
}

fn extend(controller: Controller, caller: Caller, call: Call) -> Answer {
    async move {
        let body: ExtendRouterBody = call.decode(Verb::Create)?;
        let leaf = shown(&controller, &caller)?;
        let old = leaf.fingerprint().to_owned();
        let refused = || Failure::unauthorized("the certificate is not one of a router");
        let router = controller.router_by_fingerprint(&old).ok_or_else(refused)?;
        check_enabled(&router)?;
        let (id, is_edge) = (router.base.id.clone(), router.is_edge);
        let client = parse_csr(&body.cert_csr.unwrap_or_default())?;
        let server = parse_csr(&body.server_cert_csr.unwrap_or_default())?;
        let now = system_time(controller.now());
        let server =
            router_certificate::leaf(&controller, &server, id.as_str(), Purpose::Server, now)?;
        let client = client_leaf(&controller, &client, &id, is_edge, now)?;
        let _in_work = controller.renewals().begin(&id).await?;
        let given = router_certificates::exchange(&controller, &caller, &id, &old, client).await?;
        let given = given.ok_or_else(refused)?;
        // The control channel of the router stays, also after only the new certificate counts.
        if let Some(live) = controller.network().and_then(|it| it.routers().get(id.as_str()))
            && live.stands_on(&old)
        {
            live.renewed(given.leaf.fingerprint());
        }
        let (_, server_cert) = issue(&controller, &caller, server).await?;
        let cert = given.pem;
        Reply::detail(&EnrollmentCerts { cert, server_cert, ..EnrollmentCerts::default() })
    }
    .boxed()
}
