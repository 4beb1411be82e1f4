//! Limits that hold before work is done, for every input from outside.
//!
//! ```text
//!  input ──> TokenBucket ──> BoundedTable ──> AdaptiveWindow ──> Budget ──> work
//!            too often?      too many?        too much at once?  too large?
//!                └───────────────┴────────────────┴────────────────┴──> refusal
//! ```
//!
//! | type | limits |
//! |---|---|
//! | [`TokenBucket`] | how often something may happen |
//! | [`AdaptiveWindow`] | how many pieces of work are in flight |
//! | [`Quota`] | how many places are taken, in all and by each key; who gives way for whom |
//! | [`FairSemaphore`] | the same with guards; keys that wait come in turn |
//! | [`BoundedTable`] | how many entries a table holds, in all and per source ([`source_of`]) |
//! | [`networks_of`] | what the owner of a network with many sources takes of their shares |
//! | [`NetworkRates`] | how often the sources of such a network may do something |
//! | [`FairQueue`] | how many values wait, in all; their owners come in turn |
//! | [`Budget`] | how many bytes are held |
//! | [`LogLines`] | how many lines of a log others cause |
//! | [`SettledClock`] | by which time something is forgotten for good |
//!
//! Nothing in this crate reads a clock: time is an argument. Only [`FairSemaphore::acquire`] waits. A limit that is reached is an
//! answer (`None`, `false` or a typed refusal), which the caller turns into a 429, a closed
//! connection or a dropped payload.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use weft_limits::{Budget, TokenBucket};
//!
//! let start = Instant::now();
//! let mut logins = TokenBucket::new(1.0, 2, start);
//! assert!(logins.try_take(2, start));
//! assert!(!logins.try_take(1, start));
//! assert!(logins.try_take(1, start + Duration::from_secs(1)));
//!
//! let process = Budget::new(1024);
//! let link = process.child(512);
//! let grant = link.try_take(400).expect("the budget is empty");
//! assert!(link.try_take(200).is_none());
//! drop(grant);
//! assert_eq!(process.used(), 0);
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod bucket;
mod budget;
mod lines;
mod queue;
mod quota;
mod rates;
mod semaphore;
mod settled_clock;
mod source;
mod table;
mod window;

pub use bucket::TokenBucket;
pub use budget::{Budget, Grant};
pub use lines::LogLines;
pub use queue::{FairQueue, QueuePosition, QueuePush};
pub use quota::{Among, Full, Held, HolderId, KeyLimit, Quota};
pub use rates::NetworkRates;
pub use semaphore::{FairSemaphore, Permit};
pub use settled_clock::SettledClock;
pub use source::{Network, SAFE, networks_of, source_of};
pub use table::{BoundedTable, Caps, Inserted, TableFull, WhenFull};
pub use window::{AdaptiveWindow, Ticket, WindowOptions, WorkOutcome};
