//! The keys of one external signer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weft_identity::{KeySet, PublicKey};
use weft_model::entity::ExtJwtSigner;

/// Most keys of a set; further ones are left out.
pub(crate) const MOST_KEYS: usize = 100;
/// Longest name of a key, in bytes; a key with a longer one is left out.
const LONGEST_KID: usize = 512;
/// For a key that is not in the set, the set is fetched once in this time.
pub(super) const AGAIN: Duration = Duration::from_secs(10);
/// The age at which a set is fetched again, whether or not a token asks for it. Together with the interval of the
/// task this is less than an hour.
pub(super) const AGE: Duration = Duration::from_secs(50 * 60);
/// A fetch in the background that failed is tried again after this time.
const RETRY: Duration = Duration::from_secs(60);

/// The keys of a signer, and when they were fetched.
pub(super) struct Set {
    /// Name of the signer, for messages.
    pub(super) name: Arc<str>,
    /// The URL.
    pub(super) endpoint: String,
    state: Mutex<State>,
    /// Held during a fetch.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
}

struct State {
    keys: BTreeMap<String, PublicKey>,
    /// The time until which the keys are good; none before the first fetch.
    good_until: Option<Instant>,
    /// The time at which the set is fetched again in the background.
    due: Option<Instant>,
    /// The beginning of the last fetch.
    begun: Option<Instant>,
    /// Whether a fetch is in work: tokens with keys that are not known wait for it.
    is_fetching: bool,
    /// Why the last fetch failed; none if it succeeded.
    failure: Option<String>,
    used: Instant,
}

impl State {
    /// Whether the last fetch for a single key is long enough ago.
    fn may_fetch(&self, now: Instant) -> bool {
        self.begun.is_none_or(|at| now.duration_since(at) >= AGAIN)
    }
}

/// What is known of a key.
pub(super) enum Look {
    /// The key.
    Known(PublicKey),
    /// The set was fetched a moment ago, and has no such key.
    Unknown,
    /// The set could not be fetched a moment ago.
    Failed(String),
    /// The set should be fetched, or is being fetched.
    Fetch,
}

/// The signing keys of a document, by name.
pub(super) fn read(document: &[u8]) -> Result<BTreeMap<String, PublicKey>, String> {
    let keys = KeySet::from_json(document).map_err(|error| error.to_string())?;
    let named = keys.iter().filter(|(kid, _)| kid.len() <= LONGEST_KID);
    Ok(named.take(MOST_KEYS).map(|(kid, key)| (kid.to_owned(), key.clone())).collect())
}

impl Set {
    pub(super) fn new(name: &Arc<str>, endpoint: &str, now: Instant) -> Self {
        Self {
            name: Arc::clone(name),
            endpoint: endpoint.to_owned(),
            state: Mutex::new(State {
                keys: BTreeMap::new(),
                good_until: None,
                due: None,
                begun: None,
                is_fetching: false,
                failure: None,
                used: now,
            }),
            turn: Arc::default(),
        }
    }

    /// A set of the last run, whose keys are good for some time. It is fetched again soon.
    pub(super) fn restored(
        name: &Arc<str>,
        endpoint: &str,
        keys: BTreeMap<String, PublicKey>,
        left: Duration,
        now: Instant,
    ) -> Self {
        let set = Self::new(name, endpoint, now);
        {
            let mut state = set.state.lock();
            state.keys = keys;
            state.good_until = Some(now + left);
            state.due = Some(now);
        }
        set
    }

    /// Whether this is the set of a signer at this URL. Its name is part of messages.
    pub(super) fn is_of(&self, signer: &ExtJwtSigner, endpoint: &str) -> bool {
        self.endpoint == endpoint && self.name == signer.name
    }

    pub(super) fn used(&self, now: Instant) {
        self.state.lock().used = now;
    }

    pub(super) fn last_used(&self) -> Instant {
        self.state.lock().used
    }

    pub(super) fn look(&self, kid: &str, now: Instant) -> Look {
        let state = self.state.lock();
        let is_good = state.good_until.is_some_and(|until| now <= until);
        if let Some(key) = state.keys.get(kid).filter(|_| is_good) {
            return Look::Known(key.clone());
        }
        if state.is_fetching || state.may_fetch(now) {
            return Look::Fetch;
        }
        match &state.failure {
            Some(reason) => Look::Failed(reason.clone()),
            None if state.good_until.is_none() => Look::Fetch,
            None => Look::Unknown,
        }
    }

    /// Whether the set may be fetched for a key that another one may have replaced.
    pub(super) fn may_fetch(&self, now: Instant) -> bool {
        self.state.lock().may_fetch(now)
    }

    /// Notes that a fetch begins.
    pub(super) fn begin(&self, now: Instant) {
        let mut state = self.state.lock();
        state.begun = Some(now);
        state.is_fetching = true;
    }

    /// Notes the end of a fetch: its keys take the place of the former ones.
    pub(super) fn end(
        &self,
        read: Result<BTreeMap<String, PublicKey>, String>,
        good_for: Duration,
        now: Instant,
    ) {
        let mut state = self.state.lock();
        state.is_fetching = false;
        match read {
            Ok(keys) => {
                state.keys = keys;
                state.good_until = Some(now + good_for);
                state.due = Some(now + AGE);
                state.failure = None;
            }
            Err(reason) => state.failure = Some(reason),
        }
    }

    /// How much longer the known keys are good; none before the first fetch.
    pub(super) fn good_for(&self, now: Instant) -> Option<Duration> {
        Some(self.state.lock().good_until?.saturating_duration_since(now))
    }

    /// Whether the set should be fetched again in the background. One that was never fetched waits for a token.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let state = self.state.lock();
        let is_old = state.due.is_some_and(|due| now >= due);
        is_old && state.begun.is_none_or(|at| now.duration_since(at) >= RETRY)
    }
}
