//! The client of an agent: requests and channels.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;
use weft_wire::frame::encode;
use weft_wire::hello::{HELLO_SEQUENCE, Hello, HelloResult};
use weft_wire::{FrameLimits, Message};

use crate::limits::{ANSWERS, MAX_ANSWER};
use crate::request::AgentRequest;
use crate::stream::Messages;

/// Why a process did not answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The socket cannot be used, or the connection broke.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// No answer in time.
    #[error("it said nothing for {} s", .0.as_secs())]
    Silent(Duration),
    /// More bytes than anybody needs.
    #[error("its answer has more than {MAX_ANSWER} bytes")]
    TooLong,
    /// The answer of another kind of process, as its text says.
    #[error("{0}")]
    Refused(String),
}

/// Sends a request, and reads the answer.
///
/// # Errors
/// When the process does not answer in this time.
pub async fn ask(
    socket: &Path,
    request: &AgentRequest,
    within: Duration,
) -> Result<Vec<u8>, AskError> {
    ask_for(socket, request, within, MAX_ANSWER).await
}

/// [`ask`] for an answer of at most `most` bytes.
pub(crate) async fn ask_for(
    socket: &Path,
    request: &AgentRequest,
    within: Duration,
    most: usize,
) -> Result<Vec<u8>, AskError> {
    let asking = async {
        let mut stream = UnixStream::connect(socket).await?;
        stream.write_all(&request.to_bytes()).await?;
        read_answer(stream, most).await
    };
    timeout(within, asking).await.unwrap_or(Err(AskError::Silent(within)))
}

/// Reads an answer to its end.
pub(crate) async fn read_answer(stream: UnixStream, most: usize) -> Result<Vec<u8>, AskError> {
    let mut answer = Vec::new();
    stream.take(most as u64 + 1).read_to_end(&mut answer).await?;
    if answer.len() > most { Err(AskError::TooLong) } else { Ok(answer) }
}

/// A channel to an agent.
pub struct AgentChannel {
    stream: UnixStream,
    messages: Messages,
    sequence: i32,
    within: Duration,
}

impl AgentChannel {
    /// Opens a channel to a process of this kind; 0 for any kind. Every answer has to come in this time.
    ///
    /// # Errors
    /// When the process is of another kind, or does not answer in time.
    pub async fn open(socket: &Path, app: u8, within: Duration) -> Result<Self, AskError> {
        let opening = async {
            let mut stream = UnixStream::connect(socket).await?;
            stream.write_all(&AgentRequest::Channel(app).to_bytes()).await?;
            stream.write_all(&encode(&Hello::new("agent").to_message())).await?;
            let mut first = [0; 4];
            stream.read_exact(&mut first).await?;
            if first != weft_wire::frame::MAGIC {
                let rest = read_answer(stream, MAX_ANSWER).await?;
                let text = String::from_utf8_lossy(&[&first[..], &rest].concat()).trim().to_owned();
                return Err(AskError::Refused(text));
            }
            let mut messages = Messages::new(FrameLimits::HELLO, first.to_vec());
            let answer = messages.next(&mut stream).await?;
            let answer = answer.ok_or(io::ErrorKind::UnexpectedEof).map_err(io::Error::from)?;
            let result =
                HelloResult::from_message(answer, HELLO_SEQUENCE).map_err(io::Error::other)?;
            if !result.success {
                return Err(AskError::Refused(result.text));
            }
            messages.set_limits(ANSWERS);
            Ok(Self { stream, messages, sequence: 0, within })
        };
        timeout(within, opening).await.unwrap_or(Err(AskError::Silent(within)))
    }

    /// Sends a message, and reads its reply.
    ///
    /// # Errors
    /// When there is no reply in time.
    pub async fn request(&mut self, message: Message) -> Result<Message, AskError> {
        self.sequence = self.sequence.wrapping_add(1);
        let (within, sequence) = (self.within, self.sequence);
        let asking = async {
            self.stream.write_all(&encode(&Message { sequence, ..message })).await?;
            loop {
                let next = self.messages.next(&mut self.stream).await?;
                let next = next.ok_or(io::ErrorKind::UnexpectedEof).map_err(io::Error::from)?;
                if next.reply_for() == Some(sequence) {
                    return Ok(next);
                }
            }
        };
        timeout(within, asking).await.unwrap_or(Err(AskError::Silent(within)))
    }
}

impl std::fmt::Debug for AgentChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentChannel").field("within", &self.within).finish_non_exhaustive()
    }
}
