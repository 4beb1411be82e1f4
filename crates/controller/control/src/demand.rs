//! Services that demand that both ends of a connection prove who they are (docs/protocol/sdk.md 14.6).
//!
//! The ends themselves refuse whoever gives no proof. The controller makes no circuit and no terminator for an end that
//! cannot give one, so that it is said early and by name what is missing.

use weft_auth::end_statement::is_key;
use weft_e2e::ending::{HostKey, dialer_proves};
use weft_model::entity::Service;
use weft_wire::PeerData;
use weft_wire::edge::header;
use weft_wire::edge_ctrl::{EdgeError, ErrorCode};

use super::edge_errors::error;

const PUBLIC_KEY: u32 = header::PUBLIC_KEY.cast_unsigned();
const MARKER: u32 = header::CONNECTION_MARKER.cast_unsigned();

fn refused(service: &Service, what: &str) -> EdgeError {
    let name = &service.name;
    let text = format!(
        "service {name} demands that both ends prove who they are (authenticatedEnds), and {what}"
    );
    error(ErrorCode::ACCESS_DENIED, text)
}

/// Whether the dialer with this data for the host announces a proof.
pub(crate) fn is_proving(peer_data: &PeerData) -> bool {
    peer_data.get(&MARKER).is_some_and(|marker| dialer_proves(marker).is_some())
}

/// Refuses a dial that announces no proof.
pub(crate) fn of_dialer(service: &Service, peer_data: &PeerData) -> Result<(), EdgeError> {
    match service.authenticated_ends && !is_proving(peer_data) {
        true => Err(refused(
            service,
            "the dial announces no proof: its program has none, or a router on the way has removed it",
        )),
        false => Ok(()),
    }
}

/// Refuses the answer of a host that announces no proof.
pub(crate) fn of_host(service: &Service, peer_data: &PeerData) -> Result<(), EdgeError> {
    let key = peer_data.get(&PUBLIC_KEY).and_then(|key| HostKey::read(key).ok());
    match service.authenticated_ends && key.is_none_or(|key| key.proves.is_none()) {
        true => Err(refused(
            service,
            "the host announces no proof: its program has none, or a router on the way has removed it, as one of OpenZiti \
             before 2.1 at the host does",
        )),
        false => Ok(()),
    }
}

/// Refuses a binding of a router that has no key of an end: all but `edge` and `tunnel`.
pub(crate) fn of_binding(service: &Service) -> Result<(), EdgeError> {
    match service.authenticated_ends {
        true => Err(refused(service, "this binding of a router proves nothing")),
        false => Ok(()),
    }
}

/// Refuses a router's own tunneler that names no key of an end.
pub(crate) fn of_tunneler(service: &Service, end_key: &[u8]) -> Result<(), EdgeError> {
    match service.authenticated_ends && !is_key(end_key) {
        true => Err(refused(
            service,
            "the router's own tunneler names no key of an end: use a router of weft that does",
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use weft_e2e::KeyPair;
    use weft_e2e::ending::marker;
    use weft_e2e::proof::{Greeting, Opening};

    use super::*;

    #[test]
    fn ends_that_announce_no_proof_are_refused_where_it_is_demanded() {
        let key = KeyPair::generate(&mut rand::rng()).unwrap().public_key();
        let dialer = |proves: bool| {
            let marker = marker("abc", proves.then_some(&[6; 16]));
            PeerData::from([(MARKER, Bytes::from(marker))])
        };
        let host = |proves: bool| {
            let greeting = Greeting { hint: [7; 16], fresh: [8; 16], proof: Opening::None };
            let proves = proves.then_some(greeting);
            let key = HostKey { key, seals_end: true, proves };
            PeerData::from([(PUBLIC_KEY, key.to_bytes())])
        };
        let service = |authenticated_ends| Service {
            name: "web".into(),
            authenticated_ends,
            ..Service::default()
        };
        let (open, demanding) = (service(false), service(true));
        for proves in [false, true] {
            assert!(
                of_dialer(&open, &dialer(proves)).is_ok() && of_host(&open, &host(proves)).is_ok()
            );
            assert_eq!(of_dialer(&demanding, &dialer(proves)).is_ok(), proves);
            assert_eq!(of_host(&demanding, &host(proves)).is_ok(), proves);
        }
        let refused = of_host(&demanding, &PeerData::new()).unwrap_err();
        assert_eq!(refused.code, ErrorCode::ACCESS_DENIED);
        assert!(refused.text.contains("service web demands"), "{}", refused.text);
        assert!(of_dialer(&demanding, &PeerData::new()).is_err());
        assert!(of_binding(&open).is_ok() && of_binding(&demanding).is_err());
    }
}
