//! The time in which a network that came from OpenZiti may go back to it (docs/moving.md).

use weft_contract::ErrorCode;
use weft_identity::Certificate;
use weft_kernel::clock::system_time;
use weft_kernel::{Failure, Result, convert};

use crate::handle::Auth;

impl Auth {
    /// Whether a certificate may be issued in place of this one; none if that is not known. While the network may go back, only one that would not last
    /// until then is renewed: the other controller would know neither the new one nor, after a change of the key, its bearer.
    ///
    /// # Errors
    /// With this code until the network stays.
    pub fn check_way_back(&self, current: Option<&Certificate>, code: ErrorCode) -> Result<()> {
        let settings = self.kernel().settings();
        let until = settings.way_back_until.filter(|until| *until > self.kernel().now());
        match until {
            Some(until) if current.is_none_or(|it| it.not_after() >= system_time(until)) => {
                Err(Failure::because(
                    code,
                    format!(
                        "the network may go back to OpenZiti until {} (wayBackUntil in the controller's file), and this certificate \
                     lasts until then: it is renewed afterwards",
                        convert::time(until)
                    ),
                ))
            }
            _ => Ok(()),
        }
    }
}
