//! A dialer that asks for names which no DNS server answers, beside dialers of other services of the same host.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use parking_lot::{Condvar, Mutex};
use tokio::net::TcpListener;
use weft_tunnel::{AppData, Configs, Connected, DialingIdentity, HostConfig, Refusal};

const LONG: Duration = Duration::from_secs(20);
/// Threads of a process for work that blocks, of which the dialer must leave some.
const THREADS: usize = 128;

/// Finds names in threads, as the system does. Below `slow.test` they wait until they are let go; others are this machine.
#[derive(Default)]
struct Resolver {
    waiting: AtomicUsize,
    let_go: Mutex<bool>,
    changed: Condvar,
}

struct Of(Arc<Resolver>);

impl weft_channel::HostLookup for Of {
    fn lookup<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let (resolver, is_slow) = (Arc::clone(&self.0), host.ends_with("slow.test"));
        let looking = tokio::task::spawn_blocking(move || {
            let mut let_go = resolver.let_go.lock();
            if is_slow {
                resolver.waiting.fetch_add(1, Ordering::SeqCst);
            }
            while is_slow && !*let_go {
                resolver.changed.wait(&mut let_go);
            }
        });
        async move { looking.await.map(|()| vec![[127, 0, 0, 1].into()]).map_err(io::Error::other) }
            .boxed()
    }
}

impl Resolver {
    fn let_go(&self) {
        *self.let_go.lock() = true;
        self.changed.notify_all();
    }
}

fn config(text: serde_json::Value) -> HostConfig {
    let configs = Configs::from([("host.v1".to_owned(), text.to_string())]);
    HostConfig::read(&configs).unwrap().remove(0)
}

/// Dials a host by its name.
async fn dial(
    config: &HostConfig,
    dialer: &str,
    name: &str,
    limit: Duration,
) -> Result<Connected, Refusal> {
    let data = serde_json::json!({"dst_hostname": name}).to_string();
    let data = AppData::parse(data.as_bytes()).unwrap();
    config.connect(&DialingIdentity::new(Some(dialer), "service"), &data, limit, None).await
}

/// Lets the threads go, for which the end of a runtime waits.
struct Ended(Arc<Resolver>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

async fn a_flood_of_slow_names_and_other_dials(resolver: &Resolver) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let forwarding = config(serde_json::json!({
        "protocol": "tcp", "forwardAddress": true, "port": port,
        "allowedAddresses": ["*.test", "127.0.0.1"],
    }));
    let good =
        config(serde_json::json!({"protocol": "tcp", "address": "app.good.test", "port": port}));
    let soon = Duration::from_millis(200);
    // Each is given up, but the threads of the system go on.
    let names: Vec<_> = (0..3 * THREADS).map(|number| format!("{number}.slow.test")).collect();
    let flood = names.iter().map(|name| dial(&forwarding, "mallory", name, soon));
    let refused: Vec<_> = join_all(flood).await.into_iter().map(Result::unwrap_err).collect();
    assert!(refused.iter().all(|one| one.message.starts_with("cannot resolve")), "{refused:?}");
    let crowded = |one: &&Refusal| one.message.contains("other names that its dialer has chosen");
    assert!(refused.iter().filter(crowded).count() > THREADS, "{refused:?}");
    // The fixed name of another service, a name that another dialer chooses, and the same service by an address.
    for (config, dialer, name) in [
        (&good, "alice", ""),
        (&good, "mallory", ""),
        (&forwarding, "alice", "app.good.test"),
        (&forwarding, "mallory", "127.0.0.1"),
    ] {
        let connected = dial(config, dialer, name, LONG).await;
        assert!(connected.is_ok(), "{dialer} {name}: {connected:?}");
    }
    let waiting = resolver.waiting.load(Ordering::SeqCst);
    assert!((1..=8).contains(&waiting), "{waiting} threads wait for the names of one dialer");
    // Other work of the process finds a thread.
    assert!(tokio::time::timeout(LONG, tokio::fs::metadata("/")).await.is_ok());
}

#[test]
fn slow_names_of_one_dialer_keep_no_other_from_any_service() {
    let resolver = Arc::<Resolver>::default();
    weft_channel::resolve_by(Arc::new(Of(Arc::clone(&resolver))));
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime =
        runtime.worker_threads(2).max_blocking_threads(THREADS).enable_all().build().unwrap();
    runtime.block_on(async {
        let _ended = Ended(Arc::clone(&resolver));
        a_flood_of_slow_names_and_other_dials(&resolver).await;
    });
}
