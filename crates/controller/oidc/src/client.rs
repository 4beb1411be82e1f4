//! The clients of the provider, and the URIs at which their logins and logouts may end (docs/protocol/auth.md 15.2).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::params::Params;
use crate::problem::{OidcError, OidcErrorCode};
use crate::uris::{NoUri, Uri, UriPattern};

/// Longest id of a client, in bytes.
pub const MAX_CLIENT: usize = 64;

/// Where the logins of programs on the same machine end.
const LOGIN: [&str; 7] = [
    "openziti://auth/callback",
    "http://127.0.0.1:*/auth/callback",
    "https://127.0.0.1:*/auth/callback",
    "http://localhost:*/auth/callback",
    "https://localhost:*/auth/callback",
    "http://[::1]:*/auth/callback",
    "https://[::1]:*/auth/callback",
];

/// Where their logouts end.
const LOGOUT: [&str; 7] = [
    "openziti://auth/logout",
    "http://127.0.0.1:*/auth/logout",
    "https://127.0.0.1:*/auth/logout",
    "http://localhost:*/auth/logout",
    "https://localhost:*/auth/logout",
    "http://[::1]:*/auth/logout",
    "https://[::1]:*/auth/logout",
];

/// A client. Both are public: they have no secret, and PKCE instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Client {
    /// `openziti`: the C SDK, the console.
    #[serde(rename = "openziti")]
    OpenZiti,
    /// `native`: the Go SDK.
    #[serde(rename = "native")]
    Native,
}

impl Client {
    /// The client with an id.
    #[must_use]
    pub fn find(id: &str) -> Option<Self> {
        [Self::OpenZiti, Self::Native].into_iter().find(|client| client.id() == id)
    }

    /// Its id, the audience of its tokens.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::OpenZiti => "openziti",
            Self::Native => "native",
        }
    }

    /// The client that `client_id` names.
    pub(crate) fn of(params: &Params<'_>) -> Result<Self, OidcError> {
        let id = params.required("client_id", MAX_CLIENT)?;
        Self::find(id).ok_or_else(unknown)
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// Nobody knows the client.
pub(crate) fn unknown() -> OidcError {
    OidcError::new(OidcErrorCode::InvalidClient, "client not found")
}

/// URIs that both clients may name.
#[derive(Debug, Clone, Default)]
pub struct Uris(Vec<UriPattern>);

/// What the URIs of a controller follow from.
#[derive(Debug, Clone, Copy, Default)]
pub struct UriSources<'a> {
    /// `redirectURIs` or `postLogoutURIs` of the API and of the settings of the controller. Empty: those of programs on
    /// the same machine.
    pub configured: &'a [String],
    /// The hosts of each server that serves a console, with their ports.
    pub consoles: &'a [String],
    /// The exact entries of `allowedOrigins`. A `*` is none.
    pub origins: &'a [String],
}

impl Uris {
    /// Where logins may end. Beside it: what of the sources is no URI that a login may end at, for the log.
    #[must_use]
    pub fn of_logins(sources: &UriSources<'_>) -> (Self, Vec<(String, NoUri)>) {
        Self::of(sources, &LOGIN, "/auth/callback")
    }

    /// Where logouts may end. Beside it: what of the sources is none.
    #[must_use]
    pub fn of_logouts(sources: &UriSources<'_>) -> (Self, Vec<(String, NoUri)>) {
        Self::of(sources, &LOGOUT, "/auth/logout")
    }

    fn of(sources: &UriSources<'_>, builtin: &[&str], path: &str) -> (Self, Vec<(String, NoUri)>) {
        let mut texts: Vec<String> = sources.configured.to_vec();
        if texts.is_empty() {
            texts.extend(builtin.iter().map(|text| (*text).to_owned()));
        }
        texts.extend(sources.consoles.iter().map(|host| format!("https://{host}{path}")));
        // A star in an origin or a host would be one in the pattern.
        let exact = sources.origins.iter().filter(|origin| !origin.contains('*'));
        texts.extend(exact.map(|origin| format!("{}{path}", origin.trim_end_matches('/'))));
        let (mut patterns, mut refused) = (Vec::new(), Vec::new());
        for text in texts {
            match UriPattern::parse(&text) {
                Ok(pattern) => patterns.push(pattern),
                Err(reason) => refused.push((text, reason)),
            }
        }
        (Self(patterns), refused)
    }

    /// The URI of a request, if it is one of these.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<Uri> {
        let uri = Uri::parse(text).ok()?;
        uri.matches_any(&self.0).then_some(uri)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn there_are_two_clients() {
        assert_eq!(Client::find("openziti"), Some(Client::OpenZiti));
        assert_eq!(Client::find("native"), Some(Client::Native));
        for id in ["", "OpenZiti", "native ", "other"] {
            assert_eq!(Client::find(id), None);
        }
        assert_eq!(serde_json::to_string(&Client::Native).unwrap(), "\"native\"");
    }

    #[test]
    fn logins_end_at_programs_consoles_and_named_origins() {
        let (uris, refused) = Uris::of_logins(&UriSources {
            configured: &[],
            consoles: &texts(&["ctrl.example:1280", "ctrl.example", "[2001:db8::1]:1280"]),
            origins: &texts(&[
                "https://console.example",
                "https://other.example/",
                "*",
                "http://plain.example",
            ]),
        });
        for uri in [
            "openziti://auth/callback",
            "http://localhost:8080/auth/callback",
            "http://localhost:20314/auth/callback",
            "http://127.0.0.1:1/auth/callback",
            "https://127.0.0.1:1/auth/callback",
            "http://[::1]:1/auth/callback",
            "https://ctrl.example:1280/auth/callback",
            "https://ctrl.example/auth/callback",
            "https://[2001:db8::1]:1280/auth/callback",
            "https://console.example/auth/callback",
            "https://other.example/auth/callback",
        ] {
            assert_eq!(uris.find(uri).map(|uri| uri.as_str().to_owned()).as_deref(), Some(uri));
        }
        for uri in [
            "https://evil.example/auth/callback",
            "https://ctrl.example:1281/auth/callback",
            "https://ctrl.example:1280/auth/callback/",
            "https://ctrl.example:1280/auth/logout",
            "https://ctrl.example:1280@evil.example/auth/callback",
            "http://ctrl.example:1280/auth/callback",
            "http://plain.example/auth/callback",
            "https://*/auth/callback",
            "openziti://auth/callback?next=https://evil.example",
            "",
        ] {
            assert_eq!(uris.find(uri), None, "{uri}");
        }
        let plain = "http://plain.example/auth/callback".to_owned();
        assert_eq!(refused, [(plain, NoUri::PlainHttp)]);
    }

    #[test]
    fn configured_uris_stand_instead_of_the_built_in_ones() {
        let configured = texts(&["https://app.example/*/callback", "http://app.example/cb"]);
        let sources = UriSources {
            configured: &configured,
            consoles: &texts(&["ctrl.example:1280"]),
            ..UriSources::default()
        };
        let (uris, refused) = Uris::of_logins(&sources);
        assert!(uris.find("https://app.example/x/callback").is_some());
        assert!(uris.find("https://ctrl.example:1280/auth/callback").is_some());
        assert!(uris.find("http://localhost:8080/auth/callback").is_none());
        assert_eq!(refused.len(), 1);
        let (uris, _) = Uris::of_logouts(&UriSources::default());
        assert!(uris.find("http://127.0.0.1:8080/auth/logout").is_some());
        assert!(uris.find("http://127.0.0.1:8080/auth/callback").is_none());
    }
}
