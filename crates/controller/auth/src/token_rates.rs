//! Limits how often tokens are refreshed and exchanged: by session, by identity, by source, and for the networks around
//! a source. Each costs signatures and a write to the disk. Only a token that was proven counts, so that strangers use
//! up nothing; a refusal is no use of the token, and ends nothing.
//!
//! An SDK refreshes every few minutes, with two exchanges; its processes may share a session, and after an outage all
//! clients of a source come together.

use std::hash::Hash;
use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weft_limits::{BoundedTable, Caps, NetworkRates, TokenBucket, WhenFull};
use weft_model::Id;

/// Requests of a session at once.
const OF_SESSION: u32 = 20;
/// Requests of a session in a second, in the long run.
const OF_SESSION_PER_SECOND: u32 = 1;
/// Requests of a source at once. Larger networks have more.
const OF_SOURCE: u32 = 4000;
/// Requests of a source in a second, in the long run.
const OF_SOURCE_PER_SECOND: u32 = 400;
/// Counts of each kind that are kept; above that the oldest one is forgotten.
const KEPT: usize = 100_000;
/// After this time without use a count is as good as new.
const FORGOTTEN: Duration = Duration::from_secs(30);

const _: () =
    assert!(OF_SESSION / OF_SESSION_PER_SECOND <= 30 && OF_SOURCE / OF_SOURCE_PER_SECOND <= 30);

/// Requests of one kind of party.
type Counts<K> = BoundedTable<K, TokenBucket, ()>;

/// The counts, in memory only.
#[derive(Debug)]
pub(crate) struct TokenRates {
    counts: Mutex<All>,
    /// Requests of an identity in a second; it has twice as many at once.
    of_identity: u32,
}

/// Requests of an identity in a second, at least.
const LEAST_OF_IDENTITY: u32 = 100;

#[derive(Debug)]
struct All {
    sessions: Counts<Id>,
    identities: Counts<Id>,
    networks: NetworkRates,
}

impl TokenRates {
    /// `logins` is the rate of an identity's logins. A refresh is up to three requests, and the programs of an identity may be
    /// many: no rate of logins is too low for them.
    pub(crate) fn new(logins: u32) -> Self {
        let of_identity = logins.max(LEAST_OF_IDENTITY);
        let rate = f64::from(OF_SOURCE_PER_SECOND);
        let networks = NetworkRates::new(rate, OF_SOURCE, KEPT, FORGOTTEN);
        let all = All { sessions: counts(), identities: counts(), networks };
        Self { counts: Mutex::new(all), of_identity }
    }

    /// Counts a request with a token of a session; the error is the time after which to try again.
    pub(crate) fn take(
        &self,
        session: &Id,
        identity: &Id,
        from: Option<IpAddr>,
    ) -> Result<(), Duration> {
        let now = Instant::now().into_std();
        let mut all = self.counts.lock();
        let All { sessions, identities, networks } = &mut *all;
        let of_session = (OF_SESSION_PER_SECOND, OF_SESSION);
        let of_identity = (self.of_identity, self.of_identity.saturating_mul(2));
        // The smallest party first: one that has used up its share takes nothing of the others'.
        take(sessions, session, of_session, now)?;
        take(identities, identity, of_identity, now)?;
        from.map_or(Ok(()), |from| networks.take(from, now))
    }
}

fn counts<K: Hash + Eq + Clone>() -> Counts<K> {
    BoundedTable::new(Caps {
        total: KEPT,
        per_source: KEPT,
        max_age: Some(FORGOTTEN),
        when_full: WhenFull::EvictOldest,
    })
}

fn take<K: Hash + Eq + Clone>(
    counts: &mut Counts<K>,
    party: &K,
    (rate, at_once): (u32, u32),
    now: std::time::Instant,
) -> Result<(), Duration> {
    let known = counts.remove(party);
    let mut bucket = known.unwrap_or_else(|| TokenBucket::new(f64::from(rate), at_once, now));
    let wait = bucket.wait_for(1, now).unwrap_or(FORGOTTEN);
    if wait.is_zero() {
        bucket.try_take(1, now);
    }
    // The age of the entry begins anew. The table always has room, because it evicts others.
    let _ = counts.insert(party.clone(), bucket, (), now);
    if wait.is_zero() { Ok(()) } else { Err(wait) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> Option<IpAddr> {
        Some([192, 0, 2, last].into())
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_asks_too_often_waits_and_others_do_not() {
        let rates = TokenRates::new(100);
        let ask = |session: &str| rates.take(&Id::new(session), &Id::new("laptop"), address(1));
        assert_eq!((0..100).take_while(|_| ask("one").is_ok()).count(), OF_SESSION as usize);
        let wait = ask("one").unwrap_err();
        assert!(wait < Duration::from_secs(2), "{wait:?}");
        assert_eq!(ask("two"), Ok(()));
        tokio::time::advance(wait).await;
        assert_eq!(ask("one"), Ok(()));
        let number = |number: usize| format!("s{number}");
        let many = (0..10_000).take_while(|it| ask(&number(*it)).is_ok()).count();
        assert!((150..=200).contains(&many), "those of an identity together: {many}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_has_a_share_however_many_identities_it_has() {
        let rates = TokenRates::new(100);
        let ask = |number: usize, from: Option<IpAddr>| {
            let id = Id::new(&format!("i{number}"));
            rates.take(&id, &id, from)
        };
        let asked = |from| (0..100_000).take_while(|it| ask(*it, from).is_ok()).count();
        let of = asked(address(1));
        assert_eq!(of, OF_SOURCE as usize);
        assert_eq!(ask(200_001, address(2)), Ok(()));
        let site = |number: usize| Some([0x2001, 0xdb8, 1, number as u16, 0, 0, 0, 1].into());
        let own = (0..60_000).take_while(|it| ask(300_000 + it, site(*it)).is_ok()).count();
        assert_eq!(own, 3 * OF_SOURCE as usize, "a new source each time");
        assert!(rates.counts.lock().sessions.len() <= KEPT);
    }
}
