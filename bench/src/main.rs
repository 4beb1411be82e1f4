//! Measures weft beside plain TCP, one TLS connection and HAProxy relaying TLS to TLS, on this
//! machine and in one run, and prints a table with ratios.
//!
//! Client and server of every path are in this process; the relay between them (HAProxy, the weft
//! router) is a process of its own, whose processor time is read from `/proc`. Figures of different
//! runs are not comparable; ratios within one run are.
//!
//! Other things are measured by `weft-bench scale`, one controller with a large model, `weft-bench
//! mesh`, one controller with many routers, links and circuits, `weft-bench chain`, several routers
//! in a row, `weft-bench counters`, the share of counting in a router's work, `weft-bench proofs`, what it costs that ends
//! prove themselves to each other, `weft-bench attacks`, honest clients beside one that means harm, and `weft-bench cluster`,
//! changes of the model that several controllers share.

mod apart;
mod attacks;
mod chain;
mod cluster;
mod counters;
mod cpu;
mod ends;
mod mesh;
mod options;
mod path;
mod program;
mod proofs;
mod report;
mod router;
mod scale;
mod work;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime::Builder;

use crate::options::Writes;
use crate::path::haproxy::Haproxy;
use crate::path::tcp::Tcp;
use crate::path::tls::{Credentials, Tls};
use crate::path::weft::Network;
use crate::report::Row;
use crate::work::Path;

/// The path that ratios are to.
const HAPROXY: &str = "haproxy tls-tls";

/// What to measure and for how long.
#[derive(Debug, Parser)]
#[command(
    name = "weft-bench",
    about = "Measures weft beside TCP, TLS and HAProxy in one run",
    args_conflicts_with_subcommands = true
)]
struct Options {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    writes: Writes,
}

/// Other things to measure.
#[derive(Debug, Subcommand)]
enum Other {
    /// Measures a controller with a large network
    Scale(scale::Options),
    /// Measures routers in a row, beside HAProxies and the original's routers (WEFT_BENCH_ZITI)
    Chain(chain::Options),
    /// Measures the share of a router's processor time that counting takes
    Counters(counters::Options),
    /// Measures a controller with a large mesh of simulated routers
    Mesh(mesh::Options),
    /// Measures set-ups between ends that prove themselves to each other, beside ends that do not
    Proofs(proofs::Options),
    /// Measures honest clients beside an enrolled client that floods the network, in four ways
    Attacks(attacks::Options),
    /// Measures durable changes with the log in a file, and in etcd for one controller and for three
    Cluster(cluster::Options),
}

impl Options {
    /// Whether relays have processors of their own.
    fn is_apart(&self) -> bool {
        match &self.other {
            Some(Other::Chain(options)) => options.writes.apart,
            Some(Other::Counters(options)) => options.writes.apart,
            Some(Other::Proofs(options)) => options.apart,
            Some(Other::Scale(_) | Other::Mesh(_) | Other::Attacks(_) | Other::Cluster(_)) => false,
            None => self.writes.apart,
        }
    }
}

/// A path that can be measured, with its name.
type Named = (&'static str, Arc<dyn Path>);

fn main() -> ExitCode {
    let options = Options::parse();
    if options.is_apart()
        && let Err(error) = divide()
    {
        eprintln!("weft-bench: {error}");
        return ExitCode::FAILURE;
    }
    let runtime = match &options.other {
        Some(Other::Scale(_) | Other::Mesh(_) | Other::Cluster(_)) => {
            Builder::new_multi_thread().enable_all().build()
        }
        Some(Other::Chain(_) | Other::Counters(_) | Other::Proofs(_) | Other::Attacks(_))
        | None => ends::start(),
    };
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("weft-bench: {error}");
            return ExitCode::FAILURE;
        }
    };
    let figures = |figures: &[scale::Figure]| scale::table(figures).to_string();
    match options.other {
        Some(Other::Scale(options)) => {
            let json = options.run.json;
            report::print(runtime.block_on(scale::run(options)), json, figures)
        }
        Some(Other::Mesh(options)) => {
            let json = options.run.json;
            report::print(runtime.block_on(mesh::run(options)), json, figures)
        }
        Some(Other::Chain(options)) => {
            report::print(runtime.block_on(chain::run(&options)), options.writes.json, chain::text)
        }
        Some(Other::Counters(options)) => report::print(
            runtime.block_on(counters::run(&options)),
            options.writes.json,
            counters::text,
        ),
        Some(Other::Proofs(options)) => {
            report::print(runtime.block_on(proofs::run(&options)), options.json, proofs::text)
        }
        Some(Other::Attacks(options)) => {
            report::print(runtime.block_on(attacks::run(&options)), options.json, attacks::text)
        }
        Some(Other::Cluster(options)) => {
            report::print(runtime.block_on(cluster::run(&options)), options.json, cluster::text)
        }
        None => {
            let writes = options.writes;
            report::print(runtime.block_on(run(&writes)), writes.json, text)
        }
    }
}

/// Gives relays processors of their own, and prints their numbers.
fn divide() -> io::Result<()> {
    let [clients, relays] = apart::divide()?;
    eprintln!(
        "clients and servers on processors {clients:?}, relays and controllers on {relays:?}"
    );
    Ok(())
}

/// The table, with a legend of the ratios; without HAProxy there are no ratios.
fn text(rows: &[Row]) -> String {
    let mut text = report::table(rows, HAPROXY).to_string();
    if rows.iter().any(|row| row.path == HAPROXY) {
        text.push_str("\nIn parentheses: the ratio to HAProxy with the same payload, in this run.");
    }
    text + "\nThe processor time of weft is that of controller and router together."
}

async fn run(writes: &Writes) -> io::Result<Vec<Row>> {
    let (paths, payloads) = (paths(writes).await?, writes.payloads(&[1, 10, 32]));
    let progress = ProgressBar::new((paths.len() * payloads.len()) as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
        progress.set_style(style);
    }
    let mut rows = Vec::new();
    for (name, path) in &paths {
        for payload in payloads.iter().copied() {
            progress.set_message(format!("{name}, {} KiB", payload / 1024));
            let basics = work::basics(path, payload, writes).await?;
            rows.push(Row { path: (*name).to_owned(), payload, basics });
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    Ok(rows)
}

async fn paths(writes: &Writes) -> io::Result<Vec<Named>> {
    let wanted = |name: &str| writes.wants(name);
    let credentials = Arc::new(Credentials::make()?);
    let mut paths: Vec<Named> = Vec::new();
    if wanted("tcp") {
        paths.push(("tcp", Arc::new(Tcp::start().await?)));
    }
    if wanted("tls") {
        paths.push(("tls", Arc::new(Tls::start(Arc::clone(&credentials)).await?)));
    }
    if wanted(HAPROXY) {
        match Haproxy::start(credentials).await? {
            Some(relay) => paths.push((HAPROXY, Arc::new(relay))),
            None => eprintln!("haproxy is not installed: its rows and all ratios are left out"),
        }
    }
    const WEFT: [(&str, bool, bool); 4] = [
        ("weft sdk-sdk plain", false, false),
        ("weft sdk-sdk encrypted", false, true),
        ("weft sdk-tunnel plain", true, false),
        ("weft sdk-tunnel encrypted", true, true),
    ];
    if WEFT.iter().any(|(name, ..)| wanted(name)) {
        let network = Arc::new(Network::start().await?);
        if let Some(bytes) = cpu::resident(network.pid()) {
            let mib = bytes as f64 / 1_048_576.0;
            eprintln!("weft: controller and router together hold {mib:.0} MiB when idle");
        }
        for (name, tunnel, encrypted) in WEFT.into_iter().filter(|(name, ..)| wanted(name)) {
            let service = name.replace(' ', "-");
            let path = if tunnel {
                network.sdk_to_tunnel(&service, encrypted).await?
            } else {
                network.sdk_to_sdk(&service, encrypted).await?
            };
            paths.push((name, Arc::new(path)));
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused_before_anything_runs() {
        Options::command().debug_assert();
        let read = |words: &str| Options::try_parse_from(words.split(' '));
        for words in [
            "b",
            "b --payload 1,32 --only tcp",
            "b chain --delay 10",
            "b mesh --quick",
            "b proofs",
            "b attacks",
            "b cluster --members 1,3,5 --seconds 2",
        ] {
            assert!(read(words).is_ok(), "{words}");
        }
        for words in [
            "b --seconds=-1",
            "b --flows 0",
            "b --payload 0",
            "b chain --seconds=-1",
            "b chain --flows 0",
            "b chain --length 0",
            "b chain --delay=-1",
            "b chain --delay 1 --rate 0",
            "b scale --requests 0",
            "b proofs --hosts 0",
            "b attacks --rate 0",
        ] {
            assert!(read(words).is_err(), "{words}");
        }
    }
}
