//! Source addresses that hosts use in place of their clients': they have to be this machine's own
//! while a service is hosted that allows them (docs/protocol/tunnel.md 9.2).

use std::{
    collections::HashMap,
    process::{Command, Stdio},
    sync::LazyLock,
};

use parking_lot::Mutex;

use crate::Network;

/// The networks that are wanted on the loopback interface: by how many holders, and whether weft added them.
static WANTED: LazyLock<Mutex<HashMap<Network, WantedAddress>>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct WantedAddress {
    count: usize,
    added: bool,
}

/// Networks that are this machine's own until this is dropped.
#[derive(Debug, Default)]
pub struct SourceAddresses(Vec<Network>);

impl SourceAddresses {
    /// Makes networks this machine's own, as addresses of the loopback interface. A failure is
    /// logged: connections from these addresses then fail.
    pub async fn add(networks: Option<&[Network]>) -> Self {
        let networks = networks.unwrap_or_default().to_vec();
        if networks.is_empty() {
            return Self::default();
        }
        let adding = tokio::task::spawn_blocking(move || {
            networks.iter().for_each(add);
            Self(networks)
        });
        adding.await.unwrap_or_default()
    }
}

impl Drop for SourceAddresses {
    /// Takes some milliseconds for each network that is not used elsewhere. It is done at once,
    /// because the program may be about to end.
    fn drop(&mut self) {
        self.0.iter().for_each(remove);
    }
}

fn add(network: &Network) {
    let mut wanted = WANTED.lock();
    let known = wanted.entry(*network).or_default();
    known.count += 1;
    if known.count > 1 || network.address().is_loopback() {
        return;
    }
    match change("add", network) {
        Ok(added) => known.added = added,
        Err(problem) => tracing::warn!(
            %network, problem, "allowedSourceAddresses: no connection can be made from there"
        ),
    }
}

fn remove(network: &Network) {
    let mut wanted = WANTED.lock();
    let Some(known) = wanted.get_mut(network) else { return };
    known.count = known.count.saturating_sub(1);
    if known.count > 0 {
        return;
    }
    let added = known.added;
    wanted.remove(network);
    if added && let Err(problem) = change("del", network) {
        tracing::warn!(
            %network, problem,
            "an address of the loopback interface could not be removed"
        );
    }
}

/// Adds or removes an address of the loopback interface; false if there was nothing to do.
fn change(action: &str, network: &Network) -> Result<bool, String> {
    if !cfg!(target_os = "linux") {
        return Err("this is for Linux only".to_owned());
    }
    let made = Command::new("ip")
        .args(["address", action, &network.to_string(), "dev", "lo", "scope", "host"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("ip: {error}"))?;
    if made.status.success() {
        return Ok(true);
    }
    let said = String::from_utf8_lossy(&made.stderr).trim().to_owned();
    // The kernel's error (EEXIST), in the texts of both releases of iproute2.
    if said.contains("File exists") || said.contains("already assigned") {
        return Ok(false);
    }
    Err(said)
}
