//! A router with `mode: tproxy`.

use std::fs;

use super::lab::Namespace::{Client, Gateway};
use super::lab::{Lab, inside};
use super::{PAGE, fails, get, prints, reflector, remove, service, types, web_server};
use crate::network::NetworkFolder;
use crate::operator::Operator;
use crate::program::{Program, text, weft};
use crate::wait::{PATIENCE, until};

/// A network whose router intercepts on this machine and on lan0.
pub(super) struct Bed {
    pub(super) operator: Operator,
    pub(super) place: NetworkFolder,
    _controller: Program,
}

impl Bed {
    pub(super) async fn start() -> Self {
        let place = NetworkFolder::made().await;
        tproxy(&place, "lan0");
        let controller = place.start_controller();
        let operator = Operator::log_in(place.control).await;
        operator.allow_everybody().await;
        Self { operator, place, _controller: controller }
    }

    pub(super) async fn router(&self) -> Program {
        let before = fs::read_to_string(self.place.folder().join("router.log")).unwrap_or_default();
        let router = self.place.start_router();
        let up = async || match router.said().get(before.len()..) {
            Some(said) if said.contains("router runs") => Ok(()),
            said => Err(said.map(str::to_owned)),
        };
        until("the router runs", PATIENCE, up).await;
        router
    }
}

/// Makes the router of a quickstart intercept.
fn tproxy(place: &NetworkFolder, interface: &str) {
    let file = place.home().join("router.yaml");
    let written = fs::read_to_string(&file).unwrap();
    let (before, _) = written.split_once("mode: host").expect("the router hosts");
    let indent = before.len() - before.trim_end_matches(' ').len();
    let more = [
        "mode: tproxy",
        &format!("lanIf: [{interface}]"),
        "resolver: ['udp://127.0.0.1:53', 'udp://10.77.1.1:53']",
    ];
    let more = more.join(&format!("\n{}", " ".repeat(indent)));
    fs::write(&file, written.replacen("mode: host", &more, 1)).unwrap();
}

#[test]
fn a_router_intercepts_and_leaves_nothing() {
    inside("router::a_router_intercepts_and_leaves_nothing", intercepts);
}

async fn intercepts(lab: Lab) {
    let bed = Bed::start().await;
    let before = lab.system().await;
    let (web, echo) = (web_server().await, reflector().await);
    let (operator, types) = (&bed.operator, types(&bed.operator).await);
    let addresses = ["web.lab.example", "*.wild.example", "10.99.0.1", "fd99::/64"];
    let id = service(operator, &types, "web", "tcp", &addresses, (80, 81), web).await;
    service(operator, &types, "echo", "udp", &["echo.lab.example", "10.99.0.7"], (7, 7), echo)
        .await;
    let router = bed.router().await;
    for place in [Client, Gateway] {
        for host in
            ["web.lab.example", "WEB.lab.example:81", "a.b.wild.example", "10.99.0.1", "[fd99::5]"]
        {
            prints(&lab, place, &get(&format!("http://{host}/")), PAGE).await;
        }
        for host in ["echo.lab.example", "10.99.0.7"] {
            let ask = format!("printf 'who is there' | nc -u -w 1 -W 1 {host} 7");
            prints(&lab, place, &ask, "who is there").await;
        }
    }
    prints(&lab, Client, "dig @10.77.1.1 +short web.lab.example", "100.64.0.").await;
    prints(&lab, Gateway, "dig @127.0.0.1 +tcp +short x.wild.example", "100.64.0.").await;
    prints(&lab, Client, "dig @10.77.1.1 other.example", "status: REFUSED").await;
    // Other ports of the service's address are refused.
    assert!(lab.says(Client, &get("http://10.99.0.1:82/")).await.is_err());

    // A deleted service loses its rules and names.
    let rules = "nft list ruleset | grep -F 10.99.0.1";
    prints(&lab, Gateway, rules, "10.99.0.1").await;
    remove(operator, &id).await;
    fails(&lab, Gateway, rules).await;
    fails(&lab, Client, &get("http://10.99.0.1/")).await;
    prints(&lab, Client, "dig @10.77.1.1 web.lab.example", "status: REFUSED").await;
    service(operator, &types, "web again", "tcp", &addresses, (80, 81), web).await;
    prints(&lab, Client, &get("http://web.lab.example/"), PAGE).await;

    // After a kill only the next start can clean up.
    router.kill();
    assert_ne!(lab.system().await, before);
    let router = bed.router().await;
    prints(&lab, Client, &get("http://web.lab.example/"), PAGE).await;
    prints(&lab, Gateway, &get("http://10.99.0.1/"), PAGE).await;
    assert!(router.stop().await.success());
    assert_eq!(lab.system().await, before);
}

#[test]
fn a_router_that_cannot_intercept_does_not_run() {
    inside("router::a_router_that_cannot_intercept_does_not_run", cannot);
}

async fn cannot(lab: Lab) {
    let place = NetworkFolder::made().await;
    let file = place.home().join("router.yaml");
    let before = lab.system().await;
    let written = fs::read_to_string(&file).unwrap();
    tproxy(&place, "lan9");
    let run = ["router", "run", file.to_str().unwrap()];
    let done = weft(place.folder(), &run).await;
    assert_eq!(done.status.code(), Some(2), "{}", text(&done));
    assert!(text(&done).contains("lanIf") && text(&done).contains("lan9"), "{}", text(&done));
    fs::write(&file, &written).unwrap();
    tproxy(&place, "lan0");
    // Without the programs that change rules; `ip` exists.
    let tools = place.folder().join("tools");
    fs::create_dir(&tools).unwrap();
    let ip = lab.says(Gateway, "command -v ip").await.unwrap();
    std::os::unix::fs::symlink(ip, tools.join("ip")).unwrap();
    let run = format!("PATH={} {} router run {}", tools.display(), crate::program::WEFT, run[2]);
    let said = lab.says(Gateway, &format!("{run} 2>&1 || [ $? = 2 ]")).await.unwrap();
    assert!(said.contains("neither `nft` nor `iptables` is installed"), "{said}");
    assert!(said.contains("mode proxy offers services at ports"), "{said}");
    // A problem that shows only when interception begins.
    fs::write(&file, &written).unwrap();
    tproxy(&place, "lan0]\n      dnsSvcIpRange: 127.0.0.1/8 #");
    let done = weft(place.folder(), &["router", "run", file.to_str().unwrap()]).await;
    assert!(!done.status.success());
    assert!(text(&done).contains("dnsSvcIpRange"), "{}", text(&done));
    assert_eq!(lab.system().await, before);
}
