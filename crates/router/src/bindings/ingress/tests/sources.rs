//! The shares of sources, and clients that were refused.

use super::*;

/// A connection from an address of this machine, on which this was said.
async fn from(ip: &str, to: SocketAddr, said: &[u8]) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((ip.parse::<std::net::IpAddr>().unwrap(), 0).into()).unwrap();
    let mut stream = soon(socket.connect(to)).await.unwrap();
    stream.write_all(said).await.unwrap();
    stream
}

async fn line(stream: TcpStream) -> String {
    let mut line = String::new();
    soon(BufReader::new(stream).read_line(&mut line)).await.unwrap();
    line
}

#[tokio::test]
async fn a_source_has_its_share_of_connections_and_of_circuits_being_made() {
    let bed = Bed::new();
    bed.service("echo", "transport", echo().await);
    let asked = || bed.table.asked.load(Ordering::Relaxed);
    let bound = bed.streams(None).await;
    let mut waiting = Vec::new();
    for _ in 0..100 {
        waiting.push(from("127.0.0.1", bound, b"{\"svcId\":\"silent\"}\n").await);
    }
    until(|| asked() == 64).await;
    let other = from("127.0.0.2", bound, b"{\"svcId\":\"echo\"}\n").await;
    assert!(line(other).await.contains("\"scc\":true"));
    assert_eq!(asked(), 65);

    let limits = StreamLimits { per_source: 2, ..StreamLimits::default() };
    let bound = bed.limited_streams(Some("echo"), None, limits).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = from("127.0.0.1", bound, b"x").await;
        soon(stream.read_u8()).await.unwrap();
        held.push(stream);
    }
    let mut third = from("127.0.0.1", bound, b"").await;
    assert_eq!(soon(third.read(&mut [0; 8])).await.unwrap_or(0), 0, "closed");
    let mut other = from("127.0.0.2", bound, b"x").await;
    assert_eq!(soon(other.read_u8()).await.unwrap(), b'x');
    // There is room again.
    held.clear();
    soon(async {
        loop {
            let mut stream = from("127.0.0.1", bound, b"x").await;
            if stream.read_u8().await.is_ok() {
                break;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_source_that_is_refused_has_a_controller_asked_less_often() {
    let bed = Bed::new();
    bed.service("echo", "transport", echo().await);
    let limits = StreamLimits { pause: LONG, ..StreamLimits::default() };
    let bound = bed.limited_streams(None, None, limits).await;
    let mut answers = Vec::new();
    for _ in 0..100 {
        let stream = from("127.0.0.1", bound, b"{\"svcId\":\"nowhere\"}\n").await;
        answers.push(tokio::spawn(line(stream)));
    }
    let answered = || answers.iter().filter(|one| one.is_finished()).count();
    until(|| answered() == 64).await;
    let other = from("127.0.0.2", bound, b"{\"svcId\":\"echo\"}\n").await;
    assert!(line(other).await.contains("\"scc\":true"));
    assert_eq!(bed.table.asked.load(Ordering::Relaxed), 65);
    assert_eq!(answered(), 64, "the answer itself does not wait");
}

#[tokio::test]
async fn who_got_no_circuit_does_not_have_the_controller_asked_each_time() {
    let bed = Bed::new();
    let limits = DatagramLimits { pause: LONG, ..DatagramLimits::default() };
    let bound = bed.datagrams(Some("nowhere"), limits).await;
    let socket = talker().await;
    for _ in 0..100 {
        socket.send_to(b"hello", bound).await.unwrap();
    }
    until(|| bed.table.asked.load(Ordering::Relaxed) == 1).await;
    let other = talker().await;
    other.send_to(b"hello", bound).await.unwrap();
    until(|| bed.table.asked.load(Ordering::Relaxed) == 2).await;
}
