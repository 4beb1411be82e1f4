use bytes::Bytes;

use super::*;
use crate::receiver::MAX_AHEAD;

const MS: Duration = Duration::from_millis(1);

struct Bench {
    sender: Sender,
    start: Instant,
}

impl Bench {
    fn new(options: &Options) -> Self {
        let start = Instant::now();
        Self { sender: Sender::new(options, &Budget::unlimited(), start), start }
    }

    fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    fn give(&mut self, n: usize, len: usize) {
        for _ in 0..n {
            self.sender.push(Outgoing {
                flags: Flags::NONE,
                headers: Vec::new(),
                data: Bytes::from(vec![0; len]),
            });
        }
    }

    /// The sequence numbers sent at this time; negative for payloads that are sent again.
    fn send(&mut self, ms: u64) -> Vec<i32> {
        let now = self.at(ms);
        let mut sent = Vec::new();
        while let Some(payload) = self.sender.transmit(Flags::NONE, ms as u16, now) {
            let again = payload.flags.has(Flags::RETRANSMIT);
            sent.push(if again { -payload.sequence } else { payload.sequence });
        }
        sent
    }

    fn ack(&mut self, ms: u64, sequences: &[i32], stamp: u16) -> bool {
        let ack = Ack { sequences: sequences.to_vec(), stamp, ..Ack::default() };
        let now = self.at(ms);
        self.sender.on_ack(&ack, now)
    }

    fn report(&mut self, ms: u64, recv_buffer_size: u32, sequences: &[i32]) {
        let sequences = sequences.to_vec();
        let now = self.at(ms);
        self.sender.on_ack(&Ack { recv_buffer_size, sequences, ..Ack::default() }, now);
    }
}

fn fixed(window: u64) -> Options {
    Options { window: crate::WindowKind::Fixed(window), ..Options::default() }
}

#[test]
fn the_window_bounds_what_is_in_flight() {
    let mut bench = Bench::new(&fixed(10_000));
    bench.give(10, 2_244);
    assert_eq!(bench.send(0), [0, 1, 2, 3]);
    assert!(!bench.sender.is_ready());
    assert!(bench.ack(10, &[1], 0));
    assert_eq!(bench.send(10), [4]);
    assert_eq!(bench.sender.smoothed_rtt(), Some(10 * MS));
}

#[test]
fn lost_is_what_was_sent_well_before_what_arrived() {
    let mut bench = Bench::new(&fixed(1 << 20));
    bench.give(1, 10);
    bench.send(0);
    bench.give(1, 10);
    bench.send(9);
    bench.give(1, 10);
    bench.send(20);
    assert!(bench.ack(40, &[1], 9));
    assert_eq!(bench.send(40), [0; 0], "9 ms may be mere reordering");
    assert!(bench.ack(41, &[2], 20));
    assert_eq!(bench.send(41), [0], "sent again; zero has no sign");
    assert_eq!(bench.send(41), [0; 0]);
    assert!(bench.ack(80, &[0], 41));
    assert!(bench.sender.is_drained());
    assert_eq!(bench.sender.deadline(), None);
}

#[test]
fn a_time_out_asks_with_one_copy_and_waits_longer_each_time() {
    let mut bench = Bench::new(&fixed(1 << 20));
    bench.give(3, 10);
    assert_eq!(bench.send(0), [0, 1, 2]);
    for (expected, at) in [(200, 200), (400, 600), (800, 1400)] {
        let deadline = bench.sender.deadline().unwrap();
        assert_eq!(deadline, bench.at(at), "after another {expected} ms");
        bench.sender.on_timeout(deadline);
        assert_eq!(bench.send(at), [0]);
    }
    assert!(bench.ack(1450, &[0], 1400));
    assert_eq!(bench.send(1450), [-1, -2], "the copy's ack tells that the others are lost");
}

#[test]
fn both_copies_acked_means_more_patience() {
    let mut bench = Bench::new(&fixed(1 << 20));
    let before = bench.sender.rtt.reorder_time();
    bench.give(2, 10);
    bench.send(0);
    bench.sender.on_timeout(bench.at(200));
    assert_eq!(bench.send(200), [0]);
    bench.ack(210, &[0], 0);
    bench.ack(220, &[0], 200);
    assert!(bench.sender.rtt.reorder_time() > before);
}

/// Of six payloads, the first took 29 ms; the copy of the second is acknowledged after 5 ms.
fn copied() -> Bench {
    let mut bench = Bench::new(&fixed(1 << 20));
    bench.give(6, 10);
    assert_eq!(bench.send(1).len(), 6);
    assert!(bench.ack(30, &[0], 1));
    bench.sender.on_timeout(bench.at(500));
    assert_eq!(bench.send(500), [-1]);
    assert!(bench.ack(505, &[1], 0));
    bench
}

/// A queue made every round trip longer than the copy's, which found the path empty.
#[test]
fn a_copy_that_is_back_sooner_than_any_before_is_believed_after_a_while() {
    let mut bench = copied();
    assert_eq!(bench.send(505), [0; 0], "late acks may follow");
    let until = bench.sender.deadline().unwrap();
    assert!(until < bench.at(530), "{:?}", until - bench.start);
    bench.sender.on_timeout(until);
    assert_eq!(bench.send(530), [-2, -3, -4, -5]);
    assert_eq!(bench.sender.deadline(), Some(bench.at(530) + bench.sender.timeout()));
}

/// Nothing of the path was lost, it stood still for half a second.
#[test]
fn late_acks_after_a_pause_lead_to_no_further_copies() {
    let mut bench = copied();
    assert!(bench.ack(506, &[2, 3], 1));
    bench.sender.on_timeout(bench.at(530));
    assert_eq!(bench.send(530), [0; 0]);
    assert!(bench.ack(531, &[4, 5], 1));
    assert!(bench.sender.is_drained());
}

#[test]
fn another_path_gets_everything_again() {
    let mut bench = Bench::new(&fixed(1 << 20));
    bench.give(3, 10);
    bench.send(0);
    bench.ack(5, &[1], 0);
    bench.sender.path_changed(bench.at(6));
    assert_eq!(bench.send(6), [0, -2]);
}

#[test]
fn a_full_peer_is_left_alone_and_asked_now_and_then() {
    let mut bench = Bench::new(&fixed(1 << 20));
    bench.give(4, 1000);
    assert_eq!(bench.send(0).len(), 4);
    bench.give(2, 1000);
    bench.report(10, 4 << 20, &[0, 1, 2, 3]);
    assert!(bench.sender.is_ready(), "it must see the block once");
    assert_eq!(bench.send(10), [0; 0]);
    assert!(!bench.sender.is_ready());
    let deadline = bench.sender.deadline().unwrap();
    bench.sender.on_timeout(deadline);
    let knock = bench.sender.transmit(Flags::NONE, 0, deadline).unwrap();
    assert!(knock.sequence == 0 && knock.data.is_empty() && knock.flags.has(Flags::RETRANSMIT));
    assert_eq!(bench.send(300), [0; 0]);
    assert_eq!(bench.sender.unacked(), 0);

    bench.report(310, 4 << 20, &[0]);
    assert_eq!(bench.sender.last_progress(), bench.at(310), "it lives");
    assert_eq!(bench.send(310), [0; 0]);
    let later = bench.sender.deadline().unwrap();
    assert!(later - bench.at(310) > deadline - bench.at(10), "asked less and less often");
    bench.sender.on_timeout(later);
    assert_eq!(bench.send(2000), [0]);
    bench.report(2010, 0, &[0]);
    assert_eq!(bench.send(2010), [4, 5]);
}

#[test]
fn a_peer_that_got_nothing_yet_is_not_full() {
    let mut bench = Bench::new(&fixed(1 << 20));
    bench.report(0, u32::MAX, &[]);
    bench.give(1, 1000);
    assert_eq!(bench.send(1), [0]);
}

#[test]
fn a_reader_that_has_stopped_is_given_no_more_however_long_it_takes() {
    let options = fixed(1 << 20);
    let mut bench = Bench::new(&options);
    let mut receiver = crate::receiver::Receiver::new(&options, &Budget::unlimited());
    bench.give(300, 32 << 10);
    let mut now = bench.start;
    let mut buffered = 0;
    for round in 0..200 {
        while let Some(payload) = bench.sender.transmit(Flags::NONE, 0, now) {
            receiver.take(payload);
            if let Some(ack) = receiver.ack(Flags::ORIGINATOR) {
                bench.sender.on_ack(&ack, now);
            }
        }
        if round == 0 {
            buffered = receiver.buffered();
        }
        now = bench.sender.deadline().unwrap();
        bench.sender.on_timeout(now);
    }
    assert!(buffered > options.tx_max_size / 2, "{buffered}");
    assert_eq!(receiver.buffered(), buffered);
    // The first payload that is read opens the window.
    while receiver.pop().is_some() {}
    let ack = receiver.ack(Flags::ORIGINATOR).unwrap();
    bench.sender.on_ack(&ack, now);
    assert!(bench.sender.transmit(Flags::NONE, 0, now).is_some_and(|it| it.data.len() > 1));
}

#[test]
fn acks_of_what_was_never_sent_do_nothing() {
    let mut bench = Bench::new(&fixed(1 << 20));
    bench.give(2, 10);
    bench.send(0);
    assert!(!bench.ack(1, &[2, -1, i32::MAX, i32::MIN], 0));
    assert!(!bench.sender.is_drained());
    assert!(bench.ack(2, &[1, 0], 0));
    assert!(bench.sender.is_drained());
    assert_eq!(bench.sender.held.bytes(), 0);
}

#[test]
fn a_payload_that_is_never_acknowledged_bounds_how_many_follow() {
    let mut bench = Bench::new(&fixed(1 << 20));
    bench.give(1, 10);
    assert_eq!(bench.send(0), [0]);
    let mut last = 0;
    loop {
        bench.give(1, 10);
        let sent = bench.send(1);
        let Some(&sequence) = sent.first() else { break };
        last = sequence;
        assert!((last as usize) < MAX_AHEAD, "no limit");
        assert!(bench.ack(1, &[last], 0));
    }
    assert_eq!(last as usize, MAX_AHEAD - 1);
    assert!(!bench.sender.is_ready());
    assert_eq!(bench.sender.unacked_payloads(), 1);
    // Its copy still goes, and its ack lets the others follow.
    let deadline = bench.sender.deadline().unwrap();
    bench.sender.on_timeout(deadline);
    assert_eq!(bench.send(300), [0]);
    assert!(bench.ack(301, &[0], 300));
    assert!(bench.sender.is_ready());
    assert_eq!(bench.send(302), [MAX_AHEAD as i32]);
}

#[test]
fn a_peer_that_answers_while_it_is_full_is_asked_every_few_seconds_for_ever() {
    let mut bench = Bench::new(&Options { retx_max: Duration::ZERO, ..fixed(1 << 20) });
    bench.give(1, 1000);
    bench.send(0);
    bench.give(1, 1000);
    bench.report(10, 4 << 20, &[0]);
    let mut now = bench.at(10);
    for _ in 0..60 {
        assert!(bench.sender.transmit(Flags::NONE, 0, now).is_none());
        let deadline = bench.sender.deadline().unwrap();
        assert!(deadline - now <= Duration::from_secs(5), "{:?}", deadline - now);
        now = deadline;
        bench.sender.on_timeout(now);
        assert!(bench.sender.transmit(Flags::NONE, 0, now).is_some_and(|it| it.data.is_empty()));
        now += MS;
        let sequences = vec![0];
        bench.sender.on_ack(&Ack { recv_buffer_size: 4 << 20, sequences, ..Ack::default() }, now);
    }
}
