//! The circuits in the making to each host, for each router of dialers.
//!
//! A host that does not answer keeps a circuit in the making until the time for its dial is over. Circuits to it
//! therefore have a share of the places of a router: others are made in the rest. Of this share a dialing identity may
//! have all while nobody else wants a place. Where it is full, a dial takes the place of the oldest one of the identity
//! that has most places, if that one has at least two more than its own identity: so no identity keeps others from a
//! host by dials that are never answered. The oldest one has been without an answer for the longest time, and for
//! `SILENT` at least: a host that answers is left to whoever dials it. A dial that finds no such place tries again
//! (`super`).

use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use weft_limits::{Among, HolderId, Quota};
use weft_model::Id;
use weft_model::entity::Terminator;

/// Most circuits of one router in the making at the same time.
pub const AT_ONCE: usize = 1024;
/// Most of them that one identity dials: a dial to a host that does not answer takes seconds.
pub const BY_ONE: usize = AT_ONCE / 2;
/// Most of them to the terminators of one identity.
const TO_ONE: usize = AT_ONCE / 4;

/// How long a dial is left alone although others want its place. Routers do the same with their workers.
const SILENT: Duration = Duration::from_secs(1);

/// The circuits in the making by router of the dialer and host, and of those by dialing identity.
#[derive(Debug, Default)]
pub(crate) struct Hosts(Mutex<HashMap<(Id, Id), Quota<Id, Dial>>>);

/// A dial that has a place.
#[derive(Debug)]
pub(crate) struct Dial {
    since: Instant,
    /// Dropped when the place is taken away.
    _place: oneshot::Sender<()>,
}

/// The place of a circuit among those to its host. Given back when dropped.
#[derive(Debug)]
pub(super) struct HostPermit<'h> {
    hosts: &'h Hosts,
    key: (Id, Id),
    dialer: Id,
    dial: HolderId,
    taken: oneshot::Receiver<()>,
}

/// The host of a terminator. A terminator without one counts by itself.
pub(super) fn host_of(terminator: &Terminator) -> &Id {
    if terminator.host_id.is_empty() { &terminator.base.id } else { &terminator.host_id }
}

impl Hosts {
    /// A place for a circuit of a dialing identity from a router to a terminator. None if the host has its share, and
    /// nobody has two more of these places than the dialer, one of them for long enough. All dialers without an identity count as one.
    pub(super) fn take(
        &self,
        router: &Id,
        to: &Terminator,
        dialer: Option<&Id>,
        now: Instant,
    ) -> Option<HostPermit<'_>> {
        let key = (router.clone(), host_of(to).clone());
        let dialer = dialer.cloned().unwrap_or_default();
        let mut shares = self.0.lock();
        let share = shares.entry(key.clone()).or_insert_with(|| Quota::new(TO_ONE, TO_ONE));
        if share.check(&dialer, 1).is_err() {
            // The oldest one of the dialer that has most of them, at least two more.
            let most = Among::Greediest(share.used_by(&dialer) + 2);
            share.displace(most, |dial, held| {
                let age = now.saturating_duration_since(held.holder.since);
                (age >= SILENT).then_some(dial)
            })?;
        }
        let (place, taken) = oneshot::channel();
        let dial = share.enter(&dialer, 1, Dial { since: now, _place: place });
        Some(HostPermit { hosts: self, key, dialer, dial, taken })
    }
}

impl HostPermit<'_> {
    /// Waits until another dialer has taken the place.
    pub(super) async fn displaced(&mut self) {
        if !self.taken.is_terminated() {
            // The sender says nothing; it is dropped.
            let _ = (&mut self.taken).await;
        }
    }
}

impl Drop for HostPermit<'_> {
    fn drop(&mut self) {
        let mut shares = self.hosts.0.lock();
        if let Some(share) = shares.get_mut(&self.key) {
            share.leave(&self.dialer, self.dial);
            if share.is_empty() {
                shares.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use weft_model::{Base, Timestamp};

    use super::*;
    use crate::clock;

    fn terminator(id: &str, host: &str) -> Terminator {
        let base = Base::new(Id::new(id), Timestamp(0));
        Terminator { base, host_id: Id::new(host), ..Terminator::default() }
    }

    #[test]
    fn a_host_has_a_quarter_of_the_places_of_a_router_and_is_forgotten() {
        let (hosts, near, far) = (Hosts::default(), Id::new("near"), Id::new("far"));
        let now = clock::now();
        let (one, other) = (terminator("t1", "bad"), terminator("t2", "bad"));
        let of = |n: usize| if n.is_multiple_of(2) { &one } else { &other };
        let held: Vec<_> = (0..600).map_while(|n| hosts.take(&near, of(n), None, now)).collect();
        assert_eq!(held.len(), 256);
        assert!(hosts.take(&near, &terminator("t3", "good"), None, now).is_some());
        assert!(hosts.take(&near, &terminator("t1", ""), None, now).is_some());
        assert!(hosts.take(&far, &one, None, now).is_some(), "each router has places of its own");
        drop(held);
        assert!(hosts.take(&near, &one, None, now).is_some());
        assert!(hosts.0.lock().is_empty());
    }

    #[test]
    fn dialers_share_the_places_of_a_host_once_it_has_no_more() {
        let (hosts, near, to) = (Hosts::default(), Id::new("near"), terminator("t", "silent"));
        let begun = clock::now();
        let later = begun + SILENT;
        let take_at = |dialer: &str, at| hosts.take(&near, &to, Some(&Id::new(dialer)), at);
        let take = |dialer: &str| take_at(dialer, later);
        let taken = |places: &mut [HostPermit<'_>]| {
            let each = places.iter_mut().map(|place| place.displaced().now_or_never().is_some());
            each.collect::<Vec<_>>()
        };
        let mut greedy: Vec<_> = (0..300).map_while(|_| take_at("greedy", begun)).collect();
        assert_eq!(greedy.len(), 256, "one dialer has all while nobody else wants one");
        let early = later - Duration::from_millis(1);
        assert!(take_at("modest", early).is_none(), "they may be answered yet");
        let first = take("modest").unwrap();
        let mut was_taken = vec![false; 256];
        was_taken[0] = true;
        assert_eq!(taken(&mut greedy), was_taken, "the oldest one gives way, once");
        assert!(take("greedy").is_none(), "and takes nothing back");
        let mut modest: Vec<_> = (0..300).map_while(|_| take("modest")).collect();
        assert_eq!(1 + modest.len(), 128, "both have half");
        assert_eq!(taken(&mut greedy).iter().filter(|it| **it).count(), 128);
        assert!(!taken(&mut modest).contains(&true));
        // Whoever lost a place gives none back.
        drop(greedy.drain(..128));
        assert!(take("greedy").is_none());
        let third = take("third").unwrap();
        drop((first, modest, greedy, third));
        assert!(hosts.0.lock().is_empty());
    }
}
