//! `weft-bench counters`: the share of a router's processor time that counting takes.
//!
//! Three routers in a row carry one flow, and the one in the middle forwards: a message comes over one
//! link and leaves over another. For each message that router counts message and bytes for both
//! links and, coming and leaving, for all links together; for each payload also the bytes of the circuit, coming
//! and leaving. Services and terminators cost nothing there: a controller adds them up from
//! reports of circuits.
//!
//! A release without counters does not exist, so that the share is put together from three figures of one run:
//!
//! * the messages that came, from the router's own counters before and after (`fabric.rx.msgsize`);
//! * the processor time of the router meanwhile, from `/proc`;
//! * the time of counting one message, measured in this process with the counters of the router (`weft_metrics`)
//!   over many links and circuits in an order that caches cannot foresee. The loop itself is part of that time, and every
//!   message is counted as a payload: the share is too large rather than too small.

use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::Serialize;
use weft_metrics::MessageCounter;
use weft_metrics::usage::{Cells, UsageDirection};

use crate::cpu;
use crate::options::Writes;
use crate::path::chain::Chain;
use crate::path::makes::{Make, Makes};
use crate::work::{self, MIB, Path};

/// Routers in a row.
const LENGTH: usize = 3;
/// The place of the router that forwards.
const MIDDLE: usize = 1;
/// Links of the router whose counting is measured here.
const LINKS: usize = 64;
/// Circuits of that router.
const CIRCUITS: usize = 20_000;
/// Messages that are counted for one figure.
const COUNTED: usize = 20_000_000;
/// Messages whose links, circuits and sizes are chosen before they are counted.
const CHOSEN: usize = 1 << 16;

/// The measurements to run, and their length.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) writes: Writes,
}

/// The figures of one payload size.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    payload: usize,
    /// MiB per second of the flow.
    rate: f64,
    /// Messages that the router in the middle forwarded: payloads and acks.
    messages: u64,
    /// Processor time of the router for each of them, in nanoseconds.
    forwarding: f64,
    /// Time of counting one of them, in nanoseconds.
    counting: f64,
    /// The share of the processor time that counting takes.
    share: f64,
}

/// Measures it.
pub(crate) async fn run(options: &Options) -> io::Result<Vec<Row>> {
    let chain = Chain::start(&Makes::all(Make::Weft), LENGTH, None, true).await?;
    let path: Arc<dyn Path> = chain.clone();
    let pid = path.relay().get(MIDDLE).copied();
    let pid = pid.ok_or_else(|| io::Error::other("the chain has no router in the middle"))?;
    let gone = || io::Error::other("the router in the middle is gone");
    let mut rows = Vec::new();
    for payload in options.writes.payloads(&[1, 32]) {
        eprintln!("{LENGTH} routers in a row, {} KiB", payload / 1024);
        let counting = tokio::task::spawn_blocking(move || counting(payload, COUNTED));
        let counting = counting.await.map_err(io::Error::other)?;
        let messages = chain.messages(MIDDLE).await?;
        let before = cpu::cpu_time(pid).ok_or_else(gone)?;
        let (bytes, took) = work::one_flow(&path, payload, &options.writes).await?;
        let used = cpu::cpu_time(pid).ok_or_else(gone)?.saturating_sub(before);
        let messages = chain.messages(MIDDLE).await?.saturating_sub(messages);
        let forwarding = used.as_secs_f64() * 1e9 / messages.max(1) as f64;
        rows.push(Row {
            payload,
            rate: bytes as f64 / MIB / took.as_secs_f64(),
            messages,
            forwarding,
            counting,
            share: counting / forwarding,
        });
    }
    Ok(rows)
}

/// A message to be counted.
struct Message {
    from: usize,
    to: usize,
    circuit: usize,
    bytes: usize,
}

/// The time of counting a message of a circuit that is forwarded, in nanoseconds; the mean of so many
/// `times`.
fn counting(payload: usize, times: usize) -> f64 {
    let counters = |count: usize| -> Vec<[MessageCounter; 2]> {
        std::iter::repeat_with(Default::default).take(count).collect()
    };
    let (links, [all_came, all_left]) = (counters(LINKS), <[MessageCounter; 2]>::default());
    let circuits: Vec<Cells> = std::iter::repeat_with(Cells::default).take(CIRCUITS).collect();
    let mut random = StdRng::seed_from_u64(1);
    let choose = || Message {
        from: random.random_range(0..LINKS),
        to: random.random_range(0..LINKS),
        circuit: random.random_range(0..CIRCUITS),
        // Half of the messages are acks.
        bytes: if random.random() { payload } else { 40 },
    };
    let messages: Vec<Message> = std::iter::repeat_with(choose).take(CHOSEN).collect();
    let count = |message: &Message| {
        let Message { from, to, circuit, bytes } = *message;
        let (Some(from), Some(to), Some(circuit)) =
            (links.get(from), links.get(to), circuits.get(circuit))
        else {
            return;
        };
        let ([came, _], [_, left]) = (from, to);
        for counter in [came, &all_came] {
            counter.message(bytes);
        }
        circuit.add(UsageDirection::FabricRx, bytes);
        circuit.add(UsageDirection::FabricTx, bytes);
        for counter in [left, &all_left] {
            counter.message(bytes);
        }
    };
    messages.iter().for_each(count);
    let begun = Instant::now();
    for message in messages.iter().cycle().take(times) {
        count(black_box(message));
    }
    begun.elapsed().as_secs_f64() * 1e9 / times as f64
}

/// The table, with the aim.
pub(crate) fn text(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header([
        "payload",
        "1 flow MiB/s",
        "messages forwarded",
        "CPU ns/message",
        "counting ns/message",
        "share",
    ]);
    for row in rows {
        table.add_row([
            format!("{} KiB", row.payload / 1024),
            format!("{:.0}", row.rate),
            row.messages.to_string(),
            format!("{:.0}", row.forwarding),
            format!("{:.1}", row.counting),
            format!("{:.2} %", row.share * 100.0),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!(
        "{table}\nOf the router in the middle of {LENGTH}. Counting is to take less than 2 % of the throughput."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_takes_time() {
        let nanos = counting(1024, 10_000);
        assert!(nanos > 0.0 && nanos.is_finite(), "{nanos}");
    }
}
