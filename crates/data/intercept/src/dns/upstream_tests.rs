use std::sync::atomic::AtomicU8;

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};

use super::*;

/// A server that answers with a code, after some time, and counts.
pub(in crate::dns) struct Fake {
    pub(in crate::dns) server: Upstream,
    asked: Arc<AtomicUsize>,
    code: Arc<AtomicU8>,
}

impl Fake {
    /// The number of questions since the last call.
    pub(in crate::dns) fn asked(&self) -> usize {
        self.asked.swap(0, Ordering::SeqCst)
    }
}

/// Codes of servers that do not answer, or only what is no answer to the question.
const SILENT: u8 = 255;
const GARBAGE: u8 = 254;

pub(in crate::dns) async fn fake(code: u8, delay: Duration) -> Fake {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let server = Upstream { address: socket.local_addr().unwrap(), tcp: false };
    let (asked, code) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU8::new(code)));
    let (count, says) = (Arc::clone(&asked), Arc::clone(&code));
    tokio::spawn(async move {
        let mut buffer = vec![0; 1000];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            count.fetch_add(1, Ordering::SeqCst);
            let mut answer = buffer[..length].to_vec();
            answer[2] |= 0x80;
            answer[3] = says.load(Ordering::SeqCst);
            if answer[3] == GARBAGE {
                socket.send_to(&answer[..3], from).await.unwrap();
            } else if answer[3] != SILENT {
                tokio::time::sleep(delay).await;
                // The guess of an attacker who does not know the id comes first.
                let mut guess = answer.clone();
                guess[0] ^= 1;
                socket.send_to(&guess, from).await.unwrap();
                socket.send_to(&answer, from).await.unwrap();
            }
        }
    });
    Fake { server, asked, code }
}

fn question(name: &str) -> Vec<u8> {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), RecordType::A));
    message.to_vec().unwrap()
}

async fn code(upstreams: &Upstreams) -> Option<ResponseCode> {
    let answer = upstreams.ask(&question("a.example."), false).await?;
    let message = Message::from_vec(&answer).unwrap();
    assert_eq!(message.metadata.id, 7);
    Some(message.metadata.response_code)
}

pub(in crate::dns) const SOON: Duration = Duration::from_millis(1);
/// Time limit for a server in tests in which one is silent.
const SHORT: Duration = Duration::from_secs(2);

#[tokio::test]
async fn the_best_answer_counts() {
    let [bad, none, good] = [fake(5, SOON).await, fake(3, SOON).await, fake(0, SOON).await];
    for mode in
        [UpstreamMode::Parallel, UpstreamMode::Serial, UpstreamMode::Failover, UpstreamMode::Random]
    {
        let all = Upstreams::new(&[bad.server, none.server, good.server], mode);
        assert_eq!(code(&all).await, Some(ResponseCode::NoError), "{mode:?}");
        let two = Upstreams::new(&[bad.server, none.server], mode);
        assert_eq!(code(&two).await, Some(ResponseCode::NXDomain), "{mode:?}");
    }
    assert_eq!(code(&Upstreams::new(&[], UpstreamMode::Serial)).await, None);
}

#[tokio::test]
async fn modes_differ_in_whom_they_ask() {
    let [first, second] = [fake(2, SOON).await, fake(0, SOON).await];
    let asked = Fake::asked;
    let failover = Upstreams::new(&[first.server, second.server], UpstreamMode::Failover);
    code(&failover).await;
    assert_eq!((asked(&first), asked(&second)), (1, 1));
    code(&failover).await;
    assert_eq!((asked(&first), asked(&second)), (0, 1), "the one that was good is asked first");
    let serial = Upstreams::new(&[first.server, second.server], UpstreamMode::Serial);
    code(&serial).await;
    code(&serial).await;
    assert_eq!((asked(&first), asked(&second)), (2, 2));
    first.code.store(0, Ordering::SeqCst);
    code(&serial).await;
    assert_eq!((asked(&first), asked(&second)), (1, 0));
}

#[tokio::test]
async fn one_question_is_asked_once_at_a_time() {
    let slow = fake(0, Duration::from_millis(300)).await;
    let upstreams = Upstreams::new(&[slow.server], UpstreamMode::Serial);
    let answers = futures::future::join_all((0..50).map(|_| code(&upstreams))).await;
    assert!(answers.iter().all(|answer| *answer == Some(ResponseCode::NoError)));
    assert_eq!(slow.asked.load(Ordering::SeqCst), 1);
    assert!(upstreams.asking.lock().is_empty());
    // Questions that wait are bounded.
    slow.code.store(SILENT, Ordering::SeqCst);
    for index in 0..2 * MOST_QUESTIONS {
        let _ = upstreams.answer(&question(&format!("n{index}.")), false);
    }
    assert_eq!(upstreams.asking.lock().len(), MOST_QUESTIONS);
}

fn patient(servers: &[Upstream], mode: UpstreamMode, patience: Duration) -> Upstreams {
    Upstreams { patience, ..Upstreams::new(servers, mode) }
}

#[tokio::test]
async fn a_server_without_answers_is_waited_for_once() {
    let found = Some(ResponseCode::NoError);
    for says in [SILENT, GARBAGE] {
        let [first, second] = [fake(says, SOON).await, fake(0, SOON).await];
        let servers = [first.server, second.server];
        let serial = patient(&servers, UpstreamMode::Serial, SHORT);
        assert_eq!((code(&serial).await, first.asked()), (found, 1));
        // The other one is asked first from now on.
        let begun = std::time::Instant::now();
        for _ in 0..20 {
            assert_eq!(code(&serial).await, found);
        }
        assert!(begun.elapsed() < SHORT, "{:?}", begun.elapsed());
        // Until the first one answers a question that it was asked beside the other.
        first.code.store(0, Ordering::SeqCst);
        let again = async {
            loop {
                first.asked();
                second.asked();
                assert_eq!(code(&serial).await, found);
                if (first.asked(), second.asked()) == (1, 0) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), again).await.expect("asked first again");
    }
}

#[tokio::test]
async fn a_silent_server_holds_up_no_refusal_and_no_missing_name() {
    for mode in [UpstreamMode::Parallel, UpstreamMode::Serial, UpstreamMode::Failover] {
        let [none, silent] = [fake(3, SOON).await, fake(SILENT, SOON).await];
        let upstreams = patient(&[none.server, silent.server], mode, SHORT);
        // It may know the name, so that it is waited for as long as it is not known as silent.
        let begun = std::time::Instant::now();
        assert_eq!(code(&upstreams).await, Some(ResponseCode::NXDomain));
        assert!(begun.elapsed() >= SHORT);
        let begun = std::time::Instant::now();
        assert_eq!(code(&upstreams).await, Some(ResponseCode::NXDomain));
        assert!(begun.elapsed() < SHORT, "{mode:?}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn an_address_without_a_server_is_not_waited_for() {
    let gone = UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let [gone, good] = [Upstream { address: gone, tcp: false }, fake(0, SOON).await.server];
    let serial = patient(&[gone, good], UpstreamMode::Serial, Duration::from_secs(600));
    let asked = tokio::time::timeout(Duration::from_secs(60), code(&serial)).await;
    assert_eq!(asked.expect("the refusal counts"), Some(ResponseCode::NoError));
}

#[tokio::test]
async fn servers_that_are_all_silent_are_asked_all_at_once() {
    let [first, second] = [fake(SILENT, SOON).await, fake(SILENT, SOON).await];
    let serial = patient(&[first.server, second.server], UpstreamMode::Serial, SHORT);
    assert_eq!(code(&serial).await, None);
    assert_eq!((first.asked(), second.asked()), (1, 1));
    // Both are back: the question reaches them although they were silent.
    second.code.store(0, Ordering::SeqCst);
    assert_eq!(code(&serial).await, Some(ResponseCode::NoError));
    assert_eq!((first.asked(), second.asked()), (1, 1));
}
