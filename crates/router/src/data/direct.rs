//! Bindings whose terminators name addresses.

use weft_config::router::DialerBinding;

/// The dialer of a binding whose terminators name addresses.
pub(super) fn direct(binding: &str) -> Option<DialerBinding> {
    match binding {
        "transport" => Some(DialerBinding::Transport),
        "transport_udp" | "udp" => Some(DialerBinding::TransportUdp),
        "edge_transport" => Some(DialerBinding::EdgeTransport),
        _ => None,
    }
}
