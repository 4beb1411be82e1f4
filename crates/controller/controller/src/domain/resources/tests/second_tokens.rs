//! Tokens of external signers as second factor of a session.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use weft_auth::resolve::RequestCredentials;
use weft_contract::{Api, headers};

use super::external_logins::{
    Documents, Provider, bearing, identity, log_in, policy, scene, token_of,
};
use super::{NONE, with};
use crate::testing::{Bed, NOW, csr, to};
use crate::{Caller, Origin};

/// A provider whose tokens are the second factor of an identity with the external id `anna`.
struct Factor {
    idp: Provider,
    anna: String,
    policy: String,
}

impl Factor {
    async fn new(bed: &Bed, documents: &Documents, admin: &Caller) -> Self {
        let idp = Provider::new(documents, "idp", "k1");
        let signer = bed.create(admin, "createExternalJwtSigner", idp.body()).await;
        let policy = policy("own", &[], json!(signer));
        let policy = bed.create(admin, "createAuthPolicy", policy).await;
        let factor = Self { idp, anna: identity(bed, admin, "anna").await, policy };
        factor.ask(bed, admin, &factor.anna).await;
        factor
    }

    /// An identity needs the factor, too.
    async fn ask(&self, bed: &Bed, admin: &Caller, identity: &str) {
        let body = json!({"authPolicyId": self.policy});
        bed.manage(admin, "patchIdentity", &[identity], body).await.unwrap();
    }
}

/// A controller that bears five wrong tokens of a source in a minute, and one who is logged in there, with a token of the
/// right form that somebody else signed.
async fn strict() -> (Bed, Factor, String, String) {
    let documents = Documents::default();
    let source = Arc::new(documents.clone());
    let bed = Bed::with(move |settings| {
        settings.key_source = source;
        settings.guess_limits = crate::GuessLimits { per_name: 0, per_address: 5 };
    })
    .await;
    let admin = bed.admin().await;
    let factor = Factor::new(&bed, &documents, &admin).await;
    let session = token_of(&log_in(&bed, &[&factor.idp.token("anna")]).await.unwrap());
    let forged = Provider::new(&Documents::default(), "idp", "k1").token("anna");
    (bed, factor, session, forged)
}

/// The caller of a session that shows a token beside it, from an address.
fn from(bed: &Bed, session: &str, token: &str, last: u8) -> Caller {
    let remote = Some(([192, 0, 2, last], 1).into());
    bed.controller.auth().resolve(RequestCredentials {
        session: Some(session.to_owned()),
        bearers: vec![token.to_owned()],
        origin: Origin { remote, ..Origin::default() },
    })
}

/// The caller of a session that shows these tokens beside it.
fn beside(bed: &Bed, session: &str, tokens: &[&str]) -> Caller {
    let bearers = tokens.iter().map(|token| (*token).to_owned()).collect();
    let session = Some(session.to_owned());
    bed.controller.auth().resolve(RequestCredentials {
        session,
        bearers,
        origin: Origin::default(),
    })
}

#[tokio::test]
async fn a_second_token_comes_with_every_request_and_names_the_same_identity() {
    let (bed, documents, admin) = scene().await;
    let factor = Factor::new(&bed, &documents, &admin).await;
    let bert = identity(&bed, &admin, "bert").await;
    factor.ask(&bed, &admin, &bert).await;
    let Factor { idp, anna, .. } = factor;
    let body =
        json!({"method": "updb", "identityId": anna, "username": "anna", "password": "geheim"});
    bed.create(&admin, "createAuthenticator", body).await;
    let call = |tokens: &[&str]| {
        let call = to(Api::Client, "authenticate", &[]).with_query("method", "password");
        bearing(call.with_json(&json!({"username": "anna", "password": "geheim"})), tokens)
    };
    let nobody = || Caller::nobody(Origin::default());
    let bare = bed.controller.call(nobody(), call(&[])).await.unwrap();
    assert_eq!(bare.data()["authQueries"][0]["typeId"], "EXT-JWT");
    assert!(bare.headers.iter().any(|(name, _)| *name == headers::WWW_AUTHENTICATE));
    let session = token_of(&bare);
    let ask = async |tokens: &[&str]| {
        let caller = beside(&bed, &session, tokens);
        bed.client(&caller, "listServices", &[], NONE).await
    };
    let refusal = ask(&[]).await.unwrap_err();
    let challenge = refusal.challenge().unwrap();
    assert_eq!(refusal.status(), 401);
    assert!(
        challenge.contains("openziti-secondary-ext-jwt") && challenge.contains("missing"),
        "{challenge}"
    );

    // The key is fetched before the caller is looked up.
    let credentials = RequestCredentials {
        session: Some(session.clone()),
        bearers: vec![idp.token("anna")],
        origin: Origin::default(),
    };
    bed.controller.auth().fetch_keys_for(&credentials).await;
    ask(&[&idp.token("anna")]).await.unwrap();
    ask(&["x", &idp.token("anna")]).await.unwrap();
    ask(&[]).await.expect_err("every request needs the token");
    let other = ask(&[&idp.token("bert")]).await.unwrap_err();
    assert!(other.challenge().unwrap().contains("invalid"), "the token of somebody else");
    let late =
        idp.tokens.sign(&with(&idp.claims("anna"), "exp", json!(NOW.0 / 1000 - 100))).unwrap();
    assert!(ask(&[&late]).await.unwrap_err().challenge().unwrap().contains("expired"));
    let caller = beside(&bed, &session, &[]);
    let shown = bed.client(&caller, "getCurrentAPISession", &[], NONE).await.unwrap();
    assert_eq!(shown["authQueries"][0]["typeId"], "EXT-JWT");
    let caller = beside(&bed, &session, &[&idp.token("anna")]);
    let shown = bed.client(&caller, "getCurrentAPISession", &[], NONE).await.unwrap();
    assert_eq!(shown["authQueries"], json!([]));
    let whole = bed.controller.call(nobody(), call(&[&idp.token("anna")])).await.unwrap();
    assert_eq!(whole.data()["authQueries"], json!([]));
    assert!(!whole.headers.iter().any(|(name, _)| *name == headers::WWW_AUTHENTICATE));
}

#[tokio::test]
async fn routers_know_a_session_while_its_second_token_counts() {
    let (bed, documents, admin) = scene().await;
    let idp = Factor::new(&bed, &documents, &admin).await.idp;
    let session = token_of(&log_in(&bed, &[&idp.token("anna")]).await.unwrap());
    let caller = beside(&bed, &session, &[&idp.token("anna")]);
    let body = json!({"csr": csr("anna")});
    bed.client(&caller, "createCurrentApiSessionCertificate", &[], body).await.unwrap();
    let is_known = |bed: &Bed| {
        let stored =
            bed.controller.auth().sessions().by_token(&session, bed.controller.kernel().now());
        stored.is_some_and(|stored| bed.controller.auth().legacy_session(&stored).is_some())
    };
    assert!(is_known(&bed));
    let again = bed.restarted().await;
    assert!(is_known(&again), "a restart ends no circuit");

    // The session is used without the token: routers forget it once the time for which it may be idle is over.
    let sessions = bed.controller.auth().sessions();
    for _ in 0..3 {
        bed.clock.advance(Duration::from_secs(11 * 60));
        beside(&bed, &session, &[]);
    }
    assert!(!is_known(&bed));
    sessions.end_due(&bed.controller.kernel().snapshot(), bed.controller.kernel().now());
    assert!(
        sessions.by_token(&session, bed.controller.kernel().now()).is_some(),
        "the session itself stays"
    );
    let mut claims = idp.claims("anna");
    claims["exp"] = json!(bed.controller.kernel().now().secs() + 600);
    beside(&bed, &session, &[&idp.tokens.sign(&claims).unwrap()]);
    assert!(is_known(&bed));
}

#[tokio::test]
async fn wrong_signatures_of_second_tokens_are_counted_as_those_of_first_ones() {
    let (bed, Factor { idp, .. }, session, wrong) = strict().await;
    let is_whole = |last: u8, token: &str| {
        let caller = from(&bed, &session, token, last);
        caller.login().is_some_and(|login| login.complete)
    };
    let seen = idp.token("anna");
    assert!(is_whole(1, &seen));
    for _ in 0..5 {
        assert!(!is_whole(1, &wrong));
    }
    assert!(is_whole(1, &seen), "what was verified before stays good");
    let mut claims = idp.claims("anna");
    claims["jti"] = json!("new");
    let fresh = idp.tokens.sign(&claims).unwrap();
    for _ in 0..2 {
        assert!(!is_whole(1, &fresh), "no further signature is verified");
    }
    assert!(is_whole(2, &fresh), "others are not concerned");
    // Logins of the source wait, too.
    let call = to(Api::Client, "authenticate", &[]).with_query("method", "ext-jwt");
    let remote = Some(([192, 0, 2, 1], 1).into());
    let caller = Caller::nobody(Origin { remote, ..Origin::default() });
    let failure = bed.controller.call(caller, bearing(call, &[&fresh])).await.unwrap_err();
    assert_eq!(failure.status(), 429);
}

#[tokio::test]
async fn a_second_token_of_a_key_with_an_old_name_is_good_once_the_key_is_fetched() {
    let (bed, documents, admin) = scene().await;
    let idp = Factor::new(&bed, &documents, &admin).await.idp;
    log_in(&bed, &[&idp.token("anna")]).await.unwrap();
    let rolled = Provider::new(&documents, "idp", "k1");
    let early = log_in(&bed, &[&rolled.token("anna")]).await.map(drop);
    early.expect_err("the set was fetched just now");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(10)).await;
    tokio::time::resume();
    let session = token_of(&log_in(&bed, &[&rolled.token("anna")]).await.unwrap());
    let caller = beside(&bed, &session, &[&rolled.token("anna")]);
    bed.client(&caller, "listServices", &[], NONE).await.unwrap();
}

#[tokio::test]
async fn a_forged_second_token_is_counted_once_however_often_its_request_is_judged() {
    let (bed, Factor { idp, .. }, session, forged) = strict().await;
    for _ in 0..2 {
        let caller = from(&bed, &session, &forged, 1);
        // A document is read, and waits for its turn; the writer judges the caller once more.
        let again = bed.controller.auth().resolve_again(&caller);
        let tip = bed.controller.kernel().snapshot();
        for judged in [&caller, &again, &bed.controller.auth().resolve_on(&tip, &again)] {
            assert!(judged.login().is_some_and(|login| !login.complete));
        }
    }
    // Two of five: the source is not limited, so that a token that is new is verified.
    let mut claims = idp.claims("anna");
    claims["jti"] = json!("new");
    let fresh = idp.tokens.sign(&claims).unwrap();
    assert!(from(&bed, &session, &fresh, 1).login().is_some_and(|login| login.complete));
}

/// Logs in from an address with these tokens, beside a session if the caller has one.
async fn log_in_from(
    bed: &Bed,
    caller: Caller,
    tokens: &[&str],
) -> Result<crate::Reply, crate::Failure> {
    let call = to(Api::Client, "authenticate", &[]).with_query("method", "ext-jwt");
    bed.controller.call(caller, bearing(call, tokens)).await
}

#[tokio::test]
async fn a_forged_token_is_counted_once_as_first_and_as_second_factor() {
    let documents = Documents::default();
    let source = Arc::new(documents.clone());
    let bed = Bed::with(move |settings| {
        settings.key_source = source;
        settings.guess_limits = crate::GuessLimits { per_name: 0, per_address: 5 };
    })
    .await;
    let admin = bed.admin().await;
    let factor = Factor::new(&bed, &documents, &admin).await;
    let work = Provider::new(&documents, "work", "w1");
    bed.create(&admin, "createExternalJwtSigner", work.body()).await;
    let forged = Provider::new(&Documents::default(), "idp", "k1").token("anna");
    let (first, fresh) = (work.token("anna"), |number: u32| {
        let claims = with(&factor.idp.claims("anna"), "jti", json!(number));
        factor.idp.tokens.sign(&claims).unwrap()
    });
    let remote = Some(([192, 0, 2, 1], 1).into());
    let nobody = || Caller::nobody(Origin { remote, ..Origin::default() });
    // As first factor it is refused, the second token is good; as second factor it is refused once more.
    for _ in 0..2 {
        let reply = log_in_from(&bed, nobody(), &[&forged, &forged, &first]).await.unwrap();
        assert_eq!(reply.data()["authQueries"][0]["typeId"], "EXT-JWT");
    }
    // Beside a session that lacks it, and as first factor of another login in the same request.
    let session = token_of(&log_in(&bed, &[&first]).await.unwrap());
    for _ in 0..2 {
        let caller = from(&bed, &session, &forged, 1);
        log_in_from(&bed, caller, &[&forged]).await.map(drop).expect_err("it is forged");
    }
    // Four of five: the source is not limited, so that a token that is new is verified.
    let is_whole = |caller: Caller| caller.login().is_some_and(|login| login.complete);
    assert!(is_whole(from(&bed, &session, &fresh(1), 1)));
    log_in_from(&bed, nobody(), &[&forged]).await.map(drop).expect_err("it is forged");
    assert!(!is_whole(from(&bed, &session, &fresh(2), 1)), "the fifth is the last");
}
