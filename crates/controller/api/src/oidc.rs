//! The OIDC provider at a server: its issuers and redirect URIs, and requests as the provider takes them
//! (docs/protocol/auth.md 15).

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN,
    USER_AGENT,
};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use parking_lot::Mutex;
use weft_auth::oidc::{Door, OidcReply, OidcRequest};
use weft_config::web::{AllowedOrigins, OidcOptions};
use weft_config::{BindPoint, WebApi, WebServer};
use weft_contract::headers;
use weft_controller::Caller;
use weft_identity::{Identity, LiveIdentity, San};
use weft_oidc::client::{UriSources, Uris};
use weft_oidc::issuer::{Issuers, Listener};

use crate::answer::BufferedResponse;

/// Headers `Cookie` that are looked at.
const MAX_COOKIES: usize = 8;

/// The provider's view of a server. It follows the server's certificates.
#[derive(Debug)]
pub(crate) struct Doorway {
    identity: Arc<LiveIdentity>,
    /// The addresses that clients are told.
    addresses: Vec<String>,
    options: OidcOptions,
    /// Addresses of other servers that serve a console.
    consoles: Vec<String>,
    has_console: bool,
    origins: Vec<String>,
    /// The port of the socket, for addresses that leave it to the system.
    port: OnceLock<u16>,
    known: Mutex<Option<(Arc<Identity>, Arc<Door>)>>,
}

impl Doorway {
    /// The provider at one of these servers; none if it does not serve the provider.
    pub(crate) fn of(
        server: &WebServer,
        all: &[WebServer],
        identity: &Arc<LiveIdentity>,
    ) -> Option<Arc<Self>> {
        let options = server.apis.iter().find_map(|api| match api {
            WebApi::EdgeOidc(options) => Some(options.clone()),
            _ => None,
        })?;
        let others = all.iter().filter(|other| other.name != server.name && has_console(other));
        let origins = match &server.options.allowed_origins {
            AllowedOrigins::Named(origins) => origins.clone(),
            AllowedOrigins::Any => Vec::new(),
        };
        Some(Arc::new(Self {
            identity: Arc::clone(identity),
            addresses: addresses(server).collect(),
            options,
            consoles: others.flat_map(addresses).collect(),
            has_console: has_console(server),
            origins,
            port: OnceLock::new(),
            known: Mutex::default(),
        }))
    }

    /// Notes the port of the socket.
    pub(crate) fn listens_at(&self, port: u16) {
        let _ = self.port.set(port);
    }

    /// The issuers and URIs by the certificates that are in use.
    fn door(&self) -> Arc<Door> {
        let current = self.identity.current();
        let mut known = self.known.lock();
        if let Some((of, door)) = &*known
            && Arc::ptr_eq(of, &current)
        {
            return Arc::clone(door);
        }
        let door = Arc::new(self.make(&current));
        *known = Some((current, Arc::clone(&door)));
        door
    }

    fn make(&self, identity: &Identity) -> Door {
        let sans: Vec<&San> =
            identity.served(SystemTime::now()).flat_map(|chain| chain.leaf().sans()).collect();
        let names: Vec<String> = sans.iter().filter_map(|san| dns_of(san)).collect();
        let ips: Vec<IpAddr> = sans.iter().filter_map(|san| ip_of(san)).collect();
        let addresses: Vec<String> = self.addresses.iter().map(|it| self.with_port(it)).collect();
        let issuers = Issuers::new(&Listener {
            addresses: &addresses,
            names: &names,
            ips: &ips,
            allowed_hostnames: &self.options.allowed_hostnames,
        });
        let own = issuers.hosts().filter(|_| self.has_console).map(ToString::to_string);
        let consoles: Vec<String> = own.chain(self.consoles.iter().cloned()).collect();
        let sources =
            |configured| UriSources { configured, consoles: &consoles, origins: &self.origins };
        let (logins, refused) = Uris::of_logins(&sources(&self.options.redirect_uris));
        let (logouts, others) = Uris::of_logouts(&sources(&self.options.post_logout_uris));
        for (uri, reason) in refused.into_iter().chain(others) {
            tracing::warn!(uri, %reason, "no login or logout may end at this URI of `edge-oidc`, which is left out");
        }
        Door { issuers, logins, logouts, origins: self.origins.clone() }
    }

    /// An address with the port of the socket, if it leaves the port to the system.
    fn with_port(&self, address: &str) -> String {
        match (address.strip_suffix(":0"), self.port.get()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            _ => address.to_owned(),
        }
    }

    /// A request as the provider takes it; `path` is below `/oidc`.
    pub(crate) fn request(
        &self,
        head: &Parts,
        path: &str,
        body: Bytes,
        caller: Caller,
    ) -> OidcRequest {
        let own = &head.headers;
        let many = |name: HeaderName, most: usize| {
            let values = own.get_all(name).iter().take(most);
            values.filter_map(|value| value.to_str().ok().map(str::to_owned)).collect()
        };
        // HTTP/2 has the host in its request line.
        let host = head.uri.authority().map(|authority| authority.as_str().to_owned());
        OidcRequest {
            method: head.method.as_str().to_owned(),
            path: path.to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            host: host.or_else(|| text(own, &HOST)).unwrap_or_default(),
            content_type: text(own, &CONTENT_TYPE),
            accept: text(own, &ACCEPT),
            authorizations: many(AUTHORIZATION, headers::MAX_BEARERS),
            user_agent: text(own, &USER_AGENT),
            cookies: many(COOKIE, MAX_COOKIES),
            origin: text(own, &ORIGIN),
            fetch_site: text(own, &HeaderName::from_static("sec-fetch-site")),
            body,
            caller,
            door: self.door(),
        }
    }
}

/// The reply of the provider as an answer.
pub(crate) fn answer(reply: OidcReply) -> BufferedResponse {
    let mut answer = Response::new(Full::new(Bytes::from(reply.body)));
    *answer.status_mut() =
        StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in reply.headers {
        match HeaderValue::from_str(&value) {
            Ok(value) => _ = answer.headers_mut().append(HeaderName::from_static(name), value),
            Err(error) => tracing::debug!(name, %error, "a header of the provider is left out"),
        }
    }
    answer
}

fn text(own: &HeaderMap, name: &HeaderName) -> Option<String> {
    own.get(name)?.to_str().ok().map(str::to_owned)
}

fn has_console(server: &WebServer) -> bool {
    server.apis.iter().any(|api| matches!(api, WebApi::Files(_)))
}

fn addresses(server: &WebServer) -> impl Iterator<Item = String> {
    server.bind_points.iter().filter_map(|point| match point {
        BindPoint::Underlay { address, .. } => Some(address.to_string()),
        _ => None,
    })
}

fn dns_of(san: &San) -> Option<String> {
    match san {
        San::Dns(name) => Some(name.clone()),
        _ => None,
    }
}

fn ip_of(san: &San) -> Option<IpAddr> {
    match san {
        San::Ip(ip) => Some(*ip),
        _ => None,
    }
}
