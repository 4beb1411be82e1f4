//! The limits of frames for each kind of peer.

use super::FrameLimits;
use crate::edge_ctrl::content_type;
use crate::{ctrl, edge, payload};

impl FrameLimits {
    /// Largest body with the whole data model, in bytes: that of a network with a million
    /// identities takes some 100 MiB.
    pub const MODEL_BODY: u32 = 512 * 1024 * 1024;
    /// Limits of messages from a controller to its routers. Only messages with the whole data model
    /// may be long.
    pub const MODEL: Self = Self {
        longer: &[
            (content_type::DATA_STATE, Self::MODEL_BODY),
            (content_type::VALIDATE_DATA_STATE_REQUEST, Self::MODEL_BODY),
        ],
        ..Self::MESSAGES
    };

    /// Limits of messages from SDKs to their routers. Data of applications may be long, because
    /// SDKs send each write as one message.
    pub const FROM_SDK: Self = Self {
        longer: &[
            (edge::content_type::DATA, Self::MESSAGES.body),
            (payload::content_type::PAYLOAD, Self::MESSAGES.body),
            (edge::content_type::INSPECT_RESPONSE, Self::REPORT_BODY),
            (edge::content_type::CONN_INSPECT_RESPONSE, Self::REPORT_BODY),
        ],
        ..Self::new(256 * 1024, 256 * 1024)
    };
    /// Limits of messages from routers to their controllers. Reports on everything that a router
    /// has may be long.
    pub const FROM_ROUTER: Self = Self {
        longer: &[
            (ctrl::content_type::METRICS, Self::REPORT_BODY),
            (ctrl::content_type::ROUTER_LINKS, Self::REPORT_BODY),
            (ctrl::content_type::CIRCUIT_CONFIRMATION, Self::REPORT_BODY),
            (ctrl::content_type::CARRIED_CIRCUITS, Self::REPORT_BODY),
            (ctrl::content_type::REMOVE_TERMINATORS, Self::REPORT_BODY),
            (content_type::CONNECT_EVENTS, Self::REPORT_BODY),
            (ctrl::content_type::VALIDATE_TERMINATORS_V2_RESPONSE, Self::MESSAGES.body),
            (ctrl::content_type::INSPECT_RESPONSE, Self::MESSAGES.body),
            (content_type::VALIDATE_DATA_STATE_RESPONSE, Self::MESSAGES.body),
        ],
        ..Self::new(256 * 1024, 1024 * 1024)
    };
    /// Largest body of a report on everything that a peer has, in bytes.
    const REPORT_BODY: u32 = 16 * 1024 * 1024;
}
