//! `--apart`: relays on one half of the processors, clients and servers on the other.
//!
//! On the same processors, a relay and the programs that load the relay wait for each other's time slices,
//! some milliseconds each: a round trip beside bulk flows then measures the system's scheduler. On processors
//! of its own, the relay itself is measured.

use std::io;
use std::process::{Child, Command};
use std::sync::OnceLock;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors of relays, and those of clients and servers; none if they are not apart.
static HALVES: OnceLock<Halves> = OnceLock::new();

struct Halves {
    relays: CpuSet,
    clients: CpuSet,
}

/// Moves this program to the first half of its processors; relays that are started later get the second half.
/// To be called before other threads are started. Returns the processors of each half, as numbers.
///
/// # Errors
/// When there is one processor only, or the system refuses.
pub(crate) fn divide() -> io::Result<[Vec<usize>; 2]> {
    let all = sched_getaffinity(None)?;
    let numbers: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|number| all.is_set(*number)).collect();
    if numbers.len() < 2 {
        return Err(io::Error::other("--apart needs two processors at least, and there is one"));
    }
    let (clients, relays) = numbers.split_at(numbers.len() / 2);
    let halves = Halves { relays: set(relays), clients: set(clients) };
    sched_setaffinity(None, &halves.clients)?;
    let _ = HALVES.set(halves);
    Ok([clients.to_vec(), relays.to_vec()])
}

fn set(numbers: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    numbers.iter().for_each(|number| set.set(*number));
    set
}

/// Starts a relay on the processors of relays: a process inherits those of the thread that starts it.
pub(crate) fn start_relay(command: &mut Command) -> io::Result<Child> {
    let Some(halves) = HALVES.get() else { return command.spawn() };
    sched_setaffinity(None, &halves.relays)?;
    let started = command.spawn();
    sched_setaffinity(None, &halves.clients)?;
    started
}
