//! The reading of large messages of a peer, which would hold up the other tasks of a thread.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// Bytes that are read on the spot: some tenths of a millisecond.
const SMALL: usize = 64 << 10;

/// Runs the reading of so many bytes. If they are many, the other tasks of this thread go on meanwhile on another
/// thread, where the runtime has several.
pub fn aside<T>(bytes: usize, read: impl FnOnce() -> T) -> T {
    let has_threads = || {
        let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
        flavor.is_ok_and(|flavor| flavor == RuntimeFlavor::MultiThread)
    };
    if bytes > SMALL && has_threads() { block_in_place(read) } else { read() }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_large_message_holds_up_no_other_task_of_its_thread() {
        let (says, hears) = mpsc::channel();
        let reads = tokio::spawn(async move {
            let other = tokio::spawn(async move { says.send(()).unwrap() });
            let heard = aside(SMALL + 1, || hears.recv_timeout(Duration::from_secs(60)));
            other.await.unwrap();
            heard
        });
        assert_eq!(reads.await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn a_small_message_and_one_on_a_single_thread_are_read_on_the_spot() {
        assert_eq!(aside(1, || 7), 7);
        assert_eq!(aside(SMALL + 1, || 7), 7);
    }
}
