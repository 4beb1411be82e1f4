//! Answers to inspections: the ends of circuits on this router (docs/protocol/control-plane.md 18).

use std::time::Duration;

use serde_json::{Map, Value, json};
use weft_xgress::{EndSnapshot, Role};

use super::Forwarder;
use super::destination::Destination;
use super::flow::{Circuit, LocalEnd, SdkQueue};

impl Forwarder {
    /// The ends of a circuit on this router, by address. An end with flow control is shown with its
    /// state; an SDK with flow control of its own is asked by the controller instead.
    pub(crate) fn inspect_ends(&self, circuit: &str) -> Map<String, Value> {
        let Some(circuit) = self.circuit(circuit) else { return Map::new() };
        let described = |address: &str| match self.destination(address)? {
            Destination::Local(end) => Some(local(&end)),
            Destination::Sdk(_) | Destination::Link(_) => None,
        };
        let addresses = circuit.addresses();
        let ends = addresses.iter().filter_map(|at| Some((at.to_string(), described(at)?)));
        ends.collect()
    }

    /// Circuits with an end at an SDK that is connected here, by circuit id.
    pub(crate) fn inspect_sdk_circuits(&self) -> Map<String, Value> {
        let described = |(address, there): (&std::sync::Arc<str>, &Destination)| {
            let (circuit, conn_id, role, is_xgress) = match there {
                Destination::Local(end) => (end.circuit(), end.conn_id()?, end.role(), false),
                Destination::Sdk(end) => of_sdk(end),
                Destination::Link(_) => return None,
            };
            let value = json!({
                "circuitId": &*circuit.id,
                "connId": conn_id,
                "address": &**address,
                "originator": originator(role),
                "isXgress": is_xgress,
                "ctrlId": &*circuit.made_by,
            });
            Some((circuit.id.to_string(), value))
        };
        let mut all = Map::new();
        for shard in &self.destinations {
            all.extend(shard.read().iter().filter_map(described));
        }
        all
    }
}

fn of_sdk(end: &SdkQueue) -> (&std::sync::Arc<Circuit>, u32, Role, bool) {
    (end.circuit(), end.conn_id(), end.role(), true)
}

fn originator(role: Role) -> &'static str {
    match role {
        Role::Initiator => "Initiator",
        Role::Terminator => "Terminator",
    }
}

fn local(end: &LocalEnd) -> Value {
    let standing = end.standing(weft_circuit::now());
    let sends_again = standing.since_copy.map(text).unwrap_or_default();
    json!({
        "address": end.address(),
        "originator": originator(end.role()),
        "timeSinceLastLinkRx": standing.since_heard.map(text).unwrap_or_default(),
        "sequence": standing.next_sent,
        "sendBufferDetail": {
            "windowSize": standing.window,
            "queuedPayloadCount": standing.waiting,
            "linkSendBufferSize": standing.unacknowledged,
            "linkRecvBufferSize": standing.peer_unread,
            "successfulAcks": standing.acknowledged,
            "duplicateAcks": standing.acknowledged_again,
            "retransmits": standing.copies,
            "closed": end.is_closed(),
            "blockedByLocalWindow": standing.blocked_by_window,
            "blockedByRemoteWindow": standing.blocked_by_peer,
            "retxThreshold": millis(standing.timeout),
            "timeSinceLastRetx": sends_again,
            "acquiredSafely": true,
        },
        "recvBufferDetail": {
            "size": standing.unread,
            "payloadCount": standing.unread_payloads,
            "sequence": standing.next_read,
            "maxSequence": standing.highest_read,
            "acquiredSafely": true,
        },
        "pathDetail": path(&standing),
    })
}

/// The sender's view of the path, in members that the original does not have.
fn path(standing: &EndSnapshot) -> Value {
    json!({
        "phase": standing.path.phase,
        "bytesPerSecond": standing.path.rate,
        "emptyRtt": standing.path.empty_rtt.map(text),
        "rtt": standing.rtt.map(text),
        "bytesOnTheWay": standing.on_the_way,
        "lostPayloads": standing.lost,
        "pacedFor": standing.paced_for.map(text),
        "timeSinceLastProgress": text(standing.since_progress),
    })
}

fn text(time: Duration) -> String {
    format!("{time:?}")
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
