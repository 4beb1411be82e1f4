use std::sync::atomic::{AtomicU32, Ordering};

use futures::FutureExt as _;
use serde_json::json;
use weft_model::entity::{Record, Service};
use weft_model::{Base, Id, Timeline};
use weft_store::{CommitError, Faulty, InjectedFault, Memory};

use super::work::BATCH_OPERATIONS;
use super::*;
use crate::subscription::Notice;

fn writer(store: &Faulty<Memory>) -> Writer {
    let head = store.head().unwrap();
    Writer::start(Arc::new(store.clone()), Snapshot::empty(head.timeline), Deadlines::default())
}

/// A writer with short time limits.
fn hasty(store: &Faulty<Memory>) -> Writer {
    let head = store.head().unwrap();
    let millis = Duration::from_millis;
    let deadlines = Deadlines { answer: millis(100), commit: millis(300), settle: millis(100) };
    Writer::start(Arc::new(store.clone()), Snapshot::empty(head.timeline), deadlines)
}

fn service(id: &str, name: &str) -> Service {
    let base = Base::new(Id::new(id), weft_model::Timestamp(1));
    Service { base, name: name.into(), ..Service::default() }
}

/// Creates a service whose name must be free.
fn create(id: &str, name: &str) -> Decide {
    let service = service(id, name);
    Box::new(move |tip| {
        if tip.by_name::<Service>(service.name().unwrap()).is_some() {
            return Err(Failure::field("name", "name must be unique", &*service.name));
        }
        let mut change = ChangeSet::default();
        change.put(service.clone());
        Ok(change)
    })
}

fn store() -> Faulty<Memory> {
    Faulty::new(Memory::new())
}

#[tokio::test]
async fn who_was_answered_reads_his_write() {
    let writer = writer(&store());
    let done = writer.submit(create("a", "web")).await.unwrap();
    assert_eq!(done.revision, Revision(1));
    assert!(writer.snapshot().by_name::<Service>("web").is_some());
}

#[tokio::test]
async fn refusals_change_nothing_and_names_stay_unique_within_a_batch() {
    let store = store();
    let writer = writer(&store);
    let all = (0..50).map(|at| {
        let writer = writer.clone();
        async move { writer.submit(create(&format!("s{at}"), &format!("n{}", at % 10))).await }
    });
    let results = futures::future::join_all(all).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 10);
    let refused = results.iter().filter_map(|result| result.as_ref().err());
    assert!(refused.clone().all(|failure| failure.field_name() == Some("name")));
    assert_eq!(refused.count(), 40);
    assert_eq!(store.head().unwrap().revision, Revision(10));
    assert_eq!(writer.snapshot().revision(), Revision(10));
}

#[tokio::test]
async fn what_changes_nothing_takes_no_revision() {
    let writer = writer(&store());
    writer.submit(create("a", "web")).await.unwrap();
    let done = writer.submit(Box::new(|_| Ok(ChangeSet::default()))).await.unwrap();
    assert_eq!(done.revision, Revision(1));
    assert_eq!(writer.snapshot().revision(), Revision(1));
}

#[tokio::test]
async fn a_refused_batch_is_not_seen_and_the_next_works() {
    let store = store();
    let writer = writer(&store);
    store.push(InjectedFault::Fails(CommitError::Full));
    let failure = writer.submit(create("a", "web")).await.unwrap_err();
    assert_eq!(failure.status(), 503);
    assert!(matches!(writer.health(), Health::Failing(_)));
    assert!(writer.snapshot().by_name::<Service>("web").is_none());
    writer.submit(create("a", "web")).await.unwrap();
    assert_eq!(writer.health(), Health::Fine);
}

#[tokio::test]
async fn a_lost_answer_is_settled_before_anything_else() {
    let store = store();
    let writer = writer(&store);
    store.push(InjectedFault::LosesAnswer);
    writer.submit(create("a", "one")).await.unwrap();
    assert_eq!(store.head().unwrap().revision, Revision(1));
    store.push(InjectedFault::LosesCommit);
    writer.submit(create("b", "two")).await.unwrap();
    assert_eq!(store.head().unwrap().revision, Revision(2));
    assert_eq!(writer.snapshot().revision(), Revision(2));
}

#[tokio::test]
async fn a_moved_head_is_followed_and_the_same_is_decided_again() {
    let store = store();
    let writer = writer(&store);
    let (_, mut follower) = writer.subscribe();
    // Another process takes the name first.
    let other = Arc::new(ChangeSet::of([weft_model::Change::Put(service("x", "web").into())]));
    store.commit(Revision(0), vec![other]).await.unwrap();
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let decide = create("a", "web");
    let decide: Decide = Box::new(move |tip| {
        counted.fetch_add(1, Ordering::SeqCst);
        decide(tip)
    });
    let failure = writer.submit(decide).await.unwrap_err();
    assert_eq!(failure.field_name(), Some("name"));
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert_eq!(writer.snapshot().by_name::<Service>("web").unwrap().base.id, "x");
    let Some(Notice::Change(seen)) = follower.next().await else { panic!("a change") };
    assert_eq!((seen.before.revision(), seen.revision), (Revision(0), Revision(1)));
    writer.submit(create("a", "other")).await.unwrap();
    assert_eq!(store.head().unwrap().revision, Revision(2));
}

#[tokio::test]
async fn a_damaged_store_stops_writing_with_the_cause() {
    let store = store();
    let writer = writer(&store);
    let damage = weft_store::Damage { location: "row".into(), reason: "flipped".into() };
    store.push(InjectedFault::Fails(CommitError::Damaged(damage)));
    assert!(writer.submit(create("a", "web")).await.is_err());
    let failure = writer.submit(create("b", "two")).await.unwrap_err();
    assert!(failure.to_string().contains("flipped"), "{failure}");
    assert!(matches!(writer.health(), Health::Stopped(_)));
}

#[tokio::test]
async fn a_store_that_hangs_is_given_up_and_caught_up_with() {
    let store = store();
    let writer = hasty(&store);
    store.push(InjectedFault::HangsAfter);
    let failure = writer.submit(create("a", "one")).await.unwrap_err();
    assert_eq!((failure.status(), failure.code()), (503, ErrorCode::OutcomeUnknown));
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    let mut tries = 0;
    while writer.submit(create(&format!("b{tries}"), &format!("two{tries}"))).await.is_err() {
        assert!(tokio::time::Instant::now() < deadline, "the store was never given up");
        tries += 1;
    }
    // The batch without an answer was written.
    assert!(writer.snapshot().by_name::<Service>("one").is_some());
}

/// Waits until a condition holds.
async fn until(what: &str, done: impl Fn() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(tokio::time::Instant::now() < deadline, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_write_that_lands_late_is_called_unknown_and_never_made_twice() {
    let store = store();
    let writer = hasty(&store);
    store.push(InjectedFault::LandsLate);
    let failure = writer.submit(create("a", "one")).await.unwrap_err();
    assert_eq!((failure.status(), failure.code()), (503, ErrorCode::OutcomeUnknown));
    // The batch is given up, and written again under another id.
    until("the batch is there", || writer.snapshot().by_name::<Service>("one").is_some()).await;
    let landed = store.let_land().await;
    assert!(matches!(landed[..], [Err(CommitError::Unavailable(_))]), "{landed:?}");
    assert_eq!(store.head().unwrap().revision, Revision(1));
    writer.submit(create("b", "two")).await.unwrap();
    assert_eq!(writer.snapshot().revision(), Revision(2));
}

#[tokio::test]
async fn an_unknown_outcome_is_found_out_before_the_next_write_and_without_one() {
    let store = store();
    let writer = hasty(&store);
    store.push(InjectedFault::GoesDark);
    let failure = writer.submit(create("a", "one")).await.unwrap_err();
    assert_eq!((failure.status(), failure.code()), (503, ErrorCode::OutcomeUnknown));
    assert!(writer.snapshot().by_name::<Service>("one").is_none());
    until("it is known to be unknown", || matches!(writer.health(), Health::Failing(_))).await;
    // Nothing is decided while the model may be another.
    let refused = writer.submit(create("b", "two")).await.unwrap_err();
    assert_eq!((refused.status(), refused.code()), (503, ErrorCode::ClusterNoLeader));
    assert!(refused.to_string().contains("this one was not made"), "{refused}");
    let (_, mut follower) = writer.subscribe();
    store.set_dark(false);
    // The subscriber sees the change although nothing else is written.
    let Some(Notice::Change(seen)) = follower.next().await else { panic!("a change") };
    assert_eq!((seen.before.revision(), seen.revision), (Revision(0), Revision(1)));
    assert!(writer.snapshot().by_name::<Service>("one").is_some());
    assert_eq!(writer.health(), Health::Fine);
    writer.submit(create("c", "three")).await.unwrap();
    assert!(writer.snapshot().by_name::<Service>("two").is_none());
    assert_eq!(store.head().unwrap().revision, Revision(2));
}

#[tokio::test]
async fn what_stood_behind_an_unknown_batch_was_not_made() {
    let store = store();
    let writer = hasty(&store);
    store.push(InjectedFault::GoesDark);
    let (first, behind) = tokio::join!(writer.submit(create("a", "one")), async {
        tokio::task::yield_now().await;
        writer.submit(create("b", "two")).await
    });
    assert!(first.is_err() && behind.is_err());
    until("it is known to be unknown", || matches!(writer.health(), Health::Failing(_))).await;
    store.set_dark(false);
    until("it is found out", || writer.health() == Health::Fine).await;
    let snapshot = writer.snapshot();
    assert!(snapshot.by_name::<Service>("one").is_some());
    assert_eq!(store.head().unwrap().revision, snapshot.revision());
}

#[tokio::test]
async fn a_full_queue_is_busy_and_reads_go_on() {
    let store = store();
    let writer = hasty(&store);
    store.push(InjectedFault::Hangs);
    let count = QUEUE + BATCH_OPERATIONS + 50;
    let all = (0..count).map(|at| {
        let writer = writer.clone();
        async move { writer.submit(create(&format!("s{at}"), &format!("n{at}"))).await }
    });
    let results = futures::future::join_all(all).await;
    let codes = results.into_iter().map(|result| result.unwrap_err().code());
    let busy = codes.filter(|code| *code == ErrorCode::ServerTooManyRequests).count();
    assert!(busy > 0 && busy < count, "{busy}");
    assert_eq!(writer.snapshot().revision(), Revision(0));
}

#[tokio::test]
async fn a_decision_that_panics_is_one_failure() {
    let writer = writer(&store());
    let failure = writer.submit(Box::new(|_| panic!("a fault"))).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::Unhandled);
    writer.submit(create("a", "web")).await.unwrap();
}

#[tokio::test]
async fn followers_see_every_revision_in_order_or_start_over() {
    let writer = writer(&store());
    let (start, mut follower) = writer.subscribe();
    let (_, mut slow) = writer.subscribe();
    assert_eq!(start.revision(), Revision(0));
    let mut at = Revision(0);
    for count in 0..1100 {
        writer.submit(create(&format!("s{count}"), &format!("n{count}"))).await.unwrap();
        while at < writer.snapshot().revision() {
            let Some(Notice::Change(batch)) = follower.next().await else { panic!("a change") };
            assert_eq!(batch.before.revision(), at);
            assert_eq!(batch.revision.0 - at.0, batch.changes.len() as u64);
            at = batch.revision;
        }
    }
    let Some(Notice::Resync(snapshot)) = slow.next().await else { panic!("start over") };
    assert_eq!(snapshot.revision(), Revision(1100));
    writer.submit(create("last", "last")).await.unwrap();
    let Some(Notice::Change(batch)) = slow.next().await else { panic!("a change") };
    assert_eq!(batch.revision, Revision(1101));
    assert_eq!(json!(batch.changes.len()), json!(1));
    let _: &Timeline = snapshot.timeline();
}

// The paused clock moves only when every task waits: during the sleep below, every task that could
// write has tried.
#[tokio::test(start_paused = true)]
async fn work_alone_runs_between_batches_and_everybody_starts_over() {
    let store = store();
    let writer = writer(&store);
    let (_, mut changes) = writer.subscribe();
    let submitted = (0..300).map(|at| {
        let writer = writer.clone();
        async move { writer.submit(create(&format!("s{at}"), &format!("n{at}"))).await }
    });
    let seen = store.clone();
    let alone = writer.alone(Box::new(move |published| {
        async move {
            let head = seen.head().unwrap().revision;
            assert_eq!(published.revision(), head, "a batch is in flight");
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert_eq!(seen.head().unwrap().revision, head, "somebody writes");
            published.rebuilt().map(Some).map_err(|error| error.to_string())
        }
        .boxed()
    }));
    let (done, submitted) = tokio::join!(alone, futures::future::join_all(submitted));
    assert_eq!(done, Ok(()));
    assert!(submitted.iter().all(Result::is_ok));
    let mut last = Revision::default();
    let mut resyncs = 0;
    while last < Revision(300) {
        match changes.next().await.unwrap() {
            Notice::Change(published) => last = published.revision,
            Notice::Resync(snapshot) => {
                last = snapshot.revision();
                resyncs += 1;
            }
        }
    }
    assert_eq!((resyncs, writer.snapshot().table(weft_model::Kind::Service).len()), (1, 300));
    let failed = writer.alone(Box::new(|_| async { panic!("a fault") }.boxed())).await;
    assert!(failed.is_err());
    writer.submit(create("later", "later")).await.unwrap();
}

#[tokio::test]
async fn writing_goes_on_after_mending() {
    let store = store();
    let writer = writer(&store);
    let damage = weft_store::Damage { location: "a row".into(), reason: "it is wrong".into() };
    store.push(InjectedFault::Fails(CommitError::Damaged(damage)));
    assert_eq!(writer.submit(create("a", "a")).await.unwrap_err().status(), 503);
    assert!(matches!(writer.health(), Health::Stopped(_)));
    assert_eq!(writer.submit(create("a", "a")).await.unwrap_err().status(), 503);
    writer.alone(Box::new(|_| async { Ok(None) }.boxed())).await.unwrap();
    assert_eq!(writer.health(), Health::Fine);
    writer.submit(create("a", "a")).await.unwrap();
}

#[tokio::test]
async fn a_fault_of_the_writer_is_named_and_no_change_is_believed() {
    let store = store();
    let writer = writer(&store);
    writer.submit(create("a", "web")).await.unwrap();
    store.push(InjectedFault::Panics);
    let failure = writer.submit(create("b", "wiki")).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::OutcomeUnknown);
    let stopped = async {
        while !matches!(writer.health(), Health::Stopped(_)) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), stopped).await.unwrap();
    let failure = writer.submit(create("b", "wiki")).await.unwrap_err();
    assert!(failure.to_string().contains("restart the controller"), "{failure}");
    let failure = writer.alone(Box::new(|_| async { Ok(None) }.boxed())).await.unwrap_err();
    assert!(failure.contains("restart the controller"), "{failure}");
    assert!(writer.snapshot().by_name::<Service>("web").is_some(), "reading goes on");
}

/// A change set of somebody else.
fn theirs(id: &str, name: &str) -> Arc<ChangeSet> {
    Arc::new(ChangeSet::of([weft_model::Change::Put(service(id, name).into())]))
}

#[tokio::test]
async fn changes_of_others_are_seen_without_a_change_of_ours() {
    let store = store();
    let writer = writer(&store);
    let (_, mut follower) = writer.subscribe();
    store.commit(Revision(0), vec![theirs("x", "web")]).await.unwrap();
    let Some(Notice::Change(seen)) = follower.next().await else { panic!("a change") };
    assert_eq!(seen.revision, Revision(1));
    assert!(writer.snapshot().by_name::<Service>("web").is_some());
}

#[tokio::test]
async fn a_log_that_was_shortened_leads_to_the_rows_and_writing_goes_on() {
    let store = Faulty::new(Memory::with_log_limit(3));
    let writer = writer(&store);
    let (_, mut follower) = writer.subscribe();
    let many = (0..10).map(|at| theirs(&at.to_string(), &at.to_string()));
    store.commit(Revision(0), many.collect()).await.unwrap();
    let Some(Notice::Resync(seen)) = follower.next().await else { panic!("the rows") };
    assert_eq!(seen.revision(), Revision(10));
    assert!(seen.by_name::<Service>("0").is_some());
    let done = writer.submit(create("a", "web")).await.unwrap();
    assert_eq!(done.revision, Revision(11));
    assert_eq!(writer.health(), Health::Fine);
}

#[tokio::test]
async fn a_refusal_is_of_the_head_and_not_of_a_copy_that_is_behind() {
    let store = store();
    let writer = writer(&store);
    writer.submit(create("a", "web")).await.unwrap();
    // Somebody takes the name away; the writer, which has an operation at once, does not know it yet.
    let gone = ChangeSet::of([weft_model::Change::Delete(weft_model::Kind::Service, Id::new("a"))]);
    store.commit(Revision(1), vec![Arc::new(gone)]).await.unwrap();
    let done = writer.submit(create("b", "web")).await.unwrap();
    assert_eq!(done.revision, Revision(3));
}

/// Others write so often that the head has always moved before it is looked at.
#[tokio::test]
async fn a_refusal_waits_for_others_once() {
    let store = store();
    let writer = writer(&store);
    let (other, decided) = (store.clone(), Arc::new(AtomicU32::new(0)));
    let times = Arc::clone(&decided);
    let refuse: Decide = Box::new(move |_| {
        let number = times.fetch_add(1, Ordering::Relaxed);
        let name = format!("other {number}");
        let mut change = ChangeSet::default();
        change.put(service(&name, &name));
        let head = other.inner().head().unwrap().revision;
        let committed = other.inner().commit(head, vec![Arc::new(change)]).now_or_never();
        committed.expect("a commit in memory").unwrap();
        Err(Failure::field("name", "refused", "name"))
    });
    let refused = writer.submit(refuse);
    let refused = tokio::time::timeout(Duration::from_secs(20), refused).await.expect("an answer");
    assert!(refused.is_err());
    assert_eq!(decided.load(Ordering::Relaxed), 2, "once more, on what others had written");
}

#[tokio::test]
async fn two_writers_of_one_log_decide_as_one() {
    use weft_store::{MemoryLog, Options, Replica};

    let folder = tempfile::tempdir().unwrap();
    let log = MemoryLog::new(20);
    let mut writers = Vec::new();
    for name in ["one", "two"] {
        let path = folder.path().join(name);
        let shared = Arc::new(log.connect());
        let store = Replica::open(&path, Options::default(), shared).await.unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let snapshot = crate::load(&*store).unwrap();
        writers.push(Writer::start(store, snapshot, Deadlines::default()));
    }
    // Both create services, of which two in a row want one name.
    let all = (0..60).map(|at| {
        let writer = writers[at % 2].clone();
        async move { writer.submit(create(&at.to_string(), &(at / 2).to_string())).await }
    });
    let answers = futures::future::join_all(all).await;
    for pair in answers.chunks(2) {
        let done: Vec<_> = pair.iter().filter_map(|answer| answer.as_ref().ok()).collect();
        assert_eq!(done.len(), 1, "one of two has the name: {pair:?}");
    }
    let mut revisions: Vec<_> = answers.iter().flatten().map(|done| done.revision.0).collect();
    revisions.sort_unstable();
    assert_eq!(revisions, (1..=30).collect::<Vec<_>>(), "each has a revision of its own");
    for writer in &writers {
        let (mut snapshot, mut follower) = writer.subscribe();
        while snapshot.revision() < Revision(30) {
            snapshot = match follower.next().await.unwrap() {
                Notice::Change(seen) => Arc::clone(&seen.after),
                Notice::Resync(seen) => seen,
            };
        }
        assert_eq!(snapshot.list::<Service>().count(), 30);
    }
}

#[tokio::test]
async fn an_operation_without_a_change_says_nothing_about_the_disk() {
    let store = store();
    let writer = writer(&store);
    store.push(InjectedFault::Fails(CommitError::Full));
    assert!(writer.submit(create("a", "web")).await.is_err());
    assert!(matches!(writer.health(), Health::Failing(_)));
    writer.submit(Box::new(|_| Ok(ChangeSet::default()))).await.unwrap();
    assert!(matches!(writer.health(), Health::Failing(_)), "{:?}", writer.health());
    writer.submit(create("a", "web")).await.unwrap();
    assert_eq!(writer.health(), Health::Fine);
}

#[tokio::test]
async fn a_change_of_others_that_cannot_be_applied_is_tried_again_with_pauses() {
    let store = store();
    let writer = writer(&store);
    writer.submit(create("a", "web")).await.unwrap();
    // A second service of one name contradicts the model.
    store.commit(Revision(1), vec![theirs("b", "web")]).await.unwrap();
    let failing = async {
        while !matches!(writer.health(), Health::Failing(_)) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), failing).await.unwrap();
    assert!(writer.submit(create("c", "other")).await.is_err());
    // The contradiction ends, the rows are loaded, and writing goes on.
    let gone = ChangeSet::of([weft_model::Change::Delete(weft_model::Kind::Service, Id::new("a"))]);
    store.commit(Revision(2), vec![Arc::new(gone)]).await.unwrap();
    let fine = async {
        while writer.health() != Health::Fine {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), fine).await.unwrap();
    assert_eq!(writer.snapshot().by_name::<Service>("web").unwrap().base.id, "b");
    writer.submit(create("c", "other")).await.unwrap();
}
