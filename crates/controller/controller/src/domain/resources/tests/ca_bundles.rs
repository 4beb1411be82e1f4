//! CAs whose text has several certificates: which of them count, and for whom.

use std::time::Duration;

use serde_json::json;
use weft_contract::{Api, ErrorCode};
use weft_identity::{Authority, AuthoritySpec, Certificate, to_pem};
use weft_kernel::clock::system_time;

use super::cas::{authority, body, leaf, verify};
use super::{NONE, refusal, with};
use crate::testing::{Bed, to};
use crate::{Caller, Failure, Origin, Result};

/// A root, two authorities below it, and a stranger.
struct Pki {
    root: Authority,
    issuing: Authority,
    other: Authority,
    stranger: Authority,
}

impl Pki {
    fn new(bed: &Bed) -> Self {
        let root = authority(bed, "root");
        let now = system_time(bed.controller.kernel().now()) - Duration::from_secs(60);
        let below = |name| root.make_intermediate(&AuthoritySpec::new(name), now).unwrap();
        let (issuing, other) = (below("issuing"), below("other"));
        Self { root, issuing, other, stranger: authority(bed, "stranger") }
    }
}

/// Makes a CA of these certificates, and verifies it with a certificate of `proof`.
async fn bundle(
    bed: &Bed,
    admin: &Caller,
    all: &[&Authority],
    proof: &Authority,
) -> Result<String> {
    let pem = to_pem(all.iter().map(|it| it.certificate()));
    let body = with(&body("ca", all[0]), "certPem", json!(pem));
    let id = bed.create(admin, "createCa", with(&body, "identityRoles", json!([]))).await;
    let read = bed.manage(admin, "detailCa", &[&id], NONE).await.unwrap();
    assert_eq!(read["fingerprint"], all[0].certificate().fingerprint());
    let token = read["verificationToken"].as_str().unwrap();
    verify(bed, admin, &id, &leaf(bed, proof, token).to_pem()).await.map(|()| id)
}

/// Enrolls with a chain, and logs in with it.
async fn enters(bed: &Bed, chain: &[Certificate]) -> Result<()> {
    let origin = Origin { certificates: chain.to_vec(), ..Origin::default() };
    let call = to(Api::Client, "enrollCa", &[]);
    bed.controller.call(Caller::nobody(origin), call).await?;
    bed.login_with(chain).await.map(drop)
}

#[tokio::test]
async fn the_proven_authority_counts_with_those_below_it() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let pki = Pki::new(&bed);
    let Pki { root, issuing, other, stranger } = &pki;
    // The text, the authority that is proven, and those whose certificates count then.
    type Row<'a> = (&'a str, Vec<&'a Authority>, &'a Authority, Vec<&'a Authority>);
    let table: Vec<Row<'_>> = vec![
        ("root first, root proven", vec![root, issuing], root, vec![root, issuing]),
        ("root last, root proven", vec![issuing, root], root, vec![root, issuing]),
        ("root first, issuing proven", vec![root, issuing], issuing, vec![issuing]),
        ("root last, issuing proven", vec![issuing, root], issuing, vec![issuing]),
        ("two below", vec![other, root, issuing], root, vec![root, issuing, other]),
        ("siblings", vec![other, issuing], issuing, vec![issuing]),
        ("a stranger in it", vec![root, stranger, issuing], root, vec![root, issuing]),
        ("a stranger first", vec![stranger, issuing], issuing, vec![issuing]),
    ];
    for (what, text, proof, counting) in table {
        let id = bundle(&bed, &admin, &text, proof).await.unwrap();
        for one in [root, issuing, other, stranger] {
            let name = one.certificate().common_name().unwrap();
            let alone = leaf(&bed, one, name);
            let counts = counting.iter().any(|it| it.certificate() == one.certificate());
            let entered = enters(&bed, std::slice::from_ref(&alone)).await;
            assert_eq!(entered.is_ok(), counts, "{what}: {name}: {entered:?}");
        }
        // A router is told the same authorities.
        let told = bed.controller.auth().public_keys();
        for one in [root, issuing, other, stranger] {
            let certificate = one.certificate();
            let is_told = told.iter().any(|key| key.kid == certificate.fingerprint());
            let counts = counting.iter().any(|it| it.certificate() == certificate);
            assert_eq!(is_told, counts, "{what}: {}", certificate.subject());
        }
        bed.manage(&admin, "deleteCa", &[&id], NONE).await.unwrap();
    }
}

#[tokio::test]
async fn chains_in_part_and_in_odd_order_lead_to_the_ca() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let pki = Pki::new(&bed);
    let id = bundle(&bed, &admin, &[&pki.root], &pki.root).await.unwrap();
    let now = system_time(bed.controller.kernel().now()) - Duration::from_secs(60);
    let low = pki.issuing.make_intermediate(&AuthoritySpec::new("low"), now).unwrap();
    let [root, issuing, low_cert, stranger] =
        [&pki.root, &pki.issuing, &low, &pki.stranger].map(|one| one.certificate().clone());
    for (number, (others, is_taken)) in [
        (vec![&low_cert, &issuing], true),
        (vec![&issuing, &low_cert], true),
        (vec![&root, &issuing, &low_cert], true),
        (vec![&stranger, &low_cert, &low_cert, &issuing], true),
        (vec![&low_cert], false),
        (vec![&issuing], false),
        (vec![], false),
    ]
    .into_iter()
    .enumerate()
    {
        let own = leaf(&bed, &low, &format!("leaf{number}"));
        let chain: Vec<Certificate> = std::iter::once(&own).chain(others).cloned().collect();
        let entered = enters(&bed, &chain).await;
        assert_eq!(entered.is_ok(), is_taken, "{number}: {entered:?}");
    }
    bed.manage(&admin, "deleteCa", &[&id], NONE).await.unwrap();
}

#[tokio::test]
async fn what_proves_nothing_verifies_no_bundle() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let pki = Pki::new(&bed);
    let refused = bundle(&bed, &admin, &[&pki.root, &pki.issuing], &pki.other).await;
    assert_eq!(refused.unwrap_err().code(), ErrorCode::CertificateFailedValidation);
    // An authority of the network is refused wherever in the text it is.
    let network = bed.controller.auth().keys().authority.certificate().clone();
    let ours = authority(&bed, "ours");
    let text = to_pem([ours.certificate(), &network]);
    let body = with(&body("second", &ours), "certPem", json!(text));
    let failure = refusal(&bed, &admin, "createCa", "", body).await;
    assert!(failure.to_string().contains("network"), "{failure}");
    let ours = authority(&bed, "ours");
    let text = to_pem(std::iter::repeat_n(ours.certificate(), 33));
    let body = with(&super::cas::body("third", &ours), "certPem", json!(text));
    let failure = refusal(&bed, &admin, "createCa", "", body).await;
    assert!(failure.to_string().contains("at most 32"), "{failure}");
}

#[tokio::test]
async fn a_refused_certificate_is_told_the_reason() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let pki = Pki::new(&bed);
    bundle(&bed, &admin, &[&pki.root], &pki.root).await.unwrap();
    let cause = |failure: Failure| {
        assert_eq!(failure.status(), 401);
        failure.to_string()
    };
    let reason = cause(bed.login_with(&[leaf(&bed, &pki.stranger, "x")]).await.unwrap_err());
    assert!(reason.contains("no authority that is trusted here has issued it"), "{reason}");
    let reason = cause(bed.login_with(&[]).await.unwrap_err());
    assert!(reason.contains("no client certificate was shown"), "{reason}");
    let strict = json!({"primary": {"cert": {"allowExpiredCerts": false}}});
    bed.manage(&admin, "patchAuthPolicy", &["default"], strict).await.unwrap();
    let good = leaf(&bed, &pki.root, "x");
    enters(&bed, std::slice::from_ref(&good)).await.unwrap();
    bed.clock.advance(Duration::from_secs(400 * 24 * 3600));
    let reason = cause(bed.login_with(&[good]).await.unwrap_err());
    assert!(reason.contains("was valid until"), "{reason}");
}
