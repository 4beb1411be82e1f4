//! Which of a controller's keys does what (protocol: auth 2.1).

use std::time::SystemTime;

use weft_config::{BindPoint, ControllerConfig, WebApi, controller::EdgeConfig};
use weft_controller::Keys;
use weft_identity::{
    Authority, Certificate, Identity, KeyedChain, Location, PrivateKey, SpiffeId, TrustBundle,
    chain_up,
};

use super::identity_section;
use crate::failure::Failure;

/// The keys of a controller's file.
pub(crate) fn of(config: &ControllerConfig, identity: &Identity) -> Result<Keys, Failure> {
    let edge = config.edge.as_ref().ok_or_else(|| {
        Failure::new("the section `edge` is missing: a controller without identities is not served")
    })?;
    let session = identity.signing().ok_or_else(|| {
        Failure::new("the section `identity` names no certificate with a key (cert, server_cert)")
    })?;
    let servers = web_identities(config, identity)?;
    let authority = authority(edge)?;
    warn_about_validity(&[session.leaf(), authority.certificate()]);
    let bundle = bundle(edge, identity, &servers, &authority)?;
    Ok(Keys {
        enrollment: enrollment(edge, &servers)?.unwrap_or(session).clone(),
        trust_domain: trust_domain(config, identity, session, &bundle)?,
        session: session.clone(),
        authority,
        bundle,
    })
}

/// Identities of the servers with the client API, each with the names of its bind points' hosts.
fn web_identities(config: &ControllerConfig, own: &Identity) -> Result<Vec<Identity>, Failure> {
    let is_edge = |api: &WebApi| matches!(api, WebApi::EdgeClient | WebApi::EdgeManagement);
    let mut found = Vec::new();
    for server in config.web.iter().filter(|server| server.apis.iter().any(is_edge)) {
        let is_underlay = |point: &BindPoint| matches!(point, BindPoint::Underlay { .. });
        if !server.bind_points.iter().any(is_underlay) {
            continue;
        }
        found.push(match &server.identity {
            Some(section) => Identity::load(&identity_section(section))?,
            None => own.clone(),
        });
    }
    Ok(found)
}

/// Enrolling clients check a ticket with the certificate they meet at the address in it
/// (protocol: auth 4.2).
fn enrollment<'a>(
    edge: &EdgeConfig,
    servers: &'a [Identity],
) -> Result<Option<&'a KeyedChain>, Failure> {
    let Some(address) = &edge.api_address else { return Ok(None) };
    let named = servers.iter().find_map(|identity| identity.server_for(&address.host));
    match named {
        Some(chain) => Ok(Some(chain)),
        None => Err(Failure::new(format!(
            "edge.api.address: no server certificate names the host of {address}, so no client \
             could enroll; use a certificate that does, or another address"
        ))),
    }
}

fn authority(edge: &EdgeConfig) -> Result<Authority, Failure> {
    let signing = &edge.enrollment.signing_cert;
    let of = |key: &str, error: weft_identity::Error| {
        Failure::from(error).during(format!("edge.enrollment.signingCert.{key}"))
    };
    let certificate = certificates(&signing.cert).map_err(|error| of("cert", error))?;
    let certificate = certificate
        .into_iter()
        .next()
        .ok_or_else(|| of("cert", weft_identity::Error::NoCertificate))?;
    let key = Location::parse(&signing.key)
        .and_then(|location| PrivateKey::from_pem(&location.read()?))
        .map_err(|error| of("key", error))?;
    Authority::new(certificate, key).map_err(|error| of("cert", error))
}

/// What clients and routers are told to trust: every authority that this controller's own
/// certificates lead to.
fn bundle(
    edge: &EdgeConfig,
    identity: &Identity,
    servers: &[Identity],
    authority: &Authority,
) -> Result<TrustBundle, Failure> {
    let mut all = vec![authority.certificate().clone()];
    if let Some(above) = &edge.enrollment.signing_cert.ca {
        all.extend(
            certificates(above)
                .map_err(|error| Failure::from(error).during("edge.enrollment.signingCert.ca"))?,
        );
    }
    for identity in std::iter::once(identity).chain(servers) {
        all.extend_from_slice(identity.ca().certificates());
    }
    all.retain(Certificate::is_ca);
    Ok(TrustBundle::new(all))
}

/// Where the name of the network is found, in this order: the certificate of the controller, those
/// above it, the file, the fingerprint of the root (protocol: auth 2.3).
fn trust_domain(
    config: &ControllerConfig,
    identity: &Identity,
    session: &KeyedChain,
    bundle: &TrustBundle,
) -> Result<String, Failure> {
    let leaf = session.leaf();
    let mut above = session.chain().to_vec();
    above.extend_from_slice(identity.ca().certificates());
    above.extend_from_slice(bundle.certificates());
    let chain = chain_up(leaf, &above);
    for certificate in &chain {
        let mut uris = certificate.spiffe_uris();
        let Some(uri) = uris.next() else { continue };
        if uris.next().is_some() {
            return Err(Failure::new(format!(
                "the certificate `{}` has several URIs that begin with spiffe://; one is allowed",
                certificate.subject()
            )));
        }
        let id: SpiffeId = uri.parse()?;
        if let Some(other) = config.trust_domain.as_ref().filter(|own| **own != id.trust_domain) {
            tracing::warn!(
                "trustDomain `{other}` is not used: certificates say `{}`",
                id.trust_domain
            );
        }
        return Ok(id.trust_domain);
    }
    if let Some(domain) = &config.trust_domain {
        return Ok(domain.clone());
    }
    match chain.last().filter(|last| last.is_root()) {
        Some(root) => {
            tracing::warn!(
                "neither certificates nor `trustDomain` name the network; the root's fingerprint \
                 is its name"
            );
            Ok(root.fingerprint().to_owned())
        }
        None => Err(Failure::new(
            "error generating default trust domain from root CA: the identity's certificate does \
             not lead to a root in `identity.ca`; set `trustDomain`",
        )),
    }
}

fn warn_about_validity(certificates: &[&Certificate]) {
    let now = SystemTime::now();
    for certificate in certificates.iter().filter(|certificate| !certificate.is_valid_at(now)) {
        tracing::warn!(subject = certificate.subject(), "the certificate is not valid now");
    }
}

fn certificates(location: &str) -> weft_identity::Result<Vec<Certificate>> {
    Certificate::from_pem(&Location::parse(location)?.read()?)
}
