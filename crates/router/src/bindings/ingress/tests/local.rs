//! Listeners at sockets in the file system.

use tokio::net::UnixDatagram;

use super::*;

async fn heard(socket: &UnixDatagram) -> Vec<u8> {
    let mut buffer = vec![0; 65_536];
    let count = soon(socket.recv(&mut buffer)).await.unwrap();
    buffer.truncate(count);
    buffer
}

impl Bed {
    async fn at(&self, path: &Path) -> io::Result<tokio::task::JoinHandle<()>> {
        let address = format!("unixgram:{}", path.display()).parse().unwrap();
        let socket = bind_datagrams(&address).await?;
        let ends = DatagramEnds { draining: self.draining.clone(), stop: self.stop.clone() };
        let (ingress, limits) = (self.ingress(Some("echo")), DatagramLimits::default());
        Ok(tokio::spawn(serve_datagrams(ingress, socket, limits, ends)))
    }
}

#[tokio::test]
async fn each_program_has_a_conversation_and_is_answered_at_its_path() {
    let (bed, folder) = (Bed::new(), tempfile::tempdir().unwrap());
    bed.service("echo", "transport_udp", udp_echo().await);
    let path = folder.path().join("listener");
    let serving = bed.at(&path).await.unwrap();
    let talkers = ["one", "two"].map(|name| UnixDatagram::bind(folder.path().join(name)).unwrap());
    for round in 0..3 {
        for (talker, size) in talkers.iter().zip([3, 9000]) {
            talker.send_to(&vec![round; size], &path).await.unwrap();
            assert_eq!(heard(talker).await, vec![round; size]);
        }
    }
    assert_eq!(bed.table.asked.load(Ordering::Relaxed), 2, "one circuit each");
    // One without a path reaches the service and is not answered.
    let nameless = UnixDatagram::unbound().unwrap();
    nameless.send_to(b"x", &path).await.unwrap();
    until(|| bed.table.asked.load(Ordering::Relaxed) == 3).await;
    bed.stop.cancel();
    soon(serving).await.unwrap();
    until(|| !path.exists()).await;
}

#[tokio::test]
async fn a_socket_that_nobody_reads_makes_room_and_nothing_else_does() {
    let (bed, folder) = (Bed::new(), tempfile::tempdir().unwrap());
    let path = folder.path().join("listener");
    let other = UnixDatagram::bind(&path).unwrap();
    let taken = bed.at(&path).await.unwrap_err();
    assert_eq!(taken.kind(), io::ErrorKind::AddrInUse, "another program reads it");
    drop(other);
    assert!(path.exists(), "what is left of a program that was killed");
    bed.at(&path).await.unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "kept").unwrap();
    assert!(bed.at(&file).await.is_err());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
}
