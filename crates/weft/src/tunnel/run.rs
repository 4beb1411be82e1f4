//! `weft tunnel run`, `run-host` and `proxy`: tunnelers.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use weft_sdk::Endpoint;
use weft_tunnel::config::ListenAt;
use weft_tunnel::{NamedPort, Protocol, SourceAddresses, UdpTimes};
use weft_tunneler::{Options, Tunneler};

use super::ending::{Ending, STOPPING, clean_up, given_back};
use super::explain::{self, Use};
use super::status::{Served, Shown};
use super::{identities, intercepting};
use crate::cli::{Clients, IdentityLogin, PortsAt, Running, TunnelProxyArgs, TunnelRunArgs};
use crate::codes::Codes;
use crate::failure::{Failure, Result};
use crate::service::{HangUps, Manager};
use crate::signals::{self, Stages};
use crate::{agent, output};

/// First and longest wait after a failed login.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Runs a tunneler for all identities until it is told to stop. Without settings for clients it only
/// hosts.
pub(super) async fn run(args: TunnelRunArgs, clients: Option<Clients>) -> Result<()> {
    // A terminal that closes ends its commands; a service manager's hang-up is a reload.
    let (stages, hang_ups) = match signals::is_at_terminal() {
        true => (signals::stages()?, HangUps::none()),
        false => (signals::stages_of_service()?, HangUps::listen()?),
    };
    let stop = &stages.stop;
    let paths = identities::named(&args.identity)?;
    let codes = Codes::new(&args.login.codes, &paths)?;
    let base = options(clients.as_ref().map(|clients| &clients.at), &args.running);
    let offer = clients.is_some();
    let wanted = clients.map(|clients| clients.intercept).filter(|how| !how.no_intercept);
    let idle = args.running.silence.udp_idle;
    let intercept = intercepting::start(wanted.as_ref(), &paths, idle, stop).await?;
    SourceAddresses::clean_up().await;
    let options = Options { offer, intercept: intercept.clone(), ..base };
    let refresh = seconds(args.running.refresh);
    let (shown, stop) = (Arc::<Mutex<Shown>>::default(), stop.clone());
    let login = args.login;
    let all = Arc::new(All { paths, login, codes, refresh, options, shown, stop });
    let served = Served::start(args.running.socket.as_deref(), Arc::clone(&all.shown));
    let shown = Arc::clone(&all.shown);
    let _agent = agent::of_tunneler(&args.agent, move || shown.lock().as_json());
    let mut manager = Manager::of_process();
    let drain = seconds(args.running.drain);
    let (endpoints, ended) = match &served {
        Ok(_) => {
            let ended = managed(all.run(), &mut manager, drain, &stages, &hang_ups).await;
            let (endpoints, ended) = ended.unwrap_or_else(|| (Vec::new(), Ok(())));
            // The failure of some counts only if it has ended the command.
            (endpoints, if all.stop.is_cancelled() { Ok(()) } else { ended })
        }
        Err(_) => (Vec::new(), Ok(())),
    };
    let ending = Ending::drained(&stages, || all.open(), drain).await;
    clean_up(intercept.as_deref()).await;
    ending.leave(endpoints).await;
    // After a second signal, some may not have ended; without them their services are hosted no more.
    all.shown.lock().tunnelers.clear();
    given_back().await;
    served.and(ended).and_then(|()| ending.result())
}

/// Runs tunnelers, and tells the service manager that the program runs and when it stops. `None` if the
/// tunnelers were not waited for.
async fn managed<T>(
    tunnelers: impl Future<Output = T>,
    manager: &mut Manager,
    drain: Duration,
    Stages { stop, hurry }: &Stages,
    hang_ups: &HangUps,
) -> Option<T> {
    // The program may have been told to stop while it started.
    if !stop.is_cancelled() {
        manager.up(vec![Handle::current()]);
    }
    let mut tunnelers = pin!(tunnelers);
    tokio::select! {
        ended = &mut tunnelers => return Some(ended),
        () = stop.cancelled() => {}
        () = hang_ups.follow(manager, async || None) => {}
    }
    manager.stopping(drain + STOPPING);
    tokio::select! {
        biased;
        ended = tunnelers => Some(ended),
        () = hurry.cancelled() => None,
    }
}

/// The tunnelers of all identities.
struct All {
    /// The files or tokens of the identities.
    paths: Vec<PathBuf>,
    login: IdentityLogin,
    codes: Arc<Codes>,
    refresh: Duration,
    options: Options,
    shown: Arc<Mutex<Shown>>,
    stop: CancellationToken,
}

/// Why an identity is not served.
struct Obstacle {
    failure: Failure,
    /// True if the same attempt may succeed later.
    may_pass: bool,
}

impl All {
    /// Number of open connections.
    fn open(&self) -> u64 {
        self.shown.lock().tunnelers.iter().map(|tunneler| tunneler.open()).sum()
    }

    /// Runs a tunneler for each identity. Returns what still holds connections, and the last failure of
    /// an identity.
    async fn run(self: &Arc<Self>) -> (Vec<Endpoint>, Result<()>) {
        let mut running = JoinSet::new();
        for path in self.paths.clone() {
            let this = Arc::clone(self);
            running.spawn(async move { this.one(&path).await });
        }
        let (mut endpoints, mut failure) = (Vec::new(), Ok(()));
        while let Some(done) = running.join_next().await {
            match done {
                Ok(Ok(endpoint)) => endpoints.extend(endpoint),
                Ok(Err(problem)) => {
                    tracing::error!(%problem, "the tunneler stops for an identity");
                    failure = Err(problem);
                }
                Err(panic) => failure = Err(Failure::new(panic)),
            }
        }
        (endpoints, failure)
    }

    /// Runs a tunneler for one identity until it is told to stop, and returns the endpoint of its open
    /// connections. While no controller can be reached, enrollment and login are tried again ([`WAITS`]).
    async fn one(&self, path: &Path) -> Result<Option<Endpoint>> {
        let (mut wait, longest) = WAITS;
        let (endpoint, tunneler) = loop {
            let begun = tokio::select! {
                biased;
                () = self.stop.cancelled() => return Ok(None),
                begun = self.begin(path) => begun,
            };
            let Obstacle { failure: problem, may_pass } = match begun {
                Ok(begun) => break begun,
                Err(obstacle) => obstacle,
            };
            self.shown.lock().unserved.insert(path.to_owned(), problem.to_string());
            if !may_pass {
                return Err(problem);
            }
            tracing::warn!(identity = %path.display(), %problem, "not logged in; trying again");
            tokio::select! {
                () = self.stop.cancelled() => return Ok(None),
                () = tokio::time::sleep(wait) => {}
            }
            wait = (wait * 2).min(longest);
        };
        tracing::info!(identity = %endpoint.identity_name(), "tunneling");
        {
            let mut shown = self.shown.lock();
            shown.unserved.remove(path);
            shown.tunnelers.push(Arc::clone(&tunneler));
        }
        tunneler.run(&self.stop).await;
        Ok(Some(endpoint))
    }

    /// Enrolls an identity, if that was not done before, and logs in.
    async fn begin(&self, path: &Path) -> Result<(Endpoint, Arc<Tunneler>), Obstacle> {
        let file = identities::file(path).await.map_err(|failure| Obstacle {
            may_pass: failure.is_temporary(),
            failure: failure.during(path.display()),
        })?;
        if let Some(intercept) = &self.options.intercept {
            // An identity that was enrolled now may have more controllers than its token names.
            intercept.set_controllers(intercepting::controllers(&self.paths));
        }
        let begun = async {
            let builder = identities::builder(self.refresh, &self.login, &self.codes, path);
            let endpoint = builder.load(&file).await?;
            let tunneler = Tunneler::new(endpoint.clone(), self.options.clone());
            tunneler.refresh().await?;
            Ok::<_, weft_sdk::Error>((endpoint, tunneler))
        };
        begun.await.map_err(|error| Obstacle {
            may_pass: !error.is_final(),
            failure: explain::failure(&error).during(file.display()),
        })
    }
}

/// Offers services at ports until it is told to stop.
pub(super) async fn proxy(args: TunnelProxyArgs) -> Result<()> {
    let stages = signals::stages()?;
    let named = args.ports.iter().map(|text| named(text)).collect::<Result<Vec<_>, _>>()?;
    let options =
        Options { host: false, offer: false, named, ..options(Some(&args.at), &args.running) };
    let begun = async {
        let refresh = seconds(args.running.refresh);
        let endpoint = identities::log_in(&args.identity, refresh, &args.login).await?;
        let services = endpoint.services().await.map_err(|error| explain::failure(&error))?;
        for named in &options.named {
            explain::check(&endpoint, &services, &named.service, Use::Dial)?;
        }
        let tunneler = Tunneler::new(endpoint.clone(), options.clone());
        tunneler.refresh().await.map_err(|error| explain::failure(&error))?;
        for port in tunneler.ports() {
            let at = port.listening.map_err(Failure::new)?;
            output::line(format!("{}: {}:{at}", port.service, port.protocol));
        }
        Ok::<_, Failure>((endpoint, tunneler))
    };
    let (endpoint, tunneler) = tokio::select! {
        biased;
        () = stages.stop.cancelled() => return Err(Failure::interrupted()),
        begun = begun => begun?,
    };
    let shown = Shown { tunnelers: vec![Arc::clone(&tunneler)], ..Shown::default() };
    let _served = Served::start(args.running.socket.as_deref(), Arc::new(Mutex::new(shown)))?;
    tunneler.run(&stages.stop).await;
    let ending = Ending::drained(&stages, || tunneler.open(), seconds(args.running.drain)).await;
    ending.leave(vec![endpoint]).await;
    ending.result()
}

fn options(at: Option<&PortsAt>, running: &Running) -> Options {
    Options {
        at: at.map_or(ListenAt::HERE, |at| ListenAt::parse(&at.bind)),
        udp: UdpTimes { idle: seconds(running.silence.udp_idle), ..UdpTimes::default() },
        ..Options::default()
    }
}

fn seconds(count: u32) -> Duration {
    Duration::from_secs(count.into())
}

/// Reads `SERVICE:PORT`, with `:tcp` or `:udp` behind it.
fn named(text: &str) -> Result<NamedPort> {
    let wrong = || {
        Failure::usage(format!(
            "`{text}` must be SERVICE:PORT or SERVICE:PORT:udp, for example web:8080"
        ))
    };
    let (rest, protocol) = match text.rsplit_once(':').ok_or_else(wrong)? {
        (rest, "udp") => (rest, Protocol::Udp),
        (rest, "tcp") => (rest, Protocol::Tcp),
        _ => (text, Protocol::Tcp),
    };
    let (service, port) = rest.rsplit_once(':').ok_or_else(wrong)?;
    if service.is_empty() {
        return Err(wrong());
    }
    let port = port.parse().map_err(|_| match port.parse::<u64>() {
        Ok(port) => Failure::usage(format!(
            "`{text}`: {port} is no port: a port is 1 to 65535, or 0 for a free one"
        )),
        Err(_) => wrong(),
    })?;
    Ok(NamedPort { service: service.to_owned(), port, protocol })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_names_its_service() {
        let read = |text: &str| named(text).ok().map(|one| (one.service, one.port, one.protocol));
        let is = |service: &str, port, protocol| Some((service.to_owned(), port, protocol));
        assert_eq!(read("web:80"), is("web", 80, Protocol::Tcp));
        assert_eq!(read("dns:0:udp"), is("dns", 0, Protocol::Udp));
        assert_eq!(read("a:b:80:tcp"), is("a:b", 80, Protocol::Tcp));
        for wrong in ["web", "web:", ":80", "web:udp", "web:80:sctp", "web:70000"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
