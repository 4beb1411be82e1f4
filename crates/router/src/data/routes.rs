//! Routes of circuits, set up at the command of controllers; the terminating end is dialed first.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weft_config::router::DialerBinding;
use weft_wire::ctrl::REROUTE_ATTEMPT;

use super::DataHalf;
use super::direct::direct;
use super::options::end_options;
use crate::bindings::transport::{self, Dialer};
use crate::forwarder::{Circuit, SetUp};
use crate::seam::{self, Egress, PeerData, RouteCommand, RouteError, RouteErrorCode};

impl DataHalf {
    /// Begins to set up a route. A `SetUp` that is dropped before it has a route leaves nothing behind.
    pub(super) fn begin(&self, command: &RouteCommand) -> Result<SetUp, RouteError> {
        if self.draining.is_cancelled() && self.forwarder.circuit(&command.circuit).is_none() {
            return Err(RouteError {
                code: RouteErrorCode::ResourcesNotAvailable,
                text: "the router is shutting down, it takes no new circuits".to_owned(),
            });
        }
        let attempt = (command.attempt != REROUTE_ATTEMPT).then_some(command.attempt);
        let set_up = self.forwarder.set_up(&command.circuit, &command.controller, attempt)?;
        set_up.circuit().carried.tag(&command.tags);
        // An unroute that comes from now on finds the circuit in the table; one that came before
        // cancelled the command.
        if command.taken_down.is_cancelled() {
            return Err(seam::taken_down());
        }
        Ok(set_up)
    }

    /// Sets a route up, dialing first if it names an egress; nothing is left behind on failure.
    pub(super) async fn set_up(&self, command: RouteCommand) -> Result<PeerData, RouteError> {
        let set_up = self.begin(&command)?;
        let mut peer_data = PeerData::new();
        let mut dialed = None;
        if let Some(egress) = &command.egress
            && self.forwarder.destination(&egress.address).is_none()
        {
            let given_up = &command.taken_down;
            peer_data = self.dial(&set_up, egress, command.timeout, given_up).await?;
            dialed = Some(&egress.address);
        }
        if let Err(failure) = set_up.route(&command.forwards) {
            if let Some(address) = dialed {
                self.forwarder.give_up(address);
            }
            return Err(failure);
        }
        Ok(peer_data)
    }

    /// Fails if the file of the router has no `dialers`: the router then dials no application without an
    /// SDK (docs/router-config.md). With an entry for any binding, the other bindings have the
    /// defaults.
    fn may_dial(&self, binding: &str) -> Result<(), RouteError> {
        if !self.options.dialers.is_empty() {
            return Ok(());
        }
        let text =
            format!("the file of this router has no `dialers`, no dialer for binding {binding}");
        Err(transport::misconfigured(text))
    }

    /// Dials the terminating end of a circuit. The caller limits how many are dialed at the same time
    /// (`control::routes::dial_slots`).
    async fn dial(
        &self,
        set_up: &SetUp,
        egress: &Egress,
        timeout: Duration,
        given_up: &CancellationToken,
    ) -> Result<PeerData, RouteError> {
        tokio::time::sleep(self.options.forwarder.xgress_dial_dwell_time).await;
        set_up.stands()?;
        let dialed = self.dial_host(set_up.circuit(), egress, timeout, given_up).await;
        let dials = &self.forwarder.measures().dials;
        if dialed.is_ok() { &dials.answered } else { &dials.failed }.one();
        dialed
    }

    async fn dial_host(
        &self,
        circuit: &Arc<Circuit>,
        egress: &Egress,
        timeout: Duration,
        given_up: &CancellationToken,
    ) -> Result<PeerData, RouteError> {
        if egress.binding == "edge" {
            return self.edge.dial(circuit, egress, timeout, given_up).await;
        }
        // What these dials have opened is closed when they are dropped.
        tokio::select! {
            biased;
            dialed = self.dial_address(circuit, egress, timeout) => dialed,
            () = given_up.cancelled() => Err(seam::taken_down()),
        }
    }

    /// Dials what is not behind an SDK.
    async fn dial_address(
        &self,
        circuit: &Arc<Circuit>,
        egress: &Egress,
        timeout: Duration,
    ) -> Result<PeerData, RouteError> {
        match egress.binding.as_str() {
            "tunnel" => self.tunnel.dial(circuit, egress, timeout).await,
            other => {
                let binding = direct(other).ok_or_else(|| {
                    transport::misconfigured(format!("no dialer for binding {other}"))
                })?;
                self.may_dial(other)?;
                let dialer = self.dialer(binding);
                transport::dial(&self.forwarder, circuit, egress, timeout, &dialer).await
            }
        }
    }

    /// The options of a binding that dials addresses.
    fn dialer(&self, binding: DialerBinding) -> Dialer {
        let configured = self.options.dialers.iter().find(|one| one.binding == binding);
        let options = configured.map(|one| one.options.clone()).unwrap_or_default();
        Dialer {
            end: end_options(&options),
            connect_timeout: options.connect_timeout,
            peer_timeout: self.options.forwarder.xgress_user_timeout,
            tls: self.options.client_tls.clone(),
        }
    }
}
