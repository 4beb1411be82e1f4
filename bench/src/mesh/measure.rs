//! Circuits per second, and the costs of a large mesh.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use weft_wire::ProtoBody as _;
use weft_wire::ctrl::{Fault, RouterLink, RouterLinks};

use super::lost;
use super::options::Options;
use super::plan::{Plan, STEPS};
use super::world::{Took, World, link_id, resident, router_id, service_name};
use crate::cpu;
use crate::scale::{Aim, Dice, Figure};

/// Links that are lost and made again each second while dials are measured.
const FLAPS: u64 = 20;

/// A small mesh with long paths.
pub(crate) async fn ladder(options: &Options) -> io::Result<Vec<Figure>> {
    let (world, _) = World::start(Plan::ladder(options.run.seed)).await?;
    let world = Arc::new(world);
    let name = format!("circuits over {STEPS} routers, {} dialers", options.dialers);
    let figure = dials(&world, options, name, 5_000.0).await?;
    let circuits = world.network.circuits().all();
    if circuits.is_empty() || circuits.iter().any(|it| it.path.nodes.len() != STEPS) {
        return Err(io::Error::other("circuits of the small mesh go over too few routers"));
    }
    stop(world).await;
    Ok(vec![figure])
}

/// A large mesh: its start, dials, dials while links are lost and made again, and a lost link.
pub(crate) async fn large(options: &Options) -> io::Result<Vec<Figure>> {
    let before = resident();
    let plan = Plan::large(options.routers(), options.links(), options.run.seed);
    let (world, took) = World::start(plan).await?;
    let world = Arc::new(world);
    let mut figures = up(&world, options, &took, before);
    let name =
        |what: &str| format!("{}, {} routers, {} links", what, options.routers(), options.links());
    figures.push(dials(&world, options, name("first circuits"), 0.0).await?);
    figures.push(dials(&world, options, name("circuits"), 2_000.0).await?);
    let flapping = Arc::new(AtomicBool::new(true));
    let flaps = tokio::spawn(flap(Arc::clone(&world), Arc::clone(&flapping)));
    let what = format!("circuits while {FLAPS} links/s come and go");
    figures.push(dials(&world, options, name(&what), 2_000.0).await?);
    flapping.store(false, Ordering::Release);
    flaps.await.map_err(io::Error::other)??;
    figures.extend(lost::measure(&world, options).await?);
    stop(world).await;
    Ok(figures)
}

async fn stop(world: Arc<World>) {
    if let Some(world) = Arc::into_inner(world) {
        world.stop().await;
    }
}

fn up(world: &World, options: &Options, took: &Took, before: u64) -> Vec<Figure> {
    let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
    let seconds = |name: &str, took: Duration, each: usize| Figure {
        name: name.to_owned(),
        value: took.as_secs_f64(),
        unit: "s",
        note: format!("{:.0} us each", took.as_secs_f64() * 1e6 / each.max(1) as f64),
        ..Figure::default()
    };
    vec![
        seconds(
            &format!("{} routers connect", options.routers()),
            took.connecting,
            options.routers(),
        ),
        seconds("all report their links", took.links, world.plan.links.len()),
        seconds("all report latencies", took.metrics, options.routers()),
        Figure {
            name: "memory with all links, routers included".into(),
            value: mib(resident().saturating_sub(before)),
            unit: "MiB",
            note: format!("of links {:.0} MiB", mib(took.bytes_of_links)),
            ..Figure::default()
        },
    ]
}

/// Dials with several dialers, each as fast as the controller answers.
async fn dials(
    world: &Arc<World>,
    options: &Options,
    name: String,
    aim: f64,
) -> io::Result<Figure> {
    let used = cpu::cpu_time(std::process::id()).unwrap_or_default();
    let begun = Instant::now();
    let until = begun + Duration::from_secs_f64(options.seconds());
    let number = Arc::new(AtomicU64::new(world.network.circuits().len() as u64));
    let dialers = (0..options.dialers.max(1)).map(|_| {
        let (world, number, seed) = (Arc::clone(world), Arc::clone(&number), options.run.seed);
        tokio::spawn(async move {
            let mut times = Vec::new();
            while Instant::now() < until {
                let next = number.fetch_add(1, Ordering::Relaxed);
                let (from, service) = world.plan.anywhere(Dice::new(seed, 3, next).word());
                let sent = Instant::now();
                world.routers[from].dial(&service_name(service)).await?;
                times.push(sent.elapsed());
            }
            Ok::<_, io::Error>(times)
        })
    });
    let mut times = Vec::new();
    for dialed in try_join_all(dialers).await.map_err(io::Error::other)? {
        times.extend(dialed?);
    }
    let took = begun.elapsed();
    let used = cpu::cpu_time(std::process::id()).unwrap_or_default().saturating_sub(used);
    Ok(Figure {
        name,
        value: times.len() as f64 / took.as_secs_f64(),
        unit: "/s",
        cpu: Some(used.as_secs_f64() * 1e6 / times.len().max(1) as f64),
        aim: (aim > 0.0).then_some(Aim::AtLeast(aim)),
        note: lost::percentiles(&mut times),
        ..Figure::default()
    })
}

/// Loses links, and reports them again with their next iteration.
async fn flap(world: Arc<World>, goes_on: Arc<AtomicBool>) -> io::Result<()> {
    let mut ticks = tokio::time::interval(Duration::from_millis(1_000 / FLAPS));
    let inner = world.plan.bridges.first().copied().unwrap_or(world.plan.links.len());
    for turn in 2_u32.. {
        ticks.tick().await;
        if !goes_on.load(Ordering::Acquire) {
            break;
        }
        let at = Dice::new(7, 4, u64::from(turn)).below(u32::try_from(inner).unwrap_or(1)) as usize;
        let link = &world.plan.links[at];
        let router = &world.routers[link.from];
        router.send(Fault::link(link_id(at), 0).to_message()).await?;
        let back = RouterLink {
            id: link_id(at),
            dest_router_id: router_id(link.to).to_string(),
            link_protocol: "tls".into(),
            iteration: turn,
            ..RouterLink::default()
        };
        router.send(RouterLinks { links: vec![back], full_refresh: false }.to_message()).await?;
    }
    Ok(())
}
