//! Congestion control: how many bytes may be on their way, and when the next payload may be sent.
//!
//! [`Congestion`] is the trait that a sender uses. It has three implementations:
//!
//! * [`Adaptive`]: follows the delivery rate and the round-trip time of the empty path. The default of
//!   weft's ends.
//! * [`Original`]: the window of the original, for files that set its figures.
//! * [`Fixed`]: a fixed number of bytes, for circuits whose ends are in one process.

mod adaptive;
mod control;
mod original;
mod rate;

use std::time::Instant;

use adaptive::Adaptive;
use control::Congestion;
pub(crate) use control::{Acked, SentMark};
use original::Original;

use crate::{Options, PathState, WindowKind};

/// The window of a sender, sized by one of the implementations.
#[derive(Debug)]
pub struct CongestionWindow(Box<dyn Congestion>);

impl CongestionWindow {
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

    /// The implementation.
    pub(crate) fn control(&mut self) -> &mut dyn Congestion {
        &mut *self.0
    }

    /// The time at which the next payload may be sent; `None` means at once.
    pub(crate) fn next_send(&self) -> Option<Instant> {
        self.0.next_send()
    }
}

impl CongestionWindow {
    /// Most unacknowledged bytes together with the peer's unread bytes.
    pub(crate) fn outstanding(&self) -> u64 {
        self.0.outstanding()
    }

    /// True if the path is too short for pacing.
    pub(crate) fn is_near(&self) -> bool {
        self.0.is_near()
    }

    /// The path as the congestion control sees it.
    pub(crate) fn path(&self) -> PathState {
        self.0.path()
    }
}

/// A window of a fixed number of bytes.
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

    fn path(&self) -> PathState {
        PathState { phase: "fixed", ..PathState::default() }
    }
}
