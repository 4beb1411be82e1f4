use super::closing::MARK_WAIT;
use super::*;
use crate::ITEM_COST;
use crate::fin::fin_header;

fn end(role: Role, now: Instant) -> End {
    End::new(role, &Options::default(), &Budget::unlimited(), now)
}

/// Passes all messages between both ends, until neither has any left. Returns their number.
fn exchange(a: &mut End, b: &mut End, now: Instant) -> usize {
    let mut handed = 0;
    loop {
        let before = handed;
        for _ in 0..2 {
            while let Some(ack) = a.poll_ack() {
                b.on_ack(&ack, now);
                handed += 1;
            }
            while let Some(payload) = a.poll_transmit(now) {
                b.on_payload(payload, now);
                handed += 1;
            }
            std::mem::swap(a, b);
        }
        if handed == before {
            return handed;
        }
    }
}

fn started(now: Instant) -> (End, End) {
    let (mut a, mut b) = (end(Role::Initiator, now), end(Role::Terminator, now));
    exchange(&mut a, &mut b, now);
    assert_eq!((a.read(), b.read()), (None, None), "the start delivers nothing");
    (a, b)
}

fn data(bytes: &'static [u8]) -> Delivery {
    Delivery::Data { headers: Vec::new(), data: Bytes::from_static(bytes) }
}

fn write(end: &mut End, bytes: &'static [u8]) {
    end.write(Bytes::from_static(bytes)).unwrap();
}

const FIN: Delivery = Delivery::Fin { headers: Vec::new() };

/// After an end has said that it has room, other ends may use up the budget, or the window may
/// shrink.
#[test]
fn what_was_asked_for_is_taken_though_the_room_is_gone() {
    let now = Instant::now();
    let budget = Budget::new(100_000);
    let mut end = End::new(Role::Initiator, &Options::default(), &budget, now);
    end.write(Bytes::from_static(b"first")).unwrap();
    assert!(end.can_write());
    let mut others = budget.empty();
    others.grow_anyway(budget.free());
    assert!(!end.can_write());
    end.write(Bytes::from_static(b"on its way already")).unwrap();
    let sent = std::iter::from_fn(|| end.poll_transmit(now));
    let sent: Vec<_> = sent.filter(|it| !it.data.is_empty()).map(|it| it.data).collect();
    assert_eq!(sent, ["first", "on its way already"]);
}

/// As in docs/protocol/data-plane.md 7.3 and 7.4.
#[test]
fn the_initiator_starts_and_the_terminator_answers_with_its_capabilities() {
    let now = Instant::now();
    let (mut a, mut b) = (end(Role::Initiator, now), end(Role::Terminator, now));
    assert!(!b.can_write() && !b.wants_transmit());
    let start = a.poll_transmit(now).unwrap();
    assert_eq!((start.sequence, start.flags), (0, Flags::CIRCUIT_START));
    assert_eq!(start.capabilities(), Some(0x100));
    assert!(start.data.is_empty());
    b.on_payload(start, now);
    assert!(b.can_write());
    let ack = b.poll_ack().unwrap();
    assert_eq!((ack.sequences, ack.flags), (vec![0], Flags::ORIGINATOR));
    let answer = b.poll_transmit(now).unwrap();
    assert_eq!((answer.sequence, answer.flags), (0, Flags::ORIGINATOR));
    assert_eq!(answer.capabilities(), Some(0x100));
    a.on_payload(answer, now);
    assert_eq!(a.read(), None);
}

#[test]
fn a_direction_that_ends_before_the_circuit_begins_loses_nothing() {
    let now = Instant::now();
    let (mut a, mut b) = (end(Role::Initiator, now), end(Role::Terminator, now));
    b.write(Bytes::from_static(b"preface")).unwrap();
    b.write(Bytes::from_static(b"last")).unwrap();
    b.finish(now);
    assert_eq!(b.write(Bytes::new()), Err(WriteError::Ended));
    assert!(!b.wants_transmit(), "nothing is sent before the dialer's first payload");
    b.on_payload(a.poll_transmit(now).unwrap(), now);
    while let Some(payload) = b.poll_transmit(now) {
        a.on_payload(payload, now);
    }
    let read: Vec<_> = std::iter::from_fn(|| a.read()).collect();
    let data = |data| Delivery::Data { headers: Vec::new(), data: Bytes::from_static(data) };
    assert_eq!(read, [data(b"preface"), data(b"last"), Delivery::Fin { headers: Vec::new() }]);
}

#[test]
fn a_peer_without_capabilities_gets_none_and_a_fin_only() {
    let now = Instant::now();
    let mut b = end(Role::Terminator, now);
    b.on_payload(Payload { flags: Flags::CIRCUIT_START, ..Payload::default() }, now);
    assert!(b.poll_transmit(now).is_none());
    write(&mut b, b"bye");
    b.finish(now);
    let sent: Vec<_> = std::iter::from_fn(|| b.poll_transmit(now)).collect();
    assert_eq!(sent.len(), 2);
    assert!(sent[1].is_fin() && sent[1].flags == Flags::ORIGINATOR);
    b.close(now);
    let last = b.poll_transmit(now).unwrap();
    assert!(last.flags.has(Flags::CIRCUIT_END), "closed in the old way, acknowledged");
    assert_eq!(b.closed(), None);
    let sequences = vec![0, 1, 2];
    b.on_ack(&Ack { sequences, ..Ack::default() }, now);
    assert_eq!(b.closed(), Some(CircuitCloseReason::Finished));
}

#[test]
fn an_ack_that_comes_back_acknowledges_nothing() {
    let now = Instant::now();
    let (mut a, mut b) = started(now);
    for _ in 0..2 {
        let (from, to) = (&mut a, &mut b);
        write(from, b"lost on its way");
        let sent = from.poll_transmit(now).unwrap();
        // The other end has sent a payload of the same number, and the ack for it comes back.
        let answered = Payload { flags: to.role.flag(), ..sent.clone() };
        from.on_payload(answered, now);
        let ack = from.poll_ack().unwrap();
        assert_eq!(ack.sequences, [sent.sequence]);
        from.on_ack(&ack, now);
        assert_eq!(from.unacknowledged_payloads(), 1);
        to.on_payload(sent, now);
        from.on_ack(&to.poll_ack().unwrap(), now);
        assert_eq!(from.unacknowledged_payloads(), 0);
        std::mem::swap(&mut a, &mut b);
    }
}

#[test]
fn half_close_leaves_the_other_direction_open() {
    let now = Instant::now();
    let (mut a, mut b) = started(now);
    write(&mut a, b"question");
    a.finish(now);
    assert_eq!(a.write(Bytes::new()), Err(WriteError::Ended));
    exchange(&mut a, &mut b, now);
    assert_eq!((b.read(), b.read(), b.read()), (Some(data(b"question")), Some(FIN), None));
    assert_eq!((a.closed(), b.closed()), (None, None));

    write(&mut b, b"answer");
    b.finish(now);
    exchange(&mut a, &mut b, now);
    assert_eq!((a.read(), a.read()), (Some(data(b"answer")), Some(FIN)));
    assert_eq!(a.read(), Some(Delivery::Closed(CircuitCloseReason::Finished)));
    assert_eq!(b.read(), Some(Delivery::Closed(CircuitCloseReason::Finished)));
    assert_eq!((a.read(), b.read()), (None, None));
    assert_eq!((a.deadline(), b.deadline()), (None, None));
}

#[test]
fn both_marks_of_a_half_close_are_sent_in_order() {
    let now = Instant::now();
    let (mut a, _) = started(now);
    a.finish(now);
    let (fin, eof) = (a.poll_transmit(now).unwrap(), a.poll_transmit(now).unwrap());
    assert!(fin.is_fin() && fin.flags == Flags::NONE);
    assert!(!eof.is_fin() && eof.flags == Flags::EOF);

    let (mut a, _) = started(now);
    a.write_with(vec![fin_header()], Bytes::from_static(b"last")).unwrap();
    a.finish(now);
    let sent: Vec<_> = std::iter::from_fn(|| a.poll_transmit(now)).collect();
    assert_eq!(sent.len(), 2, "the end that an SDK wrote is not said again");
}

#[test]
fn a_fin_with_data_and_other_flags_keeps_both() {
    let now = Instant::now();
    let (mut a, mut b) = started(now);
    let headers = vec![Payload::edge_flags_header(5), (0, Bytes::from_static(b"trace"))];
    a.write_with(headers, Bytes::from_static(b"last")).unwrap();
    exchange(&mut a, &mut b, now);
    let Some(Delivery::Data { headers, data }) = b.read() else { panic!() };
    assert_eq!(&data[..], b"last");
    assert!(headers.contains(&Payload::edge_flags_header(4)) && headers.len() == 2);
    assert_eq!(b.read(), Some(FIN));

    b.write_with(vec![Payload::edge_flags_header(5)], Bytes::new()).unwrap();
    exchange(&mut a, &mut b, now);
    let headers = vec![Payload::edge_flags_header(4)];
    assert_eq!(a.read(), Some(Delivery::Fin { headers }));
}

#[test]
fn close_sends_the_rest_then_says_goodbye() {
    let now = Instant::now();
    let (mut a, mut b) = started(now);
    write(&mut a, b"rest");
    a.close(now);
    exchange(&mut a, &mut b, now);
    assert_eq!(a.closed(), Some(CircuitCloseReason::Finished));
    assert_eq!((b.read(), b.read()), (Some(data(b"rest")), Some(FIN)));
    assert_eq!(b.read(), Some(Delivery::Closed(CircuitCloseReason::PeerClosed)));
    assert!(!b.wants_transmit());
}

#[test]
fn a_closing_end_throws_away_what_arrives() {
    let now = Instant::now();
    let (mut a, mut b) = started(now);
    a.close(now);
    write(&mut b, b"too late");
    let payload = b.poll_transmit(now).unwrap();
    a.on_payload(payload, now);
    assert_eq!((a.unread(), a.poll_ack().unwrap().sequences), (0, vec![1]));
}

#[test]
fn a_peer_that_never_acknowledges_is_given_up() {
    let now = Instant::now();
    let (mut a, _) = started(now);
    write(&mut a, b"lost");
    a.close(now);
    while let Some(deadline) = a.deadline() {
        assert!(deadline <= now + Duration::from_secs(30));
        a.on_timeout(deadline);
        while a.poll_transmit(deadline).is_some() {}
    }
    assert_eq!(a.closed(), Some(CircuitCloseReason::Unacknowledged));
}

#[test]
fn an_unacknowledged_mark_alone_is_waited_for_shortly() {
    let now = Instant::now();
    let (mut a, mut b) = started(now);
    b.close(now);
    b.poll_transmit(now);
    assert_eq!(b.drain_by(), Some(now + Duration::from_secs(30)), "two marks in flight");
    b.on_ack(&Ack { sequences: vec![1], ..Ack::default() }, now);
    b.poll_transmit(now);
    assert_eq!(b.drain_by(), Some(now + MARK_WAIT));
    b.on_timeout(now + MARK_WAIT);
    assert_eq!(b.closed(), Some(CircuitCloseReason::Finished));
    a.unrouted();
}

#[test]
fn a_circuit_that_never_starts_is_closed() {
    let now = Instant::now();
    let mut b = end(Role::Terminator, now);
    let by = now + Duration::from_secs(180);
    assert_eq!(b.deadline(), Some(by));
    b.on_timeout(by);
    assert_eq!(b.read(), Some(Delivery::Closed(CircuitCloseReason::NotStarted)));
    let quiet = Options { circuit_start_timeout: Duration::from_secs(1), ..Options::default() };
    assert_eq!(End::new(Role::Terminator, &quiet, &Budget::unlimited(), now).deadline(), None);
}

#[test]
fn write_failed_stops_the_sender_at_once() {
    let now = Instant::now();
    let (mut a, mut b) = started(now);
    write(&mut a, b"unwanted");
    let lost = a.poll_transmit(now).unwrap();
    b.delivery_failed(now);
    let failed = b.poll_transmit(now).unwrap();
    assert!(failed.flags.has(Flags::WRITE_FAILED));
    a.on_payload(failed, now);
    assert_eq!((a.can_write(), a.unacknowledged(), a.wants_transmit()), (false, 0, false));
    assert_eq!(a.write(Bytes::new()), Err(WriteError::Ended));
    b.on_payload(lost, now);
    exchange(&mut a, &mut b, now);
    assert_eq!(a.read(), Some(Delivery::Closed(CircuitCloseReason::PeerGaveUp)));
    assert_eq!(b.read(), Some(Delivery::Closed(CircuitCloseReason::Aborted)));
}

#[test]
fn an_application_that_goes_before_its_end_does_not_look_finished() {
    let now = Instant::now();
    for has_ended in [false, true] {
        let (mut a, mut b) = started(now);
        write(&mut a, b"unwanted");
        write(&mut b, b"half of it");
        if has_ended {
            b.finish(now);
        }
        b.delivery_failed(now);
        assert_eq!(b.write(Bytes::new()), Err(WriteError::Ended));
        exchange(&mut a, &mut b, now);
        assert_eq!(a.read(), Some(data(b"half of it")), "what was written still arrives");
        let end = if has_ended { FIN } else { Delivery::Closed(CircuitCloseReason::PeerGaveUp) };
        assert_eq!(a.read(), Some(end));
    }
}

#[test]
fn unrouted_reads_what_there_is_and_sends_nothing() {
    let now = Instant::now();
    let (mut a, mut b) = started(now);
    write(&mut a, b"in time");
    exchange(&mut a, &mut b, now);
    write(&mut b, b"never sent");
    b.unrouted();
    assert!(!b.wants_transmit() && b.poll_transmit(now).is_none() && b.poll_ack().is_none());
    assert_eq!(b.read(), Some(data(b"in time")));
    assert_eq!(b.read(), Some(Delivery::Closed(CircuitCloseReason::Unrouted)));
    assert_eq!(b.deadline(), None);
}

#[test]
fn an_aborted_end_says_goodbye_and_gives_everything_back() {
    let now = Instant::now();
    let budget = Budget::new(1 << 30);
    let mut a = End::new(Role::Initiator, &Options::default(), &budget, now);
    a.poll_transmit(now);
    write(&mut a, b"sent");
    a.poll_transmit(now);
    write(&mut a, b"not sent");
    let flags = Flags::ORIGINATOR;
    a.on_payload(Payload { sequence: 5, flags, data: Bytes::from("x"), ..Payload::default() }, now);
    assert!(budget.used() >= 4 * ITEM_COST as u64);
    a.abort();
    assert_eq!(budget.used(), 0);
    let last = a.poll_transmit(now).unwrap();
    assert_eq!((last.sequence, last.flags), (2, Flags::CIRCUIT_END | Flags::WRITE_FAILED));
    assert_eq!(a.poll_transmit(now), None);
    assert_eq!(a.read(), Some(Delivery::Closed(CircuitCloseReason::Aborted)));
}

#[test]
fn own_payloads_that_come_back_are_dropped() {
    let now = Instant::now();
    let (mut a, _) = started(now);
    while a.poll_ack().is_some() {}
    a.on_payload(Payload { sequence: 1, data: Bytes::from("loop"), ..Payload::default() }, now);
    assert_eq!((a.read(), a.poll_ack()), (None, None));
}

#[test]
fn empty_data_is_for_datagrams_only() {
    let now = Instant::now();
    for datagrams in [false, true] {
        let options = Options { datagrams, ..Options::default() };
        let mut a = End::new(Role::Initiator, &options, &Budget::unlimited(), now);
        let mut b = End::new(Role::Terminator, &options, &Budget::unlimited(), now);
        exchange(&mut a, &mut b, now);
        a.write(Bytes::new()).unwrap();
        write(&mut a, b"x");
        exchange(&mut a, &mut b, now);
        assert_eq!(b.read(), Some(if datagrams { data(b"") } else { data(b"x") }));
    }
}

#[test]
fn chunks_arrive_as_one_and_lies_close_the_circuit() {
    let now = Instant::now();
    let (_, mut b) = started(now);
    let chunk = |sequence, data: &'static [u8]| Payload {
        sequence,
        flags: Flags::CHUNK,
        data: Bytes::from_static(data),
        ..Payload::default()
    };
    b.on_payload(chunk(2, b"lo"), now);
    b.on_payload(chunk(1, b"\x05hel"), now);
    assert_eq!((b.read(), b.read()), (Some(data(b"hello")), None));
    b.on_payload(chunk(3, b"\x01too much"), now);
    assert_eq!(b.read(), Some(Delivery::Closed(CircuitCloseReason::Protocol)));
}

#[test]
fn an_old_peer_half_closes_with_the_end_of_the_circuit() {
    let now = Instant::now();
    let mut b = end(Role::Terminator, now);
    b.on_payload(Payload { flags: Flags::CIRCUIT_START, ..Payload::default() }, now);
    b.on_payload(Payload { sequence: 1, flags: Flags::CIRCUIT_END, ..Payload::default() }, now);
    assert_eq!((b.read(), b.closed()), (Some(FIN), None));
    write(&mut b, b"still answered");
    assert!(b.poll_transmit(now).is_some());
}

/// A peer that ends its data before it knows the abilities of this end uses the old flag.
#[test]
fn an_early_end_of_data_closes_one_direction_only() {
    let now = Instant::now();
    let (mut a, mut b) = (end(Role::Initiator, now), end(Role::Terminator, now));
    b.on_payload(a.poll_transmit(now).unwrap(), now);
    let over = |sequence| Payload { sequence, flags: Flags::CIRCUIT_END, ..Payload::default() };
    b.on_payload(over(1), now);
    assert_eq!((b.read(), b.read(), b.closed()), (Some(FIN), None, None));
    write(&mut b, b"the answer");
    assert!(b.poll_transmit(now).is_some());
    b.on_payload(over(2), now);
    assert_eq!(
        b.read(),
        Some(Delivery::Closed(CircuitCloseReason::PeerClosed)),
        "said twice, it is meant"
    );
}

#[test]
fn an_end_that_gives_up_closes_both_directions() {
    let now = Instant::now();
    let (mut a, mut b) = started(now);
    a.abort();
    b.on_payload(a.poll_transmit(now).unwrap(), now);
    // No regular end: data may be missing.
    assert_eq!(b.read(), Some(Delivery::Closed(CircuitCloseReason::PeerGaveUp)));
    assert_eq!(b.write(Bytes::new()), Err(WriteError::Ended));
}

#[test]
fn data_that_had_ended_before_its_circuit_was_given_up_is_whole() {
    let now = Instant::now();
    let (mut a, mut b) = started(now);
    write(&mut a, b"all");
    a.finish(now);
    while let Some(payload) = a.poll_transmit(now) {
        b.on_payload(payload, now);
    }
    a.abort();
    b.on_payload(a.poll_transmit(now).unwrap(), now);
    assert!(matches!(b.read(), Some(Delivery::Data { .. })));
    assert_eq!(b.read(), Some(FIN));
    assert!(matches!(b.read(), Some(Delivery::Closed(reason)) if reason.is_orderly()));
}

#[test]
fn stamps_are_low_bits_of_milliseconds_and_never_none() {
    let now = Instant::now();
    let (mut a, _) = started(now);
    for (ms, stamp) in [(0, 1), (5, 5), (65_536 + 7, 7), (65_536, 1)] {
        write(&mut a, b"x");
        let payload = a.poll_transmit(now + Duration::from_millis(ms)).unwrap();
        assert_eq!(payload.stamp, stamp);
    }
}

#[test]
fn an_end_knows_whether_the_peer_has_all_its_data() {
    let now = Instant::now();
    let (mut a, mut b) = started(now);
    write(&mut a, b"all");
    assert!(!a.is_delivered() && b.is_delivered());
    exchange(&mut a, &mut b, now);
    assert!(a.is_delivered(), "acknowledged, though not read yet");
    a.close(now);
    exchange(&mut a, &mut b, now);
    assert!(
        a.is_delivered() && a.closed() == Some(CircuitCloseReason::Finished)
            || b.closed().is_none()
    );

    let ends: [fn(&mut End, &mut End, Instant); 3] = [
        |a, _, _| a.unrouted(),
        |a, _, _| a.abort(),
        |a, b, now| {
            b.delivery_failed(now);
            let refused = b.poll_transmit(now).unwrap();
            a.on_payload(refused, now);
        },
    ];
    for end in ends {
        let (mut a, mut b) = started(now);
        write(&mut a, b"half");
        end(&mut a, &mut b, now);
        assert!(!a.is_delivered());
    }
}

#[test]
fn data_that_a_peer_takes_no_more_is_not_lost() {
    let now = Instant::now();
    let (mut a, mut b) = started(now);
    write(&mut b, b"answer");
    b.close(now);
    while let Some(payload) = b.poll_transmit(now) {
        a.on_payload(payload, now);
    }
    assert_eq!([a.read(), a.read()], [Some(data(b"answer")), Some(FIN)]);
    write(&mut a, b"late");
    a.close(now);
    // Acks overtake payloads: the other end finishes, and says so, before it has the last data.
    let late = std::iter::from_fn(|| a.poll_transmit(now)).count();
    b.on_ack(&a.poll_ack().unwrap(), now);
    assert_eq!((late > 0, b.closed()), (true, Some(CircuitCloseReason::Finished)));
    assert!(!a.is_delivered());
    a.on_payload(b.poll_transmit(now).unwrap(), now);
    assert_eq!((a.closed(), a.is_delivered()), (Some(CircuitCloseReason::PeerClosed), true));
}
