//! Congestion control over minutes: the rates and queues of circuits over paths that are slow, long,
//! lossy, shared or changing.

#![allow(clippy::unwrap_used, clippy::expect_used, dead_code)]

mod aims;
mod net;
