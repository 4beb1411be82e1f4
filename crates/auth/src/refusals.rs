//! Refused certificates in the log: the operator reads which rule a certificate breaks, and nobody fills the
//! log by showing certificates.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weft_identity::{Certificate, Error};
use weft_kernel::Caller;
use weft_limits::TokenBucket;

/// Refusals that are written at once.
const AT_ONCE: u32 = 20;
/// Time in which one more may be written.
const LATER: Duration = Duration::from_secs(10);

/// Which refusals are written.
#[derive(Debug)]
pub struct Refusals(Mutex<TokenBucket>);

impl Default for Refusals {
    fn default() -> Self {
        Self(Mutex::new(TokenBucket::every(LATER, AT_ONCE, Instant::now())))
    }
}

impl Refusals {
    /// Writes the refusal of a caller's certificate; with the level `debug` if there were many.
    pub fn write(&self, caller: &Caller, of: &'static str, error: &Error) {
        let fingerprint = caller.leaf().map(Certificate::fingerprint);
        let remote = caller.origin.remote.map(|remote| remote.to_string());
        match self.0.lock().try_take(1, Instant::now()) {
            true => tracing::info!(remote, fingerprint, %error, "{of} was refused"),
            false => tracing::debug!(remote, fingerprint, %error, "{of} was refused"),
        }
    }
}
