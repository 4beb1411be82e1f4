//! Addresses of the hosts that this process connects to.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::RwLock;

/// Finds the addresses of hosts.
pub trait HostLookup: Send + Sync {
    /// The addresses of a host.
    fn lookup<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The lookup that replaces that of the system.
static INSTEAD: RwLock<Option<Arc<dyn HostLookup>>> = RwLock::new(None);

/// Makes [`resolve`] use this lookup from now on, in place of the system's. It holds for the whole
/// process, like [`mark_connections`](crate::mark_connections): where a process intercepts names,
/// the system would answer its questions with the addresses that the process itself has assigned.
pub fn resolve_by(lookup: Arc<dyn HostLookup>) {
    *INSTEAD.write() = Some(lookup);
}

/// The addresses of a host, with a port, for all connections of this process. There may be none.
///
/// # Errors
/// When the host cannot be found.
pub async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let instead = INSTEAD.read().clone();
    match instead {
        None => Ok(tokio::net::lookup_host((host, port)).await?.collect()),
        Some(lookup) => {
            let found = lookup.lookup(host).await?;
            Ok(found.into_iter().map(|address| SocketAddr::new(address, port)).collect())
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
