//! Moves of one circuit among routers that are slow, silent or restarted, refuse routes, and lose answers, by seeds.
//!
//! `WEFT_MOVES_SEED=7 cargo test -p weft-network moves` replays a seed and prints what happened;
//! `WEFT_MOVES_SEEDS=100000` runs that many.

mod world;

use std::collections::BTreeSet;

use self::world::World;
use super::*;
use crate::circuits::sample;

/// The seeds of the short run.
const SHORT: u64 = 4_000;
/// Seeds that are tried for one fault in the table.
const TRIED: u64 = 4_000;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A second try whose path has no new ways: all routers of the first try but the one that it avoids have set theirs up.
fn second_try(table: &'static [Row], only_if_cheaper: bool) -> Result<BTreeSet<usize>, String> {
    let wish = MoveTerms { is_urgent: true, sends_again: false, only_if_cheaper };
    let circuit = sample("c", &["a", "c", "d", "b"], &["l1", "l2", "l3"]);
    let first = sample("c", &["a", "c", "d", "x", "b"], &["m1", "l2", "n1", "n2"]).path;
    let second = sample("c", &["a", "c", "d", "b"], &["m1", "l2", "l3"]).path;
    let mut it = Move { table, ..Move::new(wish, None) };
    it.note_path(&circuit, |_| true);
    let steps = it.steps(&circuit, &first);
    let Output::Tell(told) = it.step(Input::Planned(first, steps)) else {
        return Err("nothing is told".into());
    };
    let answered = told.iter().filter(|(router, _)| router.as_str() != "x");
    answered.for_each(|(router, ways)| it.confirmed(router, ways));
    let obstacle = Obstacle::at(&Id::new("x"), RouteOutcome::Busy, "");
    let Output::Find = it.step(Input::Failed { obstacle, is_early: false }) else {
        return Err("there is no second try".into());
    };
    let steps = it.steps(&circuit, &second);
    let Output::Tell(told) = it.step(Input::Planned(second.clone(), steps)) else {
        return Err("the second path is not taken".into());
    };
    let told: Vec<&str> = told.iter().map(|(router, _)| router.as_str()).collect();
    if told != ["a", "c"] || it.state != State::Switch || !it.has_changed() {
        return Err(format!("{told:?} in {:?}", it.state));
    }
    match it.step(Input::Answered) {
        Output::Put(path) if path == second => Ok(it.taken.into_iter().collect()),
        other => Err(format!("{other:?}")),
    }
}

/// Plays a seed, and what seeds hardly ever come to.
fn play(seed: u64, table: &'static [Row]) -> Result<BTreeSet<usize>, String> {
    let mut taken = World::play(seed, table, false)?;
    for only_if_cheaper in [false, true] {
        taken.extend(second_try(table, only_if_cheaper)?);
    }
    Ok(taken)
}

#[test]
fn payloads_pass_whatever_becomes_of_a_move_and_nothing_is_left_of_it() {
    if let Some(seed) = variable("WEFT_MOVES_SEED") {
        World::play(seed, TABLE, true).unwrap();
        return;
    }
    let seeds = variable("WEFT_MOVES_SEEDS").unwrap_or(SHORT);
    let mut taken = BTreeSet::new();
    for seed in 0..seeds {
        match play(seed, TABLE) {
            Ok(rows) => taken.extend(rows),
            Err(problem) => panic!("seed {seed}: {problem}"),
        }
    }
    println!("{} of {} rows in {seeds} seeds", taken.len(), TABLE.len());
    let missing = (0..TABLE.len()).filter(|row| !taken.contains(row)).map(|row| TABLE[row]);
    let missing: Vec<Row> = missing.collect();
    assert!(missing.is_empty(), "rows that no seed took: {missing:#?}");
}

/// The table with one effect of a row left out; none if the row has no such effect.
fn without(row: usize, is_action: bool) -> Option<&'static [Row]> {
    let mut table = TABLE.to_vec();
    let Row { state, next, action, .. } = &mut table[row];
    if is_action {
        *action = match *action {
            // Nothing was told yet.
            Action::Over(Ending::Parked, _) => return None,
            // Whoever removes a circuit has all its routers forget it.
            Action::Over(Ending::Removed | Ending::Ended, _) if *state != State::PrepareOther => {
                return None;
            }
            Action::Over(ending, Beside::Keep) => Action::Over(ending, Beside::Unroute),
            Action::Over(ending, _) => Action::Over(ending, Beside::Keep),
            _ => Action::Over(Ending::Failed, Beside::Keep),
        };
    } else if next == state || *next == State::Over {
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
            match (0..TRIED).find(|seed| play(*seed, table).is_err()) {
                Some(seed) => most = most.max(seed + 1),
                None => missed.push((row.state, row.event, is_action)),
            }
        }
    }
    println!("{} of {count} faults noticed; at most {most} seeds", count - missed.len());
    assert!(missed.len() * 20 <= count, "not noticed: {missed:?}");
}
