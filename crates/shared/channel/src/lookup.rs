//! Addresses of the hosts that this process connects to.

mod places;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock};

use futures::future::BoxFuture;
use parking_lot::RwLock;

pub use self::places::Asker;
use self::places::Lookups;

/// Finds the addresses of hosts.
pub trait HostLookup: Send + Sync {
    /// The addresses of a host. The future is not dropped before it has ended, unless its runtime ends: a thread that
    /// it waits for is counted as long as it lasts.
    fn lookup<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The lookup that replaces that of the system.
static INSTEAD: RwLock<Option<Arc<dyn HostLookup>>> = RwLock::new(None);
/// The lookups of this process.
static LOOKUPS: LazyLock<Arc<Lookups>> = LazyLock::new(Lookups::new);

/// Makes [`resolve`] use this lookup from now on, in place of the system's. It holds for the whole
/// process, like [`mark_connections`](crate::mark_connections): where a process intercepts names,
/// the system would answer its questions with the addresses that the process itself has assigned.
pub fn resolve_by(lookup: Arc<dyn HostLookup>) {
    *INSTEAD.write() = Some(lookup);
}

/// The addresses of a host that this process itself uses, with a port. There may be none.
///
/// # Errors
/// When the host cannot be found.
pub async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    resolve_for(Asker::Process, host, port).await
}

/// The addresses of a host, with a port, for whoever asks. There may be none. Names that others can have looked up have
/// a bounded number of places, and each dialer has a share of them.
///
/// # Errors
/// When the host cannot be found, or is not looked up because too many other names are.
pub async fn resolve_for(asker: Asker<'_>, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let instead = INSTEAD.read().clone();
    let mut found = LOOKUPS.find(asker, host, instead.as_ref()).await?;
    found.iter_mut().for_each(|address| address.set_port(port));
    Ok(found)
}

/// Asks this lookup, or the system.
async fn ask(instead: Option<&dyn HostLookup>, host: &str) -> io::Result<Vec<SocketAddr>> {
    match instead {
        None => Ok(tokio::net::lookup_host((host, 0)).await?.collect()),
        Some(lookup) => {
            let found = lookup.lookup(host).await?;
            Ok(found.into_iter().map(|address| SocketAddr::new(address, 0)).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl HostLookup for Fixed {
        fn lookup<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
            Box::pin(async move {
                match host {
                    "other.invalid" => Ok(vec![[192, 0, 2, 7].into()]),
                    // Other tests of this process look up names, too.
                    other => {
                        let found = tokio::net::lookup_host((other, 0)).await?;
                        Ok(found.map(|at| at.ip()).collect())
                    }
                }
            })
        }
    }

    #[tokio::test]
    async fn the_system_is_asked_until_somebody_else_answers() {
        assert_eq!(resolve("::1", 7).await.unwrap(), ["[::1]:7".parse().unwrap()]);
        assert!(resolve("other.invalid", 7).await.is_err());
        resolve_by(Arc::new(Fixed));
        let found = resolve("other.invalid", 7).await.unwrap();
        assert_eq!(found, ["192.0.2.7:7".parse().unwrap()]);
        assert_eq!(resolve("::1", 7).await.unwrap(), ["[::1]:7".parse().unwrap()]);
    }
}
