use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use parking_lot::Condvar;

use super::*;

const LONG: Duration = Duration::from_secs(20);

/// Looks names up in threads, as the system does: those that begin with `slow` until they are let go.
#[derive(Default)]
struct Threads {
    begun: Mutex<BTreeMap<String, usize>>,
    under_way: AtomicUsize,
    let_go: Mutex<bool>,
    changed: Condvar,
}

impl Threads {
    fn lookup(this: &Arc<Self>) -> Arc<dyn HostLookup> {
        Arc::new(Of(Arc::clone(this)))
    }

    fn run(&self, host: &str) {
        *self.begun.lock().entry(host.to_owned()).or_default() += 1;
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let mut let_go = self.let_go.lock();
        while host.starts_with("slow") && !*let_go {
            self.changed.wait(&mut let_go);
        }
        self.under_way.fetch_sub(1, Ordering::SeqCst);
    }

    fn let_go(&self) {
        *self.let_go.lock() = true;
        self.changed.notify_all();
    }

    fn under_way(&self) -> usize {
        self.under_way.load(Ordering::SeqCst)
    }

    fn times(&self, host: &str) -> usize {
        self.begun.lock().get(host).copied().unwrap_or_default()
    }
}

struct Of(Arc<Threads>);

impl HostLookup for Of {
    fn lookup<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let (threads, host) = (Arc::clone(&self.0), host.to_owned());
        async move {
            tokio::task::spawn_blocking(move || threads.run(&host))
                .await
                .map_err(io::Error::other)?;
            Ok(vec![[192, 0, 2, 7].into()])
        }
        .boxed()
    }
}

/// Lets the threads go at the end of a test, for which its runtime waits.
struct Ended(Arc<Threads>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

struct Bed {
    lookups: Arc<Lookups>,
    threads: Arc<Threads>,
    lookup: Arc<dyn HostLookup>,
    _ended: Ended,
}

impl Bed {
    fn new(patience: Duration) -> Self {
        let threads = Arc::<Threads>::default();
        let (lookup, ended) = (Threads::lookup(&threads), Ended(Arc::clone(&threads)));
        Self { lookups: Lookups::with_patience(patience), threads, lookup, _ended: ended }
    }

    /// Asks for a name, in a task of its own.
    fn asked(
        &self,
        asker: Asker<'static>,
        host: impl Into<String>,
    ) -> tokio::task::JoinHandle<io::Result<Vec<SocketAddr>>> {
        let (lookups, lookup) = (Arc::clone(&self.lookups), Arc::clone(&self.lookup));
        let host = host.into();
        tokio::spawn(async move { lookups.find(asker, &host, Some(&lookup)).await })
    }

    async fn find(&self, asker: Asker<'static>, host: &str) -> io::Result<Vec<SocketAddr>> {
        let asked = self.asked(asker, host);
        tokio::time::timeout(LONG, asked).await.expect("an answer or a refusal").unwrap()
    }
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.unwrap_or_else(|_| panic!("{what}"));
}

#[tokio::test]
async fn a_lookup_keeps_its_place_until_its_thread_has_ended() {
    let bed = Bed::new(Duration::from_millis(20));
    for number in 0..3 * MOST_CHOSEN_OF_DIALER {
        let asked = bed.asked(Asker::Chooser("mallory"), format!("slow-{number}"));
        if number < MOST_CHOSEN_OF_DIALER {
            until("the lookup begins", || bed.threads.under_way() == number + 1).await;
        }
        // Whoever has asked goes away.
        asked.abort();
    }
    assert_eq!(bed.lookups.chosen.used(), MOST_CHOSEN_OF_DIALER);
    let refused = bed.find(Asker::Chooser("mallory"), "quick").await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "8 other names that its dialer has chosen are being looked up, and DNS servers do not answer in time"
    );
    assert_eq!(bed.threads.under_way(), MOST_CHOSEN_OF_DIALER);
    bed.threads.let_go();
    until("all places come back", || bed.lookups.chosen.used() == 0).await;
    assert!(bed.lookups.running.lock().is_empty());
    assert!(bed.find(Asker::Chooser("mallory"), "quick").await.is_ok());
}

#[tokio::test]
async fn a_dialer_with_slow_names_waits_for_its_own_and_others_pass() {
    let bed = Bed::new(LONG);
    let slow = |dialer: &'static str, number: usize| {
        bed.asked(Asker::Chooser(dialer), format!("slow-{dialer}-{number}"))
    };
    let mut asked: Vec<_> = (0..4 * MOST_CHOSEN_OF_DIALER).map(|it| slow("mallory", it)).collect();
    let waiting = 3 * MOST_CHOSEN_OF_DIALER;
    until("the others wait", || bed.lookups.chosen.waiting() == waiting).await;
    assert!(bed.find(Asker::Chooser("alice"), "quick").await.is_ok());
    // Many dialers together take all places of chosen names, and none of configured ones.
    const DIALERS: [&str; 7] = ["b", "c", "d", "e", "f", "g", "h"];
    for dialer in DIALERS {
        asked.extend((0..MOST_CHOSEN_OF_DIALER).map(|it| slow(dialer, it)));
    }
    until("all places are taken", || bed.threads.under_way() == MOST_CHOSEN).await;
    let waits = bed.asked(Asker::Chooser("alice"), "quick");
    until("she waits for her turn", || bed.lookups.chosen.waiting() == waiting + 1).await;
    for asker in
        [Asker::Process, Asker::Check("t"), Asker::Dialer("alice"), Asker::Dialer("mallory")]
    {
        assert!(bed.find(asker, "fixed").await.is_ok(), "{asker:?}");
    }
    assert_eq!(bed.threads.under_way(), MOST_CHOSEN);
    bed.threads.let_go();
    for asked in asked.into_iter().chain([waits]) {
        asked.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_name_is_looked_up_once_at_a_time_however_many_wait_for_it() {
    let bed = Bed::new(LONG);
    let askers = [Asker::Dialer("alice"), Asker::Chooser("bob"), Asker::Process, Asker::Check("t")];
    let find = |it: usize| bed.lookups.find(askers[it % 4], "slow", Some(&bed.lookup));
    let mut asked = Box::pin(join_all((0..400).map(find)));
    assert!(futures::poll!(&mut asked).is_pending());
    assert_eq!(bed.lookups.running.lock().len(), 1);
    until("the lookup begins", || bed.threads.under_way() == 1).await;
    bed.threads.let_go();
    for found in timeout(LONG, asked).await.unwrap() {
        assert_eq!(found.unwrap(), ["192.0.2.7:0".parse().unwrap()]);
    }
    assert_eq!(bed.threads.times("slow"), 1);
}

#[test]
fn a_lookup_whose_runtime_ends_is_begun_again() {
    let bed = Bed::new(LONG);
    let runtime = || {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.worker_threads(1).enable_all().build().unwrap()
    };
    let (first, second) = (runtime(), runtime());
    let ask = |runtime: &tokio::runtime::Runtime| {
        let _inside = runtime.enter();
        bed.asked(Asker::Process, "slow")
    };
    let _asked = ask(&first);
    second.block_on(until("the lookup begins", || bed.threads.under_way() == 1));
    let waits = ask(&second);
    first.shutdown_background();
    second.block_on(until("it begins again", || bed.threads.times("slow") == 2));
    bed.threads.let_go();
    assert!(second.block_on(waits).unwrap().is_ok());
}

#[tokio::test]
async fn too_many_that_wait_are_refused_at_once() {
    let bed = Bed::new(LONG);
    let most = MOST_CHOSEN_OF_DIALER + MOST_WAITING_OF_SHARE;
    let asked: Vec<_> =
        (0..most).map(|it| bed.asked(Asker::Chooser("mallory"), format!("slow-{it}"))).collect();
    until("all wait", || bed.lookups.chosen.waiting() == MOST_WAITING_OF_SHARE).await;
    let find = bed.lookups.find(Asker::Chooser("mallory"), "slow-x", Some(&bed.lookup));
    let Poll::Ready(Err(refused)) = futures::poll!(Box::pin(find)) else { panic!("it waits") };
    assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy, "{refused}");
    drop(asked);
}

#[tokio::test]
async fn a_service_with_slow_checks_and_a_router_with_slow_addresses_wait_for_their_own() {
    let bed = Bed::new(LONG);
    let mut asked = Vec::new();
    for number in 0..MOST_OWN {
        asked.push(bed.asked(Asker::Check("mallory"), format!("slow-check-{number}")));
        asked.push(bed.asked(Asker::Peer("mallory"), format!("slow-peer-{number}")));
    }
    let most = MOST_CHECKED_OF_TERMINATOR + MOST_TOLD_OF_ROUTER;
    until("their shares are taken", || bed.threads.under_way() == most).await;
    for asker in [Asker::Check("alice"), Asker::Peer("r2"), Asker::Process] {
        assert!(bed.find(asker, "quick").await.is_ok(), "{asker:?}");
    }
    assert_eq!(bed.threads.under_way(), most);
    bed.threads.let_go();
    for asked in asked {
        asked.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn who_waits_for_a_place_joins_a_lookup_of_the_name_that_begins_meanwhile() {
    let bed = Bed::new(LONG);
    let fill = |dialer: &'static str, number: usize| {
        bed.asked(Asker::Chooser(dialer), format!("slow-{dialer}-{number}"))
    };
    let mut asked: Vec<_> = (0..MOST_CHOSEN_OF_DIALER).map(|it| fill("bob", it)).collect();
    until("his places are taken", || bed.threads.under_way() == MOST_CHOSEN_OF_DIALER).await;
    let bobs = bed.asked(Asker::Chooser("bob"), "app");
    until("he waits", || bed.lookups.chosen.waiting() == 1).await;
    let alices = bed.find(Asker::Chooser("alice"), "app").await;
    assert_eq!(bobs.await.unwrap().unwrap(), alices.unwrap());
    assert_eq!(bed.threads.times("app"), 1);
    bed.threads.let_go();
    for asked in asked.drain(..) {
        asked.await.unwrap().unwrap();
    }
}
