//! Both sides over a path that loses, repeats and reorders datagrams; and datagrams of strangers.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::{Connection, Cookies, DtlsSettings, Error, HelloVerdict, Judge, record};

fn certified(algorithm: &'static rcgen::SignatureAlgorithm) -> Arc<CertifiedKey> {
    let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["r1".to_owned()]).unwrap();
    let certificate = certificate.self_signed(&key).unwrap();
    let der = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let key = default_provider().key_provider.load_private_key(der).unwrap();
    // Filler makes the chain too long for one datagram.
    let filler = CertificateDer::from(vec![7; 2500]);
    Arc::new(CertifiedKey::new(vec![certificate.der().clone(), filler], key))
}

fn curve() -> Arc<CertifiedKey> {
    static ONE: OnceLock<Arc<CertifiedKey>> = OnceLock::new();
    Arc::clone(ONE.get_or_init(|| certified(&rcgen::PKCS_ECDSA_P256_SHA256)))
}

fn rsa() -> Arc<CertifiedKey> {
    static ONE: OnceLock<Arc<CertifiedKey>> = OnceLock::new();
    Arc::clone(ONE.get_or_init(|| certified(&rcgen::PKCS_RSA_SHA256)))
}

fn settings(certified: Arc<CertifiedKey>) -> DtlsSettings {
    DtlsSettings {
        certified: vec![certified],
        judge: Arc::new(|_| Ok(())),
        provider: Arc::new(default_provider()),
        server_name: Some("r1".to_owned()),
    }
}

fn address() -> SocketAddr {
    "192.0.2.1:4000".parse().unwrap()
}

/// A client, a listener, and the datagrams between them.
struct Pair {
    now: Instant,
    cookies: Cookies,
    client: Connection,
    server: Option<Connection>,
    of_server: DtlsSettings,
    /// Everything that was sent.
    sent: Vec<Vec<u8>>,
    to_client: Vec<Vec<u8>>,
    to_server: Vec<Vec<u8>>,
}

impl Pair {
    fn new(of_client: DtlsSettings, of_server: DtlsSettings) -> Self {
        let now = Instant::now();
        Self {
            now,
            cookies: Cookies::new(now).unwrap(),
            client: Connection::client(of_client, now).unwrap(),
            server: None,
            of_server,
            sent: Vec::new(),
            to_client: Vec::new(),
            to_server: Vec::new(),
        }
    }

    /// Carries the datagrams that are waiting. `fate` says of each datagram: 0 is lost, 1 comes
    /// twice, 2 comes last, others come.
    fn turn(&mut self, fate: &mut dyn FnMut() -> u8) -> Result<(), Error> {
        self.to_server.extend(std::iter::from_fn(|| self.client.datagram()));
        for datagram in carried(&mut self.to_server, fate) {
            self.sent.push(datagram.clone());
            match &mut self.server {
                Some(server) => server.input(&datagram, self.now)?,
                None => match self.cookies.check(&datagram, address(), self.now) {
                    HelloVerdict::Ignore => {}
                    HelloVerdict::Answer(answer) => self.to_client.push(answer),
                    HelloVerdict::Begin(first) => {
                        let settings = self.of_server.clone();
                        self.server = Some(Connection::server(settings, first, self.now)?);
                    }
                },
            }
        }
        if let Some(server) = &mut self.server {
            self.to_client.extend(std::iter::from_fn(|| server.datagram()));
        }
        for datagram in carried(&mut self.to_client, fate) {
            self.sent.push(datagram.clone());
            self.client.input(&datagram, self.now)?;
        }
        Ok(())
    }

    fn time(&mut self, passes: Duration) {
        self.now += passes;
        self.client.on_time(self.now).unwrap();
        if let Some(server) = &mut self.server {
            server.on_time(self.now).unwrap();
        }
    }

    fn is_established(&self) -> bool {
        let server = self.server.as_ref().is_some_and(Connection::is_established);
        server && self.client.is_established()
    }

    /// Until both sides have a connection, on a good path.
    fn establish(&mut self) -> Result<(), Error> {
        for _ in 0..6 {
            self.turn(&mut || 9)?;
        }
        assert!(self.is_established());
        Ok(())
    }
}

fn carried(waiting: &mut Vec<Vec<u8>>, fate: &mut dyn FnMut() -> u8) -> Vec<Vec<u8>> {
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for datagram in waiting.drain(..) {
        match fate() {
            0 => {}
            1 => first.extend([datagram.clone(), datagram]),
            2 => last.push(datagram),
            _ => first.push(datagram),
        }
    }
    first.extend(last);
    first
}

#[test]
fn both_sides_get_data_and_certificates_whatever_keys_they_have() {
    for (of_client, of_server) in
        [(curve(), curve()), (rsa(), rsa()), (curve(), rsa()), (rsa(), curve())]
    {
        let mut pair = Pair::new(settings(of_client.clone()), settings(of_server.clone()));
        pair.establish().unwrap();
        let mut server = pair.server.take().unwrap();
        assert_eq!(pair.client.certificates(), of_server.cert);
        assert_eq!(server.certificates(), of_client.cert);
        for size in [0, 1, 1400, 16_384] {
            let data = vec![5; size];
            let datagram = pair.client.seal(&data).unwrap();
            assert!(!datagram.windows(8).any(|bytes| bytes == [5; 8]), "it is not in the clear");
            server.input(&datagram, pair.now).unwrap();
            assert_eq!(server.take_data(), Some(data.clone()));
            server.input(&datagram, pair.now).unwrap();
            assert_eq!(server.take_data(), None, "a repeated record is dropped");
            let datagram = server.seal(&data).unwrap();
            pair.client.input(&datagram, pair.now).unwrap();
            assert_eq!(pair.client.take_data(), Some(data));
        }
        assert_eq!(pair.client.seal(&[0; 16_385]), Err(Error::TooLong(16_385)));
        server.input(&pair.client.close().unwrap(), pair.now).unwrap();
        assert!(server.is_closed());
    }
}

#[test]
fn every_datagram_of_the_handshake_is_small() {
    let mut pair = Pair::new(settings(rsa()), settings(rsa()));
    pair.establish().unwrap();
    assert!(pair.sent.iter().all(|datagram| datagram.len() <= 1200));
}

#[test]
fn a_stranger_costs_nothing_and_gets_less_than_it_sent() {
    let mut pair = Pair::new(settings(curve()), settings(curve()));
    let hello = pair.client.datagram().unwrap();
    let HelloVerdict::Answer(answer) = pair.cookies.check(&hello, address(), pair.now) else {
        panic!("a first hello is asked for a cookie");
    };
    assert!(answer.len() < hello.len());
    pair.client.input(&answer, pair.now).unwrap();
    let again = pair.client.datagram().unwrap();
    let other: SocketAddr = "192.0.2.2:4000".parse().unwrap();
    let verdict = pair.cookies.check(&again, other, pair.now);
    assert!(matches!(verdict, HelloVerdict::Answer(_)), "the cookie is that of another address");
    let late = pair.now + Duration::from_secs(60);
    assert!(matches!(pair.cookies.check(&again, address(), late), HelloVerdict::Begin(_)));
    let later = late + Duration::from_secs(60);
    assert!(matches!(pair.cookies.check(&again, address(), later), HelloVerdict::Answer(_)));
}

#[test]
fn a_refused_certificate_ends_the_handshake_of_both() {
    let refuse: Judge = Arc::new(|_| Err("not of this network".to_owned()));
    let refusing = DtlsSettings { judge: refuse, ..settings(curve()) };
    let refused = Error::Certificate("not of this network".to_owned());
    let mut pair = Pair::new(refusing.clone(), settings(curve()));
    assert_eq!(pair.establish(), Err(refused.clone()));
    assert_eq!(pair.turn(&mut || 9), Ok(()));
    let server = pair.server.as_ref().unwrap();
    assert_eq!(server.unproved_alert(), Some(Error::Alert(42)), "the server is told");
    let mut pair = Pair::new(settings(curve()), refusing);
    assert_eq!(pair.establish(), Err(refused));
    assert_eq!(pair.turn(&mut || 9), Ok(()));
    assert_eq!(pair.client.unproved_alert(), Some(Error::Alert(42)), "the client is told");
}

#[test]
fn alerts_of_strangers_end_no_handshake_and_no_connection() {
    let mut pair = Pair::new(settings(curve()), settings(curve()));
    for alert in [[2, 40], [1, 0]] {
        for epoch in [0, 1] {
            let mut stranger = record::head(record::kind::ALERT, epoch, 9, 2).to_vec();
            stranger.extend(alert);
            for _ in 0..2 {
                pair.client.input(&stranger, pair.now).unwrap();
                if let Some(server) = &mut pair.server {
                    server.input(&stranger, pair.now).unwrap();
                }
                pair.turn(&mut || 9).unwrap();
            }
        }
    }
    pair.establish().unwrap();
    assert!(!pair.client.is_closed() && !pair.server.as_ref().unwrap().is_closed());
}

#[test]
fn an_old_cookie_is_not_taken_by_a_listener_that_nobody_asked() {
    let mut pair = Pair::new(settings(curve()), settings(curve()));
    for _ in 0..2 {
        pair.turn(&mut || 9).unwrap();
    }
    let cookied = pair
        .sent
        .iter()
        .rfind(|it| matches!(pair.cookies.check(it, address(), pair.now), HelloVerdict::Begin(_)));
    let cookied = cookied.unwrap().clone();
    let late = pair.now + Duration::from_secs(3_600);
    assert!(!matches!(pair.cookies.check(&cookied, address(), late), HelloVerdict::Begin(_)));
}

#[test]
fn a_certificate_without_its_key_is_refused() {
    let stolen =
        CertifiedKey::new(rsa().cert.clone(), certified(&rcgen::PKCS_RSA_SHA256).key.clone());
    let thief = settings(Arc::new(stolen));
    let mut pair = Pair::new(thief.clone(), settings(curve()));
    assert_eq!(pair.establish(), Err(Error::Forged("signature of the client")));
    let mut pair = Pair::new(settings(curve()), thief);
    assert_eq!(pair.establish(), Err(Error::Forged("signature of the server")));
}

#[test]
fn unsealed_records_do_nothing_to_an_established_connection() {
    let mut pair = Pair::new(settings(curve()), settings(curve()));
    pair.establish().unwrap();
    let sent = std::mem::take(&mut pair.sent);
    let mut server = pair.server.take().unwrap();
    let alert = [21, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 99, 0, 2, 2, 40];
    for datagram in sent.iter().map(Vec::as_slice).chain([&alert[..]]) {
        server.input(datagram, pair.now).unwrap();
        pair.client.input(datagram, pair.now).unwrap();
        assert!(!server.is_closed() && !pair.client.is_closed());
        assert_eq!((server.datagram(), pair.client.datagram()), (None, None));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_bad_path_delays_the_handshake_and_no_more(seed in any::<u64>()) {
        let mut pair = Pair::new(settings(rsa()), settings(curve()));
        let mut state = seed | 1;
        // A quarter is lost, an eighth comes twice, an eighth late.
        let mut fate = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            [0, 0, 1, 2, 9, 9, 9, 9][(state >> 60) as usize % 8]
        };
        for _ in 0..400 {
            pair.turn(&mut fate).unwrap();
            if pair.is_established() {
                break;
            }
            pair.time(Duration::from_millis(250));
        }
        prop_assert!(pair.is_established());
        let datagram = pair.client.seal(b"hello").unwrap();
        let server = pair.server.as_mut().unwrap();
        server.input(&datagram, pair.now).unwrap();
        prop_assert_eq!(server.take_data(), Some(b"hello".to_vec()));
    }

    #[test]
    fn no_datagram_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..60),
        noise in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..8),
    ) {
        let mut model = Pair::new(settings(curve()), settings(curve()));
        model.establish().unwrap();
        let mut pair = Pair::new(settings(curve()), settings(curve()));
        for _ in 0..2 {
            let _ = pair.turn(&mut || 9);
        }
        let mut datagrams = noise;
        for (which, place, value) in changes {
            let mut datagram = which.get(&model.sent).clone();
            let place = place.index(datagram.len());
            if value % 5 == 0 { datagram.truncate(place) } else { datagram[place] ^= value }
            datagrams.push(datagram);
        }
        for datagram in &datagrams {
            let _ = pair.cookies.check(datagram, address(), pair.now);
            let _ = pair.client.input(datagram, pair.now);
            if let Some(server) = &mut pair.server {
                let _ = server.input(datagram, pair.now);
            }
            let _ = model.client.input(datagram, model.now);
            prop_assert_eq!(model.client.take_data(), None);
            prop_assert!(!model.client.is_closed());
        }
    }
}
