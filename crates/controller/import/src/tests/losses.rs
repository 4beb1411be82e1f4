//! What cannot be kept is named, with the entity and the reason.

use weft_model::entity::{Identity, Service};
use weft_model::{Id, Kind};

use super::network::{Network, array, bucket, flag, list, long, short, text, time, typed};
use super::writer::Node;
use super::{import, reasons};
use crate::losses::{Loss, Losses, MAX_LOSSES};

#[track_caller]
fn loses(network: &Network, id: &str, wanted: &[&str]) {
    let import = import(network).unwrap();
    assert_eq!(reasons(&import, id), wanted);
    let sections = || import.sections.iter();
    let (found, taken): (u64, u64) =
        (sections().map(|it| it.found).sum(), sections().map(|it| it.taken).sum());
    let untaken = import.losses.iter().filter(|loss| loss.field.is_empty()).count();
    assert_eq!(found - taken, untaken as u64, "what is not taken is a loss");
    let lossy: u64 = sections().map(|it| it.lossy).sum();
    assert_eq!(lossy, u64::from(!wanted.is_empty() && untaken == 0));
}

fn identity(field: &'static str, value: Node) -> Network {
    let fields = vec![("name", text("Ada")), (field, value)];
    Network::new(44).with("authPolicies", "default", vec![("name", text("Default"))]).with(
        "identities",
        "i1",
        fields,
    )
}

#[test]
fn fields_that_do_not_fit_are_lost_alone() {
    let wrong_number = "defaultHostingCost: 70000 is not between 0 and 65535; 65535 is taken";
    for (field, value, reason) in [
        ("isAdmin", text("yes"), "isAdmin: it is a text instead of a flag"),
        ("externalId", typed(5, &[0xFF]), "externalId: it is not UTF-8"),
        ("externalId", flag(true), "externalId: it is a flag instead of a text"),
        ("disabledAt", long(5), "disabledAt: it is a number instead of a time"),
        ("disabledAt", typed(6, &[1, 2]), "disabledAt: its bytes are no value"),
        ("disabledAt", bucket(vec![]), "disabledAt: its bytes are no value"),
        ("type", text("Robot"), "type: weft has no \"Robot\"; Default is taken"),
        ("defaultHostingCost", short(70_000), wrong_number),
        (
            "roleAttributes",
            list(&["#a"]),
            "roleAttributes: role attributes may not be empty or begin with # or @: \"#a\"",
        ),
        (
            "permissions",
            list(&["everything"]),
            "permissions: weft has no permission \"everything\"",
        ),
        ("tags", array(vec![]), "tags: it is a list instead of an object"),
        (
            "serviceHostingCosts",
            bucket(vec![("s1", long(-1))]),
            "serviceHostingCosts: -1 for the service s1 is not a number",
        ),
        ("authPolicyId", text("gone"), "authPolicyId: there is no auth policy gone"),
    ] {
        loses(&identity(field, value), "i1", &[reason]);
    }
    loses(&identity("unknownField", text("x")), "i1", &[]);
}

#[test]
fn entities_that_mean_nothing_are_not_taken() {
    let base = || Network::new(44).with_identity("i1", "Ada");
    let cases = [
        (base().with("identities", "x", vec![]), ": it has no name"),
        (base().with("services", "x", vec![("name", text(""))]), ": it has no name"),
        (
            base().with(
                "authenticators",
                "x",
                vec![("method", text("magic")), ("identity", text("i1"))],
            ),
            ": weft has no method \"magic\"",
        ),
        (
            base().with(
                "authenticators",
                "x",
                vec![
                    ("method", text("updb")),
                    ("identity", text("i1")),
                    ("updbUsername", text("u")),
                ],
            ),
            ": it has no hash or no salt: set a new password",
        ),
        (
            base().with(
                "authenticators",
                "x",
                vec![("method", text("cert")), ("identity", text("i1"))],
            ),
            ": it has neither a certificate nor a fingerprint",
        ),
        (
            base().with("enrollments", "x", vec![("method", text("ott")), ("token", text("t"))]),
            ": it is for no identity and no router",
        ),
        (
            base().with("servicePolicies", "x", vec![("name", text("p")), ("type", short(9))]),
            ": weft has no type 9",
        ),
        (
            base().with(
                "servicePolicies",
                "x",
                vec![("name", text("p")), ("identityRoles", list(&["people"]))],
            ),
            ": role entries must be prefixed with # (an attribute) or @ (an id), not \"people\"",
        ),
        (
            base().with("postureChecks", "x", vec![("name", text("c")), ("typeId", text("SMELL"))]),
            ": weft has no type \"SMELL\"",
        ),
        (
            base().with("controllers", "x", vec![("name", text("ctrl"))]),
            ": weft's controllers write entries of their own; the tokens that it signed count until they end",
        ),
        (base().with("revocations", "x", vec![]), ": it has no end"),
    ];
    for (network, reason) in cases {
        loses(&network, "x", &[reason]);
    }
}

#[test]
fn an_entity_whose_id_is_not_utf_8_is_not_taken() {
    let mut network = Network::new(44);
    let services = [[0xFF], [0xFE]].map(|id| (id.to_vec(), bucket(vec![("name", text("s"))])));
    network.root.insert(b"services".to_vec(), Node::Bucket(services.into_iter().collect()));
    let reason = ": its id is not UTF-8";
    loses(&network, "\u{FFFD}", &[reason, reason]);
}

#[test]
fn an_entity_with_endless_fields_is_not_taken() {
    let Node::Bucket(mut fields) = bucket(vec![("name", text("Ada"))]) else { panic!() };
    for number in 0..1_001 {
        fields.insert(format!("f{number}").into_bytes(), flag(true));
    }
    let mut network = Network::new(44).with_identity("i1", "Eve");
    let Some(Node::Bucket(identities)) = network.root.get_mut(b"identities".as_slice()) else {
        panic!("identities")
    };
    identities.insert(b"x".to_vec(), Node::Bucket(fields));
    loses(&network, "x", &[": it has more than 1000 fields"]);
}

#[test]
fn the_second_of_two_entities_with_one_name_is_not_taken() {
    let network = Network::new(44).with("services", "s1", vec![("name", text("same"))]).with(
        "services",
        "s2",
        vec![("name", text("same"))],
    );
    loses(&network, "s2", &[": service s1 has the same name"]);
    let import = import(&network).unwrap();
    assert!(import.snapshot.get::<Service>(&Id::new("s1")).is_some());
    let same = || {
        vec![
            ("method", text("ott")),
            ("token", text("t")),
            ("identity", text("i1")),
            ("expiresAt", time(1)),
        ]
    };
    let network = Network::new(44)
        .with_identity("i1", "Ada")
        .with("enrollments", "e1", same())
        .with("enrollments", "e2", same());
    loses(&network, "e2", &[": enrollment e1 has the same token"]);
}

#[test]
fn references_to_nothing_are_told() {
    let network = Network::new(44).with(
        "terminators",
        "t1",
        vec![("service", text("gone")), ("router", text("lost")), ("binding", text("b"))],
    );
    let import = import(&network).unwrap();
    let reasons = reasons(&import, "t1");
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(reasons[0].contains("there is no service gone"), "{reasons:?}");
}

#[test]
fn a_fingerprint_that_is_not_that_of_the_certificate_is_told() {
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = rcgen::CertificateParams::default().self_signed(&key).unwrap().pem();
    let network = Network::new(44).with_identity("i1", "Ada").with(
        "authenticators",
        "a1",
        vec![
            ("method", text("cert")),
            ("identity", text("i1")),
            ("certFingerprint", text("0000")),
            ("certPem", text(&pem)),
        ],
    );
    let import = import(&network).unwrap();
    let reasons = reasons(&import, "a1");
    assert!(reasons.len() == 1 && reasons[0].starts_with("certFingerprint: 0000 is not that of"));
}

#[test]
fn a_routers_certificate_that_names_somebody_else_is_told() {
    let pem = |name: &str, uris: &[&str]| {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let uri = |uri: &&str| rcgen::SanType::URI((*uri).try_into().unwrap());
        params.subject_alt_names = uris.iter().map(uri).collect();
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
    };
    let own = "spiffe://net/router/r1";
    for (pem, named) in [
        (pem("r1", &[own, "https://r1.example/r2"]), None),
        (pem("r1", &[]), None),
        (pem("r2", &[own]), Some("r2")),
        (pem("r1", &[own, "spiffe://net/router/r2"]), Some("spiffe://net/router/r2")),
        (pem("r1", &["SPIFFE://net/identity/a"]), Some("SPIFFE://net/identity/a")),
        (pem("r1", &["spiffe://net/controller/c"]), Some("spiffe://net/controller/c")),
    ] {
        let fields = vec![("name", text("r")), ("edge", bucket(vec![("certPem", text(&pem))]))];
        let found = import(&Network::new(44).with("routers", "r1", fields)).unwrap();
        let losses = reasons(&found, "r1");
        match named {
            None => assert_eq!(losses, [""; 0]),
            Some(name) => {
                assert!(
                    losses.len() == 1 && losses[0].contains(&format!("names {name:?}")),
                    "{losses:?}"
                );
            }
        }
    }
}

#[test]
fn rights_that_differ_are_told_in_both_directions() {
    let network = |services: &[&str], roles: &[&str]| {
        Network::new(44)
            .with("authPolicies", "default", vec![("name", text("Default"))])
            .with("services", "s1", vec![("name", text("s")), ("edge", bucket(vec![]))])
            .with("identities", "i1", vec![("name", text("Ada")), ("dialServices", list(services))])
            .with(
                "servicePolicies",
                "p1",
                vec![
                    ("name", text("p")),
                    ("identityRoles", list(&["#all"])),
                    ("serviceRoles", list(roles)),
                ],
            )
    };
    loses(&network(&["s1"], &["#all"]), "i1", &[]);
    loses(&network(&[], &[]), "i1", &[]);
    let listed = "dialServices: the database lists s1, which no policy of the identity selects";
    loses(&network(&["s1"], &[]), "i1", &[listed]);
    let selected =
        "dialServices: policies of the identity select s1, which the database does not list";
    loses(&network(&[], &["#all"]), "i1", &[selected]);
}

#[test]
fn losses_are_bounded_and_short() {
    let mut losses = Losses::default();
    for _ in 0..MAX_LOSSES + 5 {
        let (id, name) = ("\u{e4}".repeat(500), String::new());
        losses.add(Loss { kind: "identity", id, name, field: "", reason: String::new() });
    }
    let (listed, unlisted, _) = losses.finish();
    assert_eq!((listed.len(), unlisted), (MAX_LOSSES, 5));
    assert!(listed[0].id.len() <= 203 && listed[0].id.ends_with("..."));
}

#[test]
fn an_identity_without_an_auth_policy_has_the_default_one() {
    let import = import(&identity("isAdmin", flag(false))).unwrap();
    let identity = import.snapshot.get::<Identity>(&Id::new("i1")).unwrap();
    assert_eq!(identity.auth_policy_id.as_str(), "default");
    assert!(import.snapshot.contains(Kind::AuthPolicy, &identity.auth_policy_id));
}
