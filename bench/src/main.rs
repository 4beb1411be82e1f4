//! Measures weft beside plain TCP, one TLS connection and HAProxy relaying TLS to TLS, on this
//! machine and in one run, and prints a table with ratios.
//!
//! Client and server of every path live in this process; what stands between them (HAProxy, the
//! weft router) is a process of its own, whose processor time is read from `/proc`. Figures of
//! different runs are not comparable; ratios within one run are.
//!
//! Other things are measured by `weft-bench scale`, one controller with a large model, `weft-bench
//! mesh`, one controller with many routers, links and circuits, and `weft-bench chain`, several routers
//! in a row.

mod chain;
mod cpu;
mod mesh;
mod path;
mod program;
mod report;
mod scale;
mod work;

use std::{io, process::ExitCode, sync::Arc, time::Duration};

use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    path::{haproxy::Haproxy, tcp::Tcp, tls::Credentials, tls::Tls, weft::Network},
    report::Row,
    work::Path,
};

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
    /// Sizes of each write, in KiB
    #[arg(long, value_delimiter = ',', default_values_t = [1_usize, 10, 32])]
    payload: Vec<usize>,
    /// Flows at once where many are measured
    #[arg(long, default_value_t = 50)]
    flows: usize,
    /// Seconds that one figure should take
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Only paths whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Other things to measure.
#[derive(Debug, Subcommand)]
enum Other {
    /// Measures a controller with a large network
    Scale(scale::Options),
    /// Measures routers in a row, beside HAProxies and the original's routers (WEFT_BENCH_ZITI)
    Chain(chain::Options),
    /// Measures a controller with a large mesh of simulated routers
    Mesh(mesh::Options),
}

/// A path that can be measured, with its name.
type Named = (&'static str, Arc<dyn Path>);

fn main() -> ExitCode {
    let mut options = Options::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("weft-bench: {error}");
            return ExitCode::FAILURE;
        }
    };
    match options.other.take() {
        Some(Other::Scale(options)) => {
            let json = options.json;
            return show(runtime.block_on(scale::run(options)), json);
        }
        Some(Other::Mesh(options)) => {
            let json = options.json;
            return show(runtime.block_on(mesh::run(options)), json);
        }
        Some(Other::Chain(options)) => return chain(&runtime, &options),
        None => {}
    }
    match runtime.block_on(run(&options)) {
        Ok(rows) if options.json => match serde_json::to_string_pretty(&rows) {
            Ok(text) => println!("{text}"),
            Err(error) => eprintln!("weft-bench: {error}"),
        },
        Ok(rows) => {
            println!("{}", report::table(&rows, "haproxy tls-tls"));
            println!("In parentheses: the ratio to HAProxy with the same payload, in this run.");
            println!("The processor time of weft is that of controller and router together.");
        }
        Err(error) => {
            eprintln!("weft-bench: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn show(measured: io::Result<Vec<scale::Figure>>, json: bool) -> ExitCode {
    match measured {
        Ok(figures) if json => match serde_json::to_string_pretty(&figures) {
            Ok(text) => println!("{text}"),
            Err(error) => eprintln!("weft-bench: {error}"),
        },
        Ok(figures) => println!("{}", scale::table(&figures)),
        Err(error) => {
            eprintln!("weft-bench: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn chain(runtime: &tokio::runtime::Runtime, options: &chain::Options) -> ExitCode {
    match runtime.block_on(chain::run(options)) {
        Ok(rows) if options.json => match serde_json::to_string_pretty(&rows) {
            Ok(text) => println!("{text}"),
            Err(error) => eprintln!("weft-bench: {error}"),
        },
        Ok(rows) => {
            println!("{}", chain::table(&rows));
            println!(
                "In parentheses: the ratio to as many HAProxies in a row, TLS to TLS, in this run."
            );
        }
        Err(error) => {
            eprintln!("weft-bench: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

async fn run(options: &Options) -> io::Result<Vec<Row>> {
    let paths = paths(options).await?;
    let progress = ProgressBar::new((paths.len() * options.payload.len()) as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
        progress.set_style(style);
    }
    let mut rows = Vec::new();
    for (name, path) in &paths {
        for payload in &options.payload {
            progress.set_message(format!("{name}, {payload} KiB"));
            rows.push(measure(name, path, payload * 1024, options).await?);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    Ok(rows)
}

async fn paths(options: &Options) -> io::Result<Vec<Named>> {
    let wanted = |name: &str| options.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let credentials = Arc::new(Credentials::make()?);
    let mut paths: Vec<Named> = Vec::new();
    if wanted("tcp") {
        paths.push(("tcp", Arc::new(Tcp::start().await?)));
    }
    if wanted("tls") {
        paths.push(("tls", Arc::new(Tls::start(Arc::clone(&credentials)).await?)));
    }
    if wanted("haproxy tls-tls") {
        match Haproxy::start(credentials).await? {
            Some(relay) => paths.push(("haproxy tls-tls", Arc::new(relay))),
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

async fn measure(
    name: &str,
    path: &Arc<dyn Path>,
    payload: usize,
    options: &Options,
) -> io::Result<Row> {
    const MIB: f64 = 1024.0 * 1024.0;
    // A first short run says how much is moved in the time that is wanted.
    let probe: u64 = 32 << 20;
    let took = work::bulk(path, 1, payload, probe).await?.as_secs_f64().max(0.001);
    let total = ((probe as f64 / took * options.seconds) as u64).clamp(probe, 64 << 30);

    let before = relay_cpu(path.as_ref());
    let took = work::bulk(path, 1, payload, total).await?.as_secs_f64();
    let used = relay_cpu(path.as_ref()).saturating_sub(before).as_secs_f64();
    let relayed = !path.relay().is_empty();
    let gib = total as f64 / (1024.0 * MIB);

    let flows = options.flows.max(1);
    let took_many = work::bulk(path, flows, payload, total).await?.as_secs_f64();
    let times = work::round_trips(path, 64, 2000).await?;
    let set_ups = work::set_ups(path, 16, Duration::from_secs_f64(options.seconds)).await?;
    let micros = |quantile: f64| times.value_at_quantile(quantile) as f64 / 1000.0;
    Ok(Row {
        path: name.to_owned(),
        payload,
        single: total as f64 / MIB / took,
        many: total as f64 / MIB / took_many,
        p50: micros(0.50),
        p99: micros(0.99),
        set_ups,
        cpu: relayed.then(|| used / gib),
        per_payload: relayed.then(|| used * 1e6 / (total as f64 / payload as f64)),
    })
}

fn relay_cpu(path: &dyn Path) -> Duration {
    path.relay().into_iter().filter_map(cpu::cpu_time).sum()
}
