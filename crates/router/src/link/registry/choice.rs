//! The choice between two links with one key: both routers keep the one with the smaller id.

use std::time::{Duration, Instant};

/// A link that was preferred to this many others gives way to the next one, because the peer does
/// not know the link.
const MAX_REJECTED: u32 = 5;

/// A link that was opened.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// A number that is unique in this process.
    pub(crate) number: u64,
    pub(crate) key: String,
    pub(crate) id: String,
    pub(crate) iteration: u32,
    /// The address that was dialed; `None` if the peer dialed.
    pub(crate) dialed: Option<String>,
    /// The time at which the link was opened.
    pub(crate) since: Instant,
}

/// The decision on an opened link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The link is taken.
    Taken,
    /// The link takes the place of another one, which is closed after a while.
    Replaces { number: u64, id: String, iteration: u32, close_after: Duration },
    /// Another link stays. This one is closed after a while, so that a peer that decides otherwise has
    /// time.
    Refused { close_after: Duration },
    /// This router dialed the link and does not want it any more. The link is closed for this reason.
    Unwanted(&'static str),
}

/// The link that was taken for a key.
#[derive(Debug)]
pub(super) struct TakenLink {
    pub(super) link: Candidate,
    /// The number of links that this one was preferred to.
    rejected: u32,
}

impl TakenLink {
    pub(super) fn new(link: Candidate) -> Self {
        Self { link, rejected: 0 }
    }

    /// Decides between this link and another one with the same key.
    pub(super) fn or(&mut self, other: &Candidate) -> Verdict {
        if self.link.id < other.id && self.rejected < MAX_REJECTED {
            self.rejected += 1;
            let wait = if other.dialed.is_some() { 0 } else { 30 };
            return Verdict::Refused { close_after: Duration::from_secs(wait) };
        }
        Verdict::Replaces {
            number: self.link.number,
            id: self.link.id.clone(),
            iteration: self.link.iteration,
            close_after: Duration::from_secs(if self.link.dialed.is_some() { 60 } else { 75 }),
        }
    }
}
