//! `weft-bench chain`: routers in a row, beside as many HAProxies, and beside the original's routers
//! when `WEFT_BENCH_ZITI` names its program.

use std::{io, sync::Arc, time::Duration};

use clap::Args;
use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;

use crate::{
    cpu,
    path::{
        chain::{Chain, original},
        haproxy::Haproxy,
        tcp::Tcp,
        tls::Credentials,
        wire::Wire,
    },
    program, relay_cpu, work,
    work::Path,
};

/// What to measure and for how long.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Routers in a row
    #[arg(long, value_delimiter = ',', default_values_t = [1_usize, 2, 3])]
    length: Vec<usize>,
    /// Sizes of each write, in KiB
    #[arg(long, value_delimiter = ',', default_values_t = [1_usize, 32])]
    payload: Vec<usize>,
    /// Flows at once where many are measured
    #[arg(long, default_value_t = 50)]
    flows: usize,
    /// Seconds that one figure should take
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Lays each link, and the connection of `tcp`, over a wire of this delay in milliseconds, one way
    #[arg(long)]
    delay: Option<f64>,
    /// Rate of a wire in MiB per second, each way
    #[arg(long, default_value_t = 100.0, requires = "delay")]
    rate: f64,
    /// Only makes whose name contains this: tcp, haproxy, weft, original
    #[arg(long)]
    only: Option<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// The figures of one chain with one payload size.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    make: &'static str,
    length: usize,
    payload: usize,
    single: f64,
    many: f64,
    jain: f64,
    p50: f64,
    p99: f64,
    beside_p50: f64,
    beside_p99: f64,
    set_ups: f64,
    /// Processor seconds per GiB and router.
    cpu: f64,
    /// MiB that a router holds at the end, at most.
    memory: f64,
}

/// Measures every chain.
pub(crate) async fn run(options: &Options) -> io::Result<Vec<Row>> {
    let wanted = |make: &str| options.only.as_ref().is_none_or(|only| make.contains(only.as_str()));
    let credentials = Arc::new(Credentials::make()?);
    let original = original();
    if original.is_none() {
        eprintln!("WEFT_BENCH_ZITI names no program: the original is left out");
    }
    let wire = options.delay.map(|millis| Wire {
        delay: Duration::from_secs_f64(millis.max(0.0) / 1000.0),
        rate: options.rate.max(0.001) * 1_048_576.0,
    });
    let mut rows = Vec::new();
    if let Some(wire) = wire.filter(|_| wanted("tcp")) {
        let path: Arc<dyn Path> = Arc::new(Tcp::over(wire).await?);
        measure("tcp", 0, &path, options, &mut rows).await?;
    }
    for length in options.length.iter().copied().filter(|length| *length > 0) {
        if wanted("haproxy") && wire.is_none() {
            match Haproxy::chain(Arc::clone(&credentials), length).await? {
                Some(chain) => {
                    let chain: Arc<dyn Path> = Arc::new(chain);
                    measure("haproxy", length, &chain, options, &mut rows).await?;
                }
                None => eprintln!("haproxy is not installed: its rows and ratios are left out"),
            }
        }
        if wanted("weft") {
            let chain: Arc<dyn Path> = Chain::start(&program::weft()?, length, wire).await?;
            measure("weft", length, &chain, options, &mut rows).await?;
        }
        if let Some(program) = original.as_ref().filter(|_| wanted("original")) {
            let chain: Arc<dyn Path> = Chain::start(program, length, wire).await?;
            measure("original", length, &chain, options, &mut rows).await?;
        }
    }
    Ok(rows)
}

async fn measure(
    make: &'static str,
    length: usize,
    path: &Arc<dyn Path>,
    options: &Options,
    rows: &mut Vec<Row>,
) -> io::Result<()> {
    const MIB: f64 = 1024.0 * 1024.0;
    let duration = Duration::from_secs_f64(options.seconds);
    for payload in options.payload.iter().map(|payload| payload * 1024) {
        eprintln!("{make}, {length} in a row, {} KiB", payload / 1024);
        let probe: u64 = 16 << 20;
        let took = work::bulk(path, 1, payload, probe).await?.as_secs_f64().max(0.001);
        let total = ((probe as f64 / took * options.seconds) as u64).clamp(probe, 64 << 30);
        let before = relay_cpu(path.as_ref());
        let single = work::bulk(path, 1, payload, total).await?.as_secs_f64();
        let used = relay_cpu(path.as_ref()).saturating_sub(before).as_secs_f64();
        let many = work::bulk(path, options.flows.max(1), payload, total).await?.as_secs_f64();
        let alone = work::round_trips(path, 64, 1000).await?;
        let (beside, jain) = work::ping_beside(path, options.flows, payload, duration * 2).await?;
        let set_ups = work::set_ups(path, 16, duration).await?;
        let micros = |times: &hdrhistogram::Histogram<u64>, quantile: f64| {
            times.value_at_quantile(quantile) as f64 / 1000.0
        };
        let memory = path.relay().into_iter().filter_map(cpu::resident).max().unwrap_or(0);
        rows.push(Row {
            make,
            length,
            payload,
            single: total as f64 / MIB / single,
            many: total as f64 / MIB / many,
            jain,
            p50: micros(&alone, 0.50),
            p99: micros(&alone, 0.99),
            beside_p50: micros(&beside, 0.50),
            beside_p99: micros(&beside, 0.99),
            set_ups,
            cpu: used / (total as f64 / (1024.0 * MIB)) / length.max(1) as f64,
            memory: memory as f64 / MIB,
        });
    }
    Ok(())
}

/// The table for people: each figure, with its ratio to HAProxy's of the same chain and payload.
pub(crate) fn table(rows: &[Row]) -> Table {
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
        let of_base = |of: fn(&Row) -> f64| {
            let same = |other: &&Row| {
                other.make == "haproxy"
                    && (other.length, other.payload) == (row.length, row.payload)
            };
            rows.iter().find(same).map(of)
        };
        let beside = |of: fn(&Row) -> f64, digits: usize| match of_base(of) {
            Some(other) if other > 0.0 => format!("{:.digits$} ({:.2})", of(row), of(row) / other),
            _ => format!("{:.digits$}", of(row)),
        };
        table.add_row([
            format!("{} {}", row.length, row.make),
            format!("{} KiB", row.payload / 1024),
            beside(|row| row.single, 0),
            beside(|row| row.many, 0),
            format!("{:.2}", row.jain),
            beside(|row| row.p50, 0),
            beside(|row| row.p99, 0),
            beside(|row| row.beside_p50, 0),
            beside(|row| row.beside_p99, 0),
            beside(|row| row.set_ups, 0),
            beside(|row| row.cpu, 2),
            format!("{:.0}", row.memory),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
