//! Sessions with opaque tokens, and the keys of a cluster's members.

use weft_identity::Certificate;
use weft_model::entity::{ApiSession, PolicyType, ServiceSession};
use weft_model::{Entity, Id, Kind, Timestamp};

use super::import;
use super::kinds::{authority, lossless};
use super::network::{Network, flag, list, text, time};
use crate::Import;

/// An identity with a password (`p1`) and a certificate (`c1`), and a service.
fn network(leaf: &str) -> Network {
    let password = vec![
        ("method", text("updb")),
        ("identity", text("i1")),
        ("updbUsername", text("ada")),
        ("updbPassword", text("aGFzaA==")),
        ("updbSalt", text("c2FsdA==")),
    ];
    let certificate =
        vec![("method", text("cert")), ("identity", text("i1")), ("certPem", text(leaf))];
    Network::new(44)
        .with_identity("i1", "Ada")
        .with("authenticators", "p1", password)
        .with("authenticators", "c1", certificate)
        .with("services", "s1", vec![("name", text("s"))])
        .with("configTypes", "t1", vec![("name", text("t"))])
        .with("externalJwtSigners", "j1", vec![("name", text("j")), ("enabled", flag(true))])
}

fn api_session(import: &Import, id: &str) -> ApiSession {
    let found = import.sessions.iter().find(|it| it.id().as_str() == id);
    let Some(Entity::ApiSession(session)) = found else { panic!("no {id}: {:?}", import.losses) };
    (**session).clone()
}

fn taken(import: &Import, name: &str) -> (u64, u64) {
    let section = import.sections.iter().find(|it| it.name == name).unwrap();
    (section.found, section.taken)
}

#[test]
fn sessions_keep_all_that_weft_has() {
    let (_, leaf) = authority();
    let (_, other) = authority();
    let of_session = |session| {
        vec![("apiSession", text(session)), ("pem", text(&other)), ("subject", text("x"))]
    };
    let inside = vec![
        ("apiSession", text("x1")),
        ("service", text("s1")),
        ("token", text("inner")),
        ("type", text("Bind")),
        ("identity", text("i1")),
    ];
    let network = network(&leaf)
        .with(
            "apiSessions",
            "x1",
            vec![
                ("identity", text("i1")),
                ("authenticator", text("c1")),
                ("token", text("outer")),
                ("configTypes", list(&["t1"])),
                ("ipAddress", text("192.0.2.1")),
                ("mfaComplete", flag(true)),
                ("mfaRequired", flag(true)),
                ("isCertExtendable", flag(true)),
                ("improperClientCertChain", flag(true)),
                ("lastActivityAt", time(9_000)),
            ],
        )
        .with(
            "apiSessions",
            "x2",
            vec![("identity", text("i1")), ("authenticator", text("p1")), ("token", text("t2"))],
        )
        .with(
            "apiSessions",
            "x3",
            vec![
                ("identity", text("i1")),
                ("authenticator", text("extJwtId:j1")),
                ("token", text("t3")),
            ],
        )
        .with("apiSessionCertificates", "k1", of_session("x1"))
        .with("apiSessionCertificates", "k2", of_session("nobody"))
        .with("sessions", "y1", inside);
    let import = lossless(&network);
    assert_eq!(taken(&import, "API sessions"), (3, 3));
    assert_eq!(taken(&import, "service sessions"), (1, 1));
    let it = api_session(&import, "x1");
    assert_eq!((&*it.former_token, it.identity_id.as_str()), ("outer", "i1"));
    assert_eq!((it.authenticator_id.as_str(), &*it.ip_address), ("c1", "192.0.2.1"));
    assert!(it.is_mfa_complete && it.is_mfa_required && it.is_cert_extendable);
    assert!(it.improper_client_cert_chain && it.is_of_client && it.had_certificate);
    assert_eq!(it.last_activity_at, Timestamp(9_000_000));
    assert_eq!(it.mfa_passed_at, Some(it.base.created_at));
    assert_eq!(it.config_types, [Id::new("t1")]);
    // One that was made for the session, and that of its login.
    let print =
        |pem: &str| Certificate::from_pem(pem.as_bytes()).unwrap()[0].fingerprint().to_owned();
    let prints: Vec<_> = it.certificates.iter().map(|it| it.fingerprint.to_string()).collect();
    assert_eq!(prints, [print(&other), print(&leaf)]);
    let it = api_session(&import, "x2");
    assert!(!it.is_of_client && it.certificates.is_empty() && it.mfa_passed_at.is_none());
    assert_eq!(it.last_activity_at, Timestamp(2_000_000), "its last change");
    assert_eq!(api_session(&import, "x3").external.signer_id, Some(Id::new("j1")));
    let Some(Entity::ServiceSession(inner)) = import.sessions.last() else { panic!() };
    let ServiceSession { api_session_id, identity_id, service_id, session_type, token, .. } =
        &**inner;
    let ids = [api_session_id, identity_id, service_id].map(Id::as_str);
    assert_eq!((ids, &**token), (["x1", "i1", "s1"], "inner"));
    assert_eq!(*session_type, PolicyType::Bind);
    // They are no part of the model.
    for kind in [Kind::ApiSession, Kind::ServiceSession] {
        assert_eq!(import.snapshot.table(kind).live().iter().count(), 0);
    }
}

#[test]
fn a_session_without_what_it_rests_on_is_a_loss() {
    let (_, leaf) = authority();
    let session = |identity: &str, authenticator: &str, token: &str| {
        let fields = [("identity", identity), ("authenticator", authenticator), ("token", token)];
        let full = fields.into_iter().filter(|(_, value)| !value.is_empty());
        full.map(|(name, value)| (name, text(value))).collect::<Vec<_>>()
    };
    let inside = |session: &str, service: &str| {
        vec![("apiSession", text(session)), ("service", text(service)), ("token", text("t"))]
    };
    let good = || network(&leaf).with("apiSessions", "a", session("i1", "p1", "t1"));
    let again = ": its client logs in again";
    let cases = [
        ("apiSessions", session("", "p1", "t"), format!("it has no identity{again}")),
        ("apiSessions", session("i1", "", "t"), format!("it has no authenticator{again}")),
        ("apiSessions", session("i1", "p1", ""), format!("it has no token{again}")),
        ("apiSessions", session("i2", "p1", "t"), format!("there is no such identity{again}")),
        ("apiSessions", session("i1", "p2", "t"), format!("there is no such authenticator{again}")),
        (
            "apiSessions",
            session("i1", "extJwtId:j2", "t"),
            format!("there is no such authenticator{again}"),
        ),
        ("apiSessions", session("i2", "p1", "t"), format!("there is no such identity{again}")),
        ("apiSessions", session("i1", "p1", "t1"), format!("there is no token of its own{again}")),
        ("sessions", inside("b", "s1"), "its API session is not taken".to_owned()),
        ("sessions", inside("a", "s2"), "there is no such service".to_owned()),
        ("sessions", vec![("apiSession", text("a"))], "it has no service".to_owned()),
    ];
    for (kind, fields, reason) in cases {
        let import = import(&good().with(kind, "x", fields)).unwrap();
        let losses: Vec<_> = import.losses.iter().map(|it| (&*it.id, &*it.reason)).collect();
        assert_eq!(losses, [("x", &*reason)]);
        let ids: Vec<_> = import.sessions.iter().map(|it| it.id().as_str()).collect();
        assert_eq!(ids, ["a"], "{reason}");
        let (_, logins) = taken(&import, "API sessions");
        assert_eq!((logins, taken(&import, "service sessions").1), (1, 0), "{reason}");
    }
}

#[test]
fn the_certificates_of_all_members_are_found() {
    let controller = |name: &str, pem: &str| vec![("name", text(name)), ("certPem", text(pem))];
    let network = Network::new(44)
        .with("controllers", "c1", controller("one", "PEM of one"))
        .with("controllers", "c2", controller("two", "PEM of two"))
        .with("controllers", "c3", controller("three", ""));
    assert_eq!(import(&network).unwrap().signers, ["PEM of one", "PEM of two"]);
}
