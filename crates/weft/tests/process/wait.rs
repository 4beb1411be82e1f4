//! Waiting for conditions, with deadlines.

use std::fmt::Debug;
use std::future::Future;
use std::time::{Duration, Instant};

/// Time limit for waits that have none of their own. Much longer than needed, because machines are busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// Repeats an attempt until it succeeds; returns its value and the time that it took.
pub(crate) async fn until<T, E: Debug>(
    what: &str,
    limit: Duration,
    mut attempt: impl AsyncFnMut() -> Result<T, E>,
) -> (T, Duration) {
    let begun = Instant::now();
    let deadline = tokio::time::Instant::now() + limit;
    let mut last = None;
    loop {
        match tokio::time::timeout_at(deadline, attempt()).await {
            Ok(Ok(value)) => return (value, begun.elapsed()),
            Ok(Err(error)) => last = Some(error),
            Err(_) => panic!("{what}: not within {limit:?}; the last answer was {last:?}"),
        }
        if begun.elapsed() > limit {
            panic!("{what}: not within {limit:?}; the last answer was {last:?}");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Waits for work that must end within the limit.
pub(crate) async fn within<T>(what: &str, limit: Duration, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(limit, work).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: not within {limit:?}"),
    }
}
