//! Conversations in which every beat is answered as long as they live.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};
use tokio_util::task::AbortOnDropHandle;

use super::{Dials, Hosts, Right};
use crate::network::until_some;

/// The interval at which a flow says something.
pub(super) const BEAT: Duration = Duration::from_millis(25);
/// A flow that was not answered so often in a row has ended.
const SILENT: u64 = 20;

/// A conversation in which every beat is answered as long as it lives.
pub(super) struct Flow {
    pub(super) of: Right,
    pub(super) dials: Dials,
    pub(super) hosts: Hosts,
    pub(super) answered: Arc<AtomicU64>,
    silent: Arc<AtomicU64>,
    _task: AbortOnDropHandle<()>,
}

impl Flow {
    pub(super) fn begin(of: Right, (dials, hosts): (Dials, Hosts), mut line: Line) -> Self {
        let (answered, silent) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let (count, missed) = (Arc::clone(&answered), Arc::clone(&silent));
        let task = tokio::spawn(async move {
            loop {
                if line.beat().await {
                    count.fetch_add(1, Ordering::Relaxed);
                    missed.store(0, Ordering::Relaxed);
                } else {
                    missed.fetch_add(1, Ordering::Relaxed);
                }
                tokio::time::sleep(BEAT).await;
            }
        });
        Self { of, dials, hosts, answered, silent, _task: AbortOnDropHandle::new(task) }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.silent.load(Ordering::Relaxed) >= SILENT
    }
}

pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// The way to the service.
pub(super) enum Line {
    Stream(Box<dyn Stream>),
    Datagrams(UdpSocket),
}

impl Line {
    /// Says something; true if it came back. What a stream says comes back at some time, or never.
    pub(super) async fn beat(&mut self) -> bool {
        let (said, mut heard) = ([7; 8], [0; 8]);
        match self {
            Self::Stream(stream) => {
                stream.write_all(&said).await.is_ok()
                    && stream.flush().await.is_ok()
                    && stream.read_exact(&mut heard).await.is_ok()
            }
            Self::Datagrams(socket) => {
                let _ = socket.send(&said).await;
                tokio::time::timeout(BEAT, socket.recv(&mut heard)).await.is_ok_and(|it| it.is_ok())
            }
        }
    }
}

/// An application that sends everything back at once, over TCP and UDP at one port.
pub(super) async fn application() -> u16 {
    let (listener, socket) = until_some(async || {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = UdpSocket::bind(listener.local_addr().unwrap()).await.ok()?;
        Some((listener, socket))
    })
    .await;
    let port = socket.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.split();
                tokio::io::copy(&mut reader, &mut writer).await
            });
        }
    });
    tokio::spawn(async move {
        let mut buffer = vec![0; 2000];
        loop {
            if let Ok((length, from)) = socket.recv_from(&mut buffer).await {
                let _ = socket.send_to(&buffer[..length], from).await;
            }
        }
    });
    port
}
