//! First contact with a controller that is not trusted yet.
//!
//! A controller hands out the CA bundle of its network to anybody, over TLS that a stranger cannot
//! verify. Two connections are therefore made. The first trusts any certificate and takes only the
//! leaf that the server proves to hold. Then the leaf has to be confirmed: by the signature of an
//! enrollment token, or by a person who compares its fingerprint. The second connection trusts that
//! leaf alone and fetches the bundle (docs/protocol/auth.md 4.2, 6;
//! docs/protocol/edge-control-plane.md 17.1).

use std::sync::Arc;
use std::time::SystemTime;

use weft_contract::Api;
use weft_contract::paths::CA_CERTIFICATES;
use weft_identity::tls::{ALPN_H2, ALPN_HTTP1, collecting_client_config};
use weft_identity::{Certificate, RequiredKeyUsage, TrustBundle, Verify, read_ca_store};
use weft_proxy::Proxies;

use crate::address::ControllerAddress;
use crate::error::{Error, Result};
use crate::http::{Http, Outgoing, Tls};

/// A controller whose certificate nobody has confirmed yet.
#[derive(Clone, Debug)]
pub struct Stranger {
    /// The leaf certificate that it proved to hold.
    pub leaf: Certificate,
    /// The CA bundle that it hands out, to which the leaf leads.
    pub bundle: TrustBundle,
}

/// Fetches a controller's certificate and bundle, for a person to compare and accept.
///
/// # Errors
/// When the controller cannot be reached, or its certificate does not lead to its bundle.
pub async fn meet(address: &ControllerAddress) -> Result<Stranger> {
    let proxies = Arc::new(Proxies::of_process());
    let chain = presented(address, &proxies).await?;
    let leaf = first(address, &chain)?;
    let path = format!("{}{CA_CERTIFICATES}", Api::Client.base());
    let bundle = bundle_at(address, &path, &leaf, &proxies).await?;
    let ders: Vec<_> = chain.iter().map(|certificate| certificate.der().clone()).collect();
    let how = Verify { usage: RequiredKeyUsage::Server, ..Verify::default() };
    bundle.verify(&ders, how, SystemTime::now())?;
    Ok(Stranger { leaf, bundle })
}

/// The leaf certificate that a controller proves to hold, not verified otherwise.
pub(crate) async fn leaf_of(
    address: &ControllerAddress,
    proxies: &Arc<Proxies>,
) -> Result<Certificate> {
    first(address, &presented(address, proxies).await?)
}

/// The CA bundle at this path, which the holder of this certificate hands out.
pub(crate) async fn bundle_at(
    address: &ControllerAddress,
    path: &str,
    leaf: &Certificate,
    proxies: &Arc<Proxies>,
) -> Result<TrustBundle> {
    let tls = Tls::Anonymous(TrustBundle::new([leaf.clone()]));
    let http = Http::through(&tls, Arc::clone(proxies))?;
    let answer = http.send(&Outgoing::get(address.join(path)?)).await?.accept()?;
    read_bundle(&answer.body)
}

/// A CA bundle in the form that controllers send.
pub(crate) fn read_bundle(body: &[u8]) -> Result<TrustBundle> {
    Ok(TrustBundle::new(read_ca_store(body)?))
}

/// The chain that a controller presents, leaf first.
async fn presented(
    address: &ControllerAddress,
    proxies: &Arc<Proxies>,
) -> Result<Vec<Certificate>> {
    let (config, collected) = collecting_client_config(&[ALPN_H2, ALPN_HTTP1])?;
    let http = Http::with_config(config, Arc::clone(proxies));
    let url = address.at(Api::Client, CA_CERTIFICATES)?;
    // The answer does not matter: only the chain of the TLS handshake is used.
    let asked = http.send(&Outgoing::get(url)).await;
    let chain = collected.chain();
    if chain.is_empty() {
        asked?;
    }
    chain.into_iter().map(|der| Ok(Certificate::from_der(der)?)).collect()
}

fn first(address: &ControllerAddress, chain: &[Certificate]) -> Result<Certificate> {
    chain.first().cloned().ok_or_else(|| Error::Connection {
        action: "learn the certificate of",
        url: address.to_string(),
        source: std::io::Error::other("it presented none"),
        timeout: false,
    })
}
