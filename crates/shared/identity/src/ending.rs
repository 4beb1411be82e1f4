//! The end of certificates: which one ends first, and when it is time to say so.

use std::time::{Duration, SystemTime};

use crate::certificate::Certificate;
use crate::identity::{Identity, KeyedChain};

/// Longest time before its end at which a certificate that a person renews is said to end soon.
const SOON: Duration = Duration::from_secs(60 * 24 * 3600);
/// A certificate of a short time ends soon when this part of the time is left: it is renewed often, and a
/// warning for most of its life would be ignored.
const PART_LEFT: u32 = 6;

/// A certificate is renewed when one part in this many of its time is left, or later.
const PART_TO_RENEW: u32 = 3;

/// The time at which a certificate with these dates has to be renewed by itself: `longest` before its end, or
/// when the last third of its time begins, if that is later.
#[must_use]
pub fn renewal_due(begin: SystemTime, end: SystemTime, longest: Duration) -> Option<SystemTime> {
    let valid = end.duration_since(begin).unwrap_or_default();
    end.checked_sub(longest.min(valid / PART_TO_RENEW))
}

impl Certificate {
    /// True within 60 days before the end, or within the last sixth of a time of less than a year; also
    /// after the end.
    #[must_use]
    pub fn ends_soon(&self, now: SystemTime) -> bool {
        let valid = self.not_after().duration_since(self.not_before()).unwrap_or_default();
        self.not_after() <= now + SOON.min(valid / PART_LEFT)
    }

    /// The time until the end in words: `in 12 days`, `in 3 hours`, `2 days ago`.
    #[must_use]
    pub fn end_in_words(&self, now: SystemTime) -> String {
        match self.not_after().duration_since(now) {
            Ok(left) => format!("in {}", words(left)),
            Err(past) => format!("{} ago", words(past.duration())),
        }
    }
}

impl Identity {
    /// The certificate that ends first, among those that the identity shows to peers with the authorities
    /// that it shows with them. Alternative server certificates are not among them, because others are shown
    /// after their end.
    #[must_use]
    pub fn first_to_end(&self) -> Option<&Certificate> {
        let chains = self.client().into_iter().chain(self.own_servers());
        chains.flat_map(|chain| chain.chain()).min_by_key(|certificate| certificate.not_after())
    }

    /// The alternative server certificates that end soon, or have ended.
    pub fn ending_alternatives(&self, now: SystemTime) -> impl Iterator<Item = &Certificate> {
        self.alternatives().iter().map(KeyedChain::leaf).filter(move |leaf| leaf.ends_soon(now))
    }
}

fn words(time: Duration) -> String {
    const HOUR: u64 = 3600;
    let (count, unit) = match time.as_secs() {
        seconds if seconds >= 48 * HOUR => (seconds / (24 * HOUR), "days"),
        seconds if seconds >= 2 * HOUR => (seconds / HOUR, "hours"),
        seconds => (seconds / 60, "minutes"),
    };
    format!("{count} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Authority, AuthoritySpec, KeyAlgorithm, KeyPurpose, Leaf, PrivateKey, SubjectName,
        TrustBundle,
    };

    const DAY: Duration = Duration::from_secs(24 * 3600);

    /// A certificate of this many days that ends `left` after `now`.
    fn chain(now: SystemTime, days: u32, left: Duration) -> KeyedChain {
        let authority = Authority::make_root(&AuthoritySpec::new("root"), now - DAY * 900).unwrap();
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let subject = SubjectName::common_name("one");
        let leaf =
            Leaf::for_key(key.public(), &subject, Vec::new(), KeyPurpose::Both, now).unwrap();
        let not_after = now + left;
        let leaf = Leaf { not_before: not_after - DAY * days, not_after, ..leaf };
        KeyedChain::new(vec![authority.issue(&leaf).unwrap()], key).unwrap()
    }

    #[test]
    fn short_certificates_end_soon_later_than_long_ones() {
        let now = SystemTime::UNIX_EPOCH + DAY * 20_000;
        let soon = |days, left| chain(now, days, DAY * left).leaf().ends_soon(now);
        assert!(soon(730, 59) && soon(366, 59));
        assert!(!soon(730, 61));
        assert!(soon(90, 14) && !soon(90, 16));
        assert!(chain(now + DAY, 90, Duration::ZERO).leaf().ends_soon(now + DAY * 3));
    }

    #[test]
    fn the_end_is_told_in_days_hours_and_minutes() {
        let now = SystemTime::UNIX_EPOCH + DAY * 20_000;
        let chain = chain(now, 90, DAY * 12);
        let (leaf, hour) = (chain.leaf(), DAY / 24);
        assert_eq!(leaf.end_in_words(now), "in 12 days");
        assert_eq!(leaf.end_in_words(now + DAY * 11), "in 24 hours");
        assert_eq!(leaf.end_in_words(now + DAY * 12 - hour), "in 60 minutes");
        assert_eq!(leaf.end_in_words(now + DAY * 14), "2 days ago");
    }

    #[test]
    fn the_first_end_of_all_chains_counts() {
        let now = SystemTime::UNIX_EPOCH + DAY * 20_000;
        let [client, early, late] = [20, 10, 30].map(|left| chain(now, 90, DAY * left));
        let first = early.leaf().fingerprint().to_owned();
        let identity = Identity::new(Some(client), vec![late, early], TrustBundle::default());
        assert_eq!(identity.first_to_end().unwrap().fingerprint(), first);
        assert!(Identity::default().first_to_end().is_none());
    }
}
