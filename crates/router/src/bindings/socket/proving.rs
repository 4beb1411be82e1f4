//! The proofs of both ends at the beginning of a connection of the router's own tunneler (docs/protocol/sdk.md 14.6).

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use weft_e2e::ends::{Exchange, HostedDialer, Line, Statement, UnprovenDialer};
use weft_e2e::proof::{FRESH, Greeting};
use weft_e2e::{ConnectionKeys, PublicKey};
use weft_limits::LogLines;
use weft_xgress::Delivery;

use super::super::ends::{Purpose, TunnelEnds};
use crate::forwarder::LocalEnd;

/// The time that the other end has for its proof.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is wrong with a dialer that has announced a proof, and gives none to a host that does.
const UNHEARD: &str = "it has not heard that the host proves itself: a router on the way has removed the announcement";

/// Log lines about ends that have not proved themselves.
static LINES: LazyLock<Mutex<LogLines>> =
    LazyLock::new(|| Mutex::new(LogLines::new(weft_circuit::now())));

/// What proves this end of a connection to the other one.
pub(crate) struct Proof {
    pub(crate) ends: Arc<TunnelEnds>,
    pub(crate) own: Arc<Statement>,
    pub(crate) purpose: Purpose,
    /// The keys of the agreement: the dialer's, and the host's.
    pub(crate) public: (PublicKey, PublicKey),
    /// The host's fresh bytes.
    pub(crate) fresh: [u8; FRESH],
    pub(crate) side: Side,
}

/// The side of a connection.
pub(crate) enum Side {
    /// The dialer of an instance, which may be empty, with the greeting of the host.
    Dialer { host: Greeting, instance: String },
    /// The host, with what it knows of the dialer, and whether the service demands a proof.
    Host { caller: Box<UnprovenDialer>, demands: bool },
}

impl Proof {
    /// Proves both ends to each other: what this end knows of the other one then, which is always proved for a dialer.
    /// `None` if that fails, and nothing of the application may pass.
    pub(super) async fn prove(self, end: &LocalEnd, keys: &ConnectionKeys) -> Option<HostedDialer> {
        let circuit = &*end.circuit().id;
        let Self { own, purpose, public, fresh, side, .. } = self;
        let (ends, service) = (self.ends.own(), purpose.service.as_str());
        let exchange = Exchange { ends, own: &own, service, circuit, public, fresh, keys };
        let mut line = Payloads { end, ends: &self.ends, purpose: &purpose };
        let proving = async {
            match side {
                Side::Dialer { host, instance } => {
                    let proved = exchange.dial(&mut line, &host, &instance).await;
                    proved.map(|proved| HostedDialer::Proved(Box::new(proved)))
                }
                Side::Host { caller, demands } => {
                    let dialer = exchange.host(&mut line, *caller).await?;
                    match demands && matches!(dialer, HostedDialer::Unaware(_)) {
                        true => Err(UNHEARD.to_owned()),
                        false => Ok(dialer),
                    }
                }
            }
        };
        let late = |_| Err("it has not done so in time".to_owned());
        match tokio::time::timeout(PATIENCE, proving).await.unwrap_or_else(late) {
            Ok(other) => Some(other),
            Err(problem) => {
                self.ends.doubts(&purpose);
                if let Some(left_out) = LINES.lock().due(weft_circuit::now()) {
                    tracing::warn!(
                        circuit,
                        service,
                        problem,
                        left_out,
                        "a connection of the router's tunneler is closed, because the other end has not proved who it is"
                    );
                }
                None
            }
        }
    }
}

/// The payloads of a circuit.
struct Payloads<'a> {
    end: &'a LocalEnd,
    ends: &'a TunnelEnds,
    purpose: &'a Purpose,
}

impl Line for Payloads<'_> {
    async fn say(&mut self, payload: Bytes) -> Result<(), String> {
        let is_said = self.end.writable().await && self.end.write(payload).is_ok();
        if is_said { Ok(()) } else { Err("the connection has ended".to_owned()) }
    }

    async fn hear(&mut self) -> Result<Bytes, String> {
        match self.end.read().await {
            Delivery::Data { data, .. } => Ok(data),
            Delivery::Fin { .. } | Delivery::Closed(_) => {
                Err("the connection ended before both ends had proved themselves".to_owned())
            }
        }
    }

    async fn renew(&mut self) -> Option<Arc<Statement>> {
        self.ends.renewed(self.purpose).await
    }
}
