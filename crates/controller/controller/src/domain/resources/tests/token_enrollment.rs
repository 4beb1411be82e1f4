//! Enrollment with tokens of external signers.

use serde_json::{Value, json};
use weft_contract::{Api, ErrorCode, headers};
use weft_identity::token::TokenSigner;
use weft_identity::{
    Authority, AuthoritySpec, KeyAlgorithm, KeyPurpose, Leaf, PrivateKey, SubjectName,
};
use weft_kernel::clock::system_time;

use super::{NONE, with};
use crate::testing::{Bed, NOW, csr, to};
use crate::{Call, Caller, Failure, Origin, Result};

/// An issuer of tokens.
struct Provider {
    certificate: String,
    tokens: TokenSigner,
    key: PrivateKey,
}

impl Provider {
    fn new(bed: &Bed) -> Self {
        let now = system_time(bed.controller.kernel().now());
        let root = Authority::make_root(&AuthoritySpec::new("idp"), now).unwrap();
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let subject = SubjectName::common_name("idp");
        let leaf = Leaf::for_key(key.public(), &subject, vec![], KeyPurpose::Both, now).unwrap();
        let leaf = root.issue(&leaf).unwrap();
        let tokens = TokenSigner::with_kid(key.clone(), leaf.fingerprint()).unwrap();
        Self { certificate: leaf.to_pem(), tokens, key }
    }

    /// A signer that allows enrollment with certificates and with tokens.
    fn body(&self, name: &str) -> Value {
        json!({"name": name, "issuer": format!("https://{name}.example"), "audience": "weft",
            "enabled": true, "certPem": self.certificate, "claimsProperty": "/email",
            "enrollNameClaimsSelector": "/who/name", "enrollAttributeClaimsSelector": "groups",
            "enrollToCertEnabled": true, "enrollToTokenEnabled": true})
    }

    fn sign(&self, claims: &Value) -> String {
        self.tokens.sign(claims).unwrap()
    }
}

/// The claims that the signer `idp` accepts.
fn claims(email: &str) -> Value {
    json!({"iss": "https://idp.example", "aud": ["other", "weft"], "exp": NOW.0 / 1000 + 60,
        "email": email, "who": {"name": format!("{email}'s laptop")}, "groups": ["staff", "dev"]})
}

fn call(tokens: &[&str]) -> Call {
    let mut call = to(Api::Client, "enrollToken", &[]);
    let bearer = |token: &&str| (headers::AUTHORIZATION.to_owned(), format!("Bearer {token}"));
    call.headers.extend(tokens.iter().map(bearer));
    call
}

async fn run(bed: &Bed, call: Call) -> Result<Value> {
    let nobody = Caller::nobody(Origin::default());
    Ok(bed.controller.call(nobody, call).await?.data())
}

/// Expects a refusal that makes no entity.
async fn refused(bed: &Bed, call: Call) -> Failure {
    let before = bed.controller.kernel().snapshot().revision();
    let failure = run(bed, call).await.unwrap_err();
    assert_eq!(bed.controller.kernel().snapshot().revision(), before);
    failure
}

async fn identity(bed: &Bed, admin: &Caller, external: &str) -> Value {
    let filter = format!("externalId = \"{external}\"");
    let mut found = bed.list(admin, "listIdentities", &filter).await;
    assert_eq!(found.len(), 1, "{external}");
    found.remove(0)
}

#[tokio::test]
async fn a_login_that_lacks_a_token_names_its_signer() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let idp = Provider::new(&bed);
    let signer = bed.create(&admin, "createExternalJwtSigner", idp.body("idp")).await;
    let (id, chain) = bed.enroll(&admin, "laptop").await;
    let login = async |tokens: &[&str]| {
        let origin = Origin { certificates: chain.clone(), ..Origin::default() };
        let mut call = to(Api::Client, "authenticate", &[]).with_query("method", "cert");
        let bearer = |token: &&str| (headers::AUTHORIZATION.to_owned(), format!("Bearer {token}"));
        call.headers.extend(tokens.iter().map(bearer));
        let reply = bed.controller.call(Caller::nobody(origin), call).await.unwrap();
        reply.headers.into_iter().find(|(name, _)| *name == headers::WWW_AUTHENTICATE)
    };
    assert_eq!(login(&[]).await, None);
    let body = json!({
        "name": "token",
        "primary": {
            "cert": {"allowed": true, "allowExpiredCerts": true},
            "extJwt": {"allowed": false, "allowedSigners": []},
            "updb": {"allowed": false, "lockoutDurationMinutes": 0, "maxAttempts": 0,
                "minPasswordLength": 5, "requireMixedCase": false, "requireNumberChar": false,
                "requireSpecialChar": false},
        },
        "secondary": {"requireTotp": false, "requireExtJwtSigner": signer},
    });
    let policy = bed.create(&admin, "createAuthPolicy", body).await;
    let body = json!({"authPolicyId": policy});
    bed.manage(&admin, "patchIdentity", &[&id], body).await.unwrap();
    let late = with(&claims("anna"), "exp", json!(NOW.0 / 1000 - 60));
    let wrong = Provider::new(&bed).sign(&claims("anna"));
    let of_another = idp.sign(&with(&claims("anna"), "iss", json!("https://other.example")));
    for (tokens, error, description) in [
        (&[][..], "missing", "no matching token was provided"),
        (&["no token"], "missing", "no matching token was provided"),
        (&[&*idp.sign(&late)], "expired", "token expired"),
        (&["no token", &wrong], "invalid", "token is invalid"),
        (&[&*of_another], "missing", "no matching token was provided"),
    ] {
        let (_, told) = login(tokens).await.unwrap();
        let expected = format!(
            "Bearer realm=\"openziti-secondary-ext-jwt\" error=\"{error}\" \
             error_description=\"{description}\" id=\"{signer}\" issuer=\"https://idp.example\""
        );
        assert_eq!(told, expected);
    }
}

#[tokio::test]
async fn a_token_without_an_end_makes_nobody() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let idp = Provider::new(&bed);
    bed.create(&admin, "createExternalJwtSigner", idp.body("idp")).await;
    let endless = super::with(&claims("anna"), "exp", NONE);
    let failure = refused(&bed, call(&[&idp.sign(&endless)])).await;
    assert_eq!(failure.code(), ErrorCode::InvalidEnrollmentToken);
    assert!(failure.to_string().contains("exp"), "{failure}");
}

#[tokio::test]
async fn a_token_whose_end_never_comes_makes_nobody() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let idp = Provider::new(&bed);
    bed.create(&admin, "createExternalJwtSigner", idp.body("idp")).await;
    let day = 24 * 3600;
    let later = |days: i64| NOW.0 / 1000 + days * day;
    let years = 10 * 365;
    for end in [json!(1e300), json!(1e18), json!(u64::MAX), json!(later(years + 10)), json!(-1)] {
        let endless = super::with(&claims("anna"), "exp", end);
        let failure = refused(&bed, call(&[&idp.sign(&endless)])).await;
        assert_eq!(failure.code(), ErrorCode::InvalidEnrollmentToken);
    }
    let long = super::with(&claims("anna"), "exp", json!(later(years - 1)));
    run(&bed, call(&[&idp.sign(&long)])).await.unwrap();
}

#[tokio::test]
async fn a_token_makes_an_identity() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let idp = Provider::new(&bed);
    bed.create(&admin, "createExternalJwtSigner", idp.body("idp")).await;

    // With a signing request the identity gets a certificate, and logs in with it.
    let token = idp.sign(&claims("anna"));
    let with_csr = call(&[&token]).with_json(&json!({"clientCsr": csr("whatever")}));
    let done = run(&bed, with_csr.clone()).await.unwrap();
    assert!(done["ca"].as_str().unwrap().contains("BEGIN CERTIFICATE"));
    assert_eq!(done["controllers"][0]["id"], "ctrl1");
    let pem = done["cert"].as_str().unwrap();
    let chain = weft_identity::Certificate::from_pem(pem.as_bytes()).unwrap();
    let session = bed.login_with(&chain).await.unwrap().data();
    let anna = identity(&bed, &admin, "anna").await;
    assert_eq!(anna["id"], session["identityId"]);
    assert_eq!((&anna["name"], &anna["typeId"]), (&json!("anna's laptop"), &json!("Default")));
    assert_eq!(anna["roleAttributes"], json!(["dev", "staff"]));
    assert_eq!(
        (&anna["authPolicyId"], &anna["isAdmin"], &anna["enrollment"]),
        (&json!("default"), &json!(false), &json!({}))
    );
    assert!(anna["authenticators"]["cert"].is_object());

    // The token works once.
    let again = refused(&bed, with_csr).await;
    assert_eq!((again.status(), again.code()), (409, ErrorCode::EnrollmentIdentityAlreadyEnrolled));

    // A request may come bare, or by way of the operation for every method.
    let mut bare = call(&[&idp.sign(&claims("bert"))]);
    (bare.media, bare.body) = (Some("application/x-pem-file".into()), csr("x").into());
    assert!(run(&bed, bare).await.unwrap()["cert"].is_string());
    let mut any = to(Api::Client, "enroll", &[])
        .with_query("method", "token")
        .with_json(&json!({"clientCsr": csr("x")}));
    any.headers = call(&[&idp.sign(&claims("cleo"))]).headers;
    assert!(run(&bed, any).await.unwrap()["cert"].is_string());

    // Without a signing request the identity logs in with tokens.
    for (email, json) in [("dora", NONE), ("emil", json!({})), ("finn", json!({"clientCsr": " "}))]
    {
        let bare = call(&[&idp.sign(&claims(email))]);
        let call = if json.is_null() { bare } else { bare.with_json(&json) };
        let done = run(&bed, call).await.unwrap();
        assert_eq!(done["controllers"][0]["id"], "ctrl1");
        assert_eq!((done.get("cert"), done.get("ca")), (None, None));
        let found = identity(&bed, &admin, email).await;
        assert_eq!(found["authenticators"], json!({}));
    }
}

#[tokio::test]
async fn attributes_come_from_a_claim() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let idp = Provider::new(&bed);
    let id = bed.create(&admin, "createExternalJwtSigner", idp.body("idp")).await;
    for (email, groups, expected) in [
        ("one", json!("staff"), json!(["staff"])),
        ("none", NONE, json!([])),
        ("empty", json!([]), json!([])),
    ] {
        let token = idp.sign(&with(&claims(email), "groups", groups));
        run(&bed, call(&[&token])).await.unwrap();
        assert_eq!(identity(&bed, &admin, email).await["roleAttributes"], expected, "{email}");
    }
    for groups in [json!(7), json!({"a": 1}), json!(["a", 7])] {
        let token = idp.sign(&with(&claims("wrong"), "groups", groups.clone()));
        let failure = refused(&bed, call(&[&token])).await;
        assert_eq!(failure.code(), ErrorCode::InvalidEnrollmentToken, "{groups}");
    }
    let token = idp.sign(&with(&claims("wrong"), "groups", json!(["#all"])));
    let failure = refused(&bed, call(&[&token])).await;
    assert_eq!(failure.field_name(), Some("roleAttributes"));
    let none = json!({"enrollAttributeClaimsSelector": ""});
    bed.manage(&admin, "patchExternalJwtSigner", &[&id], none).await.unwrap();
    run(&bed, call(&[&idp.sign(&claims("zoe"))])).await.unwrap();
    assert_eq!(identity(&bed, &admin, "zoe").await["roleAttributes"], json!([]));
}

#[tokio::test]
async fn wrong_tokens_are_refused() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (idp, other) = (Provider::new(&bed), Provider::new(&bed));
    bed.create(&admin, "createExternalJwtSigner", idp.body("idp")).await;
    let off = with(&other.body("off"), "enabled", json!(false));
    bed.create(&admin, "createExternalJwtSigner", off).await;
    let keys = with(&idp.body("keys"), "certPem", NONE);
    let keys = with(&keys, "jwksEndpoint", json!("https://keys.example/jwks"));
    bed.create(&admin, "createExternalJwtSigner", keys).await;

    let changed = |member: &str, value: Value| idp.sign(&with(&claims("anna"), member, value));
    let good = idp.sign(&claims("anna"));
    let (head, signature) = good.rsplit_once('.').unwrap();
    let cut = format!("{head}.{}", &signature[..signature.len() - 6]);
    let stranger = TokenSigner::with_kid(other.key.clone(), idp.tokens.kid()).unwrap();
    let unknown = TokenSigner::with_kid(idp.key.clone(), "k9").unwrap();
    let of = |issuer: &str| json!(format!("https://{issuer}.example"));
    let no_key_set = "the keys of the token's signer cannot be had now";
    for (token, why) in [
        ("x.y.z".to_owned(), "not a JSON Web Token"),
        (cut, "signature"),
        (stranger.sign(&claims("anna")).unwrap(), "signature"),
        (unknown.sign(&claims("anna")).unwrap(), "unknown key"),
        (changed("iss", of("nobody")), "no such signer is enabled"),
        (changed("iss", NONE), "names no issuer"),
        (changed("iss", json!("https://IDP.example")), "no such signer is enabled"),
        (changed("iss", of("keys")), no_key_set),
        (other.sign(&with(&claims("anna"), "iss", of("off"))), "no such signer is enabled"),
        (changed("aud", json!("another")), "another audience"),
        (changed("aud", NONE), "another audience"),
        (changed("exp", json!(NOW.0 / 1000 - 60)), "expired"),
        (changed("nbf", json!(NOW.0 / 1000 + 65)), "not valid yet"),
        (changed("email", NONE), "no claim with the id"),
        (changed("email", json!(" ")), "no claim with the id"),
        (changed("email", json!(7)), "no claim with the id"),
        (changed("who", json!({"name": ""})), "no claim with the name"),
        (changed("who", json!("anna")), "no claim with the name"),
    ] {
        let failure = refused(&bed, call(&[&token])).await;
        let found = (failure.status(), failure.code());
        assert_eq!(found, (400, ErrorCode::InvalidEnrollmentToken), "{why}: {failure}");
        assert!(failure.to_string().contains(why), "{why}: {failure}");
    }
    let failure = refused(&bed, call(&[""])).await;
    assert!(failure.to_string().contains("Authorization: Bearer"), "{failure}");

    // The first valid token is used, whatever comes before it.
    run(&bed, call(&["x", &changed("aud", NONE), &good])).await.unwrap();

    let taken = with(&claims("anna2"), "who.name", json!("anna's laptop"));
    let failure = refused(&bed, call(&[&idp.sign(&taken)])).await;
    assert_eq!((failure.status(), failure.field_name()), (400, Some("name")));
    for csr in ["x", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----"]
    {
        let call = call(&[&idp.sign(&claims("bert"))]).with_json(&json!({"clientCsr": csr}));
        assert_eq!(refused(&bed, call).await.code(), ErrorCode::CouldNotProcessCsr);
    }
}

#[tokio::test]
async fn a_header_names_the_signer() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (idp, other) = (Provider::new(&bed), Provider::new(&bed));
    let id = bed.create(&admin, "createExternalJwtSigner", idp.body("idp")).await;
    let second = bed.create(&admin, "createExternalJwtSigner", other.body("other")).await;
    let token = idp.sign(&claims("anna"));
    let named = |id: &str, token: &str| {
        let mut call = call(&[token]);
        call.headers.push((headers::TOKEN_ISSUER.to_owned(), id.to_owned()));
        call
    };
    for wrong in ["nobody", second.as_str()] {
        let failure = refused(&bed, named(wrong, &token)).await;
        assert_eq!(failure.code(), ErrorCode::InvalidEnrollmentToken, "{wrong}");
    }
    // A token of another issuer with the right key is refused for its issuer.
    let forged = idp.sign(&with(&claims("anna"), "iss", json!("https://other.example")));
    let failure = refused(&bed, named(&id, &forged)).await;
    assert!(failure.to_string().contains("issued by"), "{failure}");
    let off = json!({"enabled": false});
    bed.manage(&admin, "patchExternalJwtSigner", &[&id], off).await.unwrap();
    refused(&bed, named(&id, &token)).await;
    let on = json!({"enabled": true});
    bed.manage(&admin, "patchExternalJwtSigner", &[&id], on).await.unwrap();
    run(&bed, named(&id, &token)).await.unwrap();
    assert_eq!(identity(&bed, &admin, "anna").await["name"], "anna's laptop");
}

#[tokio::test]
async fn the_signer_and_its_policy_must_allow_it() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let idp = Provider::new(&bed);
    let id = bed.create(&admin, "createExternalJwtSigner", idp.body("idp")).await;
    let policy = json!({"name": "new ones", "primary": {
        "cert": {"allowed": true, "allowExpiredCerts": false},
        "extJwt": {"allowed": true, "allowedSigners": []},
        "updb": {"allowed": false, "lockoutDurationMinutes": 0, "maxAttempts": 0,
            "minPasswordLength": 5, "requireMixedCase": false, "requireNumberChar": false,
            "requireSpecialChar": false}},
        "secondary": {"requireTotp": false}});
    let policy = bed.create(&admin, "createAuthPolicy", policy).await;
    let body = json!({"enrollAuthPolicyId": policy});
    bed.manage(&admin, "patchExternalJwtSigner", &[&id], body).await.unwrap();
    let request = |email: &str, to_certificate: bool| {
        let call = call(&[&idp.sign(&claims(email))]);
        if to_certificate { call.with_json(&json!({"clientCsr": csr("x")})) } else { call }
    };
    for (to_certificate, flag, member) in
        [(true, "enrollToCertEnabled", "cert"), (false, "enrollToTokenEnabled", "extJwt")]
    {
        let set = async |on: bool| {
            let body = json!({flag: on});
            bed.manage(&admin, "patchExternalJwtSigner", &[&id], body).await.unwrap();
        };
        let allow = async |on: bool| {
            let body = json!({"primary": {member: {"allowed": on}}});
            bed.manage(&admin, "patchAuthPolicy", &[&policy], body).await.unwrap();
        };
        set(false).await;
        let failure = refused(&bed, request("anna", to_certificate)).await;
        let code = ErrorCode::InvalidEnrollmentNotAllowed;
        assert_eq!((failure.status(), failure.code()), (409, code), "{flag}");
        set(true).await;
        allow(false).await;
        let failure = refused(&bed, request("anna", to_certificate)).await;
        assert_eq!((failure.status(), failure.code()), (409, code), "{member}");
        allow(true).await;
        run(&bed, request(flag, to_certificate)).await.unwrap();
        assert_eq!(identity(&bed, &admin, flag).await["authPolicyId"], json!(policy));
    }
}
