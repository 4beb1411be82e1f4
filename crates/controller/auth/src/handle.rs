//! The handle that all parts of logins share.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Instant;

use hashbrown::HashSet;
use parking_lot::Mutex;
use tokio::sync::watch;
use weft_identity::{SealKey, SeenTokens};
use weft_kernel::Kernel;
use weft_limits::SettledClock;
use weft_model::{Id, Timestamp};

use super::admission::LoginAdmission;
use super::attempts::Attempts;
use super::guesses::Guesses;
use super::key_sets::KeySets;
use super::keyring::{self, Keyring};
use super::oidc::unfinished::Unfinished;
use super::password::Hasher;
use super::posture::Postures;
use super::rates::{Rates, sessions_of};
use super::refusals::Refusals;
use super::renewals::Renewals;
use super::service_changes::ServiceChanges;
use super::sessions::Sessions;
use super::spent::Spent;
use super::tickets::Tickets;
use super::token_keys::{KeyStorage, LoadError, Pace, TokenKeys};
use crate::former_signer::FormerSigner;
use crate::lockouts::Lockouts;
use crate::members::clock_watch::ClockWatch;
use crate::members::invitations::Invitations;
use crate::members::network_keys::NetworkKeys;
use crate::members::newer::Newer;
use crate::token_rates::TokenRates;
use crate::told_failures::ToldFailures;
use crate::waiting::WaitingLogins;
use crate::wrong_tokens::WrongTokens;

/// Sessions, limits of logins, and keys. Clones share them.
#[derive(Clone)]
pub struct Auth(pub(crate) Arc<Core>);

pub(crate) struct Core {
    pub(crate) kernel: Kernel,
    pub(crate) sessions: Sessions,
    pub(crate) hasher: Hasher,
    pub(crate) admission: LoginAdmission,
    pub(crate) lockouts: Lockouts,
    pub(crate) guesses: Guesses,
    pub(crate) attempts: Attempts,
    pub(crate) spent: Spent,
    pub(crate) seen_tokens: SeenTokens,
    pub(crate) key_sets: Arc<KeySets>,
    pub(crate) wrong_tokens: WrongTokens,
    pub(crate) postures: Postures,
    /// The other controllers that have answered over a channel of their own.
    pub(crate) reached: Mutex<HashSet<Id>>,
    pub(crate) rates: Rates,
    pub(crate) token_rates: TokenRates,
    pub(crate) refusals: Refusals,
    pub(crate) told_failures: ToldFailures,
    pub(crate) keyring: Keyring,
    pub(crate) token_keys: TokenKeys,
    pub(crate) renewals: Renewals,
    pub(crate) settled: Mutex<SettledClock>,
    pub(crate) service_changes: ServiceChanges,
    pub(crate) tickets: Tickets,
    pub(crate) unfinished: Unfinished,
    pub(crate) invitations: Invitations,
    /// What was heard of the changes of other controllers.
    pub(crate) newer: Newer,
    pub(crate) clock: ClockWatch,
    /// Whether the others know that this controller is there since it has started.
    pub(crate) has_joined: AtomicBool,
    pub(crate) network_key: NetworkKeys,
    /// Names of keys that other controllers have dropped, the latest ones.
    pub(crate) keys_gone: Mutex<Vec<String>>,
    /// The signer of the program that was there before weft, soon after a move.
    pub(crate) former_signer: Option<FormerSigner>,
}

/// A handle that does not keep the state alive.
#[derive(Clone)]
pub struct WeakAuth(Weak<Core>);

impl WeakAuth {
    /// The handle, if the state still exists.
    pub fn upgrade(&self) -> Option<Auth> {
        self.0.upgrade().map(Auth)
    }
}

impl Auth {
    /// What every part of the controller needs.
    pub fn kernel(&self) -> &Kernel {
        &self.0.kernel
    }

    /// Loads the sessions and keys of the last run.
    ///
    /// # Errors
    /// When they cannot be read, or a key cannot sign.
    pub fn load(kernel: Kernel) -> Result<Self, LoadError> {
        let (settings, now) = (kernel.settings(), kernel.now());
        let key = match &settings.session_key {
            Some(key) => Arc::clone(key),
            None => Arc::new(SealKey::random()?),
        };
        let store = Arc::clone(&settings.store);
        let rate = settings.logins.per_identity;
        let (unfinished, most) = (Unfinished::default(), sessions_of(rate));
        let halves = unfinished.table();
        let (durations, seal) = (&settings.durations, Arc::clone(&key));
        let network_key = NetworkKeys::load(&*store, &key)?;
        let sessions = Sessions::load(store, key, durations, most, halves, now)?;
        sessions.tell_events(&kernel);
        let store = Arc::clone(&settings.store);
        let storage = KeyStorage { store, seal, timeline: kernel.snapshot().timeline().clone() };
        let pace = Pace {
            every: durations.token_key,
            known: durations.token_key_known,
            longest: durations.longest_token.max(durations.id_token) + settings.routers_learn_for,
        };
        // Read before the keyring notes the keys of this start.
        let earlier = || keyring::earlier_signers(&*settings.store);
        let changes = watch::Sender::new(0);
        let token_keys = TokenKeys::load(storage, pace, earlier, changes.clone(), now)?;
        let (store, keys) = (Arc::clone(&settings.store), settings.first_keys.clone());
        let former_signer = FormerSigner::find(&keys, &token_keys, settings.routers_learn_for, now);
        let keyring = Keyring::load(store, keys, durations, changes, now)?;
        let waiting = WaitingLogins::default();
        let key_sets = Arc::new(KeySets::load(&kernel)?);
        Ok(Self(Arc::new(Core {
            sessions,
            hasher: Hasher::new(settings.logins.checks_at_once),
            admission: LoginAdmission::new(&settings.login_limiter, waiting.clone()),
            lockouts: Lockouts::default(),
            guesses: Guesses::new(settings.guess_limits),
            attempts: Attempts::default(),
            spent: Spent::default(),
            seen_tokens: SeenTokens::default(),
            key_sets,
            wrong_tokens: WrongTokens::new(settings.guess_limits.per_address),
            postures: Postures::default(),
            reached: Mutex::default(),
            rates: Rates::new(rate, waiting),
            token_rates: TokenRates::new(rate),
            refusals: Refusals::default(),
            told_failures: ToldFailures::default(),
            keyring,
            token_keys,
            renewals: Renewals::default(),
            settled: Mutex::default(),
            service_changes: ServiceChanges::default(),
            tickets: Tickets::default(),
            unfinished,
            invitations: Invitations::default(),
            newer: Newer::default(),
            clock: ClockWatch::default(),
            has_joined: AtomicBool::default(),
            network_key,
            keys_gone: Mutex::default(),
            former_signer,
            kernel,
        })))
    }

    /// A handle that does not keep the state alive.
    pub fn weak(&self) -> WeakAuth {
        WeakAuth(Arc::downgrade(&self.0))
    }

    /// The API sessions with opaque tokens.
    pub fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    /// The hasher of passwords.
    pub fn hasher(&self) -> &Hasher {
        &self.0.hasher
    }

    /// The places for logins.
    pub fn admission(&self) -> &LoginAdmission {
        &self.0.admission
    }

    /// The counts of wrong passwords in a row.
    pub fn lockouts(&self) -> &Lockouts {
        &self.0.lockouts
    }

    /// The limits for guessing passwords.
    pub fn guesses(&self) -> &Guesses {
        &self.0.guesses
    }

    /// The limits for guessing codes.
    pub fn attempts(&self) -> &Attempts {
        &self.0.attempts
    }

    /// Codes that were accepted, and may be used for one more purpose.
    pub fn spent(&self) -> &Spent {
        &self.0.spent
    }

    /// The posture data of clients.
    pub fn postures(&self) -> &Postures {
        &self.0.postures
    }

    /// The time until which a login that comes now waits for its turn.
    pub(crate) fn patience(&self) -> tokio::time::Instant {
        tokio::time::Instant::now() + self.kernel().settings().logins.longest_wait
    }

    /// How often identities log in and change certificates of sessions.
    pub(crate) fn rates(&self) -> &Rates {
        &self.0.rates
    }

    /// How often tokens are refreshed and exchanged.
    pub(crate) fn token_rates(&self) -> &TokenRates {
        &self.0.token_rates
    }

    /// The keys of external signers whose keys are at a URL.
    pub(crate) fn key_sets(&self) -> &Arc<KeySets> {
        &self.0.key_sets
    }

    /// The limits for tokens with wrong signatures.
    pub(crate) fn wrong_tokens(&self) -> &WrongTokens {
        &self.0.wrong_tokens
    }

    /// Refused certificates and tokens in the log.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.0.refusals
    }

    /// How many failed logins are told as events.
    pub(crate) fn told_failures(&self) -> &ToldFailures {
        &self.0.told_failures
    }

    /// The keys in use, and former ones.
    pub fn keyring(&self) -> &Keyring {
        &self.0.keyring
    }

    /// The keys that sign tokens.
    pub(crate) fn token_keys(&self) -> &TokenKeys {
        &self.0.token_keys
    }

    /// Logins by OpenID Connect that are not finished.
    pub(crate) fn unfinished(&self) -> &Unfinished {
        &self.0.unfinished
    }

    /// The renewals of routers' certificates.
    pub fn renewals(&self) -> &Renewals {
        &self.0.renewals
    }

    /// The time by which something may be forgotten for good; none in the first hours of a run.
    pub fn settled_now(&self) -> Option<Timestamp> {
        let now = self.kernel().now();
        self.0.settled.lock().read(now.0, Instant::now()).map(Timestamp)
    }

    /// The times when services of identities last changed.
    pub fn service_changes(&self) -> &ServiceChanges {
        &self.0.service_changes
    }
}
