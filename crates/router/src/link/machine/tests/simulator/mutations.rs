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
#[ignore = "takes a minute"]
fn a_row_without_one_of_its_effects_is_noticed() {
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    let mut most = 0;
    let (mut count, mut noticed_rows) = (0, 0);
    for (at, row) in TABLE.iter().enumerate() {
        let actions = (0..row.actions.len()).map(Some);
        let change = (row.next != row.state).then_some(None);
        let mut is_noticed = true;
        for action in actions.chain(change) {
            count += 1;
            let table = without(at, action);
            match (0..TRIES).find(|seed| play(*seed, table, false).is_err()) {
                Some(seed) => most = most.max(seed + 1),
                None => {
                    is_noticed = false;
                    missed.push((row.state, row.event, action.map(|it| row.actions[it])));
                }
            }
        }
        noticed_rows += usize::from(is_noticed);
    }
    let noticed = count - missed.len();
    println!(
        "{noticed} of {count} faults noticed, in {noticed_rows} of {} rows; at most {most} seeds",
        TABLE.len()
    );
    println!("not noticed: {missed:?}");
    assert!(noticed * 100 >= count * 95);
}
