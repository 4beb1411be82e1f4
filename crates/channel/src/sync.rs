//! Wakers of tasks, and their atomics. `tests/threads` compiles `wake` with others in their place,
//! which try every order of threads.

pub(crate) use std::sync::atomic;

pub(crate) use tokio::sync::Notify;
