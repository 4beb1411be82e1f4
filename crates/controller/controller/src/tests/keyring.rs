use std::time::Duration;

use futures::poll;
use serde_json::{Value, json};
use weft_auth::keyring::{FORGOTTEN, FORMER, NOTES};
use weft_contract::resource::enrollment::EnrollmentClaims;
use weft_identity::token::{Expect, verify_with};
use weft_identity::{
    Authority, AuthoritySpec, KeyAlgorithm, KeyPurpose, KeyedChain, Leaf, PrivateKey, San,
    SubjectName, TrustBundle,
};
use weft_kernel::clock::system_time;
use weft_kernel::{Durations, Keys};
use weft_model::entity::{EnrollmentMethod, PolicyType, ServiceSession};
use weft_model::{Base, Id};
use weft_store::Store as _;

use crate::Caller;
use crate::testing::{Bed, NOW};

/// A root authority that makes keys of controllers.
struct Root(Authority);

impl Root {
    fn new() -> Self {
        Self(Authority::make_root(&AuthoritySpec::new("root"), system_time(NOW)).unwrap())
    }

    /// New keys at each call.
    fn keys(&self) -> Keys {
        let now = system_time(NOW);
        let signer = self.0.make_intermediate(&AuthoritySpec::new("signer"), now).unwrap();
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let sans = vec![San::Dns("ctrl.example".into())];
        let subject = SubjectName::common_name("ctrl1");
        let leaf = Leaf::for_key(key.public(), &subject, sans, KeyPurpose::Both, now).unwrap();
        let chain = KeyedChain::new(vec![signer.issue(&leaf).unwrap()], key).unwrap();
        let bundle = [self.0.certificate().clone(), signer.certificate().clone()];
        Keys {
            session: chain.clone(),
            enrollment: chain,
            authority: signer,
            bundle: TrustBundle::new(bundle),
            trust_domain: "weft.test".into(),
        }
    }
}

fn kid(keys: &Keys) -> String {
    keys.session.leaf().fingerprint().to_owned()
}

fn published(bed: &Bed) -> Vec<String> {
    bed.controller.auth().public_keys().into_iter().map(|key| key.kid).collect()
}

fn session(bed: &Bed, login: &str, id: &str) -> ServiceSession {
    ServiceSession {
        base: Base::new(Id::new(id), bed.controller.kernel().now()),
        api_session_id: Id::new(login),
        identity_id: Id::new("somebody"),
        service_id: Id::new("service"),
        session_type: PolicyType::Dial,
        ..ServiceSession::default()
    }
}

/// Id of an API session, which is stored and loaded at a restart.
async fn login(bed: &Bed) -> String {
    bed.admin().await.login().unwrap().session.id.clone()
}

/// The token of a new service session.
fn token(bed: &Bed, login: &str, id: &str) -> String {
    let session = session(bed, login, id);
    bed.controller.auth().sessions().plant_service(session.clone());
    bed.controller.auth().service_token(&session).unwrap()
}

fn is_good(bed: &Bed, token: &str) -> bool {
    bed.controller.auth().read_service_token(token, bed.controller.kernel().now()).is_ok()
}

#[tokio::test]
async fn another_certificate_of_the_controller_costs_no_token() {
    let (root, bed) = (Root::new(), Bed::new().await);
    let login = login(&bed).await;
    let old = kid(&bed.controller.auth().keys());
    let before = token(&bed, &login, "before");
    let new = root.keys();
    let changes = bed.controller.auth().key_changes();
    bed.controller.auth().exchange_keys(new.clone()).unwrap();
    assert!(changes.has_changed().unwrap(), "routers hear of it");
    let after = token(&bed, &login, "after");
    assert_eq!(kid(&bed.controller.auth().keys()), kid(&new));
    assert!(is_good(&bed, &before) && is_good(&bed, &after));
    // The former certificate vouches for nothing any more.
    assert!(published(&bed).contains(&kid(&new)) && !published(&bed).contains(&old));
    assert!(bed.controller.auth().forgotten_keys().contains(&old));
    let bed = bed.restarted().await;
    assert!(is_good(&bed, &before) && is_good(&bed, &after));
    // One that is used again is not forgotten.
    bed.controller.auth().exchange_keys(root.keys()).unwrap();
    let mut back = root.keys();
    back.session = new.session.clone();
    bed.controller.auth().exchange_keys(back).unwrap();
    assert!(published(&bed).contains(&kid(&new)));
    assert!(!bed.controller.auth().forgotten_keys().contains(&kid(&new)));
}

#[tokio::test]
async fn keys_that_were_exchanged_with_a_restart_are_the_same_as_without() {
    let (root, bed) = (Root::new(), Bed::new().await);
    let old = bed.controller.auth().keys();
    let before = token(&bed, &login(&bed).await, "before");
    let bed = bed.restarted_on(root.keys(), |_| ()).await;
    assert!(is_good(&bed, &before));
    assert!(bed.controller.auth().forgotten_keys().contains(&kid(&old)));
    // The former root is not trusted any more.
    let gone = old.bundle.roots().next().unwrap().fingerprint();
    assert!(!published(&bed).contains(&gone.to_owned()));
    assert!(bed.controller.auth().forgotten_keys().contains(&gone.to_owned()));
}

#[tokio::test]
async fn tickets_are_signed_with_the_key_that_clients_meet() {
    let (root, bed) = (Root::new(), Bed::new().await);
    let old = bed.controller.auth().keys();
    let enrollment = bed.controller.kernel().new_enrollment(EnrollmentMethod::Ott);
    let now = system_time(bed.controller.kernel().now());
    let verified = |keys: &Keys| {
        let ticket = bed.controller.auth().enrollment_jwt(&enrollment);
        let key = keys.enrollment.key().public().clone();
        verify_with::<EnrollmentClaims>(&ticket, &key, &Expect::unexpired(now)).is_ok()
    };
    assert!(verified(&old));
    let new = root.keys();
    bed.controller.auth().exchange_keys(new.clone()).unwrap();
    assert!(verified(&new) && !verified(&old));
    let keys = || bed.controller.auth().ticket_keys().unwrap();
    assert_eq!(keys().len(), 2, "tickets of before are still under way");
    let life = Durations::default().identity_enrollment;
    let end = bed.controller.kernel().now().plus(life);
    // A clock that is wrong for a moment takes no key out.
    bed.clock.advance(2 * life);
    bed.controller.auth().sweep_keys();
    bed.clock.turn_back(2 * life);
    assert_eq!(keys().len(), 2);
    let sweep = |settled| bed.controller.auth().keyring().sweep(settled, Some(settled));
    sweep(end);
    assert!(keys().len() == 1 && keys().get(&kid(&new)).is_some());
}

#[tokio::test]
async fn certificates_of_an_rsa_signer_wait_for_their_turn() {
    let (root, bed) = (Root::new(), Bed::new().await);
    let admin = bed.admin().await;
    let mut tickets = Vec::new();
    for name in ["laptop", "phone"] {
        let body = json!({"name": name, "type": "Default", "isAdmin": false,
            "enrollment": {"ott": true}});
        let id = bed.create(&admin, "createIdentity", body).await;
        let identity = bed.manage(&admin, "detailIdentity", &[&id], Value::Null).await.unwrap();
        let token = identity["enrollment"]["ott"]["token"].as_str().unwrap().to_owned();
        tickets.push((token, id));
    }
    let spec = AuthoritySpec {
        key: KeyAlgorithm::Rsa { bits: 2048 },
        ..AuthoritySpec::new("slow signer")
    };
    let authority = root.0.make_intermediate(&spec, system_time(NOW)).unwrap();
    bed.controller.auth().exchange_keys(Keys { authority, ..root.keys() }).unwrap();
    let turns = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut taken = Vec::new();
    for number in 0..turns {
        let (held, waits) = std::sync::mpsc::channel::<()>();
        // One caller has all turns but one.
        let caller = Caller::router(&Id::new(&format!("r{number}")), "test");
        let work = bed.controller.kernel().signing().asked_by(&caller).work(move || {
            let _ = waits.recv();
            Ok(())
        });
        let mut work = Box::pin(work);
        assert!(poll!(&mut work).is_pending());
        taken.push((work, held));
    }
    let mut enrolls: Vec<_> =
        tickets.iter().map(|(token, id)| Box::pin(bed.use_ott(token, id))).collect();
    for enroll in &mut enrolls {
        assert!(poll!(enroll).is_pending());
    }
    // A write of this moment is decided after all that wait to be written.
    let body = json!({"name": "other", "type": "Default", "isAdmin": false});
    bed.create(&admin, "createIdentity", body).await;
    for enroll in &mut enrolls {
        let early = poll!(enroll);
        assert!(early.is_pending(), "nothing was signed out of turn: {early:?}");
    }
    for (work, held) in taken {
        drop(held);
        work.await.unwrap();
    }
    for enroll in enrolls {
        enroll.await.unwrap();
    }
}

#[tokio::test]
async fn certificates_of_a_former_signer_are_believed_as_long_as_their_root() {
    let (root, bed) = (Root::new(), Bed::new().await);
    bed.controller.auth().exchange_keys(root.keys()).unwrap();
    let admin = bed.admin().await;
    let (_, chain) = bed.enroll(&admin, "laptop").await;
    // The leaf alone, as some clients show it.
    let leaf = &chain[..1];
    bed.login_with(leaf).await.unwrap();
    bed.controller.auth().exchange_keys(root.keys()).unwrap();
    bed.login_with(leaf).await.unwrap();
    let bed = bed.restarted().await;
    bed.login_with(leaf).await.unwrap();
    let (_, later) = bed.enroll(&bed.admin().await, "later").await;
    assert!(later[0].is_issued_by(bed.controller.auth().keys().authority.certificate()));

    bed.controller.auth().exchange_keys(Root::new().keys()).unwrap();
    assert!(bed.login_with(&chain).await.is_err(), "the root was taken out");
}

#[tokio::test]
async fn a_clock_that_was_wrong_for_a_moment_costs_no_former_signer() {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    let (root, bed) = (Root::new(), Bed::new().await);
    bed.controller.auth().exchange_keys(root.keys()).unwrap();
    let (_, chain) = bed.enroll(&bed.admin().await, "laptop").await;
    // The leaf alone, so that the former signer is needed.
    let leaf = &chain[..1];
    let last = root.keys();
    bed.controller.auth().exchange_keys(last.clone()).unwrap();
    let count = || bed.controller.auth().keys().bundle.certificates().len();
    let known = count();

    // Before the certificates begin, and after they have expired.
    bed.clock.turn_back(CENTURY / 4);
    bed.controller.auth().sweep_keys();
    assert!(bed.login_with(leaf).await.is_err());
    assert_eq!(count(), known - 1, "what is handed out has only what is valid");
    bed.clock.advance(CENTURY / 4);
    bed.login_with(leaf).await.unwrap();
    bed.clock.advance(CENTURY);
    bed.controller.auth().sweep_keys();
    assert!(bed.login_with(leaf).await.is_err());
    assert_eq!(count(), known - 1);
    // An exchange at that moment costs the signer nothing, either.
    bed.controller.auth().exchange_keys(last.clone()).unwrap();
    bed.clock.turn_back(CENTURY);
    bed.login_with(leaf).await.unwrap();
    assert_eq!(count(), known);
    let bed = bed.restarted_on(last, |_| ()).await;
    bed.login_with(leaf).await.unwrap();
}

#[tokio::test]
async fn what_is_kept_of_former_keys_is_limited() {
    let (root, bed) = (Root::new(), Bed::new().await);
    let first = kid(&bed.controller.auth().keys());
    for _ in 0..=FORMER {
        bed.clock.advance(Duration::from_secs(1));
        bed.controller.auth().exchange_keys(root.keys()).unwrap();
    }
    assert!(bed.controller.auth().forgotten_keys().contains(&first));
    let notes = bed.store.live().notes(NOTES).unwrap().len();
    assert!(notes <= 2 * (FORMER + 1) + FORGOTTEN + 1, "{notes}");
}

#[tokio::test]
async fn the_name_of_the_network_stays() {
    let (root, bed) = (Root::new(), Bed::new().await);
    let other = Keys { trust_domain: "other.test".into(), ..root.keys() };
    bed.controller.auth().exchange_keys(other).unwrap();
    assert_eq!(bed.controller.auth().keys().trust_domain, "weft.test");
}
