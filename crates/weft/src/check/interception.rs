//! Whether this machine can do what `mode: tproxy` asks for.

use std::{env, path::Path};

use weft_config::Facts;

use super::{Finding, Purpose};

/// What else there is.
const INSTEAD: &str = "mode host only hosts, mode proxy offers services at ports";

/// Looks for what intercepting needs. Who does not start it now may do so elsewhere.
pub(super) fn look(facts: &Facts, purpose: Purpose) -> Vec<Finding> {
    let modes = facts.all().iter().filter(|fact| {
        fact.general_key() == "listeners[].options.mode" && fact.value.starts_with("tproxy")
    });
    let Some(problem) = problem(purpose) else { return Vec::new() };
    let text = format!("tproxy: {problem}; {INSTEAD}");
    let finding = |key: &String| match purpose {
        Purpose::Start => Finding::mistake(key, &text),
        Purpose::Advice => Finding::warning(key, &text),
    };
    modes.map(|fact| finding(&fact.key)).collect()
}

fn problem(purpose: Purpose) -> Option<&'static str> {
    if !cfg!(target_os = "linux") {
        return Some("services are intercepted on Linux only");
    }
    if !is_installed("ip") {
        return Some("`ip` (iproute2) is not installed, which changes routes and addresses");
    }
    if !is_installed("nft") && !is_installed("iptables") {
        return Some("neither `nft` nor `iptables` is installed, which change the firewall");
    }
    if purpose == Purpose::Start && !may_change_networks() {
        return Some("it needs root, or CAP_NET_ADMIN and CAP_NET_RAW");
    }
    None
}

fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Whether this process has CAP_NET_ADMIN, as far as the system says.
fn may_change_networks() -> bool {
    const NET_ADMIN: u64 = 1 << 12;
    let Ok(status) = std::fs::read_to_string(Path::new("/proc/self/status")) else { return true };
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    held.is_none_or(|held| held & NET_ADMIN != 0)
}
