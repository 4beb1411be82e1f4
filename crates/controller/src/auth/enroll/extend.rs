//! `POST /enroll/extend/router`: a router gets new certificates for those it shows (protocol:
//! auth 5.3). The old one is refused from then on.

use futures::FutureExt as _;
use weft_contract::resource::enrollment::{EnrollmentCerts, ExtendRouterBody};
use weft_contract::{Api, Verb};
use weft_identity::{Certificate, Leaf, Purpose, Usage, Verify};
use weft_model::entity::Router;

use super::{client_leaf, issue, parse_csr};
use crate::clock::system_time;
use crate::domain::call::{Answer, Call, Handler, Reply};
use crate::{Caller, Controller, Failure};

/// The operation.
pub(crate) const HANDLERS: &[(Api, &str, Handler)] =
    &[(Api::Client, "extendRouterEnrollment", extend)];

/// The leaf that the router shows, if the network issued it. Nothing but the leaf says who it is.
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
        let snapshot = controller.snapshot();
        let router = snapshot.by_unique::<Router>(Router::FINGERPRINT, &old);
        let refused = || Failure::unauthorized("the certificate is not one of a router");
        let router = router.ok_or_else(refused)?;
        let (id, is_edge) = (router.base.id.clone(), router.is_edge);
        let client = parse_csr(&body.cert_csr.unwrap_or_default())?;
        let server = parse_csr(&body.server_cert_csr.unwrap_or_default())?;
        let now = system_time(controller.now());
        let leaf = client_leaf(&client, &id, is_edge, now)?;
        let (issued, cert) = issue(&controller, &leaf)?;
        let (_, server_cert) =
            issue(&controller, &Leaf::for_router(&server, Purpose::Server, now))?;
        // Its connection goes on.
        if let Some(live) = controller.network().and_then(|it| it.routers().get(id.as_str()))
            && live.stands_on(&old)
        {
            live.renewed(issued.fingerprint());
        }
        let (fingerprint, kept) = (issued.fingerprint().to_owned(), cert.clone());
        controller
            .decide(&caller, move |decision| {
                let router = decision.tip().get::<Router>(&id);
                let router = router.filter(|it| it.fingerprint.as_deref() == Some(old.as_str()));
                let mut router = (**router.ok_or_else(refused)?).clone();
                router.fingerprint = Some(fingerprint.as_str().into());
                router.cert_pem.clone_from(&kept);
                router.unverified_fingerprint = None;
                router.unverified_cert_pem.clear();
                router.base.updated_at = decision.now();
                decision.put(router);
                Ok(())
            })
            .await?;
        Reply::detail(&EnrollmentCerts { cert, server_cert, ..EnrollmentCerts::default() })
    }
    .boxed()
}
