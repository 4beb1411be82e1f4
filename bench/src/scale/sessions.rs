//! Sessions: 100,000 of them, which SDKs use over 1,000 routers. Measures the return of those
//! routers, the end of SDKs, and requests for service sessions.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::future::try_join_all;
use serde_json::Value;
use weft_auth::sessions::{key_print, lock_in};
use weft_identity::SealKey;
use weft_model::entity::{ApiSession, SessionCertificate, Terminator};
use weft_model::{Base, ChangeSet, Id, Kind, Timestamp};
use weft_store::{Embedded, Store};
use weft_wire::ctrl::RemoveTerminatorsRequest;
use weft_wire::edge_ctrl::{ApiSessionHeartbeat, ConnectEvents, IdentityConnectEvents};
use weft_wire::{ProtoBody as _, content_type};

use super::asks::API;
use super::bed::{Bed, millis};
use super::client::{Client, Target};
use super::fill::{Network, commit};
use super::peer::{Peer, Pki};
use super::report::{Aim, Figure};
use super::server::{Running, log_in_at};
use crate::router::Credentials;

/// The name of the figures of sessions.
pub(crate) const SESSIONS: &str = "sessions";
/// Number of clients that ask for service sessions at the same time.
const CLIENTS: usize = 16;
/// Number of routers that name sessions in heartbeats: together they know all sessions.
const SPEAKERS: usize = 40;
/// Tokens in one heartbeat, and terminators in one request.
const NAMED: usize = 10_000;
const BATCH: usize = 500;
/// Changes in one change set while filling.
const CHANGES: usize = 5_000;
/// Path at which SDKs ask for service sessions.
const CLIENT_API: &str = "/edge/client/v1";
/// Longest wait for a router, a client or an answer.
const PATIENCE: Duration = Duration::from_secs(300);

/// Numbers of sessions, of routers, and of SDKs that end.
struct Sizes {
    sessions: u32,
    routers: u32,
    leaving: u32,
}

impl Sizes {
    fn of(bed: &Bed) -> Self {
        let identities = bed.network.identities;
        match bed.options.run.quick {
            true => Self { sessions: identities.min(2_000), routers: 20, leaving: 500 },
            false => Self {
                sessions: identities.min(100_000),
                routers: 1_000,
                leaving: identities.min(10_000),
            },
        }
    }
}

/// Writes sessions into the database and measures; the controller must not run when this begins.
pub(crate) async fn measure(bed: &Bed) -> io::Result<Vec<Figure>> {
    let sizes = Sizes::of(bed);
    bed.progress.set_message("filling sessions in");
    let pki = Arc::new(Pki::of(&bed.home)?);
    let key = SealKey::load_or_make(&bed.home.root().join("pki").join("session-tokens.key"));
    let key = key.map_err(io::Error::other)?;
    let routers = (0..sizes.routers).map(|number| pki.router(bed.network.far_router_id(number)));
    let routers = routers.collect::<io::Result<Vec<_>>>()?;
    let (file, network) = (bed.home.database(), bed.network.clone());
    let (of_routers, counts) = (routers.clone(), (sizes.sessions, sizes.leaving));
    let filled = tokio::task::spawn_blocking(move || {
        let store =
            Embedded::open(&file, weft_store::Options::default()).map_err(io::Error::other)?;
        fill(&store, &network, &of_routers, &key, counts)
    });
    filled.await.map_err(io::Error::other)??;
    let (running, _) = bed.home.start().await?;
    let target = running.log_in().await?;
    let mut figures = Vec::new();
    bed.progress.set_message("routers come back");
    let (mut peers, figure) = reconnect(bed, &running, &pki, &routers).await?;
    figures.push(figure);
    bed.progress.set_message("heartbeats");
    figures.push(heartbeats(&running, &mut peers, sizes.sessions).await?);
    bed.progress.set_message("SDKs go");
    figures.push(storm(bed, &running, &target, &peers, &routers, sizes.leaving).await?);
    drop(peers);
    bed.progress.set_message("service sessions");
    figures.push(service_sessions(bed, &running, &target).await?);
    Ok(figures)
}

/// Routers, a session for each of the first identities, and terminators of some at the first router.
fn fill(
    store: &Embedded,
    network: &Network,
    routers: &[Credentials],
    key: &SealKey,
    (sessions, leaving): (u32, u32),
) -> io::Result<()> {
    let mut head = store.head().map_err(io::Error::other)?.revision;
    let mut set = ChangeSet::default();
    for (number, router) in (0..).zip(routers) {
        set.put_apart(network.far_router(number, router.fingerprint()));
    }
    for number in 0..leaving {
        set.put_apart(terminator(network, &routers[0].id, number));
        if set.changes.len() >= CHANGES {
            head = commit(store, head, std::mem::take(&mut set))?;
        }
    }
    commit(store, head, set)?;
    let now = now();
    for number in 0..sessions {
        store.live().put(session(network, key, number, now).into());
    }
    let stored = futures::executor::block_on(store.live().flush());
    stored.map_err(io::Error::other)
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(since.as_millis() as i64)
}

/// A terminator of an SDK, bound through another controller, so that this controller expects no
/// session for it.
fn terminator(network: &Network, router: &Id, number: u32) -> Terminator {
    let id = terminator_id(number);
    Terminator {
        address: id.as_str().into(),
        base: Base { is_system: true, ..Base::new(id, now()) },
        service_id: network.id(Kind::Service, number % network.services),
        router_id: router.clone(),
        binding: "edge".into(),
        host_id: network.id(Kind::Identity, number),
        source_ctrl: "another".into(),
        ..Terminator::default()
    }
}

fn terminator_id(number: u32) -> Id {
    Id::new(&format!("leaving{number:08}"))
}

fn session(network: &Network, key: &SealKey, number: u32, now: Timestamp) -> ApiSession {
    let authenticator = network.authenticator(number);
    let cert = authenticator.cert.unwrap_or_default();
    let mut session = ApiSession {
        base: Base::new(Id::new(&format!("c{:08}{number:016}", 0)), now),
        identity_id: network.id(Kind::Identity, number),
        authenticator_id: authenticator.base.id,
        last_activity_at: now,
        is_of_client: true,
        credential: key_print(&cert.public_key_print),
        certificates: vec![SessionCertificate {
            id: Id::new("login"),
            fingerprint: cert.fingerprint,
            cert_pem: cert.cert_pem,
            created_at: now,
            not_before: now,
            not_after: now.plus(Duration::from_secs(365 * 24 * 3600)),
            subject: "CN=somebody".into(),
        }],
        ..ApiSession::default()
    };
    lock_in(&mut session, key, &format!("00000000-0000-4000-8000-{number:012}"));
    session
}

/// All routers connect at once and are told of the sessions that they may be used with.
async fn reconnect(
    bed: &Bed,
    running: &Running,
    pki: &Arc<Pki>,
    routers: &[Credentials],
) -> io::Result<(Vec<(Peer, Vec<String>)>, Figure)> {
    let (before, used) = (running.resident_settled().await, running.cpu());
    let begun = Instant::now();
    let port = bed.home.port();
    let told = try_join_all(routers.iter().zip(0..).map(|(router, number)| {
        let (pki, router) = (Arc::clone(pki), router.clone());
        tokio::spawn(async move {
            let mut peer = pki.connect(&router, port).await?;
            let sessions = peer.sessions(number < SPEAKERS).await?;
            Ok::<_, io::Error>((peer, sessions))
        })
    }));
    let told = told.await.map_err(io::Error::other)?;
    let told = told.into_iter().collect::<io::Result<Vec<_>>>()?;
    let took = begun.elapsed();
    let (most, after) = (running.resident_peak(), running.resident_settled().await);
    let all: usize = told.iter().map(|(_, (count, _))| count).sum();
    let mib = |bytes: u64| bytes.saturating_sub(before) as f64 / 1_048_576.0;
    let figure = Figure {
        name: format!("{SESSIONS}: {} routers come back", routers.len()),
        value: took.as_secs_f64(),
        unit: "s",
        aim: Some(Aim::AtMost(10.0)),
        cpu: Some(running.cpu().saturating_sub(used).as_secs_f64() * 1e6 / routers.len() as f64),
        note: format!(
            "{all} sessions told; {:.0} MiB more at most, {:.0} MiB after (aim < 200)",
            mib(most),
            mib(after)
        ),
        ..Figure::default()
    };
    Ok((told.into_iter().map(|(peer, (_, tokens))| (peer, tokens)).collect(), figure))
}

/// Routers name their sessions in heartbeats, as real routers do once a minute.
async fn heartbeats(
    running: &Running,
    peers: &mut [(Peer, Vec<String>)],
    sessions: u32,
) -> io::Result<Figure> {
    let mut named = std::collections::HashSet::new();
    let used = running.cpu();
    let begun = Instant::now();
    for (peer, known) in peers.iter() {
        let own = known.iter().filter(|token| named.insert((*token).clone()));
        let own: Vec<String> = own.cloned().collect();
        for tokens in own.chunks(NAMED) {
            let heartbeat = ApiSessionHeartbeat { tokens: tokens.to_vec() };
            peer.send(heartbeat.to_message()).await?;
            // The answer comes after all earlier messages were handled.
            peer.ask(weft_wire::Message::new(content_type::PING, "")).await?;
        }
    }
    let used = running.cpu().saturating_sub(used);
    let count = named.len();
    Ok(Figure {
        name: format!("{SESSIONS}: heartbeats of {sessions}"),
        value: begun.elapsed().as_secs_f64(),
        unit: "s",
        cpu: Some(used.as_secs_f64() * 1e6 / count.max(1) as f64),
        note: format!("{count} are known to routers"),
        ..Figure::default()
    })
}

/// Connected SDKs with terminators end at the same time.
async fn storm(
    bed: &Bed,
    running: &Running,
    target: &Target,
    peers: &[(Peer, Vec<String>)],
    routers: &[Credentials],
    leaving: u32,
) -> io::Result<Figure> {
    let Some(((peer, _), router)) = peers.iter().zip(routers).next() else {
        return Err(io::Error::other("no routers"));
    };
    let events = |is_connected: bool| {
        let event = |number| IdentityConnectEvents {
            identity_id: bed.network.id(Kind::Identity, number).to_string(),
            is_connected,
            connect_times: Vec::new(),
        };
        let events = (0..leaving).map(event).collect();
        ConnectEvents { events, full_state: false }.to_message()
    };
    let settled = || peer.ask(weft_wire::Message::new(content_type::PING, ""));
    peer.send(events(true)).await?;
    settled().await?;
    let used = running.cpu();
    let begun = Instant::now();
    peer.send(events(false)).await?;
    let ids: Vec<u32> = (0..leaving).collect();
    let requests = ids.chunks(BATCH).map(|batch| {
        let terminator_ids = batch.iter().map(|at| terminator_id(*at).to_string()).collect();
        peer.ask(RemoveTerminatorsRequest { terminator_ids }.to_message())
    });
    try_join_all(requests).await?;
    settled().await?;
    let mut client = Client::connect(target).await?;
    let path = format!("{API}/terminators?limit=1&filter=router%3D%22{}%22", router.id);
    let left = client.get(&path).await?.json()?;
    let left = left.pointer("/meta/pagination/totalCount").and_then(Value::as_u64);
    let took = begun.elapsed();
    if left != Some(0) {
        return Err(io::Error::other(format!("terminators are left: {left:?}")));
    }
    let used = running.cpu().saturating_sub(used);
    Ok(Figure {
        name: format!("{SESSIONS}: {leaving} SDKs go at once"),
        value: took.as_secs_f64(),
        unit: "s",
        aim: Some(Aim::AtMost(2.0)),
        cpu: Some(used.as_secs_f64() * 1e6 / f64::from(leaving)),
        ..Figure::default()
    })
}

/// Clients with a session of the administrator each ask for service sessions, service by service.
async fn service_sessions(bed: &Bed, running: &Running, target: &Target) -> io::Result<Figure> {
    let mut client = Client::connect(target).await?;
    let policy = r##"{"name":"bench sessions","type":"Dial","semantic":"AnyOf",
        "identityRoles":["#all"],"serviceRoles":["#all"]}"##;
    client.send("POST", &format!("{API}/service-policies"), Some(policy.to_owned())).await?;
    let logins = (0..CLIENTS).map(async |_| {
        let target = Arc::new(log_in_at(target, CLIENT_API).await?);
        Client::connect(&target).await
    });
    let clients = try_join_all(logins).await?;
    let seconds = Duration::from_secs_f64(bed.options.seconds().max(2.0));
    let until = Instant::now() + seconds.min(PATIENCE);
    let used = running.cpu();
    let begun = Instant::now();
    let workers = clients.into_iter().zip(0..).map(|(client, number)| {
        let network = bed.network.clone();
        tokio::spawn(async move { ask(client, &network, number, until).await })
    });
    let (mut times, mut bytes) = (Vec::new(), 0);
    for worker in try_join_all(workers).await.map_err(io::Error::other)? {
        let (of_one, answer) = worker?;
        times.extend(of_one);
        bytes = bytes.max(answer);
    }
    let (took, used) = (begun.elapsed(), running.cpu().saturating_sub(used));
    times.sort_unstable();
    Ok(Figure {
        name: format!("{SESSIONS}: service sessions, {CLIENTS} clients"),
        value: times.len() as f64 / took.as_secs_f64(),
        unit: "/s",
        aim: Some(Aim::AtLeast(5_000.0)),
        cpu: Some(used.as_secs_f64() * 1e6 / times.len().max(1) as f64),
        note: format!(
            "p50 {:.1} ms, p99 {:.1} ms; answers of {:.1} KiB",
            millis(&times, 50),
            millis(&times, 99),
            bytes as f64 / 1024.0
        ),
        ..Figure::default()
    })
}

/// Asks for a session of each service, one after the other; returns the time of each request, and the bytes
/// of the longest answer.
async fn ask(
    mut client: Client,
    network: &Network,
    number: u32,
    until: Instant,
) -> io::Result<(Vec<Duration>, usize)> {
    let (mut times, mut bytes) = (Vec::new(), 0);
    let path = format!("{CLIENT_API}/sessions");
    for turn in 0.. {
        if Instant::now() >= until {
            break;
        }
        let service = network.id(Kind::Service, (number + turn) % network.services);
        let body = format!(r#"{{"serviceId":"{service}","type":"Dial"}}"#);
        let sent = Instant::now();
        let answer = client.send("POST", &path, Some(body)).await?.accept()?;
        times.push(sent.elapsed());
        bytes = bytes.max(answer.len());
    }
    Ok((times, bytes))
}
