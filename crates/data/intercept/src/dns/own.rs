//! Addresses of the hosts that this program itself connects to; never those assigned to names of
//! services.
//!
//! The system's resolver may ask this program's own DNS server, or servers whose traffic is intercepted.
//! This module therefore asks DNS servers itself, and only those that are neither.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hickory_proto::op::{Message, MessageType, OpCode, Query};
use hickory_proto::rr::{Name, RData, RecordType};
use ipnet::IpNet;
use parking_lot::Mutex;
use tokio::io::AsyncReadExt;

use super::server::is_ourselves;
use super::upstream::Upstreams;
use crate::options::{DnsOptions, Options, Upstream, UpstreamMode};
use crate::service::hostname;

/// Most bytes of a file that are read.
const MOST: u64 = 1 << 20;
/// Most servers, and most search domains, of the system that are used.
const MOST_SERVERS: usize = 8;
/// How long addresses of one family wait for those of the other.
const OTHER_FAMILY: Duration = Duration::from_millis(250);
/// Most addresses of one host.
const MOST_ADDRESSES: usize = 64;

/// The files in which the system configures how hosts are found.
#[derive(Debug, Clone)]
struct Files {
    hosts: PathBuf,
    resolver: PathBuf,
    /// The file with the servers of systemd-resolved, used if the resolver's file names
    /// systemd-resolved itself.
    resolved: PathBuf,
}

/// Finds the hosts that this program itself connects to.
#[derive(Debug, Clone)]
pub struct OwnHosts {
    range: IpNet,
    dns: Option<DnsOptions>,
    files: Files,
    /// The servers that were asked last, and what is known of them.
    asked: Arc<Mutex<Option<Arc<Upstreams>>>>,
}

impl OwnHosts {
    /// The lookup for an interceptor with these options.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        let files = Files {
            hosts: "/etc/hosts".into(),
            resolver: "/etc/resolv.conf".into(),
            resolved: "/run/systemd/resolve/resolv.conf".into(),
        };
        let (range, dns) = (options.names.trunc(), options.dns.clone());
        Self { range, dns, files, asked: Arc::default() }
    }

    /// The addresses of a host: those of the hosts file, or else those from DNS servers other than
    /// this program's own, or else those that the system finds in other ways. Addresses assigned to
    /// names of services are left out.
    ///
    /// # Errors
    /// When the host has no address.
    pub async fn lookup(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        if let Ok(name) = hostname(host) {
            let mut found = self.usable(in_hosts(&read(&self.files.hosts).await, &name));
            if found.is_empty() {
                found = self.usable(self.ask(&name).await);
            }
            if !found.is_empty() {
                return Ok(found);
            }
        }
        let found: Vec<IpAddr> =
            tokio::net::lookup_host((host, 0)).await?.map(|at| at.ip()).collect();
        let any = !found.is_empty();
        let found = self.usable(found);
        if any && found.is_empty() {
            let text = "its only addresses are those that a service has on this machine: name a DNS \
                        server that knows others (dnsUpstream)";
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        Ok(found)
    }

    /// The DNS servers of the system that are not this program's own.
    pub async fn servers(&self) -> Vec<SocketAddr> {
        self.system().await.servers
    }

    fn usable(&self, found: Vec<IpAddr>) -> Vec<IpAddr> {
        let found = found.into_iter().filter(|address| !self.range.contains(address));
        found.take(MOST_ADDRESSES).collect()
    }

    async fn system(&self) -> System {
        let mut system = System::read(&read(&self.files.resolver).await);
        // Questions of systemd-resolved itself would not be marked, so that its servers are asked
        // instead of it.
        if system.servers.iter().any(|server| is_stub(server.ip())) {
            let behind = System::read(&read(&self.files.resolved).await);
            system.servers.retain(|server| !is_stub(server.ip()));
            system.servers.extend(behind.servers);
        }
        if let Some(dns) = &self.dns {
            system.servers.retain(|server| !is_ourselves(dns, *server));
        }
        system
    }

    /// The servers other than this program's own; `None` without any.
    pub(super) async fn others(&self) -> Option<Arc<Upstreams>> {
        self.others_than_own(&self.system().await)
    }

    fn others_than_own(&self, system: &System) -> Option<Arc<Upstreams>> {
        let upstream = self.dns.iter().flat_map(|dns| dns.upstream.iter().copied());
        let own = system.servers.iter().map(|&address| Upstream { address, tcp: false });
        let mut servers: Vec<Upstream> = upstream.collect();
        for server in own {
            if servers.iter().all(|other| other.address != server.address) {
                servers.push(server);
            }
        }
        if servers.is_empty() {
            return None;
        }
        let mut asked = self.asked.lock();
        let known = asked.take().filter(|known| known.asks(&servers));
        let known =
            known.unwrap_or_else(|| Arc::new(Upstreams::new(&servers, UpstreamMode::Parallel)));
        *asked = Some(Arc::clone(&known));
        Some(known)
    }

    async fn ask(&self, name: &str) -> Vec<IpAddr> {
        let system = self.system().await;
        let Some(upstreams) = self.others_than_own(&system) else { return Vec::new() };
        for name in system.written_out(name) {
            let found = both(&upstreams, &name).await;
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }
}

/// The configuration in the resolver's file.
#[derive(Debug, Default, PartialEq, Eq)]
struct System {
    servers: Vec<SocketAddr>,
    search: Vec<String>,
}

impl System {
    fn read(text: &str) -> Self {
        let mut system = Self::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("nameserver") => {
                    let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
                    system.servers.extend(address.map(|address| SocketAddr::new(address, 53)));
                }
                // The last of these lines counts.
                Some("search" | "domain") => {
                    system.search = words.filter_map(|word| hostname(word).ok()).collect();
                }
                _ => {}
            }
        }
        system.servers.truncate(MOST_SERVERS);
        system.search.truncate(MOST_SERVERS);
        system
    }

    /// The names to be asked for in turn.
    fn written_out(&self, name: &str) -> Vec<String> {
        if name.contains('.') {
            return vec![name.to_owned()];
        }
        let within = self.search.iter().map(|domain| format!("{name}.{domain}"));
        within.chain([name.to_owned()]).collect()
    }
}

fn is_stub(address: IpAddr) -> bool {
    [IpAddr::from([127, 0, 0, 53]), IpAddr::from([127, 0, 0, 54])].contains(&address)
}

async fn read(path: &Path) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = tokio::fs::File::open(path).await {
        let _ = file.take(MOST).read_to_end(&mut bytes).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn in_hosts(text: &str, name: &str) -> Vec<IpAddr> {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_ascii_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|word| word.trim_end_matches('.').eq_ignore_ascii_case(name)).then_some(address)
    });
    lines.collect()
}

/// Addresses of both families. Once one family has answered, the other is waited for only briefly.
async fn both(upstreams: &Upstreams, name: &str) -> Vec<IpAddr> {
    let kinds = [RecordType::A, RecordType::AAAA];
    let asking = kinds.into_iter().map(|kind| addresses(upstreams, name, kind));
    let mut asking: FuturesUnordered<_> = asking.collect();
    let mut found = asking.next().await.unwrap_or_default();
    let others = if found.is_empty() {
        asking.next().await
    } else {
        tokio::time::timeout(OTHER_FAMILY, asking.next()).await.unwrap_or_default()
    };
    found.extend(others.unwrap_or_default());
    found
}

async fn addresses(upstreams: &Upstreams, name: &str, kind: RecordType) -> Vec<IpAddr> {
    let Ok(absolute) = Name::from_ascii(format!("{name}.")) else { return Vec::new() };
    let mut message = Message::new(0, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(absolute, kind));
    let Ok(question) = message.to_vec() else { return Vec::new() };
    let mut tcp = false;
    loop {
        let answer = upstreams.ask(&question, tcp).await;
        let answer = answer.and_then(|bytes| Message::from_vec(&bytes).ok());
        let Some(answer) = answer else { return Vec::new() };
        if answer.metadata.truncation && !tcp {
            tcp = true;
            continue;
        }
        let addresses = answer.answers.into_iter().filter_map(|record| match record.data {
            RData::A(address) => Some(IpAddr::V4(address.0)),
            RData::AAAA(address) => Some(IpAddr::V6(address.0)),
            _ => None,
        });
        return addresses.collect();
    }
}

#[cfg(test)]
mod tests {
    use hickory_proto::rr::Record;
    use tokio::net::UdpSocket;

    use super::*;
    use crate::options::Unanswerable;

    #[test]
    fn files_of_the_system_are_read() {
        let text = "# by hand\nnameserver 10.0.0.53\nnameserver fd00::53 # second\n\
                    nameserver nonsense\nsearch one.example two.example\nsearch Lab.example\n";
        let system = System::read(text);
        let servers = ["10.0.0.53:53", "[fd00::53]:53"].map(|at| at.parse().unwrap());
        assert_eq!(system.servers, servers);
        assert_eq!(system.written_out("db"), ["db.lab.example", "db"]);
        assert_eq!(system.written_out("db.corp"), ["db.corp"]);
        let hosts = "127.0.0.1 localhost\n10.0.0.9 Db.corp.example. db # 10.0.0.8 none\n\
                     fd00::9 db.corp.example\nnone db.corp.example\n";
        let found = ["10.0.0.9", "fd00::9"].map(|text| text.parse::<IpAddr>().unwrap());
        assert_eq!(in_hosts(hosts, "db.corp.example"), found);
        assert_eq!(in_hosts(hosts, "none"), [] as [IpAddr; 0]);
    }

    /// A server that knows two names, one of them by an address of a service.
    async fn server() -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let at = socket.local_addr().unwrap();
        tokio::spawn(async move {
            let mut buffer = vec![0; 1000];
            while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
                let mut message = Message::from_vec(&buffer[..length]).unwrap();
                message.metadata.message_type = MessageType::Response;
                let query = message.queries[0].clone();
                let known: Option<std::net::Ipv4Addr> = match query.name().to_ascii().as_str() {
                    "db.corp.example." => Some([10, 0, 0, 9].into()),
                    "taken.corp.example." => Some([100, 64, 0, 9].into()),
                    _ => None,
                };
                if let (RecordType::A, Some(known)) = (query.query_type(), known) {
                    let data = RData::A(known.into());
                    message.add_answer(Record::from_rdata(query.name().clone(), 60, data));
                }
                socket.send_to(&message.to_vec().unwrap(), from).await.unwrap();
            }
        });
        at
    }

    #[tokio::test]
    async fn names_are_found_past_our_own_server() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let upstream = vec![Upstream { address: server().await, tcp: false }];
        let dns = DnsOptions {
            listen: vec!["127.0.0.1:53".parse().unwrap()],
            upstream,
            mode: UpstreamMode::Serial,
            unanswerable: Unanswerable::Refused,
            clients: std::collections::BTreeMap::new(),
            private_domains: Vec::new(),
        };
        let hosts = OwnHosts {
            range: "100.64.0.0/10".parse().unwrap(),
            dns: Some(dns),
            files: Files {
                hosts: file("hosts", "10.0.0.7 fixed.corp.example\n"),
                resolver: file("resolv", "nameserver 127.0.0.1\nnameserver 127.0.0.53\n"),
                resolved: file("resolved", "nameserver 192.0.2.53\n"),
            },
            asked: Arc::default(),
        };
        assert_eq!(hosts.servers().await, ["192.0.2.53:53".parse().unwrap()]);
        let found = |name: &'static str| hosts.lookup(name);
        assert_eq!(found("DB.corp.example.").await.unwrap(), [IpAddr::from([10, 0, 0, 9])]);
        assert_eq!(found("fixed.corp.example").await.unwrap(), [IpAddr::from([10, 0, 0, 7])]);
        assert_eq!(hosts.usable(vec![[100, 64, 0, 9].into()]), [] as [IpAddr; 0]);
    }
}
