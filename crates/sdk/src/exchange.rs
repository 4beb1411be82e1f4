//! The proofs of both ends at the beginning of a sealed connection (docs/protocol/sdk.md 14.6), over its circuit.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use weft_e2e::ending::{Announced, Incoming, Outgoing};
use weft_e2e::ends::{self, Caller, Line, Peer, Statement};
use weft_e2e::proof::{FRESH, Greeting, Memory, Proved};
use weft_e2e::{ConnectionKeys, PublicKey};
use weft_xgress::Delivery;

use crate::circuit::Circuit;
use crate::ends::Ends;
use crate::sealing::{Inward, Outward};

/// The time that a dialer has for its proof.
const PATIENCE: Duration = Duration::from_secs(10);

/// A sealed connection whose ends have not proved themselves yet.
pub(crate) struct Exchange<'a> {
    /// The id of the circuit; empty if the router does not send it.
    pub(crate) circuit: &'a str,
    pub(crate) ends: &'a Ends,
    pub(crate) own: &'a Statement,
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

impl Exchange<'_> {
    /// Proves this end as the dialer's of an instance, which may be empty, to the host that has answered with this greeting.
    pub(crate) async fn dial(
        &self,
        to: &Circuit,
        host: &Greeting,
        instance: &str,
    ) -> Result<Outcome, String> {
        let proved = self.inner().dial(&mut Payloads(to), host, instance).await;
        self.finish(to, proved)
    }

    /// What this host answers the dialer that announced this, and what it knows of that dialer.
    pub(crate) fn greet(&self, dialer: Announced, claimed: Option<&str>) -> (Greeting, Caller) {
        self.inner().greet(dialer, claimed)
    }

    /// Proves this end as the host's, once the dialer has proved itself.
    pub(crate) async fn host(&self, to: &Circuit, caller: Caller) -> Result<Outcome, String> {
        let (exchange, mut line) = (self.inner(), Payloads(to));
        let proved = tokio::time::timeout(PATIENCE, exchange.host(&mut line, caller)).await;
        let late = |_| Err("the dialer has not proved itself in time".to_owned());
        self.finish(to, proved.unwrap_or_else(late))
    }

    fn inner(&self) -> ends::Exchange<'_> {
        let Self { circuit, own, service, public, fresh, keys, .. } = *self;
        let ends = self.ends.own();
        ends::Exchange { ends, own, service, circuit, public, fresh, keys }
    }

    /// Lets the application's data pass, under the new keys.
    fn finish(
        &self,
        to: &Circuit,
        proved: Result<Proved<Peer>, String>,
    ) -> Result<Outcome, String> {
        let proved = proved.inspect_err(|_| self.ends.doubts(self.own))?;
        let Proved { memory: Memory { peer, .. }, sealer, opener, .. } = proved;
        to.proved(Outward::Sealed(Outgoing::new(sealer, true)));
        Ok(Outcome { peer, inward: Inward::Sealed(opener, Incoming::new(true)) })
    }
}

/// The payloads of a circuit.
struct Payloads<'a>(&'a Circuit);

impl Line for Payloads<'_> {
    async fn say(&mut self, payload: Bytes) -> Result<(), String> {
        self.0.say(payload);
        Ok(())
    }

    async fn hear(&mut self) -> Result<Bytes, String> {
        match poll_fn(|cx| self.0.poll_read(cx)).await {
            Delivery::Data { data, .. } => Ok(data),
            Delivery::Fin { .. } | Delivery::Closed(_) => {
                Err("the connection ended before both ends had proved themselves".into())
            }
        }
    }
}
