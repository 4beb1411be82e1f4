//! The interceptor as a whole: start, changes, stop.

mod keeper;

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::keeper::{Excluded, Keeper};
use crate::carry::Carry;
use crate::dns::server::{DnsServer, is_ourselves};
use crate::firewall::{
    CommandError, Firewall, Listeners, Setup, names_in, own_addresses, trusted_program,
};
use crate::hosts_file::HostsFile;
use crate::lock::{Holder, Lock, beside};
use crate::options::{Interfaces, Options};
use crate::service::{NotIntercepted, Service};
use crate::shared::Shared;
use crate::state::{Changes, State};
use crate::{socket, tcp, udp};

/// The word before the path of the hosts file in the note for a later start.
const HOSTS: &str = " hosts=";

/// Why interception could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option is not valid.
    #[error("{0}")]
    Options(String),
    /// Another process uses the instance name.
    #[error("another process intercepts as {0:?} on this machine: end it, or choose another name")]
    Taken(String),
    /// Another interceptor assigns addresses of the same range.
    #[error(
        "dnsSvcIpRange {range} overlaps {theirs} of the interceptor {other:?} on this machine: give \
         one of them another range (dnsSvcIpRange in a router's file, --dns-range of `weft tunnel \
         run`), 100.64.0.1/11 and 100.96.0.1/11 for example"
    )]
    Overlap {
        /// The range of this interceptor.
        range: IpNet,
        /// The other's name.
        other: String,
        /// The other's range.
        theirs: IpNet,
    },
    /// The lock file cannot be used.
    #[error("cannot lock {folder}: {problem}")]
    Lock {
        /// The folder of the locks.
        folder: String,
        /// The error of the system.
        problem: io::Error,
    },
    /// A listening socket cannot be opened.
    #[error(
        "cannot open a transparent socket: {0}; intercepting needs root, or the capabilities \
         CAP_NET_ADMIN and CAP_NET_RAW"
    )]
    Socket(io::Error),
    /// A socket of the DNS server cannot be opened.
    #[error("the DNS server cannot listen at {address}: {problem}")]
    Dns {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        problem: io::Error,
    },
    /// Rules or routes cannot be added.
    #[error(transparent)]
    Firewall(#[from] CommandError),
}

/// The sizes of an interceptor's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterceptorCounts {
    /// Services.
    pub services: usize,
    /// Names with an address.
    pub names: usize,
    /// Networks with ports in the firewall.
    pub elements: usize,
    /// TCP connections.
    pub connections: usize,
    /// UDP conversations.
    pub conversations: usize,
}

/// Intercepts traffic until it is stopped. Dropping it stops it, too, without waiting.
pub struct Interceptor {
    shared: Arc<Shared>,
    exclude: watch::Sender<Excluded>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Interceptor {
    /// Starts without services. Leftovers of an earlier process of the same name are removed.
    pub async fn start(mut options: Options, carry: Arc<dyn Carry>) -> Result<Self, Error> {
        check(&mut options)?;
        let alone = alone(&options).await?;
        let mut lock = lock(&options, &alone)?;
        let tcp4 = socket::tcp_listener(false).map_err(Error::Socket)?;
        let udp4 = socket::udp_listener(false).map_err(Error::Socket)?;
        // A machine without IPv6 has no such sockets, or no such address.
        let v6 = socket::tcp_listener(true).and_then(|tcp| Ok((tcp, socket::udp_listener(true)?)));
        let v6 = v6.inspect_err(|problem| tracing::info!(%problem, "IPv6 is not intercepted")).ok();
        let exclude: Excluded = options.exclude.iter().copied().collect();
        let setup = setup(&options, &exclude, &tcp4, &udp4, v6.as_ref()).map_err(Error::Socket)?;
        let remembered = lock.remembered();
        let hosts = hosts_file(&options, &remembered)?;
        let firewall = Firewall::open(options.firewall, setup, &remembered).await?;
        let mut note = firewall.note();
        if let Some(hosts) = &hosts {
            note = format!("{note}{HOSTS}{}", hosts.path().display());
        }
        if let Err(problem) = lock.remember(&note) {
            tracing::warn!(
                %problem,
                "the lock file cannot be written: after a crash, the next start may not remove \
                 all rules"
            );
        }
        drop(alone);

        let shared = Arc::new(Shared::new(&options, carry, firewall.is_per_source()));
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (sender, receiver) = watch::channel(exclude);
        // From here on, rules are removed whatever happens.
        let keeper = Keeper::new(Arc::clone(&shared), firewall, hosts);
        tasks.spawn(keeper.run(receiver, stop.clone(), lock));
        let this = Self { shared: Arc::clone(&shared), exclude: sender, tasks, stop };
        let (tcp6, udp6) = v6.unzip();
        for listener in [Some(tcp4), tcp6].into_iter().flatten() {
            this.tasks.spawn(tcp::run(Arc::clone(&shared), listener, this.stop.clone()));
        }
        for socket in [Some(udp4), udp6].into_iter().flatten() {
            this.tasks.spawn(udp::run(Arc::clone(&shared), socket, this.stop.clone()));
        }
        let conversations = Arc::clone(&shared.conversations);
        let (idle, every) = (options.udp_idle, options.udp_check);
        this.tasks.spawn(udp::check(conversations, idle, every, this.stop.clone()));
        if let Some(dns) = options.dns {
            let v6 = matches!(options.names, IpNet::V6(_));
            let started = DnsServer::new(shared, dns, v6).start(&this.tasks, &this.stop);
            if let Err((address, problem)) = started {
                this.stop().await;
                return Err(Error::Dns { address, problem });
            }
        }
        Ok(this)
    }

    /// Intercepts a service, in place of an earlier one with its id, and returns the entries that are
    /// not intercepted. Resolves when the firewall has the change.
    pub async fn add(&self, service: &Service) -> Vec<NotIntercepted> {
        let now = Instant::now();
        let (problems, known) = self.shared.change(|state| {
            if state.has(service) {
                return (Vec::new(), Changes::default());
            }
            let (changes, mut problems) = state.add(service, now);
            problems.extend(state.take_dropped());
            (problems, changes)
        });
        log(&problems);
        let _ = known.await;
        problems
    }

    /// Stops intercepting a service. Its connections stay, its UDP conversations end.
    pub async fn remove(&self, id: &str) {
        let now = Instant::now();
        let (dropped, known) = self.shared.change(|state| {
            let changes = state.remove(id, now);
            (state.take_dropped(), changes)
        });
        log(&dropped);
        let _ = known.await;
        self.shared.conversations.end_services(&HashSet::from([id.into()]));
    }

    /// Makes these the only intercepted services. Unchanged services are not touched.
    pub async fn set_services(&self, services: &[Service]) -> Vec<NotIntercepted> {
        let wanted: HashSet<&str> = services.iter().map(|service| service.id.as_str()).collect();
        let gone = |state: &State| -> Vec<Arc<str>> {
            state.ids().into_iter().filter(|id| !wanted.contains(&**id)).collect()
        };
        self.exchange(gone, services).await
    }

    /// Adds or replaces these services and removes those with the ids in `gone`; all others stay.
    /// Returns the entries that are not intercepted. Resolves when the firewall has the change.
    pub async fn update(&self, gone: &[String], services: &[Service]) -> Vec<NotIntercepted> {
        let gone = |_: &State| gone.iter().map(|id| id.as_str().into()).collect();
        self.exchange(gone, services).await
    }

    /// True if a service is intercepted, in whole or in part.
    #[must_use]
    pub fn intercepts(&self, id: &str) -> bool {
        self.shared.state.lock().intercepts(id)
    }

    async fn exchange(
        &self,
        gone: impl FnOnce(&State) -> Vec<Arc<str>>,
        services: &[Service],
    ) -> Vec<NotIntercepted> {
        let now = Instant::now();
        let ((problems, ended), known) = self.shared.change(|state| {
            let mut changes = Changes::default();
            let mut problems = Vec::new();
            let ended: HashSet<Arc<str>> = gone(state).into_iter().collect();
            for id in &ended {
                changes.then(state.remove(id, now));
            }
            for service in services {
                if !state.has(service) {
                    let (change, wrong) = state.add(service, now);
                    changes.then(change);
                    problems.extend(wrong);
                }
            }
            problems.extend(state.take_dropped());
            ((problems, ended), changes)
        });
        log(&problems);
        let _ = known.await;
        self.shared.conversations.end_services(&ended);
        problems
    }

    /// Sets the destinations that are never intercepted, in place of the earlier ones.
    pub fn exclude(&self, destinations: impl IntoIterator<Item = (IpAddr, Option<u16>)>) {
        self.exclude.send_replace(destinations.into_iter().collect());
    }

    /// Sets the host names that no service gets, in place of the earlier ones
    /// ([`Options::keep_names`]). Resolves when the firewall has the change.
    pub async fn keep_names(&self, names: impl IntoIterator<Item = String>) -> Vec<NotIntercepted> {
        let now = Instant::now();
        let (problems, known) = self.shared.change(|state| {
            let (changes, mut problems) = state.keep(names, now);
            problems.extend(state.take_dropped());
            (problems, changes)
        });
        log(&problems);
        let _ = known.await;
        problems
    }

    /// The sizes of the present state.
    #[must_use]
    pub fn counts(&self) -> InterceptorCounts {
        let (services, names, elements) = self.shared.state.lock().sizes();
        let connections = self.shared.places.used();
        InterceptorCounts {
            services,
            names,
            elements,
            connections,
            conversations: self.shared.conversations.len(),
        }
    }

    /// Removes all rules and routes from the system. Connections stay with those that carry them.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Interceptor {
    fn drop(&mut self) {
        self.stop.cancel();
        self.shared.conversations.end_all();
    }
}

fn log(problems: &[NotIntercepted]) {
    for problem in problems {
        tracing::warn!(%problem, "not intercepted");
    }
}

/// Checks the options.
fn check(options: &mut Options) -> Result<(), Error> {
    let wrong = |text: String| Err(Error::Options(text));
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let instance = &options.instance;
    if !(1..=20).contains(&instance.len()) || !instance.chars().all(legal) {
        return wrong(format!(
            "the interceptor's name {instance:?} has 1 to 20 letters, digits, - and _"
        ));
    }
    let names = options.names;
    let room = names.max_prefix_len() - names.prefix_len();
    let net = names.trunc();
    if room < 2
        || net.addr().is_loopback()
        || net.addr().is_multicast()
        || net.addr().is_unspecified()
    {
        return wrong(format!(
            "dnsSvcIpRange {names}: an address and a prefix with room for at least 4 addresses, \
             such as 100.64.0.1/10"
        ));
    }
    if let Some(program) = &mut options.diverter {
        match trusted_program(program) {
            Ok(found) => *program = found,
            Err(why) => {
                return wrong(format!("mode tproxy:{}: {why}", program.display()));
            }
        }
        if matches!(names, IpNet::V6(_)) {
            return wrong(format!("dnsSvcIpRange {names}: a program diverts IPv4 only"));
        }
    }
    if let Interfaces::Named(named) = &options.interfaces {
        for name in named {
            let legal = name.chars().all(|c| c.is_ascii_alphanumeric() || "._-@:".contains(c));
            if !legal || nix::net::if_::if_nametoindex(name.as_str()).is_err() {
                return wrong(format!("lanIf {name:?}: there is no such network interface"));
            }
        }
    }
    if let Some(dns) = &options.dns {
        for upstream in &dns.upstream {
            if is_ourselves(dns, upstream.address) {
                let at = upstream.address;
                return wrong(format!("dnsUpstream {at}: the DNS server would ask itself"));
            }
        }
    }
    for (what, value, least, instead) in [
        ("udpIdleTimeout", &mut options.udp_idle, 5, 300),
        ("udpCheckInterval", &mut options.udp_check, 1, 30),
    ] {
        if *value < Duration::from_secs(least) {
            tracing::warn!("{what} is less than {least}s; {instead}s is used");
            *value = Duration::from_secs(instead);
        }
    }
    Ok(())
}

fn no_lock(options: &Options) -> impl Fn(io::Error) -> Error {
    let folder = options.locks.display().to_string();
    move |problem| Error::Lock { folder: folder.clone(), problem }
}

/// Takes the lock of all instances: only one instance at a time starts.
async fn alone(options: &Options) -> Result<Lock, Error> {
    let folder = options.locks.clone();
    let locking = tokio::task::spawn_blocking(move || Lock::of_all(Holder::Interceptor, &folder));
    locking.await.map_err(io::Error::other).and_then(|lock| lock).map_err(no_lock(options))
}

/// Takes the lock of this instance, if no other instance assigns addresses of its range.
fn lock(options: &Options, alone: &Lock) -> Result<Lock, Error> {
    let held = Lock::of(Holder::Interceptor, &options.locks, &options.instance)
        .map_err(no_lock(options))?;
    let held = held.ok_or_else(|| Error::Taken(options.instance.clone()))?;
    let range = options.names;
    let others = alone.others(&options.locks, &options.instance).map_err(no_lock(options))?;
    for (other, note) in others {
        let Some(theirs) = names_in(&note) else { continue };
        let (inner, outer) = (range.trunc(), theirs.trunc());
        if inner.contains(&outer) || outer.contains(&inner) {
            return Err(Error::Overlap { range, other, theirs });
        }
    }
    Ok(held)
}

/// Opens the hosts file for names of services, if there is one. Lines of an earlier run are removed,
/// also from the file that was named then.
fn hosts_file(options: &Options, remembered: &str) -> Result<Option<HostsFile>, Error> {
    let before = remembered.split_once(HOSTS).map(|(_, path)| Path::new(path));
    if let Some(before) = before.filter(|before| options.hosts_file.as_deref() != Some(before))
        && let Err(problem) = HostsFile::open(before, &options.instance)
    {
        let path = before.display();
        tracing::warn!(
            %path, %problem,
            "names of an earlier run could not be removed from the hosts file"
        );
    }
    let Some(path) = &options.hosts_file else { return Ok(None) };
    let opened = HostsFile::open(path, &options.instance);
    let wrong = |problem| Error::Options(format!("resolver file://{}: {problem}", path.display()));
    opened.map(Some).map_err(wrong)
}

fn setup(
    options: &Options,
    exclude: &Excluded,
    tcp: &tokio::net::TcpListener,
    udp: &tokio::net::UdpSocket,
    v6: Option<&(tokio::net::TcpListener, tokio::net::UdpSocket)>,
) -> io::Result<Setup> {
    let v6 = match v6 {
        Some((tcp, udp)) => Some((tcp.local_addr()?.port(), udp.local_addr()?.port())),
        None => None,
    };
    let (tcp4, udp4) = (tcp.local_addr()?.port(), udp.local_addr()?.port());
    Ok(Setup {
        instance: options.instance.clone(),
        names: options.names,
        interfaces: options.interfaces.clone(),
        exclude: exclude.clone(),
        listeners: Listeners { tcp4, udp4, v6 },
        own: own_addresses(),
        diverter: options.diverter.clone(),
        record: beside(Holder::Interceptor, &options.locks, &options.instance, "diverted")?,
    })
}
