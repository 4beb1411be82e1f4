//! Limits how often an identity may log in, and may change the certificates of its sessions. Both
//! cause work at every router that the identity may use, and a write to the disk; a login by password
//! also costs a hash.
//!
//! A login beyond the rate waits until it is its turn (`Rates::login`); a change of certificates is refused. The
//! figures leave room for all sessions that a client needs at once: within the 60 s in which a
//! router reports the sessions in use, an identity can open fewer sessions than it may have
//! (`sessions_of`), so that a rush of logins ends no session in use.
//!
//! Only credentials that were right cost something, so that strangers cannot keep an identity from
//! logging in. Logins that still lack a factor are counted apart, for each address: somebody who has
//! only the first factor does not keep the owner out.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weft_contract::ErrorCode;
use weft_kernel::{Failure, Result};
use weft_limits::{BoundedTable, Caps, TokenBucket, WhenFull, source_of};
use weft_model::Id;

use crate::waiting::WaitingLogins;

/// Most changes of certificates of an identity at once.
pub const AT_ONCE: u32 = 64;
/// Most changes of certificates of an identity in a second, in the long run.
const PER_SECOND: u32 = 2;
/// Most logins of an identity at once, as a multiple of those in a second.
const LOGINS_AT_ONCE: u32 = 2;
/// An identity may have as many sessions as it may open in this time, in seconds.
const SESSIONS_OF_SECONDS: u32 = 80;
/// Most counts that are kept; above that the oldest count is forgotten.
const KEPT: usize = 100_000;
/// Most counts that one identity may have.
const KEPT_OF_IDENTITY: usize = 256;
/// After this time without use a count is as good as new.
const FORGOTTEN: Duration = Duration::from_secs(AT_ONCE.div_ceil(PER_SECOND) as u64);

const _: () = assert!(
    LOGINS_AT_ONCE + 60 <= SESSIONS_OF_SECONDS,
    "a rush of logins may end no session that a router reports every 60 s"
);

/// The number of sessions that an identity may have if it may log in so often in a second.
pub(crate) fn sessions_of(logins_per_second: u32) -> usize {
    (logins_per_second * SESSIONS_OF_SECONDS) as usize
}

/// A deed of an identity that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Deed {
    /// A session gets its last factor.
    Login,
    /// A login from this source (an address, or a network of IPv6) that still lacks a factor.
    HalfLogin(Option<IpAddr>),
    /// A certificate of a session is made or deleted.
    Certificate,
}

impl Deed {
    /// A login: `is_complete` if it lacks no factor.
    pub(crate) fn login(is_complete: bool, source: Option<IpAddr>) -> Self {
        if is_complete { Self::Login } else { Self::HalfLogin(source) }
    }
}

type Counts = BoundedTable<(Id, Deed), TokenBucket, Id>;

/// The counts of all identities, in memory only. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Rates {
    counts: Arc<Mutex<Counts>>,
    logins_per_second: u32,
    waiting: WaitingLogins,
}

/// A login that is counted, if it is [kept](Self::keep); dropping it takes it back.
#[derive(Debug)]
#[must_use]
pub(crate) struct Counted {
    rates: Rates,
    identity: Id,
    deed: Deed,
    is_kept: bool,
}

impl Counted {
    /// Whether this is a login of the identity.
    pub(crate) fn is_of(&self, identity: &Id) -> bool {
        self.identity == *identity
    }

    /// Notes that the login was right.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if !self.is_kept {
            self.rates.count(&self.identity, self.deed, TokenBucket::put_back);
        }
    }
}

impl Rates {
    pub(crate) fn new(logins_per_second: u32, waiting: WaitingLogins) -> Self {
        let counts = BoundedTable::new(Caps {
            total: KEPT,
            per_source: KEPT_OF_IDENTITY,
            max_age: Some(FORGOTTEN),
            when_full: WhenFull::EvictOldest,
        });
        Self { counts: Arc::new(Mutex::new(counts)), logins_per_second, waiting }
    }

    /// Waits until an identity may log in, and counts the login. Refused with 429, and the time after which to try
    /// again, if it would have to wait beyond a time, or too many logins wait.
    pub(crate) async fn login(
        &self,
        identity: &Id,
        is_complete: bool,
        from: Option<IpAddr>,
        until: Instant,
    ) -> Result<Counted> {
        let (source, now) = (from.map(source_of), Instant::now());
        let deed = Deed::login(is_complete, source);
        let longest = until.saturating_duration_since(now);
        let ahead = self.count(identity, deed, |bucket| bucket.take_ahead(longest, now.into_std()));
        let refused = |wait| refusal("too many logins of this identity", wait);
        let wait = ahead.map_err(refused)?;
        let counted =
            Counted { rates: self.clone(), identity: identity.clone(), deed, is_kept: false };
        if !wait.is_zero() {
            let _waiting = self.waiting.begin(source).ok_or_else(|| refused(wait))?;
            tokio::time::sleep_until(now + wait).await;
        }
        Ok(counted)
    }

    /// Counts a change of the certificates of a session; refused with 429, and the time after which to try again, if
    /// there were too many.
    pub(crate) fn change_certificate(&self, identity: &Id) -> Result<()> {
        let now = Instant::now().into_std();
        let taken = self
            .count(identity, Deed::Certificate, |bucket| bucket.take_ahead(Duration::ZERO, now));
        let text = "too many changes of session certificates of this identity";
        taken.map(drop).map_err(|wait| refusal(text, wait))
    }

    fn count<T>(&self, identity: &Id, deed: Deed, count: impl FnOnce(&mut TokenBucket) -> T) -> T {
        let now = Instant::now().into_std();
        let (rate, at_once) = match deed {
            Deed::Certificate => (PER_SECOND, AT_ONCE),
            _ => (self.logins_per_second, self.logins_per_second * LOGINS_AT_ONCE),
        };
        let mut counts = self.counts.lock();
        let key = (identity.clone(), deed);
        let known = counts.remove(&key);
        let mut bucket = known.unwrap_or_else(|| TokenBucket::new(f64::from(rate), at_once, now));
        let counted = count(&mut bucket);
        // The age of the entry begins anew. The table always has room, because it evicts others.
        let _ = counts.insert(key, bucket, identity.clone(), now);
        counted
    }
}

fn refusal(reason: &str, wait: Duration) -> Failure {
    Failure::because(ErrorCode::ServerTooManyRequests, reason).with_retry_after(wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: Duration = Duration::from_secs(8);

    fn rates() -> Rates {
        Rates::new(10, WaitingLogins::default())
    }

    /// A right login of an identity that waits for its turn so long; the time that it waited.
    async fn login(rates: &Rates, who: &str, longest: Duration) -> Result<Duration> {
        let now = Instant::now();
        let counted = rates.login(&Id::new(who), true, None, now + longest).await?;
        counted.keep();
        Ok(now.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn logins_beyond_the_rate_wait_in_turn() {
        let rates = rates();
        for _ in 0..20 {
            assert_eq!(login(&rates, "laptop", Duration::ZERO).await.unwrap(), Duration::ZERO);
        }
        let refused = login(&rates, "laptop", Duration::ZERO).await.unwrap_err();
        assert_eq!(refused.status(), 429);
        assert!(refused.retry_after().is_some_and(|wait| wait <= Duration::from_secs(1)));
        let all = futures::future::join_all((0..90).map(|_| login(&rates, "laptop", LATER)));
        let phone = login(&rates, "phone", Duration::ZERO);
        let (all, phone) = futures::future::join(all, phone).await;
        assert_eq!(phone.unwrap(), Duration::ZERO, "others are not concerned");
        let waited: Vec<_> = all.into_iter().filter_map(Result::ok).collect();
        assert!((79..=80).contains(&waited.len()), "as many as have their turn in time");
        assert!(waited.is_sorted() && waited.iter().all(|wait| *wait < LATER + LATER / 80));
        // The rate holds in the long run.
        let mut logins = 0;
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(60) {
            login(&rates, "laptop", LATER).await.unwrap();
            logins += 1;
        }
        assert!((595..=605).contains(&logins), "{logins}");
    }

    #[tokio::test(start_paused = true)]
    async fn only_right_logins_count() {
        let rates = rates();
        let (laptop, now) = (Id::new("laptop"), Instant::now());
        for _ in 0..100 {
            drop(rates.login(&laptop, true, None, now).await.unwrap());
        }
        let held: Vec<_> =
            futures::future::join_all((0..20).map(|_| rates.login(&laptop, true, None, now))).await;
        assert!(held.iter().all(Result::is_ok));
        // One that is given up while it waits gives its turn back.
        let mut waits = Box::pin(rates.login(&laptop, true, None, now + LATER));
        assert!(futures::poll!(&mut waits).is_pending());
        drop((waits, held));
        assert!(rates.login(&laptop, true, None, now).await.is_ok());
    }

    #[tokio::test]
    async fn certificates_have_a_rate_of_their_own() {
        let (rates, laptop) = (rates(), Id::new("laptop"));
        let changed = (0..2 * AT_ONCE).take_while(|_| rates.change_certificate(&laptop).is_ok());
        assert!((AT_ONCE..AT_ONCE + 3).contains(&(changed.count() as u32)));
        let refused = rates.change_certificate(&laptop).unwrap_err();
        assert!(refused.status() == 429 && refused.retry_after().is_some());
        login(&rates, "laptop", Duration::ZERO).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn logins_that_lack_a_factor_do_not_keep_the_owner_out() {
        let (rates, laptop, now) = (rates(), Id::new("laptop"), Instant::now());
        let half = async |from: IpAddr| {
            let counted = rates.login(&laptop, false, Some(from), now).await?;
            counted.keep();
            Ok::<(), Failure>(())
        };
        while half("2001:db8::1".parse().unwrap()).await.is_ok() {}
        half("2001:db8::2".parse().unwrap()).await.unwrap_err();
        half("192.0.2.1".parse().unwrap()).await.unwrap();
        login(&rates, "laptop", Duration::ZERO).await.unwrap();
        for number in 0..3 * KEPT_OF_IDENTITY as u32 {
            half(std::net::Ipv4Addr::from(number).into()).await.unwrap();
        }
        assert_eq!(rates.counts.lock().len(), KEPT_OF_IDENTITY);
    }
}
