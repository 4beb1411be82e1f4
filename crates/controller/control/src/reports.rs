//! Reports of routers: interfaces, alerts, connected identities, health of hosts
//! (docs/protocol/control-plane.md 22, docs/protocol/edge-control-plane.md 16).

use std::sync::Arc;
use std::time::Instant;

use weft_channel::Lane;
use weft_contract::resource::identity::Interface;
use weft_kernel::events::{AlertEvent, ConnectEvent, Event};
use weft_model::entity::Identity;
use weft_model::{Id, Timestamp};
use weft_wire::ctrl::{self, Alerts, RouterInterfacesUpdate};
use weft_wire::edge_ctrl::{self, ConnectEvents, HealthEventRequest, TunnelHealthEvent};
use weft_wire::{Message, Outcome, ProtoBody, WireError};

use super::session::RouterSession;

/// Most interfaces, alerts and identities that are read from one message.
const MAX_INTERFACES: usize = 1_000;
/// Most bytes of the texts of all interfaces, with [`TEXT_COST`] of each.
const MAX_INTERFACE_BYTES: usize = 128 << 10;
/// Bytes that a text takes beside its own.
const TEXT_COST: usize = 24;
const MAX_ALERTS: usize = 1_000;
const MAX_IDENTITIES: usize = 200_000;
/// Most characters of an alert in the log.
const SHOWN: usize = 200;
/// Most connections of one identity that become events.
const MAX_CONNECTS: usize = 100;

/// Bits of the flags of an interface.
const UP: u64 = 1;
const BROADCAST: u64 = 2;
const LOOPBACK: u64 = 4;
const MULTICAST: u64 = 16;
const RUNNING: u64 = 32;

/// Handles a report of network interfaces.
pub(crate) fn on_interfaces(session: &RouterSession, message: &Message) -> Result<(), WireError> {
    let interfaces = kept(RouterInterfacesUpdate::from_message(message)?.interfaces);
    session.change_facts(|facts| facts.interfaces = interfaces);
    session.answer(Lane::Default, message, Outcome::success("success").to_message());
    Ok(())
}

/// The first interfaces of a report, as far as their number and the bytes of their texts go.
fn kept(reported: Vec<ctrl::Interface>) -> Arc<[Interface]> {
    let mut room = MAX_INTERFACE_BYTES;
    let has_room = |it: &ctrl::Interface| {
        let texts = it.addresses.iter().chain([&it.hardware_address, &it.name]);
        let bytes = texts.map(|text| text.len() + TEXT_COST).sum();
        room.checked_sub(bytes).inspect(|left| room = *left).is_some()
    };
    let reported = reported.into_iter().take(MAX_INTERFACES).take_while(has_room);
    let interfaces = reported.map(|it| Interface {
        addresses: it.addresses,
        hardware_address: it.hardware_address,
        index: it.index,
        is_broadcast: it.flags & BROADCAST != 0,
        is_loopback: it.flags & LOOPBACK != 0,
        is_multicast: it.flags & MULTICAST != 0,
        is_running: it.flags & RUNNING != 0,
        is_up: it.flags & UP != 0,
        mtu: it.mtu,
        name: it.name,
    });
    interfaces.collect()
}

/// Handles alerts for operators.
pub(crate) fn on_alerts(session: &RouterSession, message: &Message) -> Result<(), WireError> {
    for alert in Alerts::from_message(message)?.alerts.into_iter().take(MAX_ALERTS) {
        if let Some(left_out) = session.alerts.lock().due(Instant::now()) {
            let message: String = alert.message.chars().take(SHOWN).collect();
            tracing::warn!(
                router = %session.router.id,
                severity = alert.severity,
                message,
                left_out,
                "alert of a router"
            );
        }
        session.plane.network.events().tell(Event::Alert(AlertEvent {
            at: Timestamp(alert.timestamp),
            router: session.router.id.clone(),
            severity: alert.severity,
            message: alert.message,
            details: alert.details,
        }));
    }
    Ok(())
}

/// Handles a report of connected identities. After a full report, identities that are not in it
/// count as disconnected.
pub(crate) fn on_connects(session: &RouterSession, message: &Message) -> Result<(), WireError> {
    let report = ConnectEvents::from_message(message)?;
    let (snapshot, router) = (session.plane.auth.kernel().snapshot(), &session.router.id);
    let mut connected = session.connected.lock();
    let mut named = hashbrown::HashSet::new();
    for event in report.events.into_iter().take(MAX_IDENTITIES) {
        let identity = Id::new(&event.identity_id);
        // The router's own identity is connected as long as the control channel.
        if identity == *router || snapshot.get::<Identity>(&identity).is_none() {
            continue;
        }
        session.put_identity(&identity, event.is_connected);
        if event.is_connected {
            connected.insert(identity.clone());
            named.insert(identity.clone());
        } else {
            connected.remove(&identity);
        }
        tell_connects(session, &identity, event.connect_times);
    }
    if report.full_state {
        for gone in connected.extract_if(|identity| !named.contains(identity)) {
            session.put_identity(&gone, false);
        }
    }
    Ok(())
}

fn tell_connects(session: &RouterSession, identity: &Id, times: Vec<edge_ctrl::ConnectDetails>) {
    for connect in times.into_iter().take(MAX_CONNECTS) {
        session.plane.network.events().tell(Event::Connect(ConnectEvent {
            at: Timestamp(connect.connect_time),
            identity: identity.clone(),
            router: session.router.id.clone(),
            source: connect.src_addr,
            destination: connect.dst_addr,
        }));
    }
}

/// Handles the health that a host reports of itself. It only becomes an event: hosts change their
/// cost and precedence themselves.
pub(crate) fn on_health(session: &RouterSession, message: &Message) -> Result<(), WireError> {
    let (terminator, passed) = match message.content_type {
        edge_ctrl::content_type::TUNNEL_HEALTH_EVENT => {
            let event = TunnelHealthEvent::from_message(message)?;
            (event.terminator_id, event.check_passed)
        }
        _ => {
            let event = HealthEventRequest::from_message(message)?;
            (event.terminator_id, event.check_passed)
        }
    };
    tracing::debug!(router = %session.router.id, terminator, passed, "health check of a host");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(addresses: usize) -> ctrl::Interface {
        ctrl::Interface { addresses: vec![String::new(); addresses], ..Default::default() }
    }

    #[test]
    fn what_a_router_reports_of_its_interfaces_has_a_bound_in_bytes() {
        assert_eq!(kept(vec![interface(40); 30]).len(), 30);
        assert_eq!(kept(vec![interface(500_000)]).len(), 0, "empty texts take memory, too");
        assert_eq!(kept(vec![interface(1); 2_000]).len(), MAX_INTERFACES);
        let long = ctrl::Interface { name: "n".repeat(MAX_INTERFACE_BYTES), ..interface(0) };
        assert_eq!(kept(vec![interface(1), long, interface(1)]).len(), 1);
    }
}
