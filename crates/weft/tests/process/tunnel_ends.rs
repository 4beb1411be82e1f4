//! The ends of tunnelers: signals, terminals that close, and what is left behind.

use std::fs;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};

use crate::network::{NetworkFolder, free_port};
use crate::streams::{Manner, Server, round_trip};
use crate::terminal::Terminal;
use crate::tunnel::Bed;
use crate::wait::{PATIENCE, until, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_that_closes_ends_its_tunnelers_in_order() {
    // Under `nohup` the tests, and with them all that they start, ignore hang-ups; those of a process that handles them
    // do not.
    let _handled = signal(SignalKind::hangup()).unwrap();
    let bed = Bed::start().await;
    let (one, socket) = (bed.identity("one").await, bed.folder().join("run.sock"));
    let (one, at) = (one.to_str().unwrap(), socket.to_str().unwrap());
    let run = ["tunnel", "run-host", "--identity", one, "--socket", at];
    let mut tunneler = Terminal::start(&bed.place, &run);
    tunneler.says("tunneling").await;
    assert!(socket.exists());
    tunneler.signal("HUP");
    assert!(tunneler.ended().await.success());
    assert!(!socket.exists());

    bed.operator.service("web", true).await;
    let mut hosting = bed.start_weft("host", &["host", "web", "9", "--identity", one]);
    hosting.says("hosting web", PATIENCE).await;
    hosting.signal("HUP");
    assert!(hosting.ended().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunneler_without_a_terminal_reads_its_levels_again() {
    let bed = Bed::start().await;
    let (one, levels) = (bed.identity("one").await, bed.folder().join("levels"));
    let (one, named) = (one.to_str().unwrap(), levels.to_str().unwrap());
    let mut tunneler = bed.start_weft(
        "run",
        &["tunnel", "run-host", "-i", one, "--log-levels", named, "--log-format", "json"],
    );
    tunneler.says("tunneling", PATIENCE).await;
    assert!(!tunneler.said().contains(r#""level":"DEBUG""#), "nobody asked for so much");
    fs::write(&levels, "weft_sdk=debug,weft_client=debug,weft_channel=debug,info\n").unwrap();
    tunneler.signal("HUP");
    tunneler.says("levels of the log were read again", PATIENCE).await;
    tunneler.signal("TERM");
    assert!(tunneler.ended().await.success());
    for line in tunneler.said().lines() {
        let record: Result<serde_json::Value, _> = serde_json::from_str(line);
        assert!(record.is_ok_and(|record| record["message"].is_string()), "{line}");
    }
}

/// Longest end of a tunneler in a network that does not answer: 1 s for connections, 3 s for data, 2 s for
/// the controller, and as much again for a busy machine.
const SILENT: Duration = Duration::from_secs(12);

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_does_not_answer_holds_up_no_end() {
    let bed = Bed::start().await;
    let one = bed.identity("one").await;
    bed.operator.service("web", true).await;
    let one = one.to_str().unwrap();
    let run = ["tunnel", "run-host", "-i", one, "--refresh", "1", "--drain", "1"];
    let mut tunneler = bed.start_weft("run", &run);
    tunneler.says("tunneling", PATIENCE).await;
    let mut hosting = bed.start_weft("host", &["host", "web", "9", "-i", one, "--drain", "1"]);
    hosting.says("hosting web", PATIENCE).await;
    bed.network.signal("STOP");
    for ends in [&mut tunneler, &mut hosting] {
        ends.signal("TERM");
        assert!(within("the tunneler ends", SILENT, ends.ended()).await.success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_waits_for_no_connection() {
    let bed = Bed::start().await;
    let one = bed.identity("one").await;
    let server = Server::tcp(Manner::Echo).await;
    bed.operator.tunneled("echo", server.port(), true).await;
    let (port, one) = (free_port(), one.to_str().unwrap());
    let named = format!("echo:{port}");
    let mut proxy =
        bed.start_weft("proxy", &["tunnel", "proxy", &named, "-i", one, "--drain", "3600"]);
    proxy.says(&format!("echo: tcp:127.0.0.1:{port}"), PATIENCE).await;
    let connected = async || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        round_trip(&mut stream, "a word").await?;
        Ok::<_, std::io::Error>(stream)
    };
    let (_stream, _) = until("the service is hosted", PATIENCE, connected).await;
    proxy.signal("TERM");
    proxy.says("waiting 3600 s for 1 connection", PATIENCE).await;
    proxy.signal("TERM");
    assert_eq!(within("the proxy ends", SILENT, proxy.ended()).await.code(), Some(130));
    assert!(!bed.folder().join("proxy.sock").exists());
}

/// As when a terminal has closed: nothing can be written to it.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_nobody_takes_ends_nothing() {
    let place = NetworkFolder::empty();
    let socket = place.folder().join("run.sock");
    fs::write(place.folder().join("none.json"), "{}").unwrap();
    let run = format!(
        "exec {} tunnel run-host -i none.json --socket {} 2>/dev/full",
        crate::program::WEFT,
        socket.display()
    );
    let mut tunneler = place.start_shell("run", &run);
    // Status 1, not the 101 of a panic: the identity file is no good.
    assert_eq!(tunneler.ended().await.code(), Some(1));
    let gone = async || if socket.exists() { Err("it is there") } else { Ok(()) };
    until("the socket is gone", PATIENCE, gone).await;
}
