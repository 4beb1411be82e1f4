//! The proofs of both ends at the beginning of a sealed connection (docs/protocol/sdk.md 14.6), over its circuit.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weft_e2e::ending::{Announced, IncomingDirection, Outgoing};
use weft_e2e::ends::{self, DialerOpening, HostedDialer, Line, Peer, Statement, UnprovenDialer};
use weft_e2e::proof::{FRESH, Greeting, PeerMemory, Proved};
use weft_e2e::{ConnectionKeys, Header, Opener, PublicKey, Sealer};
use weft_xgress::Delivery;

use crate::account::Account;
use crate::circuit::Circuit;
use crate::ends::Ends;
use crate::sealing::{Inward, Outward};

/// The time that a dialer has for its proof.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

const LATE: &str = "the dialer has not proved itself in time";

/// A sealed connection whose ends have not proved themselves yet.
pub(crate) struct Exchange<'a> {
    /// The id of the circuit; empty if the router does not send it.
    pub(crate) circuit: &'a str,
    pub(crate) ends: &'a Ends,
    pub(crate) account: &'a Account,
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
    /// `None` if the dialer has not heard that its host proves itself.
    pub(crate) peer: Option<Peer>,
    pub(crate) inward: Inward,
}

/// What the first delivery of a dialer says to its host.
pub(crate) enum First {
    /// What the host knows of the dialer, or why that has not proved itself.
    Decided(Result<HostedDialer, String>),
    /// Not enough yet: this payload is for [`Exchange::host`].
    Open(UnprovenDialer, Bytes),
}

impl Exchange<'_> {
    /// Proves this end as the dialer's of an instance, which may be empty, to the host that has answered with this greeting.
    pub(crate) async fn dial(
        &self,
        to: &Circuit,
        host: &Greeting,
        instance: &str,
    ) -> Result<Outcome, String> {
        let mut line = Payloads { exchange: self, to, heard: None };
        let proved = self.inner().dial(&mut line, host, instance).await;
        proved.map(|proved| proven(to, proved)).inspect_err(|_| self.ends.doubts(self.own))
    }

    /// What this host answers the dialer that announced this, and what it knows of that dialer.
    pub(crate) fn greet(
        &self,
        dialer: Announced,
        claimed: Option<&str>,
    ) -> (Greeting, UnprovenDialer) {
        self.inner().greet(dialer, claimed)
    }

    /// Proves this end as the host's, once the dialer has proved itself. `heard` is what the dialer has said already. What
    /// follows is for [`Exchange::hosted`].
    pub(crate) async fn host(
        &self,
        to: &Circuit,
        caller: UnprovenDialer,
        heard: Option<Bytes>,
    ) -> Result<HostedDialer, String> {
        let (exchange, mut line) = (self.inner(), Payloads { exchange: self, to, heard });
        let dialer = tokio::time::timeout(PATIENCE, exchange.host(&mut line, caller)).await;
        dialer.unwrap_or_else(|_| Err(LATE.to_owned())).inspect_err(|_| self.ends.doubts(self.own))
    }

    /// Takes the first delivery of a dialer that this host has met: who it is, or what is open still.
    pub(crate) fn hear(&self, caller: UnprovenDialer, first: Option<Delivery>) -> First {
        let heard = first.ok_or_else(|| LATE.to_owned()).and_then(payload);
        let dialer = match heard {
            Ok(heard) => match caller.hear(&heard) {
                DialerOpening::Decided(proved) => proved.map(HostedDialer::Proved),
                DialerOpening::Unaware(header) => Ok(HostedDialer::Unaware(header)),
                DialerOpening::Open(caller) => return First::Open(caller, heard),
            },
            Err(problem) => Err(problem),
        };
        First::Decided(dialer.inspect_err(|_| self.ends.doubts(self.own)))
    }

    /// Lets the application's data pass between this host and a dialer of which it knows this, and which it admits.
    pub(crate) fn hosted(&self, to: &Circuit, dialer: HostedDialer) -> Outcome {
        match dialer {
            HostedDialer::Proved(proved) => proven(to, *proved),
            HostedDialer::Unaware(header) => self.unaware(to, &header),
        }
    }

    /// Lets the application's data pass under the keys of the agreement, to a dialer whose stream begins with this header.
    fn unaware(&self, to: &Circuit, dialers: &Header) -> Outcome {
        let (sealer, own) = Sealer::new(&self.keys.tx, &mut rand::rng());
        to.say(Bytes::copy_from_slice(own.as_bytes()));
        // The dialer's marker says that it reads a sealed end.
        to.proved(Outward::Sealed(Outgoing::new(sealer, true)));
        let opener = Opener::new(&self.keys.rx, dialers);
        Outcome { peer: None, inward: Inward::Sealed(opener, IncomingDirection::new(false)) }
    }

    fn inner(&self) -> ends::Exchange<'_> {
        let Self { circuit, own, service, public, fresh, keys, .. } = *self;
        let ends = self.ends.own();
        ends::Exchange { ends, own, service, circuit, public, fresh, keys }
    }
}

/// Lets the application's data pass, under the new keys.
fn proven(to: &Circuit, proved: Proved<Peer>) -> Outcome {
    let Proved { memory: PeerMemory { peer, .. }, sealer, opener, .. } = proved;
    to.proved(Outward::Sealed(Outgoing::new(sealer, true)));
    let inward = Inward::Sealed(opener, IncomingDirection::new(true));
    Outcome { peer: Some(peer), inward }
}

/// The payloads of a circuit.
struct Payloads<'a> {
    exchange: &'a Exchange<'a>,
    to: &'a Circuit,
    /// The first one, if it has come already.
    heard: Option<Bytes>,
}

impl Line for Payloads<'_> {
    async fn say(&mut self, payload: Bytes) -> Result<(), String> {
        self.to.say(payload);
        Ok(())
    }

    async fn hear(&mut self) -> Result<Bytes, String> {
        match self.heard.take() {
            Some(heard) => Ok(heard),
            None => payload(poll_fn(|cx| self.to.poll_read(cx)).await),
        }
    }

    async fn renew(&mut self) -> Option<Arc<Statement>> {
        let Exchange { ends, account, own, .. } = self.exchange;
        ends.renewed(account, own).await
    }
}

fn payload(delivery: Delivery) -> Result<Bytes, String> {
    match delivery {
        Delivery::Data { data, .. } => Ok(data),
        Delivery::Fin { .. } | Delivery::Closed(_) => {
            Err("the connection ended before both ends had proved themselves".into())
        }
    }
}
