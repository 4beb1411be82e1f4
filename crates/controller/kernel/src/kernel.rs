//! The handle that all parts of a controller share.

use std::sync::Arc;
use std::time::Duration;

use weft_model::entity::{Enrollment, EnrollmentMethod, Router};
use weft_model::{Base, ChangeSet, Snapshot, Timestamp};

use crate::caller::Caller;
use crate::decision::Decision;
use crate::events::Events;
use crate::failure::Result;
use crate::held::Held;
use crate::measures::Measures;
use crate::online::Online;
use crate::random::Ids;
use crate::settings::Settings;
use crate::standing;
use crate::subscription::Subscription;
use crate::traces::Traces;
use crate::work_limiter::WorkLimiter;
use crate::writer::{Deadlines, Done, Health, Writer};

/// By how much the clock of a controller that signs tokens is ahead of the others at most.
const FARTHEST: Duration = Duration::from_secs(10);
/// Large lists, and slow signatures, that run at the same time, for each processor.
const SCANS: usize = 2;
const SIGNINGS: usize = 1;

/// The base of every part of a controller: writer, snapshots, settings, connected routers. Clones
/// share it.
#[derive(Clone)]
pub struct Kernel(Arc<Core>);

struct Core {
    settings: Settings,
    writer: Writer,
    ids: Ids,
    online: Online,
    scans: WorkLimiter,
    signing: WorkLimiter,
    traces: Traces,
    measures: Measures,
    events: Events,
    held: Arc<Held>,
    started: Timestamp,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernel({:?})", self.snapshot())
    }
}

impl Kernel {
    /// Starts the writer on a snapshot of the store.
    pub fn start(settings: Settings, snapshot: Snapshot) -> Self {
        let (started, held) = (settings.clock.now(), Arc::<Held>::default());
        let (store, deadlines) = (Arc::clone(&settings.store), Deadlines::default());
        Self(Arc::new(Core {
            writer: Writer::start_beside(store, snapshot, deadlines, Arc::clone(&held)),
            ids: Ids::new(Arc::clone(&settings.random)),
            online: Online::new(settings.durations.unreported),
            scans: WorkLimiter::per_processor(SCANS),
            signing: WorkLimiter::per_processor(SIGNINGS),
            traces: Traces::default(),
            measures: Measures::default(),
            events: Events::default(),
            held,
            started,
            settings,
        }))
    }

    /// The durable model.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.writer.snapshot()
    }

    /// A snapshot, and everything that is published after it.
    pub fn subscribe(&self) -> (Arc<Snapshot>, Subscription) {
        self.0.writer.subscribe()
    }

    /// Submits an operation to the writer, and waits until it is durable.
    pub async fn submit(
        &self,
        decide: impl Fn(&Snapshot) -> Result<ChangeSet> + Send + Sync + 'static,
    ) -> Result<Done> {
        self.0.writer.submit(Box::new(decide)).await
    }

    /// Submits an operation that uses a [`Decision`]. `decide` may run more than once. A caller that has lost
    /// rights since its request came is refused, and one that was told that its time is over.
    pub async fn decide(
        &self,
        caller: &Caller,
        decide: impl Fn(&mut Decision<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Done> {
        let (caller, now, latest) = (caller.clone(), self.now(), self.latest_issue());
        let longest = self.settings().durations.longest_token;
        self.submit(move |tip| {
            caller.begin()?;
            standing::check(&caller, tip, now)?;
            let decision = Decision::new(tip, &caller, now).with_longest_token(longest);
            let mut decision = decision.with_latest_issue(latest);
            decide(&mut decision)?;
            decision.finish()
        })
        .await
    }

    /// The latest time at which any controller may have issued a token before this moment: that of the clock which is
    /// farthest ahead.
    pub fn latest_issue(&self) -> Timestamp {
        let alive = self.settings().store.alive();
        let lead = alive.map_or(0, |alive| alive.borrow().clocks.lead_of_others());
        self.now().plus(Duration::from_millis(lead).min(FARTHEST))
    }

    /// The state of writing.
    pub fn health(&self) -> Health {
        self.0.writer.health()
    }

    /// The settings of the start.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The connected routers and identities.
    pub fn online(&self) -> &Online {
        &self.0.online
    }

    /// The source of ids and random bytes.
    pub fn ids(&self) -> &Ids {
        &self.0.ids
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        self.0.settings.clock.now()
    }

    /// The events of the network.
    pub fn events(&self) -> &Events {
        &self.0.events
    }

    /// The changes that are held.
    pub(crate) fn held(&self) -> &Arc<Held> {
        &self.0.held
    }

    /// The time of the start.
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

    /// The measured values of this controller.
    pub fn measures(&self) -> &Measures {
        &self.0.measures
    }

    /// The one writer.
    pub fn writer(&self) -> &Writer {
        &self.0.writer
    }

    /// The limiter of work on large lists.
    pub fn scans(&self) -> &WorkLimiter {
        &self.0.scans
    }

    /// The limiter of slow signatures.
    pub fn signing(&self) -> &WorkLimiter {
        &self.0.signing
    }

    /// The identities whose circuits are logged in detail.
    pub fn traces(&self) -> &Traces {
        &self.0.traces
    }

    /// A new enrollment that ends after the configured time; the identity or router is still to be
    /// set.
    pub fn new_enrollment(&self, method: EnrollmentMethod) -> Enrollment {
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
}
