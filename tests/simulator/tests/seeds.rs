//! Networks to which anything happens. `WEFT_SEEDS=1000` asks for so many runs, `WEFT_FIRST=5000` for those from this
//! seed on, `WEFT_SEED=17` for this one with all that happens, `WEFT_LOG=1` for the log of the controller as well.

use std::time::Duration;

use weft_simulator::{rows, run};

/// Most seeds that are run after the others until they have taken every row.
const MORE: u64 = 400;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

#[test]
fn no_rule_is_broken() {
    let faults = Duration::from_secs(number("WEFT_FAULTS").unwrap_or(120));
    let only = number("WEFT_SEED");
    let first = number("WEFT_FIRST").unwrap_or(0);
    let count = number("WEFT_SEEDS").unwrap_or(24);
    let many = || first..first + count;
    let seeds = only.map_or_else(many, |only| only..only + 1);
    if number("WEFT_LOG").is_some() {
        let log = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).without_time();
        log.with_writer(std::io::stdout).with_ansi(false).init();
    }
    let (mut made, mut survived, mut broken) = (0, 0, Vec::new());
    for seed in seeds {
        let ran = run(seed, faults);
        let summary = match &ran {
            Ok(summary) => summary,
            Err(violation) => {
                println!("seed {seed} (WEFT_SEED={seed} runs it again): {}", violation.rule);
                broken.push(seed);
                &violation.summary
            }
        };
        made += summary.made;
        survived += summary.survived;
        if only.is_some() {
            summary.events.iter().for_each(|(at, event)| println!("{at:>8} {event}"));
        }
    }
    println!("{made} circuits were made, {survived} of them lived until the faults were over");
    if only.is_none() {
        if first == 0 && broken.is_empty() {
            broken.extend(take_all_rows(count, faults));
        }
        println!("{}", rows::coverage());
    }
    assert!(broken.is_empty(), "rules are broken at the seeds {broken:?}");
    assert!(only.is_some() || survived > 0, "the runs have no circuits");
}

/// Goes on with seeds after the first `count` ones until each row of the tables was taken. Returns a seed that breaks a
/// rule.
fn take_all_rows(count: u64, faults: Duration) -> Option<u64> {
    for seed in count..count + MORE {
        if rows::missing().is_empty() {
            break;
        }
        if let Err(violation) = run(seed, faults) {
            println!("seed {seed} (WEFT_SEED={seed} runs it again): {}", violation.rule);
            return Some(seed);
        }
    }
    let (missing, unknown) = (rows::missing(), rows::unknown());
    assert!(missing.is_empty(), "rows that no seed took: {missing:#?}");
    assert!(unknown.is_empty(), "rows that no table has: {unknown:#?}");
    None
}
