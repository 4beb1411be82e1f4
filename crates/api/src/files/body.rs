//! The bodies of files: a piece at a time, as fast as the client takes them.

use std::fs::File;
use std::io::{self, Take};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::compress::{CHUNK, Stream};
use crate::connection::Sending;
use crate::places::Place;

/// Where the pieces come from.
#[derive(Debug)]
pub(super) enum Source {
    /// A file, or a part of it: so many bytes from where it stands.
    Plain(Take<File>),
    /// A file of so many bytes that is compressed meanwhile.
    Compressed(Box<Stream<Take<File>>>, u64),
}

impl Source {
    /// Bytes that come out, at most.
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

/// The body of a file. It counts as a request of its peer until it is sent.
#[derive(Debug)]
pub(crate) struct FileBody {
    content: Content,
    _kept: Option<(Place, Sending)>,
}

#[derive(Debug)]
enum Content {
    /// All of it is there.
    Bytes(Bytes),
    Waiting(Source),
    Reading(JoinHandle<Read>),
    Over,
}

/// A source and its next piece.
type Read = (Source, io::Result<Option<Bytes>>);

impl FileBody {
    pub(super) fn empty() -> Self {
        Self { content: Content::Over, _kept: None }
    }

    pub(super) fn bytes(bytes: Bytes, place: Place, sending: Sending) -> Self {
        Self { content: Content::Bytes(bytes), _kept: Some((place, sending)) }
    }

    pub(super) fn stream(source: Source, place: Place, sending: Sending) -> Self {
        Self { content: Content::Waiting(source), _kept: Some((place, sending)) }
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
            match std::mem::replace(&mut self.content, Content::Over) {
                Content::Over => return Poll::Ready(None),
                // In pieces too, so that the place is held until the last one is asked for.
                Content::Bytes(mut bytes) => {
                    if bytes.is_empty() {
                        return Poll::Ready(None);
                    }
                    let piece = bytes.split_to(bytes.len().min(CHUNK));
                    self.content = Content::Bytes(bytes);
                    return Poll::Ready(Some(Ok(Frame::data(piece))));
                }
                Content::Waiting(mut source) => {
                    let read = move || {
                        let piece = source.next();
                        (source, piece)
                    };
                    self.content = Content::Reading(spawn_blocking(read));
                }
                Content::Reading(mut reading) => {
                    let Poll::Ready(read) = Pin::new(&mut reading).poll(cx) else {
                        self.content = Content::Reading(reading);
                        return Poll::Pending;
                    };
                    let (source, piece) = read.map_err(io::Error::other)?;
                    let Some(piece) = piece? else { return Poll::Ready(None) };
                    self.content = Content::Waiting(source);
                    return Poll::Ready(Some(Ok(Frame::data(piece))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Over)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Bytes(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Over => SizeHint::with_exact(0),
            Content::Waiting(_) | Content::Reading(_) => SizeHint::default(),
        }
    }
}
