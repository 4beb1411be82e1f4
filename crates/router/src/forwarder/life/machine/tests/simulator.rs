//! A simulator of a router's circuits: one thread, a simulated clock, and random numbers from a seed.
//!
//! ```text
//!  controllers ──routes and unroutes, late, twice, in any order──> machine ──> tables, routes under way
//!       ^                                                            ^  │              │
//!       └─────────────────────────reports────────────────────────────┼──┘              │
//!                            ends, idleness, strays, looks ──────────┴─────────────────┘
//! ```
//!
//! Two controllers know terms, and one is of the original and knows none. A run has a time of troubles, and a time of
//! quiet in which the owners end what they are told of. [`model`] says what a router has to do, fact by fact, and
//! [`world`] compares both after each step. A failure names its seed: `WEFT_LIFE_SEED=7 cargo test -p weft-router
//! circuits_live` replays it and prints what happened. `WEFT_LIFE_SEEDS=100000` runs that many seeds.

mod model;
mod mutations;
mod world;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use self::world::World;
use super::*;

/// The seeds of the short run.
const SHORT: u64 = 150;

/// The number in a variable of the environment.
fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Plays a router whose machine has this table. Returns the rows that were taken.
fn play(seed: u64, table: &'static [Row], shows: bool) -> Result<BTreeSet<usize>, String> {
    let mut world = World::new(seed, table, shows);
    let played = catch_unwind(AssertUnwindSafe(|| world.play()));
    let played = played.unwrap_or_else(|_| Err("a panic".into()));
    match played {
        Ok(()) => Ok(world.rows_taken()),
        Err(problem) => Err(format!("seed {seed}, after {:?}: {problem}", world.age())),
    }
}

#[test]
fn circuits_live_as_their_owners_command() {
    if let Some(seed) = variable("WEFT_LIFE_SEED") {
        play(seed, TABLE, true).unwrap();
        return;
    }
    let seeds = variable("WEFT_LIFE_SEEDS").unwrap_or(SHORT);
    let (begun, mut taken) = (Instant::now(), BTreeSet::new());
    (0..seeds).for_each(|seed| taken.extend(play(seed, TABLE, false).unwrap()));
    let rate = seeds as f64 / begun.elapsed().as_secs_f64();
    let (count, rows) = (taken.len(), TABLE.len());
    println!("{count} of {rows} rows in {seeds} seeds, {rate:.0} seeds per second");
    let missing: Vec<Row> =
        (0..rows).filter(|row| !taken.contains(row)).map(|row| TABLE[row]).collect();
    assert!(missing.is_empty(), "rows that no seed took: {missing:#?}");
}
