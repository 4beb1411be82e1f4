//! Limits the tokens of external signers with a wrong signature by source, and for the networks around a source, before
//! a signature is verified. Right
//! tokens cost nothing, nor do those that have expired: many clients of one source may wake up with old tokens. A source
//! from which a right token came lately is judged by itself, whatever others in its network send.

use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weft_kernel::Origin;
use weft_limits::{BoundedTable, Caps, Network, NetworkRates, WhenFull, networks_of, source_of};

use crate::token_refusal::TokenRefused;

/// Most networks that are remembered, and most sources of right tokens; above that the oldest one is forgotten.
const KEPT: usize = 10_000;
/// After this time without a wrong token a network is as good as new.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// The time for which the source of a right token is judged by itself.
const PROVEN: Duration = Duration::from_secs(3600);
/// Most sources of one network that are judged by themselves: its owner may have an account, and any number of sources.
const PROVEN_OF_NETWORK: usize = 16;

/// Counts of wrong tokens.
#[derive(Debug)]
pub(crate) struct WrongTokens {
    counts: Mutex<Counts>,
    /// Wrong tokens of a source in a minute; 0 = no limit. Larger networks have more.
    per_minute: u32,
}

#[derive(Debug)]
struct Counts {
    wrong: NetworkRates,
    /// Sources of right tokens that lie in a larger network.
    proven: BoundedTable<IpAddr, (), Network>,
}

impl WrongTokens {
    pub(crate) fn new(per_minute: u32) -> Self {
        let proven = Caps {
            total: KEPT,
            per_source: PROVEN_OF_NETWORK,
            max_age: Some(PROVEN),
            when_full: WhenFull::EvictOldest,
        };
        let rate = f64::from(per_minute) / 60.0;
        let counts = Counts {
            wrong: NetworkRates::new(rate, per_minute, KEPT, FORGOTTEN),
            proven: BoundedTable::new(proven),
        };
        Self { counts: Mutex::new(counts), per_minute }
    }

    /// Whether a source may show a token; the error is the time after which to try again.
    pub(crate) fn check(&self, from: Option<IpAddr>) -> Result<(), Duration> {
        let Some(from) = from.filter(|_| self.per_minute > 0) else { return Ok(()) };
        let now = Instant::now().into_std();
        let Counts { wrong, proven } = &mut *self.counts.lock();
        let wait = match proven.get(&source_of(from), now) {
            Some(()) => wrong.own_wait(from, now),
            None => wrong.wait(from, now),
        };
        if wait.is_zero() { Ok(()) } else { Err(wait) }
    }

    /// Notes a token that was refused, if its signature is wrong. A token counts once in a request, which may be judged
    /// several times: as first factor, as second one, and again after a wait.
    pub(crate) fn note(&self, origin: &Origin, token: &str, reason: &TokenRefused) {
        if matches!(reason, TokenRefused::Forged(_)) && origin.counted.count(token) {
            self.count(origin.ip());
        }
    }

    /// Counts a wrong token of a source.
    fn count(&self, from: Option<IpAddr>) {
        let Some(from) = from.filter(|_| self.per_minute > 0) else { return };
        self.counts.lock().wrong.count(from, Instant::now().into_std());
    }

    /// Notes that a source showed a right token.
    pub(crate) fn note_right(&self, from: Option<IpAddr>) {
        let Some(from) = from.filter(|_| self.per_minute > 0) else { return };
        let mut networks = networks_of(from);
        let (Some(largest), Some(_)) = (networks.next(), networks.next()) else { return };
        let (source, now) = (source_of(from), Instant::now().into_std());
        let mut counts = self.counts.lock();
        // The age of the entry begins anew. The table always has room, because it evicts others.
        counts.proven.remove(&source);
        let _ = counts.proven.insert(source, (), largest, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_source_of_wrong_tokens_waits_and_others_do_not() {
        let wrong = WrongTokens::new(100);
        let at = |last: u8| Some(IpAddr::from([192, 0, 2, last]));
        for _ in 0..100 {
            wrong.check(at(1)).unwrap();
            wrong.count(at(1));
        }
        let wait = wrong.check(at(1)).unwrap_err();
        assert!(wait <= Duration::from_secs(1), "{wait:?}");
        assert_eq!((wrong.check(at(2)), wrong.check(None)), (Ok(()), Ok(())));
        tokio::time::advance(wait * 2).await;
        wrong.check(at(1)).unwrap();
        for number in 0..3 * KEPT as u32 {
            wrong.count(Some(std::net::Ipv4Addr::from(number).into()));
        }
        assert_eq!(wrong.counts.lock().wrong.len(), KEPT);
        let site = |number: u16| Some([0x2001, 0xdb8, 1, number, 0, 0, 0, 1].into());
        let shown = (0..1000).map(site).take_while(|from| wrong.check(*from).is_ok());
        assert_eq!(shown.inspect(|from| wrong.count(*from)).count(), 200, "a /56");
        let off = WrongTokens::new(0);
        (0..1000).for_each(|_| off.count(at(1)));
        assert_eq!(off.check(at(1)), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn three_sources_of_wrong_tokens_do_not_shut_out_their_network() {
        let wrong = WrongTokens::new(100);
        let at = |number: u16| Some([0x2001, 0xdb8, 1, number, 0, 0, 0, 1].into());
        let send =
            |from| (0..300).filter(|_| wrong.check(from).is_ok()).for_each(|_| wrong.count(from));
        for forger in [0x100, 0x200, 0x300] {
            send(at(forger));
            wrong.check(at(forger)).unwrap_err();
        }
        wrong.check(at(0x400)).unwrap();
        // Somebody with the whole network shuts out those of whom nothing is known.
        wrong.note_right(at(0x500));
        (0x600..0x700).for_each(|number| send(at(number)));
        wrong.check(at(0x400)).unwrap_err();
        wrong.check(at(0x500)).unwrap();
        send(at(0x500));
        wrong.check(at(0x500)).unwrap_err();
        // An account makes few of his sources known ones.
        (0..2 * PROVEN_OF_NETWORK as u16).for_each(|number| wrong.note_right(at(0x1000 + number)));
        let known = (0..100).filter(|number| wrong.check(at(0x1000 + number)).is_ok());
        assert_eq!(known.count(), PROVEN_OF_NETWORK);
    }
}
