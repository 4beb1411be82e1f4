//! Which program of the network a server is.
//!
//! A chain and the name of a host do not tell: every router has a certificate of the network, and may have one for any
//! host that is not a controller's. A router on the way, or at the address of another one, would pass. Clients therefore
//! check who the certificate was issued to.

use std::fmt;
use std::sync::Arc;

use rustls_pki_types::CertificateDer;

use crate::certificate::Certificate;
use crate::identity::{Identity, KeyedChain};
use crate::spiffe::{SpiffeId, SpiffeSubject};

/// Most keys of a router that are compared; what exceeds them is left out.
pub const MAX_ROUTER_KEYS: usize = 16;

/// The router that a client means to reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedRouter {
    id: String,
    /// The [prints](crate::PublicKey::print) of its keys.
    keys: Arc<[String]>,
    /// The trust domain of the network, if it is known.
    domain: Option<String>,
}

/// What proves that a server is the expected router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterProof {
    /// The controller names the key of its certificate.
    Key,
    /// The SPIFFE id of its certificate, which controllers of weft set.
    SpiffeId,
    /// The common name of its certificate, which is the id of a router. The original lets routers choose the other
    /// names.
    CommonName,
}

/// Why a server is not the expected router.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotTheRouter {
    /// The server shows no certificate that can be read.
    #[error("the server shows no certificate that can be read")]
    NoCertificate,
    /// Its certificate was issued to somebody else.
    #[error("router {meant} was dialed, but the certificate there is of {found}")]
    Other {
        /// The id of the router.
        meant: String,
        /// The subject of the certificate.
        found: String,
    },
    /// Its key is not one that the controller names.
    #[error(
        "router {meant} was dialed, but the controller does not know the key of the certificate there, which is of \
         {found}; a router of OpenZiti must have one key for clients and servers (`identity.server_key` and \
         `alt_server_certs` name others)"
    )]
    UnknownKey {
        /// The id of the router.
        meant: String,
        /// The subject of the certificate.
        found: String,
    },
}

impl ExpectedRouter {
    /// The router with this id, and the [prints](crate::PublicKey::print) of its keys if a controller names them.
    #[must_use]
    pub fn new(id: impl Into<String>, keys: impl IntoIterator<Item = String>) -> Self {
        Self { id: id.into(), keys: keys.into_iter().take(MAX_ROUTER_KEYS).collect(), domain: None }
    }

    /// The router, with the trust domain of the client's own certificate, if that names one.
    #[must_use]
    pub fn in_domain_of(self, own: &Identity) -> Self {
        let own = own.client().map(KeyedChain::leaf);
        let id = own.and_then(|own| own.spiffe_uris().find_map(|uri| uri.parse::<SpiffeId>().ok()));
        Self { domain: id.map(|id| id.trust_domain), ..self }
    }

    /// The id of the router.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Checks whether a chain, which is trusted and of the dialed host, is that of the router. If the controller names
    /// keys of the router, its leaf must have one of them. Otherwise its SPIFFE id counts, and without one its common
    /// name.
    ///
    /// # Errors
    /// The reason why it is not.
    pub fn prove(&self, chain: &[CertificateDer<'_>]) -> Result<RouterProof, NotTheRouter> {
        let leaf = chain.first().ok_or(NotTheRouter::NoCertificate)?;
        let leaf = Certificate::from_der(leaf.clone().into_owned())
            .map_err(|_| NotTheRouter::NoCertificate)?;
        let (meant, found) = (self.id.clone(), ShownSubject(&leaf).to_string());
        if !self.keys.is_empty() {
            let print = leaf.public_key().map(crate::PublicKey::print).unwrap_or_default();
            return match self.keys.contains(&print) {
                true => Ok(RouterProof::Key),
                false => Err(NotTheRouter::UnknownKey { meant, found }),
            };
        }
        let ids: Vec<SpiffeId> = leaf.spiffe_uris().filter_map(|uri| uri.parse().ok()).collect();
        // Ids of another form, as other programs give them, say nothing about programs of the network.
        let is_of_network = |id: &SpiffeId| !matches!(id.subject, SpiffeSubject::Other(_));
        let (proof, is_meant) = match ids.iter().any(is_of_network) {
            true => (RouterProof::SpiffeId, ids.iter().all(|id| self.is_named_by(id))),
            false => (RouterProof::CommonName, leaf.common_name() == Some(&*self.id)),
        };
        is_meant.then_some(proof).ok_or(NotTheRouter::Other { meant, found })
    }

    /// Whether a SPIFFE id is the router's.
    fn is_named_by(&self, id: &SpiffeId) -> bool {
        let is_here = self.domain.as_ref().is_none_or(|domain| *domain == id.trust_domain);
        is_here && matches!(&id.subject, SpiffeSubject::Router(id) if *id == self.id)
    }
}

/// The subject of a certificate in words.
struct ShownSubject<'a>(&'a Certificate);

impl fmt::Display for ShownSubject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.spiffe_uris().next(), self.0.common_name()) {
            (Some(uri), _) => f.write_str(uri),
            (None, Some(name)) => write!(f, "{name:?}"),
            (None, None) => f.write_str("nobody by name"),
        }
    }
}

/// The router or identity that a certificate was issued to, if it names one: its server is no controller.
pub(crate) fn other_than_controller(leaf: &Certificate) -> Option<SpiffeId> {
    let named = leaf.spiffe_uris().filter_map(|uri| uri.parse::<SpiffeId>().ok());
    let mut others = named.filter(|id| {
        matches!(
            id.subject,
            SpiffeSubject::Router(_)
                | SpiffeSubject::Identity(_)
                | SpiffeSubject::ApiSession { .. }
        )
    });
    others.next()
}
