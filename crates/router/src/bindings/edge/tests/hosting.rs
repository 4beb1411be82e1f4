//! Hosts whose listeners are closed while dialers dial them.

use weft_wire::edge::UpdateBind;

use super::*;
use crate::bindings::edge::dial::ask;
use crate::bindings::edge::hosted::Hosted;
use crate::seam::RouteErrorCode;

/// The message by which a host closes its listener.
fn unbind() -> Message {
    Unbind { conn_id: 1, token: "echo".into(), listener_id: None }.to_message()
}

impl Router {
    fn hosted(&self) -> Arc<Hosted> {
        let id = self.table.terminators.lock().get("echo").unwrap().id.clone();
        self.data.edge().host_of(&id).unwrap()
    }
}

impl Sdk {
    async fn bind(&mut self, bind: Bind) {
        let bind = Bind { conn_id: 1, token: "echo".into(), supports_bind_success: true, ..bind };
        self.channel.request(bind.to_message(), PATIENCE).await.unwrap();
        assert_eq!(self.next().await.content_type, content_type::BIND_SUCCESS);
    }
}

#[tokio::test]
async fn an_answer_counts_also_when_the_listener_is_closed_at_once() {
    let router = router().await;
    let given_up = CancellationToken::new();
    let mut host = router.sdk("host").await;
    for turn in 0..50 {
        host.bind(Bind { router_conn_ids: true, ..Bind::default() }).await;
        let hosted = router.hosted();
        let connection = router.data.edge().connection(hosted.channel).unwrap();
        let dial = Dial { conn_id: 1, new_conn_id: Some(turn), ..Dial::default() }.to_message();
        let asking = ask(&hosted, &connection, dial, PATIENCE, &given_up);
        tokio::pin!(asking);
        assert!(futures::poll!(&mut asking).is_pending());
        let dial = host.dial().await;
        host.accept_dial(&dial).await;
        host.channel.request(unbind(), PATIENCE).await.unwrap();
        // The dial and the close of the listener have both come now.
        assert!(hosted.over.is_cancelled());
        asking.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_host_accepted_before_it_stopped_hosting_stays() {
    let router = router().await;
    let mut host = router.sdk("host").await;
    host.bind(Bind::default()).await;
    let accept = async {
        let (message, dial) = host.dial().await;
        let success = DialSuccess { conn_id: 1, new_conn_id: 77, public_key: None };
        assert_eq!(dial.new_conn_id, None);
        let answer = success.to_message().in_reply_to(&message);
        let ready = host.channel.request(answer, PATIENCE);
        let unbound = host.channel.request(unbind(), PATIENCE);
        let (ready, _) = tokio::join!(ready, unbound);
        StateConnected::from_message(&ready.unwrap()).unwrap();
    };
    let (made, ()) = tokio::join!(router.attempt(0), accept);
    made.unwrap();
    assert_eq!(router.data.counts(), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dial_ends_with_the_listener_and_the_host_is_told() {
    for use_xgress in [false, true] {
        let router = router().await;
        let mut host = router.host_for(use_xgress).await;
        let leave = async {
            let (_, dial) = host.dial().await;
            host.channel.request(unbind(), PATIENCE).await.unwrap();
            let closed = StateClosed::from_message(&host.next().await).unwrap();
            assert_eq!(Some(closed.conn_id), dial.new_conn_id);
        };
        let (made, ()) = tokio::join!(router.attempt(0), leave);
        assert_eq!(made.unwrap_err().code, RouteErrorCode::InvalidTerminator);
        router.nothing_is_left().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminator_is_not_gone_when_another_listener_takes_it() {
    let router = router().await;
    let bind = || Bind { router_conn_ids: true, listener_id: Some("L".into()), ..Bind::default() };
    let (mut first, mut second) = (router.sdk("host").await, router.sdk("host").await);
    first.bind(bind()).await;
    let replace = async {
        first.dial().await;
        second.bind(bind()).await;
    };
    let (made, ()) = tokio::join!(router.attempt(0), replace);
    assert_eq!(made.unwrap_err().code, RouteErrorCode::Generic);
    let accept = async {
        let dial = second.dial().await;
        second.accept_dial(&dial).await;
    };
    let (made, ()) = tokio::join!(router.attempt(1), accept);
    made.unwrap();
    assert_eq!(*router.table.removed.lock(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_changes_the_later_counts() {
    let router = router().await;
    let host = router.host("echo").await;
    for _ in 0..100 {
        for cost in [10, 20] {
            let update = UpdateBind { conn_id: 1, cost: Some(cost), ..UpdateBind::default() };
            host.channel.send(update.to_message()).await.unwrap();
        }
        host.has_been_read().await;
        assert_eq!(router.table.terminators.lock().get("echo").unwrap().cost, 20);
    }
}

#[tokio::test]
async fn a_listener_that_takes_over_a_terminator_keeps_it_while_the_older_one_ends() {
    let router = router().await;
    let mut host = router.sdk("host").await;
    host.bind(Bind { listener_id: Some("listener".into()), ..Bind::default() }).await;
    let older = router.hosted();
    let newer = Arc::new(Hosted {
        terminator: older.terminator.clone(),
        conn_id: 2,
        channel: older.channel,
        bind: Bind { conn_id: 2, ..older.bind.clone() },
        session: Arc::clone(&older.session),
        grant: older.grant.clone(),
        over: CancellationToken::new(),
        why: OnceLock::new(),
        established: AtomicBool::new(false),
        answered: CancellationToken::new(),
    });
    // The newer listener found the older one before the older one ended. The newer one is entered as soon
    // as the table of listeners is free.
    let edge = Arc::clone(router.data.edge());
    let takes_over = move || {
        let Some(mut hosts) = edge.hosts.try_lock() else { return false };
        hosts.enter(&newer);
        drop(hosts);
        drop(edge.control.create_terminator(newer.terminator_request()));
        true
    };
    let meanwhile = takes_over.clone();
    *router.table.before_removal.lock() = Some(Box::new(move || _ = meanwhile()));
    router.data.edge().withdraw(&older);
    if router.data.edge().host_of(&older.terminator).is_none() {
        assert!(takes_over());
    }
    assert!(router.table.terminators.lock().contains_key("echo"), "the terminator is gone");
    assert_eq!(router.hosted().conn_id, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_binds_of_a_listener_at_once_the_later_has_the_terminator() {
    let router = router().await;
    let bind = |cost| Bind {
        conn_id: 1,
        token: "echo".into(),
        listener_id: Some("L".into()),
        supports_bind_success: true,
        cost,
        ..Bind::default()
    };
    let (first, mut second) = (router.sdk("host").await, router.sdk("host").await);
    // The first bind is about to have its terminator made, and the second one overtakes it if it can.
    let (sent, arrived) = std::sync::mpsc::channel();
    let begin = move || {
        sent.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(200));
    };
    *router.table.before_making.lock() = Some(Box::new(begin));
    let channel = first.channel.clone();
    let binding =
        tokio::spawn(async move { channel.request(bind(1).to_message(), PATIENCE).await });
    tokio::task::spawn_blocking(move || arrived.recv().unwrap()).await.unwrap();
    second.channel.request(bind(2).to_message(), PATIENCE).await.unwrap();
    assert_eq!(second.next().await.content_type, content_type::BIND_SUCCESS);
    binding.await.unwrap().unwrap();
    assert_eq!(router.table.terminators.lock().get("echo").unwrap().cost, 2);
    assert_eq!(router.hosted().bind.cost, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bind_that_was_taken_back_does_not_take_the_place_of_a_later_one() {
    let router = router().await;
    let mut host = router.sdk("host").await;
    let bind = || Bind { listener_id: Some("L".into()), ..Bind::default() };
    let first = Bind { conn_id: 1, token: "echo".into(), ..bind() };
    // The judgement of the first bind ends when the later one is made.
    let (begins, begun) = std::sync::mpsc::channel();
    let (made, is_made) = std::sync::mpsc::channel::<()>();
    let until_made = move || {
        begins.send(()).unwrap();
        let _ = tokio::task::block_in_place(|| is_made.recv());
    };
    *router.while_judging.lock() = Some(Box::new(until_made));
    host.channel.send(first.to_message()).await.unwrap();
    tokio::task::spawn_blocking(move || begun.recv().unwrap()).await.unwrap();
    host.channel.request(unbind(), PATIENCE).await.unwrap();
    host.bind(bind()).await;
    let later = router.hosted();
    let connection = router.data.edge().connection(later.channel).unwrap();
    drop(made);
    router.until("the end of the first bind", || connection.requests_in_work() == 0).await;
    assert!(!later.over.is_cancelled(), "the later listener has ended: {:?}", later.why.get());
    assert_eq!(*router.table.asked_for.lock(), ["echo"]);
    assert_eq!(*router.table.removed.lock(), [""; 0]);
}

#[tokio::test]
async fn a_listener_is_taken_down_although_too_many_requests_wait() {
    let router = router().await;
    let mut host = router.sdk("host").await;
    host.bind(Bind::default()).await;
    let hosted = router.hosted();
    let connection = router.data.edge().connection(hosted.channel).unwrap();
    let _all: Vec<_> = std::iter::from_fn(|| connection.take_up(unbind()).ok()).collect();
    host.channel.request(unbind(), PATIENCE).await.unwrap();
    assert_eq!(*router.table.removed.lock(), std::slice::from_ref(&hosted.terminator));
}

#[tokio::test]
async fn a_bind_that_is_judged_while_a_drain_begins_is_refused() {
    let router = router().await;
    let host = router.sdk("host").await;
    let edge = Arc::clone(router.data.edge());
    *router.while_judging.lock() = Some(Box::new(move || edge.drain()));
    let bind = Bind { conn_id: 1, token: "echo".into(), ..Bind::default() };
    let answer = host.channel.request(bind.to_message(), PATIENCE).await.unwrap();
    assert!(StateClosed::from_message(&answer).is_ok(), "{answer:?}");
    assert!(router.table.terminators.lock().is_empty());
}
