use super::*;

const LONG: Duration = Duration::from_secs(30);

/// Runtimes with a thread each.
fn runtimes<const N: usize>() -> [runtime::Runtime; N] {
    [(); N].map(|()| {
        runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    })
}

fn threads(runtimes: &[runtime::Runtime]) -> Threads {
    Threads::new(runtimes.iter().map(|one| one.handle().clone()).collect())
}

#[test]
fn new_tasks_get_the_first_thread_that_is_not_half_busy() {
    let own = runtimes::<3>();
    let threads = threads(&own);
    let load = |at: usize, load| threads.0.threads[at].load.store(load, Ordering::Relaxed);
    assert_eq!(threads.pick().id(), own[0].handle().id());
    load(0, 600);
    assert_eq!(threads.pick().id(), own[1].handle().id());
    load(1, 700);
    load(2, 550);
    assert_eq!(threads.pick().id(), own[2].handle().id(), "the least busy one");
    assert_eq!(threads.berth().runtime().id(), own[2].handle().id());
}

#[test]
fn a_berth_is_told_once_to_move() {
    let own = runtimes::<2>();
    let threads = threads(&own);
    let mut berth = threads.berth();
    assert!(berth.moves().is_none());
    berth.state.thread.store(1, Ordering::Relaxed);
    assert_eq!(berth.moves().unwrap().id(), own[1].handle().id());
    assert!(berth.moves().is_none());
}

#[test]
fn the_time_of_a_busy_thread_is_measured() {
    let own = runtimes::<2>();
    let threads = threads(&own);
    let (worked, deadline) = (Duration::from_millis(100), std::time::Instant::now() + LONG);
    let begun = std::time::Instant::now();
    while busy(own[0].handle()) < worked {
        assert!(std::time::Instant::now() < deadline);
        let work = threads.pick().spawn(async { std::thread::sleep(Duration::from_millis(5)) });
        own[1].block_on(work).unwrap();
    }
    assert!(busy(own[0].handle()) <= begun.elapsed());
    assert!(busy(own[1].handle()) < worked);
    let mut meter = Meter::default();
    assert!(meter.loads(&threads.0.threads).is_none(), "there is no window yet");
    assert_eq!(meter.loads(&threads.0.threads).unwrap().len(), 2);
}

#[test]
fn a_decision_moves_the_berths_and_forgets_those_of_ended_connections() {
    let own = runtimes::<2>();
    let threads = threads(&own);
    let [gone, first, mut second] = [(); 3].map(|()| threads.berth());
    second.state.thread.store(1, Ordering::Relaxed);
    assert_eq!(second.moves().unwrap().id(), own[1].handle().id());
    drop(gone);
    let (mut meter, mut planner) = (Meter::default(), Planner::default());
    // Idle threads for long: everything comes together.
    for _ in 0..20 {
        threads.0.decide(&mut meter, &mut planner);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(second.moves().unwrap().id(), own[0].handle().id());
    assert_eq!(threads.0.berths.lock().len(), 2);
    assert!(first.state.bytes.load(Ordering::Relaxed) == 0);
}

impl Threads {
    /// Moves every connection to this thread.
    pub(crate) fn move_all_to(&self, thread: usize) {
        for state in self.0.berths.lock().iter().filter_map(Weak::upgrade) {
            state.thread.store(thread, Ordering::Relaxed);
        }
    }

    /// The number of moves that were carried out.
    pub(crate) fn wandered(&self) -> u64 {
        self.0.moves.load(Ordering::Relaxed)
    }
}
