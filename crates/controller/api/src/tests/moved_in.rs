//! Sessions that a controller of OpenZiti began: their tokens go on here (docs/protocol/auth.md 16.1).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::Method;
use serde_json::{Value, json};
use weft_auth::keyring::note_of_earlier_signer;
use weft_auth::service_session::{Checked, Refusal, RefusalCode};
use weft_config::controller::StoreCheck;
use weft_controller::Settings;
use weft_identity::token::TokenSigner;
use weft_identity::{
    Authority, AuthoritySpec, Certificate, KeyAlgorithm, KeyPurpose, KeyedChain, Leaf, PrivateKey,
    SubjectName,
};
use weft_kernel::clock::{Clock as _, ManualClock, SystemClock};
use weft_kernel::online::{RouterFacts, RouterVersion};
use weft_model::Id;
use weft_model::entity::{Authenticator, Identity, PolicyType};

use super::oidc::{
    ACCESS, ID, Program, REFRESH, claims, enrolled, one_time_code, text, with_provider,
};
use super::{Bed, CLIENT, MANAGEMENT, csr, send};
use crate::ApiLimits;

const SOON: Duration = Duration::from_secs(20);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A network that has just been moved, and the key with which its controller signed before.
struct Moved {
    bed: Bed,
    clock: Arc<ManualClock>,
    /// When weft first started, in seconds.
    begun: i64,
    signer: TokenSigner,
    /// The key of another member of its cluster.
    other: TokenSigner,
}

/// Which of the two tokens of a login.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Access,
    Refresh,
}

/// A certificate below an authority, and its key.
fn signer_below(root: &Authority, algorithm: KeyAlgorithm) -> (Certificate, PrivateKey) {
    let key = PrivateKey::generate(algorithm).unwrap();
    let (name, now) = (SubjectName::common_name("old"), SystemTime::now());
    let leaf = Leaf::for_key(key.public(), &name, Vec::new(), KeyPurpose::Both, now).unwrap();
    (root.issue(&leaf).unwrap(), key)
}

impl Moved {
    async fn new(algorithm: KeyAlgorithm) -> Self {
        Self::some_time_ago(algorithm, Duration::ZERO).await
    }

    /// A network that was moved so long ago.
    async fn some_time_ago(algorithm: KeyAlgorithm, ago: Duration) -> Self {
        Self::changed(algorithm, ago, |_| {}).await
    }

    async fn changed(
        algorithm: KeyAlgorithm,
        ago: Duration,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let clock = Arc::new(ManualClock::at(SystemClock.now()));
        clock.turn_back(ago);
        let root = Authority::make_root(&AuthoritySpec::new("old"), SystemTime::now()).unwrap();
        let (leaf, key) = signer_below(&root, algorithm);
        // Another member of its cluster.
        let (second, other_key) = signer_below(&root, KeyAlgorithm::EcP256);
        let notes = [&leaf, &second].map(|leaf| note_of_earlier_signer(leaf).unwrap());
        let (own, limits) = (Arc::clone(&clock), (ApiLimits::default(), StoreCheck::default()));
        let session = KeyedChain::new(vec![leaf.clone()], key.clone()).unwrap();
        let bed = Bed::changed(with_provider(), limits, |settings| {
            settings.first_keys.session = session;
            change(settings);
            settings.clock = own;
            for (space, note, value) in notes {
                settings.store.live().put_note(space, &note, Some(value));
            }
        })
        .await;
        let signer = TokenSigner::with_kid(key, leaf.fingerprint()).unwrap();
        let other = TokenSigner::with_kid(other_key, second.fingerprint()).unwrap();
        let begun = clock.now().secs();
        clock.advance(ago);
        Self { bed, clock, begun, signer, other }
    }

    /// The claims of a token of the original for the administrator, who logged in with a password a minute ago.
    fn claims(&self, session: &str, kind: Kind) -> Value {
        let snapshot = self.bed.controller.kernel().snapshot();
        let admin = snapshot.list::<Identity>().find(|it| it.is_default_admin).unwrap();
        let own = snapshot.referring::<Authenticator>(0, &admin.base.id).next().unwrap();
        self.claims_of((admin.base.id.as_str(), own.base.id.as_str()), session, kind)
    }

    fn claims_of(
        &self,
        (identity, authenticator): (&str, &str),
        session: &str,
        kind: Kind,
    ) -> Value {
        let issued = self.begun - 60;
        let (letter, life) = match kind {
            Kind::Access => ("a", 1800),
            Kind::Refresh => ("r", 24 * 3600),
        };
        json!({
            "iss": "https://ctrl.example:1280/oidc", "sub": identity, "aud": ["native"],
            "exp": issued + life, "iat": issued, "nbf": issued, "auth_time": issued - 5,
            "jti": format!("{session}-1"), "amr": ["password"], "client_id": "native",
            "scopes": ["openid", "offline_access"], "z_asid": session, "z_t": letter,
            "z_ia": true, "z_aid": "native", "z_cfs": null, "z_authid": authenticator,
            "z_sdk": {"type": "ziti-sdk-golang", "version": "v1.7.0", "appId": "a\u{1}pp"},
            "z_env": null, "z_ra": "192.0.2.9:5151", "z_ice": true, "z_cer": false,
            "z_ckrr": false, "z_iccc": false
        })
    }

    fn token(&self, session: &str, kind: Kind) -> String {
        self.signer.sign(&self.claims(session, kind)).unwrap()
    }

    /// A token with another claim.
    fn with(&self, session: &str, kind: Kind, name: &str, value: Value) -> String {
        let mut claims = self.claims(session, kind);
        claims[name] = value;
        self.signer.sign(&claims).unwrap()
    }

    async fn opens(&self, token: &str) -> bool {
        Program::new(&self.bed, None).get("/current-identity", token).await.status == 200
    }

    /// The answer to a refresh: a status, and the error if there is one.
    async fn refreshed(&self, token: &str) -> Result<Value, String> {
        let seen = Program::new(&self.bed, None).refresh(token).await;
        let answer = seen.json();
        match seen.status {
            200 => Ok(answer),
            _ => Err(text(&answer, "error").to_owned()),
        }
    }

    fn revoked() -> Result<Value, String> {
        Err("invalid_grant".to_owned())
    }
}

#[tokio::test]
async fn tokens_of_the_original_go_on_as_a_session_of_weft() {
    for algorithm in [KeyAlgorithm::EcP256, KeyAlgorithm::EcP384, KeyAlgorithm::Rsa { bits: 2048 }]
    {
        let moved = Moved::new(algorithm).await;
        let program = Program::new(&moved.bed, None);
        let (access, refresh) = (moved.token("s1", Kind::Access), moved.token("s1", Kind::Refresh));
        let shown = program.get(&format!("{CLIENT}/current-api-session"), &access).await.data();
        assert_eq!((&shown["id"], &shown["ipAddress"]), (&json!("s1"), &json!("192.0.2.9")));
        // The SDK of a login, as clean as a login would keep it.
        let listed = program.get(&format!("{MANAGEMENT}/api-sessions/s1"), &access).await.data();
        assert_eq!(listed["authenticatorId"], moved.claims("s1", Kind::Access)["z_authid"]);
        // Two exchanges of one token, as Go SDKs refresh.
        let next = program.exchange(&refresh, REFRESH, REFRESH).await.json();
        let own = claims(text(&next, "access_token"));
        assert_eq!(
            (text(&own, "z_asid"), &own["auth_time"]),
            ("s1", &moved.claims("s1", Kind::Access)["auth_time"])
        );
        assert_eq!(own["z_sdk"]["appId"], "a pp");
        let by_access = program.exchange(&access, ACCESS, ACCESS).await;
        assert_eq!(by_access.status, 200, "{by_access:?}");
        assert!(moved.opens(text(&next, "access_token")).await && moved.opens(&access).await);
        let last = moved.refreshed(text(&next, "refresh_token")).await.unwrap();
        // It outlives the last token of the original.
        moved.clock.advance(DAY - MINUTE);
        let last = moved.refreshed(text(&last, "refresh_token")).await.unwrap();
        moved.clock.advance(DAY - MINUTE);
        assert!(moved.refreshed(text(&last, "refresh_token")).await.is_ok());
        assert!(!moved.opens(&access).await);
    }
}

/// A service and a router, which everybody may use.
struct Reachable {
    service: String,
    router: Id,
}

impl Moved {
    /// `more` is merged into both service policies.
    async fn reachable(&self, more: Value) -> Reachable {
        let (admin, all) = (self.bed.admin().await, json!(["#all"]));
        let router = admin.create("edge-routers", json!({"name": "er1"})).await;
        let service = json!({"name": "web", "encryptionRequired": true});
        let service = admin.create("services", service).await;
        let roles = [
            ("edge-router-policies", "identityRoles"),
            ("service-edge-router-policies", "serviceRoles"),
        ];
        for (kind, whose) in roles {
            let policy =
                json!({"name": "all", "semantic": "AnyOf", whose: all, "edgeRouterRoles": all});
            admin.create(kind, policy).await;
        }
        for kind in ["Dial", "Bind"] {
            let mut policy = json!({"name": kind, "type": kind, "semantic": "AnyOf", "identityRoles": all,
                "serviceRoles": all});
            for (member, value) in more.as_object().into_iter().flatten() {
                policy[member] = value.clone();
            }
            admin.create("service-policies", policy).await;
        }
        Reachable { service, router: Id::new(&router) }
    }

    /// The claims of a service token of the original in the session `s1`.
    fn service_claims(&self, service: &str) -> Value {
        let issued = self.begun - 60;
        json!({"iss": self.bed.controller.auth().issuer(), "sub": service, "aud": ["openziti"], "iat": issued,
            "exp": issued + 24 * 3600, "jti": "service-1", "z_asid": "s1", "z_t": "s", "z_st": "Dial",
            "z_iid": self.claims("s1", Kind::Access)["sub"], "z_leg": false})
    }

    /// What the controller answers a router whose client shows the access token of `s1` and this service token.
    fn dial(&self, at: &Reachable, service_token: &str) -> Result<Checked, Refusal> {
        let (auth, access) = (self.bed.controller.auth(), self.token("s1", Kind::Access));
        auth.check_service_session(&at.router, &access, service_token, PolicyType::Dial)
    }

    /// The router connects, with a program of this version and these capabilities.
    fn connect(&self, at: &Reachable, version: &str, capabilities: u64) {
        let version = RouterVersion { version: version.to_owned(), ..RouterVersion::default() };
        let facts = RouterFacts { version, capabilities, ..RouterFacts::default() };
        self.bed.controller.kernel().online().put_router(&at.router, 1, facts);
    }
}

#[tokio::test]
async fn service_tokens_of_the_original_go_on_in_their_session() {
    let moved = Moved::new(KeyAlgorithm::EcP256).await;
    let net = moved.reachable(json!({})).await;
    let claims = moved.service_claims(&net.service);
    let with = |name: &str, value: Value| {
        let mut claims = claims.clone();
        claims[name] = value;
        moved.signer.sign(&claims).unwrap()
    };
    let token = moved.signer.sign(&claims).unwrap();
    let first = moved.dial(&net, &token).unwrap();
    assert_eq!(first.service.base.id, net.service.as_str());
    // The same one again, and one of another member of its cluster.
    let again = moved.other.sign(&claims).unwrap();
    for token in [&token, &again] {
        assert_eq!(moved.dial(&net, token).unwrap().session, first.session);
    }
    let own = moved.bed.controller.auth().sign(&claims).unwrap();
    let refused = [
        ("issued after weft started", with("iat", json!(moved.begun + 60))),
        ("of another session", with("z_asid", json!("s2"))),
        ("of another identity", with("z_iid", json!("nobody"))),
        ("an unknown service", with("sub", json!("none"))),
        ("of weft", own),
    ];
    for (why, token) in &refused {
        let refusal = moved.dial(&net, token).unwrap_err();
        assert_eq!(refusal.code, RefusalCode::InvalidSession, "{why}");
    }
    // C SDKs ask for the routers of a service with it, also before they have dialed with it.
    let auth = moved.bed.controller.auth();
    for (token, is_own) in [
        (&token, true),
        (&with("jti", json!("service-2")), true),
        (&with("z_asid", json!("s2")), false),
        (&refused[0].1, false),
        (&refused[4].1, false),
    ] {
        assert_eq!(auth.own_service_session("s1", token).is_ok(), is_own);
    }
    let bind = moved.dial(&net, &with("z_st", json!("Bind"))).unwrap_err();
    assert_eq!(bind.code, RefusalCode::WrongSessionType);
    // It gives no right: without the policy there is none.
    let admin = moved.bed.admin().await;
    let listed = admin.get(&format!("{MANAGEMENT}/service-policies?filter=name=%22Dial%22")).await;
    let path = format!("{MANAGEMENT}/service-policies/{}", text(&listed.data()[0], "id"));
    assert_eq!(admin.call(Method::DELETE, &path, &Value::Null).await.status, 200);
    assert_eq!(moved.dial(&net, &token).unwrap_err().code, RefusalCode::InvalidSession);
}

#[tokio::test]
async fn routers_of_the_original_judge_posture_that_the_controller_is_not_told() {
    let moved = Moved::new(KeyAlgorithm::EcP256).await;
    let admin = moved.bed.admin().await;
    let os = json!({"name": "os", "typeId": "OS", "roleAttributes": ["strict"],
        "operatingSystems": [{"type": "Linux", "versions": []}]});
    admin.create("posture-checks", os).await;
    let net = moved.reachable(json!({"postureCheckRoles": ["#strict"]})).await;
    let token = moved.signer.sign(&moved.service_claims(&net.service)).unwrap();
    let program = Program::new(&moved.bed, None);
    let access = moved.token("s1", Kind::Access);
    let ask = json!({"serviceId": net.service, "type": "Dial"});
    // The bit by which routers of weft are known (docs/protocol/control-plane.md 30).
    let weft = 1 << 40;
    for (version, capabilities, is_let) in
        [("v2.0.3", 0, true), ("v2.1.0", 0, true), ("v1.6.5", 0, false), ("v2.1.0", weft, false)]
    {
        moved.connect(&net, version, capabilities);
        let wanted = program.request(Method::POST, &format!("{CLIENT}/sessions"));
        let made = send(wanted.bearer_auth(&access).json(&ask)).await;
        assert_eq!(made.status, if is_let { 201 } else { 409 }, "{version} {made:?}");
        assert_eq!(moved.dial(&net, &token).is_ok(), is_let, "{version}");
    }
    // What a client tells the controller counts, whatever its routers are.
    moved.connect(&net, "v2.0.3", 0);
    for (system, is_let) in [("Windows", false), ("Linux", true)] {
        let told = json!({"id": "x", "typeId": "OS", "type": system, "version": "1.0.0"});
        let told = program.request(Method::POST, &format!("{CLIENT}/posture-response")).json(&told);
        assert_eq!(send(told.bearer_auth(&access)).await.status, 201);
        assert_eq!(moved.dial(&net, &token).is_ok(), is_let, "{system}");
    }
}

/// The name of the key that signed a token.
fn kid(token: &str) -> String {
    weft_identity::token::peek::<Value>(token).unwrap().0.kid.unwrap()
}

#[tokio::test]
async fn tokens_are_signed_as_before_until_routers_know_the_new_keys() {
    let change = |settings: &mut Settings| settings.routers_learn_for = HOUR;
    for algorithm in [KeyAlgorithm::EcP256, KeyAlgorithm::EcP384, KeyAlgorithm::Rsa { bits: 2048 }]
    {
        let moved = Moved::changed(algorithm, Duration::ZERO, change).await;
        let known = moved.signer.kid();
        let first = moved.refreshed(&moved.token("s1", Kind::Refresh)).await.unwrap();
        let login = Program::new(&moved.bed, None).by_password().await;
        for given in [&first, &login] {
            let names = ["access_token", "refresh_token"].map(|name| kid(text(given, name)));
            assert_eq!(names, [known, known]);
            assert_ne!(
                kid(text(given, "id_token")),
                known,
                "clients know it by the published keys"
            );
            assert!(moved.opens(text(given, "access_token")).await);
        }
        let second = moved.refreshed(text(&first, "refresh_token")).await.unwrap();
        assert_eq!(kid(text(&second, "access_token")), known);

        moved.clock.advance(HOUR - MINUTE);
        let last = moved.refreshed(text(&second, "refresh_token")).await.unwrap();
        assert_eq!(kid(text(&last, "access_token")), known);
        moved.clock.advance(MINUTE);
        // Tokens with that key are good until they end.
        assert!(moved.opens(text(&last, "access_token")).await);
        for refresh in [&last, &login] {
            let own = moved.refreshed(text(refresh, "refresh_token")).await.unwrap();
            assert_ne!(kid(text(&own, "access_token")), known);
            assert!(moved.opens(text(&own, "access_token")).await);
        }
    }
}

#[tokio::test]
async fn a_former_key_that_was_stolen_signs_no_more() {
    let change = |settings: &mut Settings| settings.routers_learn_for = HOUR;
    // By its name, or as the one that signs.
    for is_named in [true, false] {
        let moved = Moved::changed(KeyAlgorithm::EcP256, Duration::ZERO, change).await;
        let before = Program::new(&moved.bed, None).by_password().await;
        assert_eq!(kid(text(&before, "access_token")), moved.signer.kid());
        let admin = moved.bed.admin().await;
        let listed = admin.get("/weft/v1/token-keys").await.data();
        let own = |key: &&Value| key["id"] == moved.signer.kid();
        let shown = listed["keys"].as_array().unwrap().iter().find(own).unwrap();
        assert_eq!(shown["stage"], "signing");
        let mut body = json!({"stolen": true});
        if is_named {
            body["key"] = json!(moved.signer.kid());
        }
        let seen = admin.call(Method::POST, "/weft/v1/token-keys/roll", &body).await;
        assert_eq!(seen.status, 200);
        let dropped = seen.data()["dropped"].as_array().unwrap().len();
        assert_eq!(dropped, if is_named { 1 } else { 3 }, "with the signing one and the next");
        assert!(moved.refreshed(text(&before, "refresh_token")).await.is_err());
        let after = Program::new(&moved.bed, None).by_password().await;
        assert_ne!(kid(text(&after, "access_token")), moved.signer.kid());
    }
}

#[tokio::test]
async fn a_key_signs_as_before_soon_after_the_first_start_only() {
    for (ago, is_former) in [(MINUTE, true), (HOUR, false)] {
        let change = |settings: &mut Settings| settings.routers_learn_for = HOUR;
        let moved = Moved::changed(KeyAlgorithm::EcP256, ago, change).await;
        let login = Program::new(&moved.bed, None).by_password().await;
        assert_eq!(kid(text(&login, "access_token")) == moved.signer.kid(), is_former, "{ago:?}");
    }
}

#[tokio::test]
async fn what_the_original_exchanged_goes_on_as_what_it_gave_at_the_login() {
    // Go SDKs ask for an empty scope, which the original signs; others for none.
    for (has_factor, scopes) in
        [(false, Value::Null), (false, json!([""])), (true, Value::Null), (true, json!([""]))]
    {
        let moved = Moved::new(KeyAlgorithm::EcP256).await;
        let program = Program::new(&moved.bed, None);
        if has_factor {
            // Before the move, and within the time for which a code is good.
            moved.clock.turn_back(SOON);
            second_factor(&moved.bed).await;
            moved.clock.advance(SOON);
        }
        let exchanged = |kind| {
            let mut claims = moved.claims("s1", kind);
            claims["scopes"] = scopes.clone();
            claims["amr"] = Value::Null;
            moved.signer.sign(&claims).unwrap()
        };
        let (access, refresh) = (exchanged(Kind::Access), exchanged(Kind::Refresh));
        assert_eq!(program.get("/current-identity", &access).await.status, 200);
        // Two exchanges, as Go SDKs refresh.
        let next = program.exchange(&refresh, REFRESH, REFRESH).await;
        assert_eq!(next.status, 200, "{next:?}");
        let next = next.json();
        let id = program.exchange(&refresh, REFRESH, ID).await;
        assert_eq!(id.status, 200, "{id:?}");
        let own = claims(text(&next, "access_token"));
        assert_eq!(
            (&own["amr"], &own["scopes"]),
            (&json!(["password"]), &json!(["openid", "offline_access"]))
        );
        let last = moved.refreshed(text(&next, "refresh_token")).await.unwrap();
        assert!(moved.opens(text(&last, "access_token")).await);
        // A further exchanged token of the session that is known by now.
        let seen = program.exchange(&access, ACCESS, ACCESS).await;
        assert_eq!(seen.status, 200, "{seen:?}");
        let seen = program.get("/oidc/userinfo", &access).await;
        assert_eq!(seen.status, 200, "{seen:?}");
    }
}

#[tokio::test]
async fn a_second_factor_that_is_younger_than_a_token_is_asked_for() {
    let moved = Moved::some_time_ago(KeyAlgorithm::EcP256, MINUTE).await;
    let exchanged = |session, amr: Value| {
        let mut claims = moved.claims(session, Kind::Refresh);
        (claims["scopes"], claims["amr"]) = (Value::Null, amr);
        moved.signer.sign(&claims).unwrap()
    };
    assert!(moved.refreshed(&exchanged("before", Value::Null)).await.is_ok());
    second_factor(&moved.bed).await;
    for amr in [Value::Null, json!(["password"]), json!(["password", "totp"])] {
        assert_eq!(moved.refreshed(&exchanged("after", amr)).await, Moved::revoked());
    }
}

#[tokio::test]
async fn no_token_of_the_original_begins_a_session_when_all_of_them_have_ended() {
    let moved = Moved::new(KeyAlgorithm::EcP256).await;
    let lasting =
        |session| moved.with(session, Kind::Refresh, "exp", json!(moved.begun + 10 * 24 * 3600));
    assert!(moved.refreshed(&lasting("s1")).await.is_ok(), "not yet");
    // Whoever has the key makes tokens that last for longer, for anybody.
    moved.clock.advance(DAY + MINUTE);
    assert_eq!(moved.refreshed(&lasting("s2")).await, Moved::revoked());
}

#[tokio::test]
async fn tokens_of_one_session_may_be_of_different_members() {
    let moved = Moved::new(KeyAlgorithm::EcP256).await;
    assert!(moved.opens(&moved.token("s1", Kind::Access)).await);
    let refresh = moved.other.sign(&moved.claims("s1", Kind::Refresh)).unwrap();
    assert!(moved.refreshed(&refresh).await.is_ok());
    assert!(moved.opens(&moved.token("s1", Kind::Access)).await);
    let forged = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let forged = TokenSigner::with_kid(forged, moved.signer.kid()).unwrap();
    assert!(!moved.opens(&forged.sign(&moved.claims("s1", Kind::Access)).unwrap()).await);
}

/// Gives the administrator a second factor.
async fn second_factor(bed: &Bed) {
    let admin = bed.admin().await;
    let path = format!("{CLIENT}/current-identity/mfa");
    let seen = admin.call(Method::POST, &path, &json!({})).await;
    assert_eq!(seen.status, 201, "{seen:?}");
    let begun = admin.get(&path).await.data();
    let code = one_time_code(text(&begun, "provisioningUrl"));
    let seen = admin.call(Method::POST, &format!("{path}/verify"), &json!({"code": code})).await;
    assert_eq!(seen.status, 200, "{seen:?}");
}

#[tokio::test]
async fn a_refresh_token_of_the_original_is_taken_once() {
    let moved = Moved::new(KeyAlgorithm::EcP256).await;
    let refresh = moved.token("s1", Kind::Refresh);
    // Several processes have the same file.
    let same = futures::future::join_all((0..8).map(|_| moved.refreshed(&refresh))).await;
    let number = |tokens: &Value| claims(text(tokens, "refresh_token"))["jti"].clone();
    let first = same[0].clone().unwrap();
    assert!(same.iter().all(|it| number(it.as_ref().unwrap()) == number(&first)));
    assert!(moved.opens(text(&first, "access_token")).await);
    moved.clock.advance(2 * MINUTE);
    assert_eq!(moved.refreshed(&refresh).await, Moved::revoked(), "somebody has a copy");
    assert!(!moved.opens(text(&first, "access_token")).await, "and the session has ended");
    // Nor does it come back, however the revocations are told.
    let kept = moved.token("s1", Kind::Refresh);
    for _ in 0..4 {
        moved.clock.advance(6 * 60 * MINUTE - MINUTE);
        assert_eq!(moved.refreshed(&refresh).await, Moved::revoked());
        assert_eq!(moved.refreshed(&kept).await, Moved::revoked());
    }
}

#[tokio::test]
async fn what_ended_before_or_after_it_was_shown_stays_ended() {
    let moved = Moved::new(KeyAlgorithm::EcP256).await;
    let program = Program::new(&moved.bed, None);
    // A logout.
    let (access, refresh) = (moved.token("s1", Kind::Access), moved.token("s1", Kind::Refresh));
    let end = program.request(Method::DELETE, "/current-api-session").bearer_auth(&access);
    assert_eq!(send(end).await.status, 200);
    assert!(!moved.opens(&access).await);
    // A token that is given back, of which nobody had seen anything.
    let given = moved.token("s2", Kind::Refresh);
    let form = [("token", given.as_str()), ("client_id", "native")];
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    let back = program.request(Method::POST, "/oidc/revoke");
    let back = back.header("content-type", "application/x-www-form-urlencoded").body(body);
    assert_eq!(send(back).await.status, 200);
    assert!(!moved.opens(&moved.token("s2", Kind::Access)).await);
    for _ in 0..3 {
        for token in [&refresh, &given] {
            assert_eq!(moved.refreshed(token).await, Moved::revoked());
        }
        moved.clock.advance(7 * 60 * MINUTE);
    }
}

#[tokio::test]
async fn a_session_of_the_original_that_would_not_be_good_here_is_not_made() {
    let moved = Moved::new(KeyAlgorithm::EcP256).await;
    let now = moved.begun;
    let wrong = |name: &str, value: Value| moved.with("s1", Kind::Refresh, name, value);
    let refused = [
        ("issued after weft started", wrong("iat", json!(now + 60))),
        ("a token of weft", wrong("z_rn", json!(1))),
        ("an unknown identity", wrong("sub", json!("nobody"))),
        ("an unknown authenticator", wrong("z_authid", json!("none"))),
        ("no session", wrong("z_asid", json!(""))),
        ("an access token as a refresh token", moved.token("s1", Kind::Access)),
        ("another program's", wrong("client_id", json!("openziti"))),
        ("expired", wrong("exp", json!(now - 1))),
    ];
    for (why, token) in refused {
        assert_eq!(moved.refreshed(&token).await, Moved::revoked(), "{why}");
    }
    let good = moved.token("s2", Kind::Refresh);
    assert!(moved.refreshed(&good).await.is_ok());
}

#[tokio::test]
async fn a_changed_password_and_a_disabled_identity_end_what_was_not_shown_yet() {
    let moved = Moved::new(KeyAlgorithm::EcP256).await;
    let admin = moved.bed.admin().await;
    let mut known = Vec::new();
    moved.clock.turn_back(HOUR);
    for name in ["anna", "berta", "carla"] {
        let body = json!({"name": name, "type": "User", "isAdmin": false});
        let id = admin.create("identities", body).await;
        let body = json!({"identityId": id, "method": "updb", "username": name, "password": "alt-und-gut"});
        let authenticator = admin.create("authenticators", body).await;
        known.push((id, authenticator));
    }
    moved.clock.advance(HOUR + MINUTE);
    let [ann, bob, cid] = [0, 1, 2].map(|of: usize| {
        let (identity, authenticator) = &known[of];
        let claims = moved.claims_of((identity, authenticator), &format!("s{of}"), Kind::Refresh);
        moved.signer.sign(&claims).unwrap()
    });
    let path = format!("{MANAGEMENT}/authenticators/{}", known[1].1);
    let seen = admin.call(Method::PATCH, &path, &json!({"password": "neu-und-gut"})).await;
    assert_eq!(seen.status, 200, "{seen:?}");
    let path = format!("{MANAGEMENT}/identities/{}", known[2].0);
    for step in ["disable", "enable"] {
        let body = json!({"durationMinutes": 1});
        let seen = admin.call(Method::POST, &format!("{path}/{step}"), &body).await;
        assert_eq!(seen.status, 200, "{seen:?}");
    }
    assert!(moved.refreshed(&ann).await.is_ok());
    assert_eq!(moved.refreshed(&bob).await, Moved::revoked());
    assert_eq!(moved.refreshed(&cid).await, Moved::revoked());
}

#[tokio::test]
async fn a_token_that_names_a_certificate_is_of_no_use_without_its_key() {
    let moved = Moved::new(KeyAlgorithm::EcP256).await;
    moved.clock.turn_back(HOUR);
    let chain: KeyedChain = enrolled(&moved.bed).await;
    moved.clock.advance(HOUR);
    let print = chain.leaf().fingerprint();
    let snapshot = moved.bed.controller.kernel().snapshot();
    let of_chain =
        |it: &&Arc<Authenticator>| it.cert.as_ref().is_some_and(|it| *it.fingerprint == *print);
    let own = snapshot.list::<Authenticator>().find(of_chain).unwrap();
    let ids = (own.identity_id.as_str(), own.base.id.as_str());
    let signer =
        Certificate::fingerprint(moved.bed.controller.auth().keys().authority.certificate())
            .to_owned();
    // What 2.0 names, and the whole chain, as 1.6 does.
    let admin = moved.claims("s3", Kind::Access);
    let with_password = (text(&admin, "sub"), text(&admin, "z_authid"));
    let named = [
        ("s1", ids, json!([print]), print, "cert"),
        ("s2", ids, json!([print, signer]), "", "cert"),
        // A certificate that was made for the session of a password.
        ("s3", with_password, json!([print]), "", "password"),
    ];
    for (session, ids, prints, of_login, method) in named {
        let sign = |kind| {
            let mut claims = moved.claims_of(ids, session, kind);
            claims["z_cfs"] = prints.clone();
            claims["z_acf"] = json!(of_login);
            claims["amr"] = json!([method]);
            moved.signer.sign(&claims).unwrap()
        };
        let (access, refresh) = (sign(Kind::Access), sign(Kind::Refresh));
        assert!(!moved.opens(&access).await);
        assert!(moved.refreshed(&refresh).await.is_err());
        let program = Program::new(&moved.bed, Some(&chain));
        assert_eq!(program.get("/current-identity", &access).await.status, 200);
        let next = program.refresh(&refresh).await.json();
        let own = claims(text(&next, "access_token"));
        let of_login = if method == "cert" { json!(print) } else { Value::Null };
        assert_eq!((&own["z_cfs"], &own["z_acf"]), (&json!([print]), &of_login), "{session}");
        assert!(moved.refreshed(text(&next, "refresh_token")).await.is_err(), "without the key");
        let last = program.refresh(text(&next, "refresh_token")).await;
        assert_eq!(last.status, 200, "{last:?}");
        let last = program.refresh(text(&last.json(), "refresh_token")).await;
        assert_eq!(last.status, 200, "{last:?}");
    }
}

#[tokio::test]
async fn a_program_keeps_its_certificate_while_the_network_may_go_back() {
    let (clock, limits) = (
        Arc::new(ManualClock::at(SystemClock.now())),
        (ApiLimits::default(), StoreCheck::default()),
    );
    let (own, until) = (Arc::clone(&clock), clock.now().plus(7 * DAY));
    let bed = Bed::changed(with_provider(), limits, |settings| {
        settings.clock = own;
        settings.way_back_until = Some(until);
    })
    .await;
    let told = bed.get(&format!("{CLIENT}/version")).await.data();
    assert!(text(&told, "wayBackUntil").ends_with('Z'), "{told}");
    let chain = enrolled(&bed).await;
    let client = bed.client_of(&chain);
    let extend = async || {
        let path = format!("{CLIENT}/authenticate?method=cert");
        let login = send(client.post(bed.url(&path)).json(&json!({}))).await.data();
        let token = login["token"].as_str().unwrap().to_owned();
        let path = format!("{CLIENT}/current-identity/authenticators");
        let own = send(client.get(bed.url(&path)).header("zt-session", &token)).await.data();
        let path = format!("{path}/{}/extend", text(&own[0], "id"));
        let body = json!({"clientCertCsr": csr(text(&login, "identityId")).1});
        send(client.post(bed.url(&path)).header("zt-session", &token).json(&body)).await
    };
    let refused = extend().await;
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.text.contains("may go back to OpenZiti until"), "{refused:?}");
    clock.advance(7 * DAY);
    assert_eq!(extend().await.status, 200);
    let told = bed.get(&format!("{CLIENT}/version")).await.data();
    assert_eq!(told.get("wayBackUntil"), None);
}
