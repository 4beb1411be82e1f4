//! The locks and the atomics of this crate. `tests/threads` compiles some of its files with others in
//! their place, which try every order of threads.

pub(crate) use std::sync::{OnceLock, atomic};

pub(crate) use arc_swap::ArcSwap;
pub(crate) use parking_lot::Mutex;
