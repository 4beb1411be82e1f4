//! A simulator of routers and their links: one thread, a simulated clock, and random numbers from a seed.
//!
//! ```text
//!  controllers ──news, late and in order──> routers <──wires that delay, cut and repeat──> routers
//!        ^                                     │
//!        └───────── up, faults, duplicates ────┘
//! ```
//!
//! A run has a time of troubles, a time of quiet, and the removal of all routers. [`checks`] says what holds
//! after each step, when a router has carried out everything, and when all is quiet. A failure names its
//! seed: `WEFT_LINK_SEED=7 cargo test -p weft-router simulator` replays it and prints what happened.
//! `WEFT_LINK_SEEDS=100000` runs that many seeds.

mod checks;
mod controllers;
mod mutations;
mod original;
mod troubles;
mod wires;
mod world;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use self::world::{Happening, World};
use super::{Machine, *};
use crate::dice::Dice;

impl Random for Dice {
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn link_id(&mut self) -> String {
        format!("{:06x}", self.next() & 0xff_ffff)
    }
}

/// The seeds of the short run.
const SHORT: u64 = 120;

/// The number in a variable of the environment.
fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The reasons for which links are refused or closed.
const REASONS: usize = 11;

/// Plays a network of routers whose machines have this table. Returns the rows that were taken, and the
/// reasons for which links were refused or closed.
fn play(
    seed: u64,
    table: &'static [Row],
    shows: bool,
) -> Result<(BTreeSet<usize>, BTreeSet<String>), String> {
    let mut world = World::new(seed, table, shows);
    let played = catch_unwind(AssertUnwindSafe(|| world.play()));
    let played = played.unwrap_or_else(|_| Err("a panic".into()));
    let at = world.now - world.start;
    match played {
        Ok(()) => Ok((world.rows_taken(), world.reasons)),
        Err(problem) => Err(format!("seed {seed}, after {at:?}: {problem}")),
    }
}

#[test]
fn networks_of_routers_come_to_rest() {
    if let Some(seed) = variable("WEFT_LINK_SEED") {
        play(seed, TABLE, true).unwrap();
        return;
    }
    let seeds = variable("WEFT_LINK_SEEDS").unwrap_or(SHORT);
    let (begun, mut taken, mut reasons) = (Instant::now(), BTreeSet::new(), BTreeSet::new());
    for seed in 0..seeds {
        let (rows, why) = play(seed, TABLE, false).unwrap();
        taken.extend(rows);
        reasons.extend(why);
    }
    let missing: Vec<_> = (0..TABLE.len()).filter(|row| !taken.contains(row)).collect();
    println!(
        "{} of {} rows in {seeds} seeds, {:.0} seeds per second",
        taken.len(),
        TABLE.len(),
        seeds as f64 / begun.elapsed().as_secs_f64()
    );
    let missing: Vec<_> = missing.into_iter().map(|row| TABLE[row]).collect();
    assert!(missing.is_empty(), "rows that no seed took: {missing:#?}");
    assert_eq!(reasons.len(), REASONS, "{reasons:?}");
}
