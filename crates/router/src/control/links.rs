//! Messages about links between controllers and this router (docs/protocol/control-plane.md 8, 9).
//!
//! Reports go through the queues of [`Faults`](super::faults::Faults): in order, and also to a
//! controller that is away for a while. A controller that connects is sent all links at once. Of older
//! reports only those follow that name the dial of the link that broke or changed: they change nothing in a
//! later dial.

use std::sync::Arc;
use std::time::Duration;

use weft_wire::ctrl::{
    Fault, LinkConn, LinkConnState, LinkStateUpdate, Listener, PeerState, PeerStateChange,
    PeerStateChanges, RouterLink, RouterLinks, VerifyRouter,
};
use weft_wire::{Message, Outcome, ProtoBody, WireError};

use super::faults::Holds;
use super::metrics;
use super::shared::Core;
use crate::controllers::Controller;
use crate::seam::{self, LinkLatency, LinkListener, LinkReport, PeerReport, Unverified};

/// Longest wait for a controller's confirmation of a router.
const VERIFY_TIMEOUT: Duration = Duration::from_secs(10);

/// Takes a controller's reports about other routers.
pub(super) fn on_peers(core: &Core, from: &Controller, message: &Message) {
    match PeerStateChanges::from_message(message) {
        Ok(news) => {
            if let Some(data) = core.data.get() {
                data.peers(&from.id, news.changes.into_iter().filter_map(peer).collect());
            }
        }
        Err(problem) => from.not_understood(message, &problem),
    }
}

fn peer(change: PeerStateChange) -> Option<PeerReport> {
    let state = match change.state() {
        PeerState::Healthy => seam::PeerState::Healthy,
        PeerState::Unhealthy => seam::PeerState::Unhealthy,
        PeerState::Removed => seam::PeerState::Removed,
    };
    let listener = |one: Listener| LinkListener {
        address: one.address,
        protocol: one.protocol,
        groups: if one.groups.is_empty() { vec!["default".to_owned()] } else { one.groups },
        local_binding: one.local_binding,
    };
    (!change.id.is_empty()).then(|| PeerReport {
        id: change.id,
        version: change.version,
        state,
        listeners: change.listeners.into_iter().map(listener).collect(),
        keys: change.server_keys,
    })
}

/// Takes a controller's report that a link broke.
pub(super) fn on_fault(core: &Core, from: &Controller, message: &Message) {
    use weft_wire::ctrl::FaultSubject;
    match Fault::from_message(message) {
        Ok(fault) if fault.subject() == FaultSubject::Link => {
            if let Some(data) = core.data.get() {
                data.link_faulted(&fault.id, fault.iteration);
            }
        }
        Ok(fault) => {
            tracing::debug!(controller = %from.id, subject = ?fault.subject(), "fault ignored");
        }
        Err(problem) => from.not_understood(message, &problem),
    }
}

/// The report of all links, for a controller that connects.
pub(super) fn all(core: &Core) -> Message {
    let links = core.data.get().map(|data| data.links()).unwrap_or_default();
    RouterLinks { links: links.into_iter().map(link).collect(), full_refresh: true }.to_message()
}

fn state(report: &LinkReport) -> LinkConnState {
    let connection = |one: &seam::LinkConnection| LinkConn {
        r#type: one.kind.clone(),
        local_addr: one.local.clone(),
        remote_addr: one.remote.clone(),
    };
    LinkConnState {
        state_iteration: report.state,
        conns: report.connections.iter().map(connection).collect(),
    }
}

fn link(report: LinkReport) -> RouterLink {
    RouterLink {
        conn_state: Some(state(&report)),
        id: report.id,
        dest_router_id: report.peer,
        link_protocol: report.protocol,
        dial_address: report.address,
        iteration: report.iteration,
    }
}

/// Reports a link that this router dialed.
pub(super) fn up(core: &Core, report: LinkReport) {
    let message = RouterLinks { links: vec![link(report)], full_refresh: false }.to_message();
    tell(core, &message, Holds::UntilAllAreTold);
}

/// Reports the connections of a link.
pub(super) fn connections(core: &Core, report: &LinkReport) {
    let update = LinkStateUpdate {
        link_id: report.id.clone(),
        link_iteration: report.iteration,
        conn_state: Some(state(report)),
    };
    tell(core, &update.to_message(), Holds::Always);
}

/// Reports a link that broke or does not exist.
pub(super) fn fault(core: &Core, fault: &Fault) {
    let holds = if fault.iteration == 0 { Holds::UntilAllAreTold } else { Holds::Always };
    tell(core, &fault.to_message(), holds);
}

/// Sends a message to every connected controller. A controller that connects later is sent all
/// links.
fn tell(core: &Core, message: &Message, holds: Holds) {
    for controller in core.controllers.all() {
        core.routes.push_link(&controller.id, message.clone(), holds);
    }
}

/// Reports the latency of a new link.
pub(super) fn latencies(core: &Core, links: Vec<LinkLatency>) {
    if links.is_empty() {
        return;
    }
    let mut message = metrics::of_latencies(&core.options.router_id, links);
    for controller in core.controllers.all() {
        match controller.channel.try_send(message.to_message()) {
            // The first controller that is sent the report makes events of it; the others do not.
            Ok(()) => message.do_not_propagate = true,
            Err(problem) => {
                tracing::debug!(controller = %controller.id, %problem, "latencies not reported");
            }
        }
    }
}

/// Asks a controller to confirm a router that opens a link.
pub(super) async fn verify(core: Arc<Core>, id: String, leaf: String) -> Result<(), Unverified> {
    let Some(controller) = core.controllers.any() else {
        return Err(Unverified::NotAsked("none is connected".to_owned()));
    };
    let request = VerifyRouter { router_id: id, fingerprints: vec![leaf] }.to_message();
    let answer = controller.channel.request(request, VERIFY_TIMEOUT).await;
    let answer = answer.map_err(|problem| Unverified::NotAsked(problem.to_string()))?;
    let outcome = Outcome::from_message(&answer);
    let outcome = outcome.map_err(|problem: WireError| Unverified::Refused(problem.to_string()))?;
    if outcome.success { Ok(()) } else { Err(Unverified::Refused(outcome.text)) }
}
