//! Reports of this machine's network interfaces to controllers (docs/protocol/control-plane.md 22).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use weft_wire::ProtoBody;
use weft_wire::ctrl::{Interface, RouterInterfacesUpdate};

use super::options::InterfaceReports;
use super::shared::Core;

/// Most addresses of one interface, and most interfaces, in a report.
const MOST: usize = 1000;

/// The folder in which the kernel lists interfaces.
const SYSTEM: &str = "/sys/class/net";

/// Flags of the kernel, and the flag of the report for each.
const FLAGS: [(u64, u64); 6] = [(1, 1), (2, 2), (8, 4), (0x10, 8), (0x1000, 16), (0x40, 32)];

/// Reports until cancelled: to the first controller, after changes, and at intervals.
pub(crate) async fn run(core: Arc<Core>, reports: InterfaceReports) {
    let mut told: Option<(Vec<Interface>, Instant)> = None;
    let mut changes = core.controllers.changes();
    loop {
        let found = tokio::task::spawn_blocking(found).await.unwrap_or_default();
        let is_due = told
            .as_ref()
            .is_none_or(|(known, since)| *known != found || since.elapsed() >= reports.at_least);
        if is_due && tell(&core, &found).await {
            told = Some((found, Instant::now()));
        }
        // Until a first report was sent, each controller that connects ends the wait, so that it is
        // sent the report at once.
        let wait = tokio::time::sleep(reports.check.max(Duration::from_secs(1)));
        tokio::select! {
            () = wait => {}
            Ok(()) = changes.changed(), if told.is_none() => {}
        }
    }
}

async fn tell(core: &Core, found: &[Interface]) -> bool {
    let Some(controller) = core.controllers.for_changes() else { return false };
    let report = RouterInterfacesUpdate { interfaces: found.to_vec() };
    match controller.channel.request(report.to_message(), core.options.request_timeout).await {
        Ok(_) => true,
        Err(problem) => {
            tracing::debug!(controller = %controller.id, %problem, "interfaces not told");
            false
        }
    }
}

/// The interfaces of this machine, by name.
fn found() -> Vec<Interface> {
    let mut addresses: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in if_addrs::get_if_addrs().unwrap_or_default() {
        let prefix = match &one.addr {
            if_addrs::IfAddr::V4(v4) => v4.prefixlen,
            if_addrs::IfAddr::V6(v6) => v6.prefixlen,
        };
        let of_name = addresses.entry(one.name.clone()).or_default();
        if of_name.len() < MOST {
            of_name.push(format!("{}/{prefix}", one.ip()));
        }
    }
    // Interfaces without an address are found here.
    for entry in std::fs::read_dir(SYSTEM).into_iter().flatten().flatten() {
        addresses.entry(entry.file_name().to_string_lossy().into_owned()).or_default();
    }
    let interface = |(name, addresses): (String, Vec<String>)| {
        let read = |what: &str| {
            let path = Path::new(SYSTEM).join(&name).join(what);
            std::fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
        };
        let number = |what: &str| read(what).parse::<i64>().unwrap_or_default();
        let flags = u64::from_str_radix(read("flags").trim_start_matches("0x"), 16);
        let flags = flags.unwrap_or_default();
        Interface {
            hardware_address: read("address"),
            mtu: number("mtu"),
            index: number("ifindex"),
            flags: FLAGS.iter().filter(|(own, _)| flags & own != 0).map(|(_, said)| said).sum(),
            addresses,
            name,
        }
    };
    addresses.into_iter().take(MOST).map(interface).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_among_them() {
        let all = found();
        let loopback = all.iter().find(|one| one.flags & 4 != 0).unwrap();
        assert!(loopback.addresses.iter().any(|one| one == "127.0.0.1/8"), "{loopback:?}");
        assert!(loopback.flags & 1 != 0 && loopback.mtu > 0 && loopback.index > 0, "{loopback:?}");
        assert!(all.is_sorted_by(|a, b| a.name <= b.name));
    }
}
