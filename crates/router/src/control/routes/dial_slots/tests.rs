//! The order in which routes begin, and what remains of them.

use futures::FutureExt;
use proptest::prelude::*;

use super::*;

fn parties(terminator: &str, host: &str, client: &str) -> Parties {
    Parties::new(terminator, Some(host), Some(client))
}

/// How the wait of a slot has ended, if it has.
fn outcome(slot: &mut DialSlot) -> Option<SlotOutcome> {
    slot.begin(&CancellationToken::new()).now_or_never()
}

fn begun(slots: &mut [DialSlot]) -> usize {
    slots.iter_mut().map(outcome).filter(|outcome| *outcome == Some(SlotOutcome::Begun)).count()
}

fn nothing_is_left(slots: &DialSlots) -> bool {
    let line = slots.0.lock();
    line.busy.is_empty()
        && line.count == 0
        && line.waiting.is_empty()
        && line.shares.is_empty()
        && line.open.is_empty()
        && line.by_count.is_empty()
}

#[test]
fn every_party_has_its_share_of_the_workers_and_keeps_none_while_it_waits() {
    let slots = DialSlots::new(16, 100);
    let take = |terminator: &str, host: &str, client: &str| {
        slots.take(parties(terminator, host, client)).unwrap()
    };
    // Eight silent terminators of one identity, which dials them itself.
    let mut silent: Vec<_> = (0..40).map(|n| take(&format!("t{}", n % 8), "bad", "bad")).collect();
    assert_eq!(begun(&mut silent), 4, "a quarter for a host");
    // Others dial the silent one through a gateway, which has a half.
    let mut lured: Vec<_> =
        (0..40).map(|n| take(&format!("s{n}"), &format!("bad{}", n / 4), "gateway")).collect();
    assert_eq!(begun(&mut lured), 8, "half of them for a client");
    let mut one: Vec<_> = (0..6).map(|_| take("one", "good", "laptop")).collect();
    assert_eq!(begun(&mut one), 4, "a quarter for a terminator");
    assert_eq!(slots.load(), Load { waiting: 70, busy: 16, workers: 16 });
    drop(one.remove(0));
    assert_eq!(begun(&mut one), 4, "the next one with room begins");
    drop((silent, lured, one));
    assert_eq!(slots.load(), Load { waiting: 0, busy: 0, workers: 16 });
    assert!(nothing_is_left(&slots));
}

#[test]
fn where_too_many_wait_the_greatest_gives_way() {
    let slots = DialSlots::new(1, 10);
    let mut greedy: Vec<_> =
        (0..11).map(|n| slots.take(parties(&format!("t{n}"), "bad", "bad")).unwrap()).collect();
    assert!(slots.take(parties("t", "bad", "bad")).is_none());
    let mut others: Vec<_> =
        (0..20).map_while(|_| slots.take(parties("web", "good", "laptop"))).collect();
    assert_eq!(others.len(), 5, "half of the places");
    assert_eq!(
        greedy
            .iter_mut()
            .filter_map(outcome)
            .filter(|outcome| *outcome == SlotOutcome::Displaced)
            .count(),
        5
    );
    assert!(slots.take(parties("t", "bad", "bad")).is_none());
    // A route that is given up makes room at once, and one that was displaced none.
    let last = others.pop().unwrap();
    let given_up = CancellationToken::new();
    given_up.cancel();
    let mut last = last;
    assert_eq!(last.begin(&given_up).now_or_never(), Some(SlotOutcome::GivenUp));
    drop(last);
    drop(greedy.pop());
    assert_eq!(slots.load().waiting, 9);
    drop(greedy);
    assert_eq!(outcome(&mut others[0]), Some(SlotOutcome::Begun), "whoever came first begins");
    drop(others);
    assert_eq!(slots.load(), Load { waiting: 0, busy: 0, workers: 1 });
    assert!(nothing_is_left(&slots));
}

#[tokio::test(start_paused = true)]
async fn no_client_keeps_others_from_a_host_by_dials_that_are_never_answered() {
    let slots = DialSlots::new(16, 100);
    let take = |client: &str| slots.take(parties("t", "silent", client)).unwrap();
    let mut greedy: Vec<_> = (0..20).map(|_| take("greedy")).collect();
    let mut modest = take("modest");
    assert_eq!((begun(&mut greedy), outcome(&mut modest)), (4, None));
    modest.press();
    assert_eq!(outcome(&mut modest), None, "dials that have just begun are left alone");
    tokio::time::advance(SILENT).await;
    let given: Vec<_> = greedy[..4].iter().map(DialSlot::gives_way).collect();
    let taken = || given.iter().map(CancellationToken::is_cancelled).collect::<Vec<_>>();
    modest.press();
    assert_eq!(outcome(&mut modest), Some(SlotOutcome::Begun));
    assert_eq!(taken(), [true, false, false, false], "the oldest one gives way");
    modest.press();
    greedy.iter().for_each(DialSlot::press);
    let mut second = take("modest");
    assert_eq!(outcome(&mut second), Some(SlotOutcome::Begun), "a newcomer waits for no old dial");
    let mut third = take("modest");
    assert_eq!(outcome(&mut third), None, "both have half");
    assert_eq!(taken(), [true, true, false, false]);
    assert_eq!(slots.load().busy, 4);
    // Whoever lost a worker gives none back, and of those that wait the oldest begins.
    drop(greedy.drain(..2));
    assert_eq!((slots.load().busy, begun(&mut greedy)), (4, 2));
    drop(modest);
    assert_eq!(begun(&mut greedy), 3);
    drop((greedy, second, third));
    assert!(nothing_is_left(&slots));
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_gets_a_worker_although_others_have_all_of_them() {
    let slots = DialSlots::new(16, 100);
    let mut many: Vec<_> = (0..32)
        .map(|n| slots.take(parties("t", &format!("h{}", n % 8), &format!("c{}", n % 2))).unwrap())
        .collect();
    assert_eq!(begun(&mut many), 16);
    tokio::time::advance(SILENT).await;
    let mut newcomer = slots.take(parties("t", "web", "laptop")).unwrap();
    assert_eq!((outcome(&mut newcomer), slots.load().busy), (Some(SlotOutcome::Begun), 16));
    drop((many, newcomer));
    assert!(nothing_is_left(&slots));
}

#[test]
fn a_worker_that_nobody_took_is_given_to_the_next() {
    let slots = DialSlots::new(1, 2);
    let take = || slots.take(parties("t", "h", "c")).unwrap();
    let (first, second, mut third) = (take(), take(), take());
    drop(first);
    // It has begun, and did not notice.
    drop(second);
    assert_eq!(outcome(&mut third), Some(SlotOutcome::Begun));
}

#[test]
fn a_terminator_without_a_host_counts_by_itself_and_an_unknown_client_for_nobody() {
    let slots = DialSlots::new(16, 100);
    let of = |terminator: &str| slots.take(Parties::new(terminator, None, None)).unwrap();
    let mut all: Vec<_> = (0..40).map(|n| of(["t1", "t2", "t3", "t4"][n % 4])).collect();
    assert_eq!(begun(&mut all), 16);
    drop(all);
    let mut one: Vec<_> = (0..40).map(|_| of("t1")).collect();
    assert_eq!(begun(&mut one), 4);
    drop(one);
    assert!(nothing_is_left(&slots));
}

#[test]
fn a_worker_that_is_free_looks_at_few_of_those_that_wait() {
    const WAIT: usize = 2_000;
    let slots = DialSlots::new(16, 100_000);
    let take = |host: &str, client: &str| slots.take(parties("t", host, client)).unwrap();
    // Silent hosts keep their share, and one client has a half; very many wait for them, in pairs of all sorts.
    let silent: Vec<_> = (0..4).map(|_| take("silent", "silent")).collect();
    let gateway: Vec<_> = (0..8).map(|n| take(&format!("slow{n}"), "gateway")).collect();
    let waits: Vec<_> = (0..WAIT)
        .map(|n| match n % 3 {
            0 => take("silent", &format!("lured{n}")),
            1 => take(&format!("h{n}"), "gateway"),
            _ => take("silent", "gateway"),
        })
        .collect();
    let mut others: Vec<_> =
        (0..WAIT).map(|n| take(&format!("good{}", n % 50), &format!("c{}", n % 70))).collect();
    let looks = slots.0.lock().looks;
    for n in 0..WAIT {
        drop(others.swap_remove(if others.len() > 9 { n % 9 } else { 0 }));
    }
    let looks = slots.0.lock().looks - looks;
    // Each group that is at the front once is moved away once.
    assert!(looks < 3 * WAIT, "{looks}");
    drop((silent, gateway, waits));
    assert!(nothing_is_left(&slots));
}

/// The same rules, with a look at all routes each time.
#[derive(Default)]
struct Simple {
    busy: Vec<(usize, [usize; 2])>,
    waiting: Vec<(usize, [usize; 2])>,
}

impl Simple {
    const WORKERS: usize = 8;

    fn has_room(&self, route: [usize; 2]) -> bool {
        let of = |end: usize| self.busy.iter().filter(|(_, it)| it[end] == route[end]).count();
        self.busy.len() < Self::WORKERS && of(0) < 2 && of(1) < 4
    }

    fn go_on(&mut self) {
        while let Some(at) = self.waiting.iter().position(|(_, it)| self.has_room(*it)) {
            self.busy.push(self.waiting.remove(at));
        }
    }

    fn leave(&mut self, number: usize) {
        self.busy.retain(|(other, _)| *other != number);
        self.waiting.retain(|(other, _)| *other != number);
        self.go_on();
    }
}

proptest! {
    /// Whoever waits for longest and has room begins, whatever came and went before.
    #[test]
    fn the_oldest_route_with_room_begins(
        steps in proptest::collection::vec((0..5_usize, 0..4_usize, any::<Option<u8>>()), 1..300),
    ) {
        let (slots, mut simple) = (DialSlots::new(Simple::WORKERS, 1_000), Simple::default());
        let mut all: Vec<(usize, DialSlot)> = Vec::new();
        for (number, (host, client, leaves)) in steps.into_iter().enumerate() {
            if let Some(leaves) = leaves.filter(|_| !all.is_empty()) {
                let (number, slot) = all.remove(usize::from(leaves) % all.len());
                drop(slot);
                simple.leave(number);
            } else {
                let names = (format!("h{host}"), format!("c{client}"));
                all.push((number, slots.take(parties("t", &names.0, &names.1)).unwrap()));
                simple.waiting.push((number, [host, client]));
                simple.go_on();
            }
            let mut begun: Vec<_> = all
                .iter_mut()
                .filter_map(|(number, slot)| (outcome(slot) == Some(SlotOutcome::Begun)).then_some(*number))
                .collect();
            begun.sort_unstable();
            let mut expected: Vec<_> = simple.busy.iter().map(|(number, _)| *number).collect();
            expected.sort_unstable();
            prop_assert_eq!(begun, expected);
        }
        drop(all);
        prop_assert!(nothing_is_left(&slots));
    }
}
