//! Whether the machine has a processor to spare.

use std::time::Duration;

use tokio::time::Instant;

/// Milliseconds of one unit of the times in `/proc/stat` (proc_stat(5): `USER_HZ`, 100 per second on Linux).
const TICK: u64 = 10;
/// The part of one processor that has to be idle.
const SPARE: f64 = 0.5;
/// Two samples that are further apart say nothing about now.
const RECENT: Duration = Duration::from_secs(5);

/// Compares how long the processors of the machine have been idle.
#[derive(Debug, Default)]
pub(super) struct Machine {
    last: Option<(Instant, Duration)>,
}

impl Machine {
    /// True if half a processor has been idle since the last call, which must be recent. Where the system does not tell,
    /// it is assumed.
    pub(super) fn spare(&mut self) -> bool {
        let Some(idle) = std::fs::read_to_string("/proc/stat").ok().as_deref().and_then(idle)
        else {
            return true;
        };
        let now = Instant::now();
        self.last.replace((now, idle)).is_some_and(|(then, before)| {
            let window = now.duration_since(then);
            window <= RECENT && idle.saturating_sub(before) >= window.mul_f64(SPARE)
        })
    }
}

/// The time that all processors together were idle, from the text of `/proc/stat`.
fn idle(text: &str) -> Option<Duration> {
    let all = text.lines().next()?.strip_prefix("cpu ")?;
    // user nice system idle iowait
    let mut times = all.split_whitespace().skip(3).map(|word| word.parse::<u64>().ok());
    let ticks = times.next()??.saturating_add(times.next().flatten().unwrap_or(0));
    Some(Duration::from_millis(ticks.saturating_mul(TICK)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_read_from_the_line_of_all_processors() {
        let text = "cpu  10 1 5 700 50 0 0 0 0 0\ncpu0 5 0 2 350 25 0 0 0 0 0\n";
        assert_eq!(idle(text), Some(Duration::from_millis(7500)));
        assert_eq!(idle("cpu  1 2 3 4"), Some(Duration::from_millis(40)));
        // 128 idle processors after a year.
        let ticks = 128 * 365 * 24 * 3600 * 100_u64;
        assert_eq!(idle(&format!("cpu  1 2 3 {ticks}")), Some(Duration::from_secs(ticks / 100)));
        for odd in ["", "intr 5", "cpu  1 2 3", "cpu  1 2 3 x"] {
            assert_eq!(idle(odd), None, "{odd}");
        }
    }
}
