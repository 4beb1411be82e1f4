//! A network as files: export, diff, apply.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::network::{NetworkFolder, PASSWORD, USER};
use crate::program::{Program, text, weft};
use crate::wait::PATIENCE;

async fn network() -> (NetworkFolder, Program) {
    let place = NetworkFolder::empty();
    let mut network = place.quickstart();
    network.says("The network is up", PATIENCE).await;
    let url = format!("https://localhost:{}", place.control);
    let login = ["login", &url, "-u", USER, "-p", PASSWORD, "--yes"];
    let done = weft(place.folder(), &login).await;
    assert!(done.status.success(), "{}", text(&done));
    (place, network)
}

async fn run(place: &NetworkFolder, status: i32, args: &[&str]) -> String {
    let done = weft(place.folder(), args).await;
    assert_eq!(done.status.code(), Some(status), "weft {args:?}\n{}", text(&done));
    text(&done)
}

/// The example from docs/network-as-code.md.
fn example() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/network-as-code.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, example) = page.split_once("```yaml\n").unwrap();
    let example = example.split("```").next().unwrap();
    // The example's router is replaced with this network's.
    example.replace("@paris", "@quickstart-router")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_lives_in_a_file() {
    let (place, network) = network().await;
    let file = place.folder().join("network.yaml");
    fs::write(&file, example()).unwrap();

    let diff = run(&place, 0, &["diff", "network.yaml"]).await;
    assert!(diff.contains("+ web") && diff.contains("configType: host.v1"), "{diff}");
    assert!(diff.contains("dial web\n      + laptop"), "{diff}");
    assert!(diff.contains("host web\n      + quickstart-router"), "{diff}");
    run(&place, 8, &["diff", "network.yaml", "--exit-code"]).await;
    let dry = run(&place, 0, &["apply", "network.yaml", "--dry-run"]).await;
    assert_eq!(dry, diff);
    let unasked = run(&place, 2, &["apply", "network.yaml"]).await;
    assert!(unasked.contains("--yes"), "{unasked}");

    let json = run(&place, 0, &["diff", "network.yaml", "--output", "json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    let plan = json["plan"].as_str().unwrap();
    let wrong = ["apply", "network.yaml", "--yes", "--expect", "0123456789abcdef0123456789abcdef"];
    let conflict = run(&place, 5, &wrong).await;
    assert!(conflict.contains("nothing was done"), "{conflict}");
    let done = run(&place, 0, &["apply", "network.yaml", "--yes", "--expect", plan]).await;
    assert!(done.contains("5 created"), "{done}");
    let again = run(&place, 0, &["apply", "network.yaml", "--yes"]).await;
    assert!(again.contains("nothing changes"), "{again}");
    run(&place, 0, &["diff", "network.yaml", "--exit-code"]).await;

    // Exported and applied, the network does not change.
    run(&place, 0, &["export", "-o", "all.yaml"]).await;
    let exported = fs::read_to_string(place.folder().join("all.yaml")).unwrap();
    assert!(exported.contains("\nservices:\n  - name: web\n"), "{exported}");
    assert!(!exported.contains("createdAt") && !exported.contains("Default Admin"), "{exported}");
    let back = run(&place, 0, &["diff", "all.yaml", "--prune", "--exit-code"]).await;
    assert!(back.contains("nothing changes"), "{back}");
    run(&place, 0, &["export", "--kinds", "service,configs", "-o", "some.yaml"]).await;
    let some = fs::read_to_string(place.folder().join("some.yaml")).unwrap();
    assert!(!some.contains("identities:"), "{some}");

    // A folder is one document; entities that it does not name are deleted only with `--prune`.
    let folder = place.folder().join("network");
    fs::create_dir(&folder).unwrap();
    let token =
        "identities:\n  - name: phone\n    roleAttributes: [staff]\n    enrollment: {ott: true}\n";
    fs::write(folder.join("identities.yaml"), token).unwrap();
    fs::write(folder.join("services.yaml"), "services: []\n").unwrap();
    let tokens = ["apply", "network", "--yes", "--prune", "--tokens", "tokens"];
    let pruned = run(&place, 0, &tokens).await;
    assert!(pruned.contains("- laptop") && pruned.contains("- web"), "{pruned}");
    assert!(pruned.contains("+ phone"), "{pruned}");
    assert!(place.folder().join("tokens/phone.jwt").is_file(), "{pruned}");
    let left = run(&place, 0, &["list", "service-policies"]).await;
    assert!(left.contains("staff-web"), "{left}");

    // Entities with the same name do not overwrite each other's files, and only the owner can read
    // a token.
    let same =
        "identities:\n  - name: gw\n    enrollment: {ott: true}\nedge-routers:\n  - name: gw\n";
    fs::write(place.folder().join("gw.yaml"), same).unwrap();
    run(&place, 0, &["apply", "gw.yaml", "--yes", "--tokens", "tokens"]).await;
    for file in ["gw.identity.jwt", "gw.edge-router.jwt", "phone.jwt"] {
        let file = place.folder().join("tokens").join(file);
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
        assert!(fs::read_to_string(&file).unwrap().starts_with("ey"));
    }
    let token = fs::read_to_string(place.folder().join("tokens/gw.edge-router.jwt")).unwrap();
    assert_eq!(run(&place, 0, &["jwt", "edge-router", "gw"]).await.trim(), token);
    let taken = ["jwt", "identity", "gw", "-o", "gw.yaml"];
    let taken = run(&place, 1, &taken).await;
    assert!(taken.contains("exists already"), "{taken}");
    assert!(network.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_hosts_do_otherwise_is_remarked_as_by_create() {
    let (place, network) = network().await;
    let data =
        r#"{"protocol":"tcp","address":"a","port":1,"listenOptions":{"connectTimeoutSeconds":60}}"#;
    let create = ["create", "config", "c", "--config-type", "host.v1", "--data", data];
    let created = run(&place, 0, &create).await;
    let remark = created.lines().find_map(|line| line.strip_prefix("weft: host.v1: ")).unwrap();

    let kinds = run(&place, 0, &["list", "config-types", "--output", "json"]).await;
    let kinds: Value = serde_json::from_str(&kinds).unwrap();
    let host = kinds.as_array().unwrap().iter().find(|it| it["name"] == "host.v1").unwrap();
    let id = host["id"].as_str().unwrap();
    let config = |name: &str, kind: &str, data: &str| {
        format!("  - name: {name}\n    configType: {kind}\n    data: {data}\n")
    };
    let good = r#"{"protocol":"tcp","address":"a","port":1}"#;
    let text = ["configs:\n", &config("c", "host.v1", data), &config("good", "host.v1", good)];
    let text = text.concat() + &config("d", "host.v1", data) + &config("e", id, data);
    fs::write(place.folder().join("configs.yaml"), text).unwrap();
    for args in [&["diff", "configs.yaml"][..], &["apply", "configs.yaml", "--yes"]] {
        let told = run(&place, 0, args).await;
        let remarks = told.lines().filter(|line| line.starts_with("weft: ")).collect::<Vec<_>>();
        // The config that `create` made is as the file says; no remark is repeated.
        let place = |line, name| {
            format!("weft: configs.yaml:{line}: configs `{name}`, data: host.v1: {remark}")
        };
        assert_eq!(remarks, [place(10, "d"), place(13, "e")], "{told}");
    }
    assert!(network.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_told_with_their_line_and_change_nothing() {
    let (place, network) = network().await;
    let text = "services:\n  - name: good\n  - name: web\n    configs:\n      - web-hots\n\
                service-policies:\n  - name: p\n    type: Dail\n";
    fs::write(place.folder().join("bad.yaml"), text).unwrap();
    let refused = run(&place, 5, &["apply", "bad.yaml", "--yes"]).await;
    assert!(
        refused.contains("bad.yaml:5: services `web`, configs.0: there is no config"),
        "{refused}"
    );
    assert!(refused.contains("bad.yaml:8: service-policies `p`, type: "), "{refused}");
    assert!(refused.contains("nothing was changed"), "{refused}");
    assert!(run(&place, 0, &["list", "services"]).await.contains("0 services"));
    fs::write(place.folder().join("broken.yaml"), "services:\n  - name: [\n").unwrap();
    let broken = run(&place, 5, &["diff", "broken.yaml"]).await;
    assert!(broken.contains("broken.yaml:"), "{broken}");
    assert!(network.stop().await.success());
}
