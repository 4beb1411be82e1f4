//! Carries data between a socket and a connection of the SDK.
//!
//! A socket is read only while the connection takes data, into a buffer that all connections of a
//! thread share. Data that arrives is written to the socket without a copy. An idle connection
//! therefore holds no buffer; only [`pipe`] has one of its own.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use weft_sdk::{Connection, MAX_MESSAGE, WriteHalf};
use weft_tunnel::{AppDatagrams, AppWriter, Datagrams};
use weft_xgress::PAYLOAD_SIZE;

use crate::ServiceTraffic;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; MAX_MESSAGE]);
}

/// Carries a stream until both directions are over, or one has failed. The program at the socket and the one at the
/// other end each see a regular end of the other's data only if that data has ended, and an error otherwise: also when
/// this future is dropped before.
pub async fn tcp(connection: Connection, stream: TcpStream, traffic: &ServiceTraffic) {
    let (mut from_network, to_network) = connection.into_split();
    let (mut reader, writer) = stream.into_split();
    let mut to_network = Unended { half: to_network, is_whole: false };
    let mut writer = AppWriter::new(writer);
    let sending = async {
        let sent = send(&mut reader, &mut to_network.half, traffic).await;
        to_network.is_whole = sent.is_ok();
        if let Err(problem) = &sent {
            tracing::debug!(%problem, "the direction of a connection into the network has failed");
        }
        sent
    };
    let receiving = async {
        while let Some(data) = from_network.read_message().await.map_err(Broken::Network)? {
            traffic.received(data.len());
            writer.write_all(&data).await.map_err(Broken::Socket)?;
        }
        writer.shutdown().await.map_err(Broken::Socket)
    };
    // If one side fails, the other one ends, too.
    match tokio::try_join!(sending, receiving) {
        Ok(_) => writer.ended(),
        // Data of a program at the socket that had ended before is still sent.
        Err(problem) => tracing::debug!(%problem, "a connection was cut; both of its sides end"),
    }
}

/// The side that failed.
enum Broken {
    Network(io::Error),
    Socket(io::Error),
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Network(error) => write!(f, "network: {error}"),
            Self::Socket(error) => write!(f, "socket: {error}"),
        }
    }
}

/// Reads the socket and writes to the network, until the socket has ended or the network takes no more
/// data. Succeeds, too, when the circuit is over: data that arrived from the network can still be read
/// then, and the reader of the network reports data that is missing.
async fn send(
    reader: &mut OwnedReadHalf,
    network: &mut WriteHalf,
    traffic: &ServiceTraffic,
) -> Result<(), Broken> {
    let over = network.over();
    let sending = async {
        while network.writable().await.is_ok() {
            let count = poll_fn(|context| poll_send(context, reader, network)).await?;
            if count == 0 {
                let _ = network.shutdown().await;
                return Ok(());
            }
            traffic.sent(count);
        }
        Ok(())
    };
    tokio::select! {
        sent = sending => sent,
        () = over => Ok(()),
    }
}

/// Reads the socket once and writes to the network, which has room; returns the number of bytes. A read
/// that does not fill the buffer has emptied the socket, so that no second call has to find that out.
fn poll_send(
    context: &mut Context<'_>,
    reader: &mut OwnedReadHalf,
    network: &mut WriteHalf,
) -> Poll<Result<usize, Broken>> {
    SCRATCH.with_borrow_mut(|scratch| {
        let mut buffer = ReadBuf::new(scratch.get_mut(..PAYLOAD_SIZE).unwrap_or_default());
        let read = ready!(Pin::new(reader).poll_read(context, &mut buffer));
        let data = buffer.filled();
        let written = read.map_err(Broken::Socket).and_then(|()| match data {
            [] => Ok(()),
            data => match network.try_write_message(data) {
                // The direction has ended meanwhile: the peer wants no more data.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                result => result.map_err(Broken::Network),
            },
        });
        Poll::Ready(written.map(|()| data.len()))
    })
}

/// Carries datagrams of a client until either side is done.
pub async fn client_datagrams(connection: Connection, client: Datagrams, traffic: &ServiceTraffic) {
    let (mut from_network, mut to_network) = connection.into_split();
    let sending = async {
        while let Some(datagram) = client.receive().await {
            if to_network.writable().await.is_err() {
                return;
            }
            traffic.sent(datagram.len());
            if to_network.try_write_message(&datagram).is_err() {
                return;
            }
        }
    };
    let receiving = async {
        while let Ok(Some(data)) = from_network.read_message().await {
            traffic.received(data.len());
            // A datagram that cannot be sent is dropped.
            let _ = client.answer(&data).await;
        }
    };
    tokio::select! {
        () = sending => {}
        () = receiving => {}
    }
}

/// Carries datagrams of an application until either side is done, or the conversation is idle: it ends
/// after `silence` to twice that time without a datagram in either direction. Clients, which end theirs
/// after a `silence` of their own, thus usually end first. `answered` is called when the application
/// first answers.
///
/// # Errors
/// When the network refuses the datagrams to the application.
pub async fn application_datagrams(
    connection: Connection,
    socket: AppDatagrams,
    silence: Duration,
    traffic: &ServiceTraffic,
    answered: impl FnOnce(),
) -> io::Result<()> {
    let moved = AtomicU64::new(0);
    let mut answered = Some(answered);
    let (mut from_network, mut to_network) = connection.into_split();
    let sending = async {
        while to_network.writable().await.is_ok() {
            let taken = socket.receive(|datagram| {
                let written = to_network.try_write_message(datagram);
                (datagram.len(), written)
            });
            let (count, written) = taken.await?;
            if let Some(answered) = answered.take() {
                answered();
            }
            match written {
                Ok(()) => {}
                // Datagrams may be lost.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(_) => break,
            }
            moved.fetch_add(1, Ordering::Relaxed);
            traffic.sent(count);
        }
        Ok(())
    };
    let receiving = async {
        while let Ok(Some(data)) = from_network.read_message().await {
            moved.fetch_add(1, Ordering::Relaxed);
            traffic.received(data.len());
            socket.send(&data).await?;
        }
        Ok(())
    };
    tokio::select! {
        sent = sending => sent,
        received = receiving => received,
        () = idle(&moved, silence) => Ok(()),
    }
}

/// Returns once a count is the same at two looks in a row.
async fn idle(moved: &AtomicU64, between: Duration) {
    let mut before = moved.load(Ordering::Relaxed);
    loop {
        tokio::time::sleep(between).await;
        let now = moved.load(Ordering::Relaxed);
        if now == before {
            return;
        }
        before = now;
    }
}

/// The reader of the output of [`pipe`] has closed it.
#[derive(Debug, thiserror::Error)]
#[error("the output accepts no more data: {0}")]
struct OutputClosed(io::Error);

fn of_output(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => io::Error::new(error.kind(), OutputClosed(error)),
        _ => error,
    }
}

/// True if [`pipe`] ended because the reader of its output has closed it: the connection had not failed.
#[must_use]
pub fn output_is_closed(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<OutputClosed>())
}

/// Writes the bytes of `input` to the network and those of the network to `output`, until both
/// directions are over, or the peer has closed both.
///
/// # Errors
/// When the connection failed, `input` cannot be read, or `output` accepts no more data.
pub async fn pipe(
    connection: Connection,
    mut input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let (mut from_network, to_network) = connection.into_split();
    let over = to_network.over();
    let mut to_network = Unended { half: to_network, is_whole: false };
    let sending = async {
        let to_network = &mut to_network;
        let mut buffer = vec![0; PAYLOAD_SIZE];
        loop {
            let count = input.read(&mut buffer).await?;
            if count == 0 {
                to_network.is_whole = true;
                return to_network.half.shutdown().await;
            }
            // A peer that accepts no more data may still send some.
            let data = buffer.get(..count).unwrap_or_default();
            if to_network.half.write_all(data).await.is_err() {
                return Ok(());
            }
        }
    };
    let sending = async {
        tokio::select! {
            sent = sending => sent,
            () = over => Ok(()),
        }
    };
    let receiving = async {
        while let Some(data) = from_network.read_message().await? {
            output.write_all(&data).await.map_err(of_output)?;
            output.flush().await.map_err(of_output)?;
        }
        output.shutdown().await.map_err(of_output)
    };
    tokio::try_join!(sending, receiving).map(drop)
}

/// A direction into the network. If it is dropped before its input has ended, because of a fault or an
/// interruption, the peer is told that data is missing.
struct Unended {
    half: WriteHalf,
    is_whole: bool,
}

impl Drop for Unended {
    fn drop(&mut self) {
        if !self.is_whole {
            self.half.reset();
        }
    }
}
