//! `weft tunnel run`.

use std::time::Duration;

use serde_json::json;
use tokio::net::TcpStream;
use weft_contract::resource;

use super::lab::Namespace::{Client, Gateway};
use super::lab::{Lab, inside};
use super::{PAGE, fails, get, prints, reflector, remove, service, types, web_server};
use crate::network::NetworkFolder;
use crate::operator::Operator;
use crate::program::{Program, WEFT, text, weft};
use crate::streams::{Manner, Server, round_trip};
use crate::wait::{PATIENCE, until, within};

#[test]
fn an_identity_intercepts_and_leaves_nothing() {
    inside("tunneler::an_identity_intercepts_and_leaves_nothing", intercepts);
}

async fn intercepts(lab: Lab) {
    let place = NetworkFolder::empty();
    let mut network = place.quickstart();
    network.says("The network is up", PATIENCE).await;
    let operator = Operator::log_in(place.control).await;
    operator.allow_everybody().await;
    let folder = place.folder();
    for name in ["one", "two"] {
        let file = folder.join(format!("{name}.json"));
        operator.identity(name).await.write(&file).unwrap();
    }
    let (web, echo, types) = (web_server().await, reflector().await, types(&operator).await);
    let before = lab.system().await;
    let id =
        service(&operator, &types, "web", "tcp", &["web.lab.example", "10.99.0.1"], (80, 80), web)
            .await;
    service(&operator, &types, "echo", "udp", &["10.99.0.7"], (7, 7), echo).await;
    // Every address, including the controller's own, which must stay reachable directly.
    service(&operator, &types, "all", "tcp", &["0.0.0.0/0", "*"], (1, 65_535), web).await;
    let socket = folder.join("run.sock");
    let start = || -> Program {
        let args = [
            "tunnel",
            "run",
            "--identity",
            "one.json",
            "two.json",
            "--refresh",
            "1",
            "--socket",
            socket.to_str().unwrap(),
            "--interface",
            "lan0",
            "--resolver",
            "udp://127.0.0.1:53",
            "udp://10.77.1.1:53",
        ];
        place.start("run", &args)
    };
    let tunneler = start();
    for place in [Client, Gateway] {
        for host in ["web.lab.example", "10.99.0.1", "10.98.7.6:5432", "what.so.ever"] {
            prints(&lab, place, &get(&format!("http://{host}/")), PAGE).await;
        }
        let ask = "printf 'who is there' | nc -u -w 1 -W 1 10.99.0.7 7";
        prints(&lab, place, ask, "who is there").await;
    }
    let status = format!("{WEFT} tunnel status --output json --socket {}", socket.display());
    prints(&lab, Gateway, &status, "tcp:web.lab.example:80").await;
    prints(&lab, Gateway, &status, "intercepted").await;
    remove(&operator, &id).await;
    fails(&lab, Gateway, "nft list ruleset | grep -w 10.99.0.1").await;

    let same = weft(folder, &["tunnel", "run", "--identity", "one.json"]).await;
    assert_eq!(same.status.code(), Some(1), "{}", text(&same));
    assert!(text(&same).contains("another process intercepts as \"tunnel\""), "{}", text(&same));

    tunneler.kill();
    assert_ne!(lab.system().await, before);
    let tunneler = start();
    prints(&lab, Client, &get("http://what.so.ever/"), PAGE).await;
    assert!(tunneler.stop().await.success());
    assert_eq!(lab.system().await, before);
    assert!(network.stop().await.success());
}

#[test]
fn source_addresses_of_a_killed_host_are_removed() {
    inside("tunneler::source_addresses_of_a_killed_host_are_removed", hosts_for_clients);
}

async fn hosts_for_clients(lab: Lab) {
    let place = NetworkFolder::empty();
    let mut network = place.quickstart();
    network.says("The network is up", PATIENCE).await;
    let operator = Operator::log_in(place.control).await;
    // The router must not host them, too.
    let policy = json!({
        "name": "hosts", "type": "Bind", "semantic": "AnyOf",
        "identityRoles": ["#hosts"], "serviceRoles": ["#all"],
    });
    let policy = operator.create(&resource::service_policy::KIND, &policy).await;
    let file = place.folder().join("one.json");
    operator.identity_with("one", &["hosts"]).await.write(&file).unwrap();
    let types = types(&operator).await;
    let config = json!({
        "name": "forward", "configTypeId": types[1],
        "data": {
            "protocol": "tcp", "address": "127.0.0.1", "port": 9,
            "allowedSourceAddresses": ["10.55.0.1", "10.56.0.0/16"],
        },
    });
    let config = operator.create(&resource::config::CONFIG_KIND, &config).await;
    let body = json!({"name": "forward", "encryptionRequired": true, "configs": [config]});
    operator.create(&resource::service::KIND, &body).await;
    let before = lab.system().await;
    let start = || {
        let socket = place.folder().join("run.sock");
        let args = ["tunnel", "run-host", "-i", "one.json", "--refresh", "1", "--socket"];
        place.start("run", &[&args[..], &[socket.to_str().unwrap()]].concat())
    };
    let addresses =
        "ip addr show lo | grep 10.55.0.1/32 && ip addr show lo | grep 10.56.0.0/16 && echo both";
    let first = start();
    prints(&lab, Gateway, addresses, "both").await;
    first.kill();
    assert_ne!(lab.system().await, before);
    let second = start();
    prints(&lab, Gateway, &format!("cat {}/run.log", place.folder().display()), "was removed")
        .await;
    prints(&lab, Gateway, addresses, "both").await;
    assert!(second.stop().await.success());
    assert_eq!(lab.system().await, before);

    // Also if the service is not hosted any more.
    let third = start();
    prints(&lab, Gateway, addresses, "both").await;
    third.kill();
    let delete = resource::service_policy::KIND.delete().unwrap();
    operator.client.call::<serde_json::Value>(delete, &[&policy], &[], None).await.unwrap();
    let fourth = start();
    fails(&lab, Gateway, "ip addr show lo | grep -E '10.5[56].0'").await;
    assert!(fourth.stop().await.success());
    assert_eq!(lab.system().await, before);
}

#[test]
fn whoever_is_in_a_hurry_leaves_nothing() {
    inside("tunneler::whoever_is_in_a_hurry_leaves_nothing", hurries);
}

async fn hurries(lab: Lab) {
    let place = NetworkFolder::empty();
    let mut network = place.quickstart();
    network.says("The network is up", PATIENCE).await;
    let operator = Operator::log_in(place.control).await;
    operator.allow_everybody().await;
    let file = place.folder().join("one.json");
    operator.identity("one").await.write(&file).unwrap();
    let (server, types) = (Server::tcp(Manner::Echo).await, types(&operator).await);
    service(&operator, &types, "echo", "tcp", &["10.99.0.1"], (80, 80), server.port()).await;
    let before = lab.system().await;
    let start = || {
        let socket = place.folder().join("run.sock");
        let args = ["tunnel", "run", "-i", "one.json", "--drain", "3600", "--socket"];
        place.start("run", &[&args[..], &[socket.to_str().unwrap()]].concat())
    };
    // Stopped while it changes the machine.
    for (list, entry) in [("nft list tables", "weft_tunnel"), ("ip rule show", "770")] {
        let mut tunneler = start();
        prints(&lab, Gateway, list, entry).await;
        tunneler.signal("INT");
        tunneler.ended().await;
        assert_eq!(lab.system().await, before, "{list}");
    }
    let mut tunneler = start();
    let connected = async || {
        let mut stream = TcpStream::connect("10.99.0.1:80").await?;
        round_trip(&mut stream, "a word").await?;
        Ok::<_, std::io::Error>(stream)
    };
    let (_open, _) = until("a connection is intercepted", PATIENCE, connected).await;
    network.signal("STOP");
    tunneler.signal("TERM");
    // The connection counts twice if the tunneler hosts it, too.
    tunneler.says("waiting 3600 s for", PATIENCE).await;
    assert_ne!(lab.system().await, before);
    tunneler.signal("TERM");
    let ended = within("it ends", Duration::from_secs(12), tunneler.ended()).await;
    assert_eq!(ended.code(), Some(130));
    assert_eq!(lab.system().await, before);
}

#[test]
fn who_may_not_intercept_hears_what_else_there_is() {
    inside("tunneler::who_may_not_intercept_hears_what_else_there_is", may_not);
}

async fn may_not(lab: Lab) {
    let place = NetworkFolder::empty();
    let before = lab.system().await;
    let run = "tunnel run --identity none.json";
    // A user without privileges may not be able to read this program's folder.
    let copy = format!("/tmp/weft-{}", std::process::id());
    lab.says(Gateway, &format!("cp {WEFT} {copy}")).await.unwrap();
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all";
    let tools = place.folder().join("tools");
    std::fs::create_dir(&tools).unwrap();
    let ip = lab.says(Gateway, "command -v ip").await.unwrap();
    std::os::unix::fs::symlink(ip, tools.join("ip")).unwrap();
    for (script, why, hinted) in [
        (format!("cd /; {nobody} {copy} {run}"), "root", true),
        (format!("PATH={} {WEFT} {run}", tools.display()), "cannot run ip", true),
        (format!("{WEFT} {run} --interface lan9"), "no such network interface", false),
        (format!("{WEFT} {run} --dns-range 10.0.0.1"), "--dns-range", false),
        (format!("{WEFT} {run} --resolver tcp://127.0.0.1:53"), "udp://", false),
    ] {
        let said = lab.says(Gateway, &format!("({script}) 2>&1 || true")).await.unwrap();
        assert!(said.contains(why), "{script}: {said}");
        let hint = said.contains("weft tunnel proxy SERVICE:PORT") && said.contains("run-host");
        assert_eq!(hint, hinted, "{script}: {said}");
    }
    std::fs::remove_file(&copy).unwrap();
    // Without privileges and without interception the command starts to read the file.
    let said = format!("{WEFT} {run} --no-intercept 2>&1 || true");
    let look = async || match lab.says(Gateway, &said).await {
        Ok(said) if said.contains("none.json") => Ok(()),
        other => Err(other),
    };
    until("the file is missing", PATIENCE, look).await;
    assert_eq!(lab.system().await, before);
}
