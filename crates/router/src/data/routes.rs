//! Routes of circuits, set up at the command of controllers; the terminating end is dialed first.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use weft_config::router::DialerBinding;
use weft_wire::ctrl::Route;

use super::DataHalf;
use super::direct::direct;
use super::options::end_options;
use crate::bindings::transport::{self, Dialer};
use crate::forwarder::{Circuit, SetUp};
use crate::seam::{
    self, ControllerId, Egress, NotObeyed, PeerData, RouteCommand, RouteError, RouteErrorCode,
    RouteTicket,
};

/// A route that is to be set up.
struct BegunRoute {
    half: Weak<DataHalf>,
    set_up: SetUp,
}

impl seam::BegunRoute for BegunRoute {
    fn ticket(&self) -> RouteTicket {
        self.set_up.ticket().clone()
    }

    fn given_up(&self) -> CancellationToken {
        self.set_up.given_up().clone()
    }

    fn set_up(
        self: Box<Self>,
        command: RouteCommand,
    ) -> BoxFuture<'static, Result<PeerData, RouteError>> {
        async move {
            let Self { half, set_up } = *self;
            let gone = || RouteError {
                code: RouteErrorCode::Generic,
                text: "the router is shutting down".to_owned(),
            };
            let half = half.upgrade().ok_or_else(gone)?;
            // Sockets of applications are read and written on the same threads as circuits.
            let threads = half.options.threads.clone();
            let setting_up =
                threads.pick().spawn(async move { half.set_up(set_up, command).await });
            setting_up.await.unwrap_or_else(|_| Err(gone()))
        }
        .boxed()
    }

    fn set_up_without_dial(self: Box<Self>, command: &RouteCommand) -> Result<(), RouteError> {
        self.set_up.circuit().carried.tag(&command.tags);
        self.set_up.route(&command.forwards)
    }
}

impl DataHalf {
    /// A controller sends a route: whether it is to be carried out. A router that is about to stop takes no new circuits.
    pub(super) fn begin_route(
        &self,
        from: &ControllerId,
        route: &Route,
    ) -> Result<Box<dyn seam::BegunRoute>, NotObeyed> {
        let set_up = self.forwarder.begin(from, route, !self.draining.is_cancelled())?;
        Ok(Box::new(BegunRoute { half: self.this.clone(), set_up }))
    }

    /// Sets a route up, dialing first if it names an egress; nothing is left behind on failure.
    async fn set_up(&self, set_up: SetUp, command: RouteCommand) -> Result<PeerData, RouteError> {
        let is_there = |egress: &&Egress| self.forwarder.destination(&egress.address).is_some();
        let dialed = command.egress.as_ref().filter(|egress| !is_there(egress));
        let dwell = self.options.forwarder.xgress_dial_dwell_time;
        if dialed.is_some() && !dwell.is_zero() {
            tokio::time::sleep(dwell).await;
        }
        set_up.stands()?;
        set_up.circuit().carried.tag(&command.tags);
        let mut peer_data = PeerData::new();
        if let Some(egress) = dialed {
            let given_up = &command.taken_down;
            peer_data = self.dial(&set_up, egress, command.timeout, given_up).await?;
        }
        if let Err(failure) = set_up.route(&command.forwards) {
            dialed.iter().for_each(|egress| self.forwarder.give_up(&egress.address));
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
        if self.draining.is_cancelled() {
            // The route has come before, and has waited for a worker.
            return Err(NotObeyed::Stopping.into());
        }
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
            () = given_up.cancelled() => Err(NotObeyed::TakenDown.into()),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::net::TcpListener;
    use tokio_util::sync::CancellationToken;
    use weft_wire::ctrl::Route;

    use crate::bindings::edge::tests::data_half;
    use crate::data::DataHalf;
    use crate::seam::{
        Data as _, Egress, Forward, ForwardKind, NotObeyed, PeerData, RouteCommand, RouteError,
    };

    /// The answer to a route that dials an address, and that has waited for a worker while `meanwhile`.
    async fn dialed(
        data: &Arc<DataHalf>,
        circuit: &str,
        meanwhile: impl FnOnce(&DataHalf),
    ) -> Result<PeerData, RouteError> {
        let host = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let route = Route { circuit_id: circuit.to_owned(), ..Route::default() };
        let begun_route = data.begin(&"ctrl".into(), &route).unwrap();
        meanwhile(data);
        let address = format!("end of {circuit}");
        let egress = Egress {
            binding: "transport".to_owned(),
            address: address.clone(),
            destination: format!("tcp:{}", host.local_addr().unwrap()),
            peer_data: PeerData::new(),
            trace: None,
        };
        let forward =
            Forward { source: "I".to_owned(), destination: address, kind: ForwardKind::End };
        let command = RouteCommand {
            circuit: circuit.to_owned(),
            egress: Some(egress),
            forwards: vec![forward],
            timeout: Duration::from_secs(10),
            tags: Default::default(),
            taken_down: CancellationToken::new(),
        };
        begun_route.set_up(command).await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_route_that_waits_until_the_router_drains_dials_nothing() {
        let data = data_half().await;
        dialed(&data, "c1", |_| ()).await.unwrap();
        let refused = dialed(&data, "c2", |data| data.drain()).await.unwrap_err();
        assert_eq!(refused, RouteError::from(NotObeyed::Stopping));
        assert_eq!(data.counts().0, 1, "nothing is left of it");
    }
}
