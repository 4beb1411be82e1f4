//! A snapshot replaces the database: the controller works with it, the router takes the whole
//! model, and later changes are gone.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;
use weft_contract::resource;

use crate::network::{Network, PASSWORD, USER};
use crate::program::{text, weft};
use crate::streams::{Manner, Server, dial, round_trip};
use crate::wait::{PATIENCE, until};

async fn run(network: &Network, args: &[&str]) -> (bool, String) {
    let output = weft(network.place.folder(), args).await;
    (output.status.success(), text(&output))
}

/// The snapshot beside the database.
fn snapshot(network: &Network) -> std::path::PathBuf {
    let database = network.place.home().join("controller.db");
    let start = format!("{}-", database.file_name().unwrap().to_string_lossy());
    let found = fs::read_dir(network.place.home()).unwrap().map(|entry| entry.unwrap().path());
    let is_one =
        |path: &std::path::PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(&start);
    found.into_iter().find(is_one).expect("a snapshot lies beside the database")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_goes_back_to_a_snapshot() {
    let mut network = Network::start().await;
    network.operator.allow_everybody().await;
    let server = Server::tcp(Manner::Echo).await;
    network.operator.tunneled("early", server.port(), true).await;
    let file = network.operator.identity("dialer").await;

    let control = format!("localhost:{}", network.place.control);
    let login = ["login", &control, "-u", USER, "-p", PASSWORD, "--yes"];
    let (done, said) = run(&network, &login).await;
    assert!(done, "{said}");
    let (done, said) = run(&network, &["database", "snapshot"]).await;
    assert!(done, "{said}");
    network.operator.tunneled("late", server.port(), true).await;
    let snapshot = snapshot(&network);
    assert_eq!(fs::metadata(&snapshot).unwrap().permissions().mode() & 0o777, 0o600);

    let config = network.place.home().join("controller.yaml");
    let [config, snapshot] = [&config, &snapshot].map(|path| path.to_str().unwrap().to_owned());
    let restore = ["controller", "restore", &config, &snapshot];
    let (done, said) = run(&network, &restore).await;
    assert!(!done && said.contains("in use by another process"), "{said}");
    network.kill_controller();
    // A controller without its database makes none.
    let database = network.place.home().join("controller.db");
    let aside = network.place.home().join("aside");
    fs::rename(&database, &aside).unwrap();
    let (done, said) = run(&network, &["controller", "run", &config]).await;
    assert!(!done && said.contains("there is no database at"), "{said}");
    assert!(!database.exists());
    fs::rename(&aside, &database).unwrap();
    let (done, said) = run(&network, &restore).await;
    assert!(done, "{said}");

    network.start_controller().await;
    network.router_online(true, PATIENCE).await;
    let services: Vec<Value> = network.operator.list(&resource::service::KIND).await;
    let names: Vec<_> = services.iter().filter_map(|service| service["name"].as_str()).collect();
    assert_eq!(names, ["early"]);
    // An identity that enrolled before the snapshot is still enrolled, and logs in again.
    let log_in = async || weft_sdk::EndpointBuilder::new().build(file.clone()).await;
    let (endpoint, _) = until("the dialer logs in", PATIENCE, log_in).await;
    let mut stream = dial(&endpoint, "early").await;
    round_trip(&mut stream, "after the restore").await.unwrap();
    network.operator.tunneled("later", server.port(), true).await;
    let mut stream = dial(&endpoint, "later").await;
    round_trip(&mut stream, "news after the restore").await.unwrap();
}
