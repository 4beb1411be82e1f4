//! `weft-bench chain`: routers in a row, beside as many HAProxies, and beside the original's routers
//! when `WEFT_BENCH_ZITI` names its program.

use std::{io, sync::Arc, time::Duration};

use clap::{Args, builder::RangedU64ValueParser};
use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;

use crate::{
    cpu,
    options::{Writes, within},
    path::{
        chain::{Chain, original},
        haproxy::Haproxy,
        tcp::Tcp,
        tls::Credentials,
        wire::Wire,
    },
    program, report,
    work::{self, Basics, MIB, Path, micros},
};

const HAPROXY: &str = "haproxy";

/// The measurements to run, and their length.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Routers in a row
    #[arg(
        long,
        value_delimiter = ',',
        default_values_t = [1_usize, 2, 3],
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=100)
    )]
    length: Vec<usize>,
    /// Lays each link, and the connection of `tcp`, over a wire of this delay in milliseconds, one way
    #[arg(long, value_parser = |text: &str| within(text, 0.0, 10_000.0))]
    delay: Option<f64>,
    /// Rate of a wire in MiB per second, each way
    #[arg(
        long,
        default_value_t = 100.0,
        requires = "delay",
        value_parser = |text: &str| within(text, 0.001, 100_000.0)
    )]
    rate: f64,
    #[command(flatten)]
    pub(crate) writes: Writes,
}

/// The figures of one chain with one payload size.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    make: &'static str,
    length: usize,
    payload: usize,
    /// Measured values; processor time for each router's share.
    #[serde(flatten)]
    basics: Basics,
    /// How evenly many flows were served.
    jain: f64,
    /// Round trips beside many flows, microseconds.
    beside_p50: f64,
    beside_p99: f64,
    /// MiB that a router holds at the end, at most.
    memory: f64,
}

/// Measures every chain.
pub(crate) async fn run(options: &Options) -> io::Result<Vec<Row>> {
    let wanted = |make: &str| options.writes.wants(make);
    let credentials = Arc::new(Credentials::make()?);
    let original = original();
    if original.is_none() {
        eprintln!("WEFT_BENCH_ZITI names no program: the original is left out");
    }
    let wire = options.delay.map(|millis| Wire {
        delay: Duration::from_secs_f64(millis / 1000.0),
        rate: options.rate * MIB,
    });
    let mut rows = Vec::new();
    if let Some(wire) = wire.filter(|_| wanted("tcp")) {
        let path: Arc<dyn Path> = Arc::new(Tcp::over(wire).await?);
        measure("tcp", 0, &path, &options.writes, &mut rows).await?;
    }
    for length in options.length.iter().copied() {
        if wanted(HAPROXY) && wire.is_none() {
            match Haproxy::chain(Arc::clone(&credentials), length).await? {
                Some(chain) => {
                    let chain: Arc<dyn Path> = Arc::new(chain);
                    measure(HAPROXY, length, &chain, &options.writes, &mut rows).await?;
                }
                None => eprintln!("haproxy is not installed: its rows and ratios are left out"),
            }
        }
        if wanted("weft") {
            let chain: Arc<dyn Path> = Chain::start(&program::weft()?, length, wire).await?;
            measure("weft", length, &chain, &options.writes, &mut rows).await?;
        }
        if let Some(program) = original.as_ref().filter(|_| wanted("original")) {
            let chain: Arc<dyn Path> = Chain::start(program, length, wire).await?;
            measure("original", length, &chain, &options.writes, &mut rows).await?;
        }
    }
    Ok(rows)
}

async fn measure(
    make: &'static str,
    length: usize,
    path: &Arc<dyn Path>,
    writes: &Writes,
    rows: &mut Vec<Row>,
) -> io::Result<()> {
    let duration = Duration::from_secs_f64(writes.seconds);
    for payload in writes.payloads(&[1, 32]) {
        eprintln!("{make}, {length} in a row, {} KiB", payload / 1024);
        let mut basics = work::basics(path, payload, writes).await?;
        basics.cpu = basics.cpu.map(|all| all / length.max(1) as f64);
        basics.per_payload = basics.per_payload.map(|all| all / length.max(1) as f64);
        let (beside, jain) = work::ping_beside(path, writes.flows, payload, duration * 2).await?;
        let memory = path.relay().into_iter().filter_map(cpu::resident).max().unwrap_or(0);
        rows.push(Row {
            make,
            length,
            payload,
            basics,
            jain,
            beside_p50: micros(&beside, 0.50),
            beside_p99: micros(&beside, 0.99),
            memory: memory as f64 / MIB,
        });
    }
    Ok(())
}

/// The table, with a legend of the ratios; without HAProxy there are no ratios.
pub(crate) fn text(rows: &[Row]) -> String {
    let mut text = table(rows).to_string();
    if rows.iter().any(|row| row.make == HAPROXY) {
        text.push_str(
            "\nIn parentheses: the ratio to as many HAProxies in a row, TLS to TLS, in this run.",
        );
    }
    text
}

/// The table for people: each figure, with its ratio to HAProxy's of the same chain and payload.
fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header([
        "routers",
        "payload",
        "1 flow MiB/s",
        "many MiB/s",
        "Jain",
        "rtt p50 us",
        "p99",
        "beside bulk p50 us",
        "p99",
        "set-ups/s",
        "CPU s/GiB, each",
        "MiB each",
    ]);
    for row in rows {
        let base = rows.iter().find(|other| {
            other.make == HAPROXY && (other.length, other.payload) == (row.length, row.payload)
        });
        let beside = |of: fn(&Row) -> Option<f64>, digits: usize| {
            report::beside(of(row), base.and_then(of), digits)
        };
        table.add_row([
            format!("{} {}", row.length, row.make),
            format!("{} KiB", row.payload / 1024),
            beside(|row| Some(row.basics.single), 0),
            beside(|row| Some(row.basics.many), 0),
            format!("{:.2}", row.jain),
            beside(|row| Some(row.basics.p50), 0),
            beside(|row| Some(row.basics.p99), 0),
            beside(|row| Some(row.beside_p50), 0),
            beside(|row| Some(row.beside_p99), 0),
            beside(|row| Some(row.basics.set_ups), 0),
            beside(|row| row.basics.cpu, 2),
            format!("{:.0}", row.memory),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
