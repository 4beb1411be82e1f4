//! The state of TLS after the handshake.

use super::fault::Fault;
use super::library::{Library, MOST_OLD_BODY};
use super::records::{MOST_BODY, Records, first_record};

/// The state of TLS after the handshake.
#[derive(Debug)]
pub(crate) enum Session {
    Records(Box<Records>),
    Library(Box<Library>),
}

impl Session {
    /// The length of the first record of `input`, with its head; `None` until the head is there.
    pub(crate) fn first_record(&self, input: &[u8]) -> Result<Option<usize>, Fault> {
        let most = match self {
            Self::Records(_) => MOST_BODY,
            Self::Library(_) => MOST_OLD_BODY,
        };
        first_record(input, most)
    }
}
