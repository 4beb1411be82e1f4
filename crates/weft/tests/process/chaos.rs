//! Long flows through five routers of a ring with chords, while routers, links, controllers and members of their etcd
//! break at random.
//!
//! No flow that has a path is lost, none is corrupted, and afterwards every program holds what it held before:
//! circuits, queues, memory and descriptors. `WEFT_CHAOS_SEED`, `WEFT_CHAOS_SECONDS` and `WEFT_CHAOS_FLOWS` change
//! a run, `WEFT_LONG=1` makes it ten minutes with 200 flows, and `WEFT_CHAOS_KEEP=1` keeps the folder of a run that
//! failed. A run prints its seed and every event.

mod baseline;
mod bed;
mod controller_outage;
mod controllers;
mod dials;
mod events;
mod flows;
mod wires;

use std::time::{Duration, Instant};

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use tokio_util::sync::CancellationToken;
use weft_sdk::{Endpoint, EndpointBuilder};
use weft_test_etcd::Server;

use self::bed::{Bed, no_circuits};
use self::controllers::CLUSTER;
use self::dials::{Dials, Outcome};
use self::events::Chaos;
use self::flows::{Flow, Hosts, Kind};
use crate::streams::dial;
use crate::wait::{PATIENCE, until, within};

/// Bytes that every flow has to carry before [`go_on`] returns.
const ON: u64 = 60_000;
/// The longest time in which no dial may succeed although another controller is there: much more than needed, since
/// machines are busy, and links that carry nothing any more are found by silence.
const DIALS_FAIL: Duration = Duration::from_secs(40);

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// The ends of the flows.
struct Ends {
    west: Endpoint,
    east: Endpoint,
    /// At the router of `west`, without flow control of its own.
    old: Endpoint,
    _hosts: [Hosts; 2],
}

impl Ends {
    async fn at(bed: &Bed) -> Self {
        for end in ["west", "east"] {
            // Streams are encrypted. Echoes are not, so that a byte that changes on its way reaches the
            // comparison, in place of an error of decryption.
            bed.operator().service(&format!("echo-{end}"), false).await;
            bed.operator().service(&format!("sink-{end}"), true).await;
        }
        let usual = EndpointBuilder::new;
        let west = bed.endpoint("west", "west", usual()).await;
        let east = bed.endpoint("east", "east", usual()).await;
        let old = bed.endpoint("old", "west", usual().router_flow_control()).await;
        let hosts = [Hosts::of(&west, "west").await, Hosts::of(&east, "east").await];
        Self { west, east, old, _hosts: hosts }
    }

    /// Dials and starts a flow; its number decides about its kind and its ends.
    async fn flow(&self, number: u64, stop: &CancellationToken) -> Flow {
        let (from, kind, service) = match number % 6 {
            0 => (&self.west, Kind::Stream, "sink-east"),
            1 => (&self.east, Kind::Stream, "sink-west"),
            2 | 3 => (&self.west, Kind::Echo, "echo-east"),
            4 => (&self.east, Kind::Echo, "echo-west"),
            _ => (&self.old, Kind::Echo, "echo-east"),
        };
        Flow::start(kind, number, dial(from, service).await, stop.clone())
    }
}

/// Waits until each flow has carried [`ON`] more bytes.
async fn go_on(flows: &[Flow], limit: Duration) {
    let before: Vec<u64> = flows.iter().map(Flow::bytes).collect();
    let look = async || {
        let behind: Vec<&str> = flows
            .iter()
            .zip(&before)
            .filter(|(flow, before)| flow.bytes() < *before + ON)
            .map(|(flow, _)| flow.name.as_str())
            .collect();
        if behind.is_empty() { Ok(()) } else { Err(behind.join(", ")) }
    };
    until("every flow goes on", limit, look).await;
}

/// Ends all flows; those that were lost or corrupted are the failure of the test.
async fn end(flows: Vec<Flow>, stop: &CancellationToken, limit: Duration) {
    stop.cancel();
    let mut wrong = Vec::new();
    let deadline = Instant::now() + limit;
    for flow in flows {
        let name = flow.name.clone();
        let left = deadline.saturating_duration_since(Instant::now());
        if let Err(problem) = within(&format!("{name} ends"), left, flow.end()).await {
            wrong.push(format!("{name}: {problem}"));
        }
    }
    assert!(wrong.is_empty(), "lost or corrupted:\n{}", wrong.join("\n"));
}

/// A run, from the settings of the environment or from these of a short run: seconds and flows.
struct Run {
    seed: u64,
    time: Duration,
    count: u64,
    /// The longest interruption, in milliseconds.
    longest: u64,
}

impl Run {
    fn of_settings(short: [u64; 2]) -> Self {
        let is_long = std::env::var("WEFT_LONG").is_ok();
        let [seconds, count] = if is_long { [600, 200] } else { short };
        let seed = setting("WEFT_CHAOS_SEED", 7);
        let time = Duration::from_secs(setting("WEFT_CHAOS_SECONDS", seconds));
        let count = setting("WEFT_CHAOS_FLOWS", count);
        let longest = if is_long { 40_000 } else { 4_000 };
        println!("seed {seed}, {time:?}, {count} flows, interruptions up to {longest} ms");
        Self { seed, time, count, longest }
    }

    /// Lets parts of the network break while flows go on; returns what came of dials meanwhile.
    async fn go(&self, bed: Bed) -> Outcome {
        let ends = Ends::at(&bed).await;
        // A first round without chaos, so that memory that any traffic needs is part of the baseline.
        let (mut flows, stop) = (Vec::new(), CancellationToken::new());
        for number in 0..self.count {
            flows.push(ends.flow(number, &stop).await);
        }
        go_on(&flows, PATIENCE).await;
        end(flows, &stop, PATIENCE).await;
        no_circuits(bed.operator(), PATIENCE).await;
        let before = baseline::measure(&bed, PATIENCE).await;

        let (mut flows, stop) = (Vec::new(), CancellationToken::new());
        for number in 0..self.count {
            flows.push(ends.flow(number, &stop).await);
        }
        let mut chaos = Chaos::new(bed, StdRng::seed_from_u64(self.seed), self.longest);
        let begun = Instant::now();
        let dials = Dials::start(ends.west.clone(), "echo-east", begun);
        while begun.elapsed() < self.time && !flows.iter().any(Flow::is_over) {
            chaos.step().await;
            tokio::time::sleep(chaos.pause()).await;
        }
        if flows.iter().any(Flow::is_over) {
            println!("flows are over after {:?}", begun.elapsed());
            let over = flows.into_iter().filter(Flow::is_over).collect();
            end(over, &stop, PATIENCE).await;
            panic!("flows have ended before they were told to");
        }
        chaos.end(2 * PATIENCE).await;
        go_on(&flows, 2 * PATIENCE).await;
        let outcome = dials.outcome(2 * PATIENCE).await;
        drop(dials);
        let carried: u64 = flows.iter().map(Flow::bytes).sum();
        let stopped = flows.iter().map(Flow::longest_stop).max().unwrap_or_default();
        println!(
            "{} events; {} MiB were carried; a flow stood for {stopped:.1?} at most",
            chaos.count,
            carried >> 20
        );
        println!("{}", outcome.text(begun));
        end(flows, &stop, 2 * PATIENCE).await;
        chaos.say("every flow has ended");
        no_circuits(chaos.bed.operator(), PATIENCE).await;
        chaos.say("no controller has circuits");
        baseline::back(&chaos.bed, &before, 2 * PATIENCE).await;
        chaos.say("every program holds what it held before");
        outcome
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flows_outlive_whatever_leaves_them_a_path() {
    let run = Run::of_settings([20, 24]);
    run.go(Bed::start().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flows_outlive_controllers_and_members_of_etcd() {
    let Some(etcd) = Server::start_several(CLUSTER) else { return };
    let run = Run::of_settings([15, 12]);
    let outcome = run.go(Bed::start_with(etcd).await).await;
    assert!(outcome.longest < DIALS_FAIL, "{outcome:?}");
}
