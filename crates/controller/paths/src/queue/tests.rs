//! The order of circuits in the queue, and the circuits that wait.

use super::*;

/// The longest time that a circuit may have no path.
const LIMIT: Duration = Duration::from_secs(1);

fn queue() -> Queue {
    Queue::new(LIMIT)
}

fn id(number: usize) -> Arc<str> {
    format!("c{number}").into()
}

fn popped(queue: &mut Queue, only_urgent: bool) -> Option<String> {
    queue.pop(only_urgent).map(|(id, _)| id.to_string())
}

fn is_bare(queue: &Queue) -> bool {
    queue.circuits.is_empty()
        && queue.ready.is_empty()
        && queue.parked.is_empty()
        && queue.resting.is_empty()
        && queue.stranded.is_empty()
}

#[test]
fn a_circuit_that_ends_leaves_nothing_in_the_queue() {
    let (mut queue, router, now) = (queue(), Id::new("r"), Instant::now());
    for number in 0..100 {
        for why in [MoveReason::Faulty, MoveReason::Broken, MoveReason::Cost, MoveReason::Lost] {
            queue.push(&id(number), why);
        }
    }
    assert_eq!((queue.circuits.len(), queue.ready()), (100, 100));
    for number in 0..90 {
        let (next, wish) = queue.pop(false).unwrap();
        match number / 30 {
            0 => queue.park(&next, &router),
            1 if number % 2 == 0 => assert!(queue.rest(&next, wish, &router, now, number % 3 == 0)),
            1 => queue.strand(&next, wish, now, 1),
            _ => {}
        }
    }
    for number in 0..100 {
        queue.forget(&id(number));
    }
    assert!(is_bare(&queue));
    // The results of tries that were under way change nothing any more.
    queue.strand(&id(70), MoveReason::Broken.into(), now, 1);
    queue.park(&id(71), &router);
    queue.done(&id(72));
    assert!(is_bare(&queue));
}

#[test]
fn the_urgent_come_first_and_what_adds_up_is_kept() {
    let mut queue = queue();
    queue.push(&id(1), MoveReason::Cost);
    queue.push(&id(2), MoveReason::Faulty);
    queue.push(&id(3), MoveReason::Broken);
    queue.push(&id(1), MoveReason::Broken);
    let (first, wish) = queue.pop(true).unwrap();
    assert_eq!((&*first, wish), ("c1", MoveReason::Broken.into()), "it came first");
    queue.push(&first, MoveReason::Broken);
    queue.push(&first, MoveReason::Lost);
    queue.done(&first);
    assert_eq!(popped(&mut queue, true).unwrap(), "c3");
    let (again, wish) = queue.pop(true).unwrap();
    assert_eq!((&*again, wish), ("c1", MoveReason::Lost.into()), "it came up meanwhile");
    assert_eq!((popped(&mut queue, true), queue.ready()), (None, 1));
    queue.push(&id(2), MoveReason::Broken);
    let (_, wish) = queue.pop(true).unwrap();
    assert!(wish.is_urgent && wish.sends_again);
    queue.done(&again);
    assert_eq!(queue.ready(), 0);
}

#[test]
fn who_waits_for_a_router_goes_on_when_it_has_room() {
    let (mut queue, router) = (queue(), Id::new("r"));
    (0..4).for_each(|number| queue.push(&id(number), MoveReason::Faulty));
    for _ in 0..4 {
        let (next, _) = queue.pop(false).unwrap();
        queue.park(&next, &router);
    }
    assert_eq!((queue.ready(), queue.waiting().0), (0, 4));
    queue.push(&id(3), MoveReason::Broken);
    assert!(queue.unpark(&router, 2) && !queue.unpark(&Id::new("other"), 2));
    assert_eq!(popped(&mut queue, false).unwrap(), "c3");
    assert_eq!(popped(&mut queue, false).unwrap(), "c0");
    assert!(queue.unpark(&router, usize::MAX) && !queue.unpark(&router, 1));
    assert_eq!((queue.ready(), queue.parked.len()), (2, 0));
}

#[test]
fn another_circuit_goes_on_in_the_place_of_one_that_has_waited_for_a_router() {
    let (mut queue, router) = (queue(), Id::new("r"));
    for number in 0..4 {
        queue.push(&id(number), MoveReason::Broken);
        let (next, _) = queue.pop(false).unwrap();
        queue.park(&next, &router);
    }
    assert!(queue.unpark(&router, 2));
    let (first, _) = queue.pop(false).unwrap();
    assert_eq!(queue.take_awaited(&first), Some(router.clone()));
    assert_eq!(queue.take_awaited(&first), None, "once");
    assert!(!queue.forget(&first) && queue.ready() == 1, "its place was given away");
    assert!(queue.forget(&id(1)) && queue.ready() == 1, "before anybody has looked at it");
    assert_eq!(popped(&mut queue, false).unwrap(), "c2");
    assert!(queue.forget(&id(2)) && !queue.forget(&id(3)) && is_bare(&queue));
}

#[test]
fn a_circuit_whose_payloads_may_take_a_new_path_has_all_the_time_again() {
    let (mut queue, router, start) = (queue(), Id::new("r"), Instant::now());
    queue.push(&id(1), MoveReason::Broken);
    let (next, wish) = queue.pop(true).unwrap();
    queue.strand(&next, wish, start, 1);
    queue.found_path(&next);
    let (next, wish) = queue.pop(true).unwrap();
    let late = start + IN_ALL;
    assert!(!queue.rest(&next, wish, &router, late, false));
    queue.begin_anew(&next);
    assert!(queue.rest(&next, wish, &router, late, false));
    assert!(queue.end_rest(&router));
    let (next, wish) = queue.pop(true).unwrap();
    assert!(!queue.rest(&next, wish, &router, late + IN_ALL, false));
}

#[test]
fn circuits_without_a_path_are_looked_at_once_in_each_version() {
    let (mut queue, start) = (queue(), Instant::now());
    for number in 0..10 {
        queue.push(&id(number), MoveReason::Broken);
        let (next, wish) = queue.pop(false).unwrap();
        queue.strand(&next, wish, start + Duration::from_secs(number as u64), 7);
    }
    assert!(queue.take_to_look_at(7, 100).is_empty());
    assert_eq!(queue.take_to_look_at(8, 4), [id(0), id(1), id(2), id(3)]);
    assert_eq!(queue.take_to_look_at(8, 4), [id(4), id(5), id(6), id(7)]);
    assert_eq!(queue.take_to_look_at(8, 4), [id(8), id(9)]);
    assert!(queue.take_to_look_at(8, 4).is_empty());
    queue.found_path(&id(5));
    queue.found_path(&id(5));
    assert_eq!((queue.stranded(), queue.ready()), (9, 1));
    // A circuit whose new path fails counts as without a path since the first time.
    let (again, wish) = queue.pop(false).unwrap();
    queue.strand(&again, wish, start + Duration::from_secs(100), 9);
    assert_eq!(queue.stranded(), 10);
    assert_eq!(queue.expired(start + Duration::from_secs(7), 99).len(), 7);
    let later = start + Duration::from_secs(3);
    assert_eq!(queue.expired(later, 2), [id(0), id(1)]);
    assert_eq!(queue.expired(later, 9).len(), 3);
}

/// A circuit whose next try fails.
fn failed(queue: &mut Queue, now: Instant, version: u64) {
    let (next, wish) = queue.pop(false).unwrap();
    queue.fail(&next, wish, now, version);
}

#[test]
fn who_could_not_take_its_path_is_looked_at_once_more_in_any_version() {
    let (mut queue, now) = (queue(), Instant::now());
    queue.push(&id(1), MoveReason::Broken);
    failed(&mut queue, now, 7);
    assert_eq!(queue.take_to_look_at(7, 9), [id(1)]);
    assert!(queue.take_to_look_at(7, 9).is_empty());
    queue.found_path(&id(1));
    failed(&mut queue, now, 7);
    assert!(queue.take_to_look_at(7, 9).is_empty(), "it was once more");
    assert_eq!(queue.take_to_look_at(8, 9), [id(1)]);
    queue.found_path(&id(1));
    failed(&mut queue, now, 8);
    assert_eq!(queue.take_to_look_at(8, 9), [id(1)], "once in each");
}

#[test]
fn only_the_time_without_a_path_counts() {
    let (mut queue, start) = (queue(), Instant::now());
    let has_expired = |queue: &Queue, after: Duration| queue.expired(start + after, 9).len();
    queue.push(&id(1), MoveReason::Broken);
    failed(&mut queue, start, 7);
    assert_eq!(has_expired(&queue, LIMIT * 9), 0, "it has one");
    queue.found_none(&id(1), start + LIMIT);
    queue.found_none(&id(1), start + LIMIT * 2);
    assert_eq!((has_expired(&queue, LIMIT), has_expired(&queue, LIMIT * 2)), (0, 1));
    queue.found_path(&id(1));
    failed(&mut queue, start + LIMIT * 2, 8);
    assert_eq!(has_expired(&queue, LIMIT * 9), 0, "it had one again");
    assert_eq!(has_expired(&queue, IN_ALL), 1, "not for ever");
    queue.forget(&id(1));
    assert!(is_bare(&queue));
}

/// The next circuit finds no path.
fn stranded(queue: &mut Queue, now: Instant) {
    let (next, wish) = queue.pop(true).unwrap();
    queue.strand(&next, wish, now, 7);
}

#[test]
fn a_link_that_breaks_again_and_again_keeps_its_circuits_for_a_while() {
    let (mut queue, start) = (queue(), Instant::now());
    let link_is_back = |queue: &mut Queue| {
        queue.push_link("l", MoveReason::Back);
        let source = queue.wants_more(1).unwrap();
        queue.expand(&source, &[id(1), id(2)], None);
    };
    queue.push(&id(1), MoveReason::Broken);
    stranded(&mut queue, start);
    let mut now = start;
    while now < start + IN_ALL {
        assert!(queue.expired(now, 9).is_empty(), "after {:?}", now - start);
        // The link breaks again before the controller has looked for a path.
        link_is_back(&mut queue);
        queue.push(&id(1), MoveReason::Broken);
        assert_eq!(
            (queue.stranded(), queue.ready()),
            (0, 1),
            "a circuit that does not wait is not moved"
        );
        stranded(&mut queue, now);
        now += LIMIT / 2;
    }
    assert_eq!(queue.expired(start + IN_ALL, 9).len(), 1, "not for ever");
}

#[test]
fn a_link_that_is_back_while_its_circuit_is_tried_counts() {
    let (mut queue, start) = (queue(), Instant::now());
    queue.push(&id(1), MoveReason::Broken);
    stranded(&mut queue, start);
    queue.found_path(&id(1));
    let (next, wish) = queue.pop(true).unwrap();
    queue.push(&next, MoveReason::Back);
    assert!(queue.is_under_way(&next));
    queue.strand(&next, wish, start + LIMIT / 2, 8);
    assert!(queue.expired(start + LIMIT, 9).is_empty());
    assert_eq!(queue.expired(start + LIMIT / 2 + LIMIT, 9).len(), 1);
}

/// A router between the ends refuses the route again and again, although the links of the path work.
#[test]
fn who_cannot_take_a_path_that_works_is_tried_once_more_at_the_end_of_its_time() {
    let (mut queue, start) = (queue(), Instant::now());
    queue.push(&id(1), MoveReason::Broken);
    stranded(&mut queue, start);
    // The path is back before anybody has noticed, and breaks again.
    assert!(queue.try_at_last(&id(1), start + LIMIT));
    stranded(&mut queue, start + LIMIT);
    assert!(queue.try_at_last(&id(1), start + LIMIT * 2));
    failed(&mut queue, start + LIMIT * 2, 8);
    let over = start + IN_ALL;
    assert_eq!(queue.expired(over, 9).len(), 1);
    assert!(queue.try_at_last(&id(1), over));
    assert_eq!((queue.stranded(), queue.ready()), (0, 1));
    failed(&mut queue, over, 8);
    assert_eq!(queue.expired(over, 9).len(), 1);
    assert!(!queue.try_at_last(&id(1), over) && queue.stranded() == 1, "not for ever");
    assert!(!queue.try_at_last(&id(2), over), "it is unknown");
    queue.forget(&id(1));
    assert!(is_bare(&queue));
}

#[test]
fn who_waits_for_an_end_goes_on_when_that_answers() {
    let (mut queue, router, start) = (queue(), Id::new("r"), Instant::now());
    queue.push(&id(1), MoveReason::Broken);
    let (next, wish) = queue.pop(false).unwrap();
    assert!(queue.rest(&next, wish, &router, start, false));
    assert_eq!((queue.ready(), queue.waiting().0, queue.stranded()), (0, 1, 0));
    assert!(!queue.unpark(&router, 9) && !queue.end_rest(&Id::new("other")));
    assert!(queue.expired(start + IN_ALL * 2, 9).is_empty());
    assert!(queue.end_rest(&router) && !queue.end_rest(&router));
    let (next, wish) = queue.pop(false).unwrap();
    let late = start + IN_ALL;
    assert!(!queue.rest(&next, wish, &router, late, false), "it has waited long enough");
    assert!(queue.rest(&next, wish, &router, late, true), "payloads may pass");
    queue.forget(&next);
    assert!(is_bare(&queue));
}

#[test]
fn a_lost_link_costs_as_little_as_it_is_named() {
    let mut queue = queue();
    (0..1_000).for_each(|_| queue.push_link("l", MoveReason::Broken));
    assert_eq!(queue.waiting().1.len(), 1);
    queue.push_link("dear", MoveReason::Cost);
    let first = queue.wants_more(3).unwrap();
    assert_eq!((&*first.link, &first.after), ("l", &None));
    queue.expand(&first, &[id(2), id(1)], Some(id(2)));
    // The link breaks again meanwhile. Circuits that came back to it may be among the first ones.
    queue.push_link("l", MoveReason::Broken);
    queue.push_link("l", MoveReason::Broken);
    let second = queue.wants_more(3).unwrap();
    assert_eq!(second.after, Some(id(2)));
    queue.expand(&second, &[id(3)], None);
    assert_eq!(queue.wants_more(3), None, "three come before");
    let again = queue.wants_more(4).unwrap();
    assert_eq!((queue.ready(), &*again.link, &again.after), (3, "l", &None));
    queue.expand(&again, &[], None);
    let dear = queue.wants_more(4).unwrap();
    assert_eq!(&*dear.link, "dear");
    queue.expand(&first, &[id(9)], None);
    queue.expand(&dear, &[id(4)], None);
    assert_eq!((queue.wants_more(9), queue.ready()), (None, 4));
    assert!(queue.untouched.is_empty());
}

/// A search through all other links for each link would take minutes.
#[test]
fn many_links_are_lost_at_once() {
    let mut queue = queue();
    for link in 0..200_000 {
        queue.push_link(&format!("dear{link}"), MoveReason::Cost);
        queue.push_link(&format!("lost{link}"), MoveReason::Broken);
        queue.push_link(&format!("lost{link}"), MoveReason::Broken);
    }
    assert_eq!(queue.waiting().1.len(), 400_000);
    let mut order = Vec::new();
    while let Some(next) = queue.wants_more(1) {
        queue.expand(&next, &[], None);
        order.push(next.link);
    }
    assert_eq!((&*order[0], &*order[199_999], &*order[200_000]), ("lost0", "lost199999", "dear0"));
    assert!(order.len() == 400_000 && queue.untouched.is_empty());
}

#[test]
fn a_circuit_whose_ends_are_there_waits_longer_and_not_for_ever() {
    let (mut queue, start) = (queue(), Instant::now());
    queue.push(&id(1), MoveReason::Broken);
    let (next, wish) = queue.pop(false).unwrap();
    queue.strand(&next, wish, start, 1);
    let mut now = start;
    loop {
        now += LIMIT;
        assert_eq!(queue.expired(now, 10), [id(1)]);
        if !queue.wait_longer(&id(1), now) {
            break;
        }
        assert_eq!(queue.expired(now, 10), Vec::<Arc<str>>::new());
        // A look that finds no path gives it no more time than a new one.
        queue.found_none(&id(1), now);
    }
    assert_eq!(now, start + WITH_BOTH_ENDS);
    assert!(!queue.wait_longer(&id(2), now), "there is no such circuit");
    queue.forget(&id(1));
    assert!(is_bare(&queue));
}
