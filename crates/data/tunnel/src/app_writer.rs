//! The half of an application's socket that data of the network is written to.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;

/// The half of an application's socket that data of the network is written to.
///
/// A socket ends with a reset unless it was shut down or [`ended`](Self::ended) was called, so that the application never
/// takes the end of a task, of a circuit, or of this whole process for the end of the data. Once the end of the data is
/// written, a reset would only discard what the application has not read yet.
#[derive(Debug)]
pub struct AppWriter(Option<OwnedWriteHalf>);

impl AppWriter {
    /// The half of a socket from which nothing was sent so far.
    #[must_use]
    pub fn new(half: OwnedWriteHalf) -> Self {
        end_with_a_reset(half.as_ref());
        Self(Some(half))
    }

    /// The connection has ended in order: what was written is still sent, then the socket ends as usual.
    pub fn ended(mut self) {
        if let Some(half) = self.0.take() {
            end_as_usual(half.as_ref());
        }
    }
}

fn end_as_usual(stream: &TcpStream) {
    if let Err(error) = SockRef::from(stream).set_linger(None) {
        tracing::debug!(%error, "a socket whose data has ended in order ends with a reset");
    }
}

/// Has the system end a socket with a reset, also when this process is killed.
pub fn end_with_a_reset(stream: &TcpStream) {
    if let Err(error) = stream.set_zero_linger() {
        tracing::debug!(%error, "a socket does not end with a reset");
    }
}

impl Drop for AppWriter {
    fn drop(&mut self) {
        // The drop of the half would send the regular end of the stream first.
        if let Some(half) = self.0.take() {
            half.forget();
        }
    }
}

fn gone() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

impl AsyncWrite for AppWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Some(half) => Pin::new(half).poll_write(cx, data),
            None => Poll::Ready(Err(gone())),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Some(half) => Pin::new(half).poll_flush(cx),
            None => Poll::Ready(Err(gone())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Some(half) => {
                ready!(Pin::new(&mut *half).poll_shutdown(cx))?;
                end_as_usual(half.as_ref());
                Poll::Ready(Ok(()))
            }
            None => Poll::Ready(Err(gone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn only_a_connection_that_has_ended_in_order_ends_without_a_reset() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        for in_order in [true, false] {
            let (application, accepted) =
                tokio::join!(TcpStream::connect(address), listener.accept());
            let (reader, half) = accepted.unwrap().0.into_split();
            let mut writer = AppWriter::new(half);
            writer.write_all(b"hello").await.unwrap();
            let mut application = application.unwrap();
            application.read_exact(&mut [0; 5]).await.unwrap();
            if in_order {
                writer.ended();
            } else {
                drop(writer);
            }
            drop(reader);
            let mut more = [0; 1];
            let ended = application.read(&mut more);
            match tokio::time::timeout(Duration::from_secs(20), ended).await.unwrap() {
                Ok(more) => assert!(in_order && more == 0),
                Err(error) => {
                    assert!(!in_order && error.kind() == io::ErrorKind::ConnectionReset);
                }
            }
        }
    }

    #[tokio::test]
    async fn data_whose_end_was_written_arrives_whole_at_a_slow_reader() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (application, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (reader, half) = accepted.unwrap().0.into_split();
        let mut writer = AppWriter::new(half);
        let data = vec![7; 64 << 10];
        let mut written = writer.write(&data).await.unwrap();
        // The application reads nothing yet, so that the system soon takes no more.
        let full = poll_fn(|cx| {
            while let Poll::Ready(more) = Pin::new(&mut writer).poll_write(cx, &data) {
                written += more?;
            }
            Poll::Ready(io::Result::Ok(()))
        });
        full.await.unwrap();
        writer.shutdown().await.unwrap();
        drop((writer, reader));
        let (mut application, mut whole) = (application.unwrap(), Vec::new());
        let read = application.read_to_end(&mut whole);
        tokio::time::timeout(Duration::from_secs(20), read).await.unwrap().unwrap();
        assert_eq!(whole.len(), written);
    }
}
