//! A network of several controllers and their etcd from one command: each controller can be killed and comes back,
//! clients go on with the others meanwhile, and however the command ends, all its processes end with it.

use std::process::Command;

use weft_contract::resource;

use crate::cluster::controllers;
use crate::network::{NetworkFolder, PASSWORD, USER, free_port};
use crate::operator::Operator;
use crate::program::{Program, text, weft};
use crate::several_routers::{all_ended, all_online, children};
use crate::streams::{Manner, Server};
use crate::tunnel::dialed;
use crate::wait::{PATIENCE, until};

/// The ids of the controllers.
const IDS: [&str; 3] = ["controller", "controller-2", "controller-3"];

/// A free port with free ports behind it.
fn free_ports(count: u16) -> u16 {
    let mut first = free_port();
    let mut last = first;
    while last - first + 1 < count {
        let next = free_port();
        if next != last + 1 {
            first = next;
        }
        last = next;
    }
    first
}

/// Starts the command; the options of ports count at creation.
fn start(place: &NetworkFolder, etcd: &str, ctrl: u16, more: &[&str]) -> Program {
    let (home, ctrl) = (place.home(), ctrl.to_string());
    let peers = free_ports(2).to_string();
    let home = home.to_str().unwrap();
    let args = ["quickstart", "--home", home, "--username", USER, "--password", PASSWORD];
    let ports = ["--ctrl-port", &ctrl, "--etcd-port", &peers, "--router-port", "0"];
    let others = ["--link-port", "0", "--etcd-program", etcd];
    place.start("quickstart", &[&args[..], &ports, &others, more].concat())
}

/// The process id in the row of the banner's table that has this address.
fn process(said: &str, address: &str) -> u32 {
    let cells = said.lines().map(|line| line.split('┆').map(str::trim).collect::<Vec<_>>());
    let mut rows = cells.filter(|cells| cells.get(1) == Some(&address));
    rows.next().unwrap()[2].parse().unwrap()
}

fn kill(process: u32) {
    let killed = Command::new("kill").args(["-9", &process.to_string()]).status();
    assert!(killed.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn any_of_three_controllers_may_be_killed_and_all_end_with_the_command() {
    let Some(etcd) = weft_test_etcd::program() else { return };
    let etcd = etcd.to_str().unwrap();
    let place = NetworkFolder::empty();
    let first = free_ports(3);
    let mut network = start(&place, etcd, first, &["--controllers", "3", "--routers", "2"]);
    network.says("The network is up", PATIENCE * 2).await;
    let running = children(network.id());
    assert_eq!(running.len(), 6, "etcd, 3 controllers and 2 routers: {}", network.said());
    let mut operators = Vec::new();
    for number in 0..3 {
        let operator = Operator::log_in(first + number).await;
        all_online(&operator, 2).await;
        controllers(&operator, &IDS.map(|id| (id, true))).await;
        operators.push(operator);
    }

    // A host and clients, by the commands that people use.
    operators[1].allow_everybody().await;
    operators[2].service("echo", true).await;
    let server = Server::tcp(Manner::Echo).await;
    let mut files = Vec::new();
    for (operator, name) in operators.iter().zip(["host", "client"]) {
        let file = place.folder().join(format!("{name}.json"));
        operator.identity(name).await.write(&file).unwrap();
        files.push(file.to_str().unwrap().to_owned());
    }
    let port = server.port().to_string();
    let mut hosting = place.start("host", &["host", "echo", &port, "--identity", &files[0]]);
    hosting.says("hosting echo", PATIENCE).await;
    let dial = async || {
        let args = ["echo", "--identity", &files[1]];
        match dialed(place.folder(), &args, b"hello".to_vec()).await {
            (heard, _, 0) if heard == b"hello" => Ok(()),
            other => Err(other),
        }
    };
    until("a dial", PATIENCE, dial).await;

    // The first controller is the one at which the client was enrolled and logs in first.
    let killed = process(&network.said(), &format!("https://localhost:{first}"));
    assert!(running.contains(&killed));
    kill(killed);
    until("a dial without the first controller", PATIENCE, dial).await;
    operators[1].service("late", true).await;
    network.says("controller `controller` ended (signal: 9", PATIENCE).await;
    network.says("controller `controller` runs again as process", PATIENCE).await;
    let back = Operator::log_in(first).await;
    let services = back.list(&resource::service::KIND).await;
    assert!(services.iter().any(|service| service["name"] == "late"), "{services:?}");
    until("a dial with all controllers", PATIENCE, dial).await;

    // Ctrl-C ends all processes; the same command without numbers brings all of them back.
    let now = children(network.id());
    network.signal("INT");
    assert!(network.ended().await.success(), "{}", network.said());
    all_ended(&now).await;
    std::fs::remove_file(place.folder().join("quickstart.log")).unwrap();
    let mut network = start(&place, etcd, first, &[]);
    network.says("The network is up", PATIENCE * 2).await;
    assert!(network.said().contains("self-check passed"), "{}", network.said());
    assert_eq!(children(network.id()).len(), 6, "{}", network.said());
    until("a dial after the start", PATIENCE, dial).await;

    // The command itself is killed, without time to stop anything.
    let now = children(network.id());
    network.kill();
    all_ended(&now).await;

    // Fewer controllers are refused, with advice.
    let home = place.home();
    let fewer = ["quickstart", "--home", home.to_str().unwrap(), "--controllers", "2"];
    let refused = weft(place.folder(), &fewer).await;
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("--controllers 3 or more"), "{}", text(&refused));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_to_install_is_said_where_there_is_no_etcd_and_nothing_is_left() {
    let place = NetworkFolder::empty();
    let home = place.home();
    let args = ["quickstart", "--home", home.to_str().unwrap(), "--controllers", "3"];
    let refused =
        weft(place.folder(), &[&args[..], &["--etcd-program", "/nowhere"]].concat()).await;
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("apt install etcd-server"), "{}", text(&refused));
    assert!(!home.exists());
}
