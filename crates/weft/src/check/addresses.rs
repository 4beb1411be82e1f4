//! Addresses to listen at and interfaces to dial from: do they exist on this machine?

use std::{
    fs::OpenOptions,
    io::{self, ErrorKind},
    net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs, UdpSocket},
    path::Path,
};

use weft_config::{Address, Facts, HostPort, KeyFact, Origin};

use super::{Finding, Purpose};

/// The facts of keys that the file gives a value.
pub(super) fn given(facts: &Facts) -> impl Iterator<Item = &KeyFact> {
    let is_given = |fact: &&KeyFact| fact.origin != Origin::Default && !fact.value.is_empty();
    facts.all().iter().filter(is_given)
}

/// Type (empty if there is none), host and port of an address in either form.
pub(super) fn parts(text: &str) -> Option<(&'static str, String, u16)> {
    if let Ok(HostPort { host, port }) = text.parse() {
        return Some(("", host, port));
    }
    let Address { kind, host, port } = text.parse().ok()?;
    Some((kind.name(), host, port))
}

/// Whether it could be listened at the addresses of these keys. Only who is to start now needs the
/// ports: for anybody else, what runs may have them.
pub(super) fn listen(facts: &Facts, keys: &[&str], purpose: Purpose) -> Vec<Finding> {
    let mut out = Vec::new();
    for fact in given(facts).filter(|fact| keys.contains(&fact.general_key().as_str())) {
        let Some((kind, host, port)) = parts(&fact.value) else { continue };
        let port = if purpose == Purpose::Start { port } else { 0 };
        if let Some(problem) = problem(&host, port, matches!(kind, "udp" | "dtls")) {
            out.push(Finding::mistake(fact.key.clone(), problem));
        }
    }
    out
}

fn problem(host: &str, port: u16, udp: bool) -> Option<String> {
    let mut found = match (host, port).to_socket_addrs() {
        Ok(found) => found,
        Err(error) => return Some(format!("the host `{host}` does not resolve: {error}")),
    };
    let Some(address) = found.next() else {
        return Some(format!("the host `{host}` has no address"));
    };
    try_at(address, udp).err().map(|error| why(&error, address, host))
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

/// An interface by name, or an address of one, to dial from.
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

/// An interface by name.
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

/// A file that is to be written: its folder is there, and nothing that cannot be written has its name.
pub(super) fn to_write(key: &str, file: &Path) -> Option<Finding> {
    if let Some(finding) = folder_of(key, file) {
        return Some(finding);
    }
    if !file.exists() {
        return None;
    }
    let error = OpenOptions::new().append(true).open(file).err()?;
    Some(Finding::mistake(key, format!("{} cannot be written: {error}", file.display())))
}

/// The folder in which a file is to be written must be there.
pub(super) fn folder_of(key: &str, file: &Path) -> Option<Finding> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty())?;
    match std::fs::metadata(folder) {
        Ok(found) if found.is_dir() => None,
        Ok(_) => Some(Finding::mistake(key, format!("{} is not a directory", folder.display()))),
        Err(error) => Some(Finding::mistake(
            key,
            format!("the directory {} cannot be used: {error}", folder.display()),
        )),
    }
}
