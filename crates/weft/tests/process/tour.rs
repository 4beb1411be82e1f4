//! The first hour of a newcomer: the README word by word, and a home that is used again.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::network::{NetworkFolder, PASSWORD, USER, free_port};
use crate::operator::Operator;
use crate::program::{Program, WEFT, text, weft};
use crate::streams::{Manner, Server, dial};
use crate::wait::{PATIENCE, until, within};

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
/// Length of a page for the transfers.
const PAGE_LENGTH: u64 = 100_000;
/// The page of the README's web server.
const PAGE: &str = "this page came through the overlay\n";

/// The shell blocks of the README's tour.
fn tour() -> Vec<String> {
    let readme = fs::read_to_string(README).unwrap();
    let (_, tour) = readme.split_once("\n## A tour of five minutes\n").unwrap();
    let tour = tour.split("\n## ").next().unwrap();
    let blocks = tour.split("```sh\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tour_of_the_readme_works_word_by_word() {
    let place = NetworkFolder::empty();
    let blocks = tour();
    let (first, rest) = blocks.split_first().unwrap();
    let words = first.trim().strip_prefix("cargo run --release -- ").unwrap();
    let ports = [place.control, place.router].map(|port| port.to_string());
    let mut args: Vec<&str> = words.split_whitespace().collect();
    args.extend(["--ctrl-port", &ports[0], "--router-port", &ports[1]]);
    let mut network = place.start("quickstart", &args);
    network.says("The network is up", PATIENCE).await;
    assert!(network.said().contains("self-check passed"), "{}", network.said());

    // Replaced: Python's web server with the test's, and the usual ports with free ones.
    let server = web_server().await;
    let local = free_port().to_string();
    let script: Vec<String> = rest
        .iter()
        .flat_map(|block| block.lines())
        .filter(|line| !line.starts_with("python3 "))
        .map(|line| line.replace("./target/release/weft", WEFT))
        .map(|line| line.replace("localhost:1280", &format!("localhost:{}", place.control)))
        .map(|line| line.replace("8000", &server.to_string()))
        .map(|line| line.replace("8080", &local))
        .collect();
    assert!(script.len() > 8, "the tour is short: {script:?}");
    let printed = shell(place.folder(), &script.join("\n")).await;
    let expected = [
        "logged in",
        "quickstart-router",
        "identity file: laptop.json",
        &format!("web: tcp:127.0.0.1:{local}"),
        PAGE,
        "listening",
        "checksum right",
    ];
    for words in expected {
        assert!(printed.contains(words), "`{words}` is missing:\n{printed}");
    }

    let again = ["enroll", "laptop.jwt", "-o", "again.json"];
    let again = weft(place.folder(), &again).await;
    assert!(!again.status.success(), "a token counts once");
    assert!(text(&again).contains("used already"), "{}", text(&again));
    let laptop = weft_sdk::Endpoint::load(place.folder().join("laptop.json")).await.unwrap();
    let mut page = dial(&laptop, "web").await;
    page.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
    page.shutdown().await.unwrap();
    let mut answer = String::new();
    within("the page", PATIENCE, page.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.ends_with(PAGE), "{answer}");
    assert!(network.stop().await.success());
}

/// A web server with one page, on loopback; returns its port.
async fn web_server() -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    request.push(stream.read_u8().await?);
                }
                let head = "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n";
                stream.write_all(format!("{head}{PAGE}").as_bytes()).await?;
                stream.shutdown().await
            });
        }
    });
    port
}

/// Runs lines as people type them; each must succeed.
async fn shell(folder: &Path, lines: &str) -> String {
    let script = folder.join("tour.sh");
    // Background processes end with the tour.
    let (begin, end) = ("set -euo pipefail\nshopt -s expand_aliases", "kill $(jobs -p)\nwait");
    fs::write(&script, format!("{begin}\n{lines}\n{end}\n")).unwrap();
    let mut command = tokio::process::Command::new("bash");
    command.arg(&script).current_dir(folder).env("WEFT_CONFIG_DIR", folder.join("logins"));
    command.env("XDG_RUNTIME_DIR", folder).stdin(Stdio::null()).kill_on_drop(true);
    let done = within("the tour", 2 * PATIENCE, command.output()).await.unwrap();
    let printed = text(&done);
    assert!(done.status.success(), "the tour failed:\n{printed}");
    printed
}

#[tokio::test(flavor = "multi_thread")]
async fn a_home_is_resumed_with_everything_kept() {
    let place = NetworkFolder::empty();
    let mut first = place.quickstart();
    first.says("The network is up", PATIENCE).await;
    assert!(!first.said().contains("only count at creation"), "{}", first.said());

    // A second start with the same home fails with the reason and does not affect the first.
    let home = place.home();
    let second = weft(place.folder(), &["quickstart", "--home", home.to_str().unwrap()]).await;
    assert_eq!(second.status.code(), Some(1), "{}", text(&second));
    assert!(
        text(&second).contains("is in use by a running `weft quickstart`"),
        "{}",
        text(&second)
    );

    let operator = Operator::log_in(place.control).await;
    operator.allow_everybody().await;
    let server = Server::tcp(Manner::First(PAGE_LENGTH)).await;
    operator.tunneled("web", server.port(), true).await;
    let identity = operator.identity("laptop").await;
    let before = everything(&operator).await;
    // After any sudden end, the next start finds everything.
    first.kill();

    let mut again = place.quickstart();
    again
        .says("ignored, because they only count at creation: --username, --password", PATIENCE)
        .await;
    let said = again.said();
    let line = said.lines().find(|line| line.contains("only count at creation")).unwrap();
    assert!(line.ends_with("--ctrl-port, --router-port"), "{line}");
    let operator = Operator::log_in(place.control).await;
    let ups = async || match again.said().matches("The network is up").count() {
        2 => Ok(()),
        count => Err(count),
    };
    until("the network is up again", PATIENCE, ups).await;
    assert_eq!(everything(&operator).await, before);
    let laptop = weft_sdk::Endpoint::from_identity(identity).await.unwrap();
    let mut page = dial(&laptop, "web").await;
    let mut answer = Vec::new();
    within("the page", PATIENCE, page.read_to_end(&mut answer)).await.unwrap();
    assert_eq!(answer.len() as u64, PAGE_LENGTH);

    again.signal("INT");
    assert!(again.ended().await.success(), "Ctrl-C is a clean end");
}

/// Id and name of every entity that operators create, sorted.
async fn everything(operator: &Operator) -> Vec<(String, String, String)> {
    use weft_contract::resource::{config, edge_router, identity, service, service_policy};
    let kinds = [
        &identity::KIND,
        &edge_router::KIND,
        &service::KIND,
        &config::CONFIG_KIND,
        &service_policy::KIND,
    ];
    let mut all = Vec::new();
    for kind in kinds {
        for entity in operator.list(kind).await {
            let text = |member: &str| entity[member].as_str().unwrap_or_default().to_owned();
            all.push((kind.name.to_owned(), text("id"), text("name")));
        }
    }
    all.sort();
    assert!(all.len() >= 7, "{all:?}");
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn free_ports_and_a_password_are_picked_and_printed() {
    let place = NetworkFolder::empty();
    let home = place.home();
    let free =
        ["quickstart", "--home", home.to_str().unwrap(), "--ctrl-port", "0", "--router-port", "0"];
    let mut first = place.start("quickstart", &free);
    first.says("The network is up", PATIENCE).await;
    let said = first.said();
    let (_, after) = said.split_once("password (shown only now): ").unwrap();
    let password = after.lines().next().unwrap().trim();
    assert_eq!(said.matches(password).count(), 1, "{said}");
    let printed = addresses(&said);
    let url = printed.iter().find(|address| address.starts_with("https://")).unwrap();
    let login = ["login", url, "--username", "admin", "--password", password, "--yes"];
    let login = weft(place.folder(), &login).await;
    assert!(login.status.success(), "{}", text(&login));
    assert!(first.stop().await.success(), "SIGTERM is a clean end");
    let mut again = place.start("again", &["quickstart", "--home", home.to_str().unwrap()]);
    again.says("The network is up", PATIENCE).await;
    assert_eq!(addresses(&again.said()), printed);
    assert!(!again.said().contains("password (shown"), "{}", again.said());
    assert!(again.stop().await.success());
}

/// Addresses of controller and router in the banner.
fn addresses(said: &str) -> Vec<String> {
    let words = said.split_whitespace();
    let mut found: Vec<String> = words
        .filter(|word| word.starts_with("https://localhost:") || word.starts_with("tls://"))
        .map(ToOwned::to_owned)
        .collect();
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 2, "{said}");
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_is_initialized_by_hand_and_only_once() {
    let place = NetworkFolder::made().await;
    let file = place.home().join("controller.yaml");
    let file = file.to_str().unwrap();
    fs::remove_file(place.home().join("controller.db")).unwrap();

    let run = weft(place.folder(), &["controller", "run", file]).await;
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run).contains("weft controller init"), "{}", text(&run));
    let init = ["controller", "init", file, "--username", USER, "--password", PASSWORD];
    let done = weft(place.folder(), &init).await;
    assert!(done.status.success(), "{}", text(&done));
    let again = weft(place.folder(), &init).await;
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again).contains("already initialized"), "{}", text(&again));

    let controller: Program = place.start_controller();
    let operator = Operator::log_in(place.control).await;
    assert_eq!(operator.list(&weft_contract::resource::identity::KIND).await.len(), 1);
    assert!(controller.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_is_enrolled_by_hand_and_runs() {
    let place = NetworkFolder::made().await;
    let controller = place.start_controller();
    let operator = Operator::log_in(place.control).await;
    let url = format!("https://localhost:{}", place.control);
    let folder = place.folder();
    let login = ["login", &url, "--username", USER, "--password", PASSWORD, "--yes"];
    assert!(weft(folder, &login).await.status.success());
    let create = [
        "create",
        "edge-router",
        "paris",
        "--is-tunneler-enabled",
        "-o",
        "paris.jwt",
        "--output",
        "json",
    ];
    let made = weft(folder, &create).await;
    assert!(made.status.success(), "{}", text(&made));
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    assert!(made["id"].is_string(), "{made}");

    // The file of the second router, with its own keys.
    let file = fs::read_to_string(place.home().join("router.yaml")).unwrap();
    let pki = place.home().join("pki");
    let file =
        file.replace(&format!("{}/router", pki.display()), &format!("{}/paris", pki.display()));
    let path = place.home().join("paris.yaml");
    fs::write(&path, file).unwrap();
    let path = path.to_str().unwrap();
    let enrolled = weft(folder, &["router", "enroll", path, "--jwt", "paris.jwt"]).await;
    assert!(enrolled.status.success(), "{}", text(&enrolled));
    let used = weft(folder, &["router", "enroll", path, "--jwt", "paris.jwt"]).await;
    assert_eq!(used.status.code(), Some(5), "a token counts once");
    assert!(text(&used).contains("used already"), "{}", text(&used));

    let router = place.start("paris", &["router", "run", path]);
    let look = async || match operator.router_online().await {
        Ok(true) => Ok(()),
        other => Err(other),
    };
    until("the router is online", PATIENCE, look).await;
    // Without router policies every dial fails, and so does the check.
    let run = async |command: &str| {
        let done = weft(folder, &command.split(' ').collect::<Vec<_>>()).await;
        assert!(done.status.success(), "{command}: {}", text(&done));
    };
    run("delete edge-router-policy --where isSystem=false --yes").await;
    run("delete service-edge-router-policy --where true --yes").await;
    let traffic = weft(folder, &["verify", "traffic", "--size", "1"]).await;
    assert_eq!(traffic.status.code(), Some(1), "{}", text(&traffic));
    assert!(text(&traffic).contains("no edge router policy gives an identity without attributes"));
    let open = weft(folder, &["verify", "traffic", "--size", "1", "--all-routers"]).await;
    assert!(open.status.success(), "{}", text(&open));
    assert!(
        text(&open).contains("not tried: the router policies of the network"),
        "{}",
        text(&open)
    );
    run("create edge-router-policy all --edge-router-roles #all --identity-roles #staff").await;
    run("create service-edge-router-policy all --edge-router-roles #all --service-roles #web")
        .await;
    let staff = ["verify", "traffic", "--size", "1", "--identity-attributes", "staff"];
    let traffic = weft(folder, &staff).await;
    assert!(
        text(&traffic).contains("gives a service without attributes a router"),
        "{}",
        text(&traffic)
    );
    let traffic = weft(folder, &[&staff[..], &["--service-attributes", "#web"]].concat()).await;
    assert!(traffic.status.success(), "{}", text(&traffic));
    assert!(text(&traffic).contains("with #staff dials a service with #web"), "{}", text(&traffic));
    assert!(router.stop().await.success());
    assert!(controller.stop().await.success());
}
