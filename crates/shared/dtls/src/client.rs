//! The handshake of a client.

use std::sync::Arc;
use std::time::Instant;

use rustls::SignatureScheme;
use rustls::sign::CertifiedKey;

use crate::assembly::Whole;
use crate::error::Error;
use crate::messages::{self, ClientHello, ServerHello, ServerKeyExchange, kind};
use crate::record::Opener;
use crate::secrets::Secrets;
use crate::shared::Core;
use crate::suite::{self, Exchange, GROUPS, Suite};

/// A client in its handshake.
#[derive(Debug)]
pub(crate) struct Client {
    hello: ClientHello,
    stage: Stage,
    server_random: [u8; 32],
    suite: Option<&'static Suite>,
    exchange: Option<(Exchange, Vec<u8>)>,
    schemes: Vec<SignatureScheme>,
}

/// The message that the client waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Hello,
    Certificate,
    KeyExchange,
    Request,
    Done,
    Finished,
    Over,
}

impl Client {
    pub(crate) fn begin(core: &mut Core, now: Instant) -> Result<Self, Error> {
        let mut random = [0; 32];
        aws_lc_rs::rand::fill(&mut random)?;
        let hello = ClientHello::new(random, core.settings.server_name.clone());
        core.say(kind::CLIENT_HELLO, &hello.write(), 0);
        core.flight.expects_answer(now);
        core.send()?;
        Ok(Self {
            hello,
            stage: Stage::Hello,
            server_random: [0; 32],
            suite: None,
            exchange: None,
            schemes: Vec::new(),
        })
    }

    /// Takes the next message of the server.
    pub(crate) fn take(
        &mut self,
        core: &mut Core,
        message: &Whole,
        now: Instant,
    ) -> Result<(), Error> {
        let body = message.body();
        match (self.stage, message.kind) {
            (Stage::Hello, kind::HELLO_VERIFY_REQUEST) if self.hello.cookie.is_empty() => {
                return self.return_cookie(core, body, now);
            }
            (Stage::Hello, kind::SERVER_HELLO) => {
                let hello = ServerHello::read(body)?;
                let suite = Suite::of(hello.suite).ok_or(Error::NothingInCommon("cipher suite"))?;
                if !hello.extended_master_secret {
                    return Err(Error::NothingInCommon("extended master secret"));
                }
                (self.server_random, self.suite) = (hello.random, Some(suite));
                self.stage = Stage::Certificate;
            }
            (Stage::Certificate, kind::CERTIFICATE) => {
                let chain = messages::read_certificates(body)?;
                (core.settings.judge)(&chain).map_err(Error::Certificate)?;
                core.chain = chain;
                self.stage = Stage::KeyExchange;
            }
            (Stage::KeyExchange, kind::SERVER_KEY_EXCHANGE) => {
                self.exchange = Some(self.key_exchange(core, body)?);
                self.stage = Stage::Request;
            }
            (Stage::Request, kind::CERTIFICATE_REQUEST) => {
                self.schemes = messages::read_certificate_request(body)?;
                self.stage = Stage::Done;
            }
            (Stage::Done, kind::SERVER_HELLO_DONE) => {
                core.heard(message)?;
                self.answer(core, now)?;
                self.stage = Stage::Finished;
                return Ok(());
            }
            (Stage::Finished, kind::FINISHED) => {
                core.check_finished(false, body)?;
                core.established();
                self.stage = Stage::Over;
                return Ok(());
            }
            (_, other) => return Err(Error::Unexpected(other)),
        }
        core.heard(message)
    }

    /// Says hello again, with the cookie. Earlier messages are no part of the transcript.
    fn return_cookie(&mut self, core: &mut Core, body: &[u8], now: Instant) -> Result<(), Error> {
        let cookie = messages::read_verify_request(body)?;
        if cookie.is_empty() {
            // A hello with an empty cookie would be answered with another request, without end.
            return Ok(());
        }
        self.hello.cookie = cookie;
        core.transcript.clear();
        core.flight = crate::flight::Flight::default();
        core.say(kind::CLIENT_HELLO, &self.hello.write(), 0);
        core.flight.expects_answer(now);
        core.send()
    }

    /// Checks the signed key of the server. Returns this side's part of the key exchange and the server's
    /// key.
    fn key_exchange(&self, core: &Core, body: &[u8]) -> Result<(Exchange, Vec<u8>), Error> {
        let read = ServerKeyExchange::read(body)?;
        let leaf = core.chain.first().ok_or(Error::Unexpected(kind::SERVER_KEY_EXCHANGE))?;
        if !GROUPS.contains(&read.group) {
            return Err(Error::NothingInCommon("group of key exchange"));
        }
        let signed = signed(&self.hello.random, &self.server_random, read.parameters);
        suite::verify(
            &core.settings.provider,
            leaf,
            read.signed.scheme,
            &signed,
            read.signed.signature,
            "signature of the server",
        )?;
        Ok((Exchange::new(read.group)?, read.public.to_vec()))
    }

    /// Sends the certificate, the key, the proof of the certificate's key, and the end.
    fn answer(&mut self, core: &mut Core, now: Instant) -> Result<(), Error> {
        let (certified, scheme) = choose(&core.settings.certified, &self.schemes)
            .ok_or(Error::NothingInCommon("signature"))?;
        let missing = Error::Unexpected(kind::SERVER_HELLO_DONE);
        let (exchange, peer) = self.exchange.take().ok_or(missing.clone())?;
        let suite = self.suite.ok_or(missing)?;
        core.flight = crate::flight::Flight::default();
        core.say(kind::CERTIFICATE, &messages::write_certificates(&certified.cert), 0);
        core.say(kind::CLIENT_KEY_EXCHANGE, &messages::write_client_key(&exchange.public), 0);
        let secrets = Secrets::new(suite, &exchange.complete(&peer)?, &core.transcript);
        let signer = certified.key.choose_scheme(&[scheme]).ok_or(Error::Crypto)?;
        let signature = signer.sign(&core.transcript).map_err(|_| Error::Crypto)?;
        core.say(kind::CERTIFICATE_VERIFY, &messages::write_signature(scheme, &signature), 0);
        let (own, of_server) = secrets.keys(&self.hello.random, &self.server_random)?;
        core.sealer.set_key(own);
        core.opener = Some(Opener::new(of_server));
        core.flight.change_cipher_spec();
        let check = secrets.check(true, &core.transcript);
        core.secrets = Some(secrets);
        core.say(kind::FINISHED, &check, 1);
        core.flight.expects_answer(now);
        core.send()
    }
}

/// The bytes of a server's key exchange that the server signs.
pub(crate) fn signed(client: &[u8; 32], server: &[u8; 32], parameters: &[u8]) -> Vec<u8> {
    [client, server, parameters].concat()
}

/// The first certificate whose key makes a signature that both sides understand.
pub(crate) fn choose(
    certified: &[Arc<CertifiedKey>],
    schemes: &[SignatureScheme],
) -> Option<(Arc<CertifiedKey>, SignatureScheme)> {
    let offered: Vec<SignatureScheme> =
        suite::SCHEMES.into_iter().filter(|scheme| schemes.contains(scheme)).collect();
    certified.iter().find_map(|one| {
        let signer = one.key.choose_scheme(&offered)?;
        Some((Arc::clone(one), signer.scheme()))
    })
}
