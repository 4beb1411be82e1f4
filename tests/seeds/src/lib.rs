//! What the simulators share: random numbers from a seed, runs over many seeds, and the coverage of a table of
//! transitions.

#![allow(clippy::print_stdout, clippy::panic, reason = "this crate is a part of tests")]

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

/// What one run over a seed gives: the rows of the table that were taken, or what went wrong.
pub type Played = Result<BTreeSet<usize>, String>;

/// The generator SplitMix64.
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one.
    pub fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }

    /// True once in so many calls.
    pub fn once_in(&mut self, calls: usize) -> bool {
        self.below(calls) == 0
    }

    /// A time of less than so many milliseconds.
    pub fn millis(&mut self, below: u64) -> Duration {
        Duration::from_millis(self.next() % below.max(1))
    }
}

/// Plays the seed that the variable `<prefix>_SEED` names, and prints what happens. Without it, plays as many seeds
/// from 0 as `<prefix>_SEEDS` says, or `short`, and checks that they take every row of the table.
///
/// # Panics
/// When a seed fails, or no seed takes a row.
pub fn run(prefix: &str, short: u64, table: &[impl Debug], play: impl Fn(u64, bool) -> Played) {
    if let Some(seed) = variable(prefix, "SEED") {
        if let Err(problem) = play(seed, true) {
            panic!("seed {seed}: {problem}");
        }
        return;
    }
    let seeds = variable(prefix, "SEEDS").unwrap_or(short);
    let mut taken = BTreeSet::new();
    for seed in 0..seeds {
        match play(seed, false) {
            Ok(rows) => taken.extend(rows),
            Err(problem) => panic!("seed {seed}: {problem}"),
        }
    }
    println!("{} of {} rows in {seeds} seeds", taken.len(), table.len());
    let missing = table.iter().enumerate().filter(|(row, _)| !taken.contains(row));
    let missing: Vec<_> = missing.map(|(_, row)| row).collect();
    assert!(missing.is_empty(), "rows that no seed took: {missing:#?}");
}

/// Plays up to `tried` seeds for each fault, until one fails.
///
/// # Panics
/// When more than one fault of twenty is not noticed.
pub fn notice<T>(faults: &[(String, T)], tried: u64, play: impl Fn(u64, &T) -> Played) {
    let (mut most, mut missed) = (0, Vec::new());
    for (name, fault) in faults {
        match (0..tried).find(|seed| play(*seed, fault).is_err()) {
            Some(seed) => most = most.max(seed + 1),
            None => missed.push(name),
        }
    }
    let count = faults.len();
    println!("{} of {count} faults noticed; at most {most} seeds", count - missed.len());
    assert!(missed.len() * 20 <= count, "not noticed: {missed:#?}");
}

fn variable(prefix: &str, name: &str) -> Option<u64> {
    std::env::var(format!("{prefix}_{name}")).ok()?.parse().ok()
}
