//! The keys as the store keeps them, and the sessions that they sign for.

use std::time::{Duration, SystemTime};

use weft_identity::{
    Authority, AuthoritySpec, KeyPurpose, KeyedChain, Leaf, SubjectName, TrustBundle,
};
use weft_kernel::{Addresses, Caller, Failure, Kernel, Keys, Settings};
use weft_model::entity::{ApiSession, TokenLogin};
use weft_model::token::{AUDIENCE, TokenKind};
use weft_model::{Base, Id, Revision, Snapshot};
use weft_store::Memory;

use super::*;
use crate::bearer::claims::Facts;
use crate::handle::Auth;

const NOW: Timestamp = Timestamp(1_790_000_000_000);
const PACE: Pace = Pace {
    every: Duration::from_secs(30 * 24 * 3600),
    known: Duration::ZERO,
    longest: Duration::from_secs(24 * 3600),
};

/// A store with the key that seals, and a timeline.
struct Shelf {
    store: Arc<Memory>,
    seal: Arc<SealKey>,
    timeline: &'static str,
}

impl Shelf {
    fn new() -> Self {
        let seal = Arc::new(SealKey::random().unwrap());
        Self { store: Arc::new(Memory::new()), seal, timeline: "one" }
    }

    fn load(&self, earlier: Vec<Certificate>) -> TokenKeys {
        let storage = KeyStorage {
            store: Arc::clone(&self.store) as Arc<dyn Store>,
            seal: Arc::clone(&self.seal),
            timeline: Timeline(self.timeline.into()),
        };
        TokenKeys::load(storage, PACE, || Ok(earlier), watch::Sender::new(0), NOW).unwrap()
    }
}

fn stages(keys: &TokenKeys) -> Stages {
    keys.ring.load().stages.clone()
}

fn roll(keys: &TokenKeys) {
    let reading = ClockReading { now: NOW, settled: None };
    keys.change(|draft| {
        draft.stages.roll(PACE, NOW).unwrap();
        draft.advance(PACE, reading, InUse::default)
    })
    .unwrap();
}

#[test]
fn keys_outlive_a_restart_and_only_those_that_sign_have_a_secret() {
    let shelf = Shelf::new();
    let keys = shelf.load(Vec::new());
    let first = keys.signer();
    roll(&keys);
    let second = keys.signer();
    assert_ne!(first.kid(), second.kid());
    assert!(keys.key(first.kid()).is_some());
    let again = shelf.load(Vec::new());
    assert_eq!(stages(&again), stages(&keys));
    assert_eq!(again.signer().kid(), second.kid());
    assert!(again.signer().public().is_same(second.public()));
    let ring = again.ring.load();
    assert_eq!((ring.public.len(), ring.secrets.len()), (3, 2));
    assert!(!ring.secrets.contains_key(first.kid()));
    drop(ring);
    // No note has a private half in clear, and a former key none at all.
    for (kid, note) in shelf.store.live().notes(NOTES).unwrap() {
        let note: serde_json::Value = serde_json::from_slice(&note).unwrap();
        let secret = note["secret"].as_str().unwrap();
        assert_eq!(secret.is_empty(), kid == first.kid());
        assert!(!note.to_string().contains("PRIVATE"));
    }
    // A key that counts no more stays so.
    let dropped = again.change(|draft| {
        let dropped = draft.stages.steal(None, NOW);
        draft.advance(PACE, ClockReading { now: NOW, settled: None }, InUse::default)?;
        Ok::<_, weft_identity::Error>(dropped)
    });
    assert!(dropped.unwrap().contains(&second.kid().to_owned()));
    let last = shelf.load(Vec::new());
    assert_eq!(stages(&last), stages(&again));
    assert!(last.key(second.kid()).is_none() && last.key(first.kid()).is_some());
}

#[test]
fn without_the_key_that_seals_another_key_signs_and_no_token_is_lost() {
    let mut shelf = Shelf::new();
    let signer = shelf.load(Vec::new()).signer();
    shelf.seal = Arc::new(SealKey::random().unwrap());
    let keys = shelf.load(Vec::new());
    assert_ne!(keys.signer().kid(), signer.kid());
    assert!(keys.key(signer.kid()).unwrap().is_same(signer.public()));
}

#[test]
fn no_key_of_a_restored_database_counts() {
    let mut shelf = Shelf::new();
    let before = shelf.load(Vec::new());
    let signer = before.signer();
    shelf.timeline = "restored";
    let keys = shelf.load(Vec::new());
    let names = |keys: &TokenKeys| keys.ring.load().public.keys().cloned().collect::<Vec<_>>();
    assert!(names(&before).iter().all(|kid| keys.key(kid).is_none()));
    assert!(matches!(stages(&keys).get(signer.kid()), Some(Stage::Gone { .. })));
    // It stays so, and the new keys are kept.
    assert_eq!(stages(&shelf.load(Vec::new())), stages(&keys));
}

#[test]
fn a_note_that_cannot_be_read_costs_its_key_only() {
    let shelf = Shelf::new();
    let keys = shelf.load(Vec::new());
    let (signing, ahead) = (keys.signer(), stages(&keys).ahead().unwrap().0);
    shelf.store.live().put_note(NOTES, signing.kid(), Some("no note".into()));
    let keys = shelf.load(Vec::new());
    assert_eq!(keys.signer().kid(), ahead);
    assert!(keys.key(signing.kid()).is_none());
}

fn chain() -> KeyedChain {
    let now = SystemTime::now();
    let root = Authority::make_root(&AuthoritySpec::new("root"), now).unwrap();
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let subject = SubjectName::common_name("ctrl1");
    let leaf = Leaf::for_key(key.public(), &subject, Vec::new(), KeyPurpose::Both, now).unwrap();
    KeyedChain::new(vec![root.issue(&leaf).unwrap(), root.certificate().clone()], key).unwrap()
}

#[test]
fn tokens_of_an_earlier_release_are_good_until_they_end() {
    let (shelf, chain, later) = (Shelf::new(), chain(), chain());
    let kid = chain.leaf().fingerprint();
    let keys = shelf.load(vec![chain.leaf().clone()]);
    assert!(keys.key(kid).unwrap().is_same(chain.key().public()));
    assert_eq!(keys.ring.load().public[kid].data(), chain.leaf().der().as_ref());
    assert!(matches!(stages(&keys).get(kid), Some(Stage::Former { .. })));
    // Later starts know the key by themselves, and ask no more.
    let keys = shelf.load(Vec::new());
    assert_eq!(keys.ring.load().public[kid].data(), chain.leaf().der().as_ref());
    assert!(shelf.load(vec![later.leaf().clone()]).key(later.leaf().fingerprint()).is_none());
}

/// A controller without a network.
pub(crate) fn auth() -> Auth {
    auth_on(Arc::new(Memory::new()))
}

/// A controller without a network, on what an earlier run left.
pub(crate) fn auth_on(store: Arc<Memory>) -> Auth {
    let chain = chain();
    let root = Authority::make_root(&AuthoritySpec::new("root"), SystemTime::now()).unwrap();
    let keys = Keys {
        session: chain.clone(),
        enrollment: chain,
        bundle: TrustBundle::new([root.certificate().clone()]),
        authority: root,
        trust_domain: "weft.test".into(),
    };
    let settings = Settings::new("ctrl1", store, keys, Addresses::default());
    let durations =
        weft_kernel::Durations { token_key_known: Duration::ZERO, ..settings.durations };
    let settings = Settings { durations, ..settings };
    let empty = Snapshot::loader(Timeline::default(), Revision::default()).finish().unwrap();
    Auth::load(Kernel::start(settings, empty)).unwrap()
}

/// A session with tokens of this key.
fn session(auth: &Auth, id: &str, kid: &str) -> Arc<ApiSession> {
    let now = auth.kernel().now();
    let login = TokenLogin {
        client: AUDIENCE.into(),
        ends_at: now.plus(Duration::from_secs(3600)),
        refresh_number: 1,
        refresh_id: "r1".into(),
        signed_by: vec![kid.to_owned()],
        ..TokenLogin::default()
    };
    let session = ApiSession {
        base: Base::new(Id::new(id), now),
        identity_id: Id::new("ann"),
        tokens: Some(Box::new(login)),
        ..ApiSession::default()
    };
    auth.sessions().open_signed(session, |_| true).unwrap()
}

/// An access token of a session.
fn token(auth: &Auth, signer: &TokenSigner, session: &ApiSession) -> String {
    let (snapshot, identity) = (auth.kernel().snapshot(), weft_model::entity::Identity::default());
    let identity =
        weft_model::entity::Identity { base: Base::new(Id::new("ann"), NOW), ..identity };
    let login = session.tokens.as_deref().unwrap();
    let (scopes, now) = (&[][..], auth.kernel().now());
    let facts = Facts { snapshot: &snapshot, session, login, scopes, identity: &identity, now };
    let claims = facts.access(TokenKind::Access, "j1", now.plus(Duration::from_secs(60)));
    signer.sign(&claims).unwrap()
}

fn is_good(auth: &Auth, token: &str) -> bool {
    auth.proven(&auth.kernel().snapshot(), token, TokenKind::Access, auth.kernel().now()).is_ok()
}

/// A controller with a session of a former key, and that key.
fn rolled() -> (Auth, Arc<TokenSigner>, Arc<ApiSession>) {
    let auth = auth();
    let former = auth.token_keys().signer();
    let older = session(&auth, "older", former.kid());
    auth.roll_token_keys(&Caller::system()).unwrap();
    (auth, former, older)
}

#[tokio::test]
async fn a_key_makes_no_tokens_of_sessions_that_it_never_signed_for() {
    let (auth, former, older) = rolled();
    let signer = auth.token_keys().signer();
    let newer = session(&auth, "newer", signer.kid());
    assert!(is_good(&auth, &token(&auth, &former, &older)));
    assert!(is_good(&auth, &token(&auth, &signer, &newer)));
    assert!(!is_good(&auth, &token(&auth, &former, &newer)), "whoever has the former key");
    assert!(!is_good(&auth, &token(&auth, &signer, &older)));
}

#[tokio::test]
async fn a_stolen_key_ends_the_sessions_that_it_signed_for_and_no_others() {
    let (auth, former, older) = rolled();
    let signer = auth.token_keys().signer();
    let newer = session(&auth, "newer", signer.kid());
    let system = Caller::system();
    let dropped = auth.drop_stolen_token_keys(&system, Some(former.kid())).await.unwrap();
    assert_eq!((dropped.keys.clone(), dropped.sessions), (vec![former.kid().to_owned()], 1));
    assert!(!is_good(&auth, &token(&auth, &former, &older)));
    assert!(auth.sessions().by_id("older").is_none());
    assert!(is_good(&auth, &token(&auth, &signer, &newer)));
    assert_eq!(auth.token_keys().signer().kid(), signer.kid());
    let other = auth.drop_stolen_token_keys(&system, Some("no key")).await;
    assert_eq!(other.unwrap_err().status(), 404);
    // It can be asked for again, and ends what was left.
    session(&auth, "left", former.kid());
    let again = auth.drop_stolen_token_keys(&system, Some(former.kid())).await.unwrap();
    assert_eq!(again, dropped);
    assert!(auth.sessions().by_id("left").is_none());

    let dropped = auth.drop_stolen_token_keys(&system, None).await.unwrap();
    assert_eq!((dropped.keys.len(), dropped.sessions), (2, 1));
    assert!(!is_good(&auth, &token(&auth, &signer, &newer)));
    // A crash may leave a session of a stolen key.
    session(&auth, "left", signer.kid());
    session(&auth, "other", auth.token_keys().signer().kid());
    auth.end_of_stolen_keys();
    assert!(auth.sessions().by_id("left").is_none() && auth.sessions().by_id("other").is_some());
}

#[tokio::test]
async fn a_refresh_under_way_saves_no_session_of_a_stolen_key() {
    let (auth, former, older) = rolled();
    let keys = auth.token_keys();
    // The key counts no more, and the session has not ended yet.
    keys.change(|draft| {
        draft.stages.steal(Some(former.kid()), auth.kernel().now());
        Ok::<_, weft_identity::Error>(())
    })
    .unwrap();
    let refreshed = auth.issue_tokens(&older.base.id, None, |_| Ok::<_, Failure>(()));
    assert_eq!(refreshed.unwrap_err().status(), 401);
    auth.end_of_stolen_keys();
    assert!(auth.sessions().by_id("older").is_none());
}

#[tokio::test]
async fn the_schedule_goes_on_with_the_sweep_of_keys() {
    let auth = auth();
    let before = auth.known_token_keys();
    auth.sweep_keys();
    assert_eq!(auth.known_token_keys(), before, "nothing is due");
    let changes = auth.key_changes();
    assert!(!changes.has_changed().unwrap());
}
