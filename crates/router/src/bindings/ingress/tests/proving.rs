//! A host that proves itself, and a router on the path that keeps that from the dialer.

use std::sync::Weak;

use tokio::net::TcpStream;
use weft_contract::entity::DialBind;
use weft_contract::resource::service_session::{END_AUDIENCE, EndClaims, EndStatement};
use weft_e2e::ending::{Announced, HostKey};
use weft_e2e::ends::StatementReply;
use weft_identity::token::TokenSigner;
use weft_identity::{KeyAlgorithm, KeySet, PrivateKey};
use weft_wire::edge::header;

use super::*;
use crate::bindings::ends::{Purpose, TunnelEnds};
use crate::bindings::keys::{self, HostedConnection, Shown};
use crate::bindings::transport::{self, Connected};
use crate::forwarder::Circuit;
use crate::seam::{Egress, EndRequest, PeerData};

/// The controller's statement about an end.
pub(super) fn stated(request: EndRequest) -> StatementReply {
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let signer = TokenSigner::with_kid(key, "k1").unwrap();
    let claims = EndClaims {
        iss: "c".into(),
        aud: END_AUDIENCE.into(),
        iat: 1_800_000_000,
        exp: 1_800_000_600,
        sub: "r1".into(),
        name: "router1".into(),
        session: "r1".into(),
        service: request.service,
        role: DialBind::Bind,
        instance: String::new(),
        key: "07".repeat(32),
    };
    let mut keys = KeySet::new();
    keys.insert("k1", signer.public().clone());
    let (statement, keys) = (signer.sign(&claims).unwrap(), keys.to_json().unwrap());
    StatementReply::Stated("r1".into(), EndStatement { statement, keys })
}

impl Table {
    /// The host's router dials the application, and proves itself to a dialer that has announced that it does so, too: the
    /// answer of the router. A router on the way passes on nothing of it but the key.
    pub(super) async fn proving(
        &self,
        forwarder: &Arc<Forwarder>,
        circuit: &Arc<Circuit>,
        egress: &Egress,
    ) -> PeerData {
        let control: Arc<dyn Control> = self.this.get().and_then(Weak::upgrade).unwrap();
        let ends = TunnelEnds::new(&control).unwrap();
        let shown = Shown::of(Some(&ends), Purpose::hosts("web", "")).await.unwrap();
        let announced = Announced { hint: [7; 16], hears_first: true };
        let handshake = keys::answer(&egress.peer_data).unwrap().unwrap();
        let demands = egress.binding == "proving, demanded";
        let hosted =
            HostedConnection { circuit: &circuit.id, claimed: None, demands, is_stream: true };
        let (crypto, told) = handshake.proving((shown, announced), hosted);
        let public_key = header::PUBLIC_KEY.cast_unsigned();
        let told = HostKey::read(&told[&public_key]).unwrap();
        assert!(told.proves.is_some());
        let address = egress.destination.strip_prefix("tcp:").unwrap();
        let connected = Connected::Tcp(TcpStream::connect(address).await.unwrap());
        let options = Options::default();
        transport::attach(forwarder, circuit, egress, connected, &options, Some(crypto));
        let key = bytes::Bytes::copy_from_slice(told.key.as_bytes());
        PeerData::from([(public_key, key)])
    }
}

#[tokio::test]
async fn a_dialer_that_does_not_hear_of_the_proof_is_served_unless_it_is_demanded() {
    let bed = Bed::new();
    let echo = echo().await;
    let data: Vec<u8> = (0..300_000_u32).map(|number| (number / 7) as u8).collect();
    for (name, binding) in [("open", "proving"), ("demanding", "proving, demanded")] {
        bed.service(name, binding, echo.clone());
        let bound = bed.streams(Some(name)).await;
        let mut stream = TcpStream::connect(bound).await.unwrap();
        let (mut reader, mut writer) = stream.split();
        let writing = async {
            writer.write_all(&data).await?;
            writer.shutdown().await
        };
        let mut got = Vec::new();
        let reading = reader.read_to_end(&mut got);
        let (_, read) = soon(async { tokio::join!(writing, reading) }).await;
        match name {
            "open" => assert!(read.is_ok() && got == data, "{read:?}"),
            _ => assert!(read.is_err() && got.is_empty(), "{read:?}"),
        }
    }
    bed.empty().await;
}
