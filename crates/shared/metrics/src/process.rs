//! Metrics of this process as `/proc` shows them: memory, threads, open files. None on systems
//! without `/proc`.

use crate::registry::Scope;

/// Registers the metrics of this process.
pub fn register(scope: &mut Scope) {
    if resident().is_none() {
        return;
    }
    scope.gauge("weft.memory.resident", || resident().unwrap_or_default());
    scope.gauge("weft.threads", || threads().unwrap_or_default());
    scope.gauge("weft.open_files", || open_files().unwrap_or_default());
}

/// Bytes of memory that the process has in use.
#[must_use]
pub fn resident() -> Option<i64> {
    status("VmRSS:").and_then(|kib| kib.checked_mul(1024))
}

fn threads() -> Option<i64> {
    status("Threads:")
}

fn open_files() -> Option<i64> {
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count();
    // One of the entries is the folder itself, opened to list it.
    i64::try_from(open.saturating_sub(1)).ok()
}

fn status(key: &str) -> Option<i64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_memory_threads_and_files() {
        assert!(resident().unwrap() > 100_000);
        assert!(threads().unwrap() >= 1);
        let before = open_files().unwrap();
        let _held: Vec<_> =
            (0..50).map(|_| std::fs::File::open("/proc/self/stat").unwrap()).collect();
        assert!(open_files().unwrap() >= before.max(50));
    }
}
