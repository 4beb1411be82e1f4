//! Connections in memory, for tests (feature `inbox`): each byte arrives after a delay that the test chooses, on the
//! clock of tokio, and the test cuts the wire or stops it when it likes.

pub(crate) mod pump;

use std::net::SocketAddr;
use std::time::Duration;

use weft_wire::Headers;

use self::pump::MemoryPump;
pub use self::pump::Wire;
use crate::connection::Connection;
use crate::established::Established;
use crate::options::ChannelOptions;
use crate::peer::PeerInfo;
use crate::shared::Shared;
use crate::transport::Transport;

/// Two channels that are connected in memory: the side that dialed, the side that listened, and the wire between them,
/// on which bytes take `delay`. Nobody shows a certificate, and the hellos are empty.
pub fn pair(
    dialer: ChannelOptions,
    listener: ChannelOptions,
    delay: Duration,
) -> (Established, Established, Wire) {
    let wire = Wire::new(delay);
    let addresses: [SocketAddr; 2] = [1, 2].map(|port| ([127, 0, 0, 1], port).into());
    let side = |writes: usize, options: ChannelOptions| {
        let peer = PeerInfo {
            certificates: Vec::new(),
            remote: addresses[1 - writes],
            local: addresses[writes],
            id: None,
            headers: Headers::new(),
            dialed: writes == 0,
        };
        let pump = MemoryPump::new(&wire, writes, addresses);
        let connection =
            Connection { pump: Transport::Memory(Box::new(pump)), kind: String::new(), slot: None };
        Established::new(Shared::new(options, peer, None), connection, None)
    };
    (side(0, dialer), side(1, listener), wire)
}
