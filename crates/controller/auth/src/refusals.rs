//! Refused certificates and tokens in the log: the operator reads which rule one breaks, and nobody fills the
//! log by showing them.

use std::time::Instant;

use parking_lot::Mutex;
use weft_identity::{Certificate, Error};
use weft_kernel::Caller;
use weft_limits::LogLines;

use crate::token_refusal::TokenRefused;

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

    /// Writes the refusal of a token of an external signer; with the level `debug` if there were many.
    pub(crate) fn write_token(&self, caller: &Caller, of: &'static str, reason: &TokenRefused) {
        let remote = caller.origin.remote.map(|remote| remote.to_string());
        match self.0.lock().due(Instant::now()) {
            Some(left_out) => {
                tracing::info!(remote, %reason, left_out, "{of} with a token of an external signer was refused; `weft signer test` says more");
            }
            None => tracing::debug!(remote, %reason, "{of} with a token was refused"),
        }
    }
}
