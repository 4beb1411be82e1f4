//! The generic answer: success or failure with a text (docs/protocol/channel.md 8.5).

use crate::error::WireError;
use crate::hello::header;
use crate::message::{Message, content_type};

/// The header of a failure that asks the peer to try again later
/// (docs/protocol/control-plane.md 16).
pub const BUSY_HEADER: i32 = 10;
/// Text that goes with [`BUSY_HEADER`].
pub const BUSY_TEXT: &str = "server too busy";

/// Success or failure of a request, with a text for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// True if the request was carried out.
    pub success: bool,
    /// A text about the result; some requests are answered with an id here.
    pub text: String,
    /// True if the request failed for lack of capacity.
    pub busy: bool,
}

impl Outcome {
    /// A success.
    pub fn success(text: impl Into<String>) -> Self {
        Self { success: true, text: text.into(), busy: false }
    }

    /// A failure.
    pub fn failure(text: impl Into<String>) -> Self {
        Self { success: false, text: text.into(), busy: false }
    }

    /// A failure that asks the requester to try again later.
    pub fn busy() -> Self {
        Self { success: false, text: BUSY_TEXT.to_owned(), busy: true }
    }

    /// The message, to be made a reply with [`Message::in_reply_to`].
    pub fn to_message(&self) -> Message {
        let mut message = Message::new(content_type::RESULT, self.text.clone());
        message.headers.set_bool(header::RESULT_SUCCESS, self.success);
        if self.busy {
            message.headers.set_u32(BUSY_HEADER, 1);
        }
        message
    }

    /// Reads the message. An absent success header is a failure.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::RESULT)?;
        Ok(Self {
            success: message.headers.get_bool(header::RESULT_SUCCESS) == Some(true),
            text: message.text(),
            busy: message.headers.get_u32(BUSY_HEADER) == Some(1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::encode;

    fn hex(text: &str) -> Vec<u8> {
        hex::decode(text.replace(['|', ' '], "")).unwrap()
    }

    fn request(sequence: i32) -> Message {
        Message { sequence, ..Message::default() }
    }

    #[test]
    fn result_vector() {
        // docs/protocol/control-plane.md 26.2
        let mut message = Outcome::success("router verified").to_message().in_reply_to(&request(7));
        message.sequence = 3;
        let mut expected =
            hex("03 06 09 0c | 02 00 00 00 | 03 00 00 00 | 15 00 00 00 | 0f 00 00 00 | \
             02 00 00 00 01 00 00 00 01 | 01 00 00 00 04 00 00 00 07 00 00 00");
        expected.extend_from_slice(b"router verified");
        assert_eq!(encode(&message), expected);
    }

    #[test]
    fn busy_vector() {
        // docs/protocol/control-plane.md 26.3
        let mut message = Outcome::busy().to_message().in_reply_to(&request(9));
        message.sequence = 4;
        let mut expected =
            hex("03 06 09 0c | 02 00 00 00 | 04 00 00 00 | 21 00 00 00 | 0f 00 00 00 | \
             02 00 00 00 01 00 00 00 00 | 0a 00 00 00 04 00 00 00 01 00 00 00 | \
             01 00 00 00 04 00 00 00 09 00 00 00");
        expected.extend_from_slice(b"server too busy");
        assert_eq!(encode(&message), expected);
        assert_eq!(Outcome::from_message(&message).unwrap(), Outcome::busy());
    }

    #[test]
    fn latency_answer_vector() {
        // docs/protocol/channel.md 17, V5
        let mut probe = request(2);
        probe.headers.set_u64(header::REFLECTED, 0x0000_018f_0000_0001);
        let mut answer = Outcome::success("").to_message().in_reply_to(&probe);
        answer.sequence = 7;
        let expected = hex("03 06 09 0c 02 00 00 00 07 00 00 00 25 00 00 00 \
             00 00 00 00 01 00 00 00 04 00 00 00 02 00 00 00 \
             02 00 00 00 01 00 00 00 01 80 00 00 00 08 00 00 \
             00 01 00 00 00 8f 01 00 00");
        assert_eq!(encode(&answer).len(), expected.len());
        let read = crate::frame::Decoder::new(crate::FrameLimits::MESSAGES)
            .decode(&mut &expected[..])
            .unwrap()
            .unwrap();
        assert_eq!(read.reply_for(), Some(2));
        assert_eq!(read.headers.get(128), answer.headers.get(128));
        assert!(Outcome::from_message(&read).unwrap().success);
    }

    #[test]
    fn a_result_without_success_header_is_a_failure() {
        let message = Message::new(content_type::RESULT, "?");
        assert_eq!(Outcome::from_message(&message).unwrap(), Outcome::failure("?"));
    }
}
