//! A simulator of routers that carry circuits of an earlier run, of links, moves and the controller's table of circuits:
//! one thread, a simulated clock, and random numbers from a seed.
//!
//! ```text
//!  table of circuits, moves <──outputs── machine <──reports in parts, answers, questions, ends, late── routers
//!        └──────────────moves, looks, ends, late────^
//! ```
//!
//! A run has a time of troubles, which begins with the controller's start and goes on after its early time, and a time of
//! quiet. [`checks`] says what holds after each step, and when all is quiet. A failure names its seed:
//! `WEFT_ADOPTION_SEED=7 cargo test -p weft-network adoption` replays it and prints what happened.
//! `WEFT_ADOPTION_SEEDS=100000` runs that many seeds.

mod checks;
mod mutations;
mod routers;
mod world;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use self::world::World;
use super::*;

/// The seeds of the short run.
const SHORT: u64 = 500;

/// The number in a variable of the environment.
fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Plays a controller whose machine has this table. Returns the rows that were taken.
fn play(seed: u64, table: &'static [Row], shows: bool) -> Result<BTreeSet<usize>, String> {
    let mut world = World::new(seed, table, shows);
    let played = catch_unwind(AssertUnwindSafe(|| world.play()));
    let played = played.unwrap_or_else(|_| Err("a panic".into()));
    match played {
        Ok(()) => Ok(world.machine.taken),
        Err(problem) => Err(format!("seed {seed}, after {:?}: {problem}", world.age())),
    }
}

#[test]
fn circuits_are_adopted_once_all_their_routers_have_named_them() {
    if let Some(seed) = variable("WEFT_ADOPTION_SEED") {
        play(seed, TABLE, true).unwrap();
        return;
    }
    let seeds = variable("WEFT_ADOPTION_SEEDS").unwrap_or(SHORT);
    let (begun, mut taken) = (Instant::now(), BTreeSet::new());
    (0..seeds).for_each(|seed| taken.extend(play(seed, TABLE, false).unwrap()));
    let rate = seeds as f64 / begun.elapsed().as_secs_f64();
    let (count, rows) = (taken.len(), TABLE.len());
    println!("{count} of {rows} rows in {seeds} seeds, {rate:.0} seeds per second");
    let missing: Vec<Row> =
        (0..rows).filter(|row| !taken.contains(row)).map(|row| TABLE[row]).collect();
    assert!(missing.is_empty(), "rows that no seed took: {missing:#?}");
}
