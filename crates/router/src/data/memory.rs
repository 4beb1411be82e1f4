//! The memory that circuits may take.

/// The budget of circuits is this fraction of the process's memory: a quarter.
const BUDGET_SHARE: u64 = 4;
/// Memory in bytes that is assumed where the machine's is unknown.
const FALLBACK_MEMORY: u64 = 4 << 30;

/// The budget of circuits, in bytes.
pub(super) fn budget() -> u64 {
    memory() / BUDGET_SHARE
}

/// Bytes of memory this process may use: the limit of its control group, else the machine's.
fn memory() -> u64 {
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let group = group.and_then(|text| text.trim().parse::<u64>().ok());
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
        Some(kib * 1024)
    });
    match (group, machine) {
        (Some(group), Some(machine)) => group.min(machine),
        (Some(known), None) | (None, Some(known)) => known,
        (None, None) => FALLBACK_MEMORY,
    }
}
