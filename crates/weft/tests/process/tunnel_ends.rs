//! The ends of tunnelers: signals, terminals that close, and what is left behind.

use std::fs;

use crate::{
    network::Place,
    terminal::Terminal,
    tunnel::Bed,
    wait::{PATIENCE, until},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_that_closes_ends_its_tunnelers_in_order() {
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

/// As when a terminal has closed: nothing can be written to it.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_nobody_takes_ends_nothing() {
    let place = Place::empty();
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
