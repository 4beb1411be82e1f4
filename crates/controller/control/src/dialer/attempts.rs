//! The times and addresses of dials to one router (docs/protocol/control-plane.md 23). Pure: times
//! are arguments.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weft_config::show_duration;
use weft_model::Id;
use weft_wire::Address;

/// How long a router that was connected may take to connect again by itself.
const PAUSE: Duration = Duration::from_secs(1);

/// The pace of dials.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) min: Duration,
    pub(super) max: Duration,
    pub(super) factor: f64,
    /// A connection that ends within this time counts as a failed dial.
    pub(super) fast_failure: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The router is not connected; the time of the next dial.
    Waiting(Instant),
    Dialing,
    /// Connected since this time, whichever side dialed.
    Up(Instant),
}

/// The attempts to reach one router.
#[derive(Debug)]
pub(super) struct Attempts {
    addresses: Vec<Address>,
    /// Index of the next address.
    turn: usize,
    failures: u32,
    delay: Duration,
    phase: Phase,
}

impl Attempts {
    /// Attempts to reach a router at these addresses, of which there is at least one.
    pub(super) fn new(addresses: Vec<Address>, first: Instant) -> Self {
        let phase = Phase::Waiting(first);
        Self { addresses, turn: 0, failures: 0, delay: Duration::ZERO, phase }
    }

    /// Replaces the addresses of the router.
    pub(super) fn set_addresses(&mut self, addresses: Vec<Address>) {
        if self.addresses != addresses {
            self.turn = 0;
            self.addresses = addresses;
        }
    }

    /// Number of failed dials in a row.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// The attempts, as an inspection shows them (docs/protocol/operations.md 3).
    pub(super) fn shown(&self, router: &Id, now: Instant) -> Value {
        let (status, next) = match self.phase {
            Phase::Waiting(due) => ("NeedsDial", due.saturating_duration_since(now)),
            Phase::Dialing => ("Dialing", Duration::ZERO),
            Phase::Up(_) => ("Connected", Duration::ZERO),
        };
        let current = self.addresses.get(self.turn % self.addresses.len().max(1));
        json!({
            "routerId": router.as_str(),
            "addresses": self.addresses.iter().map(Address::to_string).collect::<Vec<_>>(),
            "currentAddress": current.map(Address::to_string).unwrap_or_default(),
            "status": status,
            "dialAttempts": self.failures,
            "retryDelay": show_duration(self.delay),
            "nextDial": show_duration(next),
        })
    }

    /// Notes whether the router is connected; `chance` is between 0 and 1. Returns the time since
    /// which a dial is due, if one is.
    pub(super) fn look(
        &mut self,
        is_connected: bool,
        now: Instant,
        pace: &Pace,
        chance: f64,
    ) -> Option<Instant> {
        match self.phase {
            Phase::Waiting(_) if is_connected => self.phase = Phase::Up(now),
            Phase::Waiting(due) => return (due <= now).then_some(due),
            Phase::Up(since) => {
                let has_lasted = now.duration_since(since) >= pace.fast_failure;
                if has_lasted {
                    (self.turn, self.failures, self.delay) = (0, 0, Duration::ZERO);
                }
                match is_connected {
                    true => {}
                    false if has_lasted => self.phase = Phase::Waiting(now + PAUSE),
                    false => self.failed(now, pace, chance),
                }
            }
            Phase::Dialing => {}
        }
        None
    }

    /// Begins a dial, and returns its address.
    pub(super) fn begin(&mut self) -> Option<Address> {
        let address = self.addresses.get(self.turn % self.addresses.len().max(1))?;
        self.phase = Phase::Dialing;
        Some(address.clone())
    }

    /// Notes that the dial has connected the router.
    pub(super) fn connected(&mut self, now: Instant) {
        self.phase = Phase::Up(now);
    }

    /// Delays a dial that is due, because too many wait.
    pub(super) fn put_off(&mut self, now: Instant, pace: &Pace, chance: f64) {
        let wait = self.delay.max(pace.min).mul_f64(1.0 + chance.clamp(0.0, 1.0));
        self.phase = Phase::Waiting(now + wait);
    }

    /// Notes that the dial has failed. The next one goes to the next address.
    pub(super) fn failed(&mut self, now: Instant, pace: &Pace, chance: f64) {
        let factor = (pace.factor + chance.clamp(0.0, 1.0) - 0.5).max(1.0);
        let longest = pace.max.max(pace.min);
        let grown = (self.delay.as_secs_f64() * factor).min(longest.as_secs_f64());
        self.delay = Duration::from_secs_f64(grown).clamp(pace.min, longest);
        self.turn = self.turn.wrapping_add(1);
        self.failures = self.failures.saturating_add(1);
        self.phase = Phase::Waiting(now + self.delay);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        min: Duration::from_secs(1),
        max: Duration::from_secs(10),
        factor: 2.0,
        fast_failure: Duration::from_secs(5),
    };

    fn router() -> (Attempts, Instant) {
        let now = Instant::now();
        let addresses = ["tls:a:1", "tls:b:2"].map(|text| text.parse().unwrap());
        (Attempts::new(addresses.into(), now), now)
    }

    fn host(attempts: &mut Attempts) -> String {
        attempts.begin().unwrap().host
    }

    #[test]
    fn addresses_take_turns_and_waits_grow_up_to_the_longest() {
        let (mut router, mut now) = router();
        let mut waits = Vec::new();
        for expected in ["a", "b", "a", "b", "a", "b"] {
            let due = router.look(false, now, &PACE, 0.5);
            assert!(due.is_some_and(|due| due <= now));
            assert_eq!(host(&mut router), expected);
            assert_eq!(router.look(false, now + Duration::from_secs(99), &PACE, 0.5), None);
            router.failed(now, &PACE, 0.5);
            waits.push(router.delay.as_secs());
            assert_eq!(router.look(false, now, &PACE, 0.5), None);
            now += router.delay;
        }
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
        assert_eq!(router.failures(), 6);
    }

    #[test]
    fn an_inspection_shows_where_it_stands() {
        let (mut router, now) = router();
        let id = Id::new("r1");
        let shown = |router: &Attempts| {
            let shown = router.shown(&id, now);
            ["currentAddress", "status", "dialAttempts", "retryDelay", "nextDial"]
                .map(|key| shown[key].to_string().replace('"', ""))
        };
        assert_eq!(shown(&router), ["tls:a:1", "NeedsDial", "0", "0s", "0s"]);
        host(&mut router);
        assert_eq!(shown(&router), ["tls:a:1", "Dialing", "0", "0s", "0s"]);
        router.failed(now, &PACE, 0.5);
        assert_eq!(shown(&router), ["tls:b:2", "NeedsDial", "1", "1s", "1s"]);
        router.connected(now);
        assert_eq!(shown(&router)[1], "Connected");
    }

    #[test]
    fn a_dial_that_is_put_off_is_no_failure_and_comes_later() {
        let (mut router, now) = router();
        router.put_off(now, &PACE, 0.5);
        let due = now + Duration::from_millis(1500);
        assert_eq!(router.look(false, due - Duration::from_millis(1), &PACE, 0.5), None);
        assert_eq!(router.look(false, due, &PACE, 0.5), Some(due));
        assert_eq!((host(&mut router).as_str(), router.failures()), ("a", 0));
    }

    #[test]
    fn a_wait_never_shrinks_by_chance() {
        let (mut router, now) = router();
        let pace = Pace { factor: 1.0, ..PACE };
        for chance in [0.0, 0.0, 1.0, 0.0] {
            router.failed(now, &pace, chance);
        }
        assert_eq!(router.delay, Duration::from_millis(1500));
        // A longest wait below the shortest one counts as the shortest.
        router.failed(now, &Pace { max: Duration::ZERO, ..pace }, 0.5);
        assert_eq!(router.delay, PACE.min);
    }

    #[test]
    fn a_connection_that_breaks_at_once_is_a_failure_and_one_that_lasted_is_none() {
        let (mut router, now) = router();
        host(&mut router);
        router.failed(now, &PACE, 0.5);
        host(&mut router);
        router.connected(now);
        let soon = now + Duration::from_secs(4);
        assert_eq!(router.look(false, soon, &PACE, 0.5), None);
        assert_eq!((router.delay.as_secs(), router.failures()), (2, 2));
        assert!(router.look(false, soon + router.delay, &PACE, 0.5).is_some());

        host(&mut router);
        router.connected(now);
        let later = now + PACE.fast_failure;
        assert_eq!(router.look(true, later, &PACE, 0.5), None);
        assert_eq!(router.look(false, later, &PACE, 0.5), None);
        assert_eq!(router.look(false, later + PAUSE, &PACE, 0.5), Some(later + PAUSE));
        assert_eq!((host(&mut router).as_str(), router.failures()), ("a", 0));
    }

    #[test]
    fn who_comes_by_himself_is_not_dialed() {
        let (mut router, now) = router();
        assert_eq!(router.look(true, now, &PACE, 0.5), None);
        assert_eq!(router.look(true, now + Duration::from_secs(99), &PACE, 0.5), None);
        // A new list of addresses starts with its first one.
        router.turn = 1;
        router.set_addresses(vec!["tls:c:3".parse().unwrap(), "tls:d:4".parse().unwrap()]);
        assert_eq!(host(&mut router), "c");
    }
}
