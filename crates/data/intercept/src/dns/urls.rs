//! Options of the DNS server as URLs in configuration files (docs/protocol/tunnel.md 6.1).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use ipnet::IpNet;

use crate::options::{DnsOptions, Unanswerable, Upstream, UpstreamMode};

const PORT: u16 = 53;
/// Most addresses of one host that are asked.
const MOST_ADDRESSES: usize = 8;

impl DnsOptions {
    /// Reads the addresses to listen on (`udp://host:port`) and the servers to ask
    /// (`udp://host:port`, `tcp://host:port`; each address of a host is a server). After a `?` follow the clients that may ask
    /// (`clients=` and networks) and the answer for names that cannot be looked up (`refused`,
    /// `servfail`, `timeout`). `None` without an address to listen on.
    ///
    /// # Errors
    /// When an entry cannot be read, or the host of an upstream has no address; the error names the
    /// entry.
    pub async fn read(
        resolver: &[String],
        upstream: &[String],
        mode: UpstreamMode,
        unanswerable: Option<Unanswerable>,
    ) -> Result<Option<Self>, String> {
        let wrong = |key: &str, text: &str, why: &str| format!("{key} {text:?}: {why}");
        let mut options = Self {
            listen: Vec::new(),
            upstream: Vec::new(),
            mode,
            unanswerable: Unanswerable::Refused,
            clients: BTreeMap::new(),
            private_domains: Vec::new(),
        };
        for text in resolver {
            let (host, query) = text.split_once('?').unwrap_or((text, ""));
            let host = host.strip_prefix("udp://").ok_or_else(|| {
                wrong("resolver", text, "has to be udp://<address>:<port> or file:///<path>")
            })?;
            let at = addresses(host).await.map_err(|why| wrong("resolver", text, &why))?;
            options.listens_for(query, &at).map_err(|why| wrong("resolver", text, &why))?;
        }
        options.unanswerable = unanswerable.unwrap_or(options.unanswerable);
        for text in upstream {
            let tcp = text.starts_with("tcp://");
            let host = text.strip_prefix("tcp://").or_else(|| text.strip_prefix("udp://"));
            let form = "has to be udp://<host>:<port> or tcp://<host>:<port>";
            let host = host.ok_or_else(|| wrong("dnsUpstream", text, form))?;
            let at = addresses(host).await.map_err(|why| wrong("dnsUpstream", text, &why))?;
            let at = at.into_iter().take(MOST_ADDRESSES);
            options.upstream.extend(at.map(|address| Upstream { address, tcp }));
        }
        Ok((!options.listen.is_empty()).then_some(options))
    }

    /// Takes the hosts file (`file:///path`) out of the list of resolvers.
    ///
    /// # Errors
    /// When there are several, or one is no path of this machine; the error names the entry.
    pub fn hosts_file(resolver: &mut Vec<String>) -> Result<Option<PathBuf>, String> {
        let (files, others) = resolver.drain(..).partition(|text| text.starts_with("file:"));
        *resolver = others;
        let files: Vec<String> = files;
        match files.as_slice() {
            [] => Ok(None),
            [text] => {
                let path = text.strip_prefix("file://").filter(|path| path.starts_with('/'));
                let wrong = || format!("resolver {text:?}: has to be file:///<path>");
                path.map(|path| Some(path.into())).ok_or_else(wrong)
            }
            [_, second, ..] => Err(format!("resolver {second:?}: names go into one file only")),
        }
    }

    fn listens_for(&mut self, query: &str, at: &[SocketAddr]) -> Result<(), String> {
        self.listen.extend(at);
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or(("", part));
            match key {
                "clients" => {
                    for text in value.split(',') {
                        let net = text.parse::<IpNet>().map(|net| net.trunc());
                        let net = net.map_err(|_| format!("{text:?} is not a network"))?;
                        for &at in at {
                            self.clients.entry(at).or_default().push(net);
                        }
                    }
                }
                "" | "response" | "unanswerable" => {
                    self.unanswerable = match value {
                        "refused" => Unanswerable::Refused,
                        "servfail" => Unanswerable::Servfail,
                        "timeout" => Unanswerable::Timeout,
                        _ => {
                            return Err(format!("{value:?} is none of refused, servfail, timeout"));
                        }
                    };
                }
                _ => return Err(format!("{key:?} is none of clients, response, unanswerable")),
            }
        }
        Ok(())
    }
}

/// The addresses of `host:port`, `[v6]:port` or a host alone.
async fn addresses(text: &str) -> Result<Vec<SocketAddr>, String> {
    if let Ok(address) = text.parse() {
        return Ok(vec![address]);
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse() {
        return Ok(vec![SocketAddr::new(address, PORT)]);
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| format!("{port:?} is not a port"))?),
        None => (text, PORT),
    };
    let found = tokio::net::lookup_host((host, port)).await;
    let found: Vec<_> = found.map_err(|problem| problem.to_string())?.collect();
    if found.is_empty() { Err("the host has no address".into()) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(resolver: &[&str], upstream: &[&str]) -> Result<Option<DnsOptions>, String> {
        let texts =
            |list: &[&str]| -> Vec<String> { list.iter().map(|&text| text.to_owned()).collect() };
        DnsOptions::read(&texts(resolver), &texts(upstream), UpstreamMode::Serial, None).await
    }

    #[tokio::test]
    async fn servers_are_what_is_written() {
        let resolver = ["udp://127.0.0.1:53", "udp://[::1]:5353?clients=10.0.0.9/8,::/0&servfail"];
        let options = read(&resolver, &["tcp://10.0.0.1:54", "udp://10.0.0.2"]).await;
        let options = options.unwrap().unwrap();
        assert_eq!(options.listen, ["127.0.0.1:53", "[::1]:5353"].map(|at| at.parse().unwrap()));
        // Only at this address: the other address goes on answering all of its clients.
        let clients = ["10.0.0.0/8", "::/0"].map(|net| net.parse().unwrap());
        assert_eq!(options.clients, BTreeMap::from([(options.listen[1], clients.to_vec())]));
        assert_eq!(options.unanswerable, Unanswerable::Servfail);
        let upstream: Vec<_> =
            options.upstream.iter().map(|one| (one.address.to_string(), one.tcp)).collect();
        assert_eq!(upstream, [("10.0.0.1:54".into(), true), ("10.0.0.2:53".into(), false)]);
        assert!(read(&[], &["udp://10.0.0.1:53"]).await.unwrap().is_none());
    }

    #[test]
    fn one_hosts_file_is_taken_out() {
        let of = |list: &[&str]| {
            let mut list: Vec<String> = list.iter().map(|&text| text.to_owned()).collect();
            (DnsOptions::hosts_file(&mut list), list)
        };
        let (file, left) = of(&["udp://127.0.0.1:53", "file:///etc/hosts"]);
        assert_eq!(file.unwrap(), Some("/etc/hosts".into()));
        assert_eq!(left, ["udp://127.0.0.1:53"]);
        assert_eq!(of(&[]).0, Ok(None));
        for wrong in [&["file://etc/hosts"][..], &["file:///a", "file:///b"], &["file:hosts"]] {
            assert!(of(wrong).0.unwrap_err().contains("file:"), "{wrong:?}");
        }
    }

    #[tokio::test]
    async fn what_makes_no_sense_is_named() {
        for (resolver, upstream) in [
            (&["tcp://127.0.0.1:53"][..], &[][..]),
            (&["127.0.0.1:53"], &[]),
            (&["udp://127.0.0.1:dns"], &[]),
            (&["udp://127.0.0.1:53?clients=all"], &[]),
            (&["udp://127.0.0.1:53?maybe"], &[]),
            (&["udp://127.0.0.1:53?a=b"], &[]),
            (&["udp://127.0.0.1:53"], &["https://10.0.0.1"]),
            (&["udp://127.0.0.1:53"], &["udp://10.0.0.1:70000"]),
        ] {
            let problem = read(resolver, upstream).await.unwrap_err();
            assert!(problem.contains('"'), "{problem}");
        }
    }
}
