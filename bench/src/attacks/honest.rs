//! The honest clients: one dials, the other one makes calls of the API.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use hdrhistogram::Histogram;
use tokio::task::JoinSet;
use weft_client::{About, ClientApi, Credentials};
use weft_sdk::Endpoint;

use super::pace::ticks;
use crate::ends;
use crate::path::weft::{Network, PATIENCE, endpoint, enrolled, host};
use crate::work::{serve, use_once};

/// The service of the honest client.
pub(super) const SERVICE: &str = "honest";
/// The time after which an operation has failed.
const LIMIT: Duration = Duration::from_secs(30);

/// The honest clients, and the host of the one that dials.
pub(super) struct Honest {
    dialer: Endpoint,
    caller: Arc<ClientApi>,
    /// Operations per second of each.
    rate: f64,
    _host: Endpoint,
}

/// How long the operations of a client took, in nanoseconds, and how many failed.
pub(super) struct Seen {
    pub(super) times: Histogram<u64>,
    pub(super) failed: u64,
}

impl Honest {
    pub(super) async fn start(network: &Network, rate: f64) -> io::Result<Self> {
        let host = host(network.client(), "honest-host").await?;
        let dialer = endpoint(network.client(), "honest-dialer").await?;
        let bound = {
            let host = host.clone();
            ends::serve(async move { host.bind(SERVICE).await }).await?
        };
        let mut listener = bound.map_err(io::Error::other)?;
        ends::serve(async move {
            while let Ok(incoming) = listener.accept().await {
                tokio::spawn(async move {
                    let stream = incoming.accept().await.map_err(io::Error::other)?;
                    serve(Box::pin(stream)).await
                });
            }
        });
        let identity = enrolled(network.client(), "honest-caller").await?;
        let caller = ClientApi::of_identity(&identity).map_err(io::Error::other)?;
        let login = caller.login(Credentials::Certificate, About::default()).await;
        login.map_err(io::Error::other)?;
        let honest = Self { dialer, caller: Arc::new(caller), rate, _host: host };
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = dial(honest.dialer.clone()).await {
            if Instant::now() > deadline {
                return Err(error);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(honest)
    }

    /// Dials, has a byte echoed, and closes.
    pub(super) async fn dial(&self, duration: Duration) -> io::Result<Seen> {
        let one = || Box::pin(dial(self.dialer.clone())) as BoxFuture<'static, _>;
        timed(self.rate, duration, one).await
    }

    /// Makes calls of the API, each over a connection of its own.
    pub(super) async fn call(&self, duration: Duration) -> io::Result<Seen> {
        let one = || Box::pin(call(Arc::clone(&self.caller))) as BoxFuture<'static, _>;
        timed(self.rate, duration, one).await
    }
}

async fn dial(dialer: Endpoint) -> io::Result<()> {
    let mut dialed = dialer.dial(SERVICE).await.map_err(io::Error::other)?;
    use_once(&mut dialed).await
}

async fn call(api: Arc<ClientApi>) -> io::Result<()> {
    api.reconnect().map_err(io::Error::other)?;
    api.current_identity().await.map(drop).map_err(io::Error::other)
}

/// Begins an operation at each tick, and waits for all of them.
async fn timed(
    rate: f64,
    duration: Duration,
    one: impl Fn() -> BoxFuture<'static, io::Result<()>>,
) -> io::Result<Seen> {
    let (mut ticks, begun) = (ticks(rate), Instant::now());
    let mut tasks = JoinSet::new();
    while begun.elapsed() < duration {
        // The time that was planned counts: a client that is held up waits, too.
        let planned = ticks.tick().await.into_std();
        let work = one();
        tasks.spawn(async move {
            let done = tokio::time::timeout(LIMIT, work).await;
            (planned.elapsed(), matches!(done, Ok(Ok(()))))
        });
    }
    let times = Histogram::new(3).map_err(io::Error::other)?;
    let mut seen = Seen { times, failed: 0 };
    while let Some(done) = tasks.join_next().await {
        let (took, is_right) = done.map_err(io::Error::other)?;
        seen.failed += u64::from(!is_right);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        seen.times.record(nanos).map_err(io::Error::other)?;
    }
    Ok(seen)
}
