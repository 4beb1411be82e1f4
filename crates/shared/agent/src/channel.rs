//! The channel of an agent: messages after a request of op 0x15.

use std::io;

use tokio::net::UnixStream;
use tokio::time::timeout;
use weft_wire::frame::encode;
use weft_wire::hello::{Hello, HelloResult};
use weft_wire::{FrameLimits, Message, Outcome, content_type};

use crate::application::{AgentReply, Application};
use crate::limits::{FRAMES, REQUEST_TIME, SILENCE};
use crate::messages::{content_type as agent, header};
use crate::request::AgentRequest;
use crate::stream::{Messages, write};

/// What the agent can do, as a mask: bit 1, levels of the log by message.
const CAPABILITIES: &[u8] = &[0b10];

/// Serves a channel until its client closes it, is silent, or sends something else than messages.
pub(crate) async fn serve(
    mut stream: UnixStream,
    rest: Vec<u8>,
    application: &dyn Application,
) -> io::Result<()> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let mut messages = Messages::new(FrameLimits::HELLO, rest);
    let first = timeout(REQUEST_TIME, messages.next(&mut stream)).await.map_err(late)??;
    let Some(first) = first else { return Ok(()) };
    let hello = Hello::from_message(first).map_err(io::Error::other)?;
    let connection = format!("{:016x}", rand::random::<u64>());
    let mut result = HelloResult::accept(&hello, &connection, &application.info().id);
    result.headers.set(header::CAPABILITIES, CAPABILITIES);
    write(&mut stream, &encode(&result.to_message())).await?;
    messages.set_limits(FRAMES);
    let mut sequence = 0_i32;
    while let Some(message) = timeout(SILENCE, messages.next(&mut stream)).await.map_err(late)?? {
        let Some(AgentReply { message: reply, then }) = answer(&message, application).await else {
            continue;
        };
        sequence = sequence.wrapping_add(1);
        let reply = Message { sequence, ..reply.in_reply_to(&message) };
        let written = write(&mut stream, &encode(&reply)).await;
        if let Some(then) = then {
            then();
        }
        written?;
    }
    Ok(())
}

/// The reply to a message; none to one that wants none.
async fn answer(message: &Message, application: &dyn Application) -> Option<AgentReply> {
    if message.reply_for().is_some() {
        return None;
    }
    let request = match message.content_type {
        content_type::PING | content_type::LATENCY => {
            return Some(Outcome::success("").to_message().into());
        }
        content_type::HELLO
        | content_type::RESULT
        | content_type::LATENCY_RESPONSE
        | content_type::HEARTBEAT
        | content_type::RECONNECT_PING => return None,
        agent::SET_LEVEL => level(message).map(AgentRequest::SetLevel),
        agent::SET_MODULE_LEVEL => {
            level(message).map(|level| AgentRequest::SetModuleLevel(module(message), level))
        }
        agent::CLEAR_MODULE_LEVEL => Ok(AgentRequest::ClearModuleLevel(module(message))),
        _ => return Some(application.answer_message(message).await),
    };
    let done = match request {
        Ok(request) => application.answer(&request).await,
        Err(problem) => Err(problem),
    };
    // A text without the end of a line, which clients add.
    Some(AgentReply::outcome(done.map(|text| text.trim_end().to_owned())))
}

fn level(message: &Message) -> Result<crate::Level, String> {
    message.headers.get_str(header::LEVEL).unwrap_or_default().parse()
}

fn module(message: &Message) -> String {
    message.headers.get_str(header::MODULE).unwrap_or_default().to_owned()
}
