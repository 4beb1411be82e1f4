//! Writes the changes of terminators that are held ([`Kernel::decide_or_hold`](weft_kernel::Kernel::decide_or_hold)) once
//! etcd can be written again. Every controller writes what it holds; whatever another one has written changes nothing.

use std::time::Duration;

use crate::network::Network;

/// Most changes in one change set.
const BATCH: usize = 500;
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(250);

impl Network {
    /// Waits for changes that are held, and writes them; never returns.
    pub(crate) async fn write_held(self) {
        let kernel = &self.0.kernel;
        let (mut last, mut most) = (kernel.last_held(), BATCH);
        loop {
            last.mark_unchanged();
            if !kernel.holds_any() {
                if last.changed().await.is_err() {
                    return;
                }
                continue;
            }
            match kernel.write_held(most).await {
                Ok(count) => {
                    most = (most * 2).min(BATCH);
                    if count > 0 {
                        tracing::info!(
                            count,
                            "terminators that changed while etcd could not be written are in etcd now"
                        );
                    }
                }
                Err(failure) if matches!(failure.status(), 429 | 503) => {
                    tracing::debug!(%failure, "changes of terminators are held on");
                    tokio::time::sleep(PAUSE).await;
                }
                // One of them is refused, and is looked for.
                Err(_) if most > 1 => most /= 2,
                Err(failure) => {
                    let terminator = kernel.drop_first_held();
                    tracing::warn!(
                        ?terminator, %failure,
                        "the change of a terminator that was made while etcd could not be written is refused, and is dropped"
                    );
                }
            }
        }
    }
}
