//! Every kind, with every field that weft keeps.

use weft_model::entity::{
    AuthPolicy, Authenticator, Ca, ClaimLocation, ClaimMatcher, ClaimParser, EdgeRouterPolicy,
    Enrollment, EnrollmentMethod, ExtJwtSigner, Identity, IdentityType, Mfa, PolicyType,
    PostureCheck, Precedence, Revocation, RevocationType, Router, ServicePolicy, TargetToken,
    Terminator,
};
use weft_model::{Id, Kind, Record, Semantic, Timestamp};

use super::import;
use super::network::{Network, array, bucket, flag, list, long, short, text, time};
use super::writer::{Node, Tree};
use crate::Import;

fn one<T: Record>(import: &Import, id: &str) -> T {
    let entity = import.snapshot.get::<T>(&Id::new(id));
    T::clone(entity.unwrap_or_else(|| panic!("no {id}: {:?}", import.losses)))
}

#[track_caller]
pub(super) fn lossless(network: &Network) -> Import {
    let import = import(network).unwrap();
    assert!(import.losses.is_empty(), "{:?}", import.losses);
    import
}

#[test]
fn an_identity_keeps_all_that_weft_has() {
    let network = Network::new(44)
        .with("authPolicies", "strict", vec![("name", text("Strict"))])
        .with("services", "s1", vec![("name", text("s"))])
        .with("configTypes", "t1", vec![("name", text("t"))])
        .with("configs", "c1", vec![("name", text("c")), ("type", text("t1"))])
        .with(
            "identities",
            "i1",
            vec![
                ("name", text("Ada")),
                ("type", text("Router")),
                ("authPolicyId", text("strict")),
                ("externalId", text("ext")),
                ("isAdmin", flag(true)),
                ("isDefaultAdmin", flag(true)),
                ("roleAttributes", list(&["b", "a"])),
                ("permissions", list(&["admin_readonly", "service.read"])),
                ("defaultHostingPrecedence", short(1)),
                ("defaultHostingCost", short(77)),
                ("serviceHostingPrecedences", bucket(vec![("s1", short(2))])),
                ("serviceHostingCosts", bucket(vec![("s1", short(9))])),
                ("appData", bucket(vec![("colour", text("red"))])),
                ("tags", bucket(vec![("team", text("blue"))])),
                ("disabledAt", time(5)),
                ("disabledUntil", time(6)),
                ("serviceConfigs", bucket(vec![("s1", bucket(vec![("t1", text("c1"))]))])),
                ("isSystem", flag(true)),
                ("envInfoOs", text("linux")),
                ("sdkInfoVersion", text("")),
            ],
        );
    let import = lossless(&network);
    let it: Identity = one(&import, "i1");
    assert_eq!((&*it.name, it.identity_type), ("Ada", IdentityType::Router));
    assert_eq!((it.auth_policy_id.as_str(), it.external_id.as_deref()), ("strict", Some("ext")));
    assert!(it.is_admin && it.is_default_admin && it.base.is_system);
    assert_eq!(it.role_attributes, ["a".into(), "b".into()]);
    assert_eq!(it.permissions.len(), 2);
    let service = Id::new("s1");
    assert_eq!(
        (it.default_hosting_precedence, it.default_hosting_cost),
        (Precedence::Required, 77)
    );
    assert_eq!(it.service_hosting_precedences.get(&service), Some(&Precedence::Failed));
    assert_eq!(it.service_hosting_costs.get(&service), Some(&9));
    assert_eq!(it.service_configs[&service].configs[&Id::new("t1")], Id::new("c1"));
    assert_eq!(it.app_data.to_text(), r#"{"colour":"red"}"#);
    assert_eq!(it.base.tags.to_text(), r#"{"team":"blue"}"#);
    assert_eq!(
        (it.disabled_at, it.disabled_until),
        (Some(Timestamp(5_000)), Some(Timestamp(6_000)))
    );
    let times = (it.base.created_at, it.base.updated_at);
    assert_eq!(times, (Timestamp(1_000_000), Timestamp(2_000_000)));
    let reported: Vec<_> = import.reported.iter().map(|it| (it.field, it.count)).collect();
    assert_eq!(reported, [("envInfo", 1)]);
}

#[test]
fn credentials_are_kept() {
    let network = Network::new(44)
        .with_identity("i1", "Ada")
        .with(
            "authenticators",
            "a1",
            vec![
                ("method", text("updb")),
                ("identity", text("i1")),
                ("updbUsername", text("ada")),
                ("updbPassword", text("aGFzaA==")),
                ("updbSalt", text("c2FsdA==")),
            ],
        )
        .with(
            "authenticators",
            "a2",
            vec![
                ("method", text("cert")),
                ("identity", text("i1")),
                ("certFingerprint", text("00ff")),
                ("isIssuedByNetwork", flag(true)),
                ("isExtendRequested", flag(true)),
                ("isKeyRollRequested", flag(true)),
                ("extendRequestedAt", time(7)),
                ("publicKeyPrint", text("pk")),
                ("unverifiedCertPem", text("new")),
                ("unverifiedCertFingerprint", text("ee")),
            ],
        )
        .with(
            "enrollments",
            "e1",
            vec![
                ("method", text("ott")),
                ("token", text("secret")),
                ("identity", text("i1")),
                ("expiresAt", time(9)),
                ("jwt", text("a.b.c")),
            ],
        )
        .with(
            "mfas",
            "m1",
            vec![
                ("identity", text("i1")),
                ("isVerified", flag(true)),
                ("secret", text("MFRGG")),
                ("recoveryCodes", list(&["r1", "r2"])),
            ],
        );
    let import = lossless(&network);
    let updb = one::<Authenticator>(&import, "a1").updb.unwrap();
    assert_eq!((&*updb.username, &*updb.password, &*updb.salt), ("ada", "aGFzaA==", "c2FsdA=="));
    let cert = one::<Authenticator>(&import, "a2").cert.unwrap();
    assert_eq!((&*cert.fingerprint, &*cert.public_key_print), ("00ff", "pk"));
    assert!(cert.is_issued_by_network && cert.is_extend_requested && cert.is_key_roll_requested);
    assert_eq!(cert.extend_requested_at, Some(Timestamp(7_000)));
    assert_eq!((&**cert.unverified_cert_pem, &**cert.unverified_fingerprint), ("new", "ee"));
    let enrollment: Enrollment = one(&import, "e1");
    assert_eq!((enrollment.method, &*enrollment.token), (EnrollmentMethod::Ott, "secret"));
    assert_eq!((enrollment.expires_at, &*enrollment.jwt), (Timestamp(9_000), "a.b.c"));
    let mfa: Mfa = one(&import, "m1");
    assert!(mfa.is_verified && mfa.secret == "MFRGG" && mfa.recovery_codes == ["r1", "r2"]);
}

/// An authority, and a certificate that it signed, as PEM.
pub(super) fn authority() -> (String, String) {
    let params = |name: &str| {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params
    };
    let mut root = params("third");
    root.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root_key = rcgen::KeyPair::generate().unwrap();
    let certificate = root.self_signed(&root_key).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let issuer = rcgen::Issuer::new(root, root_key);
    let leaf = params("leaf").signed_by(&key, &issuer).unwrap();
    (certificate.pem(), leaf.pem())
}

#[test]
fn a_certificate_finds_the_ca_that_issued_it_and_its_fingerprint() {
    let (ca, leaf) = authority();
    let claim = bucket(vec![
        ("externalIdClaim.location", text("SAN_EMAIL")),
        ("externalIdClaim.matcher", text("SUFFIX")),
        ("externalIdClaim.matcherCriteria", text("@corp.example")),
        ("externalIdClaim.parser", text("SPLIT")),
        ("externalIdClaim.parserSeparator", text(".")),
        ("externalIdClaim.index", long(2)),
    ]);
    let network = Network::new(44)
        .with_identity("i1", "Ada")
        .with(
            "cas",
            "ca1",
            vec![
                ("name", text("third")),
                ("certPem", text(&ca)),
                ("isVerified", flag(true)),
                ("verificationToken", text("vt")),
                ("isAutoCaEnrollmentEnabled", flag(true)),
                ("isOttCaEnrollmentEnabled", flag(true)),
                ("isAuthEnabled", flag(true)),
                ("identityRoles", list(&["new"])),
                ("identityNameFormat", text("[caName]")),
                ("externalIdClaim", claim),
            ],
        )
        .with(
            "authenticators",
            "a1",
            vec![("method", text("cert")), ("identity", text("i1")), ("certPem", text(&leaf))],
        );
    let import = lossless(&network);
    let it: Ca = one(&import, "ca1");
    assert!(it.is_verified && it.is_auth_enabled && it.is_auto_ca_enrollment_enabled);
    assert!(it.is_ott_ca_enrollment_enabled && it.fingerprint.len() == 40);
    assert_eq!((&*it.verification_token, &*it.identity_name_format), ("vt", "[caName]"));
    let claim = it.external_id_claim.unwrap();
    assert_eq!((claim.location, claim.matcher), (ClaimLocation::SanEmail, ClaimMatcher::Suffix));
    assert_eq!((claim.parser, claim.index), (ClaimParser::Split, 2));
    let criteria = (&*claim.matcher_criteria, &*claim.parser_criteria);
    assert_eq!(criteria, ("@corp.example", "."));
    let cert = one::<Authenticator>(&import, "a1").cert.unwrap();
    assert_eq!(cert.ca_id, Some(Id::new("ca1")));
    assert_eq!(cert.fingerprint.len(), 40);
}

#[test]
fn auth_policies_signers_and_revocations_are_kept() {
    let network = Network::new(44)
        .with_identity("i1", "Ada")
        .with(
            "authPolicies",
            "p1",
            vec![
                ("name", text("Strict")),
                ("primary.cert.allowed", flag(false)),
                ("primary.updb.minPasswordLength", long(12)),
                ("primary.updb.lockoutDurationMinutes", long(10)),
                ("primary.extJwt.allowedSigners", list(&["j1"])),
                ("secondary.requireTotp", flag(true)),
                ("secondary.requireExtJwtSigner", text("j1")),
            ],
        )
        .with(
            "externalJwtSigners",
            "j1",
            vec![
                ("name", text("issuer")),
                ("issuer", text("https://issuer.example")),
                ("audience", text("weft")),
                ("jwksEndpoint", text("https://issuer.example/keys")),
                ("enabled", flag(true)),
                ("claimsProperty", text("email")),
                ("useExternalId", flag(true)),
                ("scopes", list(&["openid"])),
                ("targetToken", text("ID")),
                ("enrollToCertEnabled", flag(true)),
                ("enrollAuthPolicyId", text("p1")),
            ],
        )
        .with("revocations", "i1", vec![("expiresAt", time(9))])
        .with("revocations", "token", vec![("expiresAt", time(9))])
        .with("revocations", "x", vec![("expiresAt", time(9)), ("type", text("API_SESSION"))]);
    let import = lossless(&network);
    let it: AuthPolicy = one(&import, "p1");
    assert!(!it.cert.allowed && it.cert.allow_expired_certs && it.updb.allowed);
    assert_eq!((it.updb.min_password_length, it.updb.max_attempts), (12, 5));
    assert_eq!((it.updb.lockout_duration_minutes, it.secondary.require_totp), (10, true));
    assert_eq!(it.ext_jwt.allowed_signers, [Id::new("j1")]);
    let it: ExtJwtSigner = one(&import, "j1");
    assert!(it.enabled && it.use_external_id && it.enroll_to_cert_enabled);
    assert_eq!((it.target_token, it.claims_property.as_deref()), (TargetToken::Id, Some("email")));
    assert_eq!(it.enroll_auth_policy_id, Some(Id::new("p1")));
    let kind = |id| one::<Revocation>(&import, id).revocation_type;
    assert_eq!(kind("i1"), RevocationType::Identity);
    assert_eq!((kind("token"), kind("x")), (RevocationType::Jti, RevocationType::ApiSession));
}

#[test]
fn routers_of_three_sorts_and_terminators_are_kept() {
    let edge = bucket(vec![
        ("isVerified", flag(true)),
        ("isTunnelerEnabled", flag(true)),
        ("roleAttributes", list(&["east"])),
        ("appData", bucket(vec![("a", flag(true))])),
    ]);
    let peers = Tree::from([(7_u32.to_le_bytes().to_vec(), Node::Value(vec![1, 2]))]);
    let network = Network::new(44)
        .with("services", "s1", vec![("name", text("s"))])
        .with(
            "routers",
            "r1",
            vec![
                ("name", text("edge")),
                ("fingerprint", text("aa")),
                ("cost", short(40)),
                ("noTraversal", flag(true)),
                ("disabled", flag(true)),
                ("ctrlChanListeners", bucket(vec![("tls:r:1", array(vec![text("g")]))])),
                ("edge", edge),
            ],
        )
        .with(
            "routers",
            "r2",
            vec![
                ("name", text("transit")),
                ("transitRouter", bucket(vec![("isVerified", flag(true))])),
            ],
        )
        .with("routers", "r3", vec![("name", text("fabric")), ("fingerprint", text("bb"))])
        .with(
            "terminators",
            "t1",
            vec![
                ("service", text("s1")),
                ("router", text("r1")),
                ("binding", text("transport")),
                ("address", text("tcp:localhost:80")),
                ("instanceId", text("one")),
                ("instanceSecret", Node::Value(vec![9, 0, 9])),
                ("cost", short(3)),
                ("precedence", text("required")),
                ("savedPrecedence", text("failed")),
                ("hostId", text("i1")),
                ("sourceCtrl", text("ctrl1")),
                ("peerData", Node::Bucket(peers)),
            ],
        );
    let import = lossless(&network);
    let it: Router = one(&import, "r1");
    assert!(it.is_edge && it.is_verified && it.is_tunneler_enabled && it.no_traversal);
    assert!(it.disabled && !it.is_fabric_only);
    assert_eq!((it.cost, it.fingerprint.as_deref()), (40, Some("aa")));
    assert_eq!(it.ctrl_chan_listeners["tls:r:1"].groups, ["g"]);
    let it: Router = one(&import, "r2");
    assert!(!it.is_edge && it.is_verified && !it.is_fabric_only);
    let it: Router = one(&import, "r3");
    assert!(!it.is_edge && it.is_verified && it.is_fabric_only);
    let it: Terminator = one(&import, "t1");
    assert_eq!((&*it.binding, &*it.address), ("transport", "tcp:localhost:80"));
    assert_eq!((it.cost, it.precedence), (3, Precedence::Required));
    assert_eq!((it.saved_precedence, it.host_id.as_str()), (Some(Precedence::Failed), "i1"));
    assert_eq!(
        &*it.source_ctrl, "",
        "weft's controller does not know the session in which it began"
    );
    assert_eq!((&it.instance_secret[..], &it.peer_data[&7][..]), (&[9, 0, 9][..], &[1, 2][..]));
}

#[test]
fn policies_are_kept_and_decide_as_the_database_lists() {
    let services = || list(&["s1"]);
    let network = Network::new(48)
        .with("authPolicies", "default", vec![("name", text("Default"))])
        .with("services", "s1", vec![("name", text("s")), ("roleAttributes", list(&["web"]))])
        .with(
            "routers",
            "r1",
            vec![("name", text("r")), ("edge", bucket(vec![("isVerified", flag(true))]))],
        )
        .with(
            "identities",
            "i1",
            vec![
                ("name", text("Ada")),
                ("roleAttributes", list(&["people"])),
                ("dialServices", services()),
                ("bindServices", list(&[])),
                ("routers", list(&["r1"])),
            ],
        )
        .with(
            "servicePolicies",
            "p1",
            vec![
                ("name", text("dial")),
                ("type", short(1)),
                ("semantic", text("anyof")),
                ("identityRoles", list(&["#people", "#none"])),
                ("serviceRoles", list(&["@s1"])),
            ],
        )
        .with("servicePolicies", "p2", vec![("name", text("bind")), ("type", short(2))])
        .with(
            "edgeRouterPolicies",
            "p3",
            vec![
                ("name", text("routers")),
                ("identityRoles", list(&["#all"])),
                ("edgeRouterRoles", list(&["#all"])),
            ],
        )
        .with("serviceEdgeRouterPolicies", "p4", vec![("name", text("over"))]);
    let import = lossless(&network);
    let it: ServicePolicy = one(&import, "p1");
    assert_eq!((it.policy_type, it.semantic), (PolicyType::Dial, Semantic::AnyOf));
    assert_eq!(it.identity_roles.to_strings(), ["#none", "#people"]);
    assert_eq!(one::<ServicePolicy>(&import, "p2").policy_type, PolicyType::Bind);
    assert!(one::<EdgeRouterPolicy>(&import, "p3").identity_roles.all);
    assert!(import.snapshot.contains(Kind::ServiceEdgeRouterPolicy, &Id::new("p4")));
}

fn check(kind: &'static str, values: Node) -> PostureCheck {
    let fields = vec![
        ("name", text("check")),
        ("typeId", text(kind)),
        ("version", long(3)),
        ("roleAttributes", list(&["pc"])),
        (kind, values),
    ];
    let import = lossless(&Network::new(44).with("postureChecks", "c1", fields));
    let it: PostureCheck = one(&import, "c1");
    assert_eq!((it.version, it.role_attributes.len()), (3, 1));
    it
}

#[test]
fn posture_checks_of_every_type_are_kept() {
    let os = bucket(vec![("osType", text("Windows")), ("osVersions", list(&[">10"]))]);
    let it = check("OS", bucket(vec![("Windows", os)]));
    assert_eq!(it.operating_systems[0].os_type, "Windows");
    assert_eq!(it.operating_systems[0].versions, [">10"]);
    let it = check("DOMAIN", bucket(vec![("domains", list(&["a.example", "b.example"]))]));
    assert_eq!(it.domains.len(), 2);
    let it = check("MAC", bucket(vec![("macAddresses", list(&["AA-bb-00-11-22-33"]))]));
    assert_eq!(it.mac_addresses, ["aabb00112233"]);
    let mfa = vec![("timeoutSeconds", long(600)), ("promptOnWake", flag(true))];
    let it = check("MFA", bucket(mfa));
    assert!(it.mfa.timeout_seconds == 600 && it.mfa.prompt_on_wake && !it.mfa.prompt_on_unlock);
    let it = check("MFA", bucket(vec![("timeoutSeconds", long(0))]));
    assert_eq!(it.mfa.timeout_seconds, -1);
    let process = || vec![("path", text("/bin/a")), ("hashes", list(&["aa"]))];
    let mut single = process();
    single.extend([("os", text("Linux")), ("fingerprint", text("ff"))]);
    let it = check("PROCESS", bucket(single));
    assert_eq!(it.processes.processes[0].signer_fingerprints, ["ff"]);
    let mut several = process();
    several.extend([("osType", text("Linux")), ("signerFingerprints", list(&["ff", "ee"]))]);
    let several = bucket(vec![("Linux-/bin/a", bucket(several))]);
    let values = vec![("semantic", text("AnyOf")), ("processes", several)];
    let it = check("PROCESS_MULTI", bucket(values));
    assert_eq!(it.processes.semantic, Semantic::AnyOf);
    assert_eq!(it.processes.processes[0].signer_fingerprints.len(), 2);
}
