//! The hello of a link between two routers, and the key that identifies a link.
//!
//! The hello names the link, the dialer, the dialed router and the number of the dial. After the
//! answer, both sides send circuit data ([`payload`](crate::payload)). A link is a group of several
//! connections; with routers before 1.6.6 it is two connections, one for payloads and one for acks,
//! or a single one (docs/protocol/data-plane.md 3).

use crate::error::WireError;
use crate::hello::{self, Hello};
use crate::message::content_type;

/// Header keys of a link's hello (docs/protocol/data-plane.md 3.3). Some of the numbers are also header
/// keys of the channel.
pub mod header {
    /// The part of a split link that a connection carries, see [`SplitPart`](super::SplitPart); one
    /// byte.
    pub const SPLIT_PART: i32 = 1;
    /// The dialing router; string.
    pub const ROUTER_ID: i32 = 2;
    /// Version of the dialed router, as the dialer knows it; string.
    pub const DIALED_VERSION: i32 = 3;
    /// Binding of the dialer; string.
    pub const DIALER_BINDING: i32 = 4;
    /// Number of the dial attempt; u32.
    pub const ITERATION: i32 = 5;
    /// The dialed router; string.
    pub const DIALED_ROUTER_ID: i32 = 6;
    /// Id of the link; string.
    pub const LINK_ID: i32 = 100;
}

/// The part of a split link that a connection carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitPart {
    /// Payloads.
    Payload,
    /// Acks.
    Ack,
}

impl SplitPart {
    /// The number on the wire.
    pub fn number(self) -> u8 {
        match self {
            Self::Payload => 1,
            Self::Ack => 2,
        }
    }
}

/// The hello of a link's dialer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkHello {
    /// Id of the link; the same for all its connections and dial attempts.
    pub link_id: String,
    /// Id of this dial: the id of the group, or the id that the two connections of a split link
    /// share.
    pub connection_id: String,
    /// The part of a split link; `None` for grouped and single ones.
    pub part: Option<SplitPart>,
    /// The dialing router.
    pub router_id: String,
    /// Version of the dialed router, as the dialer knows it.
    pub dialed_version: String,
    /// Binding of the dialer; may be empty.
    pub dialer_binding: String,
    /// Number of the dial attempt, from 1.
    pub iteration: u32,
    /// The dialed router; routers before 1.7 leave it out.
    pub dialed_router_id: Option<String>,
}

impl LinkHello {
    /// The hello of a single or split link. For a grouped link, make it the first or a later
    /// connection of its group.
    pub fn to_hello(&self) -> Hello {
        let mut hello = Hello::new(self.link_id.clone());
        let headers = &mut hello.headers;
        headers.set_str(hello::header::CONNECTION_ID, &self.connection_id);
        if let Some(part) = self.part {
            headers.set_u8(header::SPLIT_PART, part.number());
        }
        headers.set_str(header::ROUTER_ID, &self.router_id);
        headers.set_str(header::DIALED_VERSION, &self.dialed_version);
        headers.set_str(header::DIALER_BINDING, &self.dialer_binding);
        headers.set_u32(header::ITERATION, self.iteration);
        if let Some(id) = &self.dialed_router_id {
            headers.set_str(header::DIALED_ROUTER_ID, id);
        }
        headers.set_str(header::LINK_ID, &self.link_id);
        hello
    }

    /// Reads the hello. The ids of the link and of the dialer are required, and for a split link
    /// that of the connection.
    pub fn from_hello(hello: &Hello) -> Result<Self, WireError> {
        let headers = &hello.headers;
        let text = |key| headers.get_str(key).filter(|text| !text.is_empty()).map(str::to_owned);
        let missing = |key| WireError::MissingHeader { content_type: content_type::HELLO, key };
        let part = match headers.get_u8(header::SPLIT_PART).filter(|_| !hello.is_grouped()) {
            None => None,
            Some(1) => Some(SplitPart::Payload),
            Some(2) => Some(SplitPart::Ack),
            Some(_) => {
                let problem = "neither 1 (payloads) nor 2 (acknowledgements)";
                return Err(WireError::HeaderValue { key: header::SPLIT_PART, problem });
            }
        };
        let connection_id = text(hello::header::CONNECTION_ID).unwrap_or_default();
        if part.is_some() && connection_id.is_empty() {
            return Err(missing(hello::header::CONNECTION_ID));
        }
        let token = || Some(hello.token.clone()).filter(|token| !token.is_empty());
        Ok(Self {
            link_id: text(header::LINK_ID)
                .or_else(token)
                .ok_or_else(|| missing(header::LINK_ID))?,
            connection_id,
            part,
            router_id: text(header::ROUTER_ID).ok_or_else(|| missing(header::ROUTER_ID))?,
            dialed_version: text(header::DIALED_VERSION).unwrap_or_default(),
            dialer_binding: text(header::DIALER_BINDING).unwrap_or_default(),
            iteration: headers.get_u32(header::ITERATION).unwrap_or(0),
            dialed_router_id: text(header::DIALED_ROUTER_ID),
        })
    }
}

/// The key of a link, seen from one of its ends; a key has at most one link. An empty binding is
/// `default` (docs/protocol/data-plane.md 4.1).
pub fn key(dialer_binding: &str, protocol: &str, peer_id: &str, listener_binding: &str) -> String {
    format!("{}->{protocol}:{peer_id}->{}", named(dialer_binding), named(listener_binding))
}

/// Digits of link ids.
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The id of a link for this random number: in base 62, without leading zeros
/// (docs/protocol/data-plane.md 4.2).
pub fn id_of(mut number: u128) -> String {
    let mut digits = Vec::new();
    while number > 0 || digits.is_empty() {
        let digit = DIGITS.get((number % 62) as usize).copied().unwrap_or(b'0');
        digits.push(char::from(digit));
        number /= 62;
    }
    digits.into_iter().rev().collect()
}

fn named(binding: &str) -> &str {
    if binding.is_empty() { "default" } else { binding }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Message;
    use crate::hello::underlay;

    fn link() -> LinkHello {
        LinkHello {
            link_id: "5tGz".into(),
            connection_id: "c-1".into(),
            part: None,
            router_id: "r1".into(),
            dialed_version: "v2.1.0".into(),
            dialer_binding: String::new(),
            iteration: 3,
            dialed_router_id: Some("r2".into()),
        }
    }

    #[test]
    fn grouped() {
        let first = link().to_hello().grouped_first(underlay::LINK_DEFAULT, Some("c-1"), None);
        assert!(first.is_first());
        assert_eq!(first.token, "5tGz");
        assert_eq!(first.headers.get(header::ITERATION), Some(&[3, 0, 0, 0][..]));
        assert_eq!(LinkHello::from_hello(&first), Ok(link()));
        let later = link().to_hello().grouped_later(underlay::LINK_ACK, "c-1", b"secret");
        assert_eq!(LinkHello::from_hello(&later), Ok(link()));
        assert_eq!(later.connection_id(), Some("c-1"));
    }

    #[test]
    fn split() {
        let ack = LinkHello { part: Some(SplitPart::Ack), ..link() };
        let hello = Hello::from_message(ack.to_hello().to_message()).unwrap();
        assert_eq!(LinkHello::from_hello(&hello), Ok(ack.clone()));
        let mut nameless = ack.to_hello();
        nameless.headers.remove(hello::header::CONNECTION_ID);
        assert!(LinkHello::from_hello(&nameless).is_err());
        nameless.headers.set_u8(header::SPLIT_PART, 3);
        assert!(LinkHello::from_hello(&nameless).is_err());
    }

    #[test]
    fn dialers_of_old_routers_name_the_link_in_the_body_alone() {
        let mut hello = link().to_hello();
        hello.headers.remove_all(&[header::LINK_ID, header::DIALED_ROUTER_ID]);
        let expected = LinkHello { dialed_router_id: None, ..link() };
        assert_eq!(LinkHello::from_hello(&hello), Ok(expected));
        hello.token.clear();
        assert!(LinkHello::from_hello(&hello).is_err());
    }

    #[test]
    fn ids() {
        assert_eq!((id_of(0).as_str(), id_of(61).as_str(), id_of(62).as_str()), ("0", "z", "10"));
        assert_eq!(id_of(u128::MAX), "7n42DGM5Tflk9n8mt7Fhc7");
    }

    #[test]
    fn keys() {
        assert_eq!(key("", "tls", "r2", ""), "default->tls:r2->default");
        assert_eq!(key("eth0", "dtls", "r2", "wan"), "eth0->dtls:r2->wan");
    }

    proptest! {
        #[test]
        fn round_trip(
            link_id in "[0-9A-Za-z]{1,22}", connection_id in "[a-f0-9-]{1,36}",
            router_id in "\\PC{1,9}", dialer_binding in "[a-z0-9]{0,6}", iteration: u32,
            dialed in prop::option::of("[a-z]{1,5}"), part in 0..3u8,
        ) {
            let part = [None, Some(SplitPart::Payload), Some(SplitPart::Ack)][usize::from(part)];
            let link = LinkHello {
                link_id, connection_id, part, router_id, dialed_version: "v2.1.0".into(),
                dialer_binding, iteration, dialed_router_id: dialed,
            };
            prop_assert_eq!(LinkHello::from_hello(&link.to_hello()), Ok(link));
        }

        #[test]
        fn any_bytes_never_panic(
            entries in prop::collection::vec(
                (prop::sample::select(vec![0, 1, 2, 3, 4, 5, 6, 9, 10, 11, 100]),
                 prop::collection::vec(any::<u8>(), 0..6)), 0..10),
            body in prop::collection::vec(any::<u8>(), 0..8),
        ) {
            let mut message = Message::new(content_type::HELLO, body);
            for (key, value) in entries {
                message.headers.set(key, &value);
            }
            let _ = LinkHello::from_hello(&Hello::from_message(message).unwrap());
        }
    }
}
