//! Two controllers of one network, which share it in etcd: each is told of the other, either may die, and what runs goes on.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use weft_contract::{Api, resource};
use weft_sdk::Endpoint;
use weft_test_etcd::Server;

use crate::network::{PASSWORD, USER, free_port};
use crate::operator::Operator;
use crate::program::{Program, text, weft};
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
    /// Makes the folders of two controllers; none without etcd.
    async fn make() -> Option<Self> {
        let etcd = Server::start(&[])?;
        let folder = tempfile::tempdir().unwrap();
        let cluster = Self { folder, etcd, ports: [free_port(), free_port()] };
        let [one, two] = cluster.ports.map(|port| port.to_string());
        let url = format!("http://{}", cluster.etcd.endpoint());
        let at = ["controller", "config", "--address", "localhost"];
        cluster.run(&[&at[..], &["--home", "one", "--port", &one, "--etcd", &url]].concat()).await;
        let made = ["controller", "init", "one/controller.yaml", "--password", PASSWORD];
        cluster.run(&[&made[..], &["--username", USER]].concat()).await;
        let joins = ["--home", "two", "--port", &two, "--member-of", "one", "--name", "two"];
        cluster.run(&[&at[..], &joins].concat()).await;
        Some(cluster)
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    async fn run(&self, args: &[&str]) -> String {
        let done = weft(self.path(), args).await;
        assert!(done.status.success(), "weft {args:?}\n{}", text(&done));
        text(&done)
    }

    async fn start(&self, number: usize) -> Program {
        let file = format!("{}/controller.yaml", NAMES[number]);
        let log = self.path().join(format!("{}.log", NAMES[number]));
        let mut program = Program::start(&log, &["controller", "run", &file]);
        program.says("controller runs", PATIENCE).await;
        program
    }

    /// Makes a router, and starts it.
    async fn router(&self) -> Program {
        let (url, port) = (format!("localhost:{}", self.ports[0]), free_port().to_string());
        let login = ["login", &url, "--username", USER, "--password", PASSWORD, "--yes"];
        self.run(&login).await;
        self.run(&["create", "edge-router", "paris", "-o", "paris.jwt"]).await;
        let at = ["--controller", &url, "--port", &port, "--out", "paris.yaml"];
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
async fn controllers(operator: &Operator, wanted: &[(&str, bool)]) {
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
    let first = cluster.start(0).await;
    let second = cluster.start(1).await;
    let _router = cluster.router().await;
    let operators =
        [Operator::log_in(cluster.ports[0]).await, Operator::log_in(cluster.ports[1]).await];
    for operator in &operators {
        router_online(operator).await;
        controllers(operator, &[("controller", true), ("two", true)]).await;
    }
    // What is made at one is there for the clients of both.
    operators[1].allow_everybody().await;
    operators[0].service("echo", true).await;
    let roles = json!({"name": "all", "semantic": "AnyOf", "identityRoles": ["#all"],
        "edgeRouterRoles": ["#all"]});
    operators[0].create(&resource::edge_router_policy::KIND, &roles).await;
    let roles = json!({"name": "all", "semantic": "AnyOf", "serviceRoles": ["#all"],
        "edgeRouterRoles": ["#all"]});
    operators[1].create(&resource::service_edge_router_policy::KIND, &roles).await;
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
    let Some(mut cluster) = Cluster::make().await else { return };
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
