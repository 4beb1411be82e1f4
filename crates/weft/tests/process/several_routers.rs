//! A network of several processes from one command: each router can be killed and comes back, more
//! routers can be added, and however the command ends, all routers end with it.

use std::fs;

use serde_json::Value;
use weft_contract::resource;

use crate::network::{NetworkFolder, PASSWORD, USER};
use crate::operator::Operator;
use crate::program::{Program, text, weft};
use crate::wait::{PATIENCE, until};

impl NetworkFolder {
    /// Starts several routers, each in its own process.
    pub(crate) fn several(&self, routers: &str) -> Program {
        let (home, control) = (self.home(), self.control.to_string());
        let home = home.to_str().unwrap();
        let args = ["quickstart", "--home", home, "--username", USER, "--password", PASSWORD];
        let ports = ["--ctrl-port", &control, "--router-port", "0", "--link-port", "0"];
        self.start("quickstart", &[&args[..], &ports, &["--routers", routers]].concat())
    }
}

/// Fields of `/proc/PID/stat` behind the name: state, parent, ...
fn stat(process: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, behind) = text.rsplit_once(')')?;
    Some(behind.split_whitespace().map(str::to_owned).collect())
}

/// True if a process runs; a zombie does not.
fn runs(process: u32) -> bool {
    stat(process).is_some_and(|fields| fields[0] != "Z")
}

/// Running child processes of a process.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let process: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let fields = stat(process)?;
        (fields[1] == parent.to_string() && fields[0] != "Z").then_some(process)
    });
    all.collect()
}

pub(crate) async fn all_online(operator: &Operator, count: usize) {
    let look = async || {
        let routers = operator.client.list(&resource::edge_router::KIND, None).await;
        let routers: Vec<Value> = routers.map_err(|error| error.to_string())?;
        let online = routers.iter().filter(|it| it["isOnline"] == Value::Bool(true)).count();
        let all = (online, routers.len());
        if all == (count, count) { Ok(()) } else { Err(format!("{all:?}")) }
    };
    until(&format!("{count} routers are online"), PATIENCE, look).await;
}

pub(crate) async fn all_ended(processes: &[u32]) {
    let look = async || {
        let left: Vec<&u32> = processes.iter().filter(|process| runs(**process)).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    };
    until("the routers end", PATIENCE, look).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn routers_come_back_grow_in_number_and_end_with_the_command() {
    let place = NetworkFolder::empty();
    let mut network = place.several("2");
    network.says("The network is up", PATIENCE * 2).await;
    let operator = Operator::log_in(place.control).await;
    all_online(&operator, 2).await;
    let before = children(network.id());
    assert_eq!(before.len(), 2, "{before:?}");
    let said = network.said();
    assert!(said.contains("every router is linked with every other"), "{said}");
    for process in &before {
        assert!(said.contains(&process.to_string()), "{process}\n{said}");
    }

    // A killed router is reported, and comes back as another process.
    let killed = std::process::Command::new("kill").args(["-9", &before[1].to_string()]).status();
    assert!(killed.unwrap().success());
    network.says("runs again as process", PATIENCE).await;
    assert!(network.said().contains("ended (signal: 9"), "{}", network.said());
    all_online(&operator, 2).await;
    let now = children(network.id());
    assert!(now.contains(&before[0]) && !now.contains(&before[1]) && now.len() == 2, "{now:?}");

    // The command itself is killed, without time to stop anything.
    network.kill();
    all_ended(&now).await;

    // More routers; existing ones are kept.
    fs::remove_file(place.folder().join("quickstart.log")).unwrap();
    let mut network = place.several("3");
    network.says("The network is up", PATIENCE * 2).await;
    let operator = Operator::log_in(place.control).await;
    all_online(&operator, 3).await;
    assert!(place.home().join("routers/3/router.log").exists());
    let now = children(network.id());
    assert!(network.stop().await.success());
    all_ended(&now).await;

    // Fewer routers are refused, with advice.
    let home = place.home();
    let fewer = ["quickstart", "--home", home.to_str().unwrap(), "--routers", "1"];
    let refused = weft(place.folder(), &fewer).await;
    let said = text(&refused);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("has 3 routers") && said.contains("--routers 3 or more"), "{said}");
}
