use std::time::Duration;

use serde_json::{Value, json};
use weft_contract::{Api, ErrorCode};
use weft_identity::{
    Authority, AuthoritySpec, Certificate, CertificateRequest, KeyPurpose, Leaf, SpiffeId,
    SubjectName,
};
use weft_kernel::clock::system_time;

use super::{NONE, refusal, refuses, with};
use crate::testing::{Bed, csr, to, until};
use crate::{Caller, Content, Result};

pub(super) fn authority(bed: &Bed, name: &str) -> Authority {
    let now = system_time(bed.controller.kernel().now()) - Duration::from_secs(60);
    Authority::make_root(&AuthoritySpec::new(name), now).unwrap()
}

pub(super) fn body(name: &str, authority: &Authority) -> Value {
    json!({"name": name, "certPem": authority.certificate().to_pem(), "identityRoles": ["#x"],
        "isAuthEnabled": true, "isAutoCaEnrollmentEnabled": true,
        "isOttCaEnrollmentEnabled": true})
}

/// A controller, its administrator, and an authority that is none of the network's.
async fn scene() -> (Bed, Caller, Authority) {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let ours = authority(&bed, "ours");
    (bed, admin, ours)
}

/// The body of a CA that gives identities no attributes.
fn plain(name: &str, authority: &Authority) -> Value {
    with(&body(name, authority), "identityRoles", json!([]))
}

/// The body of a CA whose certificates name identities by their external ids, as the whole common name.
fn claiming(authority: &Authority) -> Value {
    let claim = json!({"index": 0, "location": "COMMON_NAME", "matcher": "ALL",
        "matcherCriteria": "", "parser": "NONE", "parserCriteria": ""});
    with(&plain("acme", authority), "externalIdClaim", claim)
}

/// A verified CA of [`claiming`], and an identity with the external id 7.
async fn known_by_claim() -> (Bed, Caller, Authority, String) {
    let (bed, admin, ours) = scene().await;
    let id = verified(&bed, &admin, &ours, claiming(&ours)).await;
    let known = json!({"name": "seven", "type": "Default", "isAdmin": false, "externalId": "7"});
    bed.create(&admin, "createIdentity", known).await;
    (bed, admin, ours, id)
}

/// A certificate of a CA for a client.
pub(super) fn leaf(bed: &Bed, authority: &Authority, name: &str) -> Certificate {
    let request = CertificateRequest::from_pem(&csr(name)).unwrap();
    let now = system_time(bed.controller.kernel().now());
    let id = SpiffeId::identity("elsewhere", name);
    authority.issue(&Leaf::for_identity(&request, &id, now)).unwrap()
}

pub(super) async fn verify(bed: &Bed, admin: &Caller, id: &str, text: &str) -> Result<()> {
    let mut call = to(Api::Management, "verifyCa", &[id]);
    call.body = text.to_owned().into();
    call.media = Some("text/plain".into());
    bed.controller.call(admin.clone(), call).await.map(drop)
}

/// Makes a CA and verifies it. Returns its id.
pub(super) async fn verified(
    bed: &Bed,
    admin: &Caller,
    authority: &Authority,
    body: Value,
) -> String {
    let id = bed.create(admin, "createCa", body).await;
    let read = bed.manage(admin, "detailCa", &[&id], NONE).await.unwrap();
    let token = read["verificationToken"].as_str().unwrap();
    verify(bed, admin, &id, &leaf(bed, authority, token).to_pem()).await.unwrap();
    id
}

#[tokio::test]
async fn a_ca_is_verified_by_a_certificate_with_its_token() {
    let (bed, admin, ours) = scene().await;
    let other = authority(&bed, "other");
    let good = with(&body("ca", &ours), "identityRoles", json!(["staff"]));
    let id = bed.create(&admin, "createCa", good).await;
    let read = || async { bed.manage(&admin, "detailCa", &[&id], NONE).await.unwrap() };
    let new = read().await;
    assert_eq!((&new["isVerified"], &new["identityRoles"]), (&json!(false), &json!(["staff"])));
    assert_eq!(new["identityNameFormat"], "[caName]-[commonName]");
    assert_eq!(new["fingerprint"], ours.certificate().fingerprint());
    assert_eq!(new["_links"]["verify"]["href"], format!("./cas/{id}/verify"));
    assert_eq!(new.get("externalIdClaim"), Some(&NONE));

    let token = new["verificationToken"].as_str().unwrap();
    let key = weft_identity::PrivateKey::generate(weft_identity::KeyAlgorithm::EcP256).unwrap();
    for (text, code) in [
        (String::new(), ErrorCode::CouldNotParseBody),
        ("hello".into(), ErrorCode::CouldNotParsePemBlock),
        (key.to_pem(), ErrorCode::ExpectedPemCertificate),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".into(),
            ErrorCode::CouldNotParseX509FromDer,
        ),
        (leaf(&bed, &ours, "wrong").to_pem(), ErrorCode::InvalidCommonName),
        (leaf(&bed, &other, token).to_pem(), ErrorCode::CertificateFailedValidation),
    ] {
        let failure = verify(&bed, &admin, &id, &text).await.unwrap_err();
        assert_eq!(failure.code(), code, "{text}");
    }
    assert_eq!(read().await["isVerified"], false);
    let proof = leaf(&bed, &ours, token).to_pem();
    verify(&bed, &admin, &id, &proof).await.unwrap();
    let now = read().await;
    assert_eq!((&now["isVerified"], &now["_links"]["verify"]), (&json!(true), &NONE));
    let again = verify(&bed, &admin, &id, &proof).await.unwrap_err();
    assert_eq!((again.status(), again.code()), (409, ErrorCode::CaAlreadyVerified));
    let failure = verify(&bed, &admin, "nope", &proof).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::NotFound);

    // A replace keeps the verification.
    let put = with(&with(&body("renamed", &ours), "certPem", NONE), "identityRoles", json!([]));
    let put = with(&put, "identityNameFormat", json!("[commonName]"));
    bed.manage(&admin, "updateCa", &[&id], put).await.unwrap();
    let now = read().await;
    assert_eq!((&now["isVerified"], &now["name"]), (&json!(true), &json!("renamed")));
    assert_eq!(now["certPem"], new["certPem"]);

    let reply = bed.controller.call(admin, to(Api::Management, "getCaJwt", &[&id])).await.unwrap();
    let Content::Raw { media, body } = reply.content else { panic!("a bare ticket") };
    assert_eq!(media, "application/jwt");
    let text = String::from_utf8(body.to_vec()).unwrap();
    let (_, claims) = weft_identity::token::peek::<Value>(&text).unwrap();
    assert_eq!(
        claims,
        json!({"iss": "https://ctrl.example:1280/", "sub": id, "jti": id,
        "aud": ["openziti-enroller"], "em": "ca", "ctrls": null})
    );
}

/// One value in DER.
fn der(tag: u8, contents: &[&[u8]]) -> Vec<u8> {
    let contents = contents.concat();
    let [high, low] = u16::try_from(contents.len()).unwrap().to_be_bytes();
    let length: &[u8] = match (high, low) {
        (0, 0..=127) => &[low],
        (0, _) => &[0x81, low],
        _ => &[0x82, high, low],
    };
    [&[tag], length, &contents].concat()
}

/// A certificate as `openssl x509 -req` makes it: of the first version of X.509, with the names and
/// the key of another one, for the year 2026 or the one before.
fn version_1(issuer: &Authority, of: &Certificate, year: u8) -> String {
    const SEQUENCE: u8 = 0x30;
    const ECDSA_WITH_SHA256: [u8; 12] =
        [0x30, 10, 0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
    let at = |rest: &str| [&[0x17, 13], format!("{year}{rest}Z").as_bytes()].concat();
    let dates = der(SEQUENCE, &[&at("0101000000"), &at("1231235959")]);
    let (serial, spki) = ([0x02, 1, 1], of.public_key().unwrap().spki());
    let names = (issuer.certificate().subject_der(), of.subject_der());
    let contents = der(SEQUENCE, &[&serial, &ECDSA_WITH_SHA256, names.0, &dates, names.1, spki]);
    let key = issuer.key().tls();
    let signer = key.choose_scheme(&[rustls::SignatureScheme::ECDSA_NISTP256_SHA256]).unwrap();
    let signature = der(0x03, &[&[0], &signer.sign(&contents).unwrap()]);
    let whole = der(SEQUENCE, &[&contents, &ECDSA_WITH_SHA256, &signature]);
    weft_identity::encode_pem("CERTIFICATE", &whole)
}

#[tokio::test]
async fn a_ca_is_verified_by_a_certificate_of_the_first_version_too() {
    let (bed, admin, ours) = scene().await;
    let other = authority(&bed, "ours");
    let id = bed.create(&admin, "createCa", plain("ca", &ours));
    let id = id.await;
    let read = || async { bed.manage(&admin, "detailCa", &[&id], NONE).await.unwrap() };
    let token = read().await["verificationToken"].as_str().unwrap().to_owned();
    let good = leaf(&bed, &ours, &token);
    for (text, code) in [
        (version_1(&other, &good, 26), ErrorCode::CertificateFailedValidation),
        (version_1(&ours, &good, 25), ErrorCode::CertificateFailedValidation),
        (version_1(&ours, &leaf(&bed, &ours, "wrong"), 26), ErrorCode::InvalidCommonName),
    ] {
        assert_eq!(verify(&bed, &admin, &id, &text).await.unwrap_err().code(), code);
    }
    assert_eq!(read().await["isVerified"], false);
    let proof = version_1(&ours, &good, 26);
    verify(&bed, &admin, &id, &proof).await.unwrap();
    assert_eq!(read().await["isVerified"], true);

    // No identity has this certificate.
    let chain = Certificate::from_pem(proof.as_bytes()).unwrap();
    let failure = bed.login_with(&chain).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::InvalidAuth);
}

#[tokio::test]
async fn wrong_cas_are_named_field_by_field() {
    let (bed, admin, ours) = scene().await;
    let good = plain("ca", &ours);
    let claim = json!({"index": 0, "location": "SAN_URI", "matcher": "SCHEME",
        "matcherCriteria": "spiffe", "parser": "SPLIT", "parserCriteria": "/"});
    let with_claim =
        |member: &str, value: Value| with(&good, "externalIdClaim", with(&claim, member, value));
    let mut bodies = vec![
        (with(&good, "certPem", json!("x")), "certPem"),
        (with(&good, "certPem", json!(leaf(&bed, &ours, "l").to_pem())), "certPem"),
        (with(&good, "identityRoles", json!(["#x"])), "identityRoles"),
        (with(&good, "identityRoles", json!("x")), "identityRoles"),
        (with(&good, "isAuthEnabled", json!(1)), "isAuthEnabled"),
        (with_claim("location", json!("CN")), "externalIdClaim.location"),
        (with_claim("location", json!("COMMON_NAME")), "externalIdClaim.matcher"),
        (with_claim("matcherCriteria", json!("")), "externalIdClaim.matcherCriteria"),
        (with_claim("parserCriteria", json!("")), "externalIdClaim.parserCriteria"),
        (with_claim("index", json!(-1)), "externalIdClaim.index"),
    ];
    for member in ["index", "location", "matcher", "matcherCriteria", "parser", "parserCriteria"] {
        let field: &'static str = format!("externalIdClaim.{member}").leak();
        bodies.push((with_claim(member, NONE), field));
    }
    let required = [
        "name",
        "certPem",
        "identityRoles",
        "isAuthEnabled",
        "isAutoCaEnrollmentEnabled",
        "isOttCaEnrollmentEnabled",
    ];
    bodies.extend(required.map(|field| (with(&good, field, NONE), field)));
    refuses(&bed, &admin, "createCa", "", bodies).await;
    let is_leaf = with(&good, "certPem", json!(leaf(&bed, &ours, "l").to_pem()));
    let failure = refusal(&bed, &admin, "createCa", "", is_leaf).await;
    assert_eq!(failure.code(), ErrorCode::CertificateIsNotCa);

    let id = bed.create(&admin, "createCa", with(&good, "externalIdClaim", claim.clone())).await;
    let twice = with(&good, "name", json!("other"));
    refuses(&bed, &admin, "createCa", "", vec![(twice, "certPem")]).await;
    let put = with(&good, "certPem", NONE);
    refuses(&bed, &admin, "updateCa", &id, vec![(put.clone(), "identityNameFormat")]).await;
    let read = || async { bed.manage(&admin, "detailCa", &[&id], NONE).await.unwrap() };
    assert_eq!(read().await["externalIdClaim"], claim);
    let patch = json!({"externalIdClaim": {"index": 2}});
    bed.manage(&admin, "patchCa", &[&id], patch).await.unwrap();
    assert_eq!(read().await["externalIdClaim"]["index"], 2);
    assert_eq!(read().await["externalIdClaim"]["parser"], "SPLIT");
    let before = read().await["externalIdClaim"].clone();
    let renamed = json!({"name": "renamed", "externalIdClaim": {}});
    bed.manage(&admin, "patchCa", &[&id], renamed).await.unwrap();
    assert_eq!(read().await["externalIdClaim"], before, "an empty claim keeps it");
    let merged = json!({"externalIdClaim": {"matcher": "SUFFIX"}});
    let failure = refusal(&bed, &admin, "patchCa", &id, merged).await;
    assert_eq!(failure.code(), ErrorCode::InvalidField);
    let put = with(&put, "identityNameFormat", json!(""));
    let kept = with(&put, "externalIdClaim", json!({}));
    bed.manage(&admin, "updateCa", &[&id], kept).await.unwrap();
    assert_eq!(read().await["externalIdClaim"]["index"], 2, "an empty claim says nothing");
    bed.manage(&admin, "patchCa", &[&id], json!({"name": "again"})).await.unwrap();
    assert_eq!(read().await.get("externalIdClaim"), Some(&NONE), "silence clears it");
    let again = with(&put, "externalIdClaim", claim.clone());
    bed.manage(&admin, "updateCa", &[&id], again).await.unwrap();
    bed.manage(&admin, "updateCa", &[&id], put).await.unwrap();
    assert_eq!(read().await.get("externalIdClaim"), Some(&NONE));
}

#[tokio::test]
async fn a_ca_takes_its_enrollments_along() {
    let (bed, admin, ours) = scene().await;
    let good = plain("ca", &ours);
    let id = bed.create(&admin, "createCa", good).await;
    let identity = json!({"name": "i", "type": "Default", "isAdmin": false,
        "enrollment": {"ottca": id}});
    let token = bed.manage(&admin, "detailCa", &[&id], NONE).await.unwrap();
    let token = token["verificationToken"].as_str().unwrap();
    verify(&bed, &admin, &id, &leaf(&bed, &ours, token).to_pem()).await.unwrap();
    let identity = bed.create(&admin, "createIdentity", identity).await;
    let read = || async { bed.manage(&admin, "detailIdentity", &[&identity], NONE).await.unwrap() };
    assert_eq!(read().await["enrollment"]["ottca"]["caId"], json!(id));
    bed.manage(&admin, "deleteCa", &[&id], NONE).await.unwrap();
    assert_eq!(read().await["enrollment"], json!({}));
}

#[tokio::test]
async fn a_ca_takes_the_logins_that_rest_on_it_with_it() {
    let (bed, admin, ours, id) = known_by_claim().await;
    bed.clock.advance(Duration::from_secs(10));
    let session = bed.login_with(&[leaf(&bed, &ours, "7")]).await.unwrap().data();
    assert_eq!(session["authenticatorId"], "internal");
    let token = session["token"].as_str().unwrap();
    assert!(bed.restarted().await.with_token(token).login().is_some());
    // An empty claim keeps the present one.
    let switched = |on: bool| json!({"isAuthEnabled": on, "externalIdClaim": {}});
    bed.manage(&admin, "patchCa", &[&id], switched(false)).await.unwrap();
    assert!(bed.with_token(token).login().is_none(), "its authentication was switched off");
    bed.manage(&admin, "patchCa", &[&id], switched(true)).await.unwrap();
    let session = bed.login_with(&[leaf(&bed, &ours, "7")]).await.unwrap().data();
    let token = session["token"].as_str().unwrap();
    bed.manage(&admin, "deleteCa", &[&id], NONE).await.unwrap();
    until("the login ends", || bed.with_token(token).login().is_none()).await;
    let own = admin.login().unwrap();
    assert!(bed.with_token(&own.session.token).login().is_some());
}

#[tokio::test]
async fn the_certificate_of_a_server_logs_nobody_in() {
    let (bed, _admin, ours, _) = known_by_claim().await;
    let request = CertificateRequest::from_pem(&csr("7")).unwrap();
    let now = system_time(bed.controller.kernel().now());
    for (purpose, logs_in) in
        [(KeyPurpose::Server, false), (KeyPurpose::Both, true), (KeyPurpose::Client, true)]
    {
        let subject = SubjectName::common_name("7");
        let leaf = Leaf::for_key(request.public_key(), &subject, Vec::new(), purpose, now).unwrap();
        let made = ours.issue(&leaf).unwrap();
        let answer = bed.login_with(&[made]).await.map(|reply| reply.status);
        match logs_in {
            true => assert!(answer.is_ok(), "{purpose:?}"),
            false => assert_eq!(answer.unwrap_err().status(), 401, "{purpose:?}"),
        }
    }
}

/// An authority that issues in the place of the present signer.
fn other_signer(bed: &Bed) -> crate::Keys {
    let keys = (*bed.controller.auth().keys()).clone();
    let root = authority(bed, "new root");
    let bundle = keys.bundle.certificates().iter().chain([root.certificate()]).cloned();
    crate::Keys {
        bundle: weft_identity::TrustBundle::new(bundle.collect::<Vec<_>>()),
        authority: root,
        ..keys
    }
}

#[tokio::test]
async fn no_authority_of_the_network_becomes_a_third_party_ca() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    bed.controller.auth().exchange_keys(other_signer(&bed)).unwrap();
    let keys = bed.controller.auth().keys();
    // The bundle has the roots, the former signer and the present one.
    assert!(keys.bundle.certificates().len() >= 3);
    for (number, certificate) in keys.bundle.certificates().iter().enumerate() {
        let ours = authority(&bed, "ours");
        let body = plain(&format!("ca{number}"), &ours);
        let body = with(&body, "certPem", json!(certificate.to_pem()));
        let failure = refusal(&bed, &admin, "createCa", "", body).await;
        assert_eq!(failure.status(), 400);
        let told = serde_json::to_string(&failure.to_string()).unwrap();
        assert!(told.contains("network"), "{told}");
    }
}

#[tokio::test]
async fn a_stored_ca_that_is_the_networks_own_signer_enrolls_nobody() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    // An identity that is deleted while its certificate is still valid.
    let (id, chain) = bed.enroll(&admin, "gone").await;
    bed.manage(&admin, "deleteIdentity", &[&id], NONE).await.unwrap();
    let ca = bed.create(&admin, "createCa", plain("ca", &authority(&bed, "ours"))).await;
    let signer = bed.controller.auth().keys().authority.certificate().clone();
    let own = Caller::system();
    let set = |is_verified: bool| {
        let (id, signer) = (weft_model::Id::new(&ca), signer.clone());
        bed.controller.kernel().decide(&own, move |decision| {
            let mut stored = (**decision.tip().get::<weft_model::entity::Ca>(&id).unwrap()).clone();
            stored.cert_pem = signer.to_pem();
            stored.fingerprint = signer.fingerprint().into();
            stored.is_verified = is_verified;
            decision.put(stored);
            Ok(())
        })
    };
    set(false).await.unwrap();
    let read = bed.manage(&admin, "detailCa", &[&ca], NONE).await.unwrap();
    let request = csr(read["verificationToken"].as_str().unwrap());
    let request = CertificateRequest::from_pem(&request).unwrap();
    let spiffe = SpiffeId::identity("weft.test", "x");
    let proof = Leaf::for_identity(&request, &spiffe, system_time(bed.controller.kernel().now()));
    let proof = bed.controller.auth().keys().authority.issue(&proof).unwrap();
    let failure = verify(&bed, &admin, &ca, &proof.to_pem()).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::CertificateFailedValidation);

    set(true).await.unwrap();
    let showing = |chain: &[Certificate]| {
        Caller::nobody(crate::Origin { certificates: chain.to_vec(), ..crate::Origin::default() })
    };
    let call = to(Api::Client, "enrollCa", &[]);
    let failure = bed.controller.call(showing(&chain), call).await.map(drop).unwrap_err();
    assert_eq!(failure.code(), ErrorCode::CertFailedValidation);
    let body = json!({"name": "i", "type": "Default", "isAdmin": false,
        "enrollment": {"ottca": ca}});
    let id = bed.create(&admin, "createIdentity", body).await;
    let read = bed.manage(&admin, "detailIdentity", &[&id], NONE).await.unwrap();
    let ticket = read["enrollment"]["ottca"]["token"].as_str().unwrap();
    let call = to(Api::Client, "enrollOttCa", &[]).with_json(&json!({"token": ticket}));
    let failure = bed.controller.call(showing(&chain), call).await.map(drop).unwrap_err();
    assert_eq!(failure.code(), ErrorCode::CertificateFailedValidation);
}

/// An authority that was made with `openssl req -x509 -newkey rsa:1024`.
const SHORT_KEY: &str = "-----BEGIN CERTIFICATE-----\n\
     MIICBjCCAW+gAwIBAgIUacASfhX8/rK84Xq7QMGf6INnfG4wDQYJKoZIhvcNAQEL\n\
     BQAwFDESMBAGA1UEAwwJcm9vdCAxMDI0MCAXDTI2MTEzMDA4MTIyMloYDzIxMjYx\n\
     MTA2MDgxMjIyWjAUMRIwEAYDVQQDDAlyb290IDEwMjQwgZ8wDQYJKoZIhvcNAQEB\n\
     BQADgY0AMIGJAoGBAM/rZdoM4u5MHCKD7CpT5bbYnLI9ItpuvTe9kFRJD3kvPoIn\n\
     qQlOCMOAWdxdKOkFKL5hREV1LI5aPVTb4nvwAFVIIqTaP9q+OF/b0ZYXGGymJbty\n\
     u7SyPlxf1EoQ2/zUxFkAZvItMpuM4xAQgXpw0mKVH1Ge7IVEwNNZXavXD7IbAgMB\n\
     AAGjUzBRMB0GA1UdDgQWBBQjLMkjROMOnf5i0MVD5Xo/DrPr1zAfBgNVHSMEGDAW\n\
     gBQjLMkjROMOnf5i0MVD5Xo/DrPr1zAPBgNVHRMBAf8EBTADAQH/MA0GCSqGSIb3\n\
     DQEBCwUAA4GBAAOOwcJdQEO1QkCnxzW9hfOnB7m+Tyd93BSSnp0oeRJ3wM3pTHyt\n\
     Yny5sPfiVZJ3bfmgtEJ3/ExP101n+74VRCFoPSW+PQUkz0qV2LSTOyeACkaDHTtf\n\
     tBjzGuWNZrsSrbkePI5JsIhm1ymIXh/vfc/67RztE/9Q42JkdaMDpNVL\n\
     -----END CERTIFICATE-----\n";

#[tokio::test]
async fn no_authority_with_a_short_key_becomes_a_ca() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let short = with(&body("ca", &authority(&bed, "ours")), "certPem", json!(SHORT_KEY));
    let failure = refusal(&bed, &admin, "createCa", "", short).await.to_string();
    assert!(failure.contains("RSA key of 1024 bits, use 2048 to 8192"), "{failure}");
}
