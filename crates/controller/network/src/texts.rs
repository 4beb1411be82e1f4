//! Caches Prometheus' text of measured values, which is made at most once a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Mutex;

use crate::clock;

/// A text serves all requests within this time.
const FRESH: Duration = Duration::from_secs(1);

/// The time at which a text was made, and the text.
type CachedText = Option<(Instant, Bytes)>;

/// The last texts, without and with times.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    last: [Arc<Mutex<CachedText>>; 2],
    pub(crate) left_out: AtomicU64,
}

impl Texts {
    /// The last text, or the one that `make` returns if the last text is not fresh any more. `make` runs
    /// on a thread for blocking work; requests at the same time wait for one text.
    pub(crate) async fn get(
        &self,
        with_times: bool,
        make: impl FnOnce() -> Bytes + Send + 'static,
    ) -> Bytes {
        let mut last = Arc::clone(&self.last[usize::from(with_times)]).lock_owned().await;
        if let Some((_, text)) = last.as_ref().filter(|(at, _)| clock::since(*at) < FRESH) {
            return text.clone();
        }
        // The thread has the lock and keeps the text: a client that gives its request up, again and again,
        // causes one text a second, as all others do.
        let made = tokio::task::spawn_blocking(move || {
            let text = make();
            *last = Some((clock::now(), text.clone()));
            text
        });
        made.await.unwrap_or_default()
    }

    /// Values that were left out of the last text.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn requests_that_are_given_up_cause_one_text() {
        let texts = Texts::default();
        let count = Arc::new(AtomicUsize::new(0));
        let (open, gate) = mpsc::channel::<()>();
        let gate = Arc::new(std::sync::Mutex::new(gate));
        let make = || {
            let (count, gate) = (Arc::clone(&count), Arc::clone(&gate));
            move || {
                count.fetch_add(1, Ordering::SeqCst);
                let _ = gate.lock().unwrap().recv();
                Bytes::from_static(b"metric 1\n")
            }
        };
        for _ in 0..10 {
            let given_up = tokio::time::timeout(Duration::from_millis(1), texts.get(false, make()));
            assert!(given_up.await.is_err());
        }
        drop(open);
        assert_eq!(texts.get(false, make()).await, "metric 1\n");
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }
}
