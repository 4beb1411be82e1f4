//! Checks whether this machine can intercept (`mode: tproxy`).

use std::env;
use std::path::Path;

use weft_config::FileFacts;

use super::finding::{Finding, Purpose};

/// Advice on the other modes.
const INSTEAD: &str = "mode host only hosts, mode proxy offers services at ports";

/// Checks the requirements of interception on this machine. A missing one is a mistake before a
/// start, and a warning if the operator only wants advice.
pub(super) fn look(facts: &FileFacts, purpose: Purpose) -> Vec<Finding> {
    let modes = facts.all().iter().filter(|fact| {
        fact.general_key() == "listeners[].options.mode" && fact.value.starts_with("tproxy")
    });
    let finding = |key: &String, problem: String| {
        let text = format!("tproxy: {problem}; {INSTEAD}");
        match purpose {
            Purpose::Start => Finding::mistake(key, &text),
            _ => Finding::warning(key, &text),
        }
    };
    let found = modes.filter_map(|fact| {
        let diverter = fact.value.strip_prefix("tproxy:");
        problem(purpose, diverter).map(|problem| finding(&fact.key, problem))
    });
    found.collect()
}

fn problem(purpose: Purpose, diverter: Option<&str>) -> Option<String> {
    if !cfg!(target_os = "linux") {
        return Some("services are intercepted on Linux only".into());
    }
    if !is_installed("ip") {
        return Some("`ip` (iproute2) is not installed, which changes routes and addresses".into());
    }
    if diverter.is_none() && !is_installed("nft") && !is_installed("iptables") {
        return Some("neither `nft` nor `iptables` is installed, which change the firewall".into());
    }
    #[cfg(target_os = "linux")]
    if let Some(diverter) = diverter
        && let Err(why) = weft_tunnel::trusted_program(Path::new(diverter))
    {
        return Some(format!("{diverter}: {why}"));
    }
    if purpose == Purpose::Start && !may_change_networks() {
        return Some("it needs root, or CAP_NET_ADMIN and CAP_NET_RAW".into());
    }
    None
}

fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// True if this process has CAP_NET_ADMIN, or the system does not say.
fn may_change_networks() -> bool {
    const NET_ADMIN: u64 = 1 << 12;
    let Ok(status) = std::fs::read_to_string(Path::new("/proc/self/status")) else { return true };
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    held.is_none_or(|held| held & NET_ADMIN != 0)
}
