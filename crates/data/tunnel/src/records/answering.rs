//! Answers dialers that ask for records.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::RwLock;
use tokio::sync::mpsc;
use weft_intercept::{FindRecords, RecordKind, RecordQuestion, Records};
use weft_limits::{FairSemaphore, Quota, TokenBucket};

use super::{AnswerRecord, MAX_MESSAGE, Message, Question};
use crate::address::allowed_name;
use crate::{AddressRule, Datagrams, DialingIdentity, UdpTimes};

/// Largest question that is read, in bytes.
const MAX_QUESTION: usize = 4 * 1024;
/// Time limit for the servers of this machine, including the wait for a turn.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most questions of one connection that wait for an answer; further ones are not read meanwhile.
const OF_CONNECTION: usize = 16;
/// Questions of one connection per second, and at once; further ones are read later.
const RATE: (f64, u32) = (50.0, 200);
/// Most questions under way for one terminator.
const MOST_OF_TERMINATOR: usize = 64;
/// Most of these of one dialer, over all its connections.
const MOST_OF_DIALER: usize = 16;
/// Most questions under way in this process.
const MOST: usize = 256;
/// Most of these of one dialer, over all terminators.
const MOST_OF_DIALER_IN_ALL: usize = 64;

/// Places of questions; dialers come in turn.
type Turns = Arc<FairSemaphore<DialingIdentity>>;
static ALL: LazyLock<Turns> =
    LazyLock::new(|| FairSemaphore::new(Quota::new(MOST, MOST_OF_DIALER_IN_ALL)));

/// The lookup that replaces the servers of this machine.
static INSTEAD: RwLock<Option<Arc<dyn FindRecords>>> = RwLock::new(None);

/// Makes hosts of this process use this lookup. Where a process intercepts names, questions to the
/// system would be sent over the network again.
pub fn find_records_by(finder: Arc<dyn FindRecords>) {
    *INSTEAD.write() = Some(finder);
}

fn finder() -> Option<Arc<dyn FindRecords>> {
    if let Some(instead) = INSTEAD.read().clone() {
        return Some(instead);
    }
    #[cfg(target_os = "linux")]
    let system = Some(Arc::new(weft_intercept::OwnHosts::new(&weft_intercept::Options::default()))
        as Arc<dyn FindRecords>);
    #[cfg(not(target_os = "linux"))]
    let system = None;
    system
}

/// Answers dialers of a terminator about the names that it allows.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    allowed: Arc<[AddressRule]>,
    turns: Turns,
    patience: Duration,
}

/// The questions under way are no part of a config.
impl PartialEq for Resolver {
    fn eq(&self, other: &Self) -> bool {
        self.allowed == other.allowed
    }
}

impl Eq for Resolver {}

impl Resolver {
    pub(crate) fn new(allowed: Vec<AddressRule>) -> Self {
        let turns = FairSemaphore::new(Quota::new(MOST_OF_TERMINATOR, MOST_OF_DIALER));
        Self { allowed: allowed.into(), turns, patience: PATIENCE }
    }

    /// The conversation with one dialer, until it is dropped or idle.
    pub(crate) fn open(&self, dialer: &DialingIdentity) -> Datagrams {
        let (conversation, answers, questions) = Datagrams::within(UdpTimes::default());
        tokio::spawn(self.clone().serve(dialer.clone(), questions, answers));
        conversation
    }

    async fn serve(
        self,
        dialer: DialingIdentity,
        mut questions: mpsc::Receiver<Bytes>,
        answers: mpsc::Sender<Bytes>,
    ) {
        let mut rate = TokenBucket::new(RATE.0, RATE.1, Instant::now());
        let mut asked = FuturesUnordered::new();
        loop {
            let next = async {
                let wait = rate.wait_for(1, Instant::now()).unwrap_or_default();
                tokio::time::sleep(wait).await;
                questions.recv().await
            };
            tokio::select! {
                question = next, if asked.len() < OF_CONNECTION => {
                    let Some(question) = question else { return };
                    rate.try_take(1, Instant::now());
                    asked.push(self.answer(&dialer, question));
                }
                Some(answer) = asked.next() => {
                    if answers.send(answer).await.is_err() {
                        return;
                    }
                }
                () = answers.closed() => return,
            }
        }
    }

    /// The answer to a message.
    async fn answer(&self, dialer: &DialingIdentity, bytes: Bytes) -> Bytes {
        let mut message = Message::default();
        let asked = read(&bytes, &mut message).and_then(|question| self.allowed(question));
        let records = match asked {
            Err(records) => records,
            Ok(question) => self.find(dialer, question).await.unwrap_or_else(|why| {
                message.comment = Some(why.to_owned());
                Records::none(Records::FAILED)
            }),
        };
        written(message, &records)
    }

    /// The question, if it is allowed for its name; otherwise the answer.
    fn allowed(&self, question: &Question) -> Result<RecordQuestion, Records> {
        let name = allowed_name(&self.allowed, &question.name);
        let name = name.ok_or_else(|| Records::none(Records::NO_NAME))?;
        let kind = u16::try_from(question.kind).ok().and_then(RecordKind::of);
        let kind = kind.ok_or_else(|| Records::none(Records::NOT_LOOKED_FOR))?;
        // The name of a service is below that of a protocol, and that is below a domain.
        if kind == RecordKind::Srv && name.split('.').count() < 3 {
            return Err(Records::none(Records::MALFORMED));
        }
        Ok(RecordQuestion { name, kind })
    }

    async fn find(
        &self,
        dialer: &DialingIdentity,
        question: RecordQuestion,
    ) -> Result<Records, &'static str> {
        let finder = finder().ok_or("records are looked for on Linux only")?;
        let finding = async {
            let _turn = self.turns.acquire(dialer.clone()).await?;
            let _all = ALL.acquire(dialer.clone()).await?;
            finder.find(question).await
        };
        let found = tokio::time::timeout(self.patience, finding).await;
        found.map_err(|_| "no answer in time")?.ok_or("no server answers")
    }
}

/// The only question of a message; the message keeps the parts that its answer repeats.
fn read<'a>(bytes: &[u8], message: &'a mut Message) -> Result<&'a Question, Records> {
    let malformed = || Records::none(Records::MALFORMED);
    if bytes.len() > MAX_QUESTION {
        return Err(malformed());
    }
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(|_| malformed())?;
    message.id = value.get("id").and_then(serde_json::Value::as_i64).unwrap_or_default();
    let read: Message = serde_json::from_value(value).map_err(|_| malformed())?;
    message.question = read.question;
    match message.question.as_slice() {
        [question] => Ok(question),
        _ => Err(malformed()),
    }
}

/// A message with the answer; records that do not fit are left out.
fn written(mut message: Message, records: &Records) -> Bytes {
    message.status = records.code.into();
    let mut answers = Vec::new();
    if let [question] = message.question.as_slice() {
        answers.extend(records.found.iter().map(|record| AnswerRecord::of(question, record)));
    }
    loop {
        message.answer = Some(std::mem::take(&mut answers));
        let bytes = serde_json::to_vec(&message).unwrap_or_default();
        answers = message.answer.take().unwrap_or_default();
        if bytes.len() <= MAX_MESSAGE || answers.is_empty() {
            return bytes.into();
        }
        answers.truncate(answers.len() / 2);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::BoxFuture;
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use weft_intercept::{DnsRecord, RecordData};

    use super::*;

    /// Knows mail servers, services and texts of every name; says nothing of names that begin with
    /// `silent`.
    struct Everything;

    impl FindRecords for Everything {
        fn find(&self, question: RecordQuestion) -> BoxFuture<'_, Option<Records>> {
            if question.name.starts_with("silent") {
                return std::future::pending().boxed();
            }
            let host = format!("host.{}.", question.name);
            let data = match question.kind {
                RecordKind::Mx => RecordData::Mx { preference: 10, host },
                RecordKind::Txt if question.name.starts_with("long") => {
                    RecordData::Txt(vec![b'x'; 3_000])
                }
                RecordKind::Txt => RecordData::Txt(b"v=spf1 -all".to_vec()),
                RecordKind::Srv => RecordData::Srv { priority: 0, weight: 5, port: 5060, host },
            };
            let found = vec![DnsRecord { ttl: 300, data }; 10];
            async move { Some(Records { code: Records::FOUND, found }) }.boxed()
        }
    }

    fn resolver(allowed: &[&str]) -> Resolver {
        find_records_by(Arc::new(Everything));
        Resolver::new(allowed.iter().filter_map(|rule| AddressRule::parse(rule)).collect())
    }

    fn dialer(id: &str) -> DialingIdentity {
        DialingIdentity::new(Some(id), "a")
    }

    async fn asked(resolver: &Resolver, message: &str) -> Value {
        let answer =
            resolver.answer(&dialer("alice"), Bytes::copy_from_slice(message.as_bytes())).await;
        serde_json::from_slice(&answer).unwrap()
    }

    fn question(name: &str, kind: u16) -> String {
        json!({"id": 7, "recursive": 1, "question": [{"name": name, "type": kind}]}).to_string()
    }

    #[tokio::test]
    async fn questions_are_answered_as_tunnelers_in_c_and_go_write_them() {
        let resolver = resolver(&["*.corp.example"]);
        let srv = asked(&resolver, &question("_sip._tcp.Corp.example.", 33)).await;
        assert_eq!(srv["id"], 7);
        assert_eq!(srv["status"], 0);
        assert_eq!(srv["question"], json!([{"name": "_sip._tcp.Corp.example.", "type": 33}]));
        assert_eq!(
            srv["answer"][0],
            json!({"name": "_sip._tcp.Corp.example.", "type": 33, "ttl": 300, "weight": 5,
                "port": 5060, "data": "host._sip._tcp.corp.example."}),
            "what is zero is left out"
        );
        let mx = asked(&resolver, &question("corp.example", 15)).await;
        assert_eq!(mx["answer"][0]["priority"], 10);
        assert_eq!(mx["answer"][0]["data"], "host.corp.example.");
        let txt = asked(&resolver, &question("a.corp.example", 16)).await;
        assert_eq!(txt["answer"][0]["data"], "v=spf1 -all");
        // As much as fits.
        let long = asked(&resolver, &question("long.corp.example", 16)).await;
        assert_eq!(long["answer"].as_array().unwrap().len(), 5);
    }

    #[tokio::test]
    async fn names_are_judged_and_nonsense_is_told() {
        let wild = resolver(&["*.corp.example", "one.example", "10.0.0.0/8"]);
        let status = async |resolver: &Resolver, message: String| {
            asked(resolver, &message).await["status"].clone()
        };
        for (name, kind, code) in [
            ("a.corp.example", 15, 0),
            ("one.example", 16, 0),
            ("evilcorp.example", 15, 3),
            ("sub.one.example", 15, 3),
            ("corp.example.evil", 15, 3),
            ("10.0.0.1", 16, 3),
            ("0x0a000001", 16, 3),
            ("a.corp.example/../x", 16, 3),
            ("", 16, 3),
            ("corp.example", 33, 1),
            ("a.corp.example", 1, 4),
            ("a.corp.example", 255, 4),
        ] {
            assert_eq!(status(&wild, question(name, kind)).await, code, "{name} {kind}");
        }
        // Without a list nothing is allowed.
        assert_eq!(status(&resolver(&[]), question("a.corp.example", 15)).await, 3);
        let two =
            json!({"id": 9, "question": [{"name": "a", "type": 15}, {"name": "b", "type": 15}]});
        let told = asked(&wild, &two.to_string()).await;
        assert_eq!((told["id"].clone(), told["status"].clone()), (json!(9), json!(1)));
        let long = format!("{:5000}", question("a.corp.example", 15));
        for nonsense in
            [r#"{"id":9,"question":[null]}"#, r#"{"id":9}"#, "[", "", "7", long.as_str()]
        {
            assert_eq!(status(&wild, nonsense.to_owned()).await, 1, "{nonsense}");
        }
    }

    #[tokio::test]
    async fn a_conversation_asks_few_things_at_once_and_not_for_ever() {
        let patience = Duration::from_millis(300);
        let resolver = Resolver { patience, ..resolver(&["*.example"]) };
        let (conversation, begun) = (resolver.open(&dialer("alice")), Instant::now());
        for _ in 0..OF_CONNECTION {
            conversation.answer(question("silent.example", 15).as_bytes()).await.unwrap();
        }
        conversation.answer(question("quick.example", 15).as_bytes()).await.unwrap();
        let status = async || {
            let answer: Value =
                serde_json::from_slice(&conversation.receive().await.unwrap()).unwrap();
            (answer["status"].clone(), answer["comment"].clone())
        };
        assert_eq!(status().await, (json!(2), json!("no answer in time")));
        assert!(begun.elapsed() >= patience, "the first of them was not over before");
        let mut quick = 0;
        for _ in 0..OF_CONNECTION {
            quick += usize::from(status().await.0 == 0);
        }
        assert_eq!(quick, 1, "it had to wait until another one was over");
        // The conversation ends with its last user.
        drop(conversation);
        let ended = async {
            while resolver.turns.used() > 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), ended).await.unwrap();
    }

    #[tokio::test]
    async fn a_dialer_whose_questions_are_not_answered_keeps_no_other_from_asking() {
        let resolver = resolver(&["*.example"]);
        // Four conversations could take all turns of the terminator.
        let open = (0..4).map(|_| resolver.open(&dialer("mallory"))).collect::<Vec<_>>();
        for (number, conversation) in open.iter().enumerate() {
            for question_of_it in 0..OF_CONNECTION {
                let name = format!("silent-{number}-{question_of_it}.example");
                conversation.answer(question(&name, 15).as_bytes()).await.unwrap();
            }
        }
        let all_wait = async {
            let others = 4 * OF_CONNECTION - MOST_OF_DIALER;
            while (resolver.turns.used(), resolver.turns.waiting()) != (MOST_OF_DIALER, others) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, all_wait).await.expect("they take their share");
        let answer = asked(&resolver, &question("mail.example", 15)).await;
        assert_eq!(answer["status"], 0, "{answer}");
    }

    proptest! {
        #[test]
        fn any_message_is_answered(bytes in prop::collection::vec(any::<u8>(), 0..200), name in ".{0,40}", kind: i64) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let near = json!({"id": 1, "question": [{"name": name, "type": kind}]}).to_string();
            let resolver = Resolver::new(Vec::new());
            for bytes in [bytes, near.into_bytes()] {
                let answer = runtime.block_on(resolver.answer(&dialer("alice"), bytes.into()));
                prop_assert!(Message::read(&answer).is_some());
            }
        }
    }
}
