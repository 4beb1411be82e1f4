//! The issuers of a listener, one for each host by which clients reach it, and what their discovery says
//! (docs/protocol/auth.md 15.1, 20.7).

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;

use crate::host::HttpHost;
use crate::scopes::Scopes;

/// The grants that exist here.
pub const GRANT_TYPES: [&str; 4] = [
    "authorization_code",
    "refresh_token",
    "urn:ietf:params:oauth:grant-type:token-exchange",
    "urn:ietf:params:oauth:grant-type:device_code",
];

/// What names a listener.
#[derive(Debug, Clone, Copy, Default)]
pub struct Listener<'a> {
    /// The addresses of its bind points, `host:port`.
    pub addresses: &'a [String],
    /// The DNS names of its server certificates, with wildcards.
    pub names: &'a [String],
    /// The addresses of its server certificates.
    pub ips: &'a [IpAddr],
    /// `options.allowedHostnames`: the hosts that a wildcard stands for, without ports.
    pub allowed_hostnames: &'a [String],
}

/// An issuer: `https://HOST[:PORT]/oidc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer(String);

/// The issuers of a listener by their hosts.
#[derive(Debug, Clone, Default)]
pub struct Issuers(BTreeMap<HttpHost, Issuer>);

impl Issuers {
    /// The issuers of a listener.
    #[must_use]
    pub fn new(listener: &Listener<'_>) -> Self {
        let addresses: Vec<HttpHost> =
            listener.addresses.iter().filter_map(|address| HttpHost::parse(address)).collect();
        let mut hosts = addresses.clone();
        for port in addresses.iter().map(HttpHost::port) {
            hosts.extend(listener.ips.iter().map(|ip| HttpHost::of_ip(*ip, port)));
            let names = listener.names.iter().flat_map(|name| exact(name, listener));
            hosts.extend(names.filter_map(|name| HttpHost::of_name(name, port)));
        }
        let without: Vec<HttpHost> = hosts.iter().filter_map(HttpHost::without_port).collect();
        hosts.extend(without);
        Self(hosts.into_iter().map(|host| (host.clone(), Issuer::of(&host))).collect())
    }

    /// The issuer of a request by its header `HttpHost`: the name in any case, the port exactly. None: the request is for no
    /// issuer, and is answered with 404.
    #[must_use]
    pub fn find(&self, host: &str) -> Option<&Issuer> {
        self.0.get(&HttpHost::parse(host)?)
    }

    /// All hosts, in order.
    pub fn hosts(&self) -> impl Iterator<Item = &HttpHost> {
        self.0.keys()
    }

    /// All issuers, in the order of their hosts.
    pub fn all(&self) -> impl Iterator<Item = &Issuer> {
        self.0.values()
    }
}

/// The names that a name of a certificate stands for.
fn exact<'a>(name: &'a str, listener: &Listener<'a>) -> Vec<&'a str> {
    let Some(rest) = name.strip_prefix("*.") else { return vec![name] };
    let is_covered = |allowed: &&str| {
        allowed.split_once('.').is_some_and(|(first, others)| {
            !first.is_empty() && !rest.is_empty() && others.eq_ignore_ascii_case(rest)
        })
    };
    listener.allowed_hostnames.iter().map(String::as_str).filter(is_covered).collect()
}

impl Issuer {
    /// The issuer of a host.
    #[must_use]
    pub fn of(host: &HttpHost) -> Self {
        Self(format!("https://{host}/oidc"))
    }

    /// The issuer itself, the claim `iss`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.0
    }

    /// The URL of one of its paths, such as `/oauth/token`.
    #[must_use]
    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }

    /// The origin of its pages.
    #[must_use]
    pub fn origin(&self) -> &str {
        self.0.strip_suffix("/oidc").unwrap_or(&self.0)
    }

    /// The discovery document. `algorithms` are those of the keys that sign tokens, such as `ES256`.
    #[must_use]
    pub fn discovery(&self, algorithms: &[&str]) -> String {
        let document = Discovery {
            issuer: self.url(),
            authorization_endpoint: self.at("/authorize"),
            token_endpoint: self.at("/oauth/token"),
            userinfo_endpoint: self.at("/userinfo"),
            revocation_endpoint: self.at("/revoke"),
            end_session_endpoint: self.at("/end_session"),
            device_authorization_endpoint: self.at("/device_authorization"),
            jwks_uri: self.at("/keys"),
            scopes_supported: Scopes::ALL,
            response_types_supported: ["code"],
            response_modes_supported: ["query"],
            grant_types_supported: GRANT_TYPES,
            subject_types_supported: ["public"],
            id_token_signing_alg_values_supported: algorithms,
            token_endpoint_auth_methods_supported: ["none"],
            revocation_endpoint_auth_methods_supported: ["none"],
            code_challenge_methods_supported: ["S256"],
            claims_supported: [
                "sub",
                "iss",
                "aud",
                "exp",
                "iat",
                "auth_time",
                "nonce",
                "amr",
                "azp",
                "at_hash",
                "c_hash",
                "name",
            ],
            ui_locales_supported: ["en"],
            request_parameter_supported: false,
            request_uri_parameter_supported: false,
            authorization_response_iss_parameter_supported: true,
            openziti_endpoints: Steps {
                password: self.at("/login/password"),
                cert: self.at("/login/cert"),
                ext_jwt: self.at("/login/ext-jwt"),
                totp: self.at("/login/totp"),
                totp_enroll: self.at("/login/totp/enroll"),
                totp_enroll_verify: self.at("/login/totp/enroll/verify"),
                auth_queries: self.at("/login/auth-queries"),
            },
        };
        serde_json::to_string(&document).unwrap_or_default()
    }
}

#[derive(Serialize)]
struct Discovery<'a> {
    issuer: &'a str,
    authorization_endpoint: String,
    token_endpoint: String,
    userinfo_endpoint: String,
    revocation_endpoint: String,
    end_session_endpoint: String,
    device_authorization_endpoint: String,
    jwks_uri: String,
    scopes_supported: [&'a str; 2],
    response_types_supported: [&'a str; 1],
    response_modes_supported: [&'a str; 1],
    grant_types_supported: [&'a str; 4],
    subject_types_supported: [&'a str; 1],
    id_token_signing_alg_values_supported: &'a [&'a str],
    token_endpoint_auth_methods_supported: [&'a str; 1],
    revocation_endpoint_auth_methods_supported: [&'a str; 1],
    code_challenge_methods_supported: [&'a str; 1],
    claims_supported: [&'a str; 12],
    ui_locales_supported: [&'a str; 1],
    request_parameter_supported: bool,
    request_uri_parameter_supported: bool,
    authorization_response_iss_parameter_supported: bool,
    openziti_endpoints: Steps,
}

/// The paths of the steps of a login.
#[derive(Serialize)]
struct Steps {
    password: String,
    cert: String,
    ext_jwt: String,
    totp: String,
    totp_enroll: String,
    totp_enroll_verify: String,
    auth_queries: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    fn issuers() -> Issuers {
        Issuers::new(&Listener {
            addresses: &texts(&["Ctrl.Example:1280", "ctrl.example:443"]),
            names: &texts(&["ctrl.example", "*.Cloud.example", "alias.example"]),
            ips: &["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
            allowed_hostnames: &texts(&["a.cloud.example", "b.a.cloud.example", "other.example"]),
        })
    }

    #[test]
    fn a_listener_has_an_issuer_for_each_host_and_port() {
        let issuers = issuers();
        let hosts: Vec<String> = issuers.hosts().map(HttpHost::to_string).collect();
        let names =
            ["192.0.2.1", "[2001:db8::1]", "a.cloud.example", "alias.example", "ctrl.example"];
        let wanted: Vec<String> = names
            .iter()
            .flat_map(|name| ["", ":443", ":1280"].map(|port| format!("{name}{port}")))
            .collect();
        assert_eq!(hosts, wanted);
        let all: Vec<_> = issuers.all().map(Issuer::url).collect();
        assert_eq!(all[4], "https://[2001:db8::1]:443/oidc");
    }

    #[test]
    fn a_request_finds_its_issuer_by_name_in_any_case_and_by_its_exact_port() {
        let issuers = issuers();
        let find = |host| issuers.find(host).map(Issuer::url);
        assert_eq!(find("CTRL.example:1280"), Some("https://ctrl.example:1280/oidc"));
        assert_eq!(find("ctrl.example.:1280"), Some("https://ctrl.example:1280/oidc"));
        assert_eq!(find("ctrl.example"), Some("https://ctrl.example/oidc"));
        assert_eq!(find("ctrl.example:443"), Some("https://ctrl.example:443/oidc"));
        assert_eq!(find("[2001:DB8:0::1]:1280"), Some("https://[2001:db8::1]:1280/oidc"));
        for host in [
            "ctrl.example:1281",
            "ctrl.example:01280",
            "b.cloud.example:1280",
            "b.a.cloud.example:1280",
            "other.example:1280",
            "*.cloud.example:1280",
            "ctrl.example:1280/",
            "x@ctrl.example:1280",
            "",
        ] {
            assert_eq!(find(host), None, "{host}");
        }
    }

    #[test]
    fn discovery_is_exact() {
        let issuer = Issuer::of(&HttpHost::parse("ctrl.example:1280").unwrap());
        let wanted = r#"{"issuer":"https://ctrl.example:1280/oidc",
            "authorization_endpoint":"https://ctrl.example:1280/oidc/authorize",
            "token_endpoint":"https://ctrl.example:1280/oidc/oauth/token",
            "userinfo_endpoint":"https://ctrl.example:1280/oidc/userinfo",
            "revocation_endpoint":"https://ctrl.example:1280/oidc/revoke",
            "end_session_endpoint":"https://ctrl.example:1280/oidc/end_session",
            "device_authorization_endpoint":"https://ctrl.example:1280/oidc/device_authorization",
            "jwks_uri":"https://ctrl.example:1280/oidc/keys",
            "scopes_supported":["openid","offline_access"],
            "response_types_supported":["code"],"response_modes_supported":["query"],
            "grant_types_supported":["authorization_code","refresh_token",
              "urn:ietf:params:oauth:grant-type:token-exchange",
              "urn:ietf:params:oauth:grant-type:device_code"],
            "subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256"],
            "token_endpoint_auth_methods_supported":["none"],
            "revocation_endpoint_auth_methods_supported":["none"],
            "code_challenge_methods_supported":["S256"],
            "claims_supported":["sub","iss","aud","exp","iat","auth_time","nonce","amr","azp",
              "at_hash","c_hash","name"],
            "ui_locales_supported":["en"],
            "request_parameter_supported":false,"request_uri_parameter_supported":false,
            "authorization_response_iss_parameter_supported":true,
            "openziti_endpoints":{
              "password":"https://ctrl.example:1280/oidc/login/password",
              "cert":"https://ctrl.example:1280/oidc/login/cert",
              "ext_jwt":"https://ctrl.example:1280/oidc/login/ext-jwt",
              "totp":"https://ctrl.example:1280/oidc/login/totp",
              "totp_enroll":"https://ctrl.example:1280/oidc/login/totp/enroll",
              "totp_enroll_verify":"https://ctrl.example:1280/oidc/login/totp/enroll/verify",
              "auth_queries":"https://ctrl.example:1280/oidc/login/auth-queries"}}"#;
        let wanted: String = wanted.split('\n').map(str::trim_start).collect();
        assert_eq!(issuer.discovery(&["ES256"]), wanted);
        assert_eq!(issuer.origin(), "https://ctrl.example:1280");
    }
}
