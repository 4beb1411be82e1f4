//! The mesh for operators: `topology`, `why-path`, links and circuits.

use std::fs;

use serde_json::Value;

use crate::network::{NetworkFolder, PASSWORD, USER};
use crate::program::{Program, text, weft};
use crate::terminal::Terminal;
use crate::wait::{PATIENCE, until};

async fn network() -> (NetworkFolder, Program) {
    let place = NetworkFolder::empty();
    let mut network = place.quickstart();
    network.says("The network is up", PATIENCE).await;
    log_in(&place, USER, PASSWORD).await;
    (place, network)
}

async fn log_in(place: &NetworkFolder, user: &str, password: &str) {
    let url = format!("https://localhost:{}", place.control);
    run(place, 0, &["login", &url, "-u", user, "-p", password, "--yes"]).await;
}

async fn run(place: &NetworkFolder, status: i32, args: &[&str]) -> String {
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
    let refused = run(&place, 2, &["topology", "--watch"]).await;
    assert!(refused.contains("`weft topology` prints it once"), "{refused}");
    run(&place, 2, &["topology", "--svg", "mesh.svg", "-o", "json"]).await;

    run(&place, 0, &["create", "service", "web"]).await;
    let create = ["create", "terminator", "--service", "web", "--router", "quickstart-router"];
    let transport = ["--binding", "transport", "--address", "tcp:127.0.0.1:9", "--cost", "7"];
    run(&place, 0, &[create, transport].concat()).await;
    run(&place, 0, &["create", "identity", "laptop"]).await;
    let why = run(&place, 0, &["why-path", "laptop", "web"]).await;
    assert!(why.contains("✗ laptop may not dial web: no service policy"), "{why}");
    assert!(why.contains("cost 7 = 0 path + 7 terminator + 0 experience"), "{why}");
    assert!(why.contains("would be dialed if it were allowed"), "{why}");
    let why = run(&place, 0, &["why-path", "quickstart-router", "web", "-o", "json"]).await;
    let why: Value = serde_json::from_str(&why).unwrap();
    assert_eq!(why["entries"][0]["terminators"][0]["verdict"], "chosen");
    let missing = run(&place, 4, &["why-path", "laptop", "web", "--via", "nowhere"]).await;
    assert!(missing.contains("may enter over: quickstart-router"), "{missing}");
    for (from, service, says) in [
        ("nobody", "web", "there is no identity or router with the name or id `nobody`"),
        ("..", "web", "there is no identity or router with the name or id `..`"),
        ("", "web", "`weft list identities` and `weft list edge-routers` show what there is"),
        ("laptop", "wbe", "there is no service with the name or id `wbe`"),
        ("laptop", "..", "there is no service with the name or id `..`"),
    ] {
        let said = run(&place, 4, &["why-path", from, service]).await;
        assert_eq!(said.matches(says).count(), 1, "{said}");
    }

    assert!(run(&place, 0, &["list", "links"]).await.contains("0 links"));
    let refused = run(&place, 2, &["list", "links", "--columns", "id,bogus"]).await;
    assert!(refused.contains("--columns bogus: links have no such member"), "{refused}");
    let explained = run(&place, 0, &["list", "links", "--explain"]).await;
    assert!(explained.contains("looking at all; links are in memory"), "{explained}");
    assert!(run(&place, 0, &["list", "circuits"]).await.contains("0 circuits"));
    assert!(run(&place, 0, &["list", "edge-routers"]).await.contains("quickstart-router"));
    run(&place, 4, &["update", "link", "nothing", "--down"]).await;
    run(&place, 4, &["delete", "circuit", "nothing"]).await;
    assert!(network.stop().await.success());
}

/// Waits until a dial of the first router's tunneler takes this path.
async fn goes(place: &NetworkFolder, path: &str) -> String {
    let look = async || {
        let done = weft(place.folder(), &["why-path", "quickstart-router", "web"]).await;
        let said = text(&done);
        if said.contains(&format!("path       {path} = ")) { Ok(said) } else { Err(said) }
    };
    until(&format!("the path is {path}"), PATIENCE, look).await.0
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_go_around_links_that_are_down_or_dear() {
    let place = NetworkFolder::empty();
    let mut network = place.several("3");
    network.says("The network is up", PATIENCE * 2).await;
    log_in(&place, USER, PASSWORD).await;
    let look = async || {
        let shown = text(&weft(place.folder(), &["topology"]).await);
        let is_whole = shown.contains("3 routers, 3 of them online; 3 links; ");
        if is_whole { Ok(shown) } else { Err(shown) }
    };
    let (shown, _) = until("all routers are linked", PATIENCE, look).await;
    assert_eq!(shown.matches('●').count(), 3, "{shown}");

    run(&place, 0, &["create", "service", "web"]).await;
    let create = ["create", "terminator", "--service", "web", "--router", "quickstart-router-3"];
    let transport = ["--binding", "transport", "--address", "tcp:127.0.0.1:9"];
    run(&place, 0, &[&create[..], &transport].concat()).await;
    let direct = "quickstart-router → quickstart-router-3";
    let detour = "quickstart-router → quickstart-router-2 → quickstart-router-3";
    goes(&place, direct).await;

    let links = run(&place, 0, &["list", "links", "-o", "json"]).await;
    let links: Vec<Value> = serde_json::from_str(&links).unwrap();
    assert_eq!(links.len(), 3, "{links:?}");
    let ends = |link: &Value| {
        let mut ends = [&link["sourceRouter"]["name"], &link["destRouter"]["name"]]
            .map(|name| name.as_str().unwrap().to_owned());
        ends.sort();
        ends
    };
    let ours = ["quickstart-router", "quickstart-router-3"];
    let link = links.iter().find(|link| ends(link) == ours).unwrap()["id"].as_str().unwrap();

    run(&place, 0, &["update", "link", link, "--down"]).await;
    let why = goes(&place, detour).await;
    assert!(why.contains(&format!("barred     {direct} = ")), "{why}");
    assert!(why.contains(&format!("link {link} between")), "{why}");
    let shown = run(&place, 0, &["topology"]).await;
    assert!(shown.contains("3 links, 1 of them down"), "{shown}");
    run(&place, 0, &["update", "link", link, "--down=false"]).await;
    goes(&place, direct).await;
    run(&place, 0, &["update", "link", link, "--static-cost", "500000"]).await;
    let why = goes(&place, detour).await;
    assert!(why.contains(&format!("other path {direct} = ")), "{why}");

    // A login that may not list routers sees those with links, and nothing is invented about them.
    let permissions = ["--permissions", "ops.read"];
    run(&place, 0, &[&["create", "identity", "watcher"][..], &permissions].concat()).await;
    let create = ["create", "authenticator", "--identity", "watcher", "--method", "updb"];
    let secret = ["--username", "watcher", "--password", "weft-watcher"];
    run(&place, 0, &[&create[..], &secret].concat()).await;
    log_in(&place, "watcher", "weft-watcher").await;
    let shown = run(&place, 0, &["topology"]).await;
    assert!(shown.contains("only routers with links: this login may not list routers"), "{shown}");
    assert!(!shown.contains("online") && !shown.contains('●'), "{shown}");
    let shown: Value =
        serde_json::from_str(&run(&place, 0, &["topology", "-o", "json"]).await).unwrap();
    assert_eq!(shown["routers"].as_array().unwrap().len(), 3, "{shown}");
    assert!(shown["routers"][0]["connected"].is_null(), "{shown}");
    log_in(&place, USER, PASSWORD).await;
    let grant = ["update", "identity", "watcher", "--permissions", "ops.read,router.read"];
    run(&place, 0, &grant).await;
    log_in(&place, "watcher", "weft-watcher").await;
    let shown = run(&place, 0, &["topology"]).await;
    assert!(shown.contains("3 routers, 3 of them online"), "{shown}");
    assert!(network.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_that_watches_is_as_before_when_that_ends() {
    let (place, network) = network().await;
    for end in ["q", "INT"] {
        let mut terminal = Terminal::start_in(&place, Some(80), &["topology", "--watch", "1"]);
        terminal.says("every 1 s; q or Ctrl-C ends").await;
        assert!(terminal.said().contains("quickstart-router"), "{}", terminal.said());
        assert!(!terminal.shows_what_is_typed() && !terminal.can_be_stopped());
        match end {
            "q" => terminal.types("q"),
            signal => terminal.signal(signal),
        }
        let status = terminal.ended().await;
        assert_eq!(status.code(), Some(if end == "q" { 0 } else { 130 }));
        // The former screen and the cursor are restored.
        terminal.says("\u{1b}[?1049l").await;
        assert!(terminal.shows_what_is_typed() && terminal.can_be_stopped());
        assert!(!terminal.said().contains("interrupted"), "{}", terminal.said());
    }
    assert!(network.stop().await.success());
}
