//! Asks the host of a service for records.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use weft_intercept::{RecordQuestion, Records};

use super::{CONNECTION, Message, Question};
use crate::{Call, Carrier, Client, Datagrams, ServiceRoute, UdpTimes};

/// The time after which an unused connection ends.
const TIMES: UdpTimes =
    UdpTimes { idle: Duration::from_secs(60), check: Duration::from_secs(5), limit: 1 };
/// How long a host that could not be dialed is not dialed again.
const PAUSE: Duration = Duration::from_secs(5);
/// Most questions of one service that wait for an answer.
const MOST_WAITING: usize = 128;

/// The waiting questions by id; `None` once no more answers come.
type Waiting = Arc<Mutex<Option<HashMap<u16, oneshot::Sender<Records>>>>>;

/// Asks the host of one service, over one connection at a time.
#[derive(Default)]
pub(crate) struct Asker {
    open: Mutex<Option<Conversation>>,
    failed: Arc<Mutex<Option<Instant>>>,
}

#[derive(Clone)]
struct Conversation {
    questions: mpsc::Sender<Bytes>,
    waiting: Waiting,
    asked: Arc<AtomicU16>,
}

/// Removes a question from those that wait.
struct Listed {
    waiting: Waiting,
    id: u16,
}

impl Drop for Listed {
    fn drop(&mut self) {
        if let Some(waiting) = self.waiting.lock().as_mut() {
            waiting.remove(&self.id);
        }
    }
}

impl Asker {
    /// The host's answer; `None` if it cannot be reached. There is no time limit here.
    pub(crate) async fn ask(
        &self,
        route: &ServiceRoute,
        carrier: &Arc<dyn Carrier>,
        question: &RecordQuestion,
    ) -> Option<Records> {
        // A connection may end while it is used for a question.
        for _ in 0..2 {
            let conversation = self.conversation(route, carrier)?;
            match conversation.ask(question).await {
                Asked::Answered(records) => return Some(records),
                Asked::TooMany => return None,
                Asked::Over => self.forget(&conversation),
            }
        }
        None
    }

    /// Drops a connection that is over, so that the next question opens another.
    fn forget(&self, over: &Conversation) {
        let mut open = self.open.lock();
        if open.as_ref().is_some_and(|one| Arc::ptr_eq(&one.waiting, &over.waiting)) {
            *open = None;
        }
    }

    fn conversation(
        &self,
        route: &ServiceRoute,
        carrier: &Arc<dyn Carrier>,
    ) -> Option<Conversation> {
        let mut open = self.open.lock();
        if let Some(conversation) = open.as_ref().filter(|one| !one.questions.is_closed()) {
            return Some(conversation.clone());
        }
        if self.failed.lock().is_some_and(|failed| failed.elapsed() < PAUSE) {
            return None;
        }
        let (datagrams, questions, answers) = Datagrams::within(TIMES);
        let (service, failed) = (Arc::clone(&route.service), Arc::clone(&self.failed));
        let carried = carrier.carry(call(route, datagrams));
        tokio::spawn(async move {
            if let Err(problem) = carried.await {
                *failed.lock() = Some(Instant::now());
                tracing::warn!(service = %service.name, %problem, "the host cannot be asked for records");
            }
        });
        let waiting: Waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        tokio::spawn(listen(answers, Arc::clone(&waiting)));
        let conversation = Conversation { questions, waiting, asked: Arc::default() };
        *open = Some(conversation.clone());
        Some(conversation)
    }
}

/// The call for the dial, without a client.
fn call(route: &ServiceRoute, datagrams: Datagrams) -> Call {
    let nowhere = (Ipv4Addr::LOCALHOST, 0).into();
    Call {
        service: Arc::clone(&route.service),
        instance: route.instance.constant().unwrap_or_default().to_owned(),
        app_data: serde_json::json!({ "connType": CONNECTION }).to_string().into(),
        timeout: route.timeout,
        local: nowhere,
        remote: nowhere,
        client: Client::Udp(datagrams),
    }
}

/// Passes answers to waiting questions, until the connection is over.
async fn listen(mut answers: mpsc::Receiver<Bytes>, waiting: Waiting) {
    while let Some(bytes) = answers.recv().await {
        let Some(message) = Message::read(&bytes) else {
            tracing::debug!("a host sent an invalid answer");
            continue;
        };
        let id = u16::try_from(message.id).ok();
        let asked = id.and_then(|id| waiting.lock().as_mut()?.remove(&id));
        if let Some(asked) = asked {
            let _ = asked.send(message.records());
        }
    }
    *waiting.lock() = None;
}

enum Asked {
    Answered(Records),
    TooMany,
    Over,
}

impl Conversation {
    async fn ask(&self, question: &RecordQuestion) -> Asked {
        let (sender, answer) = oneshot::channel();
        let listed = match self.list(sender) {
            Ok(listed) => listed,
            Err(asked) => return asked,
        };
        let message = Message {
            id: listed.id.into(),
            question: vec![Question {
                name: question.name.clone(),
                kind: question.kind.number().into(),
            }],
            answer: Some(Vec::new()),
            ..Message::default()
        };
        let Ok(bytes) = serde_json::to_vec(&message) else { return Asked::TooMany };
        if self.questions.send(bytes.into()).await.is_err() {
            return Asked::Over;
        }
        // The sender is dropped after the last answer at the latest.
        answer.await.map_or(Asked::Over, Asked::Answered)
    }

    /// Adds a waiting question under an unused id.
    fn list(&self, sender: oneshot::Sender<Records>) -> Result<Listed, Asked> {
        let mut waiting = self.waiting.lock();
        let waiting = waiting.as_mut().ok_or(Asked::Over)?;
        if waiting.len() >= MOST_WAITING {
            return Err(Asked::TooMany);
        }
        loop {
            let id = self.asked.fetch_add(1, Ordering::Relaxed);
            if let Entry::Vacant(entry) = waiting.entry(id) {
                entry.insert(sender);
                return Ok(Listed { waiting: Arc::clone(&self.waiting), id });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures::FutureExt;
    use futures::future::BoxFuture;
    use serde_json::{Value, json};
    use weft_intercept::{DnsRecord, RecordData, RecordKind};

    use super::*;
    use crate::{Refusal, Service};

    /// A host that answers every two questions in reverse order, and ends the connection after
    /// `most` pairs of answers.
    struct Hosts {
        dials: AtomicUsize,
        most: usize,
        refuses: bool,
    }

    impl Carrier for Hosts {
        fn carry(&self, call: Call) -> BoxFuture<'static, Result<(), Refusal>> {
            self.dials.fetch_add(1, Ordering::SeqCst);
            assert_eq!(&call.app_data[..], br#"{"connType":"resolver"}"#);
            assert_eq!(call.service.name, "mail");
            let (most, refuses) = (self.most, self.refuses);
            async move {
                let Client::Udp(datagrams) = call.client else { panic!("datagrams") };
                if refuses {
                    return Err(Refusal::other("names are not resolved for dialers"));
                }
                for _ in 0..most {
                    let mut two = Vec::new();
                    for _ in 0..2 {
                        let Some(bytes) = datagrams.receive().await else { return Ok(()) };
                        two.push(serde_json::from_slice::<Value>(&bytes).unwrap());
                    }
                    datagrams.answer(b"nonsense").await.unwrap();
                    for mut asked in two.into_iter().rev() {
                        let name = asked["question"][0]["name"].clone();
                        asked["answer"] = json!([{"name": name, "type": 15, "ttl": 5,
                            "priority": 3, "data": name}]);
                        datagrams.answer(asked.to_string().as_bytes()).await.unwrap();
                    }
                }
                Ok(())
            }
            .boxed()
        }
    }

    fn hosts(most: usize, refuses: bool) -> (Arc<Hosts>, Arc<dyn Carrier>) {
        let hosts = Arc::new(Hosts { dials: AtomicUsize::new(0), most, refuses });
        (Arc::clone(&hosts), hosts)
    }

    fn route() -> ServiceRoute {
        ServiceRoute::plain(Arc::new(Service { name: "mail".into(), ..Service::default() }))
    }

    fn mx(name: &str) -> RecordQuestion {
        RecordQuestion { name: name.into(), kind: RecordKind::Mx }
    }

    #[tokio::test]
    async fn answers_find_their_questions_over_one_connection() {
        let (hosts, carrier) = hosts(2, false);
        let (asker, route) = (Asker::default(), route());
        for round in 1..=3 {
            let names = [format!("a{round}"), format!("b{round}")];
            let [a, b] = names.each_ref().map(|name| mx(name));
            let (a, b) =
                tokio::join!(asker.ask(&route, &carrier, &a), asker.ask(&route, &carrier, &b));
            for (records, name) in [a, b].into_iter().zip(names) {
                let data = RecordData::Mx { preference: 3, host: name };
                let found = vec![DnsRecord { ttl: 5, data }];
                assert_eq!(records.unwrap(), Records { code: Records::FOUND, found });
            }
        }
        assert_eq!(
            hosts.dials.load(Ordering::SeqCst),
            2,
            "the second was made when the first was over"
        );
    }

    #[tokio::test]
    async fn a_host_that_refuses_is_not_dialed_all_the_time() {
        let (hosts, carrier) = hosts(0, true);
        let (asker, route) = (Asker::default(), route());
        for _ in 0..20 {
            assert_eq!(asker.ask(&route, &carrier, &mx("a")).await, None);
        }
        assert_eq!(hosts.dials.load(Ordering::SeqCst), 1);
    }
}
