//! The options of a channel.

use std::time::Duration;

use weft_wire::FrameLimits;

use crate::frame_memory::FrameMemory;
use crate::heartbeat::HeartbeatOptions;
use crate::socket::PEER_TIMEOUT;
use crate::threads::Threads;

/// The limits of one send lane.
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

/// The options of a channel.
#[derive(Debug, Clone)]
pub struct ChannelOptions {
    /// The name of the channel in logs.
    pub label: String,
    /// Largest received message.
    pub frames: FrameLimits,
    /// Largest received message until [`ChannelHandle::judged`](crate::ChannelHandle::judged) is
    /// called; `None` if the gate has judged the peer.
    pub unjudged: Option<FrameLimits>,
    /// The budget of incomplete messages; `None` if the peer is trusted with the memory of this
    /// process.
    pub frame_memory: Option<FrameMemory>,
    /// Largest sent message.
    pub sends: FrameLimits,
    /// The limits of each send lane.
    pub lanes: LaneLimits,
    /// How long a send waits for room by default.
    pub send_timeout: Duration,
    /// Most requests that wait for replies.
    pub max_requests: usize,
    /// Heartbeats; `None` sends none, but answers those of the peer.
    pub heartbeat: Option<HeartbeatOptions>,
    /// How long the peer may accept no bytes while some are to be written, or leave sent bytes
    /// unacknowledged; `None` leaves that to the system.
    pub write_timeout: Option<Duration>,
    /// Most unsent bytes in the kernel, so that the order of later messages can still be chosen
    /// here; `None` leaves the system's default.
    pub unsent_low_water: Option<u32>,
    /// The threads of the connections' tasks; `None` is the runtime on which the channel was
    /// established.
    pub threads: Option<Threads>,
}

/// Most unsent bytes in the kernel, on links and SDK channels.
const UNSENT_LOW_WATER: u32 = 128 * 1024;

impl ChannelOptions {
    /// The options of a control channel.
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
            threads: None,
        }
    }

    /// The options of a link: data, with heartbeats.
    pub fn link(label: impl Into<String>) -> Self {
        Self {
            heartbeat: Some(HeartbeatOptions::LINK),
            unsent_low_water: Some(UNSENT_LOW_WATER),
            ..Self::control(label)
        }
    }

    /// How long the peer may leave sent bytes unacknowledged, or accept none, on one connection; `None` leaves that to
    /// the system. It leaves time for several probes, of which each may be lost. A peer of which nothing at all comes
    /// is the matter of the heartbeats.
    pub(crate) fn peer_timeout(&self) -> Option<Duration> {
        Some(self.write_timeout?.max(PEER_TIMEOUT))
    }

    /// The options of an SDK channel: data, without heartbeats.
    pub fn edge(label: impl Into<String>) -> Self {
        Self { heartbeat: None, unsent_low_water: Some(UNSENT_LOW_WATER), ..Self::control(label) }
    }
}
