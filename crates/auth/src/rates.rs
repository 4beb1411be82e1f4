//! Limits how often an identity may log in, and may change the certificates of its sessions. Both
//! cause work at every router that the identity may use, and a write to the disk.
//!
//! The figures leave room for all sessions that a client needs at once. Within the 60 s in which a
//! router reports the sessions in use, an identity can open fewer sessions than it may have
//! ([`PER_IDENTITY`]), so that a rush of logins ends no session in use.
//!
//! Only credentials that were right cost something, so that strangers cannot keep an identity from
//! logging in. Logins that still lack a factor are counted apart, for each address: somebody who has
//! only the first factor does not keep the owner out.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weft_contract::ErrorCode;
use weft_kernel::Failure;
use weft_limits::{BoundedTable, Caps, TokenBucket, WhenFull, source_of};
use weft_model::Id;

use crate::sessions::PER_IDENTITY;

/// Most deeds of one kind (logins, or changes of certificates) of an identity at once.
pub const AT_ONCE: u32 = 64;
/// Most deeds of one kind of an identity in a second, in the long run.
pub const PER_SECOND: u32 = 2;
/// Most counts that are kept; above that the oldest count is forgotten.
const KEPT: usize = 100_000;
/// Most counts that one identity may have.
const KEPT_OF_IDENTITY: usize = 256;
/// After this time without use a count is as good as new.
const FORGOTTEN: Duration = Duration::from_secs(AT_ONCE.div_ceil(PER_SECOND) as u64);

const _: () = assert!(
    (AT_ONCE + 60 * PER_SECOND) as usize <= PER_IDENTITY,
    "a rush of logins may end no session that a router reports every 60 s"
);

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
    pub(crate) fn login(is_complete: bool, from: Option<IpAddr>) -> Self {
        if is_complete { Self::Login } else { Self::HalfLogin(from.map(source_of)) }
    }

    fn refused(self) -> &'static str {
        match self {
            Self::Login | Self::HalfLogin(_) => "too many logins of this identity",
            Self::Certificate => "too many changes of session certificates of this identity",
        }
    }
}

type Counts = BoundedTable<(Id, Deed), TokenBucket, Id>;

/// The counts of all identities, in memory only. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Rates(Arc<Mutex<Counts>>);

impl Default for Rates {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(BoundedTable::new(Caps {
            total: KEPT,
            per_source: KEPT_OF_IDENTITY,
            max_age: Some(FORGOTTEN),
            when_full: WhenFull::EvictOldest,
        }))))
    }
}

impl Rates {
    /// Counts a deed; refused with 429, and the time after which to try again, if there were too many.
    pub(crate) fn take(&self, identity: &Id, deed: Deed) -> Result<(), Failure> {
        self.at(identity, deed, 1, Instant::now())
    }

    /// Like [`Self::take`], for a deed that is counted later.
    pub(crate) fn check(&self, identity: &Id, deed: Deed) -> Result<(), Failure> {
        self.at(identity, deed, 0, Instant::now())
    }

    fn at(&self, identity: &Id, deed: Deed, count: u32, now: Instant) -> Result<(), Failure> {
        let mut counts = self.0.lock();
        let key = (identity.clone(), deed);
        let known = counts.remove(&key);
        let mut bucket =
            known.unwrap_or_else(|| TokenBucket::new(f64::from(PER_SECOND), AT_ONCE, now));
        let wait = bucket.wait_for(1, now).unwrap_or(FORGOTTEN);
        if wait.is_zero() {
            bucket.try_take(count, now);
        }
        // The age of the entry begins anew. The table always has room, because it evicts others.
        let _ = counts.insert(key, bucket, identity.clone(), now);
        if wait.is_zero() {
            return Ok(());
        }
        let refused = Failure::because(ErrorCode::ServerTooManyRequests, deed.refused());
        Err(refused.with_retry_after(wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_at_once_and_then_some_each_second() {
        let rates = Rates::default();
        let (laptop, phone) = (Id::new("laptop"), Id::new("phone"));
        let now = Instant::now();
        for _ in 0..AT_ONCE {
            rates.at(&laptop, Deed::Login, 0, now).unwrap();
            rates.at(&laptop, Deed::Login, 1, now).unwrap();
        }
        for count in [0, 1] {
            let refused = rates.at(&laptop, Deed::Login, count, now).unwrap_err();
            assert_eq!(refused.status(), 429);
        }
        for (identity, deed) in [(&phone, Deed::Login), (&laptop, Deed::Certificate)] {
            rates.at(identity, deed, 1, now).unwrap();
        }
        // Refusals cost nothing.
        let later = now + Duration::from_secs(2);
        for _ in 0..2 * PER_SECOND {
            rates.at(&laptop, Deed::Login, 1, later).unwrap();
        }
        rates.at(&laptop, Deed::Login, 1, later).unwrap_err();
        // A count in use is not forgotten after a while.
        let mut now = later;
        let mut taken = 0;
        for _ in 0..4 * FORGOTTEN.as_secs() {
            now += Duration::from_secs(1);
            taken += (0..10).filter(|_| rates.at(&laptop, Deed::Login, 1, now).is_ok()).count();
        }
        assert_eq!(taken as u64, 4 * FORGOTTEN.as_secs() * u64::from(PER_SECOND));
    }

    #[test]
    fn logins_that_lack_a_factor_do_not_keep_the_owner_out() {
        let rates = Rates::default();
        let (laptop, now) = (Id::new("laptop"), Instant::now());
        let half = |from: &str| Deed::login(false, Some(from.parse().unwrap()));
        while rates.at(&laptop, half("2001:db8::1"), 1, now).is_ok() {}
        rates.at(&laptop, half("2001:db8::2"), 1, now).unwrap_err();
        rates.at(&laptop, half("192.0.2.1"), 1, now).unwrap();
        rates.at(&laptop, Deed::login(true, None), 1, now).unwrap();
        for number in 0..3 * KEPT_OF_IDENTITY as u32 {
            let from = std::net::Ipv4Addr::from(number).into();
            rates.at(&laptop, Deed::login(false, Some(from)), 1, now).unwrap();
        }
        assert_eq!(rates.0.lock().len(), KEPT_OF_IDENTITY);
    }
}
