//! Controllers that share a log: answers are late or lost, controllers are cut off and restarted, disks are full, the
//! log is shortened, fenced and restored from an older snapshot, by seeds.
//!
//! `WEFT_REPLICA_SEED=7 cargo test -p weft-store replica` replays a seed and prints what happens;
//! `WEFT_REPLICA_SEEDS=100000` runs that many.

mod log;
mod world;

use self::world::World;
use super::*;

/// The seeds of the short run, and those that are tried for one fault in the table.
const SHORT: u64 = 4_000;
const TRIED: u64 = 2_000;

#[test]
fn controllers_with_one_log_agree_on_what_was_committed() {
    weft_seeds::run("WEFT_REPLICA", SHORT, TABLE, |seed, shows| World::play(seed, TABLE, shows));
}

/// The tables with one action or next state changed.
fn faults() -> Vec<(String, &'static [Row])> {
    let mut faults: Vec<(String, &'static [Row])> = Vec::new();
    for (at, row) in TABLE.iter().enumerate() {
        let mut change = |what: &str, changed: Row| {
            let mut table = TABLE.to_vec();
            table[at] = changed;
            faults.push((format!("{:?} {:?}: {what}", row.state, row.event), table.leak()));
        };
        if row.action != Action::None {
            change("no action", Row { action: Action::None, ..*row });
        }
        if row.next != row.state {
            change("no next state", Row { next: row.state, ..*row });
        }
    }
    faults
}

#[test]
fn a_row_without_one_of_its_effects_is_noticed() {
    weft_seeds::notice(&faults(), TRIED, |seed, table| World::play(seed, table, false));
}
