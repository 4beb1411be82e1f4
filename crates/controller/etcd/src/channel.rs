//! The connection to one of the members of etcd.

use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::http2::{self, SendRequest};
use hyper::header::HeaderValue;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use prost::Message;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use weft_wire::etcd::{AuthenticateRequest, AuthenticateResponse};

use crate::EtcdOptions;
use crate::grpc::{self, Answers, Body, CallError, code};

/// The time for a connection to a member, with its handshakes.
const CONNECT: Duration = Duration::from_millis(1_500);
/// The time for the answer to a call.
const CALL: Duration = Duration::from_millis(1_800);
/// After this time without a sign of life a connection is given up.
const ALIVE: Duration = Duration::from_secs(3);
/// Windows of HTTP/2, in bytes.
const WINDOW: u32 = 4 << 20;

/// Calls to etcd, over a connection to one member at a time.
pub(crate) struct Channel {
    options: EtcdOptions,
    state: Mutex<State>,
    /// One connection is made at a time.
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    connection: Option<Connection>,
    /// The member to try first.
    next: usize,
}

#[derive(Clone)]
struct Connection {
    number: u64,
    /// Scheme and address.
    origin: Arc<str>,
    send: SendRequest<Body>,
    token: Option<HeaderValue>,
}

impl Channel {
    pub(crate) fn new(options: EtcdOptions) -> Self {
        Self { options, state: Mutex::default(), connecting: tokio::sync::Mutex::default() }
    }

    /// Calls with one message, once. After a refused token the call, which was not carried out, is repeated with a new
    /// one.
    pub(crate) async fn call<M: Message + Default>(
        &self,
        path: &str,
        message: &impl Message,
    ) -> Result<M, CallError> {
        match self.call_once(path, message).await {
            Err(error) if self.options.user.is_some() && has_old_token(&error) => {
                self.call_once(path, message).await
            }
            answer => answer,
        }
    }

    /// The addresses of the members.
    pub(crate) fn endpoints(&self) -> &[String] {
        &self.options.endpoints
    }

    /// Calls one member, over a connection of its own.
    pub(crate) async fn call_at<M: Message + Default>(
        &self,
        endpoint: &str,
        path: &str,
        message: &impl Message,
    ) -> Result<M, CallError> {
        let late = |_| Err("no connection in time".to_owned());
        let connection = tokio::time::timeout(CONNECT, self.connect(endpoint)).await;
        let connection = connection.unwrap_or_else(late).map_err(CallError::Unsent)?;
        answer_of(connection, path, message).await
    }

    async fn call_once<M: Message + Default>(
        &self,
        path: &str,
        message: &impl Message,
    ) -> Result<M, CallError> {
        let connection = self.connection().await?;
        let number = connection.number;
        let answer = answer_of(connection, path, message).await;
        self.note(number, answer.as_ref().err());
        answer
    }

    /// Begins a call with a stream of messages in each direction, at a member with a leader.
    pub(crate) async fn stream(&self, path: &str, body: Body) -> Result<Answers, CallError> {
        let connection = self.connection().await?;
        let number = connection.number;
        let opened = tokio::time::timeout(CALL, open(connection, path, true, body)).await;
        let late = |_| Err(CallError::Unanswered("it does not answer".to_owned()));
        let answers = opened.unwrap_or_else(late);
        self.note(number, answers.as_ref().err());
        answers
    }

    /// Gives a connection up after an error for which another member may do better.
    fn note(&self, number: u64, error: Option<&CallError>) {
        let is_bad = error.is_some_and(|error| match error {
            CallError::Unsent(_) | CallError::Unanswered(_) => true,
            CallError::Status { code, .. } => *code == code::UNAVAILABLE || has_old_token(error),
        });
        if is_bad {
            self.give_up(number);
        }
    }

    fn give_up(&self, number: u64) {
        let mut state = self.state.lock();
        if state.connection.as_ref().is_some_and(|known| known.number == number) {
            state.connection = None;
            state.next = state.next.wrapping_add(1);
        }
    }

    fn open_connection(&self) -> Option<Connection> {
        let state = self.state.lock();
        state.connection.as_ref().filter(|known| !known.send.is_closed()).cloned()
    }

    async fn connection(&self) -> Result<Connection, CallError> {
        if let Some(connection) = self.open_connection() {
            return Ok(connection);
        }
        let _one = self.connecting.lock().await;
        if let Some(connection) = self.open_connection() {
            return Ok(connection);
        }
        let first = self.state.lock().next;
        let mut failures = Vec::new();
        for at in 0..self.options.endpoints.len() {
            let at = first.wrapping_add(at) % self.options.endpoints.len();
            let Some(endpoint) = self.options.endpoints.get(at) else { continue };
            // Whoever gives up waiting for this one begins with the next one later.
            self.state.lock().next = at.wrapping_add(1);
            match tokio::time::timeout(CONNECT, self.connect(endpoint)).await {
                Ok(Ok(connection)) => {
                    let mut state = self.state.lock();
                    state.next = at;
                    state.connection = Some(connection.clone());
                    return Ok(connection);
                }
                Ok(Err(why)) => failures.push(format!("{endpoint}: {why}")),
                Err(_) => failures.push(format!("{endpoint}: no connection in time")),
            }
        }
        Err(CallError::Unsent(format!("etcd cannot be reached ({})", failures.join("; "))))
    }

    async fn connect(&self, endpoint: &str) -> Result<Connection, String> {
        let stream = TcpStream::connect(endpoint).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let send = match &self.options.tls {
            None => handshake(stream).await?,
            Some(tls) => {
                let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
                let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await;
                handshake(stream.map_err(|error| error.to_string())?).await?
            }
        };
        let scheme = if self.options.tls.is_some() { "https" } else { "http" };
        let (number, origin) = (rand::random(), format!("{scheme}://{endpoint}").into());
        let mut connection = Connection { number, origin, send, token: None };
        if let Some((name, password)) = &self.options.user {
            let (name, password) = (name.clone(), password.clone());
            let body = grpc::body(&AuthenticateRequest { name, password });
            let answers = open(connection.clone(), "Auth/Authenticate", false, body).await;
            let mut answers = answers.map_err(|error| error.to_string())?;
            let answer = answers.next::<AuthenticateResponse>().await;
            let answer = answer.map_err(|error| error.to_string())?.unwrap_or_default();
            let mut token =
                HeaderValue::from_str(&answer.token).map_err(|error| error.to_string())?;
            token.set_sensitive(true);
            connection.token = Some(token);
        }
        Ok(connection)
    }
}

/// Whether etcd wants a new token: the old one has expired, or users or roles have changed since. The call was not
/// carried out.
fn has_old_token(error: &CallError) -> bool {
    match error {
        CallError::Status { code: code::UNAUTHENTICATED, .. } => true,
        CallError::Status { code: code::INVALID_ARGUMENT, message } => {
            message.contains("revision of auth store is old")
                || message.contains("user name is empty")
        }
        _ => false,
    }
}

async fn handshake<S>(stream: S) -> Result<SendRequest<Body>, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (send, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(ALIVE)
        .keep_alive_timeout(ALIVE)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to etcd has ended");
        }
    });
    Ok(send)
}

/// Sends a request, and returns the one message of its answer.
async fn answer_of<M: Message + Default>(
    connection: Connection,
    path: &str,
    message: &impl Message,
) -> Result<M, CallError> {
    let answer = async {
        let mut answers = open(connection, path, false, grpc::body(message)).await?;
        let none = || CallError::Unanswered("it answers without a message".to_owned());
        let answer = answers.next().await?.ok_or_else(none)?;
        // The status is in what follows.
        answers.next::<M>().await?;
        Ok(answer)
    };
    let late = |_| Err(CallError::Unanswered("it does not answer".to_owned()));
    tokio::time::timeout(CALL, answer).await.unwrap_or_else(late)
}

/// Sends a request, and returns the messages of its answer.
async fn open(
    mut connection: Connection,
    path: &str,
    needs_leader: bool,
    body: Body,
) -> Result<Answers, CallError> {
    let (token, origin) = (connection.token.clone(), connection.origin.clone());
    let request = grpc::request(&origin, path, (token, needs_leader), body)?;
    let ready = connection.send.ready().await;
    ready.map_err(|error| CallError::Unsent(explain(&origin, &error)))?;
    let answer = connection.send.try_send_request(request).await;
    let answer = answer.map_err(|mut failed| {
        let why = explain(&origin, failed.error());
        failed.take_message().map_or(CallError::Unanswered(why.clone()), |_| CallError::Unsent(why))
    })?;
    grpc::check_head(answer)
}

/// An error of a connection to etcd, with its causes.
fn explain(origin: &str, error: &hyper::Error) -> String {
    let mut text = format!("the connection to etcd at {origin} has failed: {error}");
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
