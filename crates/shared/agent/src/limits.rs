//! The limits of the socket of an agent.

use std::time::Duration;

use weft_wire::FrameLimits;

/// Most connections that are served at once; further ones wait in the queue of the system.
pub const CONNECTIONS: usize = 16;
/// Most connections in that queue.
pub const WAITING: u32 = 64;
/// Time for a request with its parameters, and for the hello of a channel.
pub const REQUEST_TIME: Duration = Duration::from_secs(1);
/// Time for a client to take an answer.
pub const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Time from a message of a channel to the next one.
pub const SILENCE: Duration = Duration::from_secs(60);
/// Longest text in the parameters of a request, in bytes.
pub const MAX_TEXT: usize = 1024;
/// Most bytes of headers and of body of a message.
pub const FRAMES: FrameLimits = FrameLimits::new(16 * 1024, 64 * 1024);
/// Longest answer that a client reads, in bytes.
pub const MAX_ANSWER: usize = 64 * 1024 * 1024;
/// Limits of messages that a client reads.
pub const ANSWERS: FrameLimits = FrameLimits::new(1024 * 1024, 64 * 1024 * 1024);
/// Most entries of the folder of the sockets that are looked at.
pub const MAX_ENTRIES: usize = 65_536;
/// Time for a process to say what it is, in the list of processes.
pub const INFO_TIME: Duration = Duration::from_millis(1000);
/// Longest answer about what a process is, in bytes.
pub const MAX_INFO: usize = 64 * 1024;
