//! What a database of the original would not know or would revive.

use serde_json::Value;
use weft_bolt::Bolt;
use weft_import::Import;
use weft_model::Timestamp;

use super::super::since::{differences, load};
use super::network::{Network, flag, list, text, time};

fn import(network: &Network) -> Import {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ctrl.db");
    std::fs::write(&path, network.bytes()).unwrap();
    Import::read(&Bolt::open(&path).unwrap()).unwrap()
}

/// The rows of kind, id and what happened, between a network and a later state of it.
fn rows(before: &Network, after: &Network) -> Vec<[String; 3]> {
    let (before, after) = (import(before), import(after));
    let found = differences(&before.snapshot, &after.snapshot, Timestamp::from_secs(5_000));
    let text = |row: &Value, member: &str| row[member].as_str().unwrap().to_owned();
    let row = |row: Value| ["kind", "id", "what"].map(|member| text(&row, member));
    found.iter().map(|since| row(since.row())).collect()
}

fn password(name: &str, hash: &str) -> Vec<(&'static str, super::writer::Node)> {
    vec![
        ("method", text("updb")),
        ("identity", text("i1")),
        ("updbUsername", text(name)),
        ("updbPassword", text(hash)),
        ("updbSalt", text("c2FsdA==")),
    ]
}

fn certificate(print: &str) -> Vec<(&'static str, super::writer::Node)> {
    vec![("method", text("cert")), ("identity", text("i1")), ("certFingerprint", text(print))]
}

fn second_factor(secret: &str, codes: &[&str]) -> Vec<(&'static str, super::writer::Node)> {
    vec![
        ("identity", text("i1")),
        ("isVerified", flag(true)),
        ("secret", text(secret)),
        ("recoveryCodes", list(codes)),
    ]
}

fn ticket(token: &str) -> Vec<(&'static str, super::writer::Node)> {
    vec![("method", text("ott")), ("token", text(token)), ("identity", text("i1"))]
}

#[test]
fn what_happened_since_is_named_by_entity() {
    let network = || Network::new(44).with_identity("i1", "Ada");
    let named = |name: &str| vec![("name", text(name))];
    let router = |print: &str| vec![("name", text("r")), ("fingerprint", text(print))];
    let revoked = |until: i64| vec![("expiresAt", time(until)), ("type", text("IDENTITY"))];
    let disabled =
        || vec![("name", text("Ada")), ("type", text("Default")), ("disabledAt", time(3_000))];
    let until = |until: i64| [disabled(), vec![("disabledUntil", time(until))]].concat();
    let hosted = |identity: &str| {
        vec![
            ("service", text("s")),
            ("router", text("r")),
            ("binding", text("transport")),
            ("address", text("tcp:localhost:80")),
            ("hostId", text(identity)),
        ]
    };
    let base = network;
    let hosting = || base().with("services", "s", named("s"));
    let cases = [
        (base(), base(), vec![]),
        (base(), base().with_identity("i2", "Bob"), vec![["identity", "i2", "made"]]),
        (base().with_identity("i2", "Bob"), base(), vec![["identity", "i2", "deleted"]]),
        (base(), base().with("identities", "i1", disabled()), vec![["identity", "i1", "disabled"]]),
        (base(), base().with("services", "s1", named("s")), vec![["service", "s1", "made"]]),
        (
            base().with("services", "s1", named("s")),
            base().with("services", "s1", named("t")),
            vec![["service", "s1", "changed"]],
        ),
        (
            base().with("authenticators", "a", password("ada", "b25l")),
            base().with("authenticators", "a", password("ada", "dHdv")),
            vec![["authenticator", "a", "password changed"]],
        ),
        (
            base().with("authenticators", "a", password("ada", "b25l")),
            base().with("authenticators", "a", password("eva", "b25l")),
            vec![["authenticator", "a", "user name changed"]],
        ),
        (
            base().with("authenticators", "a", certificate("11")),
            base().with("authenticators", "a", certificate("22")),
            vec![["authenticator", "a", "certificate renewed"]],
        ),
        (
            base().with("mfas", "m", second_factor("one", &["c1", "c2"])),
            base().with("mfas", "m", second_factor("one", &["c2"])),
            vec![["MFA", "m", "recovery codes used or made anew"]],
        ),
        (
            base().with("mfas", "m", second_factor("one", &["c1"])),
            base().with("mfas", "m", second_factor("two", &["c1"])),
            vec![["MFA", "m", "set up anew"]],
        ),
        // A ticket that was used, and the certificate that it became.
        (
            base().with("enrollments", "e", ticket("t")),
            base().with("authenticators", "a", certificate("11")),
            vec![["authenticator", "a", "made"], ["enrollment", "e", "deleted"]],
        ),
        (
            base().with("routers", "r", router("11")),
            base().with("routers", "r", router("22")),
            vec![["router", "r", "certificate renewed"]],
        ),
        (
            base(),
            base().with("revocations", "x", revoked(9_000)),
            vec![["revocation", "x", "made"]],
        ),
        (base(), base().with("revocations", "x", revoked(4_000)), vec![]),
        (base().with("revocations", "x", revoked(4_000)), base(), vec![]),
        // Programs make their terminators anew.
        (hosting().with("terminators", "t", hosted("i1")), hosting(), vec![]),
        (hosting(), hosting().with("terminators", "t", hosted("i1")), vec![]),
        (base().with("terminators", "t", hosted("")), base(), vec![["terminator", "t", "deleted"]]),
        // One that was disabled for a time has been enabled by itself.
        (base().with("identities", "i1", until(4_000)), base(), vec![]),
        (
            base().with("identities", "i1", until(9_000)),
            base(),
            vec![["identity", "i1", "enabled"]],
        ),
    ];
    for (before, after, expected) in cases {
        let found = rows(&before, &after);
        let found: Vec<[&str; 3]> = found.iter().map(|row| [0, 1, 2].map(|at| &*row[at])).collect();
        let mut expected = expected;
        expected.sort_unstable();
        let mut sorted = found.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, expected);
    }
}

#[test]
fn a_snapshot_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copy.db");
    let import = import(&Network::new(44).with_identity("i1", "Ada"));
    weft_store::create(&path, import.entities(), [], []).unwrap();
    let before = std::fs::read(&path).unwrap();
    let loaded = load(&path).unwrap();
    assert!(differences(&import.snapshot, &loaded, Timestamp::from_secs(5_000)).is_empty());
    assert!(std::fs::read(&path).unwrap() == before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
