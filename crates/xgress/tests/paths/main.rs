//! Congestion control over minutes: what circuits make of paths that are slow, far, lossy, shared or
//! not what they were a moment ago.

#![allow(clippy::unwrap_used, clippy::expect_used, dead_code)]

mod aims;
mod net;
