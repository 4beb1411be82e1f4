//! The proofs of both ends at the beginning of a sealed connection (docs/protocol/sdk.md 14.6), over its circuit.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use weft_e2e::ending::{Incoming, Outgoing};
use weft_e2e::proof::{AtDialer, AtHost, Dialer, Facts, Host, Memory, Proved};
use weft_e2e::{ConnectionKeys, PublicKey};
use weft_xgress::Delivery;

use crate::circuit::Circuit;
use crate::ends::{Ends, Own};
use crate::peer::Peer;
use crate::sealing::{Inward, Keys, Outward};

/// The time that a dialer has for its proof.
const PATIENCE: Duration = Duration::from_secs(10);

/// A sealed connection whose ends have not proved themselves yet.
pub(crate) struct Exchange<'a> {
    pub(crate) circuit: &'a Circuit,
    pub(crate) ends: &'a Ends,
    pub(crate) own: &'a Own,
    /// The id of the service.
    pub(crate) service: &'a str,
    /// The keys of the agreement: the dialer's, and the host's.
    pub(crate) public: (PublicKey, PublicKey),
    pub(crate) keys: &'a ConnectionKeys,
}

/// What an exchange leaves: the peer, and what opens its data.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) peer: Peer,
    pub(crate) inward: Inward,
}

impl Exchange<'_> {
    /// Proves this end as the dialer's. `hint` is the one of the host.
    pub(crate) async fn dial(&self, hint: [u8; 16]) -> Result<Outcome, String> {
        let mut line = Line::new(self);
        let end = self.ends.end(self.own);
        let known = self.ends.met(self.own, hint);
        let (mut dialer, said) =
            Dialer::new(self.facts(), end, self.keys, known).map_err(in_words)?;
        line.say(&said)?;
        loop {
            let heard = line.hear().await?;
            match dialer.take(&heard, |text| self.ends.host(self.own, self.service, text)) {
                Ok(AtDialer::Proved(proved)) => {
                    if !proved.again {
                        self.ends.meet(self.own, hint, &proved.memory);
                    }
                    return Ok(self.finish(proved));
                }
                Ok(AtDialer::Again(next, said)) => {
                    self.ends.forget(self.own, hint);
                    dialer = next;
                    line.say(&said)?;
                }
                Err(problem) => return Err(in_words(problem)),
            }
        }
    }

    /// Proves this end as the host's, once the dialer has proved itself. `claimed` is the id of the dialer as the router
    /// says.
    pub(crate) async fn host(&self, claimed: Option<&str>) -> Result<Outcome, String> {
        let late = |_| "the dialer has not proved itself in time".to_owned();
        tokio::time::timeout(PATIENCE, self.host_now(claimed)).await.map_err(late)?
    }

    async fn host_now(&self, claimed: Option<&str>) -> Result<Outcome, String> {
        let mut line = Line::new(self);
        let host = Host { facts: self.facts(), end: self.ends.end(self.own), keys: self.keys };
        // A dialer that this host has forgotten proves itself a second time.
        for _ in 0..2 {
            let heard = line.hear().await?;
            let accepts = |text: &str| self.ends.dialer(self.own, self.service, text);
            match host.take(&heard, accepts, |name| self.ends.recall(name, self.service)) {
                Ok(AtHost::Proved(proved, said)) => {
                    let dialer = &proved.memory.peer.identity;
                    if let Some(other) = claimed.filter(|claimed| claimed != dialer) {
                        return Err(format!(
                            "the router says that {other} dials, and it is {dialer}"
                        ));
                    }
                    line.say(&said)?;
                    if !proved.again {
                        self.ends.remember(self.own, &proved.memory);
                    }
                    return Ok(self.finish(proved));
                }
                Ok(AtHost::Again(said)) => line.say(&said)?,
                Err(problem) => return Err(in_words(problem)),
            }
        }
        Err("the dialer insists on a proof that is forgotten".to_owned())
    }

    fn facts(&self) -> Facts<'_> {
        let (dialer, host) = self.public;
        Facts { service: self.service, circuit: self.circuit.id(), dialer, host }
    }

    /// Lets the application's data pass, under the new keys.
    fn finish(&self, proved: Proved<Peer>) -> Outcome {
        let Proved { memory: Memory { peer, .. }, sealer, opener, .. } = proved;
        self.circuit.proved(Outward::Sealed(Outgoing::new(sealer, true)));
        Outcome { peer, inward: Inward::Sealed(opener, Incoming::new(true)) }
    }
}

fn in_words(problem: weft_e2e::proof::ProofError) -> String {
    problem.to_string()
}

/// The messages of an exchange, sealed by the keys of the agreement.
struct Line<'a> {
    circuit: &'a Circuit,
    outward: Outward,
    inward: Inward,
}

impl<'a> Line<'a> {
    fn new(exchange: &Exchange<'a>) -> Self {
        let (outward, inward, header) = Keys::new(exchange.keys.clone(), true, true).start();
        exchange.circuit.say(header);
        Self { circuit: exchange.circuit, outward, inward }
    }

    fn say(&mut self, message: &[u8]) -> Result<(), String> {
        let sealed = self.outward.message(message).map_err(|error| error.to_string())?;
        self.circuit.say(sealed);
        Ok(())
    }

    /// The next message of the peer.
    async fn hear(&mut self) -> Result<Bytes, String> {
        loop {
            match poll_fn(|cx| self.circuit.poll_read(cx)).await {
                Delivery::Data { headers, data } => {
                    let opened = self.inward.open(&headers, data);
                    let opened = opened.map_err(|error| error.to_string())?;
                    // The header of the stream comes first, by itself.
                    if !opened.is_empty() {
                        return Ok(opened);
                    }
                }
                Delivery::Fin { .. } | Delivery::Closed(_) => {
                    return Err(
                        "the connection ended before both ends had proved themselves".into()
                    );
                }
            }
        }
    }
}
