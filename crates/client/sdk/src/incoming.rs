//! A dial that reached this host and waits to be accepted.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use weft_contract::entity::DialBind;
use weft_e2e::ending::{self, Announced, HostKey};
use weft_e2e::ends::{HostedDialer, Statement, UnprovenDialer};
use weft_e2e::proof::{FRESH, Greeting};
use weft_e2e::{ConnectionKeys, PublicKey};
use weft_spans::attribute;
use weft_xgress::Delivery;

use crate::channel::Arrival;
use crate::circuit::Circuit;
use crate::connection::{Connection, Info};
use crate::dial::known_id;
use crate::error::{Error, Result};
use crate::exchange::{Exchange, First, Outcome, PATIENCE};
use crate::hosting::Host;
use crate::inner::Guard;
use crate::sealing::Keys;

/// The longest wait for the controller's statement about this host: routers wait 5 s for the answer to a dial, which goes
/// without a proof then.
const STATED: Duration = Duration::from_secs(2);

/// A connection that waits to be accepted. Dropped without an answer, it is refused.
///
/// Routers wait 5 s for the answer.
#[derive(Debug)]
pub struct Incoming {
    arrival: Arrival,
    host: Arc<Host>,
    guard: Arc<Guard>,
}

impl Incoming {
    pub(crate) fn new(mut arrival: Arrival, host: Arc<Host>, guard: Arc<Guard>) -> Self {
        arrival.span.event("taken by the application");
        arrival.span.set(attribute::SERVICE_ID, &host.service.base.id);
        arrival.span.set(attribute::SERVICE_NAME, &host.service.name);
        Self { arrival, host, guard }
    }

    /// The name of the dialer's identity, if the controller is weft's. Other controllers pass on what the dialer gave, so
    /// that decisions should use [`dialer_identity`](Self::dialer_identity).
    /// `None` if the dialer gave no name.
    #[must_use]
    pub fn caller_id(&self) -> Option<String> {
        let given = &self.arrival.dial.caller_id;
        (!given.is_empty()).then(|| String::from_utf8_lossy(given).into_owned())
    }

    /// The id of the dialer's identity, verified by its router; older routers do not send it.
    #[must_use]
    pub fn dialer_identity(&self) -> Option<&str> {
        self.arrival.dialer_id()
    }

    /// The name of the dialer's identity, verified by its router; older routers do not send it.
    #[must_use]
    pub fn dialer_name(&self) -> Option<&str> {
        self.arrival.dialer_name()
    }

    /// Data that the dialer's application sent with the dial.
    #[must_use]
    pub fn app_data(&self) -> Option<&Bytes> {
        self.arrival.dial.app_data.as_ref()
    }

    /// The circuit's id, for operators; `None` if the router does not send it.
    #[must_use]
    pub fn circuit_id(&self) -> Option<&str> {
        Some(self.arrival.dial.circuit_id.as_str()).filter(|id| !id.is_empty())
    }

    /// Accepts the connection. It does not wait for the dialer: if both ends prove themselves, data passes once that is
    /// done, or once the dialer's first payload shows that a router has prevented it ([`Connection::peer`]).
    ///
    /// # Errors
    /// When the router is gone, or the service requires encryption and the dialer sent no key.
    ///
    /// # Cancel safety
    /// Cancel safe: a connection whose acceptance is given up is refused.
    pub async fn accept(mut self) -> Result<Connection> {
        let service = &self.host.service.name;
        let sealed = match self.keys().await {
            Ok(sealed) => sealed,
            Err(Refused { problem, of_proof }) => {
                self.arrival.answer(&problem);
                let service = service.clone();
                return Err(match of_proof {
                    true => Error::Unproved { service, problem },
                    false => Error::Encryption { service, problem },
                });
            }
        };
        let Arrival { dial, request, channel, .. } = &self.arrival;
        let told = sealed.as_ref().and_then(|sealed| sealed.told.clone());
        let accepted = channel.accept(dial, request, told).await;
        self.arrival.answered = accepted.is_ok();
        let circuit = accepted.map_err(|failure| Error::of_failure(service, failure))?;
        let info = Info {
            service: service.clone(),
            circuit_id: known_id(&circuit),
            caller_id: self.caller_id(),
            dialer_identity: self.dialer_identity().map(str::to_owned),
            dialer_name: self.dialer_name().map(str::to_owned),
            app_data: self.arrival.dial.app_data.clone(),
        };
        let guard = Arc::clone(&self.guard);
        match sealed {
            Some(Sealed { keys, proof: Some(proof), .. }) => {
                let keys = keys.session;
                let outcome = prove(Arc::clone(&guard), &circuit, keys, proof);
                Ok(Connection::proving(circuit, outcome, info, guard))
            }
            sealed => {
                let keys = sealed.map(|sealed| sealed.keys);
                if !guard.inner.admits_unproved(&self.host.service.base.id, &circuit) {
                    let problem = "it was switched on meanwhile".to_owned();
                    return Err(Error::Unproved { service: service.clone(), problem });
                }
                Ok(Connection::new(circuit, keys, info, guard))
            }
        }
    }

    /// Refuses the connection; the dialer is sent the reason.
    pub fn reject(self, reason: &str) {
        self.arrival.refuse(reason);
    }

    async fn keys(&self) -> Result<Option<Sealed>, Refused> {
        let sealed = self.sealed().await?;
        let demands = self.guard.inner.account.demands_proof(&self.host.service.base.id);
        if demands && sealed.as_ref().is_none_or(|sealed| sealed.proof.is_none()) {
            let marker = self.arrival.dial.marker.as_deref().unwrap_or_default();
            let problem = match ending::dialer_proves(marker) {
                Some(_) if self.host.keys.is_some() => {
                    "the controller has stated nothing about the host, which cannot prove itself"
                }
                _ => {
                    "the service demands that both ends prove who they are, and the dialer has announced no proof: its \
                     program has none, or a router on the way has removed the announcement"
                }
            };
            return Err(Refused { problem: problem.to_owned(), of_proof: true });
        }
        Ok(sealed)
    }

    async fn sealed(&self) -> Result<Option<Sealed>, String> {
        let Some(own) = &self.host.keys else { return Ok(None) };
        let key = self.arrival.dial.public_key.as_ref();
        let key = key.ok_or("the service demands encryption and the dialer sent no key")?;
        let peer = PublicKey::try_from(&key[..]).map_err(|error| error.to_string())?;
        let session = own.server_session(&peer).map_err(|error| error.to_string())?;
        let marker = self.arrival.dial.marker.as_deref().unwrap_or_default();
        let seals_end = ending::dialer_seals(marker);
        let proof = match ending::dialer_proves(marker) {
            Some(dialer) => self.proof(dialer, (peer, own.public_key()), &session).await,
            None => None,
        };
        let (proves, proof) = proof.unzip();
        let key = own.public_key();
        // The key of the bind, sent once more, tells the dialer what is done here beside.
        let told = seals_end.then(|| HostKey { key, seals_end, proves }.to_bytes());
        // The dialer's first data shows whether it understood the host's answer.
        Ok(Some(Sealed { keys: Keys::new(session, seals_end, false), told, proof }))
    }

    /// The greeting of the dialer that announced this, and what its proof needs; `None` without the controller's statement
    /// about this host.
    async fn proof(
        &self,
        dialer: Announced,
        public: (PublicKey, PublicKey),
        keys: &ConnectionKeys,
    ) -> Option<(Greeting, Proof)> {
        let statement = tokio::time::timeout(STATED, Box::pin(self.statement()));
        let own = statement.await.ok().flatten()?;
        let (inner, service) = (&self.guard.inner, self.host.service.base.id.as_str());
        let (ends, account) = (&inner.ends, &inner.account);
        let fresh = rand::random();
        let (circuit, claimed) = (&self.arrival.dial.circuit_id, self.dialer_identity());
        let exchange = Exchange { circuit, ends, account, own: &own, service, public, fresh, keys };
        let (greeting, caller) = exchange.greet(dialer, claimed);
        let service = service.to_owned();
        Some((greeting, Proof { own, service, public, fresh, caller }))
    }

    /// The controller's statement about this host.
    async fn statement(&self) -> Option<Arc<Statement>> {
        let inner = &self.guard.inner;
        let session = inner.account.session(&self.host.service, DialBind::Bind).await.ok()?;
        inner.ends.statement(&inner.account, &session.base.id, self.host.instance()).await
    }
}

/// What is wrong with a dialer that has announced a proof, and gives none to a host that does.
const UNHEARD: &str = "the dialer has not heard that the host proves itself: a router on the way has not passed on the \
                       host's answer, as those of OpenZiti before 2.1 do not";

/// Why a connection is not accepted.
struct Refused {
    problem: String,
    /// True if a proof is missing.
    of_proof: bool,
}

impl From<String> for Refused {
    fn from(problem: String) -> Self {
        Self { problem, of_proof: false }
    }
}

/// The keys of a connection that is to be sealed.
struct Sealed {
    keys: Keys,
    /// This end's key with what it does besides, if the dialer reads that.
    told: Option<Bytes>,
    proof: Option<Proof>,
}

/// What a proof of both ends needs beside the keys.
struct Proof {
    own: Arc<Statement>,
    /// The id of the service.
    service: String,
    /// The public keys of the agreement: the dialer's, and the host's.
    public: (PublicKey, PublicKey),
    /// The fresh bytes of the greeting.
    fresh: [u8; FRESH],
    caller: UnprovenDialer,
}

/// Lets both ends prove themselves, without the application's task, which may accept other connections meanwhile. A dialer
/// that this host has met does so on the channel's task, as it costs no more than the opening of a payload; any other one on
/// a task of its own.
fn prove(
    guard: Arc<Guard>,
    circuit: &Arc<Circuit>,
    keys: ConnectionKeys,
    proof: Proof,
) -> oneshot::Receiver<Outcome> {
    let (sender, receiver) = oneshot::channel();
    let Proof { own, service, public, fresh, caller } = proof;
    let proving = Proving { guard, keys, own, service, public, fresh, sender };
    if caller.is_known() {
        let this = Arc::downgrade(circuit);
        let gate = move |first| {
            if let Some(circuit) = this.upgrade() {
                proving.hear(&circuit, caller, first);
            }
        };
        circuit.prove_at_gate(Box::new(gate), weft_circuit::now() + PATIENCE);
    } else {
        circuit.prove();
        proving.spawn(circuit, caller, None);
    }
    receiver
}

/// A host whose dialer has not proved itself yet.
struct Proving {
    guard: Arc<Guard>,
    keys: ConnectionKeys,
    own: Arc<Statement>,
    service: String,
    public: (PublicKey, PublicKey),
    fresh: [u8; FRESH],
    sender: oneshot::Sender<Outcome>,
}

impl Proving {
    fn exchange<'a>(&'a self, circuit: &'a Circuit) -> Exchange<'a> {
        Exchange {
            circuit: circuit.id(),
            ends: &self.guard.inner.ends,
            account: &self.guard.inner.account,
            own: &self.own,
            service: &self.service,
            public: self.public,
            fresh: self.fresh,
            keys: &self.keys,
        }
    }

    /// Takes the first delivery of a dialer that the host has met.
    fn hear(self, circuit: &Arc<Circuit>, caller: UnprovenDialer, first: Option<Delivery>) {
        match self.exchange(circuit).hear(caller, first) {
            First::Decided(dialer) => self.tell(circuit, dialer),
            First::Open(caller, heard) => self.spawn(circuit, caller, Some(heard)),
        }
    }

    fn spawn(self, circuit: &Arc<Circuit>, caller: UnprovenDialer, heard: Option<Bytes>) {
        let circuit = Arc::clone(circuit);
        tokio::spawn(async move {
            let dialer = self.exchange(&circuit).host(&circuit, caller, heard).await;
            self.tell(&circuit, dialer);
        });
    }

    /// The dialer, unless it has not heard that this host proves itself, and the service demands a proof.
    fn admitted(
        &self,
        circuit: &Arc<Circuit>,
        dialer: HostedDialer,
    ) -> Result<HostedDialer, String> {
        if matches!(dialer, HostedDialer::Unaware(_)) {
            if !self.guard.inner.admits_unproved(&self.service, circuit) {
                return Err(UNHEARD.to_owned());
            }
            tracing::debug!(circuit = %circuit.id(), "a connection goes on without a proof: {UNHEARD}");
        }
        Ok(dialer)
    }

    fn tell(self, circuit: &Arc<Circuit>, dialer: Result<HostedDialer, String>) {
        match dialer.and_then(|dialer| self.admitted(circuit, dialer)) {
            Ok(dialer) => {
                let outcome = self.exchange(circuit).hosted(circuit, dialer);
                // The application may have dropped the connection meanwhile.
                drop(self.sender.send(outcome));
            }
            Err(problem) => {
                if let Some(left_out) = self.guard.inner.ends.complains() {
                    tracing::warn!(
                        circuit = %circuit.id(),
                        problem,
                        left_out,
                        "a connection is closed, because its dialer has not proved who it is"
                    );
                }
                circuit.abort();
            }
        }
    }
}
