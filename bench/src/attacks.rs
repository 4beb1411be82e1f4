//! `weft-bench attacks`: honest clients beside one enrolled client that means harm.
//!
//! One controller and one router, as in a quickstart. An honest client dials, uses and closes connections, and another
//! makes calls of the API, each over a new TLS connection, both at fixed rates: an operation begins at its time, whether
//! or not the former ones are done. The attacker is an identity with the right to dial and host everything, on a thread of
//! its own, at a fixed rate and with at most a fixed share of one processor: what it takes from the honest ones beyond
//! that share, it takes by what it makes the network do. Before each attack the honest clients are measured alone.

mod honest;
mod mallory;
mod pace;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use serde_json::json;
use weft_contract::resource;

use self::honest::{Honest, Seen};
use self::mallory::{Attack, Mallory};
use crate::cpu;
use crate::options::within;
use crate::path::weft::{Network, create, enrolled};
use crate::work::micros;

/// The service of the attacker, which the attacker alone hosts and dials.
const OWN: &str = "attacker";
/// Calm after an attack, until the honest clients are measured alone once more.
const CALM: Duration = Duration::from_secs(3);

/// The measurements to run, and their length.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Seconds that the honest clients are measured, alone and beside each attack
    #[arg(long, default_value_t = 10.0, value_parser = |text: &str| within(text, 0.1, 3600.0))]
    seconds: f64,
    /// Dials and calls of the honest clients per second, each
    #[arg(long, default_value_t = 50.0, value_parser = |text: &str| within(text, 0.1, 10_000.0))]
    honest: f64,
    /// Attempts of the attacker per second
    #[arg(long, default_value_t = 1000.0, value_parser = |text: &str| within(text, 0.1, 100_000.0))]
    rate: f64,
    /// The share of one processor that the attacker's own program may take, in percent
    #[arg(long, default_value_t = 20.0, value_parser = |text: &str| within(text, 0.1, 100.0))]
    share: f64,
    /// Services of the network, which the attacker's filter searches
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    services: u32,
    /// Runs only the attacks whose name contains this text
    #[arg(long)]
    only: Option<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// The figures of one attack.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    attack: &'static str,
    /// Attempts per second, and how many of a hundred were refused.
    rate: f64,
    refused: f64,
    /// Processors that controller and router used, alone and beside the attack.
    relays: [f64; 2],
    /// The honest clients, alone and beside the attack.
    dials: [Times; 2],
    calls: [Times; 2],
}

/// How long the operations of an honest client took.
#[derive(Debug, Clone, Copy, Serialize)]
struct Times {
    /// Milliseconds.
    p50: f64,
    p99: f64,
    failed: u64,
}

impl From<&Seen> for Times {
    fn from(seen: &Seen) -> Self {
        let millis = |part| micros(&seen.times, part) / 1000.0;
        Self { p50: millis(0.5), p99: millis(0.99), failed: seen.failed }
    }
}

/// Measures it.
pub(crate) async fn run(options: &Options) -> io::Result<Vec<Row>> {
    let network = Arc::new(Network::start().await?);
    for (name, encrypted) in [(honest::SERVICE, true), (OWN, false)] {
        let service = json!({"name": name, "encryptionRequired": encrypted});
        create(network.client(), &resource::service::KIND, &service).await?;
    }
    eprintln!("{} services are made", options.services);
    for number in 0..options.services {
        let roles = [format!("z{}", number % 7), format!("team-{}", number % 40)];
        let service = json!({
            "name": format!("service z{number}"), "encryptionRequired": true, "roleAttributes": roles,
        });
        create(network.client(), &resource::service::KIND, &service).await?;
    }
    let honest = Honest::start(&network, options.honest).await?;
    let identity = enrolled(network.client(), "attacker").await?;
    let duration = Duration::from_secs_f64(options.seconds);
    let mut rows = Vec::new();
    let wanted = |attack: &Attack| {
        options.only.as_ref().is_none_or(|only| attack.name().contains(only.as_str()))
    };
    for attack in Attack::ALL.into_iter().filter(wanted) {
        eprintln!("alone");
        let alone = measured(&network, &honest, duration).await?;
        eprintln!("beside: {}", attack.name());
        let mallory = Mallory::start(identity.clone(), attack, options.rate, options.share / 100.0);
        let mallory = mallory.await?;
        let beside = measured(&network, &honest, duration).await?;
        let done = mallory.stop().await?;
        let attempts = (done.attempts as f64).max(1.0);
        if let Some(reason) = &done.reason {
            eprintln!("{} of {} attempts were refused: {reason}", done.refused, done.attempts);
        }
        rows.push(Row {
            attack: attack.name(),
            rate: attempts / done.took.as_secs_f64().max(1e-9),
            refused: 100.0 * done.refused as f64 / attempts,
            relays: [alone.relays, beside.relays],
            dials: [(&alone.dials).into(), (&beside.dials).into()],
            calls: [(&alone.calls).into(), (&beside.calls).into()],
        });
        tokio::time::sleep(CALM).await;
    }
    Ok(rows)
}

/// What was measured of the honest clients.
struct Measured {
    dials: Seen,
    calls: Seen,
    relays: f64,
}

async fn measured(network: &Network, honest: &Honest, duration: Duration) -> io::Result<Measured> {
    let used = || cpu::cpu_time(network.pid()).unwrap_or_default();
    let (before, begun) = (used(), std::time::Instant::now());
    let (dials, calls) = tokio::try_join!(honest.dial(duration), honest.call(duration))?;
    let relays = used().saturating_sub(before).as_secs_f64() / begun.elapsed().as_secs_f64();
    Ok(Measured { dials, calls, relays })
}

/// The table, with a legend.
pub(crate) fn text(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header([
        "attack",
        "attempts/s (refused)",
        "relays, CPUs",
        "honest",
        "p50 ms",
        "p99 ms",
        "ratio of p99",
        "failed",
    ]);
    for row in rows {
        for (what, [alone, beside]) in [("dials", row.dials), ("API calls", row.calls)] {
            let is_first = what == "dials";
            let first = |text: String| if is_first { text } else { String::new() };
            table.add_row([
                first(row.attack.to_owned()),
                first(format!("{:.0} ({:.0} %)", row.rate, row.refused)),
                first(format!("{:.2} → {:.2}", row.relays[0], row.relays[1])),
                what.to_owned(),
                format!("{:.2} → {:.2}", alone.p50, beside.p50),
                format!("{:.2} → {:.2}", alone.p99, beside.p99),
                format!("{:.2}", beside.p99 / alone.p99.max(1e-9)),
                format!("{} → {}", alone.failed, beside.failed),
            ]);
        }
    }
    for column in table.column_iter_mut().skip(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!(
        "{table}\nHonest clients alone → beside the attack; an operation that failed counts with the time that it took. \
         Relays are controller and router together. The aim is a ratio of at most 2."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_that_of_the_attack_to_the_calm_before() {
        let times = |p99, failed| Times { p50: 1.0, p99, failed };
        let row = Row {
            attack: "silent hosts",
            rate: 999.6,
            refused: 12.0,
            relays: [0.1, 0.5],
            dials: [times(2.0, 0), times(3.0, 1)],
            calls: [times(5.0, 0), times(20.0, 0)],
        };
        let text = text(&[row]);
        for part in ["1000 (12 %)", "2.00 → 3.00", "1.50", "0 → 1", "4.00"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
