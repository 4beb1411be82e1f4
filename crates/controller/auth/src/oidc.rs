//! The OIDC provider: its endpoints as functions of a request (docs/protocol/auth.md 15).
//!
//! `weft_oidc` decides everything about the protocol; this module verifies factors, keeps sessions and signs tokens. HTTP
//! stands outside: a request comes as an [`OidcRequest`] and leaves as an [`OidcReply`].
//!
//! - `route`: which endpoint answers; `reply`: forms of answers;
//! - `unfinished`: logins that are not finished;
//! - `begin`: the beginning and the callback of a login; `factors`: its steps; `codes`: one-time codes in it;
//! - `pages`: the same for browsers; `device`: logins for devices without a browser;
//! - `grant`: the session and the first tokens of a login; `tokens`: the token endpoint; `ends`: revocation and logout.

mod begin;
mod codes;
mod device;
mod ends;
mod factors;
mod grant;
mod pages;
mod reply;
mod route;
mod tokens;
pub(crate) mod unfinished;

use std::sync::Arc;

use bytes::Bytes;
pub use reply::OidcReply;
use unfinished::LoginFacts;
use weft_kernel::Caller;
use weft_oidc::browser;
use weft_oidc::client::Uris;
use weft_oidc::issuer::{Issuer, Issuers};
use weft_oidc::login::Visitor;
use weft_oidc::login_form::ResponseFormat;

/// Longest parameter that a page repeats, in bytes: a token.
const MAX_REPEATED: usize = weft_oidc::token_request::MAX_TOKEN;

/// What the provider knows of the server that a request came to.
#[derive(Debug, Default)]
pub struct Door {
    /// The issuers of the server.
    pub issuers: Issuers,
    /// The URIs at which logins may end.
    pub logins: Uris,
    /// The URIs to which a browser may be sent after the end of a session.
    pub logouts: Uris,
    /// Origins whose pages may use the provider, beside the provider's own.
    pub origins: Vec<String>,
}

/// A request to an endpoint.
#[derive(Debug)]
pub struct OidcRequest {
    /// The HTTP method.
    pub method: String,
    /// The path below `/oidc`, such as `/oauth/token`.
    pub path: String,
    /// The query, without `?`.
    pub query: String,
    /// The host that the client asked for, with the port if it named one.
    pub host: String,
    /// The header `Content-Type`.
    pub content_type: Option<String>,
    /// The header `Accept`.
    pub accept: Option<String>,
    /// The headers `Authorization`, at most three.
    pub authorizations: Vec<String>,
    /// The header `User-Agent`.
    pub user_agent: Option<String>,
    /// The headers `Cookie`.
    pub cookies: Vec<String>,
    /// The header `Origin`.
    pub origin: Option<String>,
    /// The header `Sec-Fetch-Site`.
    pub fetch_site: Option<String>,
    /// The body.
    pub body: Bytes,
    /// The source of the request. No session counts here.
    pub caller: Caller,
    /// The server.
    pub door: Arc<Door>,
}

impl OidcRequest {
    /// The issuer that the request is for.
    fn issuer(&self) -> Option<&Issuer> {
        self.door.issuers.find(&self.host)
    }

    /// The form in which the answer to a step of a login is wanted; none if the client takes neither.
    fn answer(&self) -> Option<ResponseFormat> {
        ResponseFormat::wanted(self.accept.as_deref())
    }

    /// The secret of the browser that sends the request.
    fn browser(&self) -> Option<&str> {
        browser::secret_of(self.cookies.iter().map(String::as_str))
    }

    /// How the request talks to a login.
    fn visitor(&self) -> Visitor {
        match self.answer() {
            Some(ResponseFormat::Page) => browser::visitor(self.browser()),
            _ => Visitor::Json,
        }
    }

    /// Whether a page of another site sent the request.
    fn is_foreign(&self) -> bool {
        let own = self.issuer().map(Issuer::origin).unwrap_or_default();
        let (origin, site) = (self.origin.as_deref(), self.fetch_site.as_deref());
        browser::is_foreign(origin, site, own, &self.door.origins)
    }

    /// The bearer tokens.
    fn bearers(&self) -> impl Iterator<Item = &str> {
        self.authorizations.iter().filter_map(|value| weft_contract::headers::bearer(value))
    }
}
