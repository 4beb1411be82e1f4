//! Limits the renewals of routers' certificates: one at a time for a router, and not too often.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;
use weft_contract::ErrorCode;
use weft_kernel::{Failure, Result};
use weft_limits::TokenBucket;
use weft_model::Id;

/// Most renewals of a router at once. One of them is in work, and the others wait for their turn.
const BURST: u32 = 10;
/// In the long run a router has one renewal in this time. A router asks once in some months, and
/// every five minutes while it gets no certificates.
const EVERY: Duration = Duration::from_secs(10);
/// With this number of routers, those that have not renewed lately are forgotten.
const MANY: usize = 1024;

/// The renewals under way and those of late, by router.
#[derive(Debug, Default)]
pub struct Renewals(Mutex<HashMap<Id, Renewal>>);

#[derive(Debug)]
struct Renewal {
    left: TokenBucket,
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// A renewal in work; dropping it lets the next one of its router begin.
#[derive(Debug)]
#[must_use]
pub struct InWork {
    _turn: OwnedMutexGuard<()>,
}

impl Renewals {
    /// Waits until no other renewal of the router is in work.
    ///
    /// # Errors
    /// 429, with the time to wait, if the router has renewed too often.
    pub async fn begin(&self, router: &Id) -> Result<InWork> {
        let turn = self.take(router, Instant::now()).map_err(|wait| {
            let reason = "the router renews its certificates too often";
            Failure::because(ErrorCode::ServerTooManyRequests, reason).with_retry_after(wait)
        })?;
        Ok(InWork { _turn: turn.lock_owned().await })
    }

    /// Takes a renewal of a router; the error is the time after which it has another one.
    fn take(&self, router: &Id, now: Instant) -> Result<Arc<tokio::sync::Mutex<()>>, Duration> {
        let mut all = self.0.lock();
        if all.len() >= MANY && !all.contains_key(router) {
            all.retain(|_, it| !it.left.is_full(now) || Arc::strong_count(&it.turn) > 1);
        }
        let own = all.entry(router.clone()).or_insert_with(|| Renewal {
            left: TokenBucket::every(EVERY, BURST, now),
            turn: Arc::default(),
        });
        match own.left.try_take(1, now) {
            true => Ok(Arc::clone(&own.turn)),
            false => Err(own.left.wait_for(1, now).unwrap_or(EVERY)),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;

    use super::*;

    #[tokio::test]
    async fn a_router_has_few_renewals_one_at_a_time() {
        let renewals = Renewals::default();
        let [one, other] = ["r1", "r2"].map(Id::from);
        let first = renewals.begin(&one).await.unwrap();
        let mut second = Box::pin(renewals.begin(&one));
        assert!(poll!(&mut second).is_pending());
        drop(renewals.begin(&other).await.unwrap());
        drop(first);
        drop(second.await.unwrap());
        for _ in 2..BURST {
            drop(renewals.begin(&one).await.unwrap());
        }
        let refused = renewals.begin(&one).await.unwrap_err();
        assert_eq!(refused.status(), 429);
        drop(renewals.begin(&other).await.unwrap());
    }

    #[test]
    fn routers_are_forgotten_when_their_renewals_are_long_ago() {
        let renewals = Renewals::default();
        let now = Instant::now();
        let held = renewals.take(&Id::from("r0"), now).unwrap();
        for number in 1..MANY {
            drop(renewals.take(&Id::new(&format!("r{number}")), now).unwrap());
        }
        let later = now + EVERY;
        drop(renewals.take(&Id::from("another"), later).unwrap());
        let known = renewals.0.lock();
        assert_eq!(known.len(), 2, "the one in work, and the last one");
        drop(held);
    }
}
