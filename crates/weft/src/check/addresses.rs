//! Checks of addresses to listen at and interfaces to dial from: do they exist on this machine?

use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs, UdpSocket};
use std::path::Path;

use weft_config::router::{IngressAddress, IngressKind};
use weft_config::{FileFacts, HostPort, KeyFact, ValueOrigin};
use weft_wire::Address;

use super::finding::{Finding, Purpose};

/// The facts of keys that have a value in the file.
pub(super) fn given(facts: &FileFacts) -> impl Iterator<Item = &KeyFact> {
    let is_given = |fact: &&KeyFact| fact.origin != ValueOrigin::Default && !fact.value.is_empty();
    facts.all().iter().filter(is_given)
}

/// Type (empty if there is none), host and port of an address in any form.
pub(super) fn parts(text: &str) -> Option<(&'static str, String, u16)> {
    if let Ok(HostPort { host, port }) = text.parse() {
        return Some(("", host, port));
    }
    if let Ok(Address { scheme, host, port }) = text.parse() {
        return Some((scheme.name(), host, port));
    }
    let IngressAddress { kind, at } = text.parse().ok()?;
    if kind == IngressKind::Unixgram {
        return None;
    }
    Some((kind.name(), at.host, at.port))
}

struct Listening<'a> {
    key: &'a str,
    /// Host and port: listeners that share a socket have the same.
    at: HostPort,
    kind: &'static str,
    /// The TLS protocols (ALPN) of the listener; listeners with different ones may share a socket. Empty:
    /// the socket is not shared.
    protocols: &'static [&'static str],
    /// Whether variables of the environment are in the address.
    has_variables: bool,
}

impl<'a> Listening<'a> {
    fn of(fact: &'a KeyFact, facts: &FileFacts) -> Option<Self> {
        let general = fact.general_key();
        let listener = fact.key.rsplit_once('.').map_or("", |(listener, _)| listener);
        let value = |key: &str| facts.get(&format!("{listener}.{key}"));
        // `bind` beside `address` repeats the address.
        let is_again = value("address").is_some_and(|one| one.origin != ValueOrigin::Default);
        if fact.kind == "ignored" || (general == "listeners[].bind" && is_again) {
            return None;
        }
        let (kind, host, port) = parts(&fact.value)?;
        let is_edge = value("binding").is_some_and(|one| one.value == "edge");
        let protocols: &'static [&'static str] = match general.as_str() {
            "listeners[].address" | "listeners[].bind" if is_edge => match kind {
                "wss" => &["http/1.1"],
                _ => &["ziti-edge", ""],
            },
            "link.listeners[].bind" => &["ziti-link"],
            "ctrl.listener" | "ctrl.listeners[].bind" => &["ziti-ctrl"],
            "web[].bindPoints[].interface" => weft_router::WEB_PROTOCOLS,
            _ => &[],
        };
        let has_variables = matches!(fact.origin, ValueOrigin::Variables { .. });
        Some(Self { key: &fact.key, at: HostPort { host, port }, kind, protocols, has_variables })
    }

    fn is_datagram(&self) -> bool {
        matches!(self.kind, "udp" | "udp4" | "udp6" | "dtls")
    }

    /// The socket addresses of the host; a listener uses the first at which it can listen.
    fn addresses(&self) -> Result<Vec<SocketAddr>, String> {
        let HostPort { host, port } = &self.at;
        let found: Vec<SocketAddr> = if host.is_empty() {
            vec![(Ipv6Addr::UNSPECIFIED, *port).into(), (Ipv4Addr::UNSPECIFIED, *port).into()]
        } else {
            let found = (host.as_str(), *port).to_socket_addrs();
            found.map_err(|error| format!("the host `{host}` does not resolve: {error}"))?.collect()
        };
        let fits = |one: &SocketAddr| match self.kind {
            "udp4" => one.is_ipv4(),
            "udp6" => one.is_ipv6(),
            _ => true,
        };
        let fitting: Vec<SocketAddr> = found.into_iter().filter(fits).collect();
        let of_kind = if self.kind.is_empty() { "" } else { " for " };
        match fitting.is_empty() {
            true => Err(format!("the host `{host}` has no address{of_kind}{}", self.kind)),
            false => Ok(fitting),
        }
    }

    /// True if one socket serves both listeners.
    fn shares_with(&self, other: &Self) -> bool {
        let is_spoken = |protocol: &&str| other.protocols.contains(protocol);
        let is_apart = !self.protocols.iter().any(is_spoken);
        let share = !self.protocols.is_empty() && !other.protocols.is_empty();
        self.at == other.at && share && is_apart
    }
}

/// Checks that the addresses of these keys can be listened at, all at the same time. Ports in use are a
/// mistake only if the program is to be started now; otherwise the running program may have them.
pub(super) fn listen(facts: &FileFacts, keys: &[&str], purpose: Purpose) -> Vec<Finding> {
    let mut out = Vec::new();
    let mut taken: Vec<(Listening<'_>, SocketAddr)> = Vec::new();
    let wanted = given(facts).filter(|fact| keys.contains(&fact.general_key().as_str()));
    for one in wanted.filter_map(|fact| Listening::of(fact, facts)) {
        let is_name = !one.at.host.is_empty() && one.at.host.parse::<IpAddr>().is_err();
        if purpose == Purpose::AdviceOnForeign && one.has_variables && is_name {
            continue;
        }
        let addresses = match one.addresses() {
            Ok(addresses) => addresses,
            Err(problem) => {
                out.push(Finding::mistake(one.key, problem));
                continue;
            }
        };
        let Some(first) = addresses.first().copied() else { continue };
        let meets = |(other, at): &&(Listening<'_>, SocketAddr)| {
            other.is_datagram() == one.is_datagram() && overlap(*at, first)
        };
        let met: Vec<_> = taken.iter().filter(meets).collect();
        if let Some((other, _)) = met.iter().find(|(other, _)| !one.shares_with(other)) {
            let text = format!(
                "cannot listen at {first}: {} of this file listens there already",
                other.key
            );
            out.push(Finding::mistake(one.key, text));
            continue;
        }
        // A shared socket was checked with its first listener.
        if met.is_empty()
            && let Some(problem) = one.problem(&addresses, purpose)
        {
            out.push(Finding::mistake(one.key, problem));
        }
        taken.push((one, first));
    }
    out
}

impl Listening<'_> {
    fn problem(&self, addresses: &[SocketAddr], purpose: Purpose) -> Option<String> {
        let mut first_error = None;
        for address in addresses {
            let port = if purpose == Purpose::Start { address.port() } else { 0 };
            match try_at(SocketAddr::new(address.ip(), port), self.is_datagram()) {
                Ok(()) => return None,
                Err(error) => {
                    first_error.get_or_insert_with(|| why(&error, *address, &self.at.host));
                }
            }
        }
        first_error
    }
}

/// True if two sockets cannot be at these addresses at the same time.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = |one: IpAddr, other: IpAddr| {
        one == other || (one.is_unspecified() && (one.is_ipv6() || other.is_ipv4()))
    };
    let (a, b) = (one.ip().to_canonical(), other.ip().to_canonical());
    one.port() == other.port() && one.port() != 0 && (covers(a, b) || covers(b, a))
}

fn try_at(address: SocketAddr, udp: bool) -> io::Result<()> {
    if udp { UdpSocket::bind(address).map(drop) } else { TcpListener::bind(address).map(drop) }
}

fn why(error: &io::Error, address: SocketAddr, host: &str) -> String {
    let ip = address.ip();
    match error.kind() {
        ErrorKind::AddrNotAvailable => {
            let named = if ip.to_string() == host { String::new() } else { format!(" ({ip})") };
            format!("no interface of this machine has the address {host}{named}")
        }
        ErrorKind::AddrInUse => {
            format!("cannot listen at {address}: the port is in use by another program")
        }
        ErrorKind::PermissionDenied => {
            format!("cannot listen at {address}: {error}; ports below 1024 need a privilege")
        }
        _ => format!("cannot listen at {address}: {error}"),
    }
}

/// Checks an interface to dial from, given by name or by one of its addresses.
pub(super) fn dial_from(key: String, bind: &str) -> Option<Finding> {
    match bind.parse::<IpAddr>() {
        Ok(ip) => {
            let tried = try_at(SocketAddr::new(ip, 0), true);
            let error = tried.err()?;
            Some(Finding::mistake(key, why(&error, SocketAddr::new(ip, 0), bind)))
        }
        Err(_) if has_address(bind) => None,
        Err(_) if exists(bind) => {
            Some(Finding::mistake(key, format!("the interface {bind} has no address to dial from")))
        }
        Err(_) => Some(no_interface(key, bind)),
    }
}

/// Checks the name of an interface.
pub(super) fn interface(key: String, name: &str) -> Option<Finding> {
    (!exists(name) && !has_address(name)).then(|| no_interface(key, name))
}

fn no_interface(key: String, name: &str) -> Finding {
    let mut names: Vec<String> =
        if_addrs::get_if_addrs().unwrap_or_default().into_iter().map(|one| one.name).collect();
    names.sort();
    names.dedup();
    let text = format!("no network interface found for {name}; there are {}", names.join(", "));
    Finding::mistake(key, text)
}

fn has_address(name: &str) -> bool {
    if_addrs::get_if_addrs().is_ok_and(|all| all.iter().any(|one| one.name == name))
}

fn exists(name: &str) -> bool {
    !name.contains('/') && name != ".." && Path::new("/sys/class/net").join(name).exists()
}

/// Checks a file that will be written: files can be created in its folder, and a file that exists can
/// be opened for writing.
pub(super) fn to_write(key: &str, file: &Path, purpose: Purpose) -> Option<Finding> {
    if let Some(finding) = folder_of(key, file, purpose) {
        return Some(finding);
    }
    if !file.exists() {
        return None;
    }
    let mut options = OpenOptions::new();
    options.append(true);
    // A named pipe that nobody reads fails to open, instead of waiting for a reader.
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
    }
    let error = options.open(file).err()?;
    Some(Finding::mistake(key, format!("{} cannot be written: {error}", file.display())))
}

/// Checks that the folder of a file exists and can be written to.
pub(super) fn folder_of(key: &str, file: &Path, purpose: Purpose) -> Option<Finding> {
    let folder = folder(file);
    match std::fs::metadata(folder) {
        Ok(found) if found.is_dir() => not_writable(key, folder, purpose),
        Ok(_) => Some(Finding::mistake(key, format!("{} is not a directory", folder.display()))),
        Err(error) => Some(Finding::mistake(
            key,
            format!("the directory {} cannot be used: {error}", folder.display()),
        )),
    }
}

/// Checks the folder of a file; the program creates the folder if it is missing. Checked is then the
/// nearest folder above that exists.
pub(super) fn folder_to_make(key: &str, file: &Path, purpose: Purpose) -> Option<Finding> {
    let mut folder = folder(file);
    while !folder.exists() {
        folder = self::folder(folder);
    }
    match folder.is_dir() {
        true => not_writable(key, folder, purpose),
        false => Some(Finding::mistake(key, format!("{} is not a directory", folder.display()))),
    }
}

fn folder(file: &Path) -> &Path {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Problem that no file can be created in a folder: a mistake if the program is to be started now. For
/// advice it is a warning, because the user who asks may be another one than the program's.
fn not_writable(key: &str, folder: &Path, purpose: Purpose) -> Option<Finding> {
    // A random name, so that no other process has created the file before.
    let probe = folder.join(format!(".weft-check.{:016x}", rand::random::<u64>()));
    let written = std::fs::File::create_new(&probe);
    let error = written.and_then(|_| std::fs::remove_file(&probe)).err()?;
    let text = format!("no file can be written in the directory {}: {error}", folder.display());
    Some(match purpose {
        Purpose::Start => Finding::mistake(key, text),
        _ => Finding::warning(key, text),
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_pipe_that_nobody_reads_is_a_mistake() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("t");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let found = to_write("trace.path", &pipe, Purpose::Start).unwrap();
        assert!(found.message.contains("cannot be written"), "{found:?}");
        let _reader = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        assert_eq!(to_write("trace.path", &pipe, Purpose::Start), None);
    }
}
