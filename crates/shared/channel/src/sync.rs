//! The atomics and the notification that `wake` uses. `tests/threads` compiles `wake` with other
//! types in their place, which try every order of threads.

pub(crate) use std::sync::atomic;

pub(crate) use tokio::sync::Notify;
