//! The lock and the atomics of this crate. `tests/threads` compiles some of its files with others in
//! their place, which try every order of threads.

pub(crate) use std::sync::atomic;

pub(crate) use parking_lot::Mutex;
