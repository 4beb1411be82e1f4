//! `weft tunnel run`, `run-host` and `proxy`: tunnelers.

use std::{
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{runtime::Handle, task::JoinSet};
use tokio_util::sync::CancellationToken;
use weft_tunnel::{NamedPort, Protocol, SourceAddresses, UdpTimes, config::ListenAt};
use weft_tunneler::{Options, Tunneler};

use super::{
    explain::{self, Use},
    identities, intercepting,
    status::Served,
};
use crate::{
    cli::{Intercepting, Running, TunnelProxyArgs, TunnelRunArgs},
    failure::Failure,
    output::{self, counted},
    service::{HangUps, Manager},
    signals,
};

/// Longest wait until source addresses of hosted services are removed from the machine.
const GIVING_BACK: Duration = Duration::from_secs(5);

/// Time that the end of a tunneler may take beyond the drain.
const STOPPING: Duration = Duration::from_secs(10);

/// First and longest wait after a failed login.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Runs a tunneler for all identities until it is told to stop, with interception if there are
/// settings for it.
pub(super) async fn run(
    args: TunnelRunArgs,
    intercepting: Option<Intercepting>,
) -> Result<(), Failure> {
    // A terminal that closes ends its commands; a service manager's hang-up is a reload.
    let (stop, hang_ups) = match signals::is_at_terminal() {
        true => (signals::first()?, HangUps::none()),
        false => (signals::first_of_service()?, HangUps::listen()?),
    };
    let drain = seconds(args.running.drain);
    let files = tokio::select! {
        biased;
        () = stop.cancelled() => return Err(Failure::interrupted()),
        files = identities::files(&args.identity) => files?,
    };
    let offer = intercepting.is_some();
    let wanted = intercepting.filter(|how| !how.no_intercept);
    let intercept = tokio::select! {
        biased;
        () = stop.cancelled() => return Err(Failure::interrupted()),
        started = intercepting::start(wanted.as_ref(), &files, args.running.udp_idle) => started?,
    };
    SourceAddresses::clean_up().await;
    let options = Options { offer, intercept: intercept.clone(), ..options(&args.running) };
    let tunnelers = Arc::<Mutex<Vec<Arc<Tunneler>>>>::default();
    let served = Served::start(args.running.socket.as_deref(), Arc::clone(&tunnelers));
    let ended = match &served {
        Ok(_) => {
            let tunnelers = all(files, &args.running, &options, &tunnelers, &stop);
            managed(tunnelers, drain, &stop, &hang_ups).await
        }
        Err(_) => Ok(()),
    };
    if let Some(intercept) = intercept {
        intercept.stop().await;
    }
    SourceAddresses::released(GIVING_BACK).await;
    served.and(ended)
}

/// Runs tunnelers, and tells the service manager that the program runs and when it stops.
async fn managed<T>(
    tunnelers: impl Future<Output = T>,
    drain: Duration,
    stop: &CancellationToken,
    hang_ups: &HangUps,
) -> T {
    let mut manager = Manager::of_process();
    manager.up(vec![Handle::current()]);
    let mut tunnelers = pin!(tunnelers);
    tokio::select! {
        ended = &mut tunnelers => return ended,
        () = stop.cancelled() => {}
        () = hang_ups.follow(&manager, async || None) => {}
    }
    manager.stopping(drain + STOPPING);
    tunnelers.await
}

/// Runs a tunneler for each identity. Returns the failure of the last one if all have failed.
async fn all(
    files: Vec<PathBuf>,
    how: &Running,
    options: &Options,
    tunnelers: &Arc<Mutex<Vec<Arc<Tunneler>>>>,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let mut running = JoinSet::new();
    for file in files {
        let (stop, tunnelers, options) = (stop.clone(), Arc::clone(tunnelers), options.clone());
        let (refresh, drain) = (seconds(how.refresh), seconds(how.drain));
        running.spawn(async move { one(&file, refresh, drain, options, &tunnelers, &stop).await });
    }
    let mut failure = Ok(());
    while let Some(done) = running.join_next().await {
        match done {
            Ok(Ok(())) => {}
            Ok(Err(problem)) => {
                tracing::error!(%problem, "the tunneler stops for an identity");
                failure = Err(problem);
            }
            Err(panic) => failure = Err(Failure::new(panic)),
        }
    }
    if stop.is_cancelled() { Ok(()) } else { failure }
}

/// Runs a tunneler for one identity. While no controller can be reached, the login is tried again
/// ([`WAITS`]).
async fn one(
    file: &Path,
    refresh: Duration,
    drain: Duration,
    options: Options,
    tunnelers: &Mutex<Vec<Arc<Tunneler>>>,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let (mut wait, longest) = WAITS;
    let (context, tunneler) = loop {
        let begun = async {
            let context = identities::builder(refresh).load(file).await?;
            let tunneler = Tunneler::new(context.clone(), options.clone());
            tunneler.refresh().await?;
            Ok::<_, weft_sdk::Error>((context, tunneler))
        };
        let begun = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            begun = begun => begun,
        };
        match begun {
            Ok(begun) => break begun,
            Err(error) if error.is_final() => {
                return Err(explain::failure(&error).during(file.display()));
            }
            Err(problem) => {
                tracing::warn!(identity = %file.display(), %problem, "not logged in; trying again");
            }
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(wait) => {}
        }
        wait = (wait * 2).min(longest);
    };
    tracing::info!(identity = %context.identity_name(), "tunneling");
    tunnelers.lock().push(Arc::clone(&tunneler));
    tunneler.run(stop).await;
    finish(context, &tunneler, drain).await;
    Ok(())
}

/// Offers services at ports until it is told to stop.
pub(super) async fn proxy(args: TunnelProxyArgs) -> Result<(), Failure> {
    let stop = signals::first()?;
    let named = args.ports.iter().map(|text| named(text)).collect::<Result<Vec<_>, _>>()?;
    let options = Options { host: false, offer: false, named, ..options(&args.running) };
    let begun = async {
        let context = identities::log_in(&args.identity, seconds(args.running.refresh)).await?;
        let services = context.services().await.map_err(|error| explain::failure(&error))?;
        for named in &options.named {
            explain::check(&context, &services, &named.service, Use::Dial)?;
        }
        let tunneler = Tunneler::new(context.clone(), options.clone());
        tunneler.refresh().await.map_err(|error| explain::failure(&error))?;
        for port in tunneler.ports() {
            let at = port.listening.map_err(Failure::new)?;
            output::line(format!("{}: {}:{at}", port.service, port.protocol));
        }
        Ok::<_, Failure>((context, tunneler))
    };
    let (context, tunneler) = tokio::select! {
        biased;
        () = stop.cancelled() => return Err(Failure::interrupted()),
        begun = begun => begun?,
    };
    let tunnelers = Arc::new(Mutex::new(vec![Arc::clone(&tunneler)]));
    let _served = Served::start(args.running.socket.as_deref(), tunnelers)?;
    tunneler.run(&stop).await;
    finish(context, &tunneler, seconds(args.running.drain)).await;
    Ok(())
}

async fn finish(context: weft_sdk::Context, tunneler: &Tunneler, drain: Duration) {
    drained(|| tunneler.open(), drain).await;
    context.close().await;
}

/// Waits until no connection is open, for `limit` at most.
pub(super) async fn drained(open: impl Fn() -> u64, limit: Duration) {
    if open() > 0 {
        output::say(format!(
            "waiting {} s for {}; Ctrl-C ends at once",
            limit.as_secs(),
            counted(open(), "connection", "connections")
        ));
    }
    let empty = async {
        while open() > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let _ = tokio::time::timeout(limit, empty).await;
}

fn options(running: &Running) -> Options {
    Options {
        at: ListenAt::parse(&running.bind),
        udp: UdpTimes { idle: seconds(running.udp_idle), ..UdpTimes::default() },
        ..Options::default()
    }
}

fn seconds(count: u32) -> Duration {
    Duration::from_secs(count.into())
}

/// Reads `SERVICE:PORT`, with `:tcp` or `:udp` behind it.
fn named(text: &str) -> Result<NamedPort, Failure> {
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
    let port = port.parse().map_err(|_| wrong())?;
    if service.is_empty() {
        return Err(wrong());
    }
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
