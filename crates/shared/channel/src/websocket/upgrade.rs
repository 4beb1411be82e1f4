//! The request that makes a connection a WebSocket, and its answer (RFC 6455, section 4).

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;
use tungstenite::handshake::client::{Response, generate_request};
use tungstenite::handshake::derive_accept_key;
use tungstenite::handshake::machine::TryParse;
use tungstenite::handshake::server::{Request, create_response, write_response};
use tungstenite::http;
use tungstenite::protocol::Role;

use super::outer::OuterTls;
use super::{PATH, WebSocketLine, WebSocketOptions};

/// Largest header of a request or an answer, in bytes.
const MAX_HEAD: usize = 16 * 1024;

/// Serves the one request of a connection.
pub(super) async fn accept(
    mut stream: TlsStream<TcpStream>,
    options: &WebSocketOptions,
) -> io::Result<WebSocketLine> {
    let reading = tokio::time::timeout(options.read_timeout, read_head::<Request>(&mut stream));
    let read = reading.await.map_err(|_| late("no request in time"))?;
    let (request, rest) = match read {
        Ok(read) => read,
        Err(problem) => {
            if problem.kind() == io::ErrorKind::InvalidData {
                refuse(&mut stream, 400, options.write_timeout).await;
            }
            return Err(problem);
        }
    };
    if request.uri().path() != PATH {
        refuse(&mut stream, 404, options.write_timeout).await;
        return Err(invalid("a request for another path"));
    }
    let response = match create_response(&request) {
        Ok(response) => response,
        Err(problem) => {
            refuse(&mut stream, 400, options.write_timeout).await;
            return Err(invalid(problem));
        }
    };
    let mut head = Vec::new();
    write_response(&mut head, &response).map_err(invalid)?;
    write(&mut stream, &head, options.write_timeout).await?;
    let (socket, tls) = into_parts(stream);
    Ok(WebSocketLine::new(OuterTls::new(socket, tls), Role::Server, rest, options))
}

/// Asks the other side to open a WebSocket.
pub(crate) async fn dial(
    mut stream: TlsStream<TcpStream>,
    authority: &str,
) -> io::Result<WebSocketLine> {
    let key = tungstenite::handshake::client::generate_key();
    let request = http::Request::get(format!("wss://{authority}{PATH}"))
        .header("Host", authority)
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", &key)
        .body(())
        .map_err(invalid)?;
    let (head, key) = generate_request(request).map_err(invalid)?;
    stream.write_all(&head).await?;
    stream.flush().await?;
    let (answer, rest) = read_head::<Response>(&mut stream).await?;
    let accepted = answer.headers().get("Sec-WebSocket-Accept").map(http::HeaderValue::as_bytes);
    if answer.status() != http::StatusCode::SWITCHING_PROTOCOLS {
        return Err(invalid(format!("the answer is {}", answer.status())));
    }
    if accepted != Some(derive_accept_key(key.as_bytes()).as_bytes()) {
        return Err(invalid("the answer is not for this request"));
    }
    let (socket, tls) = into_parts(stream);
    let outer = OuterTls::new(socket, tls);
    let mut line = WebSocketLine::new(outer, Role::Client, rest, &WebSocketOptions::default());
    // The dialed peer is trusted.
    line.judged();
    Ok(line)
}

/// Reads a header, and the bytes that followed it.
async fn read_head<T: TryParse>(stream: &mut TlsStream<TcpStream>) -> io::Result<(T, Vec<u8>)> {
    let mut buffer = Vec::new();
    let mut seen = 0;
    loop {
        if buffer.len() >= MAX_HEAD {
            return Err(invalid(format!(
                "the head of the HTTP message is longer than {MAX_HEAD} bytes"
            )));
        }
        let room = (MAX_HEAD - buffer.len()).min(2048);
        if (&mut *stream).take(room as u64).read_buf(&mut buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // A header is parsed once it is complete, however small its pieces are.
        let from = usize::saturating_sub(seen, 3);
        let is_whole =
            buffer.get(from..).is_some_and(|new| new.windows(4).any(|end| end == b"\r\n\r\n"));
        seen = buffer.len();
        if is_whole {
            let parsed = T::try_parse(&buffer).map_err(invalid)?;
            let (size, head) = parsed.ok_or_else(|| invalid("a head that makes no sense"))?;
            return Ok((head, buffer.split_off(size)));
        }
    }
}

/// Answers that there is no WebSocket for this request, and closes the connection.
async fn refuse(stream: &mut TlsStream<TcpStream>, status: u16, patience: Duration) {
    let reason = if status == 404 { "Not Found" } else { "Bad Request" };
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nConnection: close\r\nContent-Length: 0\r\n\
         Sec-WebSocket-Version: 13\r\n\r\n"
    );
    if write(stream, head.as_bytes(), patience).await.is_ok() {
        let _ = tokio::time::timeout(patience, stream.shutdown()).await;
    }
}

async fn write(
    stream: &mut TlsStream<TcpStream>,
    head: &[u8],
    patience: Duration,
) -> io::Result<()> {
    let writing = async {
        stream.write_all(head).await?;
        stream.flush().await
    };
    tokio::time::timeout(patience, writing).await.map_err(|_| late("the answer was not taken"))?
}

fn late(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what.to_owned())
}

fn invalid(problem: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

/// Takes a TLS stream apart: the socket, and the state of TLS.
fn into_parts(stream: TlsStream<TcpStream>) -> (TcpStream, rustls::Connection) {
    match stream {
        TlsStream::Client(stream) => {
            let (socket, tls) = stream.into_inner();
            (socket, tls.into())
        }
        TlsStream::Server(stream) => {
            let (socket, tls) = stream.into_inner();
            (socket, tls.into())
        }
    }
}
