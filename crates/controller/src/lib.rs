//! The controller without HTTP: domain, authentication, network and control plane.
//!
//! ```text
//!  request (weft-api) -> Controller::call: gate, handler -> prepared on the caller's task
//!                                                              |
//!  readers <- new Snapshot <- store <- decided by the one writer
//!                 |
//!                 +-> subscriptions: network part and control plane -> routers, SDKs
//! ```
//!
//! [`Controller`] is a cheap handle that everything else shares. Readers take a [`Snapshot`] and
//! never lock; whatever changes the model is an operation that passes the gate, is *prepared* on
//! the caller's task and *decided* by the one writer ([`domain::writer`]):
//!
//! - [`Controller::call`]: an operation of an API, without HTTP: gate, handler, reply;
//! - [`Controller::resolve`]: the credentials of a request become a [`Caller`];
//! - [`Controller::submit`] and [`Controller::subscribe`]: changes in, published batches out;
//! - [`auth`]: logins, sessions, enrollment, tokens; [`domain`]: every operation on the model;
//!   [`online`]: who is connected, as the network part tells it.

pub mod auth;
pub mod clock;
pub mod control;
pub mod domain;
pub mod events;
pub mod failure;
mod measures;
pub mod network;
pub mod online;
pub mod random;
mod settings;
mod start;
#[cfg(test)]
mod testing;
pub(crate) mod traces;
mod turns;

use std::sync::Arc;

use weft_model::entity::{Enrollment, EnrollmentMethod, Router, Terminator};
use weft_model::{Base, ChangeSet, Snapshot, Timestamp};

pub use domain::call::{Call, Content, Query, Reply};
pub use domain::caller::{Caller, Login, Origin, SessionRef, Via, Who};
pub use domain::subscription::{Notice, Published, Subscription};
pub use domain::writer::{Done, Health};
pub use failure::{Challenge, Failure};
pub use settings::{Addresses, Build, Durations, GuessLimits, Keys, Settings};
pub use start::StartError;

use auth::password::Hasher;
use auth::router_texts::RouterTexts;
use auth::sessions::Sessions;
use auth::tickets::Tickets;
use domain::decision::Decision;
use domain::integrity::Integrity;
use domain::registry::Registry;
use domain::resources::database::Snapshots;
use domain::view::Context;
use domain::writer::Writer;
use online::Online;
use random::Ids;

/// The controller. Clones are the same controller.
#[derive(Clone)]
pub struct Controller(Arc<Core>);

pub(crate) struct Core {
    settings: Settings,
    writer: Writer,
    registry: Registry,
    ids: Ids,
    online: Online,
    sessions: Sessions,
    hasher: Hasher,
    scans: turns::Turns,
    signing: turns::Turns,
    admission: auth::admission::Admission,
    lockouts: auth::lockout::Lockouts,
    guesses: auth::guesses::Guesses,
    attempts: auth::attempts::Attempts,
    spent: auth::spent::Spent,
    postures: auth::posture::Postures,
    traces: traces::Traces,
    measures: measures::Measures,
    tickets: Tickets,
    router_texts: RouterTexts,
    keyring: auth::keyring::Keyring,
    service_changes: auth::service_changes::ServiceChanges,
    network: arc_swap::ArcSwapOption<network::WeakNetwork>,
    snapshots: Snapshots,
    integrity: Integrity,
    started: Timestamp,
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Controller({:?})", self.snapshot())
    }
}

impl Controller {
    /// Runs an operation of an API: the gate first, then the operation's own rules.
    pub async fn call(&self, mut caller: Caller, call: Call) -> Result<Reply, Failure> {
        if !auth::resolve::opens(self, &caller, call.api) {
            caller.who = Who::Nobody(Some(Challenge::InvalidSession));
        }
        domain::gate::pass(&caller, call.row)?;
        if call.row.access == weft_contract::Access::Public {
            // What is shown with the request (a ticket, a password) counts, not who else shows it.
            caller = Caller::nobody(caller.origin);
        }
        let (api, operation, method) = (call.api, call.row.id, call.row.method);
        caller.origin.via = Via::Rest { api, operation, method };
        let (row, begun) = (call.row, std::time::Instant::now());
        match self.0.registry.handler(call.api, call.row.id) {
            Some(handler) => {
                let done = handler(self.clone(), caller, call).await;
                self.0.measures.request(api, row, begun.elapsed());
                done
            }
            None => Err(Failure::unhandled("the operation is not implemented").with_status(501)),
        }
    }

    /// The model as it is durable now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.writer.snapshot()
    }

    /// Follows the model: a snapshot, and everything published after it.
    pub fn subscribe(&self) -> (Arc<Snapshot>, Subscription) {
        self.0.writer.subscribe()
    }

    /// Has an operation decided by the writer and made durable.
    pub async fn submit(
        &self,
        decide: impl Fn(&Snapshot) -> Result<ChangeSet, Failure> + Send + Sync + 'static,
    ) -> Result<Done, Failure> {
        self.0.writer.submit(Box::new(decide)).await
    }

    /// The same in the words of [`Decision`]. `decide` may run more than once.
    pub async fn decide(
        &self,
        caller: &Caller,
        decide: impl Fn(&mut Decision<'_>) -> Result<(), Failure> + Send + Sync + 'static,
    ) -> Result<Done, Failure> {
        let (caller, now) = (caller.clone(), self.now());
        let longest = self.settings().durations.longest_token;
        self.submit(move |tip| {
            let mut decision = Decision::new(tip, &caller, now).with_longest_token(longest);
            decide(&mut decision)?;
            decision.finish()
        })
        .await
    }

    /// How writing goes.
    pub fn health(&self) -> Health {
        self.0.writer.health()
    }

    /// What it was started with.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Who is connected.
    pub fn online(&self) -> &Online {
        &self.0.online
    }

    /// Who is logged in with an opaque token.
    pub fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    /// Ids and random bytes.
    pub fn ids(&self) -> &Ids {
        &self.0.ids
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.0.settings.clock.now()
    }

    /// When it was started.
    pub fn started(&self) -> Timestamp {
        self.0.started
    }

    /// The router whose certificate has this fingerprint (hex SHA-1): the current one, or an
    /// extended one that it has not confirmed yet (docs/protocol/edge-control-plane.md 17.3).
    pub fn router_by_fingerprint(&self, fingerprint: &str) -> Option<Arc<Router>> {
        let snapshot = self.snapshot();
        let found = snapshot.by_unique::<Router>(Router::FINGERPRINT, fingerprint).cloned();
        found.or_else(|| {
            let pending = |router: &&Arc<Router>| {
                router.unverified_fingerprint.as_deref() == Some(fingerprint)
            };
            snapshot.list::<Router>().find(pending).cloned()
        })
    }

    /// What it measures of itself.
    pub(crate) fn measures(&self) -> &measures::Measures {
        &self.0.measures
    }

    /// What this controller and its routers measured, as Prometheus reads it; with the times at
    /// which it was measured, if that is wanted.
    pub async fn prometheus(&self, with_times: bool) -> bytes::Bytes {
        match self.network() {
            Some(network) => network.prometheus(with_times).await,
            None => bytes::Bytes::new(),
        }
    }

    /// The network that shows its routers, links and circuits through this controller from now on.
    pub(crate) fn attach(&self, network: network::WeakNetwork) {
        self.0.network.store(Some(Arc::new(network)));
    }

    /// The network, while there is one.
    pub(crate) fn network(&self) -> Option<network::Network> {
        self.0.network.load().as_ref().and_then(|network| network.upgrade())
    }

    /// What a terminator costs now, with failures and circuits counted.
    pub(crate) fn dynamic_cost(&self, terminator: &Terminator) -> u16 {
        match self.network() {
            Some(network) => network.dynamic_cost(&terminator.base.id),
            None => terminator.cost,
        }
    }

    pub(crate) fn keyring(&self) -> &auth::keyring::Keyring {
        &self.0.keyring
    }

    pub(crate) fn writer(&self) -> &Writer {
        &self.0.writer
    }

    pub(crate) fn snapshots(&self) -> &Snapshots {
        &self.0.snapshots
    }

    pub(crate) fn integrity(&self) -> &Integrity {
        &self.0.integrity
    }

    pub(crate) fn context(&self, caller: &Caller) -> Context {
        Context::new(self.clone(), caller.clone())
    }

    pub(crate) fn hasher(&self) -> &Hasher {
        &self.0.hasher
    }

    /// Turns of those whose lists have to look at much.
    pub(crate) fn scans(&self) -> &turns::Turns {
        &self.0.scans
    }

    /// Turns of those for whom something is signed.
    pub(crate) fn signing(&self) -> &turns::Turns {
        &self.0.signing
    }

    pub(crate) fn attempts(&self) -> &auth::attempts::Attempts {
        &self.0.attempts
    }

    pub(crate) fn spent(&self) -> &auth::spent::Spent {
        &self.0.spent
    }

    pub(crate) fn traces(&self) -> &traces::Traces {
        &self.0.traces
    }

    pub(crate) fn postures(&self) -> &auth::posture::Postures {
        &self.0.postures
    }

    pub(crate) fn admission(&self) -> &auth::admission::Admission {
        &self.0.admission
    }

    pub(crate) fn guesses(&self) -> &auth::guesses::Guesses {
        &self.0.guesses
    }

    pub(crate) fn lockouts(&self) -> &auth::lockout::Lockouts {
        &self.0.lockouts
    }

    pub(crate) fn service_changes(&self) -> &auth::service_changes::ServiceChanges {
        &self.0.service_changes
    }

    /// A new enrollment that ends after the configured time; whom it enrolls is still to be said.
    pub(crate) fn new_enrollment(&self, method: EnrollmentMethod) -> Enrollment {
        let now = self.now();
        let durations = &self.0.settings.durations;
        let life = match method {
            EnrollmentMethod::Erott | EnrollmentMethod::Trott => durations.router_enrollment,
            _ => durations.identity_enrollment,
        };
        Enrollment {
            base: Base::new(self.ids().entity(), now),
            method,
            token: self.ids().token().as_str().into(),
            expires_at: now.plus(life),
            ..Enrollment::default()
        }
    }

    /// The signed ticket of an enrollment.
    pub(crate) fn enrollment_jwt(&self, enrollment: &Enrollment) -> String {
        self.0.tickets.of(enrollment, &self.0.settings.addresses, &self.keys())
    }
}
