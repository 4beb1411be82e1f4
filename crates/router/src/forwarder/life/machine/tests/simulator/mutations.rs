//! Faults in the table, each of which some seed notices.

use super::*;

/// Seeds that are tried for one fault.
const TRIES: u64 = 400;

/// The table without an action of a row, or without its change of the state.
fn without(row: usize, action: Option<usize>) -> &'static [Row] {
    let mut table = TABLE.to_vec();
    match action {
        Some(at) => {
            let mut actions = table[row].actions.to_vec();
            actions.remove(at);
            table[row].actions = actions.leak();
        }
        None => table[row].next = table[row].state,
    }
    table.leak()
}

#[test]
fn a_row_without_one_of_its_effects_is_noticed() {
    let (mut count, mut most, mut missed) = (0, 0, Vec::new());
    for (at, row) in TABLE.iter().enumerate() {
        let actions = (0..row.actions.len()).map(Some);
        let change = (row.next != row.state).then_some(None);
        for action in actions.chain(change) {
            count += 1;
            let table = without(at, action);
            match (0..TRIES).find(|seed| play(*seed, table, false).is_err()) {
                Some(seed) => most = most.max(seed + 1),
                None => missed.push((row.state, row.event, action.map(|it| row.actions[it]))),
            }
        }
    }
    println!("{} of {count} faults noticed; at most {most} seeds", count - missed.len());
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}
