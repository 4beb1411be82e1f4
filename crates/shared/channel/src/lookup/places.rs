//! Places for lookups of names, which bound the threads that wait for DNS servers.
//!
//! The system looks a name up in a thread that nobody can stop: it ends when a server has answered, or when all of
//! them were given up, which may take a minute. A lookup therefore keeps its place until it has ended, whether or not
//! somebody still waits for it. A process shares its threads for such work with all that it does with files, so the
//! places are far fewer than those threads. Names that dialers choose have places of their own, of which each dialer
//! has a share; a name is looked up once at a time, however many wait for it.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;
use weft_limits::{FairSemaphore, Full, Permit, Quota};

use super::{HostLookup, ask};

/// Most lookups at once for this process itself.
const MOST_OWN: usize = 32;
/// Most lookups at once for health checks.
const MOST_CHECKED: usize = 32;
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
/// Most of these for one dialer.
const MOST_WAITING_OF_DIALER: usize = 64;
/// Longest wait for a place: less than the time in which a host has to answer a dial.
const PATIENCE: Duration = Duration::from_secs(3);

/// Who has a name looked up. Each kind has places of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker<'a> {
    /// This process: a controller, a router, a proxy or another host that it uses itself.
    Process,
    /// A health check of a hosted service.
    Check,
    /// This dialer of a hosted service whose config names the host.
    Dialer(&'a str),
    /// This dialer of a hosted service, which has chosen the name itself.
    Chooser(&'a str),
}

/// The addresses of a host, all with port 0.
type Found = Result<Vec<SocketAddr>, Arc<io::Error>>;
type Places = Arc<FairSemaphore<String>>;
type Running = HashMap<String, watch::Receiver<Option<Found>>>;

/// The lookups of a process.
#[derive(Debug)]
pub(super) struct Lookups {
    own: Places,
    checked: Places,
    configured: Places,
    chosen: Places,
    /// The lookups under way by name. Each has a place.
    running: Mutex<Running>,
    /// Longest wait for a place.
    patience: Duration,
}

/// A lookup under way, until it is dropped.
struct Place {
    lookups: Arc<Lookups>,
    host: String,
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
            checked: places(MOST_CHECKED, MOST_CHECKED, MOST_WAITING),
            configured: places(MOST_CONFIGURED, MOST_CONFIGURED_OF_DIALER, MOST_WAITING_OF_DIALER),
            chosen: places(MOST_CHOSEN, MOST_CHOSEN_OF_DIALER, MOST_WAITING_OF_DIALER),
            running: Mutex::default(),
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
            let running = self.running.lock().get(host).cloned();
            let mut running = match running {
                Some(running) => running,
                None => self.begin(asker, host, by).await?,
            };
            // A lookup ends without a result where its runtime ends, which may be another one than that of whoever waits.
            if let Ok(found) = running.wait_for(Option::is_some).await
                && let Some(found) = &*found
            {
                return found.clone().map_err(|error| io::Error::new(error.kind(), error));
            }
        }
    }

    /// Begins a lookup when it has a place, unless one of the same name has begun meanwhile.
    async fn begin(
        self: &Arc<Self>,
        asker: Asker<'_>,
        host: &str,
        by: Option<&Arc<dyn HostLookup>>,
    ) -> io::Result<watch::Receiver<Option<Found>>> {
        let permit = self.permit(asker, host).await?;
        let mut running = self.running.lock();
        if let Some(running) = running.get(host) {
            return Ok(running.clone());
        }
        let (told, result) = watch::channel(None);
        running.insert(host.to_owned(), result.clone());
        drop(running);
        let place =
            Place { lookups: Arc::clone(self), host: host.to_owned(), told, _permit: permit };
        let by = by.cloned();
        // A task of its own, which nobody stops: it lasts as long as the thread of the system does.
        tokio::spawn(async move {
            let found = ask(by.as_deref(), &place.host).await;
            place.told.send_replace(Some(found.map_err(Arc::new)));
        });
        Ok(result)
    }

    async fn permit(&self, asker: Asker<'_>, host: &str) -> io::Result<Permit<String>> {
        let (places, key) = match asker {
            Asker::Process => (&self.own, host),
            Asker::Check => (&self.checked, host),
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
    let others = match (asker, full) {
        (Asker::Dialer(_), Full::Key(_)) => {
            format!("{MOST_CONFIGURED_OF_DIALER} other names for its dialer")
        }
        (Asker::Chooser(_), Full::Key(_)) => {
            format!("{MOST_CHOSEN_OF_DIALER} other names that its dialer has chosen")
        }
        (Asker::Process, _) => format!("{MOST_OWN} other names"),
        (Asker::Check, _) => format!("{MOST_CHECKED} other names of health checks"),
        (Asker::Dialer(_), Full::Total) => format!("{MOST_CONFIGURED} other names of services"),
        (Asker::Chooser(_), Full::Total) => {
            format!("{MOST_CHOSEN} other names that dialers have chosen")
        }
    };
    let text = format!("{others} are being looked up, and DNS servers do not answer in time");
    io::Error::new(io::ErrorKind::ResourceBusy, text)
}

impl Drop for Place {
    fn drop(&mut self) {
        self.lookups.running.lock().remove(&self.host);
    }
}

#[cfg(test)]
mod tests;
