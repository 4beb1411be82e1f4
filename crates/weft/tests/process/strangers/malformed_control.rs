//! Invalid peers and messages at the controller: peers that are no routers, and a router with
//! invalid messages.

use std::fs;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use weft_contract::resource::edge_router;
use weft_identity::IdentitySection;
use weft_wire::ctrl::{self, RouterHello};
use weft_wire::frame::encode;
use weft_wire::hello::{self, Hello};
use weft_wire::{Message, VersionInfo, edge_ctrl};

use super::door::{Door, Doors, exchange, until_cut};
use super::garbage::{Noise, frames, hellos};
use super::malformed::{logged, say};
use super::witness::Witness;
use crate::network::NetworkFolder;
use crate::operator::Operator;
use crate::program::{Program, text, weft};
use crate::streams::{Manner, Server};
use crate::wait::{PATIENCE, until};

/// Random attempts of each sort.
const ATTEMPTS: usize = 60;
/// Invalid protobuf: a length that exceeds any body.
const NO_PROTOBUF: [u8; 6] = [0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f];

#[tokio::test(flavor = "multi_thread")]
async fn what_is_malformed_at_the_control_plane_closes_its_connection_only() {
    let place = NetworkFolder::empty();
    // Of many refused peers the log names only some, unless it is asked for all.
    let filter = "info,weft_channel::accept=debug,weft_channel::listener=debug,weft_router::bindings::edge=debug";
    let mut network = place.quickstart_saying(filter);
    network.says("The network is up", PATIENCE).await;
    let operator = Operator::log_in(place.control).await;
    operator.allow_everybody().await;
    let server = Server::tcp(Manner::Echo).await;
    operator.tunneled("echo", server.port(), true).await;
    let witness = Witness::at(&operator.endpoint("witness").await, "echo").await;

    let identity = operator.identity("stranger").await;
    strangers(&Doors::of(&place, &identity).control, &network).await;
    witness.goes_on().await;

    let (id, keys) = other_router(&place, &operator).await;
    let control = Doors::with(&place, &keys).control;
    impostors(&control, &network).await;
    witness.goes_on().await;
    let mut hello = Hello::new(id.as_str());
    let version = VersionInfo::from_header("v2.0.0|abc|2026-01-01|linux|amd64");
    RouterHello { version, ..RouterHello::default() }.write(&mut hello.headers);
    routers(&control, &network, &hello).await;
    witness.goes_on().await;
    noise(&control, &hello).await;
    witness.ends().await;
    assert!(operator.router_online().await.unwrap());
    assert!(!network.said().contains("panicked"), "{}", network.said());
    assert!(network.stop().await.success());
}

/// A peer with a certificate of the network that is no router's is cut, whatever it sends.
async fn strangers(control: &Door, network: &Program) {
    let hello = Hello::new("stranger");
    let good = ("", encode(&hello.to_message()));
    for (_, bytes) in hellos(&hello).into_iter().chain([good]) {
        let (port, answer) = say(control.enter().await, &bytes).await;
        assert!(answer.is_empty());
        logged(network, port, "no router or controller has the certificate").await;
    }
}

/// Routers that do not authenticate as themselves.
async fn impostors(control: &Door, network: &Program) {
    let hello = Hello::new("stranger");
    for (cause, bytes) in hellos(&hello) {
        let (port, _) = say(control.enter().await, &bytes).await;
        logged(network, port, cause).await;
    }
    let good = encode(&hello.to_message());
    let (port, _) = say(control.enter().await, &good).await;
    logged(network, port, "unknown/unenrolled router").await;
    let mut noise = Noise::new(3);
    for _ in 0..ATTEMPTS {
        say(control.enter().await, &noise.bytes(3000)).await;
        say(control.enter().await, &noise.like(&good)).await;
    }
}

/// Id and keys of a second router, enrolled and not running.
pub(super) async fn other_router(
    place: &NetworkFolder,
    operator: &Operator,
) -> (String, IdentitySection) {
    let id = operator.create(&edge_router::KIND, &json!({"name": "paris"})).await;
    let made: Value = operator.client.get(&edge_router::KIND, &id).await.unwrap();
    let token = place.folder().join("paris.jwt");
    fs::write(&token, made["enrollmentJwt"].as_str().unwrap()).unwrap();
    let file = fs::read_to_string(place.home().join("router.yaml")).unwrap();
    let keys = |name: &str| format!("{}/{name}", place.home().join("pki").display());
    let path = place.folder().join("paris.yaml");
    fs::write(&path, file.replace(&keys("router"), &keys("paris"))).unwrap();
    let (path, token) = (path.to_str().unwrap(), token.to_str().unwrap());
    let done = weft(place.folder(), &["router", "enroll", path, "--jwt", token]).await;
    assert!(done.status.success(), "{}", text(&done));
    let section = IdentitySection {
        cert: keys("paris.crt"),
        key: keys("paris.key"),
        ca: keys("paris.ca.crt"),
        ..IdentitySection::default()
    };
    (id, section)
}

/// Messages of a router after its hello.
async fn routers(control: &Door, network: &Program, hello: &Hello) {
    for (cause, bytes) in frames() {
        let (port, _) = say(channel(control, hello).await, &bytes).await;
        logged(network, port, cause).await;
    }
    use ctrl::content_type as fabric;
    use edge_ctrl::content_type as edge;
    let types = [
        fabric::CIRCUIT_REQUEST,
        fabric::ROUTE_RESULT,
        fabric::FAULT,
        fabric::CIRCUIT_CONFIRMATION,
        fabric::METRICS,
        fabric::ROUTER_LINKS,
        fabric::VERIFY_ROUTER,
        fabric::CREATE_TERMINATOR,
        fabric::REMOVE_TERMINATORS,
        fabric::INSPECT_REQUEST,
        fabric::ALERTS,
        edge::CLIENT_HELLO,
        edge::API_SESSION_HEARTBEAT,
        edge::VALIDATE_SESSIONS_REQUEST,
        edge::CREATE_TUNNEL_CIRCUIT_V2_REQUEST,
        edge::CREATE_TERMINATOR_V2_REQUEST,
        edge::CREATE_TUNNEL_TERMINATOR_REQUEST_V2,
        edge::HEALTH_EVENT,
        edge::EXTEND_VERIFY,
    ];
    for content_type in types {
        let before = closed_for(network, content_type);
        let message = Message::new(content_type, NO_PROTOBUF.to_vec());
        // The stream stays open, so that the controller closes it.
        let mut stream = channel(control, hello).await;
        stream.write_all(&encode(&message)).await.unwrap();
        until_cut(&mut stream).await;
        let look = async || match closed_for(network, content_type) {
            count if count > before => Ok(()),
            count => Err(count),
        };
        until(&format!("a malformed {content_type} closes"), PATIENCE, look).await;
    }
}

/// Number of log records that a message of this type closed a connection.
fn closed_for(network: &Program, content_type: i32) -> usize {
    let kind = format!("content_type={content_type} ");
    let said = network.said();
    let lines = said.lines().filter(|line| line.contains("not understood"));
    lines.filter(|line| line.contains(&kind) && line.contains("closes=true")).count()
}

/// Well-formed frames without meaning.
async fn noise(control: &Door, hello: &Hello) {
    // All types except the one by which a router ends its connection.
    let types: Vec<i32> = (1000..1060)
        .filter(|kind| *kind != ctrl::content_type::DECOMMISSION_ROUTER)
        .chain(20_000..20_004)
        .chain(20_100..20_104)
        .chain(20_200..20_225)
        .chain(20_300..20_305)
        .chain(20_400..20_415)
        .chain(0..8)
        .collect();
    let keys: Vec<i32> = (0..14).chain(1000..1020).chain(2000..2020).chain([128]).collect();
    let mut noise = Noise::new(4);
    for _ in 0..ATTEMPTS {
        let mut bytes = Vec::new();
        for _ in 0..10 {
            bytes.extend(encode(&noise.message(&types, &keys)));
        }
        say(channel(control, hello).await, &bytes).await;
        let message = noise.message(&types, &keys);
        say(channel(control, hello).await, &noise.like(&encode(&message))).await;
    }
}

/// A channel whose hello was accepted. A router that connects again at once may have to wait.
async fn channel(control: &Door, hello: &Hello) -> TlsStream<TcpStream> {
    let attempt = async || {
        let mut stream = control.enter().await;
        let answer = exchange(&mut stream, &hello.to_message()).await;
        match answer.headers.get_bool(hello::header::RESULT_SUCCESS) {
            Some(true) => Ok(stream),
            _ => Err(answer.text()),
        }
    };
    until("the router's hello is accepted", PATIENCE, attempt).await.0
}
