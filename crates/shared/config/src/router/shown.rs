//! The server certificate of a router's `identity`, which clients of its listeners are shown.

use super::{IngressKind, Listener, RouterConfig};
use crate::section::Section;
use crate::web::BindPoint;

/// Notes a mistake if clients would be shown the server certificate, and the section has none.
pub(super) fn check(config: &RouterConfig, identity: &Section<'_>) {
    let own = &config.identity;
    let is_there = identity.has("server_cert") && !own.server_cert.trim().is_empty();
    if !identity.is_present() || is_there || !own.alt_server_certs.is_empty() {
        return;
    }
    if let Some(listeners) = listeners(config) {
        let text = format!(
            "missing: clients of `{listeners}` are shown this certificate, and refuse a router without one"
        );
        identity.problem("server_cert", text);
    }
}

/// The first listeners whose clients are shown the certificate.
fn listeners(config: &RouterConfig) -> Option<&'static str> {
    let is_shown = |listener: &Listener| match listener {
        Listener::Edge(_) => true,
        Listener::Ingress(listener) => listener.address.kind == IngressKind::Tls,
        Listener::Tunnel(_) => false,
    };
    let is_own = |server: &crate::web::WebServer| {
        let at_socket = |point: &BindPoint| matches!(point, BindPoint::Underlay { .. });
        server.identity.is_none() && server.bind_points.iter().any(at_socket)
    };
    let proxy = config.edge.as_ref().and_then(|edge| edge.api_proxy.as_ref());
    let all = [
        (config.listeners.iter().any(is_shown), "listeners"),
        (!config.link.listeners.is_empty(), "link.listeners"),
        (!config.ctrl.listeners.is_empty(), "ctrl.listeners"),
        (config.web.iter().any(is_own), "web"),
        (proxy.is_some(), "edge.apiProxy"),
    ];
    all.into_iter().find(|(is_shown, _)| *is_shown).map(|(_, key)| key)
}
