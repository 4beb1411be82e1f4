//! The requests of one connection, one after the other.

use url::form_urlencoded::byte_serialize;
use weft_model::Kind;

use super::fill::{Dice, Network, PLATFORMS};
use super::report::Aim;

pub(crate) const API: &str = "/edge/management/v1";
/// Aims for a page of a list, in milliseconds: one that an index serves, and one that is scanned.
const SERVED: Option<Aim> = Some(Aim::AtMost(5.0));
const SCANNED: Option<Aim> = Some(Aim::AtMost(25.0));

/// Largest network for which the aims hold, in identities.
pub(crate) const AIMED_AT: u32 = 200_000;

/// A request.
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) body: Option<String>,
}

/// Requests whose times make one figure.
pub(crate) struct Timed<'a> {
    pub(crate) name: &'static str,
    pub(crate) aim: Option<Aim>,
    /// The request with this number.
    pub(crate) ask: Box<dyn Fn(u32) -> Ask + 'a>,
}

fn get(path: String) -> Ask {
    Ask { method: "GET", path, body: None }
}

/// A request for a list; `rest` has further parameters.
pub(crate) fn list(kind: &str, filter: &str, rest: &str) -> Ask {
    let filter: String = byte_serialize(filter.as_bytes()).collect();
    get(format!("{API}/{kind}?filter={filter}{rest}"))
}

/// All requests to a network; `half` is the id of its policy over half of the identities.
pub(crate) fn all<'a>(network: &'a Network, half: &'a str) -> Vec<Timed<'a>> {
    let mut all = served(network, half);
    all.extend(scanned());
    all.extend(others(network, half));
    if network.identities > AIMED_AT {
        all.iter_mut().for_each(|timed| timed.aim = None);
    }
    all
}

fn timed<'a>(name: &'static str, aim: Option<Aim>, ask: impl Fn(u32) -> Ask + 'a) -> Timed<'a> {
    Timed { name, aim, ask: Box::new(ask) }
}

/// Some identity.
fn any(network: &Network, number: u32) -> u32 {
    Dice::new(7, 1, number.into()).below(network.identities)
}

fn served<'a>(network: &'a Network, half: &'a str) -> Vec<Timed<'a>> {
    let deep = u64::from(network.identities).min(100_000) * 9 / 10;
    let id = |number| network.id(Kind::Identity, any(network, number));
    let team = |number| format!("anyOf(roleAttributes) = \"team-{:03}\"", number % 400);
    let platform = PLATFORMS[0].0;
    let of_half = format!("anyOf(roleAttributes) = \"{platform}\"");
    let of_half = move || of_half.clone();
    let identities = |filter: &str, rest: &str| list("identities", filter, rest);
    let newest = "&sort=createdAt%20desc";
    vec![
        timed("list: first page", SERVED, move |_| identities("", "")),
        timed("list: first 100", SERVED, move |_| identities("", "&limit=100")),
        timed("list: page at nine tenths", SERVED, move |_| {
            identities("", &format!("&offset={deep}"))
        }),
        timed("list: the same by name", SERVED, move |_| {
            identities("", &format!("&offset={deep}&sort=name"))
        }),
        timed("list: the same, newest first", SERVED, move |_| {
            identities("", &format!("&offset={deep}{newest}"))
        }),
        timed("list: name =", SERVED, move |n| {
            let name = network.identity_name(any(network, n));
            identities(&format!("name = \"{name}\""), "")
        }),
        timed("list: id in 10, by name", SERVED, move |n| {
            let ids: Vec<_> = (0..10).map(|i| format!("\"{}\"", id(n * 10 + i))).collect();
            identities(&format!("id in [{}]", ids.join(",")), "&sort=name")
        }),
        timed("list: a team, by name", SERVED, move |n| identities(&team(n), "&sort=name")),
        timed("list: a team's half, by name", SERVED, {
            let of_half = of_half.clone();
            move |n| identities(&format!("{} and {}", of_half(), team(n)), "&sort=name")
        }),
        timed("list: half, by name", SERVED, {
            let of_half = of_half.clone();
            move |_| identities(&of_half(), "&sort=name")
        }),
        timed("list: half, newest first", SERVED, move |_| identities(&of_half(), newest)),
        timed("list: half by role filter", SERVED, move |_| {
            get(format!("{API}/identities?roleFilter=%23{platform}"))
        }),
        timed("list: name range", SERVED, move |_| {
            identities("name >= \"eva.\" and name < \"eva.01\"", "")
        }),
        timed("list: id range, by name", SERVED, move |_| {
            identities("id >= \"h\" and id < \"j\"", "&sort=name")
        }),
        timed("list: a link all have, by name", SERVED, move |_| {
            identities("authPolicyId = \"default\"", "&sort=name")
        }),
        timed("list: authenticators of one", SERVED, move |n| {
            list("authenticators", &format!("identity = \"{}\"", id(n)), "")
        }),
        timed("list: members of half, by name", SERVED, move |_| {
            get(format!("{API}/service-policies/{half}/identities?sort=name"))
        }),
    ]
}

fn scanned<'a>() -> Vec<Timed<'a>> {
    vec![
        timed("scan: name contains, by name", SCANNED, |n| {
            list("identities", &format!("name contains \"{:03}@\"", n % 1000), "&sort=name")
        }),
        timed("scan: name icontains", SCANNED, |n| {
            list("identities", &format!("name icontains \"{:03}@S\"", n % 1000), "")
        }),
        timed("scan: tag", SCANNED, |_| list("identities", "tags.floor = \"3\"", "")),
        timed("scan: all match, by update", SCANNED, |_| {
            list("identities", "not isAdmin = true", "&sort=updatedAt%20desc")
        }),
    ]
}

fn others<'a>(network: &'a Network, half: &'a str) -> Vec<Timed<'a>> {
    let id = |number| network.id(Kind::Identity, any(network, number));
    vec![
        timed("read by id", None, move |n| get(format!("{API}/identities/{}", id(n)))),
        timed("policy advice", None, move |n| {
            let service = network.id(Kind::Service, n % network.services);
            get(format!("{API}/identities/{}/policy-advice/{service}", id(n)))
        }),
        timed("services that one may dial", None, move |n| {
            get(format!("{API}/identities/{}/services?policyType=dial", id(n)))
        }),
        timed("patch of a policy over half", Some(Aim::AtMost(20.0)), move |n| {
            let role = |(name, _): &(&str, u64)| format!("\"#{name}\"");
            let (one, others) = PLATFORMS.split_at(1);
            let roles = if n % 2 == 0 { others } else { one };
            let roles: Vec<_> = roles.iter().map(role).collect();
            let body = format!("{{\"identityRoles\":[{}]}}", roles.join(","));
            Ask {
                method: "PATCH",
                path: format!("{API}/service-policies/{half}"),
                body: Some(body),
            }
        }),
    ]
}
