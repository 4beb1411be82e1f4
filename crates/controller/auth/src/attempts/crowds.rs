//! The queue beside crowds of guessers: when the owner has a turn, and how many guesses are checked.

use std::collections::HashMap;
use std::hash::{BuildHasher, DefaultHasher, Hasher as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;
use weft_model::Id;

use super::queue::{DOUBTED_AFTER, LANES, LONGEST_PAUSE, Lane, Queue, SEATS, Step};
use super::{Guesser, PATIENCE};

/// Time between two moments of a simulation.
const TICK: Duration = Duration::from_millis(500);
/// Time for which a code of the app is the current one.
const CODE: Duration = Duration::from_secs(30);

/// A secret, and random numbers, that follow from a number.
#[derive(Debug, Clone, Copy)]
struct Seed(u64);

impl BuildHasher for Seed {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0);
        hasher
    }
}

impl Seed {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(1);
        (self.hash_one("number") % most as u64) as usize
    }
}

fn v4(number: usize) -> IpAddr {
    let [.., high, low] = number.to_be_bytes();
    Ipv4Addr::new(198, 51, high, low).into()
}

/// An address in one network of /48.
fn v6(number: usize) -> IpAddr {
    Ipv6Addr::new(0x2001, 0xdb8, 1, number as u16, 0, 0, 0, 1).into()
}

fn guesser(source: IpAddr, session: &str) -> Guesser {
    Guesser {
        identity: Id::new("anna"),
        session: Id::new(session),
        source: Some(source),
        is_proven: false,
    }
}

/// The sender of a waiting code, and the time until which it waits.
struct Sent {
    guesser: Guesser,
    until: Instant,
}

/// A queue with its waiting codes.
struct Lab {
    queue: Queue<Seed>,
    now: Instant,
    waiting: HashMap<u64, Sent>,
    tickets: u64,
    turns: usize,
    wrong: usize,
}

impl Lab {
    fn new(seed: u64) -> Self {
        let now = Instant::now();
        let queue = Queue::with_secret(Seed(seed), now);
        Self { queue, now, waiting: HashMap::new(), tickets: 0, turns: 0, wrong: 0 }
    }

    /// Sends a code; false if there is no place for it.
    fn send(&mut self, guesser: &Guesser, is_known: bool) -> bool {
        self.tickets += 1;
        let lane = self.queue.lane(guesser, is_known, self.now);
        let joined = self.queue.join(guesser, lane, self.tickets).is_ok();
        if joined {
            let sent = Sent { guesser: guesser.clone(), until: self.now + PATIENCE };
            self.waiting.insert(self.tickets, sent);
        }
        joined
    }

    /// Gives the turns that are due. Codes of `owner` are right, and all others wrong. True if the owner is in.
    fn tick(&mut self, owner: Option<&Guesser>, began: Instant) -> bool {
        let now = self.now;
        let mut is_in = false;
        let mut tickets: Vec<u64> = self.waiting.keys().copied().collect();
        tickets.sort_unstable();
        for ticket in tickets {
            let Some(sent) = self.waiting.get(&ticket) else { continue };
            match self.queue.step(ticket, now) {
                Step::Go => {
                    let guesser = sent.guesser.clone();
                    self.waiting.remove(&ticket);
                    self.turns += 1;
                    self.queue.end();
                    let is_owner = owner.is_some_and(|it| it.session == guesser.session);
                    let code = (now - began).as_secs() / CODE.as_secs();
                    if is_owner && self.queue.believes(&guesser.session, &code.to_string(), now) {
                        self.queue.right(&guesser);
                        is_in = true;
                    } else {
                        self.wrong += usize::from(!is_owner);
                        self.queue.wrong(&guesser, now);
                    }
                }
                Step::Displaced => _ = self.waiting.remove(&ticket),
                Step::Behind | Step::At(_) if now >= sent.until => {
                    self.waiting.remove(&ticket);
                    self.queue.leave(ticket);
                }
                Step::Behind | Step::At(_) => {}
            }
        }
        self.now += TICK;
        is_in
    }

    /// Lets some of a crowd guess at this moment.
    fn guess(&mut self, random: &mut Seed, crowd: &[IpAddr], sessions: usize) {
        for _ in 0..random.below(10) {
            if crowd.is_empty() {
                return;
            }
            let from = random.below(crowd.len());
            let session = format!("{from}-{}", random.below(sessions));
            self.send(&guesser(crowd[from], &session), false);
        }
    }

    fn waits(&self, sender: &Guesser) -> bool {
        self.waiting.values().any(|it| it.guesser.session == sender.session)
    }

    /// Logs the owner in beside a crowd; returns the number of turns until then. Refused codes come again after the
    /// time that the owner is told.
    fn owner(
        &mut self,
        owner: &Guesser,
        is_known: bool,
        most: usize,
        mut guess: impl FnMut(&mut Self),
    ) -> usize {
        let (began, before) = (self.now, self.turns);
        let mut again = self.now;
        loop {
            guess(self);
            let waits = self.waits(owner);
            let is_due = !waits && self.now >= again;
            let is_sent = is_due && self.send(owner, is_known);
            if self.tick(Some(owner), began) {
                return self.turns - before;
            }
            // Refused, displaced, or wrong for the moment.
            if (is_due && !is_sent) || ((is_sent || waits) && !self.waits(owner)) {
                again = self.now + self.queue.wait(self.now);
            }
            let turns = self.turns - before;
            assert!(turns <= most, "{turns} turns, and the owner is not in");
        }
    }
}

/// Turns in which a second code comes, after the first was right: each lane has one in the meantime, and the next code of
/// the app is the current one after 30 s.
const SECOND: usize = LANES + (CODE.as_secs() / LONGEST_PAUSE.as_secs()) as usize + 2;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Whatever a crowd of `count` sources did before: some of them guess all the time, the others when the owner comes.
    #[test]
    fn an_owner_has_a_turn_before_any_source_has_two(
        seed: u64,
        count in 0_usize..SEATS,
        early in 0_usize..SEATS,
        seconds in 0_u64..1000,
        sessions in 1_usize..4,
    ) {
        let (mut lab, mut random) = (Lab::new(seed), Seed(!seed));
        let crowd: Vec<_> = (0..count).map(v4).collect();
        let begun = lab.now;
        while lab.now < begun + Duration::from_secs(seconds) {
            lab.guess(&mut random, &crowd[..early.min(count)], sessions);
            lab.tick(None, begun);
        }
        // Strangers have every other turn at least, and one more passes while the owner is told to wait.
        let most = 2 * (count + 2) + SECOND;
        lab.owner(&guesser(v4(9999), "owner"), false, most, |lab| {
            lab.guess(&mut random, &crowd, sessions);
        });
    }

    /// At a known source the number of the others makes no difference.
    #[test]
    fn an_owner_at_a_known_source_waits_for_few_turns(
        seed: u64,
        count in 0_usize..5000,
        seconds in 0_u64..600,
    ) {
        let (mut lab, mut random) = (Lab::new(seed), Seed(!seed));
        let crowd: Vec<_> = (0..count).map(v4).collect();
        let begun = lab.now;
        while lab.now < begun + Duration::from_secs(seconds) {
            lab.guess(&mut random, &crowd, 2);
            lab.tick(None, begun);
        }
        lab.owner(&guesser(v4(9999), "owner"), true, LANES + SECOND, |lab| {
            lab.guess(&mut random, &crowd, 2);
        });
    }

    /// However many sources of a /48 guess, they have the seats of three.
    #[test]
    fn the_owner_of_a_large_network_of_ipv6_is_three_sources(seed: u64, seconds in 0_u64..600) {
        let (mut lab, mut random) = (Lab::new(seed), Seed(!seed));
        let crowd: Vec<_> = (0..5000).map(v6).collect();
        let begun = lab.now;
        while lab.now < begun + Duration::from_secs(seconds) {
            lab.guess(&mut random, &crowd, 2);
            lab.tick(None, begun);
        }
        let owner = guesser("2001:db8:2::1".parse().unwrap(), "owner");
        lab.owner(&owner, false, 2 * (3 + 2) + SECOND, |lab| {
            lab.guess(&mut random, &crowd, 2);
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3))]

    /// However many sources and sessions guess, a wrong code is checked every 5 s in the long run.
    #[test]
    fn a_crowd_guesses_no_faster_than_one(seed: u64, count in 1_usize..5000) {
        let (mut lab, mut random) = (Lab::new(seed), Seed(!seed));
        let crowd: Vec<_> = (0..count).map(v4).collect();
        let begun = lab.now;
        while lab.now < begun + Duration::from_secs(3600) {
            lab.guess(&mut random, &crowd, 5);
            lab.tick(None, begun);
        }
        // The first pauses are shorter, and come to 7.75 s together.
        prop_assert!((700..=726).contains(&lab.wrong), "{}", lab.wrong);
        prop_assert!(lab.wrong > DOUBTED_AFTER as usize);
    }
}

#[test]
fn each_source_has_a_place_before_any_has_two() {
    let mut lab = Lab::new(1);
    for session in ["a", "b", "c", "d"] {
        assert!(lab.send(&guesser(v4(1), session), false));
    }
    for source in 2..=4 {
        assert!(lab.send(&guesser(v4(source), &format!("of {source}")), false));
    }
    // It can take the place of a code of its own source only.
    lab.send(&guesser(v4(2), "second"), false);
    let tickets: Vec<u64> = lab.waiting.keys().copied().collect();
    let mut sources = Vec::new();
    for ticket in tickets {
        if !matches!(lab.queue.step(ticket, lab.now), Step::Displaced) {
            lab.queue.end();
            sources.push(lab.waiting[&ticket].guesser.source);
        }
    }
    sources.sort_unstable();
    assert_eq!(sources, (1..=4).map(|number| Some(v4(number))).collect::<Vec<_>>());
}

#[test]
fn turns_go_round_by_lane_and_source_and_begin_anew_for_nobody() {
    let mut lab = Lab::new(1);
    // Each source has had its first turn.
    for source in 1..=3 {
        assert!(lab.send(&guesser(v4(source), &format!("{source}")), false));
        lab.now += LONGEST_PAUSE;
        lab.tick(None, lab.now);
    }
    let mut order = Vec::new();
    for round in 0..8 {
        lab.now += LONGEST_PAUSE;
        for source in 1..=3 {
            // A new session gives a source no better turn.
            lab.send(&guesser(v4(source), &format!("{source}-{round}")), false);
        }
        let lane = lab.queue.lane(&guesser(v4(100 + round), "new"), false, lab.now);
        assert_eq!(lane, Lane::New);
        lab.send(&guesser(v4(100 + round), &format!("new {round}")), false);
        let waiting: HashMap<u64, IpAddr> = lab
            .waiting
            .iter()
            .filter_map(|(ticket, sent)| Some((*ticket, sent.guesser.source?)))
            .collect();
        lab.tick(None, lab.now);
        let gone = waiting.iter().filter(|(ticket, _)| !lab.waiting.contains_key(*ticket));
        order.extend(gone.map(|(_, source)| *source).filter(|it| (1..=3).any(|n| v4(n) == *it)));
        for ticket in lab.waiting.drain().map(|(ticket, _)| ticket).collect::<Vec<_>>() {
            lab.queue.leave(ticket);
        }
    }
    // Every other turn is one of a new source.
    assert_eq!(order, [1, 2, 3, 1].map(v4));
}
