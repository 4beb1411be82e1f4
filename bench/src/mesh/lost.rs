//! Loses the link that most circuits go over, while dials go on.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use futures::{StreamExt as _, stream};
use weft_wire::ProtoBody as _;
use weft_wire::ctrl::Fault;

use super::options::Options;
use super::world::{World, link_id, resident, service_name};
use crate::cpu;
use crate::scale::{Aim, Dice, Figure, millis};

/// Number of dialers while circuits move, and the wait of each between two dials.
const DIALERS: usize = 8;
const PAUSE: Duration = Duration::from_millis(20);
/// Time limit for the moves of all circuits.
const PATIENCE: Duration = Duration::from_secs(600);

/// Median, 99th percentile and longest of the times, which are sorted here.
pub(crate) fn percentiles(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let [p50, p99, most] = [50, 99, 100].map(|percent| millis(times, percent));
    format!("p50 {p50:.1} ms, p99 {p99:.1} ms, most {most:.1} ms")
}

pub(crate) async fn measure(world: &Arc<World>, options: &Options) -> io::Result<Vec<Figure>> {
    let Some(bridge) = world.plan.bridges.first().copied() else { return Ok(Vec::new()) };
    let circuits = world.network.circuits();
    let (before, were) = (resident(), circuits.len());
    let missing = options.circuits().saturating_sub(circuits.count_over(&link_id(bridge)));
    let dialed = stream::iter(0..missing as u64)
        .map(|number| {
            let (world, seed) = (Arc::clone(world), options.run.seed);
            async move {
                let (from, service) = world.plan.across(Dice::new(seed, 5, number).word());
                world.routers[from].dial(&service_name(service)).await
            }
        })
        .buffer_unordered(options.dialers.max(1))
        .collect::<Vec<io::Result<()>>>()
        .await;
    dialed.into_iter().collect::<io::Result<()>>()?;
    let bytes = resident().saturating_sub(before);
    let made = circuits.len().saturating_sub(were);
    let mut figures = vec![Figure {
        name: format!("memory of {made} circuits, routers included"),
        value: bytes as f64 / 1_048_576.0,
        unit: "MiB",
        note: format!("{:.0} bytes each", bytes as f64 / made.max(1) as f64),
        ..Figure::default()
    }];
    figures.extend(lose(world, bridge, options.run.seed).await?);
    Ok(figures)
}

async fn lose(world: &Arc<World>, bridge: usize, seed: u64) -> io::Result<Vec<Figure>> {
    let circuits = world.network.circuits();
    let id = link_id(bridge);
    let over = circuits.count_over(&id);
    let there = circuits.len();
    let moving = Arc::new(AtomicBool::new(true));
    let dialed = Arc::new(AtomicU64::new(0));
    let dialers = (0..DIALERS).map(|dialer| {
        let (world, moving, dialed) = (Arc::clone(world), Arc::clone(&moving), Arc::clone(&dialed));
        tokio::spawn(async move {
            let mut times = Vec::new();
            while moving.load(Ordering::Acquire) {
                let number = dialed.fetch_add(1, Ordering::Relaxed);
                let word = Dice::new(seed, 6 + dialer as u64, number).word();
                let (from, service) = world.plan.anywhere(word);
                let sent = Instant::now();
                world.routers[from].dial(&service_name(service)).await?;
                times.push(sent.elapsed());
                tokio::time::sleep(PAUSE).await;
            }
            Ok::<_, io::Error>(times)
        })
    });
    let dialers: Vec<_> = dialers.collect();
    let used = cpu::cpu_time(std::process::id()).unwrap_or_default();
    let begun = Instant::now();
    world.routers[world.plan.links[bridge].from].send(Fault::link(&*id, 0).to_message()).await?;
    while world.network.links().get(&id).is_some() || circuits.count_over(&id) > 0 {
        if begun.elapsed() > PATIENCE {
            return Err(io::Error::other("circuits are left on a link that is gone"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let took = begun.elapsed();
    let used = cpu::cpu_time(std::process::id()).unwrap_or_default().saturating_sub(used);
    moving.store(false, Ordering::Release);
    let mut times = Vec::new();
    for times_of_one in try_join_all(dialers).await.map_err(io::Error::other)? {
        times.extend(times_of_one?);
    }
    let lost = (there + times.len()).saturating_sub(circuits.len());
    let percentiles = percentiles(&mut times);
    Ok(vec![
        Figure {
            name: format!("a link with {over} circuits is lost: all have moved"),
            value: took.as_secs_f64(),
            unit: "s",
            aim: Some(Aim::AtMost(30.0)),
            cpu: Some(used.as_secs_f64() * 1e6 / over.max(1) as f64),
            note: format!(
                "{:.0}/s; {} routes and {} unroutes so far",
                over as f64 / took.as_secs_f64(),
                world.done.routes.load(Ordering::Relaxed),
                world.done.unroutes.load(Ordering::Relaxed)
            ),
            ..Figure::default()
        },
        Figure {
            name: "circuits that ended".into(),
            value: lost as f64,
            aim: Some(Aim::AtMost(0.0)),
            note: format!("of {there} and {} dialed meanwhile", times.len()),
            ..Figure::default()
        },
        Figure {
            name: "dials meanwhile, p99".into(),
            value: millis(&times, 99),
            unit: "ms",
            aim: Some(Aim::AtMost(50.0)),
            note: format!("{} dials: {percentiles}", times.len()),
            ..Figure::default()
        },
    ])
}
