//! Runs slow signatures so that other tasks go on: RSA needs a millisecond or more for each.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;
use weft_identity::KeyAlgorithm;

#[cfg(any(test, feature = "testing"))]
thread_local! {
    /// Number of signatures on this thread, for tests.
    pub static SIGNED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts a signature on this thread.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn count() {
    SIGNED.with(|signed| signed.set(signed.get() + 1));
}

/// Whether a signature with this key would hold up other tasks.
pub fn is_slow(key: KeyAlgorithm) -> bool {
    matches!(key, KeyAlgorithm::Rsa { .. })
}

/// Signs while other tasks go on.
pub fn aside<T>(key: KeyAlgorithm, sign: impl FnOnce() -> T) -> T {
    #[cfg(any(test, feature = "testing"))]
    count();
    let has_others = || {
        let runtime = Handle::try_current().map(|runtime| runtime.runtime_flavor());
        runtime.is_ok_and(|flavor| flavor == RuntimeFlavor::MultiThread)
    };
    if is_slow(key) && has_others() { block_in_place(sign) } else { sign() }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn others_go_on_while_a_slow_key_signs() {
        let (other, waits) = mpsc::channel();
        let signs = tokio::spawn(async move {
            aside(KeyAlgorithm::Rsa { bits: 4096 }, || waits.recv_timeout(Duration::from_secs(60)))
        });
        tokio::spawn(async move { other.send("served") });
        assert_eq!(signs.await.unwrap(), Ok("served"));
    }
}
