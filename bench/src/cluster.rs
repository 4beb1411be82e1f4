//! `weft-bench cluster`: durable changes of the model, with the log in the file of one controller, and in etcd with one
//! member and with three, for one controller and for three at once.
//!
//! The writers are those of controllers, without an API in front of them: a client submits the creation of a service, and the
//! next one when that is durable and visible. The programs of etcd run on this machine, with their own flags but for
//! addresses and folders, so that all of them share one disk.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use hdrhistogram::Histogram;
use serde::Serialize;
use tempfile::TempDir;
use weft_etcd::{EtcdLog, EtcdOptions, SealingKeys};
use weft_kernel::writer::{Deadlines, Writer};
use weft_model::entity::Service;
use weft_model::{Base, ChangeSet, Id, Timestamp};
use weft_store::{Embedded, Options as StoreOptions, Replica, Store};

use crate::program;
use crate::report::beside;

/// Clients of each measurement.
const CLIENTS: [usize; 2] = [1, 64];
/// How long etcd is given to start.
const START: Duration = Duration::from_secs(30);

/// The measurements to run, and their length.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Length of each measurement in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    seconds: u64,
    /// Numbers of etcd's members (WEFT_ETCD names its program)
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_values_t = [1, 3])]
    members: Vec<usize>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The figures of one measurement.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// Where the log is.
    log: String,
    /// Controllers that write.
    controllers: usize,
    /// Clients of all of them.
    clients: usize,
    /// Creations per second.
    rate: f64,
    /// Times of one creation in milliseconds: half of them, and 99 of 100, were done after it.
    median: f64,
    p99: f64,
}

/// The etcd of a measurement. It ends with the value.
struct Etcd {
    _folder: TempDir,
    members: Vec<Child>,
    endpoints: Vec<String>,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}

fn etcd_program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("WEFT_ETCD") {
        return Some(named.into());
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).map(|folder| folder.join("etcd")).find(|path| path.is_file())
}

impl Etcd {
    async fn start(program: &Path, count: usize) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut addresses = Vec::new();
        for _ in 0..count {
            let [clients, peers] = [program::free_port()?, program::free_port()?];
            addresses.push([format!("127.0.0.1:{clients}"), format!("127.0.0.1:{peers}")]);
        }
        let cluster =
            addresses.iter().enumerate().map(|(at, [_, peers])| format!("m{at}=http://{peers}"));
        let cluster = cluster.collect::<Vec<_>>().join(",");
        let mut etcd = Self { _folder: folder, members: Vec::new(), endpoints: Vec::new() };
        for (at, [clients, peers]) in addresses.iter().enumerate() {
            let (clients_url, peers_url) = (format!("http://{clients}"), format!("http://{peers}"));
            let mut command = Command::new(program);
            command.arg("--data-dir").arg(etcd._folder.path().join(at.to_string()));
            command.args(["--name", &format!("m{at}"), "--initial-cluster", &cluster]);
            command.args(["--listen-client-urls", &clients_url]);
            command.args(["--advertise-client-urls", &clients_url]);
            command.args(["--listen-peer-urls", &peers_url]);
            command.args(["--initial-advertise-peer-urls", &peers_url]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            etcd.members.push(command.spawn()?);
            etcd.endpoints.push(clients.clone());
        }
        Ok(etcd)
    }

    /// A store with its own copy of the log.
    async fn open(&self, folder: &Path, at: usize) -> io::Result<Arc<dyn Store>> {
        let first = at % self.endpoints.len().max(1);
        let mut endpoints = self.endpoints.clone();
        endpoints.rotate_left(first);
        let log = Arc::new(EtcdLog::new(EtcdOptions {
            endpoints,
            tls: None,
            user: None,
            prefix: "/bench/".to_owned(),
            sealing: Arc::new(SealingKeys::new([(1, [7; 32])])),
        }));
        let path = folder.join(format!("copy{at}"));
        let deadline = Instant::now() + START;
        loop {
            match Replica::open(&path, StoreOptions::default(), log.clone()).await {
                Ok(store) => return Ok(Arc::new(store)),
                Err(error) if Instant::now() > deadline => return Err(io::Error::other(error)),
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }
}

/// Measures it.
pub(crate) async fn run(options: &Options) -> io::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let folder = tempfile::tempdir()?;
    let file = Embedded::open(&folder.path().join("file"), StoreOptions::default());
    let file: Arc<dyn Store> = Arc::new(file.map_err(io::Error::other)?);
    measure(&mut rows, "file", &[file], options).await?;
    let Some(program) = etcd_program() else {
        eprintln!("etcd is not installed, and WEFT_ETCD does not name it: its rows are left out");
        return Ok(rows);
    };
    for count in options.members.iter().copied() {
        for controllers in [1, 3] {
            let folder = tempfile::tempdir()?;
            let etcd = Etcd::start(&program, count).await?;
            let mut stores = Vec::new();
            for at in 0..controllers {
                stores.push(etcd.open(folder.path(), at).await?);
            }
            let name = if count == 1 { "etcd, one member" } else { "etcd, three members" };
            let name = if count > 3 { format!("etcd, {count} members") } else { name.to_owned() };
            measure(&mut rows, &name, &stores, options).await?;
        }
    }
    Ok(rows)
}

async fn measure(
    rows: &mut Vec<Row>,
    log: &str,
    stores: &[Arc<dyn Store>],
    options: &Options,
) -> io::Result<()> {
    let mut writers = Vec::new();
    for store in stores {
        let snapshot = weft_kernel::load(&**store).map_err(io::Error::other)?;
        writers.push(Writer::start(store.clone(), snapshot, Deadlines::default()));
    }
    for clients in CLIENTS {
        let clients = clients.max(writers.len());
        let (begun, end) = (Instant::now(), Instant::now() + Duration::from_secs(options.seconds));
        let tasks = (0..clients).map(|at| {
            let writer = writers[at % writers.len()].clone();
            tokio::spawn(client(writer, format!("{}-{clients}-{at}", rows.len()), end))
        });
        let mut times = Histogram::<u64>::new(3).map_err(io::Error::other)?;
        for task in tasks.collect::<Vec<_>>() {
            times.add(task.await??).map_err(io::Error::other)?;
        }
        let millis = |quantile| times.value_at_quantile(quantile) as f64 / 1_000.0;
        rows.push(Row {
            log: log.to_owned(),
            controllers: writers.len(),
            clients,
            rate: times.len() as f64 / begun.elapsed().as_secs_f64(),
            median: millis(0.5),
            p99: millis(0.99),
        });
    }
    Ok(())
}

/// Creates one service after the other. Returns the times in microseconds.
async fn client(writer: Writer, name: String, end: Instant) -> io::Result<Histogram<u64>> {
    let mut times = Histogram::<u64>::new(3).map_err(io::Error::other)?;
    for number in 0.. {
        let begun = Instant::now();
        if begun >= end {
            break;
        }
        let id = format!("{name}-{number}");
        let created = writer.submit(Box::new(move |tip| {
            let base = Base::new(Id::new(&id), Timestamp(1));
            let mut change = ChangeSet::default();
            if tip.by_name::<Service>(&id).is_none() {
                change.put(Service { base, name: id.as_str().into(), ..Service::default() });
            }
            Ok(change)
        }));
        created.await.map_err(|failure| io::Error::other(failure.to_string()))?;
        times.record(begun.elapsed().as_micros() as u64).map_err(io::Error::other)?;
    }
    Ok(times)
}

/// The table, with ratios to the file.
pub(crate) fn text(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["log", "controllers", "clients", "creates/s", "p50 ms", "p99 ms"]);
    for row in rows {
        let file =
            rows.iter().find(|it| it.log == "file" && (it.clients == 1) == (row.clients <= 3));
        table.add_row([
            row.log.clone(),
            row.controllers.to_string(),
            row.clients.to_string(),
            beside(Some(row.rate), file.map(|file| file.rate), 0),
            format!("{:.1}", row.median),
            format!("{:.1}", row.p99),
        ]);
    }
    for column in 1..6 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{table}\nIn parentheses: the ratio to the file with as many clients, in this run.")
}
