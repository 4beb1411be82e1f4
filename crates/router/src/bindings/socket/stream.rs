//! Joins an end with a stream of bytes.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, WriteHalf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;
use weft_tunnel::AppWriter;
use weft_xgress::{Delivery, PAYLOAD_SIZE};

use super::crypto::{Crypto, Opening, Sealing, directions};
use super::scratch::SCRATCH;
use crate::forwarder::LocalEnd;

/// How long an application may read nothing after its circuit is closed. Then the rest is thrown away, and
/// the application's connection is reset.
const PATIENCE: Duration = Duration::from_secs(30);

/// A stream of bytes in both directions: a TCP socket, or TLS over one.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// The socket below.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Tcp(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
}

/// Carries data between an end and a stream until both directions are over. `first` was read from the stream
/// before.
pub(crate) async fn carry(
    end: Arc<LocalEnd>,
    stream: Stream,
    first: Bytes,
    crypto: Option<Crypto>,
) {
    match stream {
        Stream::Tcp(stream) => {
            let (reader, writer) = stream.into_split();
            carry_halves(&end, reader, AppWriter::new(writer), first, crypto).await;
        }
        Stream::Tls(stream) => {
            let (reader, writer) = tokio::io::split(*stream);
            carry_halves(&end, reader, writer, first, crypto).await;
        }
    }
}

async fn carry_halves(
    end: &LocalEnd,
    reader: impl AsyncRead + Unpin,
    writer: impl EndingHalf,
    first: Bytes,
    crypto: Option<Crypto>,
) {
    let served = Served(end);
    let Some((sealing, opening)) = directions(end, crypto).await else { return };
    let reading = read_stream(end, reader, first, sealing);
    let delivering = deliver_stream(end, writer, opening, PATIENCE);
    tokio::pin!(reading, delivering);
    // Delivering lasts until the circuit is closed, whichever side closes it.
    tokio::select! {
        () = &mut delivering => {}
        () = &mut reading => delivering.await,
    }
    served.ended();
}

/// The half of a stream that is written to. If it is dropped before its end, the application can tell that data is
/// missing.
trait EndingHalf: AsyncWrite + Unpin {
    /// Lets the stream end in order.
    fn ended(self);
}

impl EndingHalf for AppWriter {
    fn ended(self) {
        AppWriter::ended(self);
    }
}

impl EndingHalf for WriteHalf<TlsStream<TcpStream>> {
    // A TLS stream that ends without its closing message shows the application that data is missing.
    fn ended(self) {}
}

/// Gives the circuit up if it is dropped while the circuit lives: the application is no longer served.
struct Served<'a>(&'a LocalEnd);

impl Served<'_> {
    /// The circuit is closed, or closes by itself once the application's data has arrived.
    fn ended(self) {
        std::mem::forget(self);
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        if !self.0.is_closed() {
            self.0.abort();
        }
    }
}

/// Reads the stream and writes to the circuit.
async fn read_stream(
    end: &LocalEnd,
    mut stream: impl AsyncRead + Unpin,
    first: Bytes,
    mut sealing: Sealing,
) {
    if !sealing.begin(end).await {
        return;
    }
    if !first.is_empty() {
        let Ok(first) = sealing.apply(&first) else { return end.abort() };
        if !end.writable().await || end.write(first).is_err() {
            return;
        }
    }
    while end.writable().await {
        let read = poll_fn(|cx| {
            SCRATCH.with_borrow_mut(|scratch| {
                let mut buffer = ReadBuf::new(scratch.get_mut(..PAYLOAD_SIZE).unwrap_or_default());
                ready!(Pin::new(&mut stream).poll_read(cx, &mut buffer))?;
                let data = buffer.filled();
                let sealed = if data.is_empty() { Ok(Bytes::new()) } else { sealing.apply(data) };
                Poll::Ready(sealed.map_err(io::Error::other))
            })
        });
        match read.await {
            Ok(data) if data.is_empty() => return sealing.finish(end).await,
            // The direction may have ended since there was room.
            Ok(data) => {
                if end.write(data).is_err() {
                    return;
                }
            }
            // TLS without its closing message: many programs end this way, and their earlier data counts.
            Err(problem) if problem.kind() == io::ErrorKind::UnexpectedEof => {
                return sealing.finish(end).await;
            }
            Err(problem) => {
                tracing::debug!(?end, %problem, "reading an application socket failed");
                return end.abort();
            }
        }
    }
}

/// Reads the circuit and writes to the stream, until the circuit is closed.
async fn deliver_stream(
    end: &LocalEnd,
    mut stream: impl EndingHalf,
    mut opening: Opening,
    patience: Duration,
) {
    let (mut open, mut is_whole) = (true, false);
    loop {
        match end.read().await {
            Delivery::Data { data, .. } if open => {
                let written = match opening.apply(data) {
                    Ok(None) => continue,
                    Ok(Some(data)) => match write(end, &mut stream, &data, patience).await {
                        Some(written) => written,
                        None => {
                            tracing::debug!(
                                "an application does not read the rest of its circuit: its \
                                 connection is reset"
                            );
                            return;
                        }
                    },
                    Err(problem) => {
                        tracing::debug!(?end, %problem, "the peer's data cannot be decrypted");
                        end.abort();
                        return;
                    }
                };
                if let Err(problem) = written {
                    tracing::debug!(?end, %problem, "writing to an application socket failed");
                    end.delivery_failed();
                    open = false;
                }
            }
            Delivery::Data { .. } => {}
            // Data is missing, so that the application must not see a regular end.
            Delivery::Fin { .. } | Delivery::Closed(_) if opening.is_cut() => {
                tracing::debug!(?end, "the peer's data was cut off on the way");
                end.close();
                return;
            }
            // TLS sends its closing message, for which the application may have no room.
            Delivery::Fin { .. } => {
                is_whole = true;
                tokio::select! {
                    biased;
                    // The application has gone; its own data may be cut.
                    over = stream.shutdown() => if over.is_err() {
                        end.delivery_failed();
                    },
                    () = closed_for(end, patience) => return,
                }
            }
            Delivery::Closed(reason) if is_whole || reason.is_orderly() => return stream.ended(),
            Delivery::Closed(reason) => {
                tracing::debug!(?end, ?reason, "a circuit ended before its peer's data did");
                return;
            }
        }
    }
}

/// Writes data of the circuit. `None` if the application has taken nothing for the time `patience` after the circuit
/// was closed; an application that reads slowly has that time again with every byte that it takes.
async fn write(
    end: &LocalEnd,
    stream: &mut (impl AsyncWrite + Unpin),
    data: &[u8],
    patience: Duration,
) -> Option<io::Result<()>> {
    let mut left = data;
    while !left.is_empty() {
        let taken = tokio::select! {
            biased;
            taken = stream.write(left) => taken,
            () = closed_for(end, patience) => return None,
        };
        left = match taken {
            Ok(0) => return Some(Err(io::ErrorKind::WriteZero.into())),
            Ok(taken) => left.get(taken..).unwrap_or_default(),
            Err(problem) => return Some(Err(problem)),
        };
    }
    // TLS keeps encrypted data until it is flushed.
    tokio::select! {
        biased;
        flushed = stream.flush() => Some(flushed),
        () = closed_for(end, patience) => None,
    }
}

/// Waits until the circuit has been closed for the time `patience`; returns twice that time after
/// the close at the latest.
async fn closed_for(end: &LocalEnd, patience: Duration) {
    let mut was_closed = end.is_closed();
    loop {
        tokio::time::sleep(patience).await;
        let is_closed = end.is_closed();
        if was_closed && is_closed {
            return;
        }
        was_closed = is_closed;
    }
}

#[cfg(test)]
mod tests;
