//! The attacker: an enrolled client that may dial and host everything.

use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;
use weft_client::{About, ClientApi, Credentials};
use weft_sdk::{BindOptions, Endpoint, IdentityFile, Listener, chain};

use super::OWN;
use super::pace::Pace;

/// Hosts that take dials and do not answer.
const SILENT: usize = 8;
/// Attempts that wait for an answer, at most.
const WAITING: usize = 5_000;
/// Connections on which lists are asked for.
const LISTS: usize = 4;
/// Parts of the filter, each with a search that no index serves: 54 KB.
const PARTS: usize = 500;
const PART: &str = r#"name contains "z1" and not (anyOf(roleAttributes) contains "q1")"#;
/// The longest wait for one attempt.
const LONGEST: Duration = Duration::from_secs(20);

/// What the attacker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attack {
    SilentHosts,
    Terminators,
    Circuits,
    Filter,
}

impl Attack {
    pub(super) const ALL: [Self; 4] =
        [Self::SilentHosts, Self::Terminators, Self::Circuits, Self::Filter];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::SilentHosts => "dials to silent hosts",
            Self::Terminators => "terminators without end",
            Self::Circuits => "circuits that stay open",
            Self::Filter => "lists by a costly filter",
        }
    }
}

/// What the attacker has done.
#[derive(Debug, Clone, Default)]
pub(super) struct Done {
    pub(super) attempts: u64,
    pub(super) refused: u64,
    /// Why the last refused attempt was refused.
    pub(super) reason: Option<String>,
    pub(super) took: Duration,
}

/// An attack under way, on a thread of its own.
pub(super) struct Mallory {
    stop: oneshot::Sender<()>,
    done: oneshot::Receiver<io::Result<Done>>,
}

impl Mallory {
    /// Logs in and begins; returns once the first attempt is made.
    pub(super) async fn start(
        identity: IdentityFile,
        attack: Attack,
        rate: f64,
        share: f64,
    ) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (told, done) = oneshot::channel();
        let (begins, begun) = oneshot::channel();
        thread::Builder::new().name("attacker".to_owned()).spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            let done = runtime.and_then(|runtime| {
                runtime.block_on(async {
                    let means = Means::gather(identity, attack).await?;
                    let _ = begins.send(());
                    Ok(means.attack(attack, Pace::new(rate, share), stopped).await)
                })
            });
            let _ = told.send(done);
        })?;
        let mallory = Self { stop, done };
        match begun.await {
            Ok(()) => Ok(mallory),
            // The thread has ended, and says why.
            Err(_) => Err(mallory.stop().await.err().unwrap_or(io::ErrorKind::Other.into())),
        }
    }

    /// Ends the attack, and all that the attacker holds.
    pub(super) async fn stop(self) -> io::Result<Done> {
        let _ = self.stop.send(());
        self.done.await.map_err(io::Error::other)?
    }
}

/// Something that takes room in the network until it is dropped.
type Held = Box<dyn Send>;
/// What an attempt leaves, or why it was refused.
type Tried = Result<Held, String>;

/// What the attacker attacks with.
struct Means {
    endpoint: Endpoint,
    /// Logins at the API, each with a connection of its own.
    lists: Vec<Arc<ClientApi>>,
}

impl Means {
    async fn gather(identity: IdentityFile, attack: Attack) -> io::Result<Self> {
        let mut lists = Vec::new();
        for _ in 0..if attack == Attack::Filter { LISTS } else { 0 } {
            let api = ClientApi::of_identity(&identity).map_err(io::Error::other)?;
            let login = api.login(Credentials::Certificate, About::default()).await;
            login.map_err(io::Error::other)?;
            lists.push(Arc::new(api));
        }
        let endpoint = Endpoint::from_identity(identity).await.map_err(io::Error::other)?;
        Ok(Self { endpoint, lists })
    }

    async fn attack(self, attack: Attack, pace: Pace, stopped: oneshot::Receiver<()>) -> Done {
        let hosts = match attack {
            Attack::SilentHosts => self.hosts(SILENT, false).await,
            Attack::Circuits => self.hosts(1, true).await,
            Attack::Terminators | Attack::Filter => JoinSet::new(),
        };
        let filter: Arc<str> = vec![PART; PARTS].join(" or ").into();
        let attempt = |number: usize| -> BoxFuture<'static, Tried> {
            let endpoint = self.endpoint.clone();
            match attack {
                Attack::SilentHosts | Attack::Circuits => Box::pin(dial(endpoint)),
                Attack::Terminators => Box::pin(bind(endpoint)),
                Attack::Filter => {
                    let api = self.lists.get(number % LISTS).cloned();
                    Box::pin(list(api, Arc::clone(&filter)))
                }
            }
        };
        let most = if attack == Attack::Filter { LISTS } else { WAITING };
        let done = run(attempt, most, pace, stopped).await;
        drop(hosts);
        // What was not delivered is nobody's loss.
        let _ = self.endpoint.close_within(Duration::from_secs(1)).await;
        done
    }

    /// Hosts the attacker's service at so many listeners, which answer dials or leave them waiting.
    async fn hosts(&self, count: usize, answers: bool) -> JoinSet<()> {
        let mut hosts = JoinSet::new();
        for _ in 0..count {
            if let Ok(listener) = self.endpoint.bind(OWN).await {
                hosts.spawn(host(listener, answers));
            }
        }
        hosts
    }
}

/// Takes dials and keeps them, answered or not.
async fn host(mut listener: Listener, answers: bool) {
    let (mut silent, mut answered) = (Vec::new(), Vec::new());
    while let Ok(incoming) = listener.accept().await {
        if answers {
            answered.extend(incoming.accept().await);
            continue;
        }
        // What has waited for longest was given up by its router.
        if silent.len() > WAITING {
            silent.drain(..WAITING / 2);
        }
        silent.push(incoming);
    }
}

async fn dial(endpoint: Endpoint) -> Tried {
    let dialed = endpoint.dial(OWN).await.map_err(|error| chain(&error))?;
    Ok(Box::new(dialed))
}

async fn bind(endpoint: Endpoint) -> Tried {
    let options = BindOptions::new().timeout(LONGEST);
    let bound = endpoint.bind_with(OWN, options).await.map_err(|error| chain(&error))?;
    Ok(Box::new(bound))
}

async fn list(api: Option<Arc<ClientApi>>, filter: Arc<str>) -> Tried {
    let (api, query) = (api.ok_or("no connection for lists")?, [("filter", &*filter)]);
    let listed = api.call::<Value>("listServices", &[], &query, None).await;
    listed.map_err(|error| chain(&error))?;
    Ok(Box::new(()))
}

/// Makes attempts until the attack is stopped, and holds what they leave.
async fn run(
    attempt: impl Fn(usize) -> BoxFuture<'static, Tried>,
    most: usize,
    mut pace: Pace,
    mut stopped: oneshot::Receiver<()>,
) -> Done {
    let (begun, mut done, mut number) = (Instant::now(), Done::default(), 0);
    let (mut tasks, mut held) = (JoinSet::new(), Vec::new());
    loop {
        tokio::select! {
            biased;
            _ = &mut stopped => break,
            Some(left) = tasks.join_next() => match left {
                Ok(Ok(Ok(left))) => held.push(left),
                problem => {
                    done.refused += 1;
                    done.reason = problem.ok().and_then(Result::ok).and_then(Result::err);
                }
            },
            () = pace.next(), if tasks.len() < most => {
                tasks.spawn(timeout(LONGEST, attempt(number)));
                done.attempts += 1;
                number += 1;
            }
        }
    }
    done.took = begun.elapsed();
    done
}
