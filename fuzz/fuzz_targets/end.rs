//! The ends of circuits: two that are connected, or one whose peer sends anything, under any schedule.
//! The tests of `weft-xgress` play the same schedules.
#![cfg_attr(fuzzing, no_main)]

#[path = "../../crates/data/xgress/tests/schedules/pair.rs"]
mod pair;
#[path = "../../crates/data/xgress/tests/schedules/stranger.rs"]
mod stranger;

/// More steps show nothing new, and make the fuzzer slow.
const MOST_STEPS: usize = 1000;

// One end or two, the options, and the steps.
fn target(bytes: &[u8]) {
    let [which, options, steps @ ..] = bytes else { return };
    if which & 1 == 0 {
        let (steps, _) = steps.as_chunks::<3>();
        let steps =
            steps.iter().map(|[kind, low, high]| (*kind, u16::from_le_bytes([*low, *high])));
        pair::play(*options, &steps.take(MOST_STEPS).collect::<Vec<_>>());
    } else {
        let (steps, _) = steps.as_chunks::<7>();
        let steps = steps.iter().map(|[kind, rest @ ..]| (*kind, *rest));
        stranger::play(*options, &steps.take(MOST_STEPS).collect::<Vec<_>>());
    }
}

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target(bytes));

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    weft_fuzz::replay(target)
}
