//! Dials among routers that are slow, silent, full or gone, hosts without room, and circuits that end meanwhile, by
//! seeds.
//!
//! `WEFT_DIALS_SEED=7 cargo test -p weft-network create` replays a seed and prints what happened;
//! `WEFT_DIALS_SEEDS=100000` runs that many.

mod world;

use std::collections::BTreeSet;

use self::world::World;
use super::*;

/// The seeds of the short run.
const SHORT: u64 = 4_000;
/// Seeds that are tried for one fault in the table.
const TRIED: u64 = 4_000;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn a_dial_is_answered_in_time_and_leaves_no_routes_but_those_of_its_circuit() {
    if let Some(seed) = variable("WEFT_DIALS_SEED") {
        World::play(seed, TABLE, true).unwrap();
        return;
    }
    let seeds = variable("WEFT_DIALS_SEEDS").unwrap_or(SHORT);
    let mut taken = BTreeSet::new();
    for seed in 0..seeds {
        match World::play(seed, TABLE, false) {
            Ok(rows) => taken.extend(rows),
            Err(problem) => panic!("seed {seed}: {problem}"),
        }
    }
    println!("{} of {} rows in {seeds} seeds", taken.len(), TABLE.len());
    let missing: Vec<Row> =
        (0..TABLE.len()).filter(|row| !taken.contains(row)).map(|row| TABLE[row]).collect();
    assert!(missing.is_empty(), "rows that no seed took: {missing:#?}");
}

/// The table with another action or next state in a row; none if the row has no such effect.
fn without(row: usize, is_action: bool) -> Option<&'static [Row]> {
    let mut table = TABLE.to_vec();
    let Row { state, next, action, .. } = &mut table[row];
    if is_action {
        *action = match *action {
            Action::Fail => Action::Finish,
            Action::Rename => Action::Choose,
            _ => Action::Fail,
        };
    } else if next == state {
        return None;
    } else {
        *next = *state;
    }
    Some(table.leak())
}

#[test]
fn a_row_without_one_of_its_effects_is_noticed() {
    let (mut count, mut most, mut missed) = (0, 0, Vec::new());
    for (at, row) in TABLE.iter().enumerate() {
        for is_action in [true, false] {
            let Some(table) = without(at, is_action) else { continue };
            count += 1;
            match (0..TRIED).find(|seed| World::play(*seed, table, false).is_err()) {
                Some(seed) => most = most.max(seed + 1),
                None => missed.push((row.state, row.event, is_action)),
            }
        }
    }
    println!("{} of {count} faults noticed; at most {most} seeds", count - missed.len());
    assert!(missed.len() * 20 <= count, "not noticed: {missed:?}");
}
