//! The keys of a controller, and their uses (docs/protocol/auth.md 2.1).

use std::sync::Arc;
use std::time::SystemTime;

use weft_config::controller::EdgeConfig;
use weft_config::{BindPoint, ControllerConfig, WebApi, WebServer};
use weft_controller::Keys;
use weft_identity::{
    Authority, Certificate, Identity, IdentitySection, KeyedChain, SpiffeId, TrustBundle, chain_up,
};

use crate::failure::{Failure, Result};

/// The material of all keys, at one moment.
#[derive(Clone)]
pub(crate) struct Material {
    /// The section `identity`.
    pub(crate) own: Arc<Identity>,
    /// The edge signer, with the authorities above it.
    pub(crate) signer: Arc<Identity>,
    /// Identities of servers that have their own, in the order of the file.
    pub(crate) web: Vec<Arc<Identity>>,
}

/// The edge signer's files as an identity section.
pub(crate) fn signer_section(config: &ControllerConfig) -> Result<IdentitySection> {
    let signing = &edge_of(config)?.enrollment.signing_cert;
    Ok(IdentitySection {
        section: "edge.enrollment.signingCert".to_owned(),
        cert: signing.cert.clone(),
        key: signing.key.clone(),
        ca: signing.ca.clone().unwrap_or_default(),
        ..IdentitySection::default()
    })
}

/// Servers that have their own identity, in the order of the file.
pub(crate) fn with_identity(config: &ControllerConfig) -> impl Iterator<Item = &WebServer> {
    config.web.iter().filter(|server| server.identity.is_some())
}

fn edge_of(config: &ControllerConfig) -> Result<&EdgeConfig> {
    config.edge.as_ref().ok_or_else(|| {
        Failure::new("the section `edge` is missing: a controller without identities is not served")
    })
}

/// The keys of a controller's file.
pub(crate) fn of(config: &ControllerConfig, material: &Material) -> Result<Keys> {
    let (edge, identity) = (edge_of(config)?, &*material.own);
    let session = signing(identity)?;
    let servers = web_identities(config, material);
    let authority = authority(&material.signer)?;
    warn_about_validity(&[session.leaf(), authority.certificate()]);
    let bundle = bundle(material, &servers, &authority);
    Ok(Keys {
        enrollment: enrollment(edge, &servers)?.unwrap_or(session).clone(),
        trust_domain: trust_domain(config, identity, session, &bundle)?.name,
        session: session.clone(),
        authority,
        bundle,
    })
}

/// The certificate and the key with which the controller signs.
fn signing(identity: &Identity) -> Result<&KeyedChain> {
    identity.signing().ok_or_else(|| {
        Failure::new("the section `identity` names no certificate with a key (cert, server_cert)")
    })
}

/// Identities of the servers that serve the client or the management API at a port of this machine.
fn web_identities<'m>(config: &ControllerConfig, material: &'m Material) -> Vec<&'m Identity> {
    let is_edge = |api: &WebApi| matches!(api, WebApi::EdgeClient | WebApi::EdgeManagement);
    let is_underlay = |point: &BindPoint| matches!(point, BindPoint::Underlay { .. });
    let mut own = material.web.iter();
    let mut found = Vec::new();
    for server in &config.web {
        let identity = match &server.identity {
            Some(_) => own.next().unwrap_or(&material.own),
            None => &material.own,
        };
        if server.apis.iter().any(is_edge) && server.bind_points.iter().any(is_underlay) {
            found.push(&**identity);
        }
    }
    found
}

/// The key that signs enrollment tickets, if the file has `edge.api.address`: clients check a ticket
/// with the certificate of the server at the address in the ticket (docs/protocol/auth.md 4.2).
fn enrollment<'a>(edge: &EdgeConfig, servers: &[&'a Identity]) -> Result<Option<&'a KeyedChain>> {
    let Some(address) = &edge.api_address else { return Ok(None) };
    let host = &address.host;
    let now = SystemTime::now();
    let served = || servers.iter().flat_map(|&identity| identity.served(now));
    match served().find(|chain| chain.leaf().covers_host(host)) {
        Some(chain) => Ok(Some(chain)),
        // Clients are shown another certificate, as long as the one that names the host is not valid.
        None if servers.iter().any(|identity| identity.server_for(host).is_some()) => {
            tracing::warn!(
                %address,
                "edge.api.address: the certificate that names its host is not valid now, and is not shown"
            );
            Ok(served().next())
        }
        None => Err(Failure::new(format!(
            "edge.api.address: no server certificate names the host of {address}, so no client \
             could enroll; use a certificate that does, or another address"
        ))),
    }
}

fn authority(signer: &Identity) -> Result<Authority> {
    let chain = signer.client().ok_or_else(|| {
        Failure::from(weft_identity::Error::NoCertificate)
            .during("edge.enrollment.signingCert.cert")
    })?;
    Authority::new(chain.leaf().clone(), chain.key().clone())
        .map_err(|error| Failure::from(error).during("edge.enrollment.signingCert.cert"))
}

/// The bundle that clients and routers are told to trust: the edge signer, and every authority in the
/// `ca` of the edge signer, of the section `identity`, and of these servers.
fn bundle(material: &Material, servers: &[&Identity], authority: &Authority) -> TrustBundle {
    let mut all = vec![authority.certificate().clone()];
    let own = [&*material.signer, &*material.own];
    for identity in own.iter().chain(servers) {
        all.extend_from_slice(identity.ca().certificates());
    }
    all.retain(Certificate::is_ca);
    TrustBundle::new(all)
}

/// The name of a network: its trust domain.
pub(crate) struct NetworkName {
    pub(crate) name: String,
    /// A key of the file, and what its operator should know.
    pub(crate) warning: Option<(&'static str, String)>,
}

/// The name of the network of a controller's file.
pub(crate) fn network_name(config: &ControllerConfig, material: &Material) -> Result<NetworkName> {
    let (session, authority) = (signing(&material.own)?, authority(&material.signer)?);
    let bundle = bundle(material, &web_identities(config, material), &authority);
    trust_domain(config, &material.own, session, &bundle)
}

/// The trust domain, from the first of: the controller's certificate, those above it, the file, the
/// fingerprint of the root (docs/protocol/auth.md 2.3).
fn trust_domain(
    config: &ControllerConfig,
    identity: &Identity,
    session: &KeyedChain,
    bundle: &TrustBundle,
) -> Result<NetworkName> {
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
        let name = id.trust_domain;
        let other = config.trust_domain.as_ref().filter(|own| **own != name);
        let text = |other| format!("`{other}` is not used: certificates say `{name}`");
        let warning = other.map(|other| ("trustDomain", text(other)));
        return Ok(NetworkName { name, warning });
    }
    if let Some(domain) = &config.trust_domain {
        return Ok(NetworkName { name: domain.clone(), warning: None });
    }
    match chain.last().filter(|last| last.is_root()) {
        Some(root) => {
            let text = "neither certificates nor `trustDomain` name the network; the root's \
                        fingerprint is its name";
            let warning = Some(("trustDomain", text.to_owned()));
            Ok(NetworkName { name: root.fingerprint().to_owned(), warning })
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
