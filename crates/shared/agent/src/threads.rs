//! The threads of this process, in place of the call stacks of its tasks.

use std::fmt::Write as _;
use std::path::Path;

use tokio::runtime::Handle;

/// Most threads that are listed.
const MAX_THREADS: usize = 1024;

/// The threads of this process, and how busy these runtimes are.
#[must_use]
pub fn threads(runtimes: &[Handle]) -> String {
    let mut text =
        "Call stacks cannot be seen from inside this program; these are its threads.\n".to_owned();
    for runtime in runtimes {
        let metrics = runtime.metrics();
        let (workers, tasks) = (metrics.num_workers(), metrics.num_alive_tasks());
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "runtime: {workers} workers, {tasks} tasks, {} waiting",
            metrics.global_queue_depth()
        );
    }
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        text.push_str("this system does not list the threads of a process\n");
        return text;
    };
    let mut lines: Vec<String> =
        tasks.flatten().take(MAX_THREADS).filter_map(|entry| thread(&entry.path())).collect();
    lines.sort_unstable();
    text.extend(lines);
    text
}

/// The line of one thread: name, state (R runs, S sleeps), time in user mode and in the kernel, in
/// clock ticks.
fn thread(folder: &Path) -> Option<String> {
    let id = folder.file_name()?.to_str()?;
    let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
    // The name is in parentheses and may contain any character.
    let (head, rest) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    let (user, system) = (fields.nth(10)?, fields.next()?);
    Some(format!("thread {id} {name}: {state}, user {user}, system {system}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn threads_are_named() {
        let text = threads(&[Handle::current()]);
        assert!(text.starts_with("Call stacks cannot be seen"));
        assert!(text.contains("\nruntime: 1 workers, "), "{text}");
        if cfg!(target_os = "linux") {
            assert!(text.lines().any(|line| line.starts_with("thread ")), "{text}");
        }
    }
}
