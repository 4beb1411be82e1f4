use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};
use rustls_pki_types::ServerName;

use super::{Pki, dns};
use crate::tls::{
    ClientAuth, ClientTls, ServerTls, Trust, client_config, collecting_client_config, in_words,
    server_config, verify_server,
};
use crate::{
    Error, Identity, KeyAlgorithm, KeyPurpose, KeyedChain, LiveIdentity, San, SpiffeId,
    TrustBundle, Verify,
};

const ALPN: &[u8] = b"ziti-ctrl";

/// Runs a handshake in memory, sends a byte each way, and returns both ends.
pub(super) fn handshake(
    server: ServerConfig,
    client: ClientConfig,
    name: &str,
) -> Result<(ServerConnection, ClientConnection), String> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
    let mut server = ServerConnection::new(Arc::new(server)).unwrap();
    client.writer().write_all(b"x").unwrap();
    let mut got = [0];
    for _ in 0..10 {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        let mut wire = wire.as_slice();
        while !wire.is_empty() {
            server.read_tls(&mut wire).unwrap();
            server.process_new_packets().map_err(|error| format!("server: {error}"))?;
        }
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        let mut wire = wire.as_slice();
        while !wire.is_empty() {
            client.read_tls(&mut wire).unwrap();
            client.process_new_packets().map_err(|error| format!("client: {error}"))?;
        }
        if server.reader().read(&mut got).is_ok_and(|read| read == 1) {
            return Ok((server, client));
        }
    }
    Err("no end to it".into())
}

fn require(identity: &Arc<LiveIdentity>) -> ServerConfig {
    let tls = ServerTls { alpn: &[ALPN], client_auth: ClientAuth::Require };
    server_config(identity, &tls).unwrap()
}

#[test]
fn both_sides_are_who_they_say() {
    let pki = Pki::new();
    let server = LiveIdentity::fixed(pki.identity("ctrl", "ctrl.example"));
    let client = LiveIdentity::fixed(pki.identity("r1", "r1.example"));
    let tls = ClientTls::of_identity(&client, &[ALPN]);
    let (server_end, client_end) =
        handshake(require(&server), client_config(&tls).unwrap(), "ctrl.example").unwrap();
    assert_eq!(client_end.alpn_protocol(), Some(ALPN));
    let group = client_end.negotiated_key_exchange_group().unwrap().name();
    assert_eq!(group, rustls::NamedGroup::X25519MLKEM768, "post-quantum hybrid is preferred");
    let chain = server_end.peer_certificates().unwrap();
    let path = server.current().ca().verify(chain, Verify::default(), pki.now).unwrap();
    assert_eq!(path[0].common_name(), Some("r1"));
}

#[test]
fn wrong_name_stranger_and_missing_certificate_are_refused() {
    let pki = Pki::new();
    let server = LiveIdentity::fixed(pki.identity("ctrl", "ctrl.example"));
    let client = LiveIdentity::fixed(pki.identity("r1", "r1.example"));
    let dial = |tls: &ClientTls<'_>, name: &str| {
        handshake(require(&server), client_config(tls).unwrap(), name).map(|_| ())
    };
    let error = dial(&ClientTls::of_identity(&client, &[ALPN]), "other").unwrap_err();
    assert!(error.contains("it is not for `other`"), "{error}");
    let stranger = Trust::Bundle(Pki::new().bundle());
    let tls = ClientTls { trust: stranger, ..ClientTls::of_identity(&client, &[ALPN]) };
    let error = dial(&tls, "ctrl.example").unwrap_err();
    assert!(error.contains("certificate refused"), "{error}");
    let error = dial(&ClientTls::anonymous(pki.bundle(), &[ALPN]), "ctrl.example");
    assert!(error.unwrap_err().contains("server: "), "a client certificate is required");
    let error = dial(&ClientTls::of_identity(&client, &[b"other"]), "ctrl.example").unwrap_err();
    assert!(error.contains("server: "), "no protocol in common: {error}");
}

#[test]
fn a_client_of_controllers_talks_to_no_router() {
    let pki = Pki::new();
    let server = |id: SpiffeId| {
        let sans = [dns("localhost"), San::Uri(id.to_string())];
        let chain = pki.leaf("any", &sans, KeyPurpose::Server);
        let server = LiveIdentity::fixed(Identity::new(None, vec![chain], pki.bundle()));
        let tls = ServerTls { alpn: &[ALPN], client_auth: ClientAuth::None };
        server_config(&server, &tls).unwrap()
    };
    let dial = |id: SpiffeId, to_controllers: bool| {
        let tls = ClientTls { to_controllers, ..ClientTls::anonymous(pki.bundle(), &[ALPN]) };
        handshake(server(id), client_config(&tls).unwrap(), "localhost").map(|_| ())
    };
    let router = || SpiffeId::router("test.example", "r1");
    assert!(dial(router(), false).is_ok());
    let error = dial(router(), true).unwrap_err();
    let text = "it is that of spiffe://test.example/router/r1, which is no controller";
    assert!(error.contains(text), "{error}");
    assert!(dial(SpiffeId::controller("test.example", "c1"), true).is_ok());
}

#[test]
fn a_certificate_out_of_its_time_shows_its_dates_and_the_clock() {
    let pki = Pki::new();
    let name = ServerName::try_from("ctrl.example").unwrap();
    let leaf = pki.leaf("ctrl", &[dns("ctrl.example")], KeyPurpose::Server);
    let chain = [leaf.leaf().der().clone()];
    let refused = |at| {
        let trust = Trust::Bundle(pki.bundle());
        verify_server(&trust, &chain, &name, at).unwrap_err().to_string()
    };
    let from = leaf.leaf().not_before();
    let early = refused(from - Duration::from_secs(3 * 3600));
    let start = "the certificate of ctrl.example (`CN=ctrl`) is valid from ";
    assert!(early.starts_with(start), "{early}");
    assert!(early.ends_with(" UTC: check the clock"), "{early}");
    let late = refused(leaf.leaf().not_after() + Duration::from_secs(3600));
    assert!(late.contains("(`CN=ctrl`) was valid until "), "{late}");
    assert!(late.contains(", and this machine's clock says "), "{late}");
    let same = refused(from - Duration::from_secs(1));
    let times: Vec<&str> = same.split(" UTC").collect();
    assert_ne!(times[0].rsplit_once(' '), times[1].rsplit_once(' '), "{same}");
}

#[test]
fn a_refusal_in_a_handshake_is_words() {
    let pki = Pki::new();
    let server = LiveIdentity::fixed(pki.identity("ctrl", "ctrl.example"));
    let stranger = ClientTls::anonymous(Pki::new().bundle(), &[ALPN]);
    let name = ServerName::try_from("ctrl.example").unwrap();
    let config = Arc::new(client_config(&stranger).unwrap());
    let mut client = ClientConnection::new(config, name).unwrap();
    let mut server = ServerConnection::new(Arc::new(require(&server))).unwrap();
    let mut wire = Vec::new();
    client.write_tls(&mut wire).unwrap();
    server.read_tls(&mut wire.as_slice()).unwrap();
    server.process_new_packets().unwrap();
    let mut wire = Vec::new();
    while server.wants_write() {
        server.write_tls(&mut wire).unwrap();
    }
    let mut wire = wire.as_slice();
    let error = loop {
        client.read_tls(&mut wire).unwrap();
        if let Err(error) = client.process_new_packets() {
            break in_words(&error);
        }
    };
    // The authorities of both networks have the same names.
    let text = "certificate refused: `CN=ctrl`: the trusted authority of its issuer's name has not \
                issued it";
    assert_eq!(error, text);
}

#[test]
fn a_web_server_asks_and_takes_no_for_an_answer() {
    let pki = Pki::new();
    let identity = LiveIdentity::fixed(pki.identity("ctrl", "ctrl.example"));
    let client = LiveIdentity::fixed(pki.identity("r1", "r1.example"));
    for (tls, presented) in [
        (ClientTls::anonymous(pki.bundle(), &[]), false),
        (ClientTls::of_identity(&client, &[]), true),
    ] {
        let server = ServerTls { alpn: &[b"h2"], client_auth: ClientAuth::Request };
        let server = server_config(&identity, &server).unwrap();
        let (end, _) = handshake(server, client_config(&tls).unwrap(), "ctrl.example").unwrap();
        assert_eq!(end.peer_certificates().is_some(), presented);
        assert_eq!(end.alpn_protocol(), None, "a client without ALPN is served");
    }
}

#[test]
fn a_judge_decides_during_the_handshake() {
    let pki = Pki::new();
    let server = LiveIdentity::fixed(pki.identity("r1", "r1.example"));
    let client = LiveIdentity::fixed(pki.identity("sdk", "sdk.example"));
    let welcome = Arc::new(AtomicBool::new(false));
    let judge = {
        let welcome = Arc::clone(&welcome);
        ClientAuth::Judge(Arc::new(move |chain| {
            assert_eq!(chain.len(), 2);
            if welcome.load(Ordering::Relaxed) {
                Ok(())
            } else {
                Err(Error::Refused("no data model yet".into()))
            }
        }))
    };
    let config = server_config(&server, &ServerTls { alpn: &[], client_auth: judge }).unwrap();
    let tls = ClientTls::of_identity(&client, &[]);
    let dial = || handshake(config.clone(), client_config(&tls).unwrap(), "r1.example");
    assert!(dial().unwrap_err().contains("no data model yet"));
    welcome.store(true, Ordering::Relaxed);
    dial().unwrap();
}

#[test]
fn server_certificate_fits_name_and_schemes() {
    let pki = Pki::new();
    let first = pki.leaf("a", &[dns("a.example")], KeyPurpose::Server);
    let rsa = KeyAlgorithm::Rsa { bits: 2048 };
    let second = pki.leaf_with(rsa, "b", &[dns("*.b.example")], KeyPurpose::Server);
    let identity = Identity::new(None, vec![first.clone(), second.clone()], pki.bundle());
    let identity = LiveIdentity::fixed(identity);
    for (name, expected) in [("a.example", &first), ("x.b.example", &second)] {
        let server = ServerTls { alpn: &[], client_auth: ClientAuth::None };
        let server = server_config(&identity, &server).unwrap();
        let tls = ClientTls::anonymous(pki.bundle(), &[]);
        let (_, end) = handshake(server, client_config(&tls).unwrap(), name).unwrap();
        assert_eq!(&end.peer_certificates().unwrap()[0], expected.leaf().der());
    }
}

#[test]
fn an_address_is_a_name_too() {
    let pki = Pki::new();
    let san = crate::San::Ip("127.0.0.1".parse().unwrap());
    let server = pki.leaf("a", &[san], KeyPurpose::Server);
    let identity = LiveIdentity::fixed(Identity::new(None, vec![server], pki.bundle()));
    let server = ServerTls { alpn: &[], client_auth: ClientAuth::None };
    let tls = ClientTls::anonymous(pki.bundle(), &[]);
    let client = client_config(&tls).unwrap();
    handshake(server_config(&identity, &server).unwrap(), client, "127.0.0.1").unwrap();
}

#[test]
fn new_material_is_used_for_new_handshakes() {
    let pki = Pki::new();
    let live = LiveIdentity::fixed(pki.identity("ctrl", "old.example"));
    let server = ServerTls { alpn: &[], client_auth: ClientAuth::None };
    let config = server_config(&live, &server).unwrap();
    let tls = ClientTls::anonymous(pki.bundle(), &[]);
    let dial = |name| handshake(config.clone(), client_config(&tls).unwrap(), name).map(|_| ());
    dial("old.example").unwrap();
    live.replace(pki.identity("ctrl", "new.example"));
    dial("new.example").unwrap();
    dial("old.example").unwrap_err();
}

#[test]
fn enrollment_sees_the_leaf_and_then_believes_only_it() {
    let pki = Pki::new();
    let identity = LiveIdentity::fixed(pki.identity("ctrl", "ctrl.example"));
    let tls = ServerTls { alpn: &[b"http/1.1"], client_auth: ClientAuth::Request };
    let server = || server_config(&identity, &tls).unwrap();
    let (config, collected) = collecting_client_config(&[b"http/1.1"]).unwrap();
    handshake(server(), config, "whatever.example").unwrap();
    let chain = collected.chain();
    let leaf = crate::Certificate::from_der(chain[0].clone()).unwrap();
    assert_eq!(&leaf, identity.current().servers()[0].leaf());
    let pinned = ClientTls::anonymous(TrustBundle::new([leaf]), &[]);
    handshake(server(), client_config(&pinned).unwrap(), "ctrl.example").unwrap();
    let other = LiveIdentity::fixed(pki.identity("ctrl", "ctrl.example"));
    let other = server_config(&other, &tls).unwrap();
    handshake(other, client_config(&pinned).unwrap(), "ctrl.example").unwrap_err();
}

#[test]
fn a_chain_without_its_key_is_not_put_together() {
    let pki = Pki::new();
    let one = pki.leaf("a", &[], KeyPurpose::Client);
    let two = pki.leaf("b", &[], KeyPurpose::Client);
    assert!(KeyedChain::new(one.chain().to_vec(), two.key().clone()).is_err());
    assert!(KeyedChain::new(Vec::new(), two.key().clone()).is_err());
}
