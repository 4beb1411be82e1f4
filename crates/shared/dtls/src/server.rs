//! The handshake of a server.

use std::time::Instant;

use crate::assembly::Whole;
use crate::client::{choose, signed};
use crate::cookie::FirstHello;
use crate::error::Error;
use crate::messages::{self, ServerHello, kind};
use crate::record::Opener;
use crate::secrets::Secrets;
use crate::shared::Core;
use crate::suite::{self, Exchange, GROUPS, SUITES, Suite};

/// A server in its handshake.
#[derive(Debug)]
pub(crate) struct Server {
    stage: Stage,
    client_random: [u8; 32],
    server_random: [u8; 32],
    suite: &'static Suite,
    exchange: Option<Exchange>,
}

/// The message that the server waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Certificate,
    KeyExchange,
    Verify,
    Finished,
    Over,
}

impl Server {
    /// Answers the hello that has returned its cookie.
    pub(crate) fn begin(core: &mut Core, first: FirstHello, now: Instant) -> Result<Self, Error> {
        let hello = first.hello;
        if !hello.extended_master_secret {
            return Err(Error::NothingInCommon("extended master secret"));
        }
        let nothing = Error::NothingInCommon;
        let (certified, scheme) =
            choose(&core.settings.certified, &hello.schemes).ok_or(nothing("signature"))?;
        let suite = SUITES
            .iter()
            .find(|suite| {
                hello.suites.contains(&suite.id) && suite.is_for(certified.key.algorithm())
            })
            .ok_or(nothing("cipher suite"))?;
        let group = GROUPS.into_iter().find(|group| hello.groups.contains(group));
        let exchange = Exchange::new(group.ok_or(nothing("group of key exchange"))?)?;
        let mut server_random = [0; 32];
        aws_lc_rs::rand::fill(&mut server_random)?;
        core.transcript = first.message;
        let answer = ServerHello {
            random: server_random,
            suite: suite.id,
            extended_master_secret: true,
            renegotiation: hello.renegotiation,
        };
        core.say(kind::SERVER_HELLO, &answer.write(), 0);
        core.say(kind::CERTIFICATE, &messages::write_certificates(&certified.cert), 0);
        let mut parameters = messages::write_parameters(&exchange);
        let signer = certified.key.choose_scheme(&[scheme]).ok_or(Error::Crypto)?;
        let signature = signer.sign(&signed(&hello.random, &server_random, &parameters));
        let signature = signature.map_err(|_| Error::Crypto)?;
        parameters.extend_from_slice(&messages::write_signature(scheme, &signature));
        core.say(kind::SERVER_KEY_EXCHANGE, &parameters, 0);
        core.say(kind::CERTIFICATE_REQUEST, &messages::write_certificate_request(), 0);
        core.say(kind::SERVER_HELLO_DONE, &[], 0);
        core.flight.expects_answer(now);
        core.send()?;
        Ok(Self {
            stage: Stage::Certificate,
            client_random: hello.random,
            server_random,
            suite,
            exchange: Some(exchange),
        })
    }

    /// Takes the next message of the client.
    pub(crate) fn take(
        &mut self,
        core: &mut Core,
        message: &Whole,
        _now: Instant,
    ) -> Result<(), Error> {
        let body = message.body();
        match (self.stage, message.kind) {
            (Stage::Certificate, kind::CERTIFICATE) => {
                let chain = messages::read_certificates(body)?;
                (core.settings.judge)(&chain).map_err(Error::Certificate)?;
                core.chain = chain;
                self.stage = Stage::KeyExchange;
                core.heard(message)
            }
            (Stage::KeyExchange, kind::CLIENT_KEY_EXCHANGE) => {
                core.heard(message)?;
                let public = messages::read_client_key(body)?;
                let exchange = self.exchange.take().ok_or(Error::Unexpected(message.kind))?;
                let shared = exchange.complete(public)?;
                let secrets = Secrets::new(self.suite, &shared, &core.transcript);
                let (of_client, own) = secrets.keys(&self.client_random, &self.server_random)?;
                core.sealer.set_key(own);
                core.opener = Some(Opener::new(of_client));
                core.secrets = Some(secrets);
                self.stage = Stage::Verify;
                Ok(())
            }
            (Stage::Verify, kind::CERTIFICATE_VERIFY) => {
                let signed = messages::read_certificate_verify(body)?;
                let leaf = core.chain.first().ok_or(Error::Unexpected(message.kind))?;
                suite::verify(
                    &core.settings.provider,
                    leaf,
                    signed.scheme,
                    &core.transcript,
                    signed.signature,
                    "signature of the client",
                )?;
                self.stage = Stage::Finished;
                core.heard(message)
            }
            (Stage::Finished, kind::FINISHED) => {
                core.check_finished(true, body)?;
                core.heard(message)?;
                let secrets = core.secrets.as_ref().ok_or(Error::NotEstablished)?;
                let check = secrets.check(false, &core.transcript);
                core.flight = crate::flight::Flight::default();
                core.flight.change_cipher_spec();
                core.say(kind::FINISHED, &check, 1);
                core.send()?;
                core.established();
                self.stage = Stage::Over;
                Ok(())
            }
            (_, other) => Err(Error::Unexpected(other)),
        }
    }
}
