//! The routers that are connected. One connection per router: whoever registers first within the
//! churn limit keeps its place (docs/protocol/control-plane.md 2.3).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};
use weft_channel::ChannelHandle;
use weft_kernel::online::{RouterFacts, RouterVersion};
use weft_limits::TokenBucket;
use weft_model::entity::CtrlListener;
use weft_model::{Id, Timestamp};
use weft_paths::window::Window;
use weft_wire::ctrl::{Listener, RouterHello};
use weft_wire::{Capabilities, Version, VersionInfo};

use crate::clock;
use crate::ctrl_listeners;

/// Certificates of one connection that are remembered: the shown one, and those it was given since.
const CERTIFICATES: usize = 8;

/// Bytes of reports of what it measures that a router may send in a second in the long run, and at
/// once. Of two hundred thousand circuits a router has some 50 MB to tell each minute.
const REPORTS: f64 = 2.0 * 1024.0 * 1024.0;
const REPORTS_AT_ONCE: u32 = 64 << 20;

/// A router that was dialed and leaves a heartbeat unanswered for longer may be replaced.
const UNANSWERED: Duration = Duration::from_secs(5);

/// Numbers of connections.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// A router with its control channel.
#[derive(Debug)]
pub struct LiveRouter {
    /// Its id.
    pub id: Id,
    /// Number of the connection: another one of the same router has another.
    pub connection: u64,
    /// The way to it.
    pub channel: ChannelHandle,
    /// What it says about its build.
    pub version: VersionInfo,
    /// What it can do.
    pub capabilities: Capabilities,
    /// When it connected.
    pub connected_at: Timestamp,
    /// The same on the clock that does not jump.
    pub since: Instant,
    /// The fingerprint that it was made with.
    shown: Arc<str>,
    /// Whether it was dialed from here.
    pub dialed: bool,
    /// Where it says that it takes controllers.
    pub ctrl_listeners: BTreeMap<String, CtrlListener>,
    /// Fingerprints with which the connection may go on, the oldest first.
    fingerprints: RwLock<Vec<Arc<str>>>,
    /// Where it takes links.
    listeners: RwLock<Vec<Listener>>,
    /// Routes of moves that it has not answered.
    pub window: Window,
    /// It is about to stop, as it says.
    drains: AtomicBool,
    /// Bytes of reports that it may send.
    reports: Mutex<TokenBucket>,
}

impl LiveRouter {
    /// A router as its hello describes it, which has shown a certificate; none if it does not say
    /// its version.
    pub fn new(
        id: Id,
        channel: ChannelHandle,
        hello: RouterHello,
        shown: &str,
        now: Timestamp,
    ) -> Option<Self> {
        Some(Self {
            dialed: channel.peer().dialed,
            ctrl_listeners: ctrl_listeners::told(id.as_str(), hello.ctrl_chan_listeners),
            id,
            connection: CONNECTIONS.fetch_add(1, Ordering::Relaxed),
            channel,
            version: hello.version?,
            capabilities: hello.capabilities,
            connected_at: now,
            since: clock::now(),
            shown: shown.into(),
            fingerprints: RwLock::new(vec![shown.into()]),
            listeners: RwLock::new(hello.listeners.listeners),
            window: Window::default(),
            drains: AtomicBool::new(false),
            reports: Mutex::new(TokenBucket::new(REPORTS, REPORTS_AT_ONCE, clock::now())),
        })
    }

    /// Whether there is time to read a report of so many bytes.
    pub fn may_report(&self, bytes: usize) -> bool {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.reports.lock().try_take(bytes, clock::now())
    }

    /// Its release, if it can be compared.
    pub fn release(&self) -> Option<Version> {
        self.version.release()
    }

    /// What there is to see of it when it has connected.
    pub fn facts(&self) -> RouterFacts {
        let version = &self.version;
        RouterFacts {
            since: self.connected_at,
            version: RouterVersion {
                version: version.version.clone(),
                revision: version.revision.clone(),
                build_date: version.build_date.clone(),
                os: version.os.clone(),
                arch: version.arch.clone(),
            },
            capabilities: self.capabilities.bits(),
            ..RouterFacts::default()
        }
    }

    /// Whether its last heartbeat was answered, or is young.
    fn answers(&self) -> bool {
        self.channel.liveness().outstanding.is_none_or(|waits| waits < UNANSWERED)
    }

    /// The connection may go on when this certificate has taken the place of the one before.
    pub fn renewed(&self, fingerprint: &str) {
        let mut fingerprints = self.fingerprints.write();
        if fingerprints.iter().any(|own| **own == *fingerprint) {
            return;
        }
        if fingerprints.len() >= CERTIFICATES {
            fingerprints.remove(0);
        }
        fingerprints.push(fingerprint.into());
    }

    /// The fingerprint that the connection was made with.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Whether the connection stands on this certificate.
    pub fn stands_on(&self, fingerprint: &str) -> bool {
        self.fingerprints.read().iter().any(|own| **own == *fingerprint)
    }

    /// It is about to stop. False if that is known.
    pub(super) fn begins_to_drain(&self) -> bool {
        !self.drains.swap(true, Ordering::AcqRel)
    }

    /// Whether no new path leads through it, whatever its entity says: it answers no routes, or stops.
    pub(super) fn is_left_alone(&self, now: Instant) -> bool {
        self.drains.load(Ordering::Acquire) || self.window.rests(now)
    }

    /// Where it takes links.
    pub fn listeners(&self) -> Vec<Listener> {
        self.listeners.read().clone()
    }

    /// It takes links elsewhere now.
    pub fn set_listeners(&self, listeners: Vec<Listener>) {
        *self.listeners.write() = listeners;
    }
}

/// Why a router is not registered: another connection of it is too young to be replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("router already connected id: {router}, for {seconds} s")]
pub struct AlreadyConnected {
    /// The router.
    pub router: Id,
    /// For how long.
    pub seconds: u64,
}

/// The routers that are connected.
#[derive(Debug, Default)]
pub struct Routers(RwLock<HashMap<Id, Arc<LiveRouter>>>);

impl Routers {
    /// A router, if it is connected.
    pub fn get(&self, id: &str) -> Option<Arc<LiveRouter>> {
        self.0.read().get(id).cloned()
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<LiveRouter>> {
        self.0.read().values().cloned().collect()
    }

    /// Whether a further connection of a router may take the place of the one there is.
    pub fn may_connect(&self, id: &str, churn_limit: Duration) -> Result<(), AlreadyConnected> {
        may_replace(self.0.read().get(id), false, churn_limit)
    }

    /// Registers a router, and answers the one whose place it took.
    pub fn register(
        &self,
        router: Arc<LiveRouter>,
        churn_limit: Duration,
    ) -> Result<Option<Arc<LiveRouter>>, AlreadyConnected> {
        let mut routers = self.0.write();
        may_replace(routers.get(&router.id), router.dialed, churn_limit)?;
        Ok(routers.insert(router.id.clone(), router))
    }

    /// Takes a router out, if it is the one that is registered.
    pub fn unregister(&self, router: &Arc<LiveRouter>) -> bool {
        let mut routers = self.0.write();
        let current = routers.get(&router.id).is_some_and(|own| Arc::ptr_eq(own, router));
        if current {
            routers.remove(&router.id);
        }
        current
    }

    /// Whether this connection is the one that is registered.
    pub fn is_current(&self, router: &Arc<LiveRouter>) -> bool {
        self.0.read().get(&router.id).is_some_and(|own| Arc::ptr_eq(own, router))
    }
}

/// A connection that was dialed from here never takes the place of another; where both sides dial, one
/// of the two stays. It keeps its own place while it answers: a router that dials meanwhile, as it
/// knows no better, would otherwise end it each time.
fn may_replace(
    current: Option<&Arc<LiveRouter>>,
    dialed: bool,
    churn_limit: Duration,
) -> Result<(), AlreadyConnected> {
    let Some(current) = current.filter(|current| !current.channel.is_closed()) else {
        return Ok(());
    };
    let is_young = clock::since(current.since) < churn_limit;
    if dialed || is_young || (current.dialed && current.answers()) {
        let seconds = clock::since(current.since).as_secs();
        return Err(AlreadyConnected { router: current.id.clone(), seconds });
    }
    Ok(())
}
