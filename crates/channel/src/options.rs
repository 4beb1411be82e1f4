//! What a channel is allowed to do.

use crate::frame_memory::FrameMemory;
use crate::heartbeat::HeartbeatOptions;
use crate::socket::PEER_TIMEOUT;
use std::time::Duration;
use tokio::runtime;
use weft_wire::FrameLimits;

/// Bounds of one send lane.
#[derive(Debug, Clone, Copy)]
pub struct LaneLimits {
    /// Most messages that wait.
    pub messages: usize,
    /// Most bytes that wait; a single message may always wait.
    pub bytes: usize,
}

impl Default for LaneLimits {
    fn default() -> Self {
        Self { messages: 256, bytes: 8 * 1024 * 1024 }
    }
}

/// Settings of a channel.
#[derive(Debug, Clone)]
pub struct ChannelOptions {
    /// What the channel is called in logs.
    pub label: String,
    /// How large a received message may be.
    pub frames: FrameLimits,
    /// How large it may be until [`ChannelHandle::judged`](crate::ChannelHandle::judged) is called;
    /// `None` for a peer that the gate has judged.
    pub unjudged: Option<FrameLimits>,
    /// What received messages that are not whole draw on; `None` for a peer that is trusted with
    /// the memory of this process.
    pub frame_memory: Option<FrameMemory>,
    /// How large a sent message may be.
    pub sends: FrameLimits,
    /// Bounds of each send lane.
    pub lanes: LaneLimits,
    /// How long a send waits for room where the caller does not say.
    pub send_timeout: Duration,
    /// Most requests that wait for replies.
    pub max_requests: usize,
    /// Heartbeats; `None` sends none, but answers those of the peer.
    pub heartbeat: Option<HeartbeatOptions>,
    /// How long the peer may take nothing while there is something to write, or leave unanswered
    /// what was sent; `None` for as long as the system allows.
    pub write_timeout: Option<Duration>,
    /// Keeps the kernel from queueing more unsent bytes than this, so that what is to be sent can
    /// still be scheduled here; `None` leaves the system's default.
    pub unsent_low_water: Option<u32>,
    /// Where the tasks of the channel's connections run; `None` is where it was established.
    pub runtime: Option<runtime::Handle>,
}

/// Unsent bytes the kernel may hold on links and SDK connections.
const UNSENT_LOW_WATER: u32 = 128 * 1024;

impl ChannelOptions {
    /// Settings of a channel that carries control messages.
    pub fn control(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            frames: FrameLimits::MESSAGES,
            unjudged: None,
            frame_memory: Some(FrameMemory::of_process()),
            sends: FrameLimits::MESSAGES,
            lanes: LaneLimits::default(),
            send_timeout: Duration::from_secs(10),
            max_requests: 4096,
            heartbeat: Some(HeartbeatOptions::CONTROL),
            write_timeout: Some(PEER_TIMEOUT),
            unsent_low_water: None,
            runtime: None,
        }
    }

    /// Settings of a link: data, with heartbeats.
    pub fn link(label: impl Into<String>) -> Self {
        Self {
            heartbeat: Some(HeartbeatOptions::LINK),
            unsent_low_water: Some(UNSENT_LOW_WATER),
            ..Self::control(label)
        }
    }

    /// Settings of an SDK connection: data, without heartbeats.
    pub fn edge(label: impl Into<String>) -> Self {
        Self { heartbeat: None, unsent_low_water: Some(UNSENT_LOW_WATER), ..Self::control(label) }
    }
}
