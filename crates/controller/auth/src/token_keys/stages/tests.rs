//! The stages of keys: each transition, and seeds with clocks that jump.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Instant;

use proptest::prelude::*;
use weft_limits::SettledClock;

use super::*;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const PACE: Pace = Pace {
    every: Duration::from_secs(30 * DAY),
    known: Duration::from_secs(3 * HOUR),
    longest: Duration::from_secs(DAY),
};
const START: Timestamp = Timestamp(1_790_000_000_000);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Keys, and a clock.
struct World {
    stages: Stages,
    made: u32,
    begin: Instant,
    settled: SettledClock,
    /// Seconds since the start.
    at: u64,
    /// Seconds by which the clock is ahead.
    skew: i64,
}

impl World {
    fn new() -> Self {
        let (begin, settled) = (Instant::now(), SettledClock::default());
        let mut world = Self { stages: Stages::default(), made: 0, begin, settled, at: 0, skew: 0 };
        world.advance(InUse::default());
        world
    }

    fn now(&self) -> Timestamp {
        Timestamp(START.0 + (i64::try_from(self.at).unwrap() + self.skew) * 1000)
    }

    fn advance(&mut self, in_use: InUse) {
        let (now, made) = (self.now(), &mut self.made);
        let settled = self.settled.read(now.0, self.begin + seconds(self.at)).map(Timestamp);
        let fresh = || {
            *made += 1;
            Ok::<_, Infallible>(format!("key {made:04}"))
        };
        let reading = ClockReading { now, settled };
        self.stages.advance(PACE, reading, || in_use, fresh).unwrap();
    }

    /// Lets time pass, with a look every 10 minutes.
    fn pass(&mut self, time: u64) {
        for _ in 0..time / (10 * MINUTE) {
            self.at += 10 * MINUTE;
            self.advance(InUse::default());
        }
    }

    fn signing(&self) -> String {
        self.stages.signing().unwrap().0
    }

    fn ahead(&self) -> String {
        self.stages.ahead().unwrap().0
    }

    fn counts(&self, kid: &str) -> bool {
        self.stages.get(kid).is_some_and(Stage::verifies)
    }
}

#[test]
fn a_key_is_published_then_signs_then_verifies_then_is_gone() {
    let mut world = World::new();
    let (first, second) = (world.signing(), world.ahead());
    assert_ne!(first, second);
    world.pass(30 * DAY - HOUR);
    assert_eq!((world.signing(), world.ahead()), (first.clone(), second.clone()));
    world.pass(HOUR);
    assert_eq!(world.signing(), second);
    assert!(![&first, &second].contains(&&world.ahead()));
    assert!(matches!(world.stages.get(&first), Some(Stage::Former { .. })));
    world.pass(DAY + HOUR);
    assert!(world.counts(&first));
    world.pass(2 * HOUR);
    assert!(matches!(world.stages.get(&first), Some(Stage::Gone { stolen: false, .. })));
    // Its name is kept, so that routers that were away are told.
    world.pass(300 * DAY);
    assert!(world.stages.get(&first).is_some());
}

#[test]
fn a_former_key_lives_with_the_sessions_that_it_signed_for() {
    let mut world = World::new();
    let (first, begun) = (world.signing(), world.now());
    world.pass(DAY);
    world.stages.roll(PACE, world.now()).unwrap();
    world.pass(HOUR);
    world.at += 10 * DAY;
    for in_use in [
        InUse { oldest_service: Some(begun), ..InUse::default() },
        InUse { named: BTreeSet::from([first.clone()]), ..InUse::default() },
    ] {
        for _ in 0..50 {
            world.at += 10 * MINUTE;
            let InUse { oldest_service, named } = &in_use;
            world.advance(InUse { oldest_service: *oldest_service, named: named.clone() });
        }
        assert!(world.counts(&first));
    }
    let younger = InUse { oldest_service: Some(world.now()), ..InUse::default() };
    world.advance(younger);
    assert!(!world.counts(&first));
}

#[test]
fn tokens_of_a_former_key_have_ended_by_a_settled_clock() {
    let mut world = World::new();
    let first = world.signing();
    world.pass(DAY);
    world.stages.roll(PACE, world.now()).unwrap();
    let rolled = world.now();
    let may_have = |world: &World, settled| world.stages.may_have_tokens(&first, PACE, settled);
    let due = |world: &World, settled| world.stages.is_end_due(PACE, settled);
    let end = rolled.plus(PACE.longest).plus(OVERLAP);
    let before = Timestamp(end.0 - 1);
    assert!(may_have(&world, None) && may_have(&world, Some(before)));
    assert!(!due(&world, None) && !due(&world, Some(before)));
    assert!(!may_have(&world, Some(end)) && due(&world, Some(end)));
    // It goes only after somebody has looked whether it is in use.
    let reading = ClockReading { now: end, settled: Some(end) };
    let fresh = || Ok::<_, Infallible>("fresh".to_owned());
    world.stages.advance(PACE, reading, InUse::unknown, fresh).unwrap();
    assert!(world.counts(&first));
    assert!(world.stages.may_have_tokens(&world.signing(), PACE, Some(end)));
    world.stages.advance(PACE, reading, InUse::default, fresh).unwrap();
    assert!(!world.counts(&first) && !world.stages.may_have_tokens(&first, PACE, None));
    assert!(!world.stages.is_stolen(&first) && world.stages.stolen_with(&first).is_empty());
    // Keys that were dropped together are known together.
    let mut dropped = world.stages.steal(None, end);
    dropped.sort_unstable();
    assert_eq!(world.stages.stolen_with(&dropped[0]), dropped);
}

#[test]
fn a_key_that_was_just_made_signs_only_in_place_of_a_stolen_one() {
    let mut world = World::new();
    world.pass(2 * HOUR);
    let (first, second) = (world.signing(), world.ahead());
    assert_eq!(world.stages.roll(PACE, world.now()), Err(NotYet::Young(START.plus(PACE.known))));
    world.pass(HOUR);
    assert_eq!(world.stages.roll(PACE, world.now()), Ok(()));
    world.advance(InUse::default());
    assert_eq!(world.signing(), second);

    // A former key is dropped alone.
    assert_eq!(world.stages.steal(Some(&first), world.now()), std::slice::from_ref(&first));
    world.advance(InUse::default());
    assert!(!world.counts(&first) && world.signing() == second);
    assert!(world.stages.steal(Some(&first), world.now()).is_empty(), "it is gone already");
    assert!(world.stages.steal(Some("no key"), world.now()).is_empty());

    // The signing key and the next one are in the same hands.
    let third = world.ahead();
    let mut dropped = world.stages.steal(None, world.now());
    dropped.sort_unstable();
    assert_eq!(dropped, [second.clone(), third.clone()]);
    world.advance(InUse::default());
    assert!(!world.counts(&second) && !world.counts(&third));
    assert!(![&second, &third].contains(&&world.signing()));
    // So it is when the next one is named.
    let (signing, ahead) = (world.signing(), world.ahead());
    let dropped = world.stages.steal(Some(&ahead), world.now());
    assert!(dropped.len() == 2 && dropped.contains(&signing));
}

#[test]
fn a_lost_private_half_costs_no_token() {
    let mut world = World::new();
    let (first, second) = (world.signing(), world.ahead());
    world.stages.lose(&first, world.now());
    world.advance(InUse::default());
    assert_eq!(world.signing(), second);
    assert!(world.counts(&first));
    world.stages.lose("no key", world.now());
}

#[test]
fn keys_that_count_and_names_of_others_are_limited() {
    let mut world = World::new();
    let in_use = || InUse { oldest_service: Some(START), ..InUse::default() };
    for _ in 0..MOST_FORMER + 3 {
        world.at += 31 * DAY;
        world.advance(in_use());
    }
    let count = |world: &World, is: fn(Stage) -> bool| world.stages.count(is);
    let is_former: fn(Stage) -> bool = |stage| matches!(stage, Stage::Former { .. });
    assert_eq!(count(&world, is_former), MOST_FORMER);
    assert_eq!(world.stages.roll(PACE, world.now()), Err(NotYet::Full));
    assert!(world.stages.is_full(PACE, world.now().plus(PACE.every)));
    let signing = world.signing();
    world.at += 31 * DAY;
    world.advance(in_use());
    assert_eq!(world.signing(), signing, "it goes on to sign");
    // A stolen key is dropped in any case.
    for _ in 0..MOST_GONE {
        world.at += 1;
        world.stages.steal(None, world.now());
        world.advance(in_use());
    }
    assert!(!world.counts(&signing));
    assert_eq!(count(&world, |stage| !stage.verifies()), MOST_GONE);
}

#[test]
fn a_clock_that_was_wrong_when_a_key_began_stops_no_schedule() {
    let mut world = World::new();
    world.skew = i64::try_from(70 * 365 * DAY).unwrap();
    world.advance(InUse::default());
    let signing = world.signing();
    world.skew = 0;
    world.pass(31 * DAY);
    assert_ne!(world.signing(), signing);
}

/// A step of a random history.
#[derive(Debug, Clone)]
enum Step {
    Pass(u64),
    /// The clock is ahead by this many hours from now on.
    Skew(i64),
    Roll,
    Steal(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (1..3 * HOUR).prop_map(Step::Pass),
        2 => (DAY..8 * DAY).prop_map(Step::Pass),
        2 => (-1_i64..=1).prop_map(Step::Skew),
        1 => Just(Step::Roll),
        1 => any::<bool>().prop_map(Step::Steal),
    ];
    proptest::collection::vec(step, 1..120)
}

/// A token, by the clock of its issue.
struct Token {
    kid: String,
    from: Timestamp,
    end: Timestamp,
}

proptest! {
    #[test]
    fn no_clock_lets_anything_in_or_anybody_out(steps in steps(), lives in proptest::collection::vec(MINUTE..DAY, 40)) {
        let mut world = World::new();
        let mut tokens: Vec<Token> = Vec::new();
        let mut stolen = BTreeSet::new();
        // When each key was published.
        let mut published: BTreeMap<String, u64> = BTreeMap::new();
        let mut lives = lives.into_iter().cycle();
        for step in steps {
            let before = world.signing();
            let mut was_stolen = false;
            match step {
                Step::Pass(time) => {
                    let until = world.at + time;
                    while world.at < until {
                        world.at = until.min(world.at + HOUR);
                        world.advance(InUse::default());
                        for (kid, stage) in world.stages.iter() {
                            if stage.verifies() {
                                published.entry(kid.to_owned()).or_insert(world.at);
                            }
                        }
                    }
                }
                Step::Skew(hours) => world.skew = hours * i64::try_from(HOUR).unwrap(),
                Step::Roll => drop(world.stages.roll(PACE, world.now())),
                Step::Steal(signing) => {
                    let former = world.stages.first(|stage| matches!(stage, Stage::Former { .. }));
                    let kid = former.filter(|_| !signing).map(|(kid, _)| kid);
                    stolen.extend(world.stages.steal(kid.as_deref(), world.now()));
                    was_stolen = true;
                }
            }
            world.advance(InUse::default());
            let signing = world.signing();
            let at = world.at;
            for (kid, _) in world.stages.iter() {
                published.entry(kid.to_owned()).or_insert(at);
            }
            if signing != before && !was_stolen {
                prop_assert!(at - published[&signing] >= HOUR - 1, "routers have had an hour");
            }
            prop_assert_eq!(world.stages.count(|stage| matches!(stage, Stage::Signing { .. })), 1);
            prop_assert_eq!(world.stages.count(|stage| matches!(stage, Stage::Ahead { .. })), 1);
            let now = world.now();
            let end = now.plus(seconds(lives.next().unwrap()));
            tokens.push(Token { kid: signing, from: now, end });
            tokens.retain(|token| token.end.0 > now.0 - 7_200_000);
            for token in &tokens {
                let is_current = token.from <= now && now < token.end;
                if stolen.contains(&token.kid) {
                    prop_assert!(!world.counts(&token.kid), "nothing of a stolen key is let in");
                } else if is_current {
                    prop_assert!(world.counts(&token.kid), "nobody is locked out");
                }
            }
            for kid in &stolen {
                prop_assert!(!world.counts(kid));
            }
        }
    }
}
