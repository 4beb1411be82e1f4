//! The end of a direction as an SDK says it, in the headers of a payload
//! (docs/protocol/data-plane.md 1).

use bytes::Bytes;
use weft_wire::edge::data_flags::FIN;
use weft_wire::payload::{Payload, PayloadHeaders, edge_flags, payload_header};

/// True if the headers carry an SDK's end of direction.
pub(crate) fn has_fin(headers: &[(u8, Bytes)]) -> bool {
    edge_flags(headers) & FIN != 0
}

/// The header that ends a direction in an SDK's way.
pub(crate) fn fin_header() -> (u8, Bytes) {
    Payload::edge_flags_header(FIN)
}

/// Takes the end of direction out of the headers; other flags stay.
pub(crate) fn without_fin(headers: PayloadHeaders) -> PayloadHeaders {
    let rest = edge_flags(&headers) & !FIN;
    let mut kept: Vec<_> =
        headers.into_iter().filter(|(key, _)| *key != payload_header::EDGE_FLAGS).collect();
    if rest != 0 {
        kept.push(Payload::edge_flags_header(rest));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_edge_flags_outlive_the_fin() {
        let headers = vec![Payload::edge_flags_header(5), (0, Bytes::from_static(b"uuid"))];
        let kept = without_fin(headers);
        assert_eq!(edge_flags(&kept), 4);
        assert_eq!(kept.len(), 2);
        assert!(without_fin(vec![fin_header()]).is_empty());
    }
}
