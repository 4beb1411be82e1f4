//! Posture data of an SDK, and the services and posture state that routers send to it
//! (docs/protocol/sdk.md 12.1).

use super::content_type;
pub use crate::proto::edge_client::*;
use crate::proto::proto_bodies;

/// The index in a subscription or change set that means everything.
pub const FULL: i64 = -1;

/// Limit of the services of one identity, in bytes.
const LARGE: usize = 16 * 1024 * 1024;

proto_bodies! {
    PostureResponses => content_type::POSTURE_RESPONSE;
    SubscribeToServiceUpdates => content_type::SUBSCRIBE_TO_SERVICES;
    UnsubscribeFromServiceUpdates => content_type::UNSUBSCRIBE_FROM_SERVICES;
    ResyncPostureState => content_type::RESYNC_POSTURE_STATE;
    ServiceChangeSet => content_type::SERVICE_CHANGE_SET, LARGE;
    PostureStateChange => content_type::POSTURE_STATE_CHANGE;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Message, ProtoBody};

    #[test]
    fn a_wake_without_time_is_read() {
        let message = Message::new(content_type::POSTURE_RESPONSE, vec![0x0a, 0x02, 0x2a, 0x00]);
        let read = PostureResponses::from_message(&message).unwrap();
        let woken = posture_response::Data::Woken(Woken { time: None });
        assert_eq!(read.responses, [PostureResponse { data: Some(woken) }]);
        let unknown = Message::new(content_type::POSTURE_RESPONSE, vec![0x0a, 0x02, 0x7a, 0x00]);
        let read = PostureResponses::from_message(&unknown).unwrap();
        assert_eq!(read.responses, [PostureResponse { data: None }]);
    }

    #[test]
    fn a_full_change_set_has_no_predecessor() {
        let set = ServiceChangeSet { index: 7, previous_index: FULL, ..Default::default() };
        assert_eq!(hex::encode(set.to_body()), "080710ffffffffffffffffff01");
    }

    proptest! {
        #[test]
        fn any_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = PostureResponses::from_body(&body);
            let _ = SubscribeToServiceUpdates::from_body(&body);
            let _ = ServiceChangeSet::from_body(&body);
            let _ = PostureStateChange::from_body(&body);
        }
    }
}
