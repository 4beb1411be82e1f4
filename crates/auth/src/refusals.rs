//! Refused certificates in the log: the operator reads which rule a certificate breaks, and nobody fills the
//! log by showing certificates.

use std::time::Instant;

use parking_lot::Mutex;
use weft_identity::{Certificate, Error};
use weft_kernel::Caller;
use weft_limits::LogLines;

/// Which refusals are written.
#[derive(Debug)]
pub struct Refusals(Mutex<LogLines>);

impl Default for Refusals {
    fn default() -> Self {
        Self(Mutex::new(LogLines::new(Instant::now())))
    }
}

impl Refusals {
    /// Writes the refusal of a caller's certificate; with the level `debug` if there were many.
    pub fn write(&self, caller: &Caller, of: &'static str, error: &Error) {
        let fingerprint = caller.leaf().map(Certificate::fingerprint);
        let remote = caller.origin.remote.map(|remote| remote.to_string());
        match self.0.lock().due(Instant::now()) {
            Some(left_out) => {
                tracing::info!(remote, fingerprint, %error, left_out, "{of} was refused");
            }
            None => tracing::debug!(remote, fingerprint, %error, "{of} was refused"),
        }
    }
}
