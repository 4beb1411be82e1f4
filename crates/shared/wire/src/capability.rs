//! Capability masks of controllers and routers
//! (docs/protocol/channel.md 9.4, docs/protocol/control-plane.md 3).

/// Positions in the mask a controller sends.
pub mod controller_capability {
    /// Understands the second form of edge terminator creation.
    pub const CREATE_TERMINATOR_V2: u8 = 1;
    /// Wants each link reported by its dialer alone.
    pub const SINGLE_ROUTER_LINK_SOURCE: u8 = 2;
    /// Understands the second form of circuit creation.
    pub const CREATE_CIRCUIT_V2: u8 = 3;
    /// Sends the router data model.
    pub const ROUTER_DATA_MODEL: u8 = 4;
    /// Accepts several connections as one control channel.
    pub const GROUPED_CTRL_CHAN: u8 = 5;
    /// Issues signed service sessions for legacy API sessions too; 2.x routers insist on it.
    pub const JWT_LEGACY_SESSIONS: u8 = 6;
    /// Adopts circuits that routers report after the controller has restarted, see
    /// [`CarriedCircuits`](crate::ctrl::CarriedCircuits). A capability of weft only.
    pub const ADOPTS_CIRCUITS: u8 = 40;
    /// States who the router's own tunneler is as an end of connections, see
    /// [`EndStatementRequest`](crate::edge_ctrl::EndStatementRequest). A capability of weft only.
    pub const STATES_ENDS: u8 = 41;
    /// Takes the highest revision that a router has heard from other controllers, see
    /// [`CurrentIndex`](crate::edge_ctrl::data_model::CurrentIndex). A capability of weft only.
    pub const TAKES_INDEXES: u8 = 42;
}

/// Positions in the mask a router sends to controllers and SDKs.
pub mod router_capability {
    /// Uses header ids from 1000 and grouped control connections.
    pub const MULTI_CHANNEL: u8 = 1;
    /// Takes posture data from SDKs.
    pub const POSTURE_CHECKS: u8 = 5;
    /// Confirms binds.
    pub const BIND_SUCCESS: u8 = 6;
    /// Follows revocations that name many sessions in a list, see
    /// [`Revocation::sessions`](crate::edge_ctrl::data_model::Revocation::sessions). A capability of weft only.
    pub const SESSION_LISTS: u8 = 40;
    /// Lets a controller claim the circuits of another one, see
    /// [`ClaimCircuits`](crate::ctrl::ClaimCircuits). A capability of weft only.
    pub const TAKES_CLAIMS: u8 = 41;
    /// Keeps the router data model.
    pub const ROUTER_DATA_MODEL: u8 = 62;
}

/// A set of capabilities. Positions above 63 have no known meaning and are dropped on reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Capabilities(u64);

impl Capabilities {
    /// No capabilities.
    pub const NONE: Self = Self(0);

    /// The mask whose bit n is capability n.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// True if the capability is in the set.
    pub const fn has(self, position: u8) -> bool {
        position < 64 && self.0 & (1 << position) != 0
    }

    /// The set with this capability added.
    pub const fn with(self, position: u8) -> Self {
        if position < 64 { Self(self.0 | (1 << position)) } else { self }
    }

    /// Big-endian bytes without leading zeros; the empty set is no bytes.
    pub fn to_wire(self) -> Vec<u8> {
        let bytes = self.0.to_be_bytes();
        bytes.into_iter().skip_while(|byte| *byte == 0).collect()
    }

    /// Reads a mask of any length.
    pub fn from_wire(bytes: &[u8]) -> Self {
        let known = bytes.len().saturating_sub(8);
        Self(bytes[known..].iter().fold(0, |mask, byte| (mask << 8) | u64::from(*byte)))
    }
}

impl FromIterator<u8> for Capabilities {
    fn from_iter<I: IntoIterator<Item = u8>>(positions: I) -> Self {
        positions.into_iter().fold(Self::NONE, Self::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_of_known_releases() {
        // docs/protocol/control-plane.md 26.8
        let controller: Capabilities = (1..=6).collect();
        assert_eq!(controller.to_wire(), [0x7e]);
        assert_eq!((1..=4).collect::<Capabilities>().to_wire(), [0x1e]);
        assert_eq!(Capabilities::NONE.with(1).to_wire(), [0x02]);
        let router: Capabilities = [1, 2, 4, 5, 6, 62].into_iter().collect();
        assert_eq!(router.to_wire(), [0x40, 0, 0, 0, 0, 0, 0, 0x76]);
        assert_eq!(Capabilities::from_wire(&router.to_wire()), router);
        assert!(Capabilities::NONE.to_wire().is_empty());
    }

    #[test]
    fn any_length_is_read() {
        assert_eq!(Capabilities::from_wire(&[]), Capabilities::NONE);
        assert!(Capabilities::from_wire(&[0, 2]).has(1));
        let long = Capabilities::from_wire(&[0xff; 40]);
        assert!(long.has(63) && !long.has(64));
    }
}
