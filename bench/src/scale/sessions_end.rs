//! The end of 100,000 sessions by tokens at once, because their signer is disabled: the time until the controller and
//! routers know it, and reads of the API meanwhile.

use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant, SystemTime};

use futures::future::{try_join, try_join_all};
use serde_json::Value;
use weft_model::entity::{ApiSession, ExtJwtSigner, ExternalFactors, TokenLogin};
use weft_model::{Base, ChangeSet, Id, Kind, Timestamp, session_list};
use weft_store::{Embedded, Store};
use weft_wire::edge_ctrl::data_model::event::Model;
use weft_wire::edge_ctrl::data_model::revocation_type;

use super::asks::API;
use super::bed::{Bed, millis};
use super::client::{Client, Target};
use super::fill::{Network, commit};
use super::peer::{Peer, Pki};
use super::report::{Aim, Figure};
use crate::router::Credentials;

/// The name of the figures.
pub(crate) const ENDS: &str = "ends";
/// The signer of all sessions.
const SIGNER: &str = "bench-signer";
/// The number of the first router of these figures.
const ROUTERS: u32 = 6_000;
/// Routers of weft that follow the data model. One more is of another program.
const FOLLOWERS: u32 = 20;
/// Longest wait for the end of the last session.
const PATIENCE: Duration = Duration::from_secs(300);
/// Aim for the last session, in seconds.
const AIM: f64 = 20.0;

/// Fills sessions in and ends them; the controller must not run when this begins.
pub(crate) async fn measure(bed: &Bed) -> io::Result<Vec<Figure>> {
    let count = match bed.options.run.quick {
        true => bed.network.identities.min(2_000),
        false => bed.network.identities.min(100_000),
    };
    bed.progress.set_message("filling sessions by tokens in");
    let pki = Pki::of(&bed.home)?;
    let routers = (0..=FOLLOWERS).map(|at| pki.router(bed.network.far_router_id(ROUTERS + at)));
    let routers = routers.collect::<io::Result<Vec<_>>>()?;
    let (file, network, known) = (bed.home.database(), bed.network.clone(), routers.clone());
    let filled = tokio::task::spawn_blocking(move || fill(&file, &network, &known, count));
    filled.await.map_err(io::Error::other)??;
    let (running, _) = bed.home.start().await?;
    let target = running.log_in().await?;
    bed.progress.set_message("routers subscribe");
    let port = bed.home.port();
    let mut peers = Vec::new();
    for (at, router) in routers.iter().enumerate() {
        let mut peer = match at {
            0 => pki.connect_other(router, port).await?,
            _ => pki.connect(router, port).await?,
        };
        peer.subscribe().await?;
        peers.push(peer);
    }
    let other = peers.remove(0);
    let before = sessions(&target).await?;
    bed.progress.set_message("sessions end");
    let begun = Instant::now();
    let used = running.cpu();
    let mut admin = Client::connect(&target).await?;
    let path = format!("{API}/external-jwt-signers/{SIGNER}");
    admin.send("PATCH", &path, Some(r#"{"enabled":false}"#.into())).await?.accept()?;
    let followed = try_join_all(peers.into_iter().map(|peer| follow(peer, count, begun)));
    let told = try_join(followed, follow_other(other, count, begun));
    let (known, (lists, others)) =
        try_join(reads_until_ended(bed, &target, before, count, begun), told).await?;
    let used = running.cpu().saturating_sub(used).as_secs_f64() * 1e6 / f64::from(count);
    let last = lists.iter().map(|(took, ..)| *took).max().unwrap_or_default();
    let (_, messages, bytes) =
        lists.iter().max_by_key(|(_, messages, _)| *messages).copied().unwrap_or_default();
    let figure = |name: &str, took: Duration, note: String| Figure {
        name: format!("{ENDS}: {count} sessions, {name}"),
        value: took.as_secs_f64(),
        unit: "s",
        aim: Some(Aim::AtMost(AIM)),
        note,
        ..Figure::default()
    };
    let (gone, reads) = known;
    Ok(vec![
        Figure { cpu: Some(used), ..figure("gone at the controller", gone, String::new()) },
        figure(
            &format!("known to {FOLLOWERS} routers"),
            last,
            format!("{messages} messages with {:.1} KiB to each", bytes as f64 / 1024.0),
        ),
        figure("known to a router without lists", others, String::new()),
        Figure {
            name: format!("{ENDS}: reads of the API meanwhile"),
            value: millis(&reads, 99),
            unit: "ms p99",
            median: Some(millis(&reads, 50)),
            note: format!("longest of {}: {:.1} ms", reads.len(), millis(&reads, 100)),
            ..Figure::default()
        },
    ])
}

/// A signer, routers, and a session by tokens of the signer for each of the first identities.
fn fill(
    file: &std::path::Path,
    network: &Network,
    routers: &[Credentials],
    count: u32,
) -> io::Result<()> {
    let store = Embedded::open(file, weft_store::Options::default()).map_err(io::Error::other)?;
    let head = store.head().map_err(io::Error::other)?.revision;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp(since.as_millis() as i64);
    let mut set = ChangeSet::default();
    set.put_apart(ExtJwtSigner {
        base: Base::new(Id::new(SIGNER), now),
        name: SIGNER.into(),
        issuer: Some("https://ends.example".into()),
        audience: Some("weft".into()),
        kid: Some("ends".into()),
        jwks_endpoint: Some("https://ends.example/keys".into()),
        enabled: true,
        ..ExtJwtSigner::default()
    });
    for (at, router) in (ROUTERS..).zip(routers) {
        set.put_apart(network.far_router(at, router.fingerprint()));
    }
    commit(&store, head, set)?;
    for number in 0..count {
        store.live().put(session(network, number, now).into());
    }
    futures::executor::block_on(store.live().flush()).map_err(io::Error::other)
}

fn session(network: &Network, number: u32, now: Timestamp) -> ApiSession {
    let end = now.plus(Duration::from_secs(3600));
    let tokens = TokenLogin {
        client: "native".into(),
        methods: vec!["ext-jwt".into()],
        scopes: vec!["openid".into(), "offline_access".into()],
        issued_at: now,
        ends_at: end,
        login_at: now,
        refresh_number: 1,
        ..TokenLogin::default()
    };
    ApiSession {
        base: Base::new(Id::new(&session_id(number)), now),
        identity_id: network.id(Kind::Identity, number),
        authenticator_id: Id::new(&format!("extJwtId:{SIGNER}")),
        last_activity_at: now,
        is_of_client: true,
        external: ExternalFactors { signer_id: Some(Id::new(SIGNER)), ..Default::default() },
        tokens: Some(Box::new(tokens)),
        ..ApiSession::default()
    }
}

fn session_id(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// The number of API sessions.
async fn sessions(target: &Target) -> io::Result<u64> {
    let answer = Client::connect(target).await?.get(&format!("{API}/api-sessions?limit=1")).await?;
    let count = answer.json()?.pointer("/meta/pagination/totalCount").and_then(Value::as_u64);
    count.ok_or_else(|| io::Error::other("no number of sessions"))
}

/// Reads an identity until the sessions have ended; the time of that, and those of the reads.
async fn reads_until_ended(
    bed: &Bed,
    target: &Target,
    before: u64,
    count: u32,
    begun: Instant,
) -> io::Result<(Duration, Vec<Duration>)> {
    let mut client = Client::connect(target).await?;
    let path = format!("{API}/identities/{}", bed.network.id(Kind::Identity, 1));
    let (mut reads, mut ended) = (Vec::new(), None);
    for turn in 0.. {
        let sent = Instant::now();
        client.get(&path).await?;
        reads.push(sent.elapsed());
        if turn % 10 == 0 && sessions(target).await? + u64::from(count) <= before {
            ended = Some(begun.elapsed());
        }
        match ended {
            Some(_) if begun.elapsed() > Duration::from_secs(3) => break,
            None if begun.elapsed() > PATIENCE => {
                return Err(io::Error::other("the sessions have not ended"));
            }
            _ => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
    reads.sort_unstable();
    Ok((ended.unwrap_or_default(), reads))
}

/// The time until a router of weft knows all ends, the messages that tell it, and their bytes.
async fn follow(
    mut peer: Peer,
    count: u32,
    begun: Instant,
) -> io::Result<(Duration, usize, usize)> {
    let (mut known, mut messages, mut bytes) = (HashSet::new(), 0, 0);
    while known.len() < count as usize {
        let (change, length) = peer.change().await?;
        let before = known.len();
        for event in change.changes {
            let Some(Model::Revocation(one)) = event.model else { continue };
            known.extend(session_list::keys(&one.sessions).iter().copied());
            known.extend(session_list::key(&one.id));
        }
        if known.len() > before {
            (messages, bytes) = (messages + 1, bytes + length);
        }
    }
    Ok((begun.elapsed(), messages, bytes))
}

/// The time until a router that knows no lists knows all ends.
async fn follow_other(mut peer: Peer, count: u32, begun: Instant) -> io::Result<Duration> {
    let mut known = HashSet::new();
    while known.len() < count as usize {
        let (change, _) = peer.change().await?;
        for event in change.changes {
            if let Some(Model::Revocation(one)) = event.model
                && one.r#type == revocation_type::IDENTITY
            {
                known.insert(one.id);
            }
        }
    }
    Ok(begun.elapsed())
}
