//! The trace that a message belongs to: the `traceparent` of W3C Trace Context, in a header of
//! weft's own.
//!
//! The header is sent with the messages that make a circuit: connect (SDK), requests for circuits
//! (router), route (controller), dial (router). No other program uses the number of the header.
//! Peers read the headers that they know and pass no others on, so that the context goes from one
//! program of weft to the next and never further.

use std::fmt;

use crate::headers::Headers;

/// Header with the `traceparent`; text.
pub const TRACE_PARENT: i32 = 77_100;

/// Length of a `traceparent` of version 00, the only one that is read.
const LENGTH: usize = 55;
/// The offsets of the parts after `00-`.
const TRACE_ID: usize = 3;
const SPAN_ID: usize = 36;
const FLAGS: usize = 53;
/// Flag: the sender records the trace.
const SAMPLED: u8 = 1;

/// A span of another program, to be the parent of later ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// The trace; not zero.
    pub trace_id: [u8; 16],
    /// The span in it; not zero.
    pub span_id: [u8; 8],
    /// True if the trace is recorded.
    pub is_sampled: bool,
}

impl TraceContext {
    /// Reads a `traceparent`: version 00, lower case, ids that are not zero. `None` for any other
    /// text.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let is_framed = text.len() == LENGTH && text.starts_with(b"00-");
        if !is_framed || text[SPAN_ID - 1] != b'-' || text[FLAGS - 1] != b'-' {
            return None;
        }
        let trace_id = bytes::<16>(&text[TRACE_ID..])?;
        let span_id = bytes::<8>(&text[SPAN_ID..])?;
        let [flags] = bytes::<1>(&text[FLAGS..])?;
        let is_valid = trace_id != [0; 16] && span_id != [0; 8];
        is_valid.then_some(Self { trace_id, span_id, is_sampled: flags & SAMPLED != 0 })
    }

    /// The `traceparent`.
    #[must_use]
    pub fn to_text(&self) -> [u8; LENGTH] {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        put(&mut text[TRACE_ID..], &self.trace_id);
        put(&mut text[SPAN_ID..], &self.span_id);
        put(&mut text[FLAGS..], &[u8::from(self.is_sampled)]);
        text
    }

    /// The context in the headers of a message; `None` without one, or if it is malformed.
    #[must_use]
    pub fn take(headers: &Headers) -> Option<Self> {
        Self::parse(headers.get(TRACE_PARENT)?)
    }

    /// Adds the context to the headers of a message.
    pub fn put(&self, headers: &mut Headers) {
        headers.set(TRACE_PARENT, &self.to_text());
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.to_text()))
    }
}

/// The bytes of hexadecimal digits.
fn bytes<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// Upper case letters are not allowed.
fn digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

fn put(text: &mut [u8], bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn the_example_of_the_recommendation_is_read_and_written() {
        let context = TraceContext::parse(EXAMPLE.as_bytes()).unwrap();
        assert_eq!(context.trace_id[..2], [0x4b, 0xf9]);
        assert_eq!(context.span_id[6..], [0x02, 0xb7]);
        assert!(context.is_sampled);
        assert_eq!(context.to_text(), EXAMPLE.as_bytes());
        assert_eq!(format!("{context:?}"), EXAMPLE);
        let mut headers = Headers::new();
        assert_eq!(TraceContext::take(&headers), None);
        context.put(&mut headers);
        assert_eq!(TraceContext::take(&headers), Some(context));
    }

    #[test]
    fn flags_that_are_not_known_do_not_matter() {
        let read = |flags: &str| TraceContext::parse(EXAMPLE.replace("-01", flags).as_bytes());
        assert!(!read("-00").unwrap().is_sampled);
        assert!(!read("-02").unwrap().is_sampled);
        assert!(read("-ff").unwrap().is_sampled);
    }

    #[test]
    fn what_is_not_well_formed_is_none() {
        let zero_trace = EXAMPLE.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32));
        let zero_span = EXAMPLE.replace("00f067aa0ba902b7", &"0".repeat(16));
        let long = format!("{EXAMPLE}-more");
        let wrong = [
            "",
            "00",
            &EXAMPLE[..54],
            &EXAMPLE.replace("00-4b", "01-4b"),
            &EXAMPLE.replace("00-4b", "ff-4b"),
            &EXAMPLE.replace('-', "_"),
            &EXAMPLE.replace("6-0", "600"),
            &EXAMPLE.replace('b', "B"),
            &EXAMPLE.replace('b', "g"),
            &EXAMPLE.replace('b', " "),
            &zero_trace,
            &zero_span,
            &long,
            &"0".repeat(1 << 16),
        ];
        for text in wrong {
            assert_eq!(TraceContext::parse(text.as_bytes()), None, "{text:.80}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_written_alike(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(context) = TraceContext::parse(&bytes) {
                prop_assert_eq!(&context.to_text()[..53], &bytes[..53]);
            }
        }

        #[test]
        fn whatever_is_written_is_read(
            trace_id in any::<[u8; 16]>(),
            span_id in any::<[u8; 8]>(),
            is_sampled: bool,
        ) {
            let context = TraceContext { trace_id, span_id, is_sampled };
            let is_valid = trace_id != [0; 16] && span_id != [0; 8];
            prop_assert_eq!(TraceContext::parse(&context.to_text()), is_valid.then_some(context));
        }
    }
}
