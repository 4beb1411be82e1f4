//! Repair of request lines from old clients.
//!
//! Old native SDKs put a filter into the request target unescaped, with quotes and spaces
//! (docs/protocol/sdk.md 15.3.1). HTTP has no such targets, so [`RequestLines`] escapes their
//! invalid characters between TLS and HTTP/1.1. The repair follows the framing of requests far enough
//! to know which lines are request lines. After a chunked body, an upgrade or a line of more than
//! 64 KiB the rest of the connection passes unchanged.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Longest line that is repaired, in bytes. Longer lines pass unchanged; HTTP refuses them by its
/// own limit.
const MAX_LINE: usize = 64 * 1024;
/// Bytes of one read.
const CHUNK: usize = 4096;

/// A connection whose request lines are repaired.
#[derive(Debug)]
pub(crate) struct RequestLines<S> {
    inner: S,
    framing: Framing,
    /// Repaired bytes that HTTP has not read yet.
    ready: BytesMut,
}

impl<S> RequestLines<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self { inner, framing: Framing::default(), ready: BytesMut::new() }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for RequestLines<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if !this.ready.is_empty() {
                let count = this.ready.len().min(out.remaining());
                out.put_slice(&this.ready[..count]);
                this.ready.advance(count);
                return Poll::Ready(Ok(()));
            }
            if matches!(this.framing.state, ParserState::Aside) {
                return Pin::new(&mut this.inner).poll_read(cx, out);
            }
            let mut chunk = [0; CHUNK];
            let mut chunk = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut chunk))?;
            if chunk.filled().is_empty() {
                this.framing.step_aside(&mut this.ready);
                if this.ready.is_empty() {
                    return Poll::Ready(Ok(()));
                }
            }
            this.framing.feed(chunk.filled(), &mut this.ready);
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RequestLines<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Position in the stream of requests.
#[derive(Debug, Default)]
struct Framing {
    state: ParserState,
    /// The line whose end has not come yet.
    line: Vec<u8>,
}

#[derive(Debug, Default)]
enum ParserState {
    /// Before or in a request line.
    #[default]
    RequestLine,
    /// In the header lines, with the length of the body by the lines so far.
    Headers(Length),
    /// In a body of which this many bytes are to come.
    Body(u64),
    /// Passing everything through unchanged.
    Aside,
}

#[derive(Debug, Clone, Copy)]
enum Length {
    None,
    Known(u64),
    Unknown,
}

impl Framing {
    /// Appends received bytes to `ready`, repaired.
    fn feed(&mut self, mut bytes: &[u8], ready: &mut BytesMut) {
        while !bytes.is_empty() {
            match self.state {
                ParserState::Aside => {
                    ready.extend_from_slice(bytes);
                    return;
                }
                ParserState::Body(left) => {
                    let count = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    ready.extend_from_slice(&bytes[..count]);
                    bytes = &bytes[count..];
                    let left = left - count as u64;
                    self.state =
                        if left == 0 { ParserState::RequestLine } else { ParserState::Body(left) };
                }
                ParserState::RequestLine | ParserState::Headers(_) => {
                    bytes = self.feed_line(bytes, ready)
                }
            }
        }
    }

    /// Takes bytes up to the end of a line and returns the bytes behind it.
    fn feed_line<'b>(&mut self, bytes: &'b [u8], ready: &mut BytesMut) -> &'b [u8] {
        let end = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
        self.line.extend_from_slice(part);
        if end.is_some() {
            self.end_line(ready);
        } else if self.line.len() > MAX_LINE {
            self.step_aside(ready);
        }
        rest
    }

    fn end_line(&mut self, ready: &mut BytesMut) {
        let line = std::mem::take(&mut self.line);
        let text = line.trim_ascii_end();
        self.state = match self.state {
            // Empty lines may stand before a request.
            ParserState::RequestLine if text.is_empty() => ParserState::RequestLine,
            ParserState::RequestLine => {
                ready.extend_from_slice(&mended(&line));
                self.state = ParserState::Headers(Length::None);
                return;
            }
            ParserState::Headers(length) if text.is_empty() => match length {
                Length::None | Length::Known(0) => ParserState::RequestLine,
                Length::Known(length) => ParserState::Body(length),
                Length::Unknown => ParserState::Aside,
            },
            ParserState::Headers(length) => ParserState::Headers(length_after(length, text)),
            ParserState::Body(_) | ParserState::Aside => ParserState::Aside,
        };
        ready.extend_from_slice(&line);
    }

    fn step_aside(&mut self, ready: &mut BytesMut) {
        ready.extend_from_slice(&std::mem::take(&mut self.line));
        self.state = ParserState::Aside;
    }
}

/// The length of the body, updated by one header line.
fn length_after(length: Length, line: &[u8]) -> Length {
    let Some(colon) = line.iter().position(|byte| *byte == b':') else { return length };
    let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
    if name.eq_ignore_ascii_case(b"transfer-encoding") || name.eq_ignore_ascii_case(b"upgrade") {
        return Length::Unknown;
    }
    if !name.eq_ignore_ascii_case(b"content-length") {
        return length;
    }
    let stated = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    match (length, stated) {
        (Length::None, Some(stated)) => Length::Known(stated),
        (Length::Known(before), Some(stated)) if before == stated => length,
        _ => Length::Unknown,
    }
}

/// The request line, with every space and every other ASCII character escaped that a target must not
/// hold.
fn mended(line: &[u8]) -> Vec<u8> {
    let space = |byte: &u8| *byte == b' ';
    let text = line.trim_ascii_end();
    let (Some(first), Some(last)) = (text.iter().position(space), text.iter().rposition(space))
    else {
        return line.to_vec();
    };
    if first == last || !text[last + 1..].starts_with(b"HTTP/") {
        return line.to_vec();
    }
    let mut mended = Vec::with_capacity(line.len() + 16);
    mended.extend_from_slice(&line[..=first]);
    for byte in &line[first + 1..last] {
        match byte {
            b' ' | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | b'#' => {
                mended.extend_from_slice(format!("%{byte:02X}").as_bytes());
            }
            _ => mended.push(*byte),
        }
    }
    mended.extend_from_slice(&line[last..]);
    mended
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    fn fed(parts: &[&[u8]]) -> Vec<u8> {
        let (mut framing, mut ready) = (Framing::default(), BytesMut::new());
        parts.iter().for_each(|part| framing.feed(part, &mut ready));
        framing.step_aside(&mut ready);
        ready.to_vec()
    }

    #[test]
    fn raw_filters_are_escaped() {
        let line =
            b"GET /services?filter=name=\"a b\" and tags.x=\"#\" HTTP/1.1\r\nhost: x\r\n\r\n";
        let mended = b"GET /services?filter=name=%22a%20b%22%20and%20tags.x=%22%23%22 HTTP/1.1\r\nhost: x\r\n\r\n";
        assert_eq!(fed(&[line]), mended);
        let parts: Vec<_> = line.chunks(1).collect();
        assert_eq!(fed(&parts), mended);
    }

    #[test]
    fn bodies_are_left_alone_and_the_next_request_is_mended() {
        let stream =
            b"POST /a HTTP/1.1\r\nContent-Length: 9\r\n\r\nGET \" H\r\nGET /?\" HTTP/1.1\r\n\r\n";
        let seen =
            b"POST /a HTTP/1.1\r\nContent-Length: 9\r\n\r\nGET \" H\r\nGET /?%22 HTTP/1.1\r\n\r\n";
        assert_eq!(fed(&[stream]), seen);
    }

    #[test]
    fn what_cannot_be_followed_is_passed_on() {
        for stream in [
            &b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET \" HTTP/1.1\r\n"[..],
            b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nGET /\" HTTP/1.1\r\n",
            b"GET /\"\r\n",
            b"nonsense",
        ] {
            assert_eq!(fed(&[stream]), stream);
        }
        let endless = vec![b'a'; 3 * MAX_LINE];
        assert_eq!(fed(&[&endless]), endless);
    }

    #[tokio::test]
    async fn a_reader_sees_the_end() {
        let mut lines = RequestLines::new(&b"GET /?\" HTTP/1.1\r\nhos"[..]);
        let mut text = String::new();
        lines.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "GET /?%22 HTTP/1.1\r\nhos");
    }

    proptest! {
        #[test]
        fn sane_streams_pass_unchanged_whatever_the_cuts(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 1..5),
            cut in 1_usize..40,
        ) {
            let mut stream = Vec::new();
            for body in bodies {
                let head = format!("POST /a?b=%22 HTTP/1.1\r\ncontent-length: {}\r\n\r\n", body.len());
                stream.extend_from_slice(head.as_bytes());
                stream.extend_from_slice(&body);
            }
            let parts: Vec<_> = stream.chunks(cut).collect();
            prop_assert_eq!(fed(&parts), stream);
        }

        #[test]
        fn cuts_make_no_difference(
            stream in prop::collection::vec(any::<u8>(), 0..300),
            cut in 1_usize..40,
        ) {
            let parts: Vec<_> = stream.chunks(cut).collect();
            prop_assert_eq!(fed(&parts), fed(&[&stream]));
        }
    }
}
