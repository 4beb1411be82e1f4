//! The tunneler of the router: its identity hosts the services that it may bind, and accepts clients for
//! the services that it may dial.
//!
//! ```text
//!  access: services ─┬─ may be hosted ──> configs ──> terminators (control)      [`hosting`]
//!                    └─ may be dialed ──> configs ──> ports, addresses and names of this machine [`takes`]
//!  route with binding `tunnel` ──> host of that terminator ──> application       [`hosting`]
//!  client ──> circuit (control) ──> end of the circuit ──> its socket  [`carry`]
//! ```

mod carry;
mod hosting;
mod takes;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use weft_channel::Threads;
use weft_config::router::TunnelOptions;
use weft_tunnel::{Carrier, Interception, Ports, SourceAddresses, UdpTimes};
use weft_xgress::Options;

use self::carry::CircuitCarrier;
use self::hosting::Hosting;
pub(crate) use self::takes::interception;
use super::ends::TunnelEnds;
use crate::forwarder::{Circuit, Forwarder};
use crate::seam::{Access, Control, Egress, PeerData, RouteError};

/// The interval at which ports are opened again that were in use, or whose interface has another address now.
const RETRY: Duration = Duration::from_secs(30);

/// Longest wait until source addresses of hosted services are removed from the machine.
const GIVING_BACK: Duration = Duration::from_secs(5);

/// The tunneler of the router.
pub(crate) struct TunnelBinding {
    access: Arc<dyn Access>,
    hosting: Arc<Hosting>,
    carrier: Arc<CircuitCarrier>,
}

impl TunnelBinding {
    pub(crate) fn new(
        forwarder: &Arc<Forwarder>,
        control: &Arc<dyn Control>,
        access: Arc<dyn Access>,
        hosted: Options,
        dialed: Options,
        peer_timeout: Option<Duration>,
        threads: Threads,
    ) -> Arc<Self> {
        let ends = TunnelEnds::new(control);
        let (way, asked) = (Arc::clone(forwarder), Arc::clone(control));
        let hosting = Hosting::new(way, asked, ends.clone(), hosted, peer_timeout);
        let (way, asked) = (Arc::clone(forwarder), Arc::clone(control));
        let carrier = CircuitCarrier::new(way, asked, ends, dialed, threads);
        Arc::new(Self { access, hosting, carrier })
    }

    /// Hosts and accepts clients for the router's identity until the router drains; then nothing new is
    /// accepted. When it stops, it removes its rules from the machine.
    pub(crate) async fn run(
        self: Arc<Self>,
        options: TunnelOptions,
        interception: Option<Arc<Interception>>,
        draining: CancellationToken,
        stop: CancellationToken,
    ) {
        SourceAddresses::clean_up().await;
        let times = UdpTimes::of(options.udp_idle_timeout, options.udp_check_interval);
        let carrier: Arc<dyn Carrier> = self.carrier.clone();
        let party = interception.as_ref().map(|one| one.join(Arc::clone(&carrier)));
        let ports = Ports::new(carrier, times);
        let mut services = self.access.tunnel_services();
        let mut retry = tokio::time::interval(RETRY);
        // Ticks that pass while services are applied are not made up for.
        retry.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let known = tokio::select! {
                biased;
                () = draining.cancelled() => break,
                next = services.next() => match next {
                    Some(next) => next,
                    None => break,
                },
                _ = retry.tick() => {
                    ports.catch_up().await;
                    continue;
                }
            };
            self.hosting.host(&known);
            ports.set(takes::ports(&options, &known)).await;
            if let Some(party) = &party {
                party.set(&takes::interceptable(&known)).await;
            }
        }
        // Terminators may have begun while the others were removed.
        self.host_nothing();
        ports.set(Vec::new()).await;
        if let (Some(party), Some(interception)) = (party, interception) {
            party.set(&[]).await;
            // The rules stay until then, because packets of existing clients need them.
            stop.cancelled().await;
            interception.stop().await;
        }
        SourceAddresses::released(GIVING_BACK).await;
    }

    /// Removes all terminators of the tunneler.
    pub(crate) fn host_nothing(self: &Arc<Self>) {
        self.hosting.host(&[]);
    }

    /// True if a terminator is hosted here.
    pub(crate) fn hosts(&self, terminator: &str) -> bool {
        self.hosting.hosts(terminator)
    }

    /// Dials the application of a terminator and registers the end of the circuit.
    pub(crate) async fn dial(
        &self,
        circuit: &Arc<Circuit>,
        egress: &Egress,
        timeout: Duration,
    ) -> Result<PeerData, RouteError> {
        self.hosting.dial(circuit, egress, timeout).await
    }
}
