//! Many silent connections: their number is limited, and other clients still get in.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::task::JoinSet;

use super::door::{Door, Doors};
use crate::network::NetworkFolder;
use crate::operator::Operator;
use crate::streams::{Manner, Server, dial, round_trip};
use crate::wait::{PATIENCE, until, within};

/// Most half-open connections of one address: its places, and as many waiting for one.
const API_CAP: usize = 2 * 256;
const EDGE_CAP: usize = 2 * EDGE_PLACES;
const EDGE_PLACES: usize = 64;
/// Number of connections beyond these limits.
const EXCESS: usize = 80;
/// Pause between two attempts of one connection.
const PAUSE: Duration = Duration::from_millis(200);
/// Last numbers of the addresses 127.0.0.N that take all places of the edge, with 64 connections each.
const EVERYWHERE: std::ops::Range<u8> = 10..20;

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_at_the_doors_keeps_nobody_out() {
    let place = NetworkFolder::empty();
    let mut network = place.quickstart();
    network.says("The network is up", PATIENCE).await;
    let operator = Operator::log_in(place.control).await;
    operator.allow_everybody().await;
    let server = Server::tcp(Manner::Echo).await;
    operator.tunneled("echo", server.port(), true).await;
    let early = operator.endpoint("early").await;
    let mut circuit = dial(&early, "echo").await;
    let doors = Doors::of(&place, &operator.identity("stranger").await);
    let late = operator.identity("late").await;

    // From one address.
    let source = Ipv4Addr::new(127, 0, 0, 2);
    let at_api = Crowd::gather(&doors.api, source, API_CAP + EXCESS);
    let at_edge = Crowd::gather(&doors.edge, source, EDGE_CAP + EXCESS);
    for (crowd, cap) in [(&at_api, API_CAP), (&at_edge, EDGE_CAP)] {
        let full = async || match crowd.turned_away() {
            count if count > EXCESS => Ok(()),
            count => Err(count),
        };
        until(&format!("{} or more are turned away", EXCESS), PATIENCE, full).await;
        println!("crowd: {} inside, {} turned away", crowd.inside(), crowd.turned_away());
        // A refused client may not have noticed yet.
        let within_cap = async || match crowd.inside() {
            count if count <= cap + EXCESS / 2 => Ok(()),
            count => Err(count),
        };
        until(&format!("about {cap} have room"), PATIENCE, within_cap).await;
    }
    let second = Operator::log_in(place.control).await;
    second.list(&weft_contract::resource::service::KIND).await;
    let endpoint = weft_sdk::Endpoint::from_identity(late.clone()).await.unwrap();
    let mut stream = dial(&endpoint, "echo").await;
    round_trip(&mut stream, "from one address").await.unwrap();
    drop((at_api, at_edge));

    // From so many addresses that the edge has no place left: newcomers wait for the next deadline
    // of a silent connection, and clients inside notice nothing.
    let crowds: Vec<Crowd> = EVERYWHERE
        .map(|last| Crowd::gather(&doors.edge, Ipv4Addr::new(127, 0, 0, last), EDGE_PLACES))
        .collect();
    let full = async || match crowds.iter().map(Crowd::inside).sum::<usize>() {
        count if count >= 512 => Ok(()),
        count => Err(count),
    };
    until("the edge is full", PATIENCE, full).await;
    within("others go on", PATIENCE, round_trip(&mut circuit, "inside")).await.unwrap();
    let endpoint = weft_sdk::Endpoint::from_identity(late).await.unwrap();
    let mut stream = dial(&endpoint, "echo").await;
    round_trip(&mut stream, "from everywhere").await.unwrap();
    round_trip(&mut circuit, "still inside").await.unwrap();
}

/// Silent connections, each opened again when it is cut. Closed when dropped.
struct Crowd {
    inside: Arc<AtomicUsize>,
    turned_away: Arc<AtomicUsize>,
    _members: JoinSet<()>,
}

impl Crowd {
    fn gather(door: &Door, source: Ipv4Addr, count: usize) -> Self {
        let (inside, turned_away) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let mut members = JoinSet::new();
        for _ in 0..count {
            let (door, inside, away) = (door.clone(), inside.clone(), turned_away.clone());
            members.spawn(async move {
                loop {
                    if let Ok(mut stream) = door.knock_from(source).await {
                        inside.fetch_add(1, Ordering::Relaxed);
                        let _ = stream.read(&mut [0]).await;
                        inside.fetch_sub(1, Ordering::Relaxed);
                        away.fetch_add(1, Ordering::Relaxed);
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
        Self { inside, turned_away, _members: members }
    }

    fn inside(&self) -> usize {
        self.inside.load(Ordering::Relaxed)
    }

    fn turned_away(&self) -> usize {
        self.turned_away.load(Ordering::Relaxed)
    }
}
