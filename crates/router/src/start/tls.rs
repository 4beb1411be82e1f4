//! TLS of the edge listeners, and the names that their certificates need.

use std::sync::Arc;

use weft_channel::TlsSource;
use weft_config::RouterConfig;
use weft_identity::tls::{ClientAuth, ServerTls, server_config};
use weft_identity::{Identity, LiveIdentity};

use super::error::StartError;
use crate::access::AccessHalf;

/// Checks that a certificate which clients of an edge listener are shown has the advertised host: the
/// router's certificate, or for WebSockets that of browsers.
///
/// # Errors
/// When no certificate has the host.
pub fn check_advertised(
    own: &Identity,
    outer: Option<&Identity>,
    host: &str,
) -> Result<(), weft_identity::Error> {
    match (own.check_host(host), outer) {
        (Err(_), Some(outer)) => outer.check_host(host),
        (checked, _) => checked,
    }
}

/// TLS for SDKs: they have to show a certificate that leads to an authority of the data model.
/// Whether it is the certificate of the session is checked later.
pub(super) fn edge_tls(
    identity: &Arc<LiveIdentity>,
    access: &AccessHalf,
) -> Result<TlsSource, StartError> {
    let access = access.clone();
    let judge = move |chain: &[rustls_pki_types::CertificateDer<'_>]| access.admits_chain(chain);
    let tls = ServerTls { alpn: &[], client_auth: ClientAuth::Judge(Arc::new(judge)) };
    let config = Arc::new(server_config(identity, &tls).map_err(StartError::Tls)?);
    Ok(Arc::new(move || Some(config.clone())))
}

/// TLS for browsers: no client certificate is asked for, and the server's certificate may be one that
/// browsers trust (`transport.wss.identity`).
pub(super) struct WebSocketTls {
    pub(super) identity: Arc<LiveIdentity>,
    pub(super) tls: TlsSource,
}

impl WebSocketTls {
    pub(super) fn new(
        config: &RouterConfig,
        identity: &Arc<LiveIdentity>,
    ) -> Result<Self, StartError> {
        let identity = match &config.transport.wss.identity {
            Some(section) => LiveIdentity::load(section.clone()).map_err(StartError::Tls)?,
            None => identity.clone(),
        };
        let tls = ServerTls { alpn: &[], client_auth: ClientAuth::None };
        let config = Arc::new(server_config(&identity, &tls).map_err(StartError::Tls)?);
        Ok(Self { identity, tls: Arc::new(move || Some(config.clone())) })
    }
}
