//! Sessions end with the credentials and rules that they depend on.

use std::time::Duration;

use serde_json::{Value, json};
use weft_contract::Api;
use weft_identity::Certificate;
use weft_model::Id;
use weft_store::Store as _;

use crate::testing::{Bed, to, until};
use crate::{Caller, Origin};

const NONE: Value = Value::Null;
/// The life of certificates, a year, minus an hour.
const NEARLY_A_YEAR: Duration = Duration::from_secs(365 * 24 * 3600 - 3600);

async fn policy(bed: &Bed, admin: &Caller, name: &str, may_be_expired: bool) -> String {
    let body = json!({"name": name, "secondary": {"requireTotp": false}, "primary": {
        "cert": {"allowed": true, "allowExpiredCerts": may_be_expired},
        "extJwt": {"allowed": true, "allowedSigners": []},
        "updb": {"allowed": true, "lockoutDurationMinutes": 0, "maxAttempts": 0,
            "minPasswordLength": 5, "requireMixedCase": false, "requireNumberChar": false,
            "requireSpecialChar": false}}});
    bed.create(admin, "createAuthPolicy", body).await
}

/// An identity with a certificate and a password, under a policy.
async fn anna(bed: &Bed, admin: &Caller, policy: &str) -> (String, Vec<Certificate>, String) {
    let (identity, chain) = bed.enroll(admin, "anna").await;
    bed.manage(admin, "patchIdentity", &[&identity], json!({"authPolicyId": policy}))
        .await
        .unwrap();
    let body = json!({"method": "updb", "identityId": identity, "username": "anna",
        "password": "geheim!"});
    let updb = bed.create(admin, "createAuthenticator", body).await;
    (identity, chain, updb)
}

/// Logs in with the password; returns the token.
async fn by_password(bed: &Bed, password: &str) -> String {
    let call = to(Api::Client, "authenticate", &[])
        .with_query("method", "password")
        .with_json(&json!({"username": "anna", "password": password}));
    let reply = bed.controller.call(Caller::nobody(Origin::default()), call).await.unwrap();
    reply.data()["token"].as_str().unwrap().to_owned()
}

async fn by_certificate(bed: &Bed, chain: &[Certificate]) -> String {
    let data = bed.login_with(chain).await.unwrap().data();
    data["token"].as_str().unwrap().to_owned()
}

fn is_up(bed: &Bed, token: &str) -> bool {
    bed.with_token(token).login().is_some()
}

/// Waits until an identity has this many sessions left.
async fn left(bed: &Bed, identity: &str, count: usize) {
    let of = || bed.controller.auth().sessions().of_identity(&Id::new(identity)).len();
    until("the others end", || of() == count).await;
}

#[tokio::test]
async fn another_password_ends_the_sessions_of_the_old_one() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (identity, chain, updb) = anna(&bed, &admin, "default").await;
    let certificate = by_certificate(&bed, &chain).await;
    let (own, stolen) = (by_password(&bed, "geheim!").await, by_password(&bed, "geheim!").await);
    let body = json!({"currentPassword": "geheim!", "password": "anders!"});
    let client = bed.with_token(&own);
    bed.client(&client, "patchCurrentIdentityAuthenticator", &[&updb], body).await.unwrap();
    assert!(!is_up(&bed, &stolen), "at once");
    assert!(is_up(&bed, &own), "who changes the password goes on");
    assert!(is_up(&bed, &certificate), "what rests on something else does, too");
    left(&bed, &identity, 2).await;

    // A change of the user name ends no session.
    let body = json!({"username": "anna", "tags": {"a": "b"}});
    bed.manage(&admin, "patchAuthenticator", &[&updb], body).await.unwrap();
    assert!(is_up(&bed, &own));
    let body = json!({"password": "dritte!"});
    bed.manage(&admin, "patchAuthenticator", &[&updb], body).await.unwrap();
    assert!(!is_up(&bed, &own) && is_up(&bed, &certificate));
    left(&bed, &identity, 1).await;
}

#[tokio::test]
async fn a_session_does_not_come_back_with_a_crash_after_another_password() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (_, _, updb) = anna(&bed, &admin, "default").await;
    let token = by_password(&bed, "geheim!").await;
    let stored =
        bed.controller.auth().sessions().by_token(&token, bed.controller.kernel().now()).unwrap();
    let body = json!({"password": "anders!"});
    bed.manage(&admin, "patchAuthenticator", &[&updb], body).await.unwrap();
    until("the session ends", || {
        bed.controller.auth().sessions().by_id(stored.base.id.as_str()).is_none()
    })
    .await;
    // As if the end of the session had not reached the disk.
    bed.store.live().put(stored.into());
    let again = bed.restarted().await;
    assert!(!is_up(&again, &token));
    assert!(
        again
            .controller
            .auth()
            .sessions()
            .by_token(&token, again.controller.kernel().now())
            .is_none()
    );
}

#[tokio::test]
async fn a_method_that_is_forbidden_ends_its_sessions() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let policy = policy(&bed, &admin, "strict", true).await;
    let (identity, chain, _) = anna(&bed, &admin, &policy).await;
    let (certificate, password) =
        (by_certificate(&bed, &chain).await, by_password(&bed, "geheim!").await);
    let forbid = async |method: &str| {
        let body = json!({"primary": {method: {"allowed": false}}});
        bed.manage(&admin, "patchAuthPolicy", &[&policy], body).await.unwrap();
    };
    forbid("updb").await;
    assert!(!is_up(&bed, &password) && is_up(&bed, &certificate));
    left(&bed, &identity, 1).await;
    forbid("cert").await;
    assert!(!is_up(&bed, &certificate));
    left(&bed, &identity, 0).await;
    // Another policy for an identity counts like a change of the policy.
    let body = json!({"authPolicyId": "default"});
    bed.manage(&admin, "patchIdentity", &[&identity], body).await.unwrap();
    let again = by_certificate(&bed, &chain).await;
    let body = json!({"authPolicyId": policy});
    bed.manage(&admin, "patchIdentity", &[&identity], body).await.unwrap();
    assert!(!is_up(&bed, &again));
    left(&bed, &identity, 0).await;
}

#[tokio::test]
async fn an_expired_certificate_ends_its_sessions_where_none_may_be_expired() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let policy = policy(&bed, &admin, "fresh", false).await;
    let (identity, chain, _) = anna(&bed, &admin, &policy).await;
    let (other, of_other) = bed.enroll(&admin, "old").await;
    let (short, long) = (by_certificate(&bed, &chain).await, by_certificate(&bed, &of_other).await);
    let password = by_password(&bed, "geheim!").await;
    let sessions = bed.controller.auth().sessions();
    let all = [&short, &long, &password];
    let all = all.map(|token| sessions.by_token(token, bed.controller.kernel().now()).unwrap());
    let used =
        || all.iter().for_each(|it| sessions.touch(&it.base.id, bed.controller.kernel().now()));
    bed.clock.advance(NEARLY_A_YEAR);
    used();
    assert!(is_up(&bed, &short) && is_up(&bed, &long));
    bed.clock.advance(Duration::from_secs(2 * 3600));
    used();
    assert!(!is_up(&bed, &short));
    assert!(is_up(&bed, &long), "its policy lets it be expired");
    assert!(is_up(&bed, &password));
    left(&bed, &identity, 1).await;
    left(&bed, &other, 1).await;
}

#[tokio::test]
async fn a_session_ends_however_much_it_is_used() {
    let lasts = Duration::from_secs(3600);
    let bed = Bed::with(|settings| settings.durations.longest_session = Some(lasts)).await;
    let admin = bed.admin().await;
    let (identity, chain) = bed.enroll(&admin, "laptop").await;
    let token = by_certificate(&bed, &chain).await;
    for _ in 0..3 {
        bed.clock.advance(lasts / 4);
        assert!(is_up(&bed, &token));
    }
    let own = bed.client(&bed.with_token(&token), "getCurrentAPISession", &[], NONE).await.unwrap();
    assert_eq!(own["expirationSeconds"], json!(900));
    bed.clock.advance(lasts / 4);
    assert!(!is_up(&bed, &token));
    left(&bed, &identity, 0).await;
}

#[tokio::test]
async fn another_external_id_ends_the_sessions_of_the_old_one() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (identity, _, _) = anna(&bed, &admin, "default").await;
    let body = json!({"externalId": "7"});
    bed.manage(&admin, "patchIdentity", &[&identity], body).await.unwrap();
    let snapshot = bed.controller.kernel().snapshot();
    let print = weft_auth::sessions::print_of(&snapshot, &Id::new(&identity), &Id::new("internal"));
    let session = weft_model::entity::ApiSession {
        identity_id: Id::new(&identity),
        authenticator_id: Id::new("internal"),
        credential: print.unwrap(),
        ..super::login(&bed)
    };
    bed.controller.auth().sessions().open(session, "claimed", |_| true).unwrap();
    assert!(is_up(&bed, "claimed"));
    let body = json!({"externalId": "8"});
    bed.manage(&admin, "patchIdentity", &[&identity], body).await.unwrap();
    assert!(!is_up(&bed, "claimed"));
    left(&bed, &identity, 0).await;
}
