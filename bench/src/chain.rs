//! `weft-bench chain`: routers in a row, beside as many HAProxies, and beside the original's network
//! when `WEFT_BENCH_ZITI` names its program.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ColumnConstraint, Table};
use serde::Serialize;

use crate::options::{Writes, within};
use crate::path::chain::{Chain, WiredPart};
use crate::path::haproxy::Haproxy;
use crate::path::makes::{Make, Makes};
use crate::path::tcp::Tcp;
use crate::path::tls::Credentials;
use crate::path::wire::Wire;
use crate::work::{self, Basics, MIB, Path, micros};
use crate::{cpu, report};

const HAPROXY: &str = "haproxy";
const WEFT: &str = "weft";
const ORIGINAL: &str = "original";

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
    /// Lays wires of this delay in milliseconds, one way, and measures TCP over such a wire, too
    ///
    /// A wire is a network device: the process must be root, or run in a user's own network namespace
    /// (`unshare -rn sh -c 'ip link set lo up; exec weft-bench chain --delay 10'`).
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
    /// Packets of a wire that are lost at random, in percent
    #[arg(
        long,
        default_value_t = 0.0,
        requires = "delay",
        value_parser = |text: &str| within(text, 0.0, 50.0)
    )]
    loss: f64,
    /// Connections that go over wires
    #[arg(long, value_enum, default_value_t = WiredPart::Links, requires = "delay")]
    wires: WiredPart,
    /// Has the original's routers run at weft's controller, not at the original's
    #[arg(long)]
    same_controller: bool,
    /// Makes each write of the clients of weft and of the original a payload of its own, as a program with
    /// datagrams does; otherwise small writes leave together while others wait
    #[arg(long)]
    messages: bool,
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

impl Row {
    /// The row of another make with the same length and payload.
    fn other<'a>(&self, rows: &'a [Self], make: &str) -> Option<&'a Self> {
        rows.iter().find(|other| {
            other.make == make && (other.length, other.payload) == (self.length, self.payload)
        })
    }
}

/// Measures every chain.
pub(crate) async fn run(options: &Options) -> io::Result<Vec<Row>> {
    let wanted = |make: &str| options.writes.wants(make);
    let credentials = Arc::new(Credentials::make()?);
    let original = Make::original();
    if original.is_none() {
        eprintln!("WEFT_BENCH_ZITI names no program: the original is left out");
    }
    let wire = options.delay.map(|millis| Wire {
        delay: Duration::from_secs_f64(millis / 1000.0),
        rate: options.rate * MIB,
        loss: options.loss / 100.0,
    });
    let wires = wire.map(|wire| (wire, options.wires));
    let (mut rows, messages) = (Vec::new(), options.messages);
    if let Some(wire) = wire.filter(|_| wanted("tcp")) {
        let path: Arc<dyn Path> = Arc::new(Tcp::over(wire).await?);
        measure("tcp", 0, &path, &options.writes, &mut rows).await?;
    }
    for length in options.length.iter().copied() {
        if wanted(HAPROXY) {
            match Haproxy::chain(Arc::clone(&credentials), length, wires).await? {
                Some(chain) => {
                    let chain: Arc<dyn Path> = Arc::new(chain);
                    measure(HAPROXY, length, &chain, &options.writes, &mut rows).await?;
                }
                None => eprintln!("haproxy is not installed: its rows and ratios are left out"),
            }
        }
        if wanted(WEFT) {
            let chain: Arc<dyn Path> =
                Chain::start(&Makes::all(Make::Weft), length, wires, messages).await?;
            measure(WEFT, length, &chain, &options.writes, &mut rows).await?;
        }
        if let Some(original) = original.clone().filter(|_| wanted(ORIGINAL)) {
            let makes = if options.same_controller {
                Makes { controller: Make::Weft, routers: original }
            } else {
                Makes::all(original)
            };
            let chain: Arc<dyn Path> = Chain::start(&makes, length, wires, messages).await?;
            measure(ORIGINAL, length, &chain, &options.writes, &mut rows).await?;
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
    if let Some(table) = beside_original(rows) {
        text.push_str(&format!(
            "\n\nBeside the original\n{table}\nFigures of weft, each with its ratio to those of the original's network with the \
             same chain and payload in this run."
        ));
    }
    text
}

/// Figures of weft, each with its ratio to the original's; `None` if the original was not measured.
fn beside_original(rows: &[Row]) -> Option<Table> {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header([
        "routers",
        "payload",
        "1 flow MiB/s",
        "many MiB/s",
        "rtt p99 us",
        "p99 beside bulk us",
        "set-ups/s",
        "CPU s/GiB, each",
        "MiB each",
    ]);
    for row in rows.iter().filter(|row| row.make == WEFT) {
        let Some(original) = row.other(rows, ORIGINAL) else { continue };
        let beside = |of: fn(&Row) -> Option<f64>, digits: usize| {
            report::beside(of(row), of(original), digits)
        };
        table.add_row([
            row.length.to_string(),
            format!("{} KiB", row.payload / 1024),
            beside(|row| Some(row.basics.single), 0),
            beside(|row| Some(row.basics.many), 0),
            beside(|row| Some(row.basics.p99), 0),
            beside(|row| Some(row.beside_p99), 0),
            beside(|row| Some(row.basics.set_ups), 0),
            beside(|row| row.basics.cpu, 2),
            beside(|row| Some(row.memory), 0),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    (table.row_count() > 0).then_some(table)
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
        "wire bytes/byte",
    ]);
    for row in rows {
        let base = row.other(rows, HAPROXY);
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
            report::beside(row.basics.carried, None, 3),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    if rows.iter().all(|row| row.basics.carried.is_none())
        && let Some(last) = table.column_iter_mut().last()
    {
        last.set_constraint(ColumnConstraint::Hidden);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(make: &'static str, length: usize, single: f64) -> Row {
        let basics = Basics { single, cpu: Some(2.0 * single), ..Basics::default() };
        Row {
            make,
            length,
            payload: 1024,
            basics,
            jain: 1.0,
            beside_p50: 1.0,
            beside_p99: single,
            memory: single,
        }
    }

    #[test]
    fn ratios_to_the_original_are_of_the_same_chain() {
        let rows = [row(WEFT, 1, 30.0), row(ORIGINAL, 1, 10.0), row(WEFT, 2, 20.0)];
        let shown = beside_original(&rows).unwrap();
        assert_eq!(shown.row_count(), 1);
        assert_eq!(shown.to_string().matches("(3.00)").count(), 4, "{shown}");
        let text = text(&rows);
        assert!(text.contains("Beside the original") && !text.contains("HAProxies"), "{text}");
        assert!(beside_original(&[row(WEFT, 1, 30.0), row(HAPROXY, 1, 10.0)]).is_none());
    }
}
