use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use weft_identity::{KeyAlgorithm, KeySet, PrivateKey, PublicKey};
use weft_kernel::KeySource;
use weft_kernel::clock::ManualClock;
use weft_model::entity::ExtJwtSigner;
use weft_model::{Base, Id, Timestamp};
use weft_store::Memory;

use super::*;
use crate::key_sets::set::{AGAIN, AGE, MOST_KEYS};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A provider whose document tests change.
#[derive(Default)]
struct Provider {
    document: Mutex<Option<Vec<u8>>>,
    fetches: Mutex<u32>,
    takes: Mutex<Duration>,
}

/// The provider as a source.
struct Source(Arc<Provider>);

impl KeySource for Source {
    fn fetch(&self, _url: &str) -> BoxFuture<'static, Result<Vec<u8>, String>> {
        let provider = Arc::clone(&self.0);
        async move {
            *provider.fetches.lock() += 1;
            let takes = *provider.takes.lock();
            tokio::time::sleep(takes).await;
            provider.document.lock().clone().ok_or_else(|| "it is down".to_owned())
        }
        .boxed()
    }
}

impl Provider {
    fn publish(&self, keys: &[(&str, &PublicKey)]) {
        let mut set = KeySet::new();
        keys.iter().for_each(|(kid, key)| set.insert(*kid, (*key).clone()));
        *self.document.lock() = Some(set.to_json().unwrap().to_string().into_bytes());
    }

    fn fetches(&self) -> u32 {
        *self.fetches.lock()
    }
}

fn key() -> PublicKey {
    PrivateKey::generate(KeyAlgorithm::EcP256).unwrap().public().clone()
}

fn signer(name: &str, endpoint: &str) -> ExtJwtSigner {
    ExtJwtSigner {
        base: Base::new(Id::new(name), Timestamp(0)),
        name: name.into(),
        jwks_endpoint: Some(endpoint.to_owned()),
        enabled: true,
        ..ExtJwtSigner::default()
    }
}

fn scene() -> (Arc<Provider>, Arc<KeySets>, ExtJwtSigner) {
    let provider = Arc::new(Provider::default());
    let sets = Arc::new(KeySets {
        sets: Mutex::default(),
        noted: Mutex::default(),
        source: Arc::new(Source(Arc::clone(&provider))),
        store: Arc::new(Memory::new()),
        clock: Arc::new(ManualClock::at(Timestamp(0))),
        good_for: DAY,
        waiting: WaitingLogins::default(),
        told: Mutex::new(LogLines::new(std::time::Instant::now())),
    });
    (provider, sets, signer("idp", "https://idp.example/keys"))
}

fn from(last: u8) -> Option<IpAddr> {
    Some(IpAddr::from([192, 0, 2, last]))
}

#[tokio::test(start_paused = true)]
async fn an_unknown_key_is_fetched_once_in_ten_seconds() {
    let (provider, sets, idp) = scene();
    let (old, new) = (key(), key());
    provider.publish(&[("old", &old)]);
    assert_eq!(sets.known(&idp, "old"), None, "nothing is fetched for a mere look");
    assert_eq!(sets.key(&idp, "old", None).await, Ok(old.clone()));
    assert_eq!(sets.known(&idp, "old"), Some(old.clone()));
    provider.publish(&[("new", &new)]);
    for _ in 0..100 {
        let refused = sets.key(&idp, "new", None).await;
        assert_eq!(refused, Err(NoKey::Unknown("new".into())));
    }
    assert_eq!(provider.fetches(), 1);
    tokio::time::advance(AGAIN).await;
    assert_eq!(sets.key(&idp, "new", None).await, Ok(new));
    assert_eq!(sets.known(&idp, "old"), None, "a key that is missing is dropped");
    assert_eq!(provider.fetches(), 2);
}

#[tokio::test(start_paused = true)]
async fn one_fetch_serves_all_who_wait_and_their_number_is_bounded() {
    let (provider, sets, idp) = scene();
    let one = key();
    provider.publish(&[("one", &one)]);
    *provider.takes.lock() = Duration::from_secs(5);
    let waiting = |last: u8, count: usize| {
        let (sets, idp) = (&sets, &idp);
        join_all((0..count).map(move |_| sets.key(idp, "one", from(last))))
    };
    let (greedy, others) = futures::join!(waiting(1, 1000), waiting(2, 10));
    assert_eq!(provider.fetches(), 1);
    let served = greedy.iter().filter(|it| it.is_ok()).count();
    assert!((100..400).contains(&served), "{served}");
    assert!(greedy.iter().filter(|it| it.is_err()).all(|it| *it == Err(NoKey::Busy)));
    assert!(others.iter().all(Result::is_ok), "a source leaves room for others");
}

#[tokio::test(start_paused = true)]
async fn a_fetch_goes_on_when_its_token_is_gone() {
    let (provider, sets, idp) = scene();
    provider.publish(&[("one", &key())]);
    *provider.takes.lock() = Duration::from_secs(5);
    {
        let asked = sets.key(&idp, "one", None);
        let gone = tokio::time::timeout(Duration::from_secs(1), asked).await;
        assert!(gone.is_err());
    }
    assert!(sets.key(&idp, "one", None).await.is_ok());
    assert_eq!(provider.fetches(), 1);
}

#[tokio::test(start_paused = true)]
async fn known_keys_are_good_for_a_day_while_the_provider_is_down() {
    let (provider, sets, idp) = scene();
    let one = key();
    provider.publish(&[("one", &one)]);
    sets.key(&idp, "one", None).await.unwrap();
    *provider.document.lock() = None;
    tokio::time::advance(DAY - Duration::from_secs(1)).await;
    assert_eq!(sets.key(&idp, "one", None).await, Ok(one.clone()));
    assert_eq!(provider.fetches(), 1, "a known key asks nobody");
    let refused = sets.key(&idp, "two", None).await.unwrap_err().to_string();
    assert!(refused.contains("\"idp\"") && refused.contains("it is down"), "{refused}");
    tokio::time::advance(Duration::from_secs(11)).await;
    assert!(matches!(sets.key(&idp, "one", None).await, Err(NoKey::Provider { .. })));
    assert_eq!(sets.known(&idp, "one"), None);
    provider.publish(&[("one", &one)]);
    tokio::time::advance(AGAIN).await;
    assert_eq!(sets.key(&idp, "one", None).await, Ok(one));
}

#[tokio::test(start_paused = true)]
async fn sets_in_use_are_due_before_an_hour_is_over() {
    let (provider, sets, idp) = scene();
    provider.publish(&[("one", &key())]);
    let _ = sets.key(&signer("unused", "https://other.example/keys"), "x", None).await;
    sets.key(&idp, "one", None).await.unwrap();
    assert_eq!(sets.due().len(), 0);
    tokio::time::advance(AGE).await;
    assert!(AGE < Duration::from_secs(3600));
    assert_eq!(sets.due().len(), 2);
    let gone = |_: &Id| None;
    sets.retain(gone);
    assert_eq!((sets.due().len(), sets.sets.lock().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_signer_with_another_url_has_no_keys_of_the_former_one() {
    let (provider, sets, idp) = scene();
    provider.publish(&[("one", &key())]);
    sets.key(&idp, "one", None).await.unwrap();
    assert_eq!(sets.known(&signer("idp", "https://evil.example/keys"), "one"), None);
    for number in 0..2 * MOST_SETS {
        let other = signer(&format!("s{number}"), "https://idp.example/keys");
        let _ = sets.known(&other, "one");
    }
    assert_eq!(sets.sets.lock().len(), MOST_SETS);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_takes_the_name_of_another_is_fetched_once_in_ten_seconds() {
    let (provider, sets, idp) = scene();
    let (old, new) = (key(), key());
    provider.publish(&[("k", &old)]);
    assert_eq!(sets.key(&idp, "k", None).await, Ok(old.clone()));
    provider.publish(&[("k", &new)]);
    for _ in 0..100 {
        assert_eq!(sets.renewed(&idp, "k", &old).await, None);
    }
    assert_eq!(provider.fetches(), 1);
    tokio::time::advance(AGAIN).await;
    *provider.takes.lock() = Duration::from_secs(5);
    let asked = join_all((0..100).map(|_| sets.renewed(&idp, "k", &old))).await;
    assert_eq!(asked.iter().flatten().count(), 1, "nobody waits for the fetch of somebody else");
    assert_eq!(sets.renewed(&idp, "k", &old).await, Some(new.clone()));
    assert_eq!(sets.renewed(&idp, "k", &new).await, None, "a forged token");
    assert_eq!((provider.fetches(), sets.key(&idp, "k", None).await), (2, Ok(new)));
}

#[tokio::test(start_paused = true)]
async fn the_notes_of_signers_that_are_gone_are_forgotten() {
    let (provider, sets, idp) = scene();
    provider.publish(&[("one", &key())]);
    sets.key(&idp, "one", None).await.unwrap();
    // Others take its place in memory, and its note stays as long as there is the signer.
    tokio::time::advance(Duration::from_secs(1)).await;
    for number in 0..2 * MOST_SETS {
        let other = signer(&format!("s{number}"), "https://other.example/keys");
        let _ = sets.known(&other, "one");
    }
    assert!(!sets.sets.lock().contains_key(&idp.base.id));
    let notes = || kept::noted(&*sets.store);
    sets.retain(|id| Some(&idp).filter(|it| it.base.id == *id));
    assert_eq!(notes(), ["idp"]);
    // A fetch that ends after its signer is gone.
    *provider.takes.lock() = Duration::from_secs(5);
    let late = signer("late", "https://late.example/keys");
    let asked = sets.key(&late, "one", None);
    assert!(tokio::time::timeout(Duration::from_secs(1), asked).await.is_err());
    sets.retain(|_| None);
    tokio::time::advance(Duration::from_secs(5)).await;
    while notes() != ["late"] {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    sets.retain(|_| None);
    assert!(notes().is_empty());
}

/// GHSA-whjr-3j94-gw3c: a key set that grows fills no memory.
#[test]
fn ghsa_whjr_3j94_gw3c_a_set_has_a_hundred_keys_at_most() {
    let one = key();
    let mut set = KeySet::new();
    (0..200).for_each(|number| set.insert(format!("k{number:03}"), one.clone()));
    let document = set.to_json().unwrap().to_string();
    assert_eq!(set::read(document.as_bytes()).unwrap().len(), MOST_KEYS);
    let huge = format!("{{\"keys\":[{}]}}", "{},".repeat(1 << 20));
    assert!(set::read(huge.as_bytes()).is_err());
    for no_set in ["", "[]", "{}", "<html>", "{\"keys\":{}}"] {
        assert!(set::read(no_set.as_bytes()).is_err(), "{no_set}");
    }
    let odd = r#"{"keys":[{"kty":"oct","k":"AAAA","kid":"hmac"},{"kty":"RSA","kid":"no numbers"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA","kid":"","use":"sig"}]}"#;
    assert_eq!(set::read(odd.as_bytes()), Ok(BTreeMap::new()), "shared secrets are no keys");
}
