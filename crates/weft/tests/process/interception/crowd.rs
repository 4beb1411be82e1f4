//! Many services and many short connections leave nothing behind.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use weft_contract::resource;

use super::lab::Namespace::{Client, Gateway};
use super::lab::{Lab, inside};
use super::router::Bed;
use super::{PAGE, prints, service, types, web_server};
use crate::program::Program;
use crate::wait::{PATIENCE, until};

/// With `WEFT_LONG`, and without.
const SERVICES: [usize; 2] = [1000, 200];
/// Connections per minute with `WEFT_LONG`, and clients that connect at the same time.
const CONNECTIONS: usize = 10_000;
const AT_ONCE: usize = 20;
/// Instructions for the clients, in the client's namespace.
const DIALS: &str = "WEFT_DIALS";

#[test]
fn many_services_and_connections_leave_nothing() {
    inside("crowd::many_services_and_connections_leave_nothing", crowd);
}

fn services() -> usize {
    let [long, short] = SERVICES;
    if std::env::var("WEFT_LONG").is_ok() { long } else { short }
}

fn address(index: usize) -> String {
    format!("10.99.{}.{}", index >> 8, index & 255)
}

/// Number of open files of a process.
fn files(program: &Program) -> usize {
    fs::read_dir(format!("/proc/{}/fd", program.id())).unwrap().count()
}

/// One short round; with `WEFT_LONG=N`, N rounds of a minute each.
async fn crowd(lab: Lab) {
    let bed = Bed::start().await;
    let before = lab.system().await;
    let (web, types) = (web_server().await, types(&bed.operator).await);
    let router = bed.router().await;
    let services = services();
    for index in 0..services {
        let (name, own) = (format!("s{index}.crowd.example"), address(index));
        let addresses = [name.as_str(), own.as_str()];
        service(&bed.operator, &types, &format!("s{index}"), "tcp", &addresses, (80, 80), web)
            .await;
    }
    let hosted = async || match bed.operator.list(&resource::terminator::KIND).await.len() {
        hosted if hosted == services => Ok(()),
        hosted => Err(hosted),
    };
    until("every service is hosted", 2 * PATIENCE, hosted).await;
    for index in [0, services / 2, services - 1] {
        let url = super::get(&format!("http://s{index}.crowd.example/"));
        prints(&lab, Client, &url, PAGE).await;
        prints(&lab, Gateway, &super::get(&format!("http://{}/", address(index))), PAGE).await;
    }
    let long: Option<usize> = std::env::var("WEFT_LONG").ok().and_then(|text| text.parse().ok());
    let program = std::env::current_exe().unwrap();
    let dial = async |count: usize, pace: Duration| {
        let what = format!("{count} {}", pace.as_micros());
        let run = format!(
            "{DIALS}='{what}' {} interception::crowd::dials --exact --nocapture 2>&1",
            program.display()
        );
        lab.says(Client, &run).await.unwrap_or_else(|said| panic!("{said}"));
    };
    // A first round for buffers, timers and threads that are made once.
    dial(CONNECTIONS / 50, Duration::ZERO).await;
    let rules = lab.system().await;
    let settled = async || {
        let circuits = bed.operator.circuits().await;
        if circuits == 0 { Ok(files(&router)) } else { Err(circuits) }
    };
    let (before_files, _) = until("the circuits are gone", PATIENCE, settled).await;
    let rounds = long.unwrap_or(1);
    for _ in 0..rounds {
        let (count, pace) = match long {
            Some(_) => (CONNECTIONS, Duration::from_secs(60) / (CONNECTIONS / AT_ONCE) as u32),
            None => (CONNECTIONS / 10, Duration::ZERO),
        };
        let begun = std::time::Instant::now();
        dial(count, pace).await;
        eprintln!(
            "{count} connections in {:?}, resident {} KiB",
            begun.elapsed(),
            router.resident() / 1024
        );
        let left = async || {
            let circuits = bed.operator.circuits().await;
            let files = files(&router);
            let is_over = circuits == 0 && files <= before_files + 4;
            if is_over { Ok(()) } else { Err(format!("{circuits} circuits, {files} files")) }
        };
        until("circuits and files are gone", 2 * PATIENCE, left).await;
        assert_eq!(lab.system().await, rules, "rules, routes and addresses are what they were");
    }
    assert!(router.stop().await.success());
    assert_eq!(lab.system().await, before);
}

/// No test of its own: the clients of [`crowd`], which runs them in the client's namespace. Without
/// `WEFT_DIALS` nothing is done.
#[test]
fn dials() {
    let Ok(what) = std::env::var(DIALS) else { return };
    let (count, pace) = what.split_once(' ').unwrap();
    let (count, pace): (usize, u64) = (count.parse().unwrap(), pace.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async move {
        let mut clients = tokio::task::JoinSet::new();
        for client in 0..AT_ONCE {
            clients.spawn(async move {
                let mut turns = tokio::time::interval(Duration::from_micros(pace.max(1)));
                for number in 0..count / AT_ONCE {
                    turns.tick().await;
                    let index = (number * AT_ONCE + client) % services();
                    let at: SocketAddr = format!("{}:80", address(index)).parse().unwrap();
                    let mut stream = TcpStream::connect(at).await.unwrap();
                    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
                    let mut said = String::new();
                    stream.read_to_string(&mut said).await.unwrap();
                    assert!(said.contains(PAGE), "{said}");
                }
            });
        }
        clients.join_all().await;
    });
}
