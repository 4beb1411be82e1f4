//! What wakes tasks, and the atomics for it. `tests/threads` compiles `wake` with others in their place,
//! which try every order of threads.

pub(crate) use std::sync::atomic;

pub(crate) use tokio::sync::Notify;
