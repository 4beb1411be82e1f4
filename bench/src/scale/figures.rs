//! The figures, in the order of the table.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::asks::{self, API, Ask, Timed};
use super::bed::{Bed, millis};
use super::client::{Client, Target};
use super::fill::HALF;
use super::report::{Aim, Figure};
use super::server::Running;
use super::{data_model, logins, sessions, sessions_end};

/// Number of requests before the first that is counted; the time for which creates are not counted.
const WARM_UP: u32 = 10;
const WARM_UP_TIME: Duration = Duration::from_millis(300);
/// The name of the figures of the data model.
const DATA_MODEL: &str = "full data model";
/// The aim of creates per second, with [`MANY`] clients.
const CREATES: f64 = 5000.0;
const MANY: usize = 64;

/// Measures everything.
pub(crate) async fn all(bed: Bed) -> io::Result<Vec<Figure>> {
    bed.progress.set_message("starting");
    let (running, took) = bed.home.start().await?;
    let mut figures = vec![start(&bed, &running, took), memory(&bed, &running).await];
    let target = running.log_in().await?;
    if bed.wants(DATA_MODEL) {
        bed.progress.set_message(DATA_MODEL);
        figures.extend(data_model::measure(&bed, &target).await?);
    }
    let half = policy_over_half(&target).await?;
    let timed = asks::all(&bed.network, &half);
    bed.progress.set_length(timed.len() as u64 + 3);
    bed.progress.set_position(0);
    for each in timed.iter().filter(|each| bed.wants(each.name)) {
        bed.progress.set_message(each.name);
        figures.push(latency(&bed, &running, &target, each).await?);
        bed.progress.inc(1);
    }
    let made = Arc::new(AtomicU32::new(std::process::id().wrapping_mul(4096)));
    for clients in [1, 16, MANY] {
        let name = format!("creates, {clients} clients");
        if bed.wants(&name) {
            bed.progress.set_message(name.clone());
            figures.push(creates(&bed, &running, &target, clients, &made, name).await?);
            bed.progress.inc(1);
        }
    }
    figures.push(memory_at_the_end(&running, &target).await?);
    figures.push(disk(&bed)?);
    drop(running);
    if bed.wants(sessions::SESSIONS) {
        figures.extend(sessions::measure(&bed).await?);
    }
    if bed.wants(logins::LOGINS) {
        figures.extend(logins::measure(&bed).await?);
    }
    if bed.wants(sessions_end::ENDS) {
        figures.extend(sessions_end::measure(&bed).await?);
    }
    bed.progress.finish_and_clear();
    Ok(figures)
}

fn start(bed: &Bed, running: &Running, took: Duration) -> Figure {
    let aim = if bed.network.identities > asks::AIMED_AT { 20.0 } else { 2.0 };
    Figure {
        name: "start to serving".into(),
        value: took.as_secs_f64(),
        unit: "s",
        aim: Some(Aim::AtMost(aim)),
        cpu: Some(running.cpu().as_secs_f64() * 1e6),
        ..Figure::default()
    }
}

async fn memory(bed: &Bed, running: &Running) -> Figure {
    let resident = running.resident_settled().await;
    let each = resident.saturating_sub(bed.empty) as f64 / f64::from(bed.network.identities);
    let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
    Figure {
        name: "memory per identity".into(),
        value: each / 1024.0,
        unit: "KiB",
        aim: Some(Aim::AtMost(1.5)),
        note: format!("{:.0} MiB, empty {:.0} MiB", mib(resident), mib(bed.empty)),
        ..Figure::default()
    }
}

/// Memory after all lists and creates; the identities are counted again.
async fn memory_at_the_end(running: &Running, target: &Target) -> io::Result<Figure> {
    let Ask { path, .. } = asks::list("identities", "", "&limit=1");
    let found = Client::connect(target).await?.get(&path).await?.json()?;
    let total = found.pointer("/meta/pagination/totalCount").and_then(Value::as_u64);
    let total = total.ok_or_else(|| io::Error::other("no number of identities"))?;
    let mib = running.resident_settled().await as f64 / 1_048_576.0;
    Ok(Figure {
        name: "memory at the end".into(),
        value: mib,
        unit: "MiB",
        note: format!("{total} identities"),
        ..Figure::default()
    })
}

fn disk(bed: &Bed) -> io::Result<Figure> {
    let bytes = std::fs::metadata(bed.home.database())?.len() as f64;
    let each = bytes / 1024.0 / f64::from(bed.network.identities);
    Ok(Figure {
        name: "size on disk".into(),
        value: bytes / 1_048_576.0,
        unit: "MiB",
        note: format!("{each:.1} KiB per identity of the first"),
        ..Figure::default()
    })
}

async fn policy_over_half(target: &Target) -> io::Result<String> {
    let Ask { path, .. } = asks::list("service-policies", &format!("name = \"{HALF}\""), "");
    let found = Client::connect(target).await?.get(&path).await?.json()?;
    let id = found.pointer("/data/0/id").and_then(Value::as_str);
    Ok(id.ok_or_else(|| io::Error::other("the network has no policy over half"))?.to_owned())
}

async fn latency(
    bed: &Bed,
    running: &Running,
    target: &Target,
    timed: &Timed<'_>,
) -> io::Result<Figure> {
    let mut client = Client::connect(target).await?;
    for number in 0..WARM_UP {
        let Ask { method, path, body } = (timed.ask)(number);
        client.send(method, &path, body).await?.accept()?;
    }
    let mut times = Vec::new();
    let mut total = None;
    let requests = bed.options.run.at_most(bed.options.requests, 40);
    let before = running.cpu();
    for number in 0..requests {
        let Ask { method, path, body } = (timed.ask)(number);
        let begun = Instant::now();
        let answer = client.send(method, &path, body).await?.accept()?;
        times.push(begun.elapsed());
        if number == 0 {
            let answer = answer.json()?;
            total = answer.pointer("/meta/pagination/totalCount").and_then(Value::as_u64);
        }
    }
    let used = running.cpu().saturating_sub(before);
    times.sort_unstable();
    Ok(Figure {
        name: timed.name.into(),
        value: millis(&times, 99),
        unit: "ms p99",
        median: Some(millis(&times, 50)),
        cpu: Some(used.as_secs_f64() * 1e6 / f64::from(requests)),
        aim: timed.aim,
        note: total.map(|total| format!("{total} match")).unwrap_or_default(),
    })
}

/// Identities made per second, each acknowledged once it is on the disk.
async fn creates(
    bed: &Bed,
    running: &Running,
    target: &Target,
    clients: usize,
    made: &Arc<AtomicU32>,
    name: String,
) -> io::Result<Figure> {
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(Client::connect(target).await?);
    }
    let from = Instant::now() + WARM_UP_TIME;
    let until = from + Duration::from_secs_f64(bed.options.seconds());
    let work = |client| tokio::spawn(create(client, Arc::clone(made), from, until));
    let workers: Vec<_> = connections.into_iter().map(work).collect();
    tokio::time::sleep_until(from.into()).await;
    let before = running.cpu();
    let mut times = Vec::new();
    for worker in workers {
        times.extend(worker.await.map_err(io::Error::other)??);
    }
    let (took, used) = (from.elapsed(), running.cpu().saturating_sub(before));
    times.sort_unstable();
    Ok(Figure {
        name,
        value: times.len() as f64 / took.as_secs_f64(),
        unit: "/s",
        cpu: Some(used.as_secs_f64() * 1e6 / times.len().max(1) as f64),
        aim: (clients == MANY).then_some(Aim::AtLeast(CREATES)),
        note: format!("p50 {:.1} ms, p99 {:.1} ms", millis(&times, 50), millis(&times, 99)),
        ..Figure::default()
    })
}

/// Runs one client; returns the time of each create that began before the end.
async fn create(
    mut client: Client,
    made: Arc<AtomicU32>,
    from: Instant,
    until: Instant,
) -> io::Result<Vec<Duration>> {
    let mut times = Vec::new();
    let path = format!("{API}/identities");
    while Instant::now() < until {
        let number = made.fetch_add(1, Ordering::Relaxed);
        let (site, team) = (number % 50, number % 400);
        let body = format!(
            "{{\"name\":\"new-{number}\",\"type\":\"Default\",\"isAdmin\":false,\
             \"roleAttributes\":[\"linux\",\"site-{site:02}\",\"team-{team:03}\"],\
             \"enrollment\":{{\"ott\":true}}}}"
        );
        let sent = Instant::now();
        client.send("POST", &path, Some(body)).await?.accept()?;
        if sent >= from {
            times.push(sent.elapsed());
        }
    }
    Ok(times)
}
