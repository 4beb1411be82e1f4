//! Options that several measurements have, with their bounds.

use clap::Args;
use clap::builder::RangedU64ValueParser;

/// The longest time that one figure may take.
const LONGEST: f64 = 3600.0;

/// The length of a controller's measurements, and the seed of their operations.
#[derive(Debug, Clone, Args)]
pub(crate) struct Run {
    /// Seconds that one figure of creates or dials should take
    #[arg(long, default_value_t = 4.0, value_parser = seconds)]
    seconds: f64,
    /// Seed of all random choices: the same number makes the same network
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// A small network and short runs, to see whether the program works; the figures mean nothing
    #[arg(long)]
    pub(crate) quick: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

impl Run {
    /// The given value; with `--quick` at most `quick`.
    pub(crate) fn at_most<T: PartialOrd>(&self, given: T, quick: T) -> T {
        if self.quick && given > quick { quick } else { given }
    }

    /// Seconds that one figure takes.
    pub(crate) fn seconds(&self, quick: f64) -> f64 {
        self.at_most(self.seconds, quick)
    }
}

/// The writes over a path, and the length of the measurement.
#[derive(Debug, Clone, Args)]
pub(crate) struct Writes {
    /// Sizes of each write, in KiB [default: 1,10,32; of routers in a row 1,32]
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024)
    )]
    payload: Vec<usize>,
    /// Number of flows where many are measured together
    #[arg(
        long,
        default_value_t = 50,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000)
    )]
    pub(crate) flows: usize,
    /// Number of connections that are opened at a time where set-ups are counted
    #[arg(
        long,
        default_value_t = 16,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000)
    )]
    pub(crate) dials: usize,
    /// Seconds that one figure should take
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Runs only the measurements whose name contains this text, for example tcp, haproxy or weft.
    #[arg(long)]
    only: Option<String>,
    /// Gives relays half of the processors, and clients and servers the other half
    #[arg(long)]
    pub(crate) apart: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

impl Writes {
    /// Sizes of each write in bytes; `usual`, in KiB, if none were given.
    pub(crate) fn payloads(&self, usual: &[usize]) -> Vec<usize> {
        let given = if self.payload.is_empty() { usual } else { &self.payload };
        given.iter().map(|kib| kib * 1024).collect()
    }

    /// Whether a measurement of this name is selected.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    within(text, 0.001, LONGEST)
}

/// A number within bounds.
pub(crate) fn within(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("a number from {least} to {most} is wanted"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_within_bounds() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        for wrong in ["-1", "0", "nan", "inf", "x", "3601"] {
            assert!(seconds(wrong).unwrap_err().contains("from 0.001 to 3600"), "{wrong}");
        }
    }

    #[test]
    fn quick_runs_are_no_larger_than_what_was_given() {
        let run = |quick| Run { seconds: 4.0, seed: 1, quick, json: false };
        assert_eq!((run(false).at_most(9, 5), run(false).seconds(0.5)), (9, 4.0));
        assert_eq!((run(true).at_most(9, 5), run(true).at_most(3, 5)), (5, 3));
        assert_eq!(run(true).seconds(0.5), 0.5);
    }
}
