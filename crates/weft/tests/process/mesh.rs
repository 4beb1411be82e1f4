//! The mesh as operators look at it: `topology`, `why-path`, links and circuits.

use std::fs;

use serde_json::Value;

use crate::{
    network::{PASSWORD, Place, USER},
    program::{Program, text, weft},
    terminal::Terminal,
    wait::PATIENCE,
};

async fn network() -> (Place, Program) {
    let place = Place::empty();
    let mut network = place.quickstart();
    network.says("The network is up", PATIENCE).await;
    let url = format!("https://localhost:{}", place.control);
    run(&place, 0, &["login", &url, "-u", USER, "-p", PASSWORD, "--yes"]).await;
    (place, network)
}

async fn run(place: &Place, status: i32, args: &[&str]) -> String {
    let done = weft(place.folder(), args).await;
    assert_eq!(done.status.code(), Some(status), "weft {args:?}\n{}", text(&done));
    text(&done)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mesh_is_shown_and_a_dial_explained() {
    let (place, network) = network().await;
    let shown = run(&place, 0, &["topology"]).await;
    assert!(shown.contains("1 router, 1 of them online; 0 links; 0 circuits"), "{shown}");
    assert!(shown.contains("quickstart-router"), "{shown}");
    let shown: Value =
        serde_json::from_str(&run(&place, 0, &["topology", "-o", "json"]).await).unwrap();
    assert_eq!(shown["routers"][0]["name"], "quickstart-router");
    run(&place, 0, &["topology", "--svg", "mesh.svg"]).await;
    let picture = fs::read_to_string(place.folder().join("mesh.svg")).unwrap();
    assert!(picture.starts_with("<svg ") && picture.contains("quickstart-router"), "{picture}");
    run(&place, 2, &["topology", "--watch"]).await;

    run(&place, 0, &["create", "service", "web"]).await;
    let create = ["create", "terminator", "--service", "web", "--router", "quickstart-router"];
    let transport = ["--binding", "transport", "--address", "tcp:127.0.0.1:9", "--cost", "7"];
    run(&place, 0, &[create, transport].concat()).await;
    run(&place, 0, &["create", "identity", "laptop"]).await;
    let why = run(&place, 0, &["why-path", "laptop", "web"]).await;
    assert!(why.contains("✗ laptop may not dial web: no service policy"), "{why}");
    assert!(why.contains("cost 7 = 0 path + 7 terminator + 0 experience"), "{why}");
    let why = run(&place, 0, &["why-path", "quickstart-router", "web", "-o", "json"]).await;
    let why: Value = serde_json::from_str(&why).unwrap();
    assert_eq!(why["entries"][0]["terminators"][0]["verdict"], "chosen");
    let missing = run(&place, 4, &["why-path", "laptop", "web", "--via", "nowhere"]).await;
    assert!(missing.contains("may enter over: quickstart-router"), "{missing}");
    run(&place, 4, &["why-path", "nobody", "web"]).await;

    assert!(run(&place, 0, &["list", "links"]).await.contains("0 links"));
    assert!(run(&place, 0, &["list", "circuits"]).await.contains("0 circuits"));
    assert!(run(&place, 0, &["list", "edge-routers"]).await.contains("quickstart-router"));
    run(&place, 4, &["update", "link", "nothing", "--down"]).await;
    run(&place, 4, &["delete", "circuit", "nothing"]).await;
    assert!(network.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_that_watches_is_as_before_when_that_ends() {
    let (place, network) = network().await;
    for end in ["q", "INT"] {
        let mut terminal = Terminal::start_in(&place, Some(80), &["topology", "--watch", "1"]);
        terminal.says("every 1 s; q ends").await;
        assert!(terminal.said().contains("quickstart-router"), "{}", terminal.said());
        assert!(!terminal.shows_what_is_typed());
        match end {
            "q" => terminal.types("q"),
            signal => terminal.signal(signal),
        }
        let status = terminal.ended().await;
        assert_eq!(status.code(), Some(if end == "q" { 0 } else { 130 }));
        // The screen of before is back, and so is the cursor.
        terminal.says("\u{1b}[?1049l").await;
        assert!(terminal.shows_what_is_typed());
    }
    assert!(network.stop().await.success());
}
