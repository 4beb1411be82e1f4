//! The table of connected routers. A router has one connection: a second one within the churn limit is
//! refused (docs/protocol/control-plane.md 2.3). `presence` decides who is in the table.

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
use weft_wire::ctrl::{Listener, Listeners, RouterHello};
use weft_wire::{Capabilities, Version, VersionInfo};

use crate::link_listeners::{self, LinkListeners, Reported};
use crate::ownership::shared::OpenClaims;
use crate::presence::machine::Connection;
use crate::unroutes::Unroutes;
use crate::{clock, ctrl_listeners};

/// Fingerprints that are remembered for one connection: of the shown certificate, and of
/// certificates issued since.
const CERTIFICATES: usize = 8;

/// Bytes of reports that a router may send in a second, on average, and at once: more than the 50
/// MB each minute that a router with two hundred thousand circuits reports.
const REPORTS: f64 = 2.0 * 1024.0 * 1024.0;
const REPORTS_AT_ONCE: u32 = 64 << 20;

/// Unroutes to its neighbours that reports of a router may cause in a second, on average, and at once.
const SPREAD: f64 = 1_000.0;
const SPREAD_AT_ONCE: u32 = 20_000;

/// A connection that this controller dialed may be replaced if a heartbeat on it stays unanswered
/// for longer than this.
const UNANSWERED: Duration = Duration::from_secs(5);

/// The number of the next connection.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// A connected router with its control channel.
#[derive(Debug)]
pub struct LiveRouter {
    /// Its id.
    pub id: Id,
    /// The connection.
    pub(crate) connection: Connection,
    /// The control channel.
    pub channel: ChannelHandle,
    /// Its version, from its hello.
    pub version: VersionInfo,
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// When it connected.
    pub connected_at: Timestamp,
    /// When it connected, on the monotonic clock.
    pub since: Instant,
    /// The fingerprint of the certificate with which the connection was made.
    shown: Arc<str>,
    /// Whether this controller dialed the connection.
    pub dialed: bool,
    /// The listeners on which it says that it takes controllers.
    pub ctrl_listeners: BTreeMap<String, CtrlListener>,
    /// Fingerprints that this connection may rely on: the shown one, then the others, the oldest first.
    fingerprints: RwLock<Vec<Arc<str>>>,
    /// The print of the key with which it connected.
    key: Option<String>,
    /// Its listeners for links.
    listeners: Mutex<LinkListeners>,
    /// The number of listeners in its hello that were left out.
    pub(crate) listeners_left_out: usize,
    /// Its unanswered routes of moves.
    pub window: Window,
    /// Whether it says that it drains.
    drains: AtomicBool,
    /// The bytes of reports that it may send now.
    reports: Mutex<TokenBucket>,
    /// The unroutes to its neighbours that its reports may cause now.
    spread: Mutex<TokenBucket>,
    /// Unroutes that wait for room on its channel.
    pub(crate) unroutes: Unroutes,
    /// The claims of circuits that it has not answered.
    pub(crate) claims: OpenClaims,
}

impl LiveRouter {
    /// A router, from its hello, the fingerprint of its certificate and the print of its key; none if the hello has no version.
    pub fn new(
        id: Id,
        channel: ChannelHandle,
        hello: RouterHello,
        (shown, key): (&str, Option<String>),
        now: Timestamp,
    ) -> Option<Self> {
        let (listeners, listeners_left_out) = link_listeners::kept(hello.listeners);
        let number = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        Some(Self {
            dialed: channel.peer().dialed,
            ctrl_listeners: ctrl_listeners::told(id.as_str(), hello.ctrl_chan_listeners),
            connection: Connection { router: id.clone(), number },
            id,
            channel,
            version: hello.version?,
            capabilities: hello.capabilities,
            connected_at: now,
            since: clock::now(),
            shown: shown.into(),
            fingerprints: RwLock::new(vec![shown.into()]),
            key,
            listeners: Mutex::new(LinkListeners::new(listeners, clock::now())),
            listeners_left_out,
            window: Window::default(),
            drains: AtomicBool::new(false),
            reports: Mutex::new(TokenBucket::new(REPORTS, REPORTS_AT_ONCE, clock::now())),
            spread: Mutex::new(TokenBucket::new(SPREAD, SPREAD_AT_ONCE, clock::now())),
            unroutes: Unroutes::default(),
            claims: OpenClaims::default(),
        })
    }

    /// Whether the router may send a report of so many bytes now.
    pub fn may_report(&self, bytes: usize) -> bool {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.reports.lock().try_take(bytes, clock::now())
    }

    /// Whether a report of the router may cause so many unroutes to its neighbours now.
    pub(crate) fn may_tell_neighbours(&self, count: usize) -> bool {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.spread.lock().try_take(count, clock::now())
    }

    /// The number of the connection; unique among all connections.
    pub fn number(&self) -> u64 {
        self.connection.number
    }

    /// Its release, if it can be compared.
    pub fn release(&self) -> Option<Version> {
        self.version.release()
    }

    /// The facts about the router that others see while it is connected.
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
            keys: self.keys(),
            ..RouterFacts::default()
        }
    }

    /// Whether its last heartbeat was answered, or is still young.
    pub(crate) fn answers(&self) -> bool {
        self.channel.liveness().outstanding.is_none_or(|waits| waits < UNANSWERED)
    }

    /// Whether it says at each connection which links it has. Routers before 2.0 do not.
    pub(crate) fn lists_links(&self) -> bool {
        self.release().is_none_or(|release| release.at_least(2, 0, 0))
    }

    /// Lets the connection rely on a new certificate as well. It goes on relying on the shown one, which comes first:
    /// the new one may never be stored.
    pub fn renewed(&self, fingerprint: &str) {
        let mut fingerprints = self.fingerprints.write();
        if fingerprints.iter().any(|own| **own == *fingerprint) {
            return;
        }
        if fingerprints.len() >= CERTIFICATES {
            fingerprints.remove(1);
        }
        fingerprints.push(fingerprint.into());
    }

    /// The fingerprint of the certificate with which the connection was made.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Whether the connection relies on a certificate.
    pub fn stands_on(&self, fingerprint: &str) -> bool {
        self.fingerprints.read().iter().any(|own| **own == *fingerprint)
    }

    /// Notes that it drains. False if that is known already.
    pub(super) fn begins_to_drain(&self) -> bool {
        !self.drains.swap(true, Ordering::AcqRel)
    }

    /// Whether new paths avoid it, whatever its entity says: it answers no routes, or drains.
    pub(super) fn is_left_alone(&self, now: Instant) -> bool {
        self.drains.load(Ordering::Acquire) || self.window.rests(now)
    }

    /// Its listeners for links.
    pub fn listeners(&self) -> Vec<Listener> {
        self.listeners.lock().known().listeners.clone()
    }

    /// The prints of the keys that prove it to clients: those that it names, as routers of weft do, or else that of the
    /// certificate with which it connected, which is also that of its listeners.
    pub fn keys(&self) -> Vec<String> {
        let said = self.listeners.lock().known().server_keys.clone();
        match said.is_empty() {
            true => self.key.iter().cloned().collect(),
            false => said,
        }
    }

    /// Takes its newest report of its listeners, if it waits and may count now. True if the
    /// listeners changed.
    pub(crate) fn settle_listeners(&self) -> bool {
        self.listeners.lock().settle(clock::now())
    }

    /// Takes its report of its listeners for links.
    pub(crate) fn report_listeners(&self, listeners: Listeners) -> Reported {
        self.listeners.lock().report(listeners, clock::now())
    }
}

/// The refusal of a connection, because another connection of the router is too young to be
/// replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("router already connected id: {router}, for {seconds} s")]
pub struct AlreadyConnected {
    /// The router.
    pub router: Id,
    /// Seconds until it may be replaced.
    pub seconds: u64,
}

/// Why a connection of a router is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotConnected {
    /// Another connection of the router is too young to be replaced.
    #[error(transparent)]
    Already(#[from] AlreadyConnected),
    /// The controller is stopping: nothing would close the connection any more.
    #[error("the controller is stopping")]
    Stopping,
}

/// The routers that are connected.
#[derive(Debug, Default)]
pub struct Routers {
    live: RwLock<HashMap<Id, Arc<LiveRouter>>>,
    /// Connections that were registered since the start.
    connections: AtomicU64,
}

impl Routers {
    /// A router, if it is connected.
    pub fn get(&self, id: &str) -> Option<Arc<LiveRouter>> {
        self.live.read().get(id).cloned()
    }

    /// All routers that are connected.
    pub fn all(&self) -> Vec<Arc<LiveRouter>> {
        self.live.read().values().cloned().collect()
    }

    /// The router of a connection, if the connection is registered.
    pub(crate) fn of(&self, connection: &Connection) -> Option<Arc<LiveRouter>> {
        self.get(connection.router.as_str()).filter(|live| live.connection == *connection)
    }

    /// Puts a connection into the table, and returns the one that it replaces.
    pub(crate) fn put(&self, router: Arc<LiveRouter>) -> Option<Arc<LiveRouter>> {
        let mut routers = self.live.write();
        self.connections.fetch_add(1, Ordering::Release);
        routers.insert(router.id.clone(), router)
    }

    /// Takes a connection out of the table.
    pub(crate) fn remove(&self, connection: &Connection) {
        self.live.write().remove(&connection.router);
    }

    /// How many connections were registered since the start.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Acquire)
    }

    /// Whether this connection is the registered one of its router.
    pub fn is_current(&self, router: &Arc<LiveRouter>) -> bool {
        self.live.read().get(&router.id).is_some_and(|own| Arc::ptr_eq(own, router))
    }
}
