//! `weft-bench proofs`: what it costs that the ends of encrypted connections prove themselves to each other.
//!
//! One controller and one router, as in a quickstart, and in this process many clients and many hosts of one service,
//! each with a session of its own: each client connects to each host once, several clients at a time, has one byte echoed
//! and closes. Three kinds of clients take turns in each round, so that what else the machine does hits all alike:
//!
//! * ends without keys, which prove nothing;
//! * ends that have met before, and prove themselves by what they remember;
//! * ends that meet for the first time: clients that logged in for this round. Before it is timed, each has connected to
//!   one more host, so that logins, service sessions and statements are not part of the figure. Each end has a memory of
//!   its own, as programs have, and verifies two signatures for each such connection: the controller's of the statement
//!   about the other end, and that of the other end.

use std::io;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use futures::future::join_all;
use serde::Serialize;
use serde_json::json;
use tokio::task::JoinSet;
use weft_contract::resource;
use weft_sdk::{BindOptions, DialOptions, Endpoint, EndpointBuilder, IdentityFile, Listener};

use crate::path::weft::{Network, PATIENCE, create, enrolled};
use crate::work::{serve, use_once};
use crate::{cpu, ends};

const SERVICE: &str = "proofs";

/// The measurements to run, and their length.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Clients, which connect at the same time
    #[arg(long, default_value_t = 16, value_parser = RangedU64ValueParser::<usize>::new().range(1..=128))]
    clients: usize,
    /// Hosts: the number of connections of each client in each round
    #[arg(long, default_value_t = 32, value_parser = RangedU64ValueParser::<usize>::new().range(1..=128))]
    hosts: usize,
    /// Rounds, in each of which every kind has its turn
    #[arg(long, default_value_t = 12, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000))]
    rounds: usize,
    /// Gives relays half of the processors, and clients and servers the other half
    #[arg(long)]
    pub(crate) apart: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// A kind of ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
enum Kind {
    WithoutKeys,
    MetBefore,
    FirstTime,
}

impl Kind {
    const ALL: [Self; 3] = [Self::WithoutKeys, Self::MetBefore, Self::FirstTime];

    fn name(self) -> &'static str {
        match self {
            Self::WithoutKeys => "without keys",
            Self::MetBefore => "met before",
            Self::FirstTime => "for the first time",
        }
    }

    /// The least ratio to ends without keys that weft is to have.
    fn aim(self) -> Option<f64> {
        match self {
            Self::WithoutKeys => None,
            Self::MetBefore => Some(0.97),
            Self::FirstTime => Some(0.65),
        }
    }
}

/// The figures of one kind.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    kind: Kind,
    /// Connections that are opened, used and closed per second: the median of the rounds.
    rate: f64,
    /// The ratio to ends without keys in the same round: a quarter of the rounds have less, half, and three quarters.
    ratio: [f64; 3],
    /// Processor time for one connection, in microseconds: of both ends, and of controller and router.
    ends: f64,
    relays: f64,
}

/// What one kind took in one round.
#[derive(Debug, Clone, Copy, Default)]
struct RoundTimes {
    took: Duration,
    ends: Duration,
    relays: Duration,
}

/// Measures it.
pub(crate) async fn run(options: &Options) -> io::Result<Vec<Row>> {
    let bed = Bed::start(options).await?;
    let plain = bed.clients(Kind::WithoutKeys).await?;
    let known = bed.clients(Kind::MetBefore).await?;
    for clients in [&plain, &known] {
        bed.connect(clients).await?;
    }
    let mut times: [Vec<RoundTimes>; 3] = Default::default();
    for round in 0..options.rounds {
        eprintln!("round {} of {}", round + 1, options.rounds);
        let new = bed.clients(Kind::FirstTime).await?;
        for place in 0..3 {
            // Each kind is the first one in its turn.
            let which = (round + place) % 3;
            let clients = [&plain, &known, &new][which];
            times[which].push(bed.turn(clients).await?);
        }
        join_all(new.into_iter().map(Endpoint::close)).await;
    }
    let each = (options.clients * options.hosts) as f64;
    let rows = Kind::ALL.into_iter().zip(&times);
    Ok(rows.map(|(kind, own)| Row::of(kind, own, &times[0], each)).collect())
}

impl Row {
    fn of(kind: Kind, own: &[RoundTimes], plain: &[RoundTimes], each: f64) -> Self {
        let seconds = |turn: &RoundTimes| turn.took.as_secs_f64().max(1e-9);
        let rates = own.iter().map(|turn| each / seconds(turn)).collect();
        let ratios = plain.iter().zip(own).map(|(plain, own)| seconds(plain) / seconds(own));
        let ratios: Vec<f64> = ratios.collect();
        let per = |of: fn(&RoundTimes) -> Duration| {
            let all: Duration = own.iter().map(of).sum();
            all.as_secs_f64() * 1e6 / (each * own.len().max(1) as f64)
        };
        Self {
            kind,
            rate: quantile(rates, 0.5),
            ratio: [0.25, 0.5, 0.75].map(|part| quantile(ratios.clone(), part)),
            ends: per(|turn| turn.ends),
            relays: per(|turn| turn.relays),
        }
    }
}

/// The value below which this part of the values lies.
fn quantile(mut values: Vec<f64>, part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len().saturating_sub(1) as f64 * part).round() as usize;
    values.get(at).copied().unwrap_or_default()
}

/// The network and its hosts.
struct Bed {
    network: Network,
    identity: IdentityFile,
    clients: usize,
    hosts: usize,
    _listeners: Vec<Endpoint>,
}

impl Bed {
    async fn start(options: &Options) -> io::Result<Self> {
        let (clients, hosts) = (options.clients, options.hosts);
        let network = Network::start().await?;
        let service = json!({"name": SERVICE, "encryptionRequired": true});
        create(network.client(), &resource::service::KIND, &service).await?;
        let host = enrolled(network.client(), "proofs-hosts").await?;
        let mut listeners = Vec::new();
        // One more than are measured: the one that new clients connect to before they are.
        for number in 0..=hosts {
            listeners.push(ends::serve(listen(host.clone(), number)).await??);
        }
        let identity = enrolled(network.client(), "proofs-clients").await?;
        Ok(Self { network, identity, clients, hosts, _listeners: listeners })
    }

    /// Clients of a kind, each with all that it needs to dial.
    async fn clients(&self, kind: Kind) -> io::Result<Vec<Endpoint>> {
        let mut clients = Vec::new();
        for _ in 0..self.clients {
            let builder = match kind {
                Kind::WithoutKeys => EndpointBuilder::new().without_proof(),
                Kind::MetBefore | Kind::FirstTime => EndpointBuilder::new(),
            };
            let client = builder.build(self.identity.clone()).await.map_err(io::Error::other)?;
            let options = dial_of(self.hosts).timeout(PATIENCE);
            let mut first = client.dial_with(SERVICE, options).await.map_err(io::Error::other)?;
            let peer = first.peer().await?;
            if peer.is_some() != (kind != Kind::WithoutKeys) {
                return Err(io::Error::other(format!("{kind:?}, and the peer is {peer:?}")));
            }
            use_once(&mut first).await?;
            clients.push(client);
        }
        Ok(clients)
    }

    /// Each client connects to each host.
    async fn connect(&self, clients: &[Endpoint]) -> io::Result<()> {
        let (mut tasks, hosts) = (JoinSet::new(), self.hosts);
        for client in clients {
            let client = client.clone();
            tasks.spawn(async move {
                for host in 0..hosts {
                    let dialed = client.dial_with(SERVICE, dial_of(host)).await;
                    use_once(&mut dialed.map_err(io::Error::other)?).await?;
                }
                io::Result::Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.map_err(io::Error::other)??;
        }
        Ok(())
    }

    async fn turn(&self, clients: &[Endpoint]) -> io::Result<RoundTimes> {
        let used = || {
            let [ends, relays] = [std::process::id(), self.network.pid()].map(cpu::cpu_time);
            [ends.unwrap_or_default(), relays.unwrap_or_default()]
        };
        let (begun, before) = (std::time::Instant::now(), used());
        self.connect(clients).await?;
        let (took, [ends, relays]) = (begun.elapsed(), used());
        let [ends, relays] = [ends - before[0], relays - before[1]];
        Ok(RoundTimes { took, ends, relays })
    }
}

/// A dial to the host of this number.
fn dial_of(host: usize) -> DialOptions {
    DialOptions::new().instance(host.to_string())
}

/// Logs a host in that serves as an instance of the service.
async fn listen(identity: IdentityFile, number: usize) -> io::Result<Endpoint> {
    let host = Endpoint::from_identity(identity).await.map_err(io::Error::other)?;
    let options = BindOptions::new().instance(number.to_string());
    let listener = host.bind_with(SERVICE, options).await.map_err(io::Error::other)?;
    listener.established(1).await.map_err(io::Error::other)?;
    tokio::spawn(accept(listener));
    Ok(host)
}

async fn accept(mut listener: Listener) {
    while let Ok(incoming) = listener.accept().await {
        tokio::spawn(async move {
            let stream = incoming.accept().await.map_err(io::Error::other)?;
            serve(Box::pin(stream)).await
        });
    }
}

/// The table, with a legend.
pub(crate) fn text(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["ends", "set-ups/s", "ratio", "aim", "CPU us, ends", "CPU us, relays"]);
    for row in rows {
        let [low, middle, high] = row.ratio;
        table.add_row([
            row.kind.name().to_owned(),
            format!("{:.0}", row.rate),
            format!("{middle:.3} ({low:.3} to {high:.3})"),
            row.kind.aim().map(|aim| format!("≥ {aim}")).unwrap_or_default(),
            format!("{:.0}", row.ends),
            format!("{:.0}", row.relays),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!(
        "{table}\nRatios are to ends without keys in the same round: the median, and between which two half of the rounds \
         lie. Relays are controller and router together."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_the_same_round() {
        let turn =
            |millis| RoundTimes { took: Duration::from_millis(millis), ..RoundTimes::default() };
        let (plain, own) = ([turn(100), turn(200), turn(400)], [turn(200), turn(400), turn(800)]);
        let row = Row::of(Kind::FirstTime, &own, &plain, 100.0);
        assert_eq!((row.ratio, row.rate), ([0.5; 3], 250.0));
        let text = text(&[Row::of(Kind::WithoutKeys, &plain, &plain, 100.0), row]);
        assert!(text.contains("1.000 (1.000 to 1.000)") && text.contains("≥ 0.65"), "{text}");
    }
}
