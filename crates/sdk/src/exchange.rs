//! The proofs of both ends at the beginning of a sealed connection (docs/protocol/sdk.md 14.6), over its circuit.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use weft_e2e::ending::{Incoming, Outgoing};
use weft_e2e::proof::{
    Brief, Dialer, FRESH, Facts, Greeting, Hint, Host, MAC, Memory, ProofError, Proved,
};
use weft_e2e::{ConnectionKeys, PublicKey};
use weft_wire::payload::PayloadHeaders;
use weft_xgress::Delivery;

use crate::circuit::Circuit;
use crate::ends::{Ends, Own};
use crate::peer::Peer;
use crate::sealing::{Inward, Keys, Outward};

/// The time that a dialer has for its proof.
const PATIENCE: Duration = Duration::from_secs(10);

/// A sealed connection whose ends have not proved themselves yet.
pub(crate) struct Exchange<'a> {
    /// The id of the circuit; empty if the router does not send it.
    pub(crate) circuit: &'a str,
    pub(crate) ends: &'a Ends,
    pub(crate) own: &'a Own,
    /// The id of the service.
    pub(crate) service: &'a str,
    /// The keys of the agreement: the dialer's, and the host's.
    pub(crate) public: (PublicKey, PublicKey),
    /// The host's fresh bytes.
    pub(crate) fresh: [u8; FRESH],
    pub(crate) keys: &'a ConnectionKeys,
}

/// What an exchange leaves: the peer, and what opens its data.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) peer: Peer,
    pub(crate) inward: Inward,
}

/// What a host knows of a dialer before the exchange.
#[derive(Debug)]
pub(crate) struct Caller {
    /// The bytes by which the host recognizes the dialer.
    pub(crate) hint: Hint,
    /// The id of the dialer as the router says: the application may have decided by it.
    pub(crate) claimed: Option<String>,
    /// The exchange with a dialer that the host has met, and has sent its own proof.
    pub(crate) known: Option<Brief<Peer>>,
}

impl Exchange<'_> {
    /// Proves this end as the dialer's.
    pub(crate) async fn dial(&self, to: &Circuit, host: &Greeting) -> Result<Outcome, String> {
        if let Some(met) = &host.met
            && !self.circuit.is_empty()
            && let Some(memory) = self.ends.met(self.own, host.hint, &met.name)
        {
            let brief = Brief::of_dialer(&self.facts(), self.keys, memory).map_err(in_words)?;
            let (proved, said) = brief.dials(met).map_err(in_words)?;
            return Ok(finish(proved, to, Some(said)));
        }
        let (dialer, said) =
            Dialer::new(self.facts(), self.own.end(), self.keys).map_err(in_words)?;
        say(to, self.keys, &said)?;
        let heard = open(self.keys, &hear(to).await?)?;
        let accepts = |text: &str| self.ends.host(self.own, self.service, text);
        let proved = dialer.take(&heard, accepts).map_err(in_words)?;
        self.ends.meet(self.own, host.hint, &proved.memory);
        Ok(finish(proved, to, None))
    }

    /// The exchange of this host with a dialer that it has met.
    pub(crate) fn greet(&self, caller: &Hint, claimed: Option<&str>) -> Option<Brief<Peer>> {
        if self.circuit.is_empty() {
            return None;
        }
        let memory = self.ends.recall(caller, self.service)?;
        let is_claimed = claimed.is_none_or(|claimed| claimed == memory.peer.identity);
        is_claimed.then(|| Brief::of_host(&self.facts(), self.keys, memory).ok())?
    }

    /// Proves this end as the host's, once the dialer has proved itself.
    pub(crate) async fn host(&self, to: &Circuit, caller: Caller) -> Result<Outcome, String> {
        let late = |_| "the dialer has not proved itself in time".to_owned();
        tokio::time::timeout(PATIENCE, self.host_now(to, caller)).await.map_err(late)?
    }

    async fn host_now(&self, to: &Circuit, caller: Caller) -> Result<Outcome, String> {
        let heard = hear(to).await?;
        if let Some(brief) = caller.known
            && heard.1.len() == MAC
        {
            let proved = brief.hosts(&heard.1).map_err(in_words)?;
            return Ok(finish(proved, to, None));
        }
        let heard = open(self.keys, &heard)?;
        let host = Host { facts: self.facts(), end: self.own.end(), keys: self.keys };
        let accepts = |text: &str| self.ends.dialer(self.own, self.service, text);
        let (proved, said) = host.take(&heard, accepts).map_err(in_words)?;
        let dialer = &proved.memory.peer.identity;
        if let Some(other) = caller.claimed.filter(|claimed| claimed != dialer) {
            return Err(format!("the router says that {other} dials, and it is {dialer}"));
        }
        say(to, self.keys, &said)?;
        self.ends.remember(self.own, caller.hint, &proved.memory);
        Ok(finish(proved, to, None))
    }

    fn facts(&self) -> Facts<'_> {
        let (dialer, host) = self.public;
        let Self { service, circuit, fresh, .. } = *self;
        Facts { service, circuit, dialer, host, fresh }
    }
}

/// Lets the application's data pass, under the new keys, behind what is still to be said.
fn finish(proved: Proved<Peer>, to: &Circuit, said: Option<Bytes>) -> Outcome {
    let Proved { memory: Memory { peer, .. }, sealer, opener, .. } = proved;
    to.proved(Outward::Sealed(Outgoing::new(sealer, true)), said);
    Outcome { peer, inward: Inward::Sealed(opener, Incoming::new(true)) }
}

fn in_words(problem: ProofError) -> String {
    problem.to_string()
}

/// Says the message of this end in a full exchange, sealed by the keys of the agreement, in one payload with the header of
/// its stream.
fn say(to: &Circuit, keys: &ConnectionKeys, message: &[u8]) -> Result<(), String> {
    let (mut outward, _, header) = Keys::new(keys.clone(), true, true).start();
    let sealed = outward.message(message).map_err(|error| error.to_string())?;
    to.say([header, sealed].concat().into());
    Ok(())
}

/// A payload of the peer.
type Heard = (PayloadHeaders, Bytes);

/// The next payload of the peer.
async fn hear(from: &Circuit) -> Result<Heard, String> {
    match poll_fn(|cx| from.poll_read(cx)).await {
        Delivery::Data { headers, data } => Ok((headers, data)),
        Delivery::Fin { .. } | Delivery::Closed(_) => {
            Err("the connection ended before both ends had proved themselves".into())
        }
    }
}

/// Opens the message of the peer in a full exchange.
fn open(keys: &ConnectionKeys, (headers, data): &Heard) -> Result<Bytes, String> {
    let mut inward = Inward::Header(keys.rx.clone(), Incoming::new(true));
    inward.open(headers, data.clone()).map_err(|error| error.to_string())
}
