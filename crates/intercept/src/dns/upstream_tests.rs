use std::sync::atomic::AtomicU8;

use hickory_proto::{
    op::{Message, MessageType, OpCode, Query, ResponseCode},
    rr::{Name, RecordType},
};

use super::*;

/// A server that answers with a code, after some time, and counts.
struct Fake {
    server: Upstream,
    asked: Arc<AtomicUsize>,
    code: Arc<AtomicU8>,
}

const SILENT: u8 = 255;

async fn fake(code: u8, delay: Duration) -> Fake {
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
            if answer[3] != SILENT {
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

const SOON: Duration = Duration::from_millis(1);

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
    let asked = |fake: &Fake| fake.asked.swap(0, Ordering::SeqCst);
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
