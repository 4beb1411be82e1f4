//! A dial that reached this host and waits to be accepted.

use crate::channel::Arrival;
use crate::connection::{Connection, Info};
use crate::error::{Error, Result};
use crate::hosting::Host;
use crate::inner::Guard;
use crate::sealing::Keys;
use bytes::Bytes;
use std::sync::Arc;
use weft_e2e::{KeyPair, PublicKey, ending};
use weft_spans::attribute;

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
    #[must_use]
    pub fn caller_id(&self) -> String {
        String::from_utf8_lossy(&self.arrival.dial.caller_id).into_owned()
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

    /// The circuit's id; empty if the router does not send it.
    #[must_use]
    pub fn circuit_id(&self) -> &str {
        &self.arrival.dial.circuit_id
    }

    /// Accepts the connection.
    ///
    /// # Errors
    /// When the router is gone, or the service requires encryption and the dialer sent no key.
    pub async fn accept(mut self) -> Result<Connection> {
        let service = &self.host.service.name;
        let keys = match self.keys() {
            Ok(keys) => keys,
            Err(problem) => {
                self.arrival.answer(&problem);
                return Err(Error::Encryption { service: service.clone(), problem });
            }
        };
        let Arrival { dial, request, channel, .. } = &self.arrival;
        // The key of the bind, sent once more, tells the dialer that the end is sealed here.
        let seals_end = keys.as_ref().is_some_and(|keys| keys.seals_end);
        let own = self.host.keys.as_ref().filter(|_| seals_end).map(KeyPair::public_key);
        let own = own.as_ref().map(ending::host_key);
        let accepted = channel.accept(dial, request, own).await;
        self.arrival.answered = accepted.is_ok();
        let circuit = accepted.map_err(|failure| Error::of_failure(service, failure))?;
        let info = Info {
            service: service.clone(),
            circuit_id: Arc::clone(circuit.id()),
            caller_id: self.caller_id(),
            dialer_identity: self.dialer_identity().map(str::to_owned),
            dialer_name: self.dialer_name().map(str::to_owned),
            app_data: self.arrival.dial.app_data.clone(),
        };
        Ok(Connection::new(circuit, keys, info, Arc::clone(&self.guard)))
    }

    /// Refuses the connection; the dialer is sent the reason.
    pub fn reject(self, reason: &str) {
        self.arrival.refuse(reason);
    }

    fn keys(&self) -> Result<Option<Keys>, String> {
        let Some(own) = &self.host.keys else { return Ok(None) };
        let key = self.arrival.dial.public_key.as_ref();
        let key = key.ok_or("the service demands encryption and the dialer sent no key")?;
        let peer = PublicKey::try_from(&key[..]).map_err(|error| error.to_string())?;
        let session = own.server_session(&peer).map_err(|error| error.to_string())?;
        let marker = self.arrival.dial.marker.as_ref();
        let seals_end = marker.is_some_and(|marker| ending::dialer_seals(marker));
        // The dialer's first data shows whether it understood the host's answer.
        Ok(Some(Keys::new(session, seals_end, false)))
    }
}
