//! Serves the socket of an agent: who may connect, one request for each connection, the answer.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::application::Application;
use crate::channel;
use crate::limits::{CONNECTIONS, REQUEST_TIME};
use crate::place::Place;
use crate::processes::remove_stale;
use crate::request::{AgentRequest, RequestProblem};
use crate::socket::{Bound, SocketError, folder};
use crate::stream::write;

/// Most bytes that are read and thrown away behind the last answer.
const MAX_REST: u64 = 64 * 1024;
/// The pause after the system could not accept a connection.
const AGAIN: Duration = Duration::from_secs(1);

/// An agent that listens, until this is dropped; then its socket is gone, too.
#[derive(Debug)]
pub struct Served {
    bound: Arc<Bound>,
    _task: AbortOnDropHandle<()>,
}

impl Served {
    /// Makes the socket and serves it. Sockets that dead processes of this user left behind are removed.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn start(place: &Place, application: Arc<dyn Application>) -> Result<Self, SocketError> {
        remove_stale(&folder());
        let bound = Arc::new(Bound::make(place)?);
        let task = tokio::spawn(accept(Arc::clone(&bound), application));
        Ok(Self { bound, _task: AbortOnDropHandle::new(task) })
    }

    /// The path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.bound.path
    }
}

impl Drop for Served {
    /// At once: the task may outlive the program's last moments.
    fn drop(&mut self) {
        self.bound.remove();
    }
}

async fn accept(bound: Arc<Bound>, application: Arc<dyn Application>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut served = tokio::task::JoinSet::new();
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        while served.try_join_next().is_some() {}
        let stream = next(&bound.listener).await;
        let application = Arc::clone(&application);
        served.spawn(async move {
            let _place = place;
            if let Err(problem) = serve(stream, &*application).await {
                tracing::debug!(%problem, "a connection to the agent");
            }
        });
    }
}

/// The next connection of somebody who may connect. Others get nothing, and take up no place.
async fn next(listener: &UnixListener) -> UnixStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) if is_allowed(&stream) => return stream,
            Ok(_) => tracing::debug!("another user has connected to the agent, and gets nothing"),
            Err(problem) => {
                tracing::debug!(%problem, "the agent accepts no connection for now");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// Whether the client is a process of the user of this one, or of root.
fn is_allowed(stream: &UnixStream) -> bool {
    stream
        .peer_cred()
        .is_ok_and(|peer| may_connect(peer.uid(), rustix::process::geteuid().as_raw()))
}

/// Whether a process of this user may connect to one of the other.
pub(crate) fn may_connect(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

async fn serve(mut stream: UnixStream, application: &dyn Application) -> io::Result<()> {
    let read = timeout(REQUEST_TIME, read_request(&mut stream));
    let (request, rest) =
        match read.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))? {
            Ok(read) => read,
            // Who sends something else is answered nothing.
            Err(RequestProblem::Magic) => return Ok(()),
            Err(problem) => return finish(&mut stream, problem.to_string().as_bytes()).await,
        };
    let answer = match &request {
        AgentRequest::Info => application.info().plain(),
        AgentRequest::InfoAndCapabilities => application.info().with_capabilities(),
        AgentRequest::Channel(app) if *app == 0 || *app == application.kind().number() => {
            return channel::serve(stream, rest, application).await;
        }
        AgentRequest::Channel(app) => {
            let kind = application.kind().name();
            format!("invalid app id {app}: this process is a {kind}\n")
        }
        request => application.answer(request).await.unwrap_or_else(|problem| problem),
    };
    finish(&mut stream, answer.as_bytes()).await
}

/// Writes the last answer, and waits a moment for the end of the connection: what a client still sends, such as its hello
/// after a refused channel, would have the system throw the answer away.
async fn finish(stream: &mut UnixStream, answer: &[u8]) -> io::Result<()> {
    write(stream, answer).await?;
    stream.shutdown().await?;
    let mut rest = stream.take(MAX_REST);
    let _ = timeout(REQUEST_TIME, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
    Ok(())
}

/// Reads one request, and what is there behind it.
async fn read_request(
    stream: &mut UnixStream,
) -> io::Result<Result<(AgentRequest, Vec<u8>), RequestProblem>> {
    let mut bytes = Vec::with_capacity(AgentRequest::LONGEST);
    loop {
        match AgentRequest::parse(&bytes) {
            Ok(Some((request, length))) => return Ok(Ok((request, bytes.split_off(length)))),
            Ok(None) => {}
            Err(problem) => return Ok(Err(problem)),
        }
        let room = AgentRequest::LONGEST.saturating_sub(bytes.len()) as u64;
        if (&mut *stream).take(room).read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
