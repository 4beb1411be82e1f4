//! The request of a program for a service: one line of JSON, answered with one line
//! (docs/protocol/data-plane.md 11, transport listener).

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Longest line, in bytes.
pub(super) const MAX_LINE: usize = 8 * 1024;

/// The request of a client.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Request {
    /// The client's name for itself.
    #[serde(default)]
    pub(super) id: String,
    /// Name or id of the service, or `instance@service`.
    #[serde(default, rename = "svcId")]
    pub(super) service: String,
}

impl Request {
    pub(super) fn parse(line: &[u8]) -> Result<Self, String> {
        let request: Self =
            serde_json::from_slice(line).map_err(|error| format!("invalid request: {error}"))?;
        if request.service.is_empty() {
            return Err("invalid request: `svcId` must name a service".to_owned());
        }
        Ok(request)
    }
}

/// A line that is not complete yet.
#[derive(Debug, Default)]
pub(super) struct Line(Vec<u8>);

impl Line {
    /// Adds received bytes. Returns the line once it is complete, without its end, and the bytes
    /// after it.
    pub(super) fn take(&mut self, data: &[u8]) -> Result<Option<(Vec<u8>, Bytes)>, String> {
        let end = data.iter().position(|byte| *byte == b'\n');
        let part = data.get(..end.unwrap_or(data.len())).unwrap_or_default();
        if self.0.len() + part.len() > MAX_LINE {
            return Err(format!("the request is longer than {MAX_LINE} bytes"));
        }
        self.0.extend_from_slice(part);
        Ok(end.map(|end| {
            let rest = data.get(end + 1..).unwrap_or_default();
            (std::mem::take(&mut self.0), Bytes::copy_from_slice(rest))
        }))
    }
}

/// The answer to a client.
#[derive(Serialize)]
struct ConnectReply<'a> {
    scc: bool,
    msg: &'a str,
    #[serde(rename = "circuitId")]
    circuit: &'a str,
}

/// The answer line, for a circuit that was made or for the reason of a failure.
pub(super) fn answer(made: Result<&str, &str>) -> Vec<u8> {
    let answer = match made {
        Ok(circuit) => ConnectReply { scc: true, msg: "", circuit },
        Err(msg) => ConnectReply { scc: false, msg, circuit: "" },
    };
    // Texts and a flag can always be encoded.
    let mut line = serde_json::to_vec(&answer).unwrap_or_default();
    line.push(b'\n');
    line
}

/// The answer for the reason of a failure, in at most this many bytes; `None` if none is so short. The end of the reason
/// is left out.
pub(super) fn short_refusal(mut why: &str, most: usize) -> Option<Vec<u8>> {
    loop {
        let line = answer(Err(why));
        let excess = line.len().saturating_sub(most);
        if excess == 0 {
            return Some(line);
        }
        // A character takes up to six bytes of the answer for each of its own.
        let keep = why.len().checked_sub(excess.div_ceil(6))?;
        why = &why[..why.floor_char_boundary(keep)];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn answers_have_the_form_of_the_original() {
        assert_eq!(answer(Ok("c1")), b"{\"scc\":true,\"msg\":\"\",\"circuitId\":\"c1\"}\n");
        let refused = answer(Err("no \"x\"\n"));
        assert_eq!(
            refused, b"{\"scc\":false,\"msg\":\"no \\\"x\\\"\\n\",\"circuitId\":\"\"}\n",
            "one line whatever the reason is"
        );
    }

    #[test]
    fn a_refusal_is_cut_to_the_room_that_it_has() {
        for why in ["", "no", "\u{1}\u{1}\u{1}\u{1}", "äöü € \u{10ffff}", &"why ".repeat(200)]
        {
            let whole = answer(Err(why)).len();
            for most in 0..whole + 2 {
                let Some(line) = short_refusal(why, most) else {
                    assert!(most < answer(Err("")).len(), "{why} {most}");
                    continue;
                };
                assert!(line.len() <= most);
                let read: serde_json::Value = serde_json::from_slice(&line).unwrap();
                assert!(why.starts_with(read["msg"].as_str().unwrap()), "{read}");
                assert!(most < whole || line.len() == whole, "{why} {most}");
            }
        }
    }

    #[test]
    fn requests_name_a_service() {
        let request = Request::parse(br#"{"id":"me","svcId":"web","more":1}"#).unwrap();
        assert_eq!((request.id.as_str(), request.service.as_str()), ("me", "web"));
        for wrong in [&b"{}"[..], b"", b"[]", b"{\"svcId\":7}", b"{\"svcId\":\"\"}", b"\xff"] {
            let refused = Request::parse(wrong).unwrap_err();
            assert!(refused.starts_with("invalid request"), "{refused}");
        }
    }

    #[test]
    fn a_line_without_end_is_not_kept() {
        let mut line = Line::default();
        assert_eq!(line.take(&vec![b' '; MAX_LINE]).unwrap(), None);
        assert!(line.take(b" ").unwrap_err().contains("8192 bytes"));
    }

    proptest! {
        #[test]
        fn a_line_may_come_in_any_pieces(
            text in "[^\n]{0,200}",
            rest in prop::collection::vec(any::<u8>(), 0..50),
            size in 1usize..60,
        ) {
            let whole: Vec<u8> = [text.as_bytes(), b"\n", &rest].concat();
            let mut line = Line::default();
            let mut pieces = whole.chunks(size);
            let mut taken = 0;
            let (found, behind) = loop {
                let piece = pieces.next().unwrap();
                taken += piece.len();
                if let Some(found) = line.take(piece).unwrap() {
                    break found;
                }
            };
            prop_assert_eq!(found, text.as_bytes());
            prop_assert_eq!([&behind[..], &whole[taken..]].concat(), rest);
        }
    }
}
