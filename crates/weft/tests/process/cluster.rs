//! Two controllers of one network, which share it in etcd: each is told of the other, either may die, and what runs goes on.

mod restarted_host;
mod restored;
mod taken_over;

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use weft_contract::{Api, resource};
use weft_sdk::Endpoint;
use weft_test_etcd::Server;

use crate::network::{PASSWORD, USER, free_port};
use crate::operator::Operator;
use crate::program::{Program, text, weft, weft_in};
use crate::streams::{self, Manner, round_trip};
use crate::wait::{PATIENCE, until};

/// A network of two controllers and a router.
struct Cluster {
    folder: TempDir,
    etcd: Server,
    ports: [u16; 2],
}

/// The names of the folders of the controllers, and of the second one in its certificate.
const NAMES: [&str; 2] = ["one", "two"];

impl Cluster {
    /// Makes the folder of the first controller; none without etcd.
    async fn make() -> Option<Self> {
        let etcd = Server::start(&[])?;
        let folder = tempfile::tempdir().unwrap();
        let cluster = Self { folder, etcd, ports: [free_port(), free_port()] };
        let one = cluster.ports[0].to_string();
        let url = format!("http://{}", cluster.etcd.endpoint());
        let at = ["controller", "config", "--address", "localhost"];
        cluster.run(&[&at[..], &["--home", "one", "--port", &one, "--etcd", &url]].concat()).await;
        let made = ["controller", "init", "one/controller.yaml", "--password", PASSWORD];
        cluster.run(&[&made[..], &["--username", USER]].concat()).await;
        Some(cluster)
    }

    /// Makes the folder of the second controller beside that of the first one.
    async fn with_second(self) -> Self {
        let port = self.ports[1].to_string();
        let joins = ["--home", "two", "--port", &port, "--member-of", "one", "--name", "two"];
        let at = ["controller", "config", "--address", "localhost"];
        self.run(&[&at[..], &joins].concat()).await;
        self
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    async fn run(&self, args: &[&str]) -> String {
        let done = weft(self.path(), args).await;
        assert!(done.status.success(), "weft {args:?}\n{}", text(&done));
        text(&done)
    }

    /// Logs the commands of the operator in at a controller.
    async fn log_in(&self, number: usize) {
        let url = format!("localhost:{}", self.ports[number]);
        self.run(&["login", &url, "--username", USER, "--password", PASSWORD, "--yes"]).await;
    }

    /// Runs a command that has to fail; returns what it says.
    async fn refused(&self, args: &[&str]) -> String {
        let done = weft(self.path(), args).await;
        assert!(!done.status.success(), "weft {args:?}\n{}", text(&done));
        text(&done)
    }

    async fn start(&self, number: usize) -> Program {
        let file = format!("{}/controller.yaml", NAMES[number]);
        let log = self.path().join(format!("{}.log", NAMES[number]));
        let mut program = Program::start(&log, &["controller", "run", &file]);
        program.says("controller runs", PATIENCE).await;
        program
    }

    /// Starts both controllers and a router, and lets everybody use the service `echo`. The operators are at one controller
    /// each.
    async fn start_all(&self) -> ([Program; 2], Program, [Operator; 2]) {
        let programs = [self.start(0).await, self.start(1).await];
        let router = self.router().await;
        let operators =
            [Operator::log_in(self.ports[0]).await, Operator::log_in(self.ports[1]).await];
        for operator in &operators {
            router_online(operator).await;
            controllers(operator, &[("controller", true), ("two", true)]).await;
        }
        // What is made at one is there for the clients of both.
        operators[1].allow_everybody().await;
        operators[0].service("echo", true).await;
        operators[1].allow_all_routers().await;
        (programs, router, operators)
    }

    /// Makes a router, and starts it.
    async fn router(&self) -> Program {
        let (url, port) = (format!("localhost:{}", self.ports[0]), free_port().to_string());
        // Two tests at once have a router each.
        let link = free_port().to_string();
        self.log_in(0).await;
        self.run(&["create", "edge-router", "paris", "-o", "paris.jwt"]).await;
        let at =
            ["--controller", &url, "--port", &port, "--link-port", &link, "--out", "paris.yaml"];
        self.run(&[&["router", "config", "edge", "--name", "paris"][..], &at].concat()).await;
        self.run(&["router", "enroll", "paris.yaml", "--jwt", "paris.jwt"]).await;
        Program::start(&self.path().join("paris.log"), &["router", "run", "paris.yaml"])
    }
}

/// Waits until a controller knows that the router is connected to it.
async fn router_online(operator: &Operator) {
    let look = async || match operator.router_online().await {
        Ok(true) => Ok(()),
        other => Err(other),
    };
    until("the router is online", PATIENCE, look).await;
}

/// Waits until a controller tells these of all controllers: names, and whether they are alive.
pub(crate) async fn controllers(operator: &Operator, wanted: &[(&str, bool)]) {
    let look = async || {
        let list = resource::operation(Api::Management, "listControllers").unwrap();
        let all: Vec<Value> = operator.client.call(list, &[], &[], None).await.unwrap();
        let shown: Vec<(&str, bool)> = all
            .iter()
            .map(|it| (it["id"].as_str().unwrap(), it["isOnline"].as_bool().unwrap()))
            .collect();
        if shown == wanted { Ok(()) } else { Err(Value::from(all).to_string()) }
    };
    until("the list of controllers", PATIENCE, look).await;
}

/// Dials until it succeeds; returns how long it took.
async fn dial(client: &Endpoint) -> Duration {
    let attempt = async || {
        let mut stream = client.dial("echo").await.map_err(|error| error.to_string())?;
        round_trip(&mut stream, "hello").await.map_err(|error| error.to_string())
    };
    until("a dial", PATIENCE, attempt).await.1
}

#[tokio::test(flavor = "multi_thread")]
async fn either_of_two_controllers_may_die() {
    let Some(cluster) = Cluster::make().await else { return };
    let cluster = cluster.with_second().await;
    let ([first, second], _router, operators) = cluster.start_all().await;
    let host = operators[0].endpoint("host").await;
    let client = operators[1].endpoint("client").await;
    let _hosting = streams::Server::sdk(&host, "echo", Manner::Echo).await;
    dial(&client).await;
    let mut flow = client.dial("echo").await.unwrap();
    round_trip(&mut flow, "before").await.unwrap();

    // The first one dies: what runs goes on, new clients come, and changes are made.
    first.kill();
    round_trip(&mut flow, "without the first one").await.unwrap();
    dial(&client).await;
    let late = operators[1].endpoint("late").await;
    dial(&late).await;
    controllers(&operators[1], &[("controller", false), ("two", true)]).await;

    // It comes back, and the second one dies.
    let first = cluster.start(0).await;
    let back = Operator::log_in(cluster.ports[0]).await;
    router_online(&back).await;
    let found = back.list(&resource::identity::KIND).await;
    assert!(found.iter().any(|identity| identity["name"] == "late"));
    second.kill();
    round_trip(&mut flow, "without the second one").await.unwrap();
    dial(&client).await;
    dial(&late).await;
    drop(first);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_etcd_controllers_answer_and_change_nothing() {
    let Some(cluster) = Cluster::make().await else { return };
    let mut cluster = cluster.with_second().await;
    // A controller that never was one of the network begins none.
    let strange = std::fs::read_to_string(cluster.path().join("two/controller.yaml")).unwrap();
    std::fs::write(
        cluster.path().join("strange.yaml"),
        strange.replace("\"/weft/\"", "\"/wrong/\""),
    )
    .unwrap();
    let refused = weft(cluster.path(), &["controller", "run", "strange.yaml"]).await;
    assert!(!refused.status.success());
    assert!(
        text(&refused).contains("there is no network under /wrong/ in etcd"),
        "{}",
        text(&refused)
    );

    let mut first = cluster.start(0).await;
    let operator = Operator::log_in(cluster.ports[0]).await;
    cluster.etcd.kill();
    first.says("this controller is cut off from the others", PATIENCE).await;
    let service = json!({"name": "late", "encryptionRequired": false});
    let refused =
        crate::operator::create(&operator.client, &resource::service::KIND, &service).await;
    assert!(refused.unwrap_err().to_string().contains("CLUSTER_NO_LEADER"));
    let again = Operator::log_in(cluster.ports[0]).await;
    assert_eq!(again.list(&resource::identity::KIND).await.len(), 1, "reads and logins go on");
    // Without a copy there is nothing to start from.
    let log = cluster.path().join("two.log");
    let mut second = Program::start(&log, &["controller", "run", "two/controller.yaml"]);
    assert!(!second.ended().await.success());
    assert!(second.said().contains("etcd cannot be reached"), "{}", second.said());
    // One with a copy starts, and writes when etcd is back.
    first.kill();
    let first = cluster.start(0).await;
    let operator = Operator::log_in(cluster.ports[0]).await;
    cluster.etcd.run();
    let create = async || {
        crate::operator::create(&operator.client, &resource::service::KIND, &service).await
    };
    until("the change", PATIENCE, create).await;
    let second = cluster.start(1).await;
    let other = Operator::log_in(cluster.ports[1]).await;
    let found: Vec<Value> = other.list(&resource::service::KIND).await;
    assert_eq!(found.len(), 1);
    for program in [first, second] {
        assert!(program.stop().await.success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_joins_by_an_invitation_and_is_taken_out() {
    let Some(cluster) = Cluster::make().await else { return };
    let first = cluster.start(0).await;
    cluster.log_in(0).await;
    let invite = async |name: &str| {
        let token = cluster.run(&["cluster", "invite", name]).await;
        let token = token.lines().next().unwrap().to_owned();
        std::fs::write(cluster.path().join("token"), &token).unwrap();
    };
    let taken = cluster.refused(&["cluster", "invite", "controller"]).await;
    assert!(taken.contains("a controller of the network has this name"), "{taken}");
    let root = cluster.path().join("one/pki/root.key");
    std::fs::rename(&root, cluster.path().join("kept.key")).unwrap();
    let refused = cluster.refused(&["cluster", "invite", "two"]).await;
    assert!(refused.contains("root.key"), "{refused}");
    std::fs::rename(cluster.path().join("kept.key"), &root).unwrap();
    invite("two").await;
    let port = cluster.ports[1].to_string();
    let join = |home: &'static str| {
        ["controller", "join", "token", "--home", home, "--address", "localhost", "--port"]
    };
    cluster.run(&[&join("two")[..], &[&port]].concat()).await;
    let again = cluster.refused(&[&join("three")[..], &[&port]].concat()).await;
    assert!(again.contains("there is no such invitation"), "{again}");
    assert!(!cluster.path().join("three").exists());
    let read = |name: &str| std::fs::read(cluster.path().join(name)).unwrap();
    assert_eq!(read("one/pki/network.key"), read("two/pki/network.key"));
    assert!(!cluster.path().join("two/pki/root.key").exists());

    let list = async |wanted: &[&str]| {
        let look = async || {
            let list = cluster.run(&["cluster", "list"]).await;
            let words = list.split(|one: char| one.is_whitespace() || "┆│".contains(one));
            let list = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
            match wanted.iter().all(|words| list.contains(words)) {
                true => Ok(()),
                false => Err(list),
            }
        };
        until("the list", PATIENCE, look).await;
    };
    list(&["two invited"]).await;
    let mut second = cluster.start(1).await;
    list(&["controller online yes", "two online"]).await;
    let status = cluster.run(&["cluster", "status"]).await;
    assert!(status.contains("✓ the controller writes") && status.contains("well"), "{status}");

    // A second program with the name of a controller ends, and the first one goes on.
    let file = std::fs::read_to_string(cluster.path().join("two/controller.yaml")).unwrap();
    let file =
        file.replace("two/controller.db", "two/other.db").replace(&port, &free_port().to_string());
    std::fs::write(cluster.path().join("two/other.yaml"), file).unwrap();
    let log = cluster.path().join("other.log");
    let mut other = Program::start(&log, &["controller", "run", "two/other.yaml"]);
    assert!(!other.ended().await.success());
    assert!(other.said().contains("another controller runs with the name two"), "{}", other.said());

    // One that is taken out ends, and does not come back before it may.
    cluster.run(&["cluster", "remove", "two", "--yes"]).await;
    assert!(!second.ended().await.success());
    assert!(second.said().contains("was removed from the network"), "{}", second.said());
    let mut second = Program::start(&log, &["controller", "run", "two/controller.yaml"]);
    assert!(!second.ended().await.success());
    list(&["two removed"]).await;
    // It had the key of the network: another one takes its place, and nothing is left of the former one.
    let rolled = async |number: u32| {
        let look = async || {
            let keys = String::from_utf8(read("one/pki/network.key")).unwrap();
            let is_rolled = keys.lines().count() == 1 && keys.starts_with(&format!("{number} "));
            is_rolled.then_some(()).ok_or(keys)
        };
        until("another key of the network", PATIENCE, look).await;
    };
    rolled(2).await;
    invite("two").await;
    std::fs::rename(cluster.path().join("two"), cluster.path().join("former")).unwrap();
    cluster.run(&[&join("two")[..], &[&port]].concat()).await;
    // What was removed does not come back in the place of the one that was invited.
    let former = weft(cluster.path(), &["controller", "run", "former.yaml"]);
    let file = std::fs::read_to_string(cluster.path().join("former/controller.yaml")).unwrap();
    std::fs::write(cluster.path().join("former.yaml"), file.replace("/two/", "/former/")).unwrap();
    let former = former.await;
    assert!(
        !former.status.success() && text(&former).contains("was invited in its place"),
        "{}",
        text(&former)
    );
    let second = cluster.start(1).await;
    list(&["two online"]).await;
    cluster.run(&["cluster", "remove", "two", "--yes"]).await;
    drop(second);
    rolled(3).await;
    cluster.run(&["cluster", "readmit", "two"]).await;
    // It reads nothing before it has the new key.
    let mut second = Program::start(&log, &["controller", "run", "two/controller.yaml"]);
    second.says("key 3, which this controller does not have", PATIENCE).await;
    drop(second);
    std::fs::write(cluster.path().join("two/pki/network.key"), read("one/pki/network.key"))
        .unwrap();
    let second = cluster.start(1).await;
    list(&["two online"]).await;

    // One that leaves is not told of, and comes back. While it is stopped, it sets a password for all.
    assert!(second.stop().await.success());
    let set = ["controller", "password", "two/controller.yaml", "--username", USER];
    let url = format!("localhost:{}", cluster.ports[0]);
    for password in ["another password", PASSWORD] {
        let environment = [("WEFT_NEW_PASSWORD", password.to_owned())];
        let done = weft_in(cluster.path(), &environment, &set).await;
        assert!(done.status.success(), "{}", text(&done));
        let log_in = async || {
            let args = ["login", &url, "--username", USER, "--password", password, "--yes"];
            let done = weft(cluster.path(), &args).await;
            done.status.success().then_some(()).ok_or_else(|| text(&done))
        };
        until("the password at the first one", PATIENCE, log_in).await;
    }
    list(&["two away"]).await;
    cluster.run(&["controller", "leave", "two/controller.yaml"]).await;
    list(&["two left"]).await;
    let second = cluster.start(1).await;
    list(&["two online"]).await;
    // The other one leads when the first one has gone.
    assert!(first.stop().await.success());
    cluster.log_in(1).await;
    list(&["controller away", "two online yes"]).await;
    assert!(second.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_moves_into_etcd_and_back_and_clients_stay_logged_in() {
    let Some(etcd) = Server::start(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster { folder, etcd, ports: [free_port(), free_port()] };
    let port = cluster.ports[0].to_string();
    let at = ["controller", "config", "--home", "one", "--address", "localhost", "--port", &port];
    cluster.run(&at).await;
    let made = ["controller", "init", "one/controller.yaml", "--username", USER];
    cluster.run(&[&made[..], &["--password", PASSWORD]].concat()).await;
    let mut first = cluster.start(0).await;
    let _router = cluster.router().await;
    let operator = Operator::log_in(cluster.ports[0]).await;
    router_online(&operator).await;
    operator.allow_everybody().await;
    operator.service("echo", true).await;
    let roles = json!({"name": "all", "semantic": "AnyOf", "identityRoles": ["#all"],
        "edgeRouterRoles": ["#all"]});
    operator.create(&resource::edge_router_policy::KIND, &roles).await;
    let roles = json!({"name": "all", "semantic": "AnyOf", "serviceRoles": ["#all"],
        "edgeRouterRoles": ["#all"]});
    operator.create(&resource::service_edge_router_policy::KIND, &roles).await;
    let host = operator.endpoint("host").await;
    let client = operator.endpoint("client").await;
    let _hosting = streams::Server::sdk(&host, "echo", Manner::Echo).await;
    dial(&client).await;
    let mut flow = client.dial("echo").await.unwrap();

    let url = format!("http://{}", cluster.etcd.endpoint());
    let into = ["controller", "move", "one/controller.yaml", "--etcd", &url];
    let refused = cluster.refused(&into).await;
    assert!(refused.contains("stop the controller first"), "{refused}");
    let shared_by = async |first: &mut Program, wanted: &[(&str, bool)]| {
        first.says("controller runs", PATIENCE).await;
        // The session of the operator has moved, and the router is the same.
        router_online(&operator).await;
        controllers(&operator, wanted).await;
    };
    for round in 0..2 {
        assert!(first.stop().await.success());
        cluster.run(&into).await;
        let log = cluster.path().join("one.log");
        first = Program::start(&log, &["controller", "run", "one/controller.yaml"]);
        shared_by(&mut first, &[("controller", true)]).await;
        round_trip(&mut flow, "in etcd").await.unwrap();
        dial(&client).await;
        // A further one joins.
        cluster.log_in(0).await;
        let name = format!("further{round}");
        let token = cluster.run(&["cluster", "invite", &name]).await;
        std::fs::write(cluster.path().join("token"), token.lines().next().unwrap()).unwrap();
        let port = cluster.ports[1].to_string();
        let join = ["controller", "join", "token", "--home", &name, "--address", "localhost"];
        cluster.run(&[&join[..], &["--port", &port]].concat()).await;
        let file = format!("{name}/controller.yaml");
        let mut second = Program::start(&log, &["controller", "run", &file]);
        second.says("controller runs", PATIENCE).await;
        let there = Operator::log_in(cluster.ports[1]).await;
        assert_eq!(there.list(&resource::service::KIND).await.len(), 1);

        assert!(first.stop().await.success());
        let back = ["controller", "move", "one/controller.yaml", "--to-file"];
        let refused = cluster.refused(&back).await;
        assert!(refused.contains(&format!("are alive: {name}")), "{refused}");
        assert!(second.stop().await.success());
        cluster.run(&["controller", "leave", &file]).await;
        cluster.run(&back).await;
        first = Program::start(&log, &["controller", "run", "one/controller.yaml"]);
        shared_by(&mut first, &[("controller", true)]).await;
        round_trip(&mut flow, "in a file").await.unwrap();
        dial(&client).await;
        // What was a member has nothing to take from etcd any more.
        let refused = cluster.refused(&["controller", "run", &file]).await;
        assert!(refused.contains("there is no network under /weft/ in etcd"), "{refused}");
    }
}
