//! Places for lookups of names, which bound the threads that wait for DNS servers.
//!
//! The system looks a name up in a thread that nobody can stop: it ends when a server has answered, or when all of
//! them were given up, which may take a minute. A lookup therefore keeps its place until it has ended, whether or not
//! somebody still waits for it. A process shares its threads for such work with all that it does with files, so the
//! places are far fewer than those threads. Names that others have named or chosen have places of their own, of which
//! each of them has a share. Whoever asks for a name joins a lookup of it that has just begun.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use weft_limits::{FairSemaphore, Full, Permit, Quota};

use super::{HostLookup, ask};

/// Most lookups at once for this process itself.
const MOST_OWN: usize = 32;
/// Most lookups at once of the addresses that routers tell of themselves.
const MOST_TOLD: usize = 64;
/// Most of these for one router.
const MOST_TOLD_OF_ROUTER: usize = 4;
/// Most lookups at once for health checks.
const MOST_CHECKED: usize = 64;
/// Most of these for one terminator.
const MOST_CHECKED_OF_TERMINATOR: usize = 8;
/// Most lookups at once of names in configs of services, for dialers.
const MOST_CONFIGURED: usize = 64;
/// Most of these for one dialer.
const MOST_CONFIGURED_OF_DIALER: usize = 16;
/// Most lookups at once of names that dialers choose.
const MOST_CHOSEN: usize = 64;
/// Most of these for one dialer.
const MOST_CHOSEN_OF_DIALER: usize = 8;
/// Most lookups of one kind that wait for a place.
const MOST_WAITING: usize = 1024;
/// Most of these in one share.
const MOST_WAITING_OF_SHARE: usize = 64;
/// Longest wait for a place: less than the time in which a host has to answer a dial.
const PATIENCE: Duration = Duration::from_secs(3);
/// The time after which nobody joins a lookup any more: its servers may answer a new one at once, while it still waits.
const STALE: Duration = Duration::from_secs(5);

/// Who has a name looked up. Each kind has places of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker<'a> {
    /// This process: a controller, a router, a proxy or another host that it uses itself.
    Process,
    /// This router, which has told the address at which it is to be dialed.
    Peer(&'a str),
    /// The health checks of a hosted terminator, which this names.
    Check(&'a str),
    /// This dialer of a hosted service whose config names the host.
    Dialer(&'a str),
    /// This dialer of a hosted service, which has chosen the name itself.
    Chooser(&'a str),
}

/// The addresses of a host, all with port 0.
type Found = Result<Vec<SocketAddr>, Arc<io::Error>>;
type Places = Arc<FairSemaphore<String>>;
type Running = HashMap<String, RunningLookup>;

/// A lookup under way.
#[derive(Clone, Debug)]
struct RunningLookup {
    number: u64,
    begun: Instant,
    result: watch::Receiver<Option<Found>>,
}

/// The lookups of a process.
#[derive(Debug)]
pub(super) struct Lookups {
    own: Places,
    told: Places,
    checked: Places,
    configured: Places,
    chosen: Places,
    /// The newest lookup under way of each name. All have places.
    running: Mutex<Running>,
    last_number: AtomicU64,
    /// Wakes those that wait for a place when a lookup begins, which may be of their name.
    begun: Notify,
    /// Longest wait for a place.
    patience: Duration,
}

/// A lookup under way, until it is dropped.
struct Place {
    lookups: Arc<Lookups>,
    host: String,
    number: u64,
    told: watch::Sender<Option<Found>>,
    _permit: Permit<String>,
}

impl Lookups {
    pub(super) fn new() -> Arc<Self> {
        Self::with_patience(PATIENCE)
    }

    fn with_patience(patience: Duration) -> Arc<Self> {
        let places = |total, each, waiting| {
            FairSemaphore::with_queue(Quota::new(total, each), MOST_WAITING, waiting)
        };
        Arc::new(Self {
            own: places(MOST_OWN, MOST_OWN, MOST_WAITING),
            told: places(MOST_TOLD, MOST_TOLD_OF_ROUTER, MOST_WAITING_OF_SHARE),
            checked: places(MOST_CHECKED, MOST_CHECKED_OF_TERMINATOR, MOST_WAITING_OF_SHARE),
            configured: places(MOST_CONFIGURED, MOST_CONFIGURED_OF_DIALER, MOST_WAITING_OF_SHARE),
            chosen: places(MOST_CHOSEN, MOST_CHOSEN_OF_DIALER, MOST_WAITING_OF_SHARE),
            running: Mutex::default(),
            last_number: AtomicU64::new(0),
            begun: Notify::new(),
            patience,
        })
    }

    /// The addresses of a host, from the lookup of it that is under way, or else from one that begins when it has a
    /// place.
    pub(super) async fn find(
        self: &Arc<Self>,
        asker: Asker<'_>,
        host: &str,
        by: Option<&Arc<dyn HostLookup>>,
    ) -> io::Result<Vec<SocketAddr>> {
        loop {
            let mut result = match self.running(host) {
                Some(result) => result,
                None => self.begin(asker, host, by).await?,
            };
            // A lookup ends without a result where its runtime ends, which may be another one than that of whoever waits.
            if let Ok(found) = result.wait_for(Option::is_some).await
                && let Some(found) = &*found
            {
                return found.clone().map_err(|error| io::Error::new(error.kind(), error));
            }
        }
    }

    /// The lookup of a name under way, if it has begun a moment ago.
    fn running(&self, host: &str) -> Option<watch::Receiver<Option<Found>>> {
        let running = self.running.lock();
        let young = running.get(host).filter(|running| running.begun.elapsed() < STALE);
        young.map(|running| running.result.clone())
    }

    /// Begins a lookup when it has a place, unless one of the same name has begun meanwhile.
    async fn begin(
        self: &Arc<Self>,
        asker: Asker<'_>,
        host: &str,
        by: Option<&Arc<dyn HostLookup>>,
    ) -> io::Result<watch::Receiver<Option<Found>>> {
        let permit = tokio::select! {
            biased;
            permit = self.permit(asker, host) => permit?,
            running = self.begun_by_another(host) => return Ok(running),
        };
        if let Some(running) = self.running(host) {
            return Ok(running);
        }
        let (told, result) = watch::channel(None);
        let number = self.last_number.fetch_add(1, Ordering::Relaxed);
        let running = RunningLookup { number, begun: Instant::now(), result: result.clone() };
        self.running.lock().insert(host.to_owned(), running);
        self.begun.notify_waiters();
        let (lookups, host) = (Arc::clone(self), host.to_owned());
        let place = Place { lookups, host, number, told, _permit: permit };
        let by = by.cloned();
        // A task of its own, which nobody stops: it lasts as long as the thread of the system does.
        tokio::spawn(async move {
            let found = ask(by.as_deref(), &place.host).await;
            place.told.send_replace(Some(found.map_err(Arc::new)));
        });
        Ok(result)
    }

    /// Waits until somebody else begins a lookup of this name.
    async fn begun_by_another(&self, host: &str) -> watch::Receiver<Option<Found>> {
        loop {
            let mut begun = std::pin::pin!(self.begun.notified());
            begun.as_mut().enable();
            if let Some(running) = self.running(host) {
                return running;
            }
            begun.await;
        }
    }

    async fn permit(&self, asker: Asker<'_>, host: &str) -> io::Result<Permit<String>> {
        let (places, key) = match asker {
            Asker::Process => (&self.own, host),
            Asker::Peer(router) => (&self.told, router),
            Asker::Check(terminator) => (&self.checked, terminator),
            Asker::Dialer(dialer) => (&self.configured, dialer),
            Asker::Chooser(dialer) => (&self.chosen, dialer),
        };
        let full = match places.try_acquire(key.to_owned()) {
            Ok(permit) => return Ok(permit),
            Err(full) => full,
        };
        match timeout(self.patience, places.acquire(key.to_owned())).await {
            Ok(Some(permit)) => Ok(permit),
            Ok(None) | Err(_) => Err(crowded(asker, &full)),
        }
    }
}

/// The reason why a name was not looked up.
fn crowded(asker: Asker<'_>, full: &Full<String>) -> io::Error {
    let is_share = matches!(full, Full::Key(_));
    let (most, of_share, what, whose) = match asker {
        Asker::Process => (MOST_OWN, MOST_OWN, "", ""),
        Asker::Peer(_) => (MOST_TOLD, MOST_TOLD_OF_ROUTER, " of routers", " of its router"),
        Asker::Check(_) => {
            let whose = " of health checks of its terminator";
            (MOST_CHECKED, MOST_CHECKED_OF_TERMINATOR, " of health checks", whose)
        }
        Asker::Dialer(_) => {
            (MOST_CONFIGURED, MOST_CONFIGURED_OF_DIALER, " of services", " for its dialer")
        }
        Asker::Chooser(_) => {
            let (what, whose) = (" that dialers have chosen", " that its dialer has chosen");
            (MOST_CHOSEN, MOST_CHOSEN_OF_DIALER, what, whose)
        }
    };
    let (most, what) = if is_share { (of_share, whose) } else { (most, what) };
    let text = format!(
        "{most} other names{what} are being looked up, and DNS servers do not answer in time"
    );
    io::Error::new(io::ErrorKind::ResourceBusy, text)
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut running = self.lookups.running.lock();
        if running.get(&self.host).is_some_and(|it| it.number == self.number) {
            running.remove(&self.host);
        }
    }
}

#[cfg(test)]
mod tests;
