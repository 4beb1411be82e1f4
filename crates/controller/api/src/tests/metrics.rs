//! Access to metrics, and health checks of the store.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use weft_config::WebApi;
use weft_config::controller::StoreCheck;
use weft_identity::{
    Authority, AuthoritySpec, KeyAlgorithm, KeyPurpose, KeyedChain, Leaf, PrivateKey, SubjectName,
};
use weft_store::InjectedFault;

use super::{Bed, LONG, MANAGEMENT, Seen, section, send};
use crate::ApiLimits;

async fn bed_with(scrape_cert: Option<PathBuf>) -> Bed {
    let mut section = section();
    section.apis.push(WebApi::Metrics { scrape_cert, include_timestamps: false });
    Bed::with(section, ApiLimits::default()).await
}

async fn scrape(bed: &Bed, shown: &KeyedChain) -> Seen {
    send(bed.client_of(shown).get(bed.url("/metrics"))).await
}

#[tokio::test]
async fn metrics_are_for_one_certificate_which_is_the_leaf_that_is_shown() {
    let now = SystemTime::now();
    let root = Authority::make_root(&AuthoritySpec::new("scrapers"), now).unwrap();
    let issue = |name: &str| {
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let subject = SubjectName::common_name(name);
        let leaf = Leaf::for_key(key.public(), &subject, vec![], KeyPurpose::Client, now).unwrap();
        (root.issue(&leaf).unwrap(), key)
    };
    let ((scraper, scraper_key), (other, other_key)) = (issue("scraper"), issue("other"));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), scraper.to_pem()).unwrap();
    let bed = bed_with(Some(file.path().to_owned())).await;
    let chain = |certificates: &[&weft_identity::Certificate], key: &PrivateKey| {
        let certificates = certificates.iter().map(|one| (*one).clone()).collect();
        KeyedChain::new(certificates, key.clone()).unwrap()
    };
    let admitted = chain(&[&scraper], &scraper_key);
    let with_filler = chain(&[&other, &scraper], &other_key);
    for shown in [&chain(&[&other], &other_key), &with_filler] {
        let refused = scrape(&bed, shown).await;
        assert_eq!((refused.status, refused.bytes.len()), (401, 0));
    }
    assert_eq!(bed.get("/metrics").await.status, 401, "nothing is shown");
    let seen = scrape(&bed, &admitted).await;
    assert_eq!(seen.status, 200);
    assert!(seen.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    // The file is read again when the program is told to.
    std::fs::write(file.path(), other.to_pem()).unwrap();
    assert_eq!(scrape(&bed, &admitted).await.status, 200);
    bed.server.reload().await;
    assert_eq!(scrape(&bed, &admitted).await.status, 401);
    assert_eq!(scrape(&bed, &with_filler).await.status, 200);
}

#[tokio::test]
async fn a_check_of_the_store_that_fails_says_how_often_and_since_when() {
    let soon = Duration::from_millis(20);
    let check = StoreCheck { interval: soon, timeout: LONG, initial_delay: soon };
    let bed = Bed::checked(section(), ApiLimits::default(), check).await;
    let check = async || bed.get("/health-checks").await.json()["data"]["checks"][0].clone();
    let until = async |holds: &dyn Fn(&Value) -> bool| {
        let look = async {
            loop {
                let seen = check().await;
                if holds(&seen) {
                    return seen;
                }
                tokio::time::sleep(soon).await;
            }
        };
        tokio::time::timeout(LONG, look).await.unwrap()
    };
    until(&|seen| seen["healthy"] == true && seen.get("details").is_some()).await;
    let admin = bed.admin().await;
    bed.store.push(InjectedFault::GoesDark);
    let service = serde_json::json!({"name": "a", "encryptionRequired": true});
    let at = format!("{MANAGEMENT}/services");
    let (_, failing) = tokio::join!(
        admin.call(reqwest::Method::POST, &at, &service),
        until(&|seen| seen["consecutiveFailures"].as_u64() > Some(2))
    );
    assert_eq!(failing["healthy"], false, "{failing}");
    assert!(failing["err"]["message"].is_string() && failing["details"].is_null(), "{failing}");
    assert!(failing["failingSince"].as_str() <= failing["lastCheckTime"].as_str(), "{failing}");
}
