//! Who a server is, beyond its chain and its host.

use super::{Pki, dns};
use crate::role::other_than_controller;
use crate::{
    ExpectedRouter, Identity, KeyPurpose, KeyedChain, NotTheRouter, PublicKey, RouterProof, San,
    SpiffeId,
};

const DOMAIN: &str = "test.example";

fn server(pki: &Pki, name: &str, id: Option<SpiffeId>) -> KeyedChain {
    let id = id.map(|id| San::Uri(id.to_string()));
    let sans: Vec<San> = id.into_iter().chain([dns("r1.example")]).collect();
    pki.leaf(name, &sans, KeyPurpose::Server)
}

fn print(chain: &KeyedChain) -> String {
    chain.leaf().public_key().map(PublicKey::print).unwrap()
}

#[test]
fn a_router_is_proved_by_its_key_or_its_id_and_not_by_the_host_of_its_certificate() {
    let pki = Pki::new();
    let of = |id: &str| Some(SpiffeId::router(DOMAIN, id));
    let known = server(&pki, "r1", of("r1"));
    let keys = [print(&known)];
    let impostor = server(&pki, "r1", of("r1"));
    let by = |chain: &KeyedChain, keys: &[String]| {
        ExpectedRouter::new("r1", keys.iter().cloned()).prove(&[chain.leaf().der().clone()])
    };
    use RouterProof::{CommonName, Key, SpiffeId as Spiffe};
    assert_eq!(by(&known, &keys), Ok(Key));
    assert_eq!(by(&server(&pki, "any", None), &[]), other("\"any\""));
    // With keys, neither an id nor a common name proves anything: some authorities copy them from requests.
    let found = "spiffe://test.example/router/r1".to_owned();
    assert_eq!(
        by(&impostor, &keys),
        Err(NotTheRouter::UnknownKey { meant: "r1".into(), found: found.clone() })
    );
    // Without keys.
    let rows = [
        (server(&pki, "any", of("r1")), Ok(Spiffe)),
        (server(&pki, "r1", of("r2")), other("spiffe://test.example/router/r2")),
        (server(&pki, "r1", Some(SpiffeId::identity(DOMAIN, "r1"))), other(&identity("r1"))),
        (
            server(&pki, "r1", Some(SpiffeId::controller(DOMAIN, "r1"))),
            other("spiffe://test.example/controller/r1"),
        ),
        (server(&pki, "r1", None), Ok(CommonName)),
        (server(&pki, "r2", None), other("\"r2\"")),
        (server(&pki, "", None), other("nobody by name")),
    ];
    for (chain, right) in rows {
        assert_eq!(by(&chain, &[]), right);
    }
    // An id that no program of the network has.
    let workload = San::Uri("spiffe://test.example/workload/x".into());
    let named = pki.leaf("r1", std::slice::from_ref(&workload), KeyPurpose::Server);
    assert_eq!(by(&named, &[]), Ok(CommonName));
    // A router of the same id in another network.
    let own = Identity::new(
        Some(server(&pki, "me", Some(SpiffeId::identity(DOMAIN, "me")))),
        Vec::new(),
        pki.bundle(),
    );
    let meant = ExpectedRouter::new("r1", []).in_domain_of(&own);
    let there = server(&pki, "r1", Some(SpiffeId::router("other.example", "r1")));
    assert!(meant.prove(&[there.leaf().der().clone()]).is_err());
    assert_eq!(meant.prove(&[server(&pki, "any", of("r1")).leaf().der().clone()]), Ok(Spiffe));
    let two = [San::Uri(found), San::Uri("spiffe://test.example/router/r2".into())];
    assert!(
        by(&pki.leaf("r1", &two, KeyPurpose::Server), &[]).is_err(),
        "one id of another router"
    );
    assert_eq!(ExpectedRouter::new("r1", []).prove(&[]), Err(NotTheRouter::NoCertificate));
}

fn identity(id: &str) -> String {
    SpiffeId::identity(DOMAIN, id).to_string()
}

fn other(found: &str) -> Result<RouterProof, NotTheRouter> {
    Err(NotTheRouter::Other { meant: "r1".into(), found: found.into() })
}

#[test]
fn certificates_of_routers_and_identities_are_of_no_controller() {
    let pki = Pki::new();
    let is_other =
        |id: Option<SpiffeId>| other_than_controller(server(&pki, "ctrl", id).leaf()).is_some();
    assert!(is_other(Some(SpiffeId::router(DOMAIN, "r1"))));
    assert!(is_other(Some(SpiffeId::identity(DOMAIN, "i1"))));
    assert!(is_other(Some(SpiffeId::api_session(DOMAIN, "i1", "s1", "c1"))));
    // The certificate of a controller may come from an authority that knows no SPIFFE.
    assert!(!is_other(Some(SpiffeId::controller(DOMAIN, "ctrl"))) && !is_other(None));
}
