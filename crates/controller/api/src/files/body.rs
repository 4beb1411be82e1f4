//! Bodies from files: read piece by piece, as fast as the client accepts them.

use std::fs::File;
use std::io::{self, Take};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::task::{JoinHandle, spawn_blocking};
use weft_web::{PeerPermit, Sending};

use crate::encoder::{CHUNK, Stream};

/// Bytes handed to the connection at a time. HTTP/2 queues them until the peer's window has room,
/// beyond the control of this body.
const FRAME: usize = 16 * 1024;

/// The source of the pieces.
#[derive(Debug)]
pub(super) enum Source {
    /// A file or a part of it, from its present position.
    Plain(Take<File>),
    /// A file that is compressed while it is sent, and its length in bytes.
    Compressed(Box<Stream<Take<File>>>, u64),
}

impl Source {
    /// Most bytes that the source can give.
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Plain(file) => file.limit(),
            Self::Compressed(_, length) => *length,
        }
    }

    fn next(&mut self) -> io::Result<Option<Bytes>> {
        let file = match self {
            Self::Compressed(stream, _) => return stream.next(),
            Self::Plain(file) => file,
        };
        let mut piece = vec![0; file.limit().min(CHUNK as u64) as usize];
        let count = io::Read::read(file, &mut piece)?;
        if count == 0 && file.limit() > 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter"));
        }
        piece.truncate(count);
        Ok((count > 0).then(|| piece.into()))
    }
}

/// The body of an answer from a file. It counts among the requests of its peer until it is sent.
#[derive(Debug)]
pub(crate) struct FileBody {
    /// Bytes that are read and not sent yet.
    ready: Bytes,
    rest: Rest,
    _kept: Option<(PeerPermit, Sending)>,
}

#[derive(Debug)]
enum Rest {
    Waiting(Source),
    Reading(JoinHandle<Read>),
    Over,
}

/// The source, and its next piece.
type Read = (Source, io::Result<Option<Bytes>>);

impl FileBody {
    pub(super) fn empty() -> Self {
        Self { ready: Bytes::new(), rest: Rest::Over, _kept: None }
    }

    pub(crate) fn bytes(bytes: Bytes, permit: PeerPermit, sending: Sending) -> Self {
        Self { ready: bytes, rest: Rest::Over, _kept: Some((permit, sending)) }
    }

    pub(super) fn stream(source: Source, permit: PeerPermit, sending: Sending) -> Self {
        Self { ready: Bytes::new(), rest: Rest::Waiting(source), _kept: Some((permit, sending)) }
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            if !self.ready.is_empty() {
                let mut count = self.ready.len().min(FRAME);
                // The last byte comes alone: HTTP/2 asks for it once the peer has taken the others, and
                // until then this body, with its places, is not dropped.
                if count > 1 && count == self.ready.len() && matches!(self.rest, Rest::Over) {
                    count -= 1;
                }
                return Poll::Ready(Some(Ok(Frame::data(self.ready.split_to(count)))));
            }
            match std::mem::replace(&mut self.rest, Rest::Over) {
                Rest::Over => return Poll::Ready(None),
                Rest::Waiting(mut source) => {
                    let read = move || {
                        let piece = source.next();
                        (source, piece)
                    };
                    self.rest = Rest::Reading(spawn_blocking(read));
                }
                Rest::Reading(mut reading) => {
                    let Poll::Ready(read) = Pin::new(&mut reading).poll(cx) else {
                        self.rest = Rest::Reading(reading);
                        return Poll::Pending;
                    };
                    let (source, piece) = read.map_err(io::Error::other)?;
                    let Some(piece) = piece? else { return Poll::Ready(None) };
                    (self.ready, self.rest) = (piece, Rest::Waiting(source));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ready.is_empty() && matches!(self.rest, Rest::Over)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.rest {
            Rest::Over => SizeHint::with_exact(self.ready.len() as u64),
            Rest::Waiting(_) | Rest::Reading(_) => SizeHint::default(),
        }
    }
}
