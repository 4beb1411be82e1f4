//! An invalid frame, hello or message at the router's edge closes its connection, and the log says
//! why. Other clients continue.

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use weft_client::{ClientApi, Credentials};
use weft_sdk::IdentityFile;
use weft_wire::edge::{content_type, header};
use weft_wire::frame::encode;
use weft_wire::hello::{self, Hello};
use weft_wire::{Message, payload};

use super::door::{Door, Doors, exchange, until_cut};
use super::garbage::{Noise, frames, hellos};
use super::witness::Witness;
use crate::network::NetworkFolder;
use crate::operator::Operator;
use crate::program::Program;
use crate::streams::{Manner, Server};
use crate::wait::{PATIENCE, until};

/// Random attempts of each sort.
const ATTEMPTS: usize = 60;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_malformed_at_the_edge_closes_its_connection_only() {
    let place = NetworkFolder::empty();
    // Of many refused peers the log names only some, unless it is asked for all.
    let filter = "info,weft_channel::accept=debug,weft_channel::listener=debug,weft_router::bindings::edge=debug";
    let mut network = place.quickstart_saying(filter);
    network.says("The network is up", PATIENCE).await;
    let operator = Operator::log_in(place.control).await;
    operator.allow_everybody().await;
    let server = Server::tcp(Manner::Echo).await;
    operator.tunneled("echo", server.port(), true).await;
    let routed = weft_sdk::EndpointBuilder::new().router_flow_control();
    let witnesses = [
        Witness::at(&operator.endpoint("witness").await, "echo").await,
        Witness::at(&operator.endpoint_with("old-witness", routed).await, "echo").await,
    ];

    let identity = operator.identity("stranger").await;
    let edge = Doors::of(&place, &identity).edge;
    let token = session(&identity).await;
    let mut hello = Hello::new("stranger");
    hello.headers.set_str(header::SESSION_TOKEN, &token);

    without_session(&edge, &network, &hello).await;
    for witness in &witnesses {
        witness.goes_on().await;
    }
    with_session(&edge, &network, &hello).await;
    for witness in &witnesses {
        witness.goes_on().await;
    }
    noise(&edge, &hello).await;
    for witness in witnesses {
        witness.ends().await;
    }
    assert!(!network.said().contains("panicked"), "{}", network.said());
    assert!(network.stop().await.success());
}

/// The token of a session that the router knows or will soon know.
async fn session(identity: &IdentityFile) -> String {
    let api = ClientApi::of_identity(identity).unwrap();
    api.login(Credentials::Certificate, Default::default()).await.unwrap();
    api.token().unwrap()
}

/// Sends invalid bytes before a hello is complete.
async fn without_session(edge: &Door, network: &Program, hello: &Hello) {
    for (cause, bytes) in hellos(hello) {
        let (port, _) = say(edge.enter().await, &bytes).await;
        logged(network, port, cause).await;
    }
    let nameless = encode(&Hello::new("stranger").to_message());
    let (port, _) = say(edge.enter().await, &nameless).await;
    logged(network, port, "carries no session token").await;
    let mut lost = hello.clone().grouped_later("edge.default", "no such channel", b"secret");
    lost.headers.set_str(header::SESSION_TOKEN, "any");
    let (port, _) = say(edge.enter().await, &encode(&lost.to_message())).await;
    logged(network, port, "belongs to no open group").await;

    let good = encode(&hello.to_message());
    let mut noise = Noise::new(1);
    for _ in 0..ATTEMPTS {
        say(edge.enter().await, &noise.bytes(3000)).await;
        say(edge.enter().await, &noise.like(&good)).await;
    }
}

/// Sends invalid frames and messages on channels whose hello was accepted.
async fn with_session(edge: &Door, network: &Program, hello: &Hello) {
    for (cause, bytes) in frames() {
        let (port, _) = say(channel(edge, hello).await, &bytes).await;
        logged(network, port, cause).await;
    }
    let mut nameless = Message::new(payload::content_type::PAYLOAD, "data");
    nameless.headers.set_u32(header::CONN_ID, 1);
    let mut odd_ack = Message::new(payload::content_type::ACK, "odd");
    odd_ack.headers.set_u32(header::CONN_ID, 1);
    let malformed = [Message::new(content_type::DATA, "whose?"), nameless, odd_ack];
    for message in malformed {
        let (port, _) = say(channel(edge, hello).await, &encode(&message)).await;
        logged(network, port, "an SDK is disconnected: it sent a malformed message").await;
    }
}

/// Well-formed frames without meaning: refused, ignored or a reason to close.
async fn noise(edge: &Door, hello: &Hello) {
    let types = [
        content_type::CONNECT,
        content_type::DATA,
        content_type::STATE_CLOSED,
        content_type::BIND,
        content_type::UNBIND,
        content_type::UPDATE_BIND,
        content_type::HEALTH_EVENT,
        content_type::UPDATE_TOKEN,
        content_type::DIAL_SUCCESS,
        content_type::DIAL_FAILED,
        content_type::STATE_CONNECTED,
        payload::content_type::PAYLOAD,
        payload::content_type::ACK,
        payload::content_type::CONTROL,
        payload::content_type::CLOSE,
        weft_wire::content_type::PING,
        weft_wire::content_type::LATENCY,
        weft_wire::content_type::HEARTBEAT,
        0,
        i32::MAX,
    ];
    let keys: Vec<i32> = (0..4)
        .chain(hello::header::REPLY_FOR..hello::header::REPLY_FOR + 8)
        .chain(header::CONN_ID..header::CONN_ID + 40)
        .chain(2256..2270)
        .collect();
    let mut noise = Noise::new(2);
    for _ in 0..ATTEMPTS {
        let mut bytes = Vec::new();
        for _ in 0..10 {
            bytes.extend(encode(&noise.message(&types, &keys)));
        }
        say(channel(edge, hello).await, &bytes).await;
        let message = noise.message(&types, &keys);
        say(channel(edge, hello).await, &noise.like(&encode(&message))).await;
    }
}

/// A channel whose hello was accepted.
async fn channel(edge: &Door, hello: &Hello) -> TlsStream<TcpStream> {
    let mut stream = edge.enter().await;
    let answer = exchange(&mut stream, &hello.to_message()).await;
    assert_eq!(answer.content_type, weft_wire::content_type::RESULT, "{}", answer.text());
    assert_eq!(answer.headers.get_bool(hello::header::RESULT_SUCCESS), Some(true));
    stream
}

/// Sends bytes, ends properly, and waits to be cut; returns the local port and the answer.
pub(super) async fn say(mut stream: TlsStream<TcpStream>, bytes: &[u8]) -> (u16, Vec<u8>) {
    let port = stream.get_ref().0.local_addr().unwrap().port();
    let _ = all(&mut stream, bytes).await;
    let (answer, _) = until_cut(&mut stream).await;
    (port, answer)
}

async fn all<S>(stream: &mut S, bytes: &[u8]) -> std::io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    stream.write_all(bytes).await?;
    stream.shutdown().await
}

/// Waits until the log names this peer and the cause.
pub(super) async fn logged(network: &Program, port: u16, cause: &str) {
    let peer = format!("127.0.0.1:{port}");
    let look = async || {
        let said = network.said();
        let lines: Vec<&str> = said.lines().filter(|line| line.contains(&peer)).collect();
        if lines.iter().any(|line| line.contains(cause)) { Ok(()) } else { Err(lines.join("\n")) }
    };
    until(&format!("the log says `{cause}` of {peer}"), PATIENCE, look).await;
}
