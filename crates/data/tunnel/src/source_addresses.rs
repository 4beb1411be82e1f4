//! Source addresses that hosts use in place of their clients': they have to be this machine's own
//! while a service is hosted that allows them (docs/protocol/tunnel.md 9.2).

#[cfg(target_os = "linux")]
mod ledger;
#[cfg(target_os = "linux")]
mod rule;

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use weft_channel::clock::now;
use weft_limits::LogLines;

#[cfg(target_os = "linux")]
use self::ledger::{Ledger, System};
#[cfg(target_os = "linux")]
use self::rule::Machine;
use crate::Network;
use crate::config::Sources;

/// Most networks that this process has at a time.
const MOST_IN_ALL: usize = 1_024;

/// The networks that are wanted on the loopback interface.
static WANTED: LazyLock<Mutex<Wanted>> = LazyLock::new(Mutex::default);

/// The number of values of [`SourceAddresses`] whose networks were not given back yet.
static HELD: LazyLock<watch::Sender<usize>> = LazyLock::new(watch::Sender::default);

struct Wanted {
    /// For each network: its holders, and whether this process has to take it back.
    known: HashMap<Network, (usize, bool)>,
    /// The log lines about networks that cannot be used, which whoever changes configs of services may cause.
    lines: LogLines,
    #[cfg(target_os = "linux")]
    ledger: Ledger<System>,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
            lines: LogLines::new(now()),
            #[cfg(target_os = "linux")]
            ledger: Ledger::default(),
        }
    }
}

/// Networks that are this machine's own until this is dropped.
#[derive(Debug, Default)]
pub struct SourceAddresses {
    networks: Vec<Network>,
    held: Option<Held>,
}

/// Counted in [`HELD`].
#[derive(Debug)]
struct Held(());

impl Held {
    fn new() -> Self {
        HELD.send_modify(|count| *count += 1);
        Self(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.send_modify(|count| *count = count.saturating_sub(1));
    }
}

impl SourceAddresses {
    /// Makes networks this machine's own, as addresses of the loopback interface; those of names are
    /// the present ones. A failure is logged: connections from these addresses then fail. So is a network that a config of
    /// a service must not make this machine's own, and what is more than a process may have.
    pub async fn add(sources: Option<&Sources>) -> Self {
        match sources {
            Some(sources) => Self::hold(sources.networks().await).await,
            None => Self::default(),
        }
    }

    async fn hold(networks: Vec<Network>) -> Self {
        if networks.is_empty() {
            return Self::default();
        }
        let held = Some(Held::new());
        let adding = tokio::task::spawn_blocking(move || {
            let mut wanted = WANTED.lock();
            let networks = networks.into_iter().filter(|network| wanted.add(network)).collect();
            drop(wanted);
            Self { networks, held }
        });
        adding.await.unwrap_or_default()
    }

    /// Takes back the networks that processes of weft have left that were killed. Failures are logged.
    pub async fn clean_up() {
        #[cfg(target_os = "linux")]
        let _ = tokio::task::spawn_blocking(|| WANTED.lock().ledger.clean_up()).await;
    }

    /// Waits until all networks are given back that this process holds, for `limit` at most. A
    /// program calls it before it ends, when all holders were told to end.
    pub async fn released(limit: Duration) {
        let mut held = HELD.subscribe();
        if tokio::time::timeout(limit, held.wait_for(|count| *count == 0)).await.is_err() {
            tracing::warn!(
                "not all of allowedSourceAddresses were removed from the loopback interface; the \
                 next start of a tunneler removes them"
            );
        }
    }
}

impl Drop for SourceAddresses {
    /// Takes some milliseconds for each network that is not used elsewhere, on a thread of its own.
    fn drop(&mut self) {
        let (networks, held) = (std::mem::take(&mut self.networks), self.held.take());
        if networks.is_empty() {
            return;
        }
        let give_back = move || {
            let mut wanted = WANTED.lock();
            networks.iter().for_each(|network| wanted.remove(network));
            drop((wanted, held));
        };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(give_back)),
            Err(_) => give_back(),
        }
    }
}

impl Wanted {
    /// Notes a holder of a network. False if the process has as many networks as it may have.
    fn add(&mut self, network: &Network) -> bool {
        if self.known.len() >= MOST_IN_ALL && !self.known.contains_key(network) {
            let problem = format!("this process has {MOST_IN_ALL} of them, which is the most");
            self.warn(network, &problem);
            return false;
        }
        let (count, _) = self.known.entry(*network).or_default();
        *count += 1;
        if *count > 1 || network.address().is_loopback() {
            return true;
        }
        #[cfg(target_os = "linux")]
        let added = self.ledger.add(network, Machine::now);
        #[cfg(not(target_os = "linux"))]
        let added = Err("this is for Linux only".to_owned());
        match added {
            Ok(is_own) => drop(self.known.insert(*network, (1, is_own))),
            Err(problem) => self.warn(network, &problem),
        }
        true
    }

    fn warn(&mut self, network: &Network, problem: &str) {
        if let Some(left_out) = self.lines.due(now()) {
            tracing::warn!(
                %network, problem, left_out,
                "allowedSourceAddresses: no connection can be made from there"
            );
        }
    }

    fn remove(&mut self, network: &Network) {
        let Some((count, _)) = self.known.get_mut(network) else { return };
        *count = count.saturating_sub(1);
        if *count > 0 {
            return;
        }
        let is_own = self.known.remove(network).is_some_and(|(_, is_own)| is_own);
        #[cfg(target_os = "linux")]
        if is_own && let Err(problem) = self.ledger.remove(network) {
            tracing::warn!(
                %network, problem,
                "an address of the loopback interface could not be removed"
            );
        }
        #[cfg(not(target_os = "linux"))]
        let _ = is_own;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_so_many_networks_and_counts_no_holder_of_more() {
        let mut wanted = Wanted::default();
        let network = |number: usize| {
            Network::of(std::net::Ipv4Addr::from(0x7f00_0000 + number as u32).into())
        };
        assert!((0..MOST_IN_ALL).all(|number| wanted.add(&network(number))));
        assert!(!wanted.add(&network(MOST_IN_ALL)) && wanted.add(&network(7)));
        wanted.remove(&network(8));
        assert!(wanted.add(&network(MOST_IN_ALL)));
        assert_eq!(wanted.known.len(), MOST_IN_ALL);
    }

    /// Loopback networks are counted, and nothing is changed for them.
    #[tokio::test]
    async fn an_end_waits_until_all_is_given_back() {
        let network = Network::parse("127.9.9.9").unwrap();
        let first = SourceAddresses::hold(vec![network]).await;
        let second = SourceAddresses::hold(vec![network]).await;
        drop(first);
        let waiting = SourceAddresses::released(Duration::from_secs(60));
        let mut waiting = std::pin::pin!(waiting);
        tokio::select! {
            () = &mut waiting => panic!("the second one holds it"),
            () = tokio::time::sleep(Duration::from_millis(50)) => {}
        }
        assert_eq!(WANTED.lock().known.get(&network), Some(&(1, false)));
        drop(second);
        waiting.await;
        assert!(!WANTED.lock().known.contains_key(&network));
    }
}
