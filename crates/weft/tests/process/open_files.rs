//! The limit of open files: it is raised at the start, and said if it is low or reached.

use std::fs;

use tokio::net::TcpStream;

use crate::network::NetworkFolder;
use crate::operator::Operator;
use crate::program::WEFT;
use crate::wait::{PATIENCE, until};

/// The soft and the hard limit of a process.
fn limits(pid: &str) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let mut words = line.split_whitespace().skip(3);
    let mut number = || words.next().unwrap().parse().unwrap_or(u64::MAX);
    (number(), number())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_is_raised_as_far_as_it_may_be() {
    let place = NetworkFolder::made().await;
    let file = place.home().join("controller.yaml");
    let run = format!("ulimit -Sn 256; exec {WEFT} controller run {}", file.display());
    let controller = place.start_shell("controller", &run);
    Operator::log_in(place.control).await;
    let (soft, hard) = limits(&controller.id().to_string());
    let (_, own) = limits("self");
    assert_eq!((soft, hard), (own.min(1 << 20), own));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_low_limit_is_said_at_the_start_and_once_when_it_is_reached() {
    let place = NetworkFolder::made().await;
    let file = place.home().join("controller.yaml");
    let run = format!("ulimit -n 96; exec {WEFT} controller run {}", file.display());
    let mut controller = place.start_shell("controller", &run);
    Operator::log_in(place.control).await;
    controller.says("96 files may be open at most", PATIENCE).await;
    let mut open = Vec::new();
    let full = async || {
        assert!(open.len() < 512, "connections stay open");
        for _ in 0..16 {
            open.push(TcpStream::connect(("127.0.0.1", place.control)).await);
        }
        let said = controller.said();
        match said.matches("the limit of open files (96) is reached").count() {
            0 => Err("not yet"),
            count => Ok(count),
        }
    };
    let (count, _) = until("the limit is reached", PATIENCE, full).await;
    assert_eq!(count, 1);
    assert!(controller.said().contains("LimitNOFILE="));
    // It serves again when there is room.
    drop(open);
    Operator::log_in(place.control).await;
    assert_eq!(controller.said().matches("is reached").count(), 1);
}
