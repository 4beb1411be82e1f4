//! Networks to which anything happens. `WEFT_SEEDS=1000` asks for so many runs, `WEFT_SEED=17` for this one with all that
//! happens, `WEFT_LOG=1` for the log of the controller as well.

use std::time::Duration;

use weft_simulator::run;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

#[test]
fn no_rule_is_broken() {
    let faults = Duration::from_secs(number("WEFT_FAULTS").unwrap_or(120));
    let only = number("WEFT_SEED");
    let seeds = only.map_or(0..number("WEFT_SEEDS").unwrap_or(24), |only| only..only + 1);
    if number("WEFT_LOG").is_some() {
        let log = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).without_time();
        log.with_writer(std::io::stdout).with_ansi(false).init();
    }
    let (mut made, mut survived) = (0, 0);
    for seed in seeds {
        match run(seed, faults) {
            Ok(summary) => {
                made += summary.made;
                survived += summary.survived;
                if only.is_some() {
                    summary.events.iter().for_each(|(at, event)| println!("{at:>8} {event}"));
                }
            }
            Err(violation) => {
                for (at, event) in &violation.summary.events {
                    println!("{at:>8} {event}");
                }
                panic!("seed {seed} (WEFT_SEED={seed} runs it again): {}", violation.rule);
            }
        }
    }
    println!("{made} circuits were made, {survived} of them lived until the faults were over");
    assert!(only.is_some() || survived > 0, "the runs have no circuits");
}
