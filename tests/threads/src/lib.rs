//! Agreements between threads that do not wait for each other, in every order of their steps.
//!
//! This package compiles files of `crates/data/circuit` and `crates/shared/channel` with the locks and atomics of
//! `loom` in place of the usual ones: each of those files takes them from `crate::sync`. The tests run
//! small scenes of two or three threads in every order, with every value that an atomic may show, and
//! find threads that wait for ever. The compiled files are those that ship.

// The name by which files of `crates/data/circuit` know the other crate.
extern crate self as weft_channel;

pub mod clock;
#[allow(dead_code, missing_docs, reason = "the scenes need a part of it")]
#[path = "../../../crates/data/circuit/src/hop.rs"]
pub mod hop;
#[allow(dead_code, missing_docs, reason = "the scenes need a part of it")]
#[path = "../../../crates/data/circuit/src/listing.rs"]
pub mod listing;
#[allow(dead_code, missing_docs, reason = "the scenes need a part of it")]
#[path = "../../../crates/data/circuit/src/outlet.rs"]
pub mod outlet;
#[allow(missing_docs, reason = "documented where it ships")]
#[path = "../../../crates/data/circuit/src/pause.rs"]
pub mod pause;
#[allow(dead_code, missing_docs, reason = "the scenes need a part of it")]
#[path = "../../../crates/data/circuit/src/probe.rs"]
pub mod probe;
#[allow(missing_docs, reason = "documented where it ships")]
#[path = "../../../crates/data/circuit/src/single_flight.rs"]
pub mod single_flight;
pub mod sync;
#[allow(missing_docs, reason = "documented where it ships")]
#[path = "../../../crates/shared/channel/src/wake.rs"]
pub mod wake;

pub use channel::{Batch, Outbox, Reading};
pub use wake::UnderlayWaker;

/// Waits as the task of a connection does until it is woken.
pub fn sleep_until_woken(waker: &UnderlayWaker) {
    loom::future::block_on(waker.woken());
}

/// True once per request to read again, as the task of a connection asks it.
#[must_use]
pub fn takes_resume(waker: &UnderlayWaker) -> bool {
    waker.take_resume()
}
