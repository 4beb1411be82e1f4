use bytes::Bytes;

use super::*;

fn receiver(limit: u64) -> Receiver {
    let options = Options { rx_buffer_size: limit, ..Options::default() };
    Receiver::new(&options, &Budget::unlimited())
}

fn payload(sequence: i32, len: usize) -> Payload {
    Payload { sequence, data: Bytes::from(vec![sequence as u8; len]), ..Payload::default() }
}

/// As in docs/protocol/data-plane.md 13; the original sends three acks where one list says the
/// same.
#[test]
fn out_of_order_is_acked_as_it_came_and_read_in_order() {
    let mut receiver = receiver(4 << 20);
    for sequence in [0, 2, 1] {
        assert_eq!(receiver.take(payload(sequence, 10)), Taken::New);
    }
    let ack = receiver.ack(Flags::ORIGINATOR).unwrap();
    assert_eq!((ack.sequences, ack.recv_buffer_size), (vec![0, 2, 1], 30));
    assert_eq!(ack.flags, Flags::ORIGINATOR);
    assert_eq!(receiver.ack(Flags::NONE), None);
    let read: Vec<_> = std::iter::from_fn(|| receiver.pop()).map(|s| s.sequence).collect();
    assert_eq!(read, [0, 1, 2]);
}

/// As in docs/protocol/data-plane.md 13.
#[test]
fn a_duplicate_is_acked_again_and_read_once() {
    let mut receiver = receiver(4 << 20);
    assert_eq!(receiver.take(payload(1, 10)), Taken::New);
    assert_eq!(receiver.take(payload(1, 10)), Taken::Duplicate);
    receiver.take(payload(0, 10));
    assert_eq!(std::iter::from_fn(|| receiver.pop()).count(), 2);
    assert_eq!(receiver.take(payload(0, 10)), Taken::Duplicate);
    assert_eq!(receiver.ack(Flags::NONE).unwrap().sequences, [1, 1, 0, 0]);
}

/// As in docs/protocol/data-plane.md 13.
#[test]
fn over_the_limit_gaps_are_taken_and_new_ones_refused() {
    let mut receiver = receiver(100);
    receiver.take(payload(5, 101));
    assert_eq!(receiver.take(payload(6, 1)), Taken::Refused);
    assert_eq!(receiver.take(payload(4, 1)), Taken::New);
    assert_eq!(receiver.ack(Flags::NONE).unwrap().sequences, [5, 4]);
}

/// As in docs/protocol/data-plane.md 13.
#[test]
fn a_report_that_halves_is_told() {
    let mut receiver = receiver(4 << 20);
    receiver.take(payload(0, 25_001));
    receiver.take(payload(1, 24_999));
    assert_eq!(receiver.ack(Flags::NONE).unwrap().recv_buffer_size, 50_000);
    assert!(!receiver.owes_ack());
    receiver.pop();
    let ack = receiver.ack(Flags::NONE).unwrap();
    assert_eq!((ack.sequences, ack.recv_buffer_size, ack.stamp), (vec![], 24_999, 0));
}

#[test]
fn far_ahead_costs_nothing() {
    let mut receiver = receiver(4 << 20);
    for sequence in [i32::MAX, MAX_AHEAD as i32, -1, i32::MIN] {
        receiver.take(payload(sequence, 1));
    }
    assert!(receiver.slots.is_empty());
    assert_eq!(receiver.take(payload(MAX_AHEAD as i32 - 1, 1)), Taken::New);
}

#[test]
fn a_short_budget_slows_and_never_stops() {
    let budget = Budget::new(100_000);
    let mut receiver = Receiver::new(&Options::default(), &budget);
    let other = budget.try_take(90_000).unwrap();
    assert_eq!(receiver.take(payload(1, 5_000)), Taken::New);
    let report = receiver.ack(Flags::NONE).unwrap().recv_buffer_size;
    assert!(report > (2 << 20), "the peer is told to send less: {report}");
    assert_eq!(receiver.take(payload(2, 6_000)), Taken::Refused);
    assert_eq!(receiver.take(payload(0, 6_000)), Taken::New, "the next in order always fits");
    assert_eq!(std::iter::from_fn(|| receiver.pop()).count(), 2);
    assert_eq!(receiver.ack(Flags::NONE).unwrap().recv_buffer_size, 0);
    drop(other);
    assert_eq!(budget.used(), 0);
}

#[test]
fn an_ack_fits_into_a_datagram() {
    let mut receiver = receiver(4 << 20);
    assert!((0..1000).all(|sequence| receiver.take(payload(sequence, 1)) == Taken::New));
    let acks: Vec<_> = std::iter::from_fn(|| receiver.ack(Flags::ORIGINATOR)).collect();
    assert_eq!(acks.iter().flat_map(|ack| &ack.sequences).count(), 1000);
    for ack in acks {
        let bytes = weft_wire::frame::encode(&ack.into_message(&"c".repeat(100)));
        assert!(bytes.len() <= 2000, "{} bytes", bytes.len());
    }
}

#[test]
fn the_stamp_is_of_the_oldest_sent_once() {
    let mut receiver = receiver(4 << 20);
    let resent = Payload { flags: Flags::RETRANSMIT, stamp: 7, ..payload(0, 1) };
    receiver.take(resent);
    receiver.take(Payload { stamp: 8, ..payload(1, 1) });
    receiver.take(Payload { stamp: 9, ..payload(2, 1) });
    assert_eq!(receiver.ack(Flags::NONE).unwrap().stamp, 8);
}

#[test]
fn headers_and_gaps_count_as_what_they_take() {
    let budget = Budget::new(10 << 20);
    let mut receiver = Receiver::new(&Options::default(), &budget);
    let header = |sequence| Payload {
        headers: vec![(1, Bytes::from(vec![7; 1 << 20]))],
        ..payload(sequence, 1)
    };
    let taken = (0..20).filter(|at| receiver.take(header(*at)) == Taken::New).count();
    assert!(taken < 10, "{taken} payloads of a mebibyte in ten mebibytes");
    receiver.clear();
    assert_eq!(budget.used(), 0);

    // A gap is paid for until it is filled.
    assert_eq!(receiver.take(payload(1000, 1)), Taken::New);
    assert_eq!(budget.used(), payload_cost(&[], &Bytes::from_static(b"x")) + 1000 * SLOT_COST);
    for sequence in 0..1000 {
        assert_eq!(receiver.take(payload(sequence, 0)), Taken::New);
    }
    assert_eq!(budget.used(), 1001 * payload_cost(&[], &Bytes::new()) + 1);
    while receiver.pop().is_some() {}
    assert_eq!(budget.used(), 0);
}

#[test]
fn payloads_without_data_have_a_limit_too() {
    let mut receiver = receiver(100);
    let header = |sequence| Payload {
        headers: vec![(1, Bytes::from(vec![7; 1 << 20]))],
        ..payload(sequence, 0)
    };
    let taken = (0..100).filter(|at| receiver.take(header(*at)) == Taken::New).count();
    assert!(taken < 20, "{taken}");
}
