//! Congestion control: how much may be on its way, and when the next payload may go.
//!
//! [`Congestion`] is what a sender asks; there are three answers:
//!
//! * [`Adaptive`]: follows the delivery rate and the round-trip time of the empty path. What weft's
//!   ends use unless told otherwise.
//! * [`Original`]: the window of the original, for files that set its figures.
//! * [`Fixed`]: so many bytes, for circuits whose ends are in one process.

mod adaptive;
mod original;
mod rate;

use std::fmt;
use std::time::{Duration, Instant};

use crate::{Options, Path, WindowKind};
use adaptive::Adaptive;
use original::Original;

/// A payload's view of deliveries when it was sent. Times are nanoseconds since the circuit began.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SentMark {
    /// When it was sent.
    sent_at: u64,
    /// Bytes delivered by then.
    delivered: u64,
    /// When the last of them was.
    delivered_at: u64,
    /// When the latest payload among them had been sent.
    delivered_sent_at: u64,
    /// The application was the bottleneck then.
    idle: bool,
}

/// What an ack took out of flight.
#[derive(Debug)]
pub(crate) struct Acked {
    pub(crate) payloads: u64,
    pub(crate) bytes: u64,
    /// The mark of the payload among them that was sent last.
    pub(crate) newest: SentMark,
    /// Its round-trip time, if it was sent only once.
    pub(crate) rtt: Option<Duration>,
    /// Bytes on their way after this ack.
    pub(crate) in_flight: u64,
}

/// What decides how much is sent when. All counts are bytes with bookkeeping.
pub(crate) trait Congestion: fmt::Debug + Send + Sync {
    /// How much may be on its way.
    fn window(&self) -> u64;

    /// When the next payload may go; `None` is at once.
    fn next_send(&self) -> Option<Instant> {
        None
    }

    /// How much may be unacknowledged together with what the peer has not read yet.
    fn outstanding(&self) -> u64 {
        u64::MAX
    }

    /// A payload is sent, `again` or for the first time, beside `in_flight` on their way. Returns
    /// what it remembers for its ack.
    fn on_sent(&mut self, bytes: u64, in_flight: u64, again: bool, now: Instant) -> SentMark;

    /// An ack came that took something out of flight.
    fn on_acked(&mut self, acked: &Acked, now: Instant);

    /// So many payloads are lost, found out now.
    fn on_lost(&mut self, _payloads: u64) {}

    /// What is sent goes another way from now on: what was learnt of the one before is void.
    fn on_path_changed(&mut self, _now: Instant) {}

    /// There is room in the window and nothing to send, beside `in_flight` on their way.
    fn on_idle(&mut self, _in_flight: u64) {}

    /// What it makes of the path.
    fn path(&self) -> Path;
}

/// The window of a sender, whatever sizes it.
#[derive(Debug)]
pub struct Window(Box<dyn Congestion>);

impl Window {
    /// The congestion control that the options ask for.
    #[must_use]
    pub fn new(options: &Options, now: Instant) -> Self {
        Self(match options.window {
            WindowKind::Fixed(size) => Box::new(Fixed(size)),
            WindowKind::Adaptive => Box::new(Adaptive::new(options, now)),
            WindowKind::Original => Box::new(Original::new(options)),
        })
    }

    /// Bytes that may be on their way.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.0.window()
    }

    /// What decides.
    pub(crate) fn control(&mut self) -> &mut dyn Congestion {
        &mut *self.0
    }

    /// When the next payload may go; `None` is at once.
    pub(crate) fn next_send(&self) -> Option<Instant> {
        self.0.next_send()
    }
}

impl Window {
    /// How much may be unacknowledged together with what the peer has not read yet.
    pub(crate) fn outstanding(&self) -> u64 {
        self.0.outstanding()
    }

    /// What it makes of the path.
    pub(crate) fn path(&self) -> Path {
        self.0.path()
    }
}

/// So many bytes, always.
#[derive(Debug)]
struct Fixed(u64);

impl Congestion for Fixed {
    fn window(&self) -> u64 {
        self.0
    }

    fn on_sent(&mut self, _: u64, _: u64, _: bool, _: Instant) -> SentMark {
        SentMark::default()
    }

    fn on_acked(&mut self, _: &Acked, _: Instant) {}

    fn path(&self) -> Path {
        Path { phase: "fixed", ..Path::default() }
    }
}
