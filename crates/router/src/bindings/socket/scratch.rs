//! The buffer into which sockets are read.

use std::cell::RefCell;

/// Largest datagram that is read, in bytes.
pub(crate) const MAX_DATAGRAM: usize = 65_507;
thread_local! {
    /// Sockets are read into this buffer, and the data is copied out in its exact size, so that a socket
    /// that is idle or sends little holds no large buffer.
    pub(super) static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; MAX_DATAGRAM]);
}
