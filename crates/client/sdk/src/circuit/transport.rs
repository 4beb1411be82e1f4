//! The flow control of a circuit, in this program or at the router.

use std::time::Instant;

use bytes::Bytes;
use weft_xgress::{CircuitCloseReason, Delivery, End, WriteError};

use crate::routed::Routed;

/// The place of the flow control.
#[derive(Debug)]
pub(crate) enum Transport {
    /// In this program.
    Own(Box<End>),
    /// At the router.
    Routed(Routed),
}

impl Transport {
    pub(super) fn can_write(&self) -> bool {
        match self {
            Self::Own(end) => end.can_write(),
            Self::Routed(routed) => routed.can_write(),
        }
    }

    pub(super) fn is_sending_over(&self) -> bool {
        match self {
            Self::Own(end) => end.is_sending_over(),
            Self::Routed(routed) => routed.is_sending_over(),
        }
    }

    /// Takes one payload, with or without room for it: its data has left the application already.
    pub(super) fn write(&mut self, data: Bytes) -> Result<(), WriteError> {
        match self {
            Self::Own(end) => end.write(data),
            Self::Routed(routed) => routed.write(data),
        }
    }

    /// True if a payload of the application was not sent yet.
    pub(super) fn has_waiting(&self) -> bool {
        match self {
            Self::Own(end) => end.has_waiting(),
            Self::Routed(routed) => routed.has_waiting(),
        }
    }

    pub(super) fn read(&mut self) -> Option<Delivery> {
        match self {
            Self::Own(end) => end.read(),
            Self::Routed(routed) => routed.read(),
        }
    }

    pub(super) fn wants_read(&self) -> bool {
        match self {
            Self::Own(end) => end.wants_read(),
            Self::Routed(routed) => routed.wants_read(),
        }
    }

    pub(super) fn wants_transmit(&self) -> bool {
        match self {
            Self::Own(end) => end.wants_transmit(),
            Self::Routed(routed) => routed.wants_transmit(),
        }
    }

    pub(super) fn wants_ack(&self) -> bool {
        match self {
            Self::Own(end) => end.wants_ack(),
            Self::Routed(_) => false,
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Own(end) => end.deadline(),
            Self::Routed(_) => None,
        }
    }

    pub(super) fn closed(&self) -> bool {
        self.reason().is_some()
    }

    /// Why the circuit is over.
    pub(super) fn reason(&self) -> Option<CircuitCloseReason> {
        match self {
            Self::Own(end) => end.closed(),
            Self::Routed(routed) => routed.closed(),
        }
    }

    /// True if the other end has all data that was written, or the router if the flow control is there, or the other
    /// application has closed the circuit.
    pub(super) fn is_delivered(&self) -> bool {
        match self {
            Self::Own(end) => end.is_delivered(),
            Self::Routed(routed) => routed.is_delivered(),
        }
    }
}
