//! Log lines about clients that were not connected with their service: a bounded number of them.

use std::fmt::Display;
use std::net::SocketAddr;

use parking_lot::Mutex;
use weft_channel::clock::now;
use weft_limits::LogLines;

/// The log lines about the clients of one port or service.
#[derive(Debug)]
pub(crate) struct Complaints(Mutex<LogLines>);

impl Default for Complaints {
    fn default() -> Self {
        Self(Mutex::new(LogLines::new(now())))
    }
}

impl Complaints {
    /// Logs why a client was not connected, unless there are many such lines already.
    pub(crate) fn note(&self, service: &str, client: SocketAddr, refusal: &dyn Display) {
        let due = self.0.lock().due(now());
        match due {
            Some(left_out) => {
                tracing::warn!(service, %client, %refusal, left_out, "a client was not connected");
            }
            None => tracing::debug!(service, %client, %refusal, "a client was not connected"),
        }
    }
}
