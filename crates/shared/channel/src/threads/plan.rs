//! Which connections move to which thread.

/// A thread that is busy for this part of the time is to give connections away.
const HOT: f64 = 0.75;
/// A thread that is busy for less than this part of the time may take some.
const COOL: f64 = 0.5;
/// The least by which the busier of the two threads must be relieved.
const GAIN: f64 = 0.1;
/// If all threads together are busy for less than this part of the time of one, one is enough.
const CALM: f64 = 0.35;
/// Windows in a row that must be calm before connections are brought together.
const CALM_WINDOWS: u32 = 10;

/// A connection in a window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Carried {
    /// Its thread.
    pub(super) thread: usize,
    /// The bytes that it read and wrote.
    pub(super) bytes: u64,
}

/// Decides, window by window.
#[derive(Debug, Default)]
pub(super) struct Planner {
    calm: u32,
}

impl Planner {
    /// The connections that move, and their new threads. `loads` has the part of the window in which each thread was
    /// busy; `spare` tells whether the machine has a processor to spare, and is asked only if that matters.
    pub(super) fn window(
        &mut self,
        loads: &[f64],
        carried: &[Carried],
        spare: impl FnOnce() -> bool,
    ) -> Vec<(usize, usize)> {
        let hot = loads.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
        let cool = loads.iter().copied().enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        let (Some(hot), Some(cool)) = (hot, cool) else { return Vec::new() };
        let is_calm = loads.iter().sum::<f64>() < CALM;
        self.calm = if is_calm { self.calm + 1 } else { 0 };
        if self.calm >= CALM_WINDOWS {
            self.calm = 0;
            let away = carried.iter().enumerate().filter(|(_, one)| one.thread != 0);
            return away.map(|(index, _)| (index, 0)).collect();
        }
        match hot.1 >= HOT && cool.1 < COOL && spare() {
            true => relieve(hot, cool, carried),
            false => Vec::new(),
        }
    }
}

/// Moves connections from the busy thread until both are about equally busy.
fn relieve(
    (from, hot): (usize, f64),
    (to, cool): (usize, f64),
    carried: &[Carried],
) -> Vec<(usize, usize)> {
    let mut here: Vec<_> =
        carried.iter().enumerate().filter(|(_, one)| one.thread == from && one.bytes > 0).collect();
    let bytes: u64 = here.iter().map(|(_, one)| one.bytes).sum();
    // The largest one stays, so that a thread with a single busy connection keeps it.
    here.sort_by_key(|(_, one)| std::cmp::Reverse(one.bytes));
    let middle = f64::midpoint(hot, cool);
    let (mut left, mut moved) = (hot, Vec::new());
    for (index, one) in here.into_iter().skip(1) {
        let share = hot * one.bytes as f64 / bytes as f64;
        if left - share >= middle - GAIN {
            left -= share;
            moved.push((index, to));
        }
    }
    if hot - left.max(cool + (hot - left)) >= GAIN { moved } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried(on: &[(usize, u64)]) -> Vec<Carried> {
        on.iter().map(|&(thread, bytes)| Carried { thread, bytes }).collect()
    }

    #[test]
    fn a_busy_thread_gives_some_of_its_connections_to_an_idle_one() {
        let mut planner = Planner::default();
        let pair = carried(&[(0, 100), (0, 100)]);
        assert_eq!(planner.window(&[0.95, 0.0], &pair, || true), [(1, 1)]);
        assert_eq!(planner.window(&[0.95, 0.0], &pair, || false), [], "no processor for it");
        assert_eq!(planner.window(&[0.7, 0.0], &pair, || true), [], "one thread is enough");
        assert_eq!(planner.window(&[0.95, 0.6], &pair, || true), [], "the other has enough to do");
        let many: Vec<_> = (0..1000).map(|_| Carried { thread: 0, bytes: 10 }).collect();
        let moved = planner.window(&[1.0, 0.0, 0.2], &many, || true);
        assert!((500..=600).contains(&moved.len()), "{}", moved.len());
        assert!(moved.iter().all(|&(_, to)| to == 1), "the least busy one");
    }

    #[test]
    fn a_connection_that_is_the_whole_load_stays() {
        let mut planner = Planner::default();
        assert_eq!(planner.window(&[1.0, 0.0], &carried(&[(0, 100)]), || true), []);
        let small = carried(&[(0, 1000), (0, 1), (0, 0)]);
        assert_eq!(planner.window(&[1.0, 0.0], &small, || true), [], "it would not help");
        assert_eq!(planner.window(&[1.0, 0.0], &[], || true), []);
        assert_eq!(planner.window(&[], &[], || true), []);
    }

    #[test]
    fn connections_come_together_when_there_is_little_to_do_for_a_while() {
        let mut planner = Planner::default();
        let apart = carried(&[(0, 5), (1, 5), (3, 0)]);
        for _ in 1..CALM_WINDOWS {
            assert_eq!(planner.window(&[0.1, 0.1, 0.0, 0.0], &apart, || true), []);
        }
        assert_eq!(planner.window(&[0.1, 0.1, 0.0, 0.0], &apart, || true), [(1, 0), (2, 0)]);
        for turn in 0..3 * CALM_WINDOWS {
            let load = if turn % 5 == 0 { 0.9 } else { 0.1 };
            assert_eq!(planner.window(&[load, 0.1], &apart, || false), [], "not calm for long");
        }
    }

    #[test]
    fn loads_settle() {
        // Shares of a thread's time that four pairs of connections take.
        let shares = [0.45, 0.45, 0.3, 0.3, 0.2, 0.2, 0.1, 0.1];
        let mut on = [0_usize; 8];
        let mut planner = Planner::default();
        let mut moves = 0;
        for _ in 0..20 {
            let mut loads = [0.0; 4];
            for (share, thread) in shares.iter().zip(on) {
                loads[thread] += share;
            }
            let busy = loads.map(|load: f64| load.min(1.0));
            let window: Vec<_> = shares
                .iter()
                .zip(on)
                .map(|(share, thread)| Carried { thread, bytes: (share * 1e6) as u64 })
                .collect();
            for (index, to) in planner.window(&busy, &window, || true) {
                on[index] = to;
                moves += 1;
            }
        }
        let mut loads = [0.0; 4];
        for (share, thread) in shares.iter().zip(on) {
            loads[thread] += share;
        }
        assert!(loads.iter().all(|load| *load < 1.0), "{loads:?}");
        assert!(moves < 16, "{moves} moves, so that connections do not wander");
    }
}
