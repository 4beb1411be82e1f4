//! Processor time and memory of a process, from `/proc`.

use std::fs;
use std::time::Duration;

/// Clock ticks per second of `/proc/PID/stat`; Linux reports 100 on every platform it runs on.
const TICKS_PER_SECOND: u64 = 100;

/// User and system time of a process and its threads since it started; `None` when it is gone.
pub(crate) fn cpu_time(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name in parentheses and may hold blanks: count from its end.
    let after_name = stat.rsplit_once(')')?.1;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 1000 / TICKS_PER_SECOND))
}

/// Resident memory of a process, in bytes; `None` when it is gone.
pub(crate) fn resident(pid: u32) -> Option<u64> {
    of_status(pid, "VmRSS:")
}

/// The most that a process ever held; `None` when it is gone.
pub(crate) fn resident_peak(pid: u32) -> Option<u64> {
    of_status(pid, "VmHWM:")
}

fn of_status(pid: u32, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_processor_and_memory() {
        let pid = std::process::id();
        assert!(cpu_time(pid).is_some());
        assert!(resident(pid).unwrap() > 100_000);
    }

    #[test]
    fn a_process_that_is_gone_has_neither() {
        assert_eq!(cpu_time(u32::MAX), None);
        assert_eq!(resident(u32::MAX), None);
    }
}
