//! Passes each message of a controller to the module that handles it.
//!
//! This runs on the task that reads the connection, so that nothing here waits. Messages about the data
//! model and about sessions are queued in order, and the connection is not read while that queue is full.
//! Lists of controllers have a queue of their own; a list that finds this queue full is dropped with a
//! warning. Work that takes time gets a task of its own, in limited number.

use std::sync::Arc;

use weft_channel::{
    Behaviour, ChannelHandle, ConnectionParts, Handler, Lane, Reading, UnderlayInfo, UnderlayWaker,
};
use weft_wire::edge_ctrl::{
    self, ClientHello, CreateTerminatorV2Response, CreateTunnelTerminatorResponseV2, EdgeAddress,
    EdgeListener,
};
use weft_wire::{Message, Outcome, ProtoBody, ctrl};

use super::options::EdgeAddresses;
use super::shared::Core;
use super::{circuits, inspect, links, routes, terminators, validation};
use crate::controllers::Controller;

/// Takes the messages of one controller.
#[derive(Clone)]
pub(crate) struct FromController {
    pub(crate) core: Arc<Core>,
    pub(crate) controller: Arc<Controller>,
}

impl Behaviour for FromController {
    fn attach(
        &self,
        _: &UnderlayInfo,
        waker: &UnderlayWaker,
        _: &ChannelHandle,
    ) -> ConnectionParts {
        let handler = Connection { from: self.clone(), waker: waker.clone(), held: None };
        ConnectionParts { handler: Box::new(handler), outbox: None }
    }
}

/// One connection to a controller. It is not read while one of its messages finds no room.
struct Connection {
    from: FromController,
    waker: UnderlayWaker,
    /// The message that found no room.
    held: Option<Message>,
}

impl Handler for Connection {
    fn on_message(&mut self, message: Message, _: &ChannelHandle) -> Reading {
        self.held = self.from.dispatch(message, &self.waker).err();
        if self.held.is_some() { Reading::Pause } else { Reading::Continue }
    }

    fn on_resume(&mut self, channel: &ChannelHandle) -> Reading {
        match self.held.take() {
            Some(message) => self.on_message(message, channel),
            None => Reading::Continue,
        }
    }
}

impl FromController {
    /// Passes a message to its module; returns it if there is no room for it.
    fn dispatch(&self, message: Message, connection: &UnderlayWaker) -> Result<(), Message> {
        let (core, from) = (&self.core, &self.controller);
        match message.content_type {
            ctrl::content_type::ROUTE => routes::on_route(core, from, message),
            ctrl::content_type::UNROUTE => routes::on_unroute(core, from, &message),
            ctrl::content_type::CLAIM_CIRCUITS => routes::on_claim(core, from, &message),
            ctrl::content_type::VALIDATE_TERMINATORS
            | ctrl::content_type::VALIDATE_TERMINATORS_V2 => {
                validation::on_request(core, from, message);
            }
            ctrl::content_type::INSPECT_REQUEST => inspect::on_request(core, from, message),
            ctrl::content_type::UPDATE_CTRL_ADDRESSES
            | ctrl::content_type::UPDATE_CLUSTER_LEADER
            | ctrl::content_type::SETTINGS => core.queue_cluster(from, message),
            ctrl::content_type::TOGGLE_PIPE_TRACES => {
                self.answer(Lane::Low, Outcome::success("").to_message().in_reply_to(&message));
            }
            edge_ctrl::content_type::SERVER_HELLO => self.on_server_hello(&message),
            edge_ctrl::content_type::SESSION_REMOVED
            | edge_ctrl::content_type::API_SESSION_ADDED
            | edge_ctrl::content_type::API_SESSION_UPDATED
            | edge_ctrl::content_type::API_SESSION_REMOVED
            | edge_ctrl::content_type::DATA_STATE
            | edge_ctrl::content_type::DATA_STATE_CHANGE_SET
            | edge_ctrl::content_type::VALIDATE_DATA_STATE_REQUEST
            | edge_ctrl::content_type::CURRENT_INDEX => {
                return core.access.deliver(from, message, connection);
            }
            ctrl::content_type::CIRCUIT_SUCCESS
            | edge_ctrl::content_type::CREATE_CIRCUIT_V2_RESPONSE
            | edge_ctrl::content_type::CREATE_TUNNEL_CIRCUIT_V2_RESPONSE => {
                circuits::on_late(core, from, &message);
            }
            edge_ctrl::content_type::CREATE_TERMINATOR_V2_RESPONSE => {
                let decoded = CreateTerminatorV2Response::from_message(&message);
                self.on_answer(decoded.map(terminators::CreateReply::from), &message);
            }
            edge_ctrl::content_type::CREATE_TUNNEL_TERMINATOR_RESPONSE_V2 => {
                let decoded = CreateTunnelTerminatorResponseV2::from_message(&message);
                self.on_answer(decoded.map(terminators::CreateReply::from), &message);
            }
            edge_ctrl::content_type::ENROLLMENT_CERTS_RESPONSE => {
                core.renewal.deliver(from, message)
            }
            ctrl::content_type::PEER_STATE_CHANGE => links::on_peers(core, from, &message),
            ctrl::content_type::FAULT => links::on_fault(core, from, &message),
            other => {
                tracing::debug!(controller = %from.id, content_type = other, "message ignored")
            }
        }
        Ok(())
    }

    fn on_answer(
        &self,
        answer: Result<terminators::CreateReply, weft_wire::WireError>,
        message: &Message,
    ) {
        match answer {
            Ok(answer) => {
                self.core.terminators.on_answer(answer, message.reply_for().is_some());
            }
            Err(problem) => self.controller.not_understood(message, &problem),
        }
    }

    /// Answers the greeting of a controller to an edge router
    /// (docs/protocol/edge-control-plane.md 3).
    fn on_server_hello(&self, message: &Message) {
        let listens = self.core.listens.get();
        let listeners = listens.map(|listens| listens.edge.as_slice()).unwrap_or_default();
        let hello = client_hello(&self.core.options.version.version, listeners);
        self.answer(Lane::Default, hello.answer(message, self.core.access.index()));
    }

    fn answer(&self, lane: Lane, message: Message) {
        if let Err(problem) = self.controller.channel.try_send_on(lane, message) {
            tracing::warn!(controller = %self.controller.id, %problem, "answer not sent");
        }
    }
}

/// The edge listeners of this router, in the new form and in the old one.
fn client_hello(version: &str, listeners: &[EdgeAddresses]) -> ClientHello {
    let address = |one: &weft_wire::Address| {
        Some(EdgeAddress {
            value: one.to_string(),
            protocol: one.scheme.name().to_owned(),
            hostname: one.host.clone(),
            port: i32::from(one.port),
        })
    };
    ClientHello {
        version: version.to_owned(),
        hostname: listeners.last().map(|one| one.advertise.host.clone()).unwrap_or_default(),
        protocols: listeners.iter().map(|one| one.address.scheme.name().to_owned()).collect(),
        protocol_ports: listeners.iter().map(|one| one.advertise.port.to_string()).collect(),
        listeners: listeners
            .iter()
            .map(|one| EdgeListener {
                address: address(&one.address),
                advertise: address(&one.advertise),
            })
            .collect(),
        ..ClientHello::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_said_in_both_forms() {
        let listener = EdgeAddresses {
            address: "tls:0.0.0.0:3022".parse().unwrap(),
            advertise: "tls:er1.example:443".parse().unwrap(),
        };
        let hello = client_hello("v2.1.0", &[listener]);
        assert_eq!(hello.hostname, "er1.example");
        assert_eq!(
            (hello.protocols, hello.protocol_ports),
            (vec!["tls".into()], vec!["443".into()])
        );
        let advertise = hello.listeners[0].advertise.as_ref().unwrap();
        assert_eq!((advertise.value.as_str(), advertise.port), ("tls:er1.example:443", 443));
    }
}
