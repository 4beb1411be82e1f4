//! Opaque API sessions, which edge routers know only if they are told
//! (docs/protocol/edge-control-plane.md 10). `legacy::book` decides which ones; `legacy::pending` keeps
//! the notices that wait for a router; this module sends them.

mod announced;
mod backoff;
mod book;
mod pending;
mod shelves;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use announced::{AnnouncedSession, removed};
use backoff::ReportBackoff;
pub(crate) use book::Book;
use book::{Attached, SessionCursor, Written};
use pending::Batch;
use tokio::sync::mpsc;
use tokio::time::Instant;
use weft_channel::{Lane, SendError};
use weft_model::Id;
use weft_wire::edge_ctrl::{
    AddedSessions, ApiSession, ApiSessionHeartbeat, ApiSessionRemoved, EncodedApiSession,
    SessionRemoved, SyncState, ValidateSessionsRequest,
};
use weft_wire::{Message, ProtoBody, WireError};

use super::ended;
use super::session::RouterSession;
use crate::questions::Questions;

/// Sessions in one message.
const PART: usize = 200;
/// Messages of a report of all sessions that wait to be written at a time.
const AT_A_TIME: u64 = 3;
/// How long a router may take to accept one message of such a report.
const WRITTEN: Duration = Duration::from_secs(60);
/// Ids in one message about ends.
const IDS: usize = 1_000;
/// Most ids of ended service sessions that wait for a router.
const UNSAID: usize = 100_000;
/// Most tokens in a message of a router.
const MAX_NAMED: usize = 10_000;
/// Most service sessions that a router asks about in one message.
const MAX_ASKED: usize = 100_000;
/// Longest token of a service session that a router asks about, in bytes. The controller's own have 36.
const MAX_TOKEN: usize = 128;
/// The pause between two tries to find out which sessions there are.
const UNCERTAIN: Duration = Duration::from_secs(1);
/// A router that was told all sessions may drop others until this time has passed: it checks once a
/// second, and gives up after 20 s.
const SETTLING: Duration = Duration::from_secs(25);

/// Tells a router all sessions with which clients may use it, and then every change, until its
/// channel closes. `asked` receives ended service sessions that the router asked about.
pub(crate) async fn feed(session: &Arc<RouterSession>, asked: mpsc::Receiver<Vec<String>>) {
    let attached = attach(session);
    let (unsaid, settling, backoff) = (Vec::new(), None, ReportBackoff::default());
    let mut feed = Feed { session, attached, asked, unsaid, settling, backoff };
    let mut next = Next::Everything;
    loop {
        match feed.say(next).await {
            Ok(()) => {}
            Err(SendError::Closed(_)) => return,
            Err(problem @ SendError::TooLarge { .. }) => {
                tracing::error!(router = %session.router.id, %problem, "sessions cannot be sent to a router; clients with opaque sessions cannot use it");
            }
            Err(problem) => {
                tracing::warn!(router = %session.router.id, %problem, "sessions were not sent to a router; all are sent again");
                feed.backoff.at_once();
            }
        }
        next = feed.next().await;
    }
}

fn attach(session: &RouterSession) -> Attached {
    let (router, is_old) = (&session.router, ended::is_old(session));
    session.plane.sessions.attach(&router.id, router.number(), is_old)
}

enum Next {
    Everything,
    Say(Batch),
    Ended(Vec<String>),
    /// The router asks for all sessions.
    Asked,
    Settled,
}

/// The notices to one router.
struct Feed<'a> {
    session: &'a RouterSession,
    attached: Attached,
    asked: mpsc::Receiver<Vec<String>>,
    /// Ended service sessions that the router was not told of yet.
    unsaid: Vec<String>,
    settling: Option<Settling>,
    backoff: ReportBackoff,
}

/// After a report of all sessions, a router may drop sessions that it was told of later and that
/// are older than the last one in the report. They are told again when it is done.
struct Settling {
    until: Instant,
    last: Id,
    late: BTreeMap<Id, Arc<AnnouncedSession>>,
}

impl Settling {
    fn heed(&mut self, batch: &Batch) {
        if !self.late.is_empty() {
            let ended = batch.ended.iter().flat_map(|ended| ended.sessions.iter());
            ended.chain(&batch.removed).for_each(|told| drop(self.late.remove(&told.id)));
        }
        let late = batch.added.iter().filter(|told| told.id <= self.last);
        self.late.extend(late.map(|told| (told.id.clone(), Arc::clone(told))));
        for told in &batch.updated {
            if let Some(late) = self.late.get_mut(&told.id) {
                *late = Arc::clone(told);
            }
        }
    }
}

impl Feed<'_> {
    async fn next(&mut self) -> Next {
        let until = self.settling.as_ref().map(|settling| settling.until);
        let settled = async move {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            say = self.attached.next(PART) => say.map_or(Next::Everything, Next::Say),
            Some(ended) = self.asked.recv() => Next::Ended(ended),
            () = self.session.resync.notified() => Next::Asked,
            () = self.backoff.due() => Next::Everything,
            () = settled => Next::Settled,
        }
    }

    async fn say(&mut self, next: Next) -> Result<(), SendError> {
        match next {
            Next::Everything => {
                ended::unheard(self.session);
                self.say_ended().await?;
                self.say_everything().await
            }
            Next::Ended(ids) => {
                self.unsaid.extend(ids);
                self.say_ended().await
            }
            Next::Say(batch) => self.say_batch(&batch).await,
            Next::Asked => {
                self.backoff.asked(self.settling.is_some());
                Ok(())
            }
            Next::Settled => {
                self.backoff.settled();
                let late = self.settling.take().map(|settling| settling.late);
                let late: Vec<_> = late.into_iter().flatten().map(|(_, told)| told).collect();
                self.say_added(&late).await
            }
        }
    }

    async fn say_batch(&mut self, batch: &Batch) -> Result<(), SendError> {
        if let Some(settling) = &mut self.settling {
            settling.heed(batch);
        }
        if !batch.services.is_empty() {
            ended::with_sessions(self.session, &batch.services);
            self.unsaid.extend(batch.services.iter().map(|it| it.base.id.to_string()));
            self.say_ended().await?;
        }
        for ended in &batch.ended {
            self.send(ended.message()).await?;
        }
        for part in batch.removed.chunks(IDS) {
            self.send(removed(part)).await?;
        }
        self.say_added(&batch.added).await?;
        if !batch.updated.is_empty() {
            let updated = batch.updated.iter().map(|told| &told.encoded);
            self.send(EncodedApiSession::updated(updated)).await?;
        }
        Ok(())
    }

    async fn send(&self, message: Message) -> Result<(), SendError> {
        self.session.router.channel.send(message).await
    }

    fn ordered_id(&self) -> Id {
        let controller = &self.session.plane.auth;
        controller.kernel().ids().ordered(controller.kernel().now())
    }

    /// Sends all sessions in parts. A last one is always sent, even without any session: a router
    /// then drops the sessions that it still has from before.
    ///
    /// Routers of the original drop only sessions that are not younger than the youngest one in the
    /// report, so that a session which ended while they were away could stay. Therefore the last
    /// session in the report is one that nobody can use: without identity and certificates, with a
    /// secret token.
    async fn say_everything(&mut self) -> Result<(), SendError> {
        self.backoff.begun();
        self.attached = attach(self.session);
        let run = self.ordered_id().to_string();
        let last = self.ordered_id();
        let (mut sequence, mut from) = (0, SessionCursor::default());
        let mut message = AddedSessions::new(true, 0);
        loop {
            match self.attached.write(from, &mut message, PART) {
                Written::More(place) => from = place,
                Written::All => break,
                // Too far behind again: the next thing is another report of everything.
                Written::Behind => return Ok(()),
            }
            if message.sessions() >= PART {
                // Sessions have similar lengths: some spare room avoids copying all of them.
                let room = message.bytes() + message.bytes() / 16;
                let next = AddedSessions::new(true, room);
                let some = std::mem::replace(&mut message, next);
                self.say_some(&run, sequence, some, false).await?;
                sequence += 1;
            }
            tokio::task::yield_now().await;
        }
        if sequence > 0 || message.sessions() > 0 {
            message.push(&self.end_of_all(&last));
        }
        self.say_some(&run, sequence, message, true).await?;
        self.attached.reported();
        let until = Instant::now() + SETTLING;
        self.settling = Some(Settling { until, last, late: BTreeMap::new() });
        Ok(())
    }

    /// Sends one message of a report of all sessions. Only some of them wait to be written at a
    /// time: otherwise many routers that connect together would have everything in memory.
    async fn say_some(
        &self,
        run: &str,
        sequence: u64,
        some: AddedSessions,
        is_last: bool,
    ) -> Result<(), SendError> {
        let message = some.into_message(&SyncState { id: run.to_owned(), is_last, sequence });
        let channel = &self.session.router.channel;
        match sequence % AT_A_TIME {
            0 => channel.send_written(Lane::Default, message, WRITTEN).await,
            _ => channel.send_timeout(Lane::Default, message, WRITTEN).await,
        }
    }

    fn end_of_all(&self, id: &Id) -> EncodedApiSession {
        let token = self.session.plane.auth.kernel().ids().token();
        let end =
            ApiSession { token: token.to_string(), id: id.to_string(), ..ApiSession::default() };
        EncodedApiSession::from(&end)
    }

    async fn say_added(&self, added: &[Arc<AnnouncedSession>]) -> Result<(), SendError> {
        for part in added.chunks(PART) {
            let id = self.ordered_id().to_string();
            let state = SyncState { id, is_last: true, sequence: 0 };
            let sessions = part.iter().map(|told| &told.encoded);
            self.send(EncodedApiSession::added(false, sessions, &state)).await?;
        }
        Ok(())
    }

    /// Sends the ends of service sessions; those that cannot be sent stay for later.
    async fn say_ended(&mut self) -> Result<(), SendError> {
        let over = self.unsaid.len().saturating_sub(UNSAID);
        self.unsaid.drain(..over);
        while !self.unsaid.is_empty() {
            let count = self.unsaid.len().min(IDS);
            let ids = self.unsaid[..count].to_vec();
            // Both lists have the ids, because routers of different releases read different ones.
            let removed = SessionRemoved { tokens: ids.clone(), ids };
            self.send(removed.to_message()).await?;
            self.unsaid.drain(..count);
        }
        Ok(())
    }
}

/// Handles a router's list of sessions in use: they are active, and their identities are connected.
/// Sessions that the router may not know are ignored.
pub(crate) fn on_heartbeat(session: &RouterSession, message: &Message) -> Result<(), WireError> {
    let tokens = ApiSessionHeartbeat::from_message(message)?.tokens;
    let controller = &session.plane.auth;
    let now = controller.kernel().now();
    let (mut named, mut unknown) = (Vec::new(), Vec::new());
    for token in tokens.into_iter().take(MAX_NAMED) {
        match controller.sessions().by_token(&token, now) {
            Some(known) => named.push((token, known)),
            None => unknown.push(token),
        }
    }
    let mut refused = Vec::new();
    let ids: Vec<Id> = named.iter().map(|(_, known)| known.base.id.clone()).collect();
    let may_know = session.plane.sessions.may_know(&session.router.id, &ids);
    let mut used = Vec::new();
    for ((token, known), may_know) in named.into_iter().zip(may_know) {
        if !may_know {
            refused.push(token);
            continue;
        }
        used.push(known.base.id.clone());
        session.put_identity(&known.identity_id, true);
        session.connected.lock().insert(known.identity_id.clone());
    }
    controller.sessions().touch_all(&used, now);
    if !refused.is_empty() {
        let removed = ApiSessionRemoved { tokens: refused, ids: Vec::new() };
        session.send(Lane::Default, removed.to_message());
    }
    if !unknown.is_empty() {
        let (auth, router) = (controller.clone(), session.router.clone());
        let work = move || {
            unknown.retain(|token| auth.sessions().by_token(token, now).is_none());
            let removed = ApiSessionRemoved { tokens: unknown, ids: Vec::new() };
            if !removed.tokens.is_empty()
                && let Err(problem) =
                    router.channel.try_send_on(Lane::Default, removed.to_message())
            {
                tracing::warn!(router = %router.id, %problem, "a router is not told that sessions have ended");
            }
        };
        // The router names them again.
        when_certain(session, work);
    }
    Ok(())
}

/// Does work when it is certain which sessions there are: at once, unless other controllers may know more of them. Then a
/// question to etcd comes first, one at a time for a router; while one is under way, or when it is not answered, the work is
/// left out.
fn when_certain(session: &RouterSession, work: impl FnOnce() + Send + 'static) {
    let auth = session.plane.auth.clone();
    if !auth.is_member() {
        return work();
    }
    let Ok(turn) = Arc::clone(&session.doubts).try_acquire_owned() else { return };
    tokio::spawn(async move {
        let _turn = turn;
        if auth.sessions().catch_up().await {
            work();
        }
    });
}

/// Handles a router's question which service sessions have ended. The answer is queued after other
/// notices. If too many answers wait, the router is told everything again, and then repeats the
/// question.
pub(crate) fn on_validate(session: &RouterSession, message: &Message) -> Result<(), WireError> {
    let asked = ValidateSessionsRequest::from_message(message)?.session_tokens;
    let asked = asked.into_iter().take(MAX_ASKED).filter(|id| id.len() <= MAX_TOKEN);
    let auth = session.plane.auth.clone();
    let (told, resync) = (session.ended.clone(), Arc::clone(&session.resync));
    let answer = move |asked: Vec<String>, is_over: bool| {
        // Routers before 2.0 name sessions by their tokens, which OpenZiti chose otherwise than the ids.
        let sessions = auth.sessions();
        let is_ended =
            |id: &String| sessions.service(id).is_none() && sessions.service_of_token(id).is_none();
        let ended: Vec<String> = asked.into_iter().filter(is_ended).collect();
        if is_over || (!ended.is_empty() && told.try_send(ended).is_err()) {
            resync.notify_one();
        }
    };
    if !session.plane.auth.is_member() {
        answer(asked.collect(), false);
        return Ok(());
    }
    let mut questions = session.questions.lock();
    questions.add(asked, MAX_ASKED);
    if !std::mem::replace(&mut questions.is_waiting, true) {
        let (auth, router) = (session.plane.auth.clone(), session.router.clone());
        let questions = Arc::clone(&session.questions);
        tokio::spawn(async move {
            // The router asks once after it has connected, so that the answer waits for as long as it takes.
            while !auth.sessions().catch_up().await {
                tokio::time::sleep(UNCERTAIN).await;
                if router.channel.is_closed() {
                    return;
                }
            }
            let Questions { ids, is_over, .. } = std::mem::take(&mut *questions.lock());
            answer(ids, is_over);
        });
    }
    Ok(())
}
