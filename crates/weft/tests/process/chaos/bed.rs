//! Five routers in a ring with chords, each a process, their links over wires of the test, and one controller or three.
//!
//! ```text
//!        west ─── r1 ─────── r2 ─────── r3 ─── east
//!                  │       ╱    ╲        │
//!                  └─── r5 ────── r4 ────┘
//! ```
//!
//! `WEFT_CHAOS_ZITI` names a router program of OpenZiti, which then runs r2 and r3.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use weft_contract::{Api, resource};
use weft_sdk::{Endpoint, EndpointBuilder};

use weft_test_etcd::Server;

use super::controllers::{self, Controller};
use super::wires::Wires;
use crate::network::{NetworkFolder, free_port};
use crate::operator::Operator;
use crate::program::Program;
use crate::wait::{PATIENCE, until};

pub(super) const ROUTERS: usize = 5;
/// The pairs of linked routers, by their places; the second one dials.
pub(super) const PAIRS: [(usize, usize); 7] =
    [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (1, 3), (1, 4)];
/// The routers that SDKs use.
pub(super) const WEST: usize = 0;
pub(super) const EAST: usize = 2;
/// The routers that a program of another make runs, if there is one.
const FOREIGN: [usize; 2] = [1, EAST];
/// Settings of link dialers that try again soon, so that links are repaired several times in a test of
/// some seconds.
const DIALER: &str = "startupDelay: 500ms, \
    healthyDialBackoff: {minRetryInterval: 100ms, maxRetryInterval: 1s}, \
    unhealthyDialBackoff: {minRetryInterval: 500ms, maxRetryInterval: 2s}";
/// A link of this cost or more counts as broken: one of its routers does not answer.
const UNANSWERED: u64 = 1_000_000;

pub(super) struct Router {
    pub(super) name: String,
    pub(super) id: String,
    file: PathBuf,
    pub(super) program: Option<Program>,
    /// The program of another make that runs the router.
    pub(super) foreign: Option<String>,
    /// The wires to the only controller; those to one of several are the controller's.
    pub(super) control: Wires,
}

/// The network.
pub(super) struct Bed {
    // Dropped first to last: clients before servers.
    /// One at each controller.
    pub(super) operators: Vec<Operator>,
    pub(super) wires: Vec<Wires>,
    pub(super) routers: Vec<Router>,
    pub(super) controllers: Vec<Controller>,
    /// The members of etcd that three controllers share.
    pub(super) etcd: Vec<Server>,
    pub(super) place: NetworkFolder,
}

impl Bed {
    /// A new network of one controller, in which every router is online and linked.
    pub(super) async fn start() -> Self {
        Self::start_with(Vec::new()).await
    }

    /// The same of three controllers that share this etcd.
    pub(super) async fn start_with(etcd: Vec<Server>) -> Self {
        let place = NetworkFolder::empty();
        let mut made = place.several(&ROUTERS.to_string());
        made.says("The network is up", PATIENCE * 2).await;
        assert!(made.stop().await.success());
        let mut controllers = match etcd.as_slice() {
            [] => controllers::one(&place).await,
            members => controllers::three(&place, members).await,
        };
        let mut routers = Vec::new();
        for number in 1..=ROUTERS {
            let (name, file) = match number {
                1 => ("quickstart-router".to_owned(), place.home().join("router.yaml")),
                _ => (
                    format!("quickstart-router-{number}"),
                    place.home().join(format!("routers/{number}/router.yaml")),
                ),
            };
            let control = Wires::to(place.control).await;
            let foreign = std::env::var("WEFT_CHAOS_ZITI").ok();
            let foreign = foreign.filter(|_| FOREIGN.contains(&(number - 1)));
            let id = String::new();
            routers.push(Router { name, id, file, program: None, foreign, control });
        }
        let (mut sections, mut wires) = (vec![String::new(); ROUTERS], Vec::new());
        let mut dialed = vec![Vec::new(); ROUTERS];
        for (one, other) in PAIRS {
            let (port, group) = (free_port(), format!("{one}-{other}"));
            let wire = Wires::to(port).await;
            sections[one].push_str(&format!(
                "    - {{binding: transport, bind: 'tls:127.0.0.1:{port}', \
                 advertise: 'tls:127.0.0.1:{}', groups: ['{group}']}}\n",
                wire.port
            ));
            dialed[other].push(group);
            wires.push(wire);
        }
        for (at, router) in routers.iter().enumerate() {
            let groups = dialed[at].join("', '");
            let dialers = format!("    - {{binding: transport, groups: ['{groups}'], {DIALER}}}\n");
            let mut section = "link:\n".to_owned();
            for (title, lines) in [("listeners", sections[at].as_str()), ("dialers", &dialers)] {
                let is_missing = lines.is_empty() || (title == "dialers" && groups.is_empty());
                if !is_missing {
                    section.push_str(&format!("  {title}:\n{lines}"));
                }
            }
            replace_links(&router.file, &section);
            move_edge(&router.file);
            wait_for_controllers(&router.file);
            let control = if etcd.is_empty() { &router.control } else { &controllers[0].control };
            let [direct, wired] = [place.control, control.port]
                .map(|port| format!("endpoint: \"tls:localhost:{port}\""));
            replace(&router.file, &direct, &wired);
        }
        controllers.iter_mut().for_each(|one| one.start(&place));
        let operators = controllers::log_in(&controllers).await;
        let mut bed = Self { operators, wires, routers, controllers, etcd, place };
        bed.find_ids().await;
        (0..ROUTERS).for_each(|at| bed.start_router(at));
        bed.whole(PATIENCE * 2).await;
        bed.allow().await;
        bed
    }

    /// The operator at the first controller.
    pub(super) fn operator(&self) -> &Operator {
        &self.operators[0]
    }

    /// Logs all operators in again.
    pub(super) async fn log_in(&mut self) {
        self.operators = controllers::log_in(&self.controllers).await;
    }

    async fn find_ids(&mut self) {
        let all = self.operator().list(&resource::edge_router::KIND).await;
        for router in &mut self.routers {
            let known = all.iter().find(|one| one["name"] == *router.name).unwrap();
            router.id = known["id"].as_str().unwrap().to_owned();
        }
    }

    /// Lets everybody dial and host, and each identity use the one router of its end.
    async fn allow(&self) {
        let kind = &resource::edge_router_policy::KIND;
        for policy in self.operator().list(kind).await {
            if policy["isSystem"] != true {
                let id = policy["id"].as_str().unwrap();
                self.operator().client.delete(kind, id).await.unwrap();
            }
        }
        for (end, at) in [("west", WEST), ("east", EAST)] {
            let policy = json!({
                "name": end, "semantic": "AnyOf", "identityRoles": [format!("#{end}")],
                "edgeRouterRoles": [format!("@{}", self.routers[at].id)],
            });
            self.operator().create(kind, &policy).await;
        }
        self.operator().allow_everybody().await;
    }

    /// An identity that uses the router of this end.
    pub(super) async fn endpoint(&self, name: &str, end: &str, how: EndpointBuilder) -> Endpoint {
        how.build(self.operator().identity_with(name, &[end]).await).await.unwrap()
    }

    pub(super) fn start_router(&mut self, at: usize) {
        let router = &mut self.routers[at];
        let args = ["router", "run", router.file.to_str().unwrap()];
        let program = match &router.foreign {
            Some(foreign) => {
                self.place.start_shell(&router.name, &format!("exec {foreign} {}", args.join(" ")))
            }
            None => self.place.start(&router.name, &args),
        };
        router.program = Some(program);
    }

    /// Starts a controller, without waiting for it.
    pub(super) fn start_controller(&mut self, at: usize) {
        self.controllers[at].start(&self.place);
    }

    /// Waits until every router is online and every pair linked, as each controller says.
    pub(super) async fn whole(&mut self, limit: Duration) {
        let begun = std::time::Instant::now();
        for at in 0..self.controllers.len() {
            loop {
                let linked = self.linked(at).await;
                match &linked {
                    Ok(linked) if linked.iter().all(|one| *one) => break,
                    _ if begun.elapsed() > limit => {
                        let name = self.controllers[at].name;
                        panic!("not whole for {name} within {limit:?}: {linked:?}")
                    }
                    _ => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
        }
    }

    /// For each of [`PAIRS`]: true if this controller says that the pair is linked. Fails if the controller
    /// does not answer.
    pub(super) async fn linked(&mut self, at: usize) -> Result<Vec<bool>, String> {
        let asked = self.try_linked(&self.operators[at]);
        let answered = tokio::time::timeout(Duration::from_secs(5), asked).await;
        match answered {
            Ok(Err(error)) if error.is_unauthorized => {
                // Another start of the controller may not know the login.
                self.operators[at] = Operator::log_in(self.controllers[at].port).await;
                Err(error.text)
            }
            Ok(answer) => answer.map_err(|error| error.text),
            Err(_) => Err("the controller does not answer".to_owned()),
        }
    }

    async fn try_linked(&self, operator: &Operator) -> Result<Vec<bool>, Failed> {
        let client = &operator.client;
        let routers: Vec<Value> = client.list(&resource::edge_router::KIND, None).await?;
        let list = resource::fabric::link::KIND.list().unwrap();
        let links: Vec<Value> = client.call_in(Api::Fabric, list, &[], &[], None).await?;
        let is_online = |at: usize| {
            let id = &self.routers[at].id;
            routers.iter().any(|one| one["id"] == **id && one["isOnline"] == true)
        };
        let is_between = |link: &Value, one: usize, other: usize| {
            let ids = [&self.routers[one].id, &self.routers[other].id];
            let ends = ["sourceRouter", "destRouter"].map(|end| link[end]["id"].as_str().unwrap());
            ids.iter().all(|id| ends.contains(&id.as_str()))
        };
        let answers = |link: &Value| link["cost"].as_u64().is_some_and(|cost| cost < UNANSWERED);
        let linked = PAIRS.iter().map(|&(one, other)| {
            let mut links = links.iter().filter(|link| is_between(link, one, other));
            is_online(one) && is_online(other) && links.any(answers)
        });
        Ok(linked.collect())
    }
}

impl Drop for Bed {
    /// Keeps the folder with its logs after a failure, if `WEFT_CHAOS_KEEP` is set.
    fn drop(&mut self) {
        if std::thread::panicking() && std::env::var("WEFT_CHAOS_KEEP").is_ok() {
            println!("kept: {}", self.place.keep().display());
        }
    }
}

/// Why the controller's answer is missing.
struct Failed {
    text: String,
    is_unauthorized: bool,
}

impl From<weft_client::Error> for Failed {
    fn from(error: weft_client::Error) -> Self {
        let is_unauthorized = error.status().is_some_and(|status| status == 401);
        Self { text: weft_sdk::chain(&error), is_unauthorized }
    }
}

/// Lets a router that starts wait for a controller longer than any is away. After 30 s, the default, it would end, and
/// nobody here would start it again, as a service manager does.
fn wait_for_controllers(file: &PathBuf) {
    let section = "\nctrl:\n";
    replace(file, section, &format!("{section}  startupTimeout: 10m\n"));
}

/// Replaces a text in a file, which has it once.
pub(super) fn replace(file: &PathBuf, from: &str, to: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert_eq!(text.matches(from).count(), 1, "{from} in {text}");
    fs::write(file, text.replace(from, to)).unwrap();
}

/// Puts another section `link` into a router's file.
fn replace_links(file: &PathBuf, section: &str) {
    let text = fs::read_to_string(file).unwrap();
    let (before, behind) = text.split_once("# Links to other routers.").unwrap();
    let (_, behind) = behind.split_once("# Where clients connect.").unwrap();
    fs::write(file, format!("{before}{section}\n# Where clients connect.{behind}")).unwrap();
}

/// Gives the listener for clients a port that the system gives no other program while the router is down.
fn move_edge(file: &PathBuf) {
    let text = fs::read_to_string(file).unwrap();
    let (_, behind) = text.split_once("address: \"tls:127.0.0.1:").unwrap();
    let port: String = behind.chars().take_while(char::is_ascii_digit).collect();
    fs::write(file, text.replace(&format!(":{port}"), &format!(":{}", free_port()))).unwrap();
}

/// Waits until no circuit is left.
pub(super) async fn no_circuits(operator: &Operator, limit: Duration) {
    let list = resource::fabric::circuit::KIND.list().unwrap();
    let look = async || {
        let all: Result<Vec<Value>, _> =
            operator.client.call_in(Api::Fabric, list, &[], &[], None).await;
        match all {
            Ok(left) if left.is_empty() => Ok(()),
            Ok(left) => Err(Value::from(left).to_string()),
            Err(error) => Err(weft_sdk::chain(&error)),
        }
    };
    until("no circuit is left", limit, look).await;
}
