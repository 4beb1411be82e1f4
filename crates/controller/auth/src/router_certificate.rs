//! The contents of router certificates, the same at enrollment, extension and renewal.
//!
//! The controller sets the common name (the router's id) and the SPIFFE id. From the router's
//! request it takes DNS names and addresses, so that clients find the router. A name of the
//! controller is refused, because the router could pass as the controller; names that the
//! configuration forbids are refused too. Mail addresses and URIs are taken as well, as no
//! certificate of the network's own authorities identifies anybody by them; one that cannot be read
//! or names a forbidden host is left out, like a SPIFFE id in the request.

use std::net::IpAddr;
use std::time::SystemTime;

use url::Url;
use weft_config::controller::{NameRule, RouterNames};
use weft_contract::ErrorCode;
use weft_identity::{Certificate, CertificateRequest, KeyPurpose, Leaf, San, SpiffeId};
use weft_kernel::{Failure, Result};
use weft_model::Snapshot;
use weft_model::entity::Router;

use crate::handle::Auth;

/// Longest URI, in bytes.
const MAX_NAME: usize = 2048;

/// The certificate of a router, to be issued.
pub fn leaf(
    auth: &Auth,
    request: &CertificateRequest,
    id: &str,
    purpose: KeyPurpose,
    now: SystemTime,
) -> Result<Leaf> {
    let granted = granted(auth, request.sans())?;
    let own = SpiffeId::router(&auth.keys().trust_domain, id);
    Leaf::for_router(request, id, &own, granted, purpose, now)
        .map_err(|error| Failure::because(ErrorCode::CouldNotProcessCsr, error.to_string()))
}

/// The names in a request that a router gets.
fn granted(auth: &Auth, wanted: &[San]) -> Result<Vec<San>> {
    let mut granted = Vec::new();
    for san in wanted {
        let (checked, is_host) = match san {
            San::Uri(uri) => (check_uri(auth, uri), false),
            San::Email(mail) => (check_mail(auth, mail), false),
            San::Dns(_) | San::Ip(_) => {
                (Host::of(san).map_or(Ok(()), |host| check(auth, &host)), true)
            }
        };
        match checked {
            Ok(()) => granted.push(san.clone()),
            Err(reason) if is_host => {
                return Err(Failure::because(ErrorCode::CouldNotProcessCsr, reason));
            }
            Err(reason) => {
                tracing::warn!(%san, reason, "a name in a router's request is left out of its certificate");
            }
        }
    }
    Ok(granted)
}

/// Checks a URI: one that clients cannot read would have them refuse the whole certificate.
fn check_uri(auth: &Auth, uri: &str) -> Result<(), String> {
    let scheme = uri.split_once(':').map(|(scheme, _)| scheme);
    if scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("spiffe")) {
        return Err("the controller sets the SPIFFE id".to_owned());
    }
    let is_plain = uri.bytes().all(|byte| byte.is_ascii_graphic());
    let read = Url::parse(uri).ok().filter(|_| is_plain && uri.len() <= MAX_NAME);
    let read = read.ok_or_else(|| format!("{uri:?} is no URI"))?;
    match read.host_str().filter(|host| !host.is_empty()) {
        Some(host) => check_host(auth, &Host::read(host)),
        None => Ok(()),
    }
}

/// Checks a mail address.
fn check_mail(auth: &Auth, mail: &str) -> Result<(), String> {
    let is_letter = |byte: u8| byte.is_ascii_graphic() && !b"\"(),:;<>@[\\]".contains(&byte);
    let parts = mail
        .split_once('@')
        .filter(|(local, _)| (1..=64).contains(&local.len()) && local.bytes().all(is_letter));
    let (_, host) = parts.ok_or_else(|| format!("{mail:?} is no mail address"))?;
    check_host(auth, &Host::read(host))
}

/// Logs at the start which routers have a name that they would not get again.
pub(crate) fn warn_of_old_names(auth: &Auth, snapshot: &Snapshot) {
    for router in snapshot.list::<Router>() {
        let chain = Certificate::from_pem(router.cert_pem.as_bytes()).unwrap_or_default();
        let names = chain.first().map(Certificate::sans).unwrap_or_default();
        let refused = names.iter().filter_map(Host::of).find_map(|host| {
            let reason = check(auth, &host).err()?;
            Some((router.name.clone(), reason))
        });
        if let Some((router, reason)) = refused {
            tracing::warn!(%router, reason, "the certificate of the router cannot be renewed");
        }
    }
}

/// Checks a host against the rules of the configuration; the error is the reason of the refusal.
fn check_host(auth: &Auth, host: &Host) -> Result<(), String> {
    if let Host::Name(name) = host
        && !is_dns_name(name)
    {
        return Err(format!("{name:?} is no DNS name"));
    }
    if auth.kernel().settings().router_names.refused.iter().any(|rule| host.is_meant_by(rule)) {
        let key = "edge.enrollment.edgeRouter.refusedNames";
        return Err(format!("no router gets the name {host}: it is refused by {key}"));
    }
    Ok(())
}

/// Checks whether a router may have a name; the error is the reason of the refusal.
fn check(auth: &Auth, host: &Host) -> Result<(), String> {
    check_host(auth, host)?;
    let RouterNames { shared, .. } = &auth.kernel().settings().router_names;
    if host.is_loopback() || shared.iter().any(|rule| host.is_meant_by(rule)) {
        return Ok(());
    }
    match controllers(auth).iter().any(|own| own.meets(host)) {
        true => Err(format!(
            "no router gets the name {host}: it is one of the controller; a router beside it \
             needs edge.enrollment.edgeRouter.sharedNames"
        )),
        false => Ok(()),
    }
}

/// The names of the controller: in its certificates, and in addresses that clients and routers are
/// told.
fn controllers(auth: &Auth) -> Vec<Host> {
    let (keys, addresses) = (auth.keys(), &auth.kernel().settings().addresses);
    let leaves = [keys.session.leaf(), keys.enrollment.leaf()];
    let certified = leaves.into_iter().flat_map(Certificate::sans).filter_map(Host::of);
    let ctrl = addresses.ctrl.iter().filter_map(|it| Some(it.split_once(':')?.1));
    let ends = std::iter::once(addresses.api.as_str()).chain(ctrl);
    let ends = ends.filter_map(|end| end.rsplit_once(':').map(|(host, _)| Host::read(host)));
    let urls = addresses.apis.values().flatten().filter_map(|url| Url::parse(url).ok());
    let urls = urls.filter_map(|url| url.host_str().map(Host::read));
    certified.chain(ends).chain(urls).collect()
}

/// A name or an address in a normal form.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    Name(String),
    Address(IpAddr),
}

impl Host {
    /// The host that an alternative name names, if it names one.
    fn of(san: &San) -> Option<Self> {
        match san {
            San::Dns(name) => Some(Self::read(name)),
            San::Ip(address) => Some(Self::Address(address.to_canonical())),
            San::Email(_) | San::Uri(_) => None,
        }
    }

    fn read(text: &str) -> Self {
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<IpAddr>() {
            Ok(address) => Self::Address(address.to_canonical()),
            Err(_) => Self::Name(text.trim_end_matches('.').to_ascii_lowercase()),
        }
    }

    fn is_loopback(&self) -> bool {
        match self {
            Self::Name(name) => name == "localhost",
            Self::Address(address) => address.is_loopback(),
        }
    }

    fn is_meant_by(&self, rule: &NameRule) -> bool {
        match self {
            Self::Name(name) => rule.meets(name),
            Self::Address(address) => rule.covers(*address),
        }
    }

    /// Whether both can name the same host.
    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Name(own), Self::Name(_)) => other.is_meant_by(&NameRule::Host(own.clone())),
            _ => self == other,
        }
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// Whether all clients read a name in the same way: letters, digits, `-`, `_` and `.`, and `*` only
/// as the whole first label.
fn is_dns_name(name: &str) -> bool {
    let rest = name.strip_prefix("*.").unwrap_or(name);
    let is_letter = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_');
    name.len() <= 253
        && rest
            .split('.')
            .all(|label| (1..=63).contains(&label.len()) && label.bytes().all(is_letter))
}
