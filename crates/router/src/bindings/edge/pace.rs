//! The number of small messages that a native SDK is sent before it has handed on earlier ones.
//!
//! A native SDK reads up to 64 KiB at a time, holds 32 messages until it has handed them to the
//! application, and leaves the rest in its buffer. Where more than 32 are left once the first 32
//! are done, it stops reading and sleeps until one of its timers ends, for 10 to 20 s
//! (`ziti_channel_prepare` and `ztx_prep_deadlines` of `openziti/ziti-sdk-c` 1.18). A read of 64
//! KiB contains fewer than 32 messages of more than 2 KiB, so that only smaller messages are
//! counted here.
//!
//! At most [`HELD`] small messages are therefore under way that the SDK may have read and not handed
//! on. The SDK shows what it has handed on by answering a question that follows the messages. On a
//! path with a long delay more messages may be under way, as many each millisecond, because those
//! that travel are not in the SDK's buffer.
//!
//! Answers come late after a long path and from a busy machine alike. The answers of a path agree, and
//! those of a busy machine do not: a delay counts while [`AGREEING`] answers in a row took equally long,
//! and only beyond the time that a busy machine may add to each of them ([`BUSY`]). The SDK is asked that
//! often when it has just connected and has little else to do. An answer that comes later than the others
//! is one of an SDK that does not keep up, and ends that.

use std::time::{Duration, Instant};

/// Small messages that the SDK may have in its buffer: fewer than the 32 that it holds, because
/// answers and notices outside of this count need room, too.
const HELD: u64 = 24;
/// Bodies up to this length, in bytes, are small.
const SMALL: usize = 2 * 1024;
/// The SDK is asked after this many small messages.
const ASK_AFTER: u64 = 8;
/// On a path with a delay, [`HELD`] messages are sent in each interval of this length.
pub(super) const TURN: Duration = Duration::from_millis(1);
/// Most small messages under way, whatever the delay.
const MOST: u64 = 4096;
/// The round trip of the path is the shortest one in the last one to two intervals of this length.
const MEMORY: Duration = Duration::from_secs(300);
/// The part of a round trip that may be the SDK's own time.
const BUSY: Duration = Duration::from_millis(10);
/// The number of answers in a row that show the delay of the path by taking equally long.
const AGREEING: u32 = 8;
/// Answers agree with the shortest one if they take longer by at most this, or by an eighth.
const SLACK: Duration = Duration::from_millis(1);
/// How many times the SDK is asked when it has just connected.
pub(super) const FIRST_QUESTIONS: u32 = AGREEING;

/// The small messages that an SDK was sent, and those that it has handed on.
#[derive(Debug, Default)]
pub(super) struct Pace {
    sent: u64,
    handed_on: u64,
    question: Option<Question>,
    path: Path,
    interval: Option<SendInterval>,
}

/// A question that is not answered yet.
#[derive(Debug)]
struct Question {
    /// The number of messages handed on once the SDK answers.
    covers: u64,
    asked: Instant,
}

/// The messages sent within one [`TURN`].
#[derive(Debug, Clone, Copy)]
struct SendInterval {
    since: Instant,
    sent: u64,
}

/// The shortest round trips of two intervals.
#[derive(Debug, Default)]
struct Path {
    since: Option<Instant>,
    now: Option<Duration>,
    before: Option<Duration>,
    /// The number of last round trips in a row that agree with the shortest one.
    agreeing: u32,
}

impl Pace {
    /// True if messages with this body count as small.
    pub(super) fn counts(body: &[u8]) -> bool {
        body.len() <= SMALL
    }

    /// How many small messages may be sent now.
    pub(super) fn room(&self, now: Instant) -> u64 {
        let window = self.window();
        let room = window.saturating_sub(self.sent - self.handed_on);
        if window == HELD {
            return room;
        }
        let in_turn = self
            .interval
            .filter(|interval| is_on(interval.since, now))
            .map_or(0, |interval| interval.sent);
        room.min(HELD.saturating_sub(in_turn))
    }

    /// Counts small messages that are being written.
    pub(super) fn wrote(&mut self, small: u64, now: Instant) {
        self.sent += small;
        match &mut self.interval {
            Some(interval) if is_on(interval.since, now) => interval.sent += small,
            interval => *interval = Some(SendInterval { since: now, sent: small }),
        }
    }

    /// True if the SDK is to be asked now, after all written messages.
    pub(super) fn is_due(&self) -> bool {
        self.question.is_none() && self.sent - self.handed_on >= ASK_AFTER
    }

    /// Notes that the SDK is asked.
    pub(super) fn ask(&mut self, now: Instant) {
        self.question = Some(Question { covers: self.sent, asked: now });
    }

    /// Notes the SDK's answer.
    pub(super) fn answered(&mut self, now: Instant) {
        if let Some(question) = self.question.take() {
            self.handed_on = question.covers;
            self.path.measured(now.saturating_duration_since(question.asked), now);
        }
    }

    /// Notes that the SDK did not answer a question in time: its messages count as handed on.
    pub(super) fn unanswered(&mut self) {
        self.question = None;
        self.handed_on = self.sent;
    }

    /// Small messages that may be under way.
    fn window(&self) -> u64 {
        let turns = self.path.delay().saturating_sub(BUSY).as_nanos() / TURN.as_nanos();
        let turns = u64::try_from(turns).unwrap_or(u64::MAX).max(1);
        HELD.saturating_mul(turns).min(MOST)
    }
}

fn is_on(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < TURN
}

impl Path {
    fn measured(&mut self, round_trip: Duration, now: Instant) {
        let old = self.since.is_none_or(|since| now.saturating_duration_since(since) >= MEMORY);
        if old {
            self.since = Some(now);
            self.before = self.now.take();
        }
        let shortest = self.shortest().unwrap_or(round_trip);
        let agrees = round_trip.abs_diff(shortest) <= SLACK.max(shortest / 8);
        self.agreeing = if agrees { self.agreeing.saturating_add(1) } else { 0 };
        self.now = Some(self.now.map_or(round_trip, |least| least.min(round_trip)));
    }

    fn shortest(&self) -> Option<Duration> {
        self.now.into_iter().chain(self.before).min()
    }

    /// The delay of the path, as far as the answers show one.
    fn delay(&self) -> Duration {
        self.shortest().filter(|_| self.agreeing >= AGREEING).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_micros(100);

    /// Sends as many messages as there is room for, and returns their number.
    fn send(pace: &mut Pace, now: Instant) -> u64 {
        let room = pace.room(now);
        pace.wrote(room, now);
        room
    }

    #[test]
    fn no_more_go_than_the_sdk_holds_until_it_answers() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        for _ in 0..1000 {
            assert_eq!(send(&mut pace, now), HELD);
            assert_eq!(send(&mut pace, now), 0);
            assert!(pace.is_due());
            pace.ask(now);
            assert!(!pace.is_due(), "one question at a time");
            now += QUICK;
            assert_eq!(pace.room(now), 0);
            pace.answered(now);
        }
    }

    #[test]
    fn an_answer_is_about_what_was_written_before_the_question() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        pace.wrote(ASK_AFTER - 1, now);
        assert!(!pace.is_due(), "too few to ask about");
        pace.wrote(1, now);
        assert!(pace.is_due());
        pace.ask(now);
        pace.wrote(5, now);
        pace.answered(now + QUICK);
        assert_eq!(pace.room(now + QUICK), HELD - 5);
        pace.wrote(HELD - 5, now + QUICK);
        pace.unanswered();
        assert_eq!(pace.room(now + 2 * QUICK), HELD);
    }

    /// Asks the SDK, which answers after a round trip.
    fn ask(pace: &mut Pace, now: &mut Instant, round_trip: Duration) {
        pace.ask(*now);
        *now += round_trip;
        pace.answered(*now);
    }

    /// A pace after the first questions over a path with such a round trip.
    fn connected(round_trip: Duration, now: &mut Instant) -> Pace {
        let mut pace = Pace::default();
        (0..FIRST_QUESTIONS).for_each(|_| ask(&mut pace, now, round_trip));
        pace
    }

    /// Small messages in one second over a path with such a round trip.
    fn in_a_second(round_trip: Duration) -> u64 {
        let mut now = Instant::now();
        let mut pace = connected(round_trip, &mut now);
        let (start, mut answer, mut sent) = (now, None, 0);
        while now < start + Duration::from_secs(1) {
            if answer.is_some_and(|at| at <= now) {
                pace.answered(now);
                answer = None;
            }
            sent += send(&mut pace, now);
            if pace.is_due() {
                pace.ask(now);
                answer = Some(now + round_trip);
            }
            now += QUICK;
        }
        sent
    }

    #[test]
    fn a_long_path_carries_more_at_a_time() {
        let most = HELD * 1000;
        for (delay, at_least) in [(5, 2_000), (20, 2_000), (50, 5_000), (150, 7_000)] {
            let sent = in_a_second(Duration::from_millis(delay));
            assert!(sent > at_least, "{sent} at {delay} ms");
            assert!(sent <= most + HELD, "{sent} at {delay} ms");
        }
        assert!(in_a_second(QUICK) > most);
    }

    #[test]
    fn a_busy_sdk_is_not_taken_for_a_long_path() {
        let mut now = Instant::now();
        let mut pace = connected(BUSY, &mut now);
        assert_eq!(pace.room(now), HELD);
        // Once it was quicker, it is the SDK that is slow.
        (0..2 * AGREEING).for_each(|_| ask(&mut pace, &mut now, 10 * BUSY));
        assert_eq!(pace.room(now), HELD);
    }

    #[test]
    fn a_machine_that_is_busy_from_the_beginning_is_not_taken_for_a_long_path() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        for millis in [31, 24, 47, 25, 90, 33, 28, 60].repeat(20) {
            ask(&mut pace, &mut now, Duration::from_millis(millis));
            assert_eq!(send(&mut pace, now), HELD);
            assert_eq!(send(&mut pace, now + TURN), 0, "after an answer in {millis} ms");
        }
    }

    #[test]
    fn an_sdk_at_the_end_of_a_long_path_that_does_not_keep_up_is_sent_less() {
        let (mut now, path) = (Instant::now(), Duration::from_millis(100));
        let mut pace = connected(path, &mut now);
        let under_way = |pace: &mut Pace, now: &mut Instant| {
            let mut sent = 0;
            for _ in 0..20 {
                sent += send(pace, *now);
                *now += TURN;
            }
            sent
        };
        assert_eq!(under_way(&mut pace, &mut now), 20 * HELD);
        ask(&mut pace, &mut now, path + BUSY);
        assert_eq!(under_way(&mut pace, &mut now), 20 * HELD, "no two answers take the same time");
        ask(&mut pace, &mut now, 2 * path);
        assert_eq!(under_way(&mut pace, &mut now), HELD);
    }

    #[test]
    fn a_delay_that_is_gone_is_forgotten() {
        let (mut path, now) = (Path::default(), Instant::now());
        let mut after = |millis, at| {
            (0..AGREEING).for_each(|_| path.measured(Duration::from_millis(millis), at));
            path.delay().as_millis()
        };
        assert_eq!(after(80, now), 80);
        assert_eq!(after(50, now + QUICK), 0, "one answer has disagreed");
        assert_eq!(after(50, now + QUICK), 50);
        assert_eq!(after(70, now + MEMORY), 0, "remembered for a while");
        assert_eq!(after(70, now + 2 * MEMORY), 70);
    }
}
