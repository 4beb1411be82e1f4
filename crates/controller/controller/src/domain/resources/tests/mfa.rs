use std::time::Duration;

use serde_json::{Value, json};
use totp_rs::{Algorithm, Builder, Secret};
use weft_auth::factors::is_complete;
use weft_auth::sessions::SessionNotice;
use weft_contract::{Api, ErrorCode, headers};

use super::NONE;
use crate::testing::{Bed, PASSWORD, USERNAME, to};
use crate::{Caller, Content, Result};

/// The code of an authenticator app that was set up with a provisioning address.
pub(super) fn app(bed: &Bed, url: &str) -> String {
    app_at(bed, url, 0)
}

/// The code of such an app whose clock is `ahead` seconds fast.
pub(super) fn app_at(bed: &Bed, url: &str, ahead: i64) -> String {
    let secret = url.split_once("secret=").unwrap().1;
    let totp = Builder::new()
        .with_algorithm(Algorithm::SHA1)
        .with_digits(6)
        .with_step_duration(30)
        .with_secret(Secret::try_from_base32(secret).unwrap())
        .build_noncompliant();
    let now = u64::try_from(bed.controller.kernel().now().secs() + ahead).unwrap();
    totp.generate(now).to_string()
}

pub(super) async fn client(bed: &Bed, who: &Caller, operation: &str, body: Value) -> Result<Value> {
    bed.client(who, operation, &[], body).await
}

pub(super) async fn with_header(
    bed: &Bed,
    who: &Caller,
    operation: &str,
    code: &str,
) -> Result<Value> {
    let mut call = to(Api::Management, operation, &[]);
    call.headers.push((headers::MFA_CODE.to_owned(), code.to_owned()));
    Ok(bed.controller.call(who.clone(), call).await?.data())
}

/// Logs the administrator in with name and password. Returns the caller of the new session, and the
/// data of the reply.
pub(super) async fn login(bed: &Bed) -> (Caller, Value) {
    let call = to(Api::Client, "authenticate", &[])
        .with_query("method", "password")
        .with_json(&json!({"username": USERNAME, "password": PASSWORD}));
    let nobody = Caller::nobody(crate::Origin::default());
    let data = bed.controller.call(nobody, call).await.unwrap().data();
    (bed.with_token(data["token"].as_str().unwrap()), data)
}

#[tokio::test]
async fn a_second_factor_from_beginning_to_end() {
    let bed = Bed::new().await;
    let me = bed.admin().await;
    for operation in ["detailMfa", "detailMfaQrCode", "deleteMfa"] {
        let failure = client(&bed, &me, operation, NONE).await.unwrap_err();
        assert_eq!(failure.code(), ErrorCode::NotFound, "{operation}");
    }
    let made = client(&bed, &me, "enrollMfa", NONE).await.unwrap();
    assert_eq!(made["_links"]["self"]["href"], "./current-identity/mfa");
    let first = client(&bed, &me, "detailMfa", NONE).await.unwrap();
    let again = client(&bed, &me, "enrollMfa", NONE).await.unwrap();
    assert_ne!(made["id"], again["id"], "begun anew");
    let now = client(&bed, &me, "detailMfa", NONE).await.unwrap();
    assert_ne!(first["provisioningUrl"], now["provisioningUrl"]);
    assert_eq!((&now["isVerified"], &now["id"]), (&json!(false), &again["id"]));
    let codes = now["recoveryCodes"].as_array().unwrap().clone();
    assert_eq!(codes.len(), 20);
    assert_eq!(now["_links"]["qr"]["href"], "./current-identity/mfa/qr-code");
    let url = now["provisioningUrl"].as_str().unwrap().to_owned();
    let name = "otpauth://totp/openziti.io:Default%20Admin?issuer=openziti.io&secret=";
    assert!(url.starts_with(name), "{url}");
    let picture = bed.controller.call(me.clone(), to(Api::Client, "detailMfaQrCode", &[])).await;
    let Content::Raw { media, body } = picture.unwrap().content else { panic!("a picture") };
    assert!(media == "image/png" && body.starts_with(b"\x89PNG"));

    // No code is needed at a login until the first code was given; a recovery code does not count
    // as one.
    assert_eq!(login(&bed).await.1["isMfaRequired"], false);
    for wrong in [json!({}), json!({"code": 5})] {
        let failure = client(&bed, &me, "verifyMfa", wrong).await.unwrap_err();
        assert_eq!((failure.status(), failure.field_name()), (400, Some("code")));
    }
    let failure = client(&bed, &me, "verifyMfa", json!({"code": codes[0]})).await.unwrap_err();
    assert_eq!((failure.status(), failure.code()), (401, ErrorCode::MfaInvalidToken));
    client(&bed, &me, "verifyMfa", json!({"code": app(&bed, &url)})).await.unwrap();
    let now = client(&bed, &me, "detailMfa", NONE).await.unwrap();
    assert_eq!((&now["isVerified"], now.get("provisioningUrl")), (&json!(true), None));
    let failure = client(&bed, &me, "enrollMfa", NONE).await.unwrap_err();
    assert_eq!((failure.status(), failure.code()), (409, ErrorCode::MfaExists));
    let identity = bed.manage(&me, "getCurrentIdentity", &[], NONE).await.unwrap();
    assert_eq!(identity["isMfaEnabled"], true);

    // The next login needs a code.
    let (half, session) = login(&bed).await;
    assert_eq!(
        (&session["isMfaRequired"], &session["isMfaComplete"]),
        (&json!(true), &json!(false))
    );
    let query = &session["authQueries"][0];
    assert_eq!((&query["typeId"], &query["provider"]), (&json!("MFA"), &json!("ziti")));
    assert_eq!(query["isTotpEnrolled"], true);
    let failure = bed.manage(&half, "listServices", &[], NONE).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::Unauthorized);
    bed.clock.advance(Duration::from_secs(30));
    let fresh = json!({"code": app(&bed, &url)});
    client(&bed, &half, "authenticateMfa", fresh).await.unwrap();
    let token = session["token"].as_str().unwrap();
    let whole = bed.with_token(token);
    bed.manage(&whole, "listServices", &[], NONE).await.unwrap();
    let now = client(&bed, &whole, "getCurrentAPISession", NONE).await.unwrap();
    assert_eq!((&now["isMfaComplete"], &now["authQueries"]), (&json!(true), &json!([])));

    // A recovery code works once.
    let (half, _) = login(&bed).await;
    let code = json!({"code": codes[3]});
    client(&bed, &half, "authenticateMfa", code.clone()).await.unwrap();
    let (half, _) = login(&bed).await;
    let failure = client(&bed, &half, "authenticateMfa", code).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::MfaInvalidToken);

    let failure = client(&bed, &whole, "createTotpToken", json!({"code": "000000"})).await;
    assert_eq!(failure.unwrap_err().code(), ErrorCode::InvalidBackingTokenType);

    // Recovery codes are shown for a code of the app alone, and made anew for either.
    let failure = with_header(&bed, &whole, "detailMfaRecoveryCodes", "").await.unwrap_err();
    assert_eq!(failure.status(), 401);
    let recovery = codes[5].as_str().unwrap();
    let failure = with_header(&bed, &whole, "detailMfaRecoveryCodes", recovery).await.unwrap_err();
    assert_eq!(failure.status(), 401);
    bed.clock.advance(Duration::from_secs(300));
    let shown =
        with_header(&bed, &whole, "detailMfaRecoveryCodes", &app(&bed, &url)).await.unwrap();
    assert_eq!(shown["recoveryCodes"].as_array().unwrap().len(), 19);
    let made = client(&bed, &whole, "createMfaRecoveryCodes", json!({"code": recovery})).await;
    made.unwrap();
    bed.clock.advance(Duration::from_secs(30));
    let body = json!({"code": app(&bed, &url)});
    let shown = client(&bed, &whole, "detailMfaRecoveryCodes", body).await.unwrap();
    let anew = shown["recoveryCodes"].as_array().unwrap();
    assert!(anew.len() == 20 && !anew.contains(&codes[6]));

    let failure = with_header(&bed, &whole, "deleteMfa", "").await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::MfaInvalidToken);
    with_header(&bed, &whole, "deleteMfa", anew[0].as_str().unwrap()).await.unwrap();
    let failure = client(&bed, &whole, "authenticateMfa", json!({"code": "x"})).await.unwrap_err();
    assert_eq!((failure.status(), failure.code()), (401, ErrorCode::MfaNotEnrolled));
    assert_eq!(login(&bed).await.1["isMfaRequired"], false);
}

#[tokio::test]
async fn what_was_begun_is_given_up_without_a_code() {
    let bed = Bed::new().await;
    let me = bed.admin().await;
    client(&bed, &me, "enrollMfa", NONE).await.unwrap();
    let failure = client(&bed, &me, "createMfaRecoveryCodes", json!({"code": "x"})).await;
    assert_eq!(failure.unwrap_err().code(), ErrorCode::NotFound);
    client(&bed, &me, "deleteMfa", NONE).await.unwrap();
    let failure = client(&bed, &me, "detailMfa", NONE).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::NotFound);
}

#[tokio::test]
async fn one_code_sent_twice_at_once_counts_once() {
    let bed = Bed::new().await;
    let me = bed.admin().await;
    client(&bed, &me, "enrollMfa", NONE).await.unwrap();
    let url = client(&bed, &me, "detailMfa", NONE).await.unwrap();
    let url = url["provisioningUrl"].as_str().unwrap().to_owned();
    client(&bed, &me, "verifyMfa", json!({"code": app(&bed, &url)})).await.unwrap();
    bed.clock.advance(Duration::from_secs(30));
    let ((one, _), (other, _)) = (login(&bed).await, login(&bed).await);
    let code = json!({"code": app(&bed, &url)});
    let (first, second) = tokio::join!(
        client(&bed, &one, "authenticateMfa", code.clone()),
        client(&bed, &other, "authenticateMfa", code)
    );
    assert_eq!(first.is_ok() as u8 + second.is_ok() as u8, 1);
}

#[tokio::test]
async fn an_administrator_takes_a_lost_second_factor_away() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    client(&bed, &admin, "enrollMfa", NONE).await.unwrap();
    let url = client(&bed, &admin, "detailMfa", NONE).await.unwrap();
    let url = url["provisioningUrl"].as_str().unwrap().to_owned();
    client(&bed, &admin, "verifyMfa", json!({"code": app(&bed, &url)})).await.unwrap();
    let own = admin.identity().unwrap().to_owned();
    bed.manage(&admin, "removeIdentityMfa", &[&own], NONE).await.unwrap();
    bed.manage(&admin, "removeIdentityMfa", &[&own], NONE).await.unwrap();
    let failure = bed.manage(&admin, "removeIdentityMfa", &["nope"], NONE).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::NotFound);
    assert_eq!(login(&bed).await.1["isMfaRequired"], false);
}

#[tokio::test]
async fn other_logins_need_a_code_once_there_is_one() {
    let bed = Bed::new().await;
    let (me, other) = (bed.admin().await, bed.admin().await);
    let id = |who: &Caller| weft_model::Id::new(&who.login().unwrap().session.id);
    client(&bed, &me, "enrollMfa", NONE).await.unwrap();
    let begun = client(&bed, &me, "detailMfa", NONE).await.unwrap();
    let code = app(&bed, begun["provisioningUrl"].as_str().unwrap());
    let mut told = bed.controller.auth().sessions().subscribe();
    client(&bed, &me, "verifyMfa", json!({"code": code})).await.unwrap();
    let snapshot = bed.controller.kernel().snapshot();
    let known = bed.controller.auth().sessions().all().into_iter();
    let known = known.filter(|it| is_complete(&snapshot, it)).map(|it| it.base.id.clone());
    assert_eq!(known.collect::<Vec<_>>(), [id(&me)]);
    loop {
        match told.next().await.unwrap() {
            SessionNotice::Updated(session) if session.base.id == id(&other) => break,
            SessionNotice::Removed(ended) => panic!("{ended:?}"),
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_second_factor_that_was_only_begun_leaves_sessions_alone() {
    let bed = Bed::new().await;
    let (me, _other) = (bed.admin().await, bed.admin().await);
    let sessions = bed.controller.auth().sessions();
    let before = sessions.all();
    let mut told = sessions.subscribe();
    for _ in 0..3 {
        client(&bed, &me, "enrollMfa", NONE).await.unwrap();
        bed.clock.advance(Duration::from_secs(1));
        client(&bed, &me, "deleteMfa", NONE).await.unwrap();
    }
    assert_eq!(sessions.all(), before);
    assert!(told.try_next().is_err(), "no router is told");
    let id = weft_model::Id::new(&me.login().unwrap().session.id);
    let same = sessions.change(&id, bed.controller.kernel().now(), |session| {
        session.is_mfa_complete = false;
    });
    assert!(before.contains(&same.unwrap()) && told.try_next().is_err(), "nothing changes");
}

#[tokio::test]
async fn sessions_without_a_code_count_again_once_the_second_factor_is_gone() {
    let bed = Bed::new().await;
    let (me, other) = (bed.admin().await, bed.admin().await);
    client(&bed, &me, "enrollMfa", NONE).await.unwrap();
    let begun = client(&bed, &me, "detailMfa", NONE).await.unwrap();
    let code = app(&bed, begun["provisioningUrl"].as_str().unwrap());
    client(&bed, &me, "verifyMfa", json!({"code": code})).await.unwrap();
    let mut told = bed.controller.auth().sessions().subscribe();
    let own = me.identity().unwrap().to_owned();
    bed.manage(&me, "removeIdentityMfa", &[&own], NONE).await.unwrap();
    let mut updated = Vec::new();
    while let Ok(notice) = told.try_next() {
        let SessionNotice::Updated(session) = notice else { panic!("{notice:?}") };
        assert!(is_complete(&bed.controller.kernel().snapshot(), &session));
        updated.push(session.base.id.to_string());
    }
    updated.sort_unstable();
    let mut all = [&me, &other].map(|who| who.login().unwrap().session.id.clone());
    all.sort_unstable();
    assert_eq!(updated, all);
}

#[tokio::test]
async fn the_longest_name_has_a_picture() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (_, chain) = bed.enroll(&admin, &"x".repeat(1024)).await;
    let token = bed.login_with(&chain).await.unwrap().data()["token"].clone();
    let me = bed.with_token(token.as_str().unwrap());
    client(&bed, &me, "enrollMfa", NONE).await.unwrap();
    let detail = client(&bed, &me, "detailMfa", NONE).await.unwrap();
    assert!(detail["provisioningUrl"].as_str().unwrap().contains("xxx"));
    let picture = bed.controller.call(me, to(Api::Client, "detailMfaQrCode", &[])).await;
    let Content::Raw { media, body } = picture.unwrap().content else { panic!("a picture") };
    assert!(media == "image/png" && body.starts_with(b"\x89PNG"));
}
