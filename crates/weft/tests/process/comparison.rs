//! `weft controller import --compare`: two controllers with the same database, of which one was changed.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use weft_contract::resource;

use crate::network::{NetworkFolder, PASSWORD, USER, free_port};
use crate::operator::Operator;
use crate::program::{Program, text, weft};

/// Copies a folder's files.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// A controller with a copy of a network's database, keys and file, on another port.
fn copied(place: &NetworkFolder, port: u16) -> Program {
    let (home, twin) = (place.home(), place.folder().join("twin"));
    copy(&home, &twin);
    let file = twin.join("controller.yaml");
    let (home, twin) = (home.to_str().unwrap(), twin.to_str().unwrap());
    let config = fs::read_to_string(&file).unwrap().replace(home, twin);
    fs::write(&file, config.replace(&place.control.to_string(), &port.to_string())).unwrap();
    place.start("twin", &["controller", "run", file.to_str().unwrap()])
}

async fn run(place: &NetworkFolder, args: &[&str]) -> (Option<i32>, String) {
    let output = weft(place.folder(), args).await;
    (output.status.code(), text(&output))
}

/// The members that are different, each as kind, name, member and both values.
fn told(said: &str) -> Vec<String> {
    let end = said.rfind("\n}").unwrap();
    let values: Value = serde_json::from_str(&said[..end + 2]).unwrap();
    let all = values["differences"].as_array().unwrap();
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let row = |one: &Value| {
        let cells = ["kind", "name", "member", "original", "weft"].map(|member| word(&one[member]));
        cells.join(" | ")
    };
    let mut rows: Vec<String> = all.iter().map(row).collect();
    rows.sort();
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn two_controllers_are_compared_and_what_one_changed_is_told() {
    let place = NetworkFolder::made().await;
    let controller = place.start_controller();
    let operator = Operator::log_in(place.control).await;
    operator.allow_everybody().await;
    let service = |name: &str| json!({"name": name, "encryptionRequired": true});
    let first = operator.create(&resource::service::KIND, &service("first")).await;
    operator.create(&resource::service::KIND, &service("second")).await;
    let person = json!({"name": "ann", "type": "Default", "isAdmin": false});
    operator.create(&resource::identity::KIND, &person).await;
    assert!(controller.stop().await.success());

    let port = free_port();
    let _weft = copied(&place, port);
    let _original = place.start_controller();
    let operator = Operator::log_in(place.control).await;
    let changed = Operator::log_in(port).await;
    let (original, weft) = (format!("localhost:{}", place.control), format!("localhost:{port}"));
    let compare = ["controller", "import", "--compare", &original, "--output", "json"];
    let (status, said) = run(&place, &compare).await;
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("there is no saved login at"), "{said}");
    for (address, name) in [(&original, "original"), (&weft, "weft")] {
        let login = ["login", address, "-u", USER, "-p", PASSWORD, "--yes", "--name", name];
        let (status, said) = run(&place, &login).await;
        assert_eq!(status, Some(0), "{said}");
    }

    // They are the same.
    let (status, said) = run(&place, &compare).await;
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(told(&said), Vec::<String>::new());
    let (status, said) = run(&place, &compare[..4]).await;
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("no differences"), "{said}");
    assert!(!place.folder().join("weft-compare.json").exists());

    // A service has another name, the policy to dial is gone, and an identity is new.
    let name = json!({"name": "renamed"});
    let patch = resource::service::KIND.patch().unwrap();
    let _: Value = changed.client.call(patch, &[&first], &[], Some(&name)).await.unwrap();
    let policies = changed.list(&resource::service_policy::KIND).await;
    let dial = policies.iter().find(|policy| policy["type"] == "Dial").unwrap();
    let (id, policy) = (dial["id"].as_str().unwrap(), dial["name"].as_str().unwrap().to_owned());
    changed.client.delete(&resource::service_policy::KIND, id).await.unwrap();
    changed
        .create(
            &resource::identity::KIND,
            &json!({"name": "new", "type": "Default", "isAdmin": false}),
        )
        .await;
    let (status, said) = run(&place, &compare).await;
    assert_eq!(status, Some(8), "{said}");
    let rows = told(&said);
    for wanted in [
        "service | first | name | first | renamed".to_owned(),
        format!("service-policy | {policy} | entity | {policy} | null"),
        "identity | new | entity | null | new".to_owned(),
        "identity | ann | advice for service second: isDialAllowed | true | false".to_owned(),
    ] {
        assert!(rows.contains(&wanted), "{wanted}\n{rows:#?}");
    }
    // Who may dial them may host them, too: the lists of services are the same.
    assert!(!rows.iter().any(|row| row.contains("| services |")), "{rows:#?}");
    let (status, said) = run(&place, &compare[..4]).await;
    assert_eq!(status, Some(8), "{said}");
    assert!(said.contains("renamed") && said.contains("differences beside those of"), "{said}");

    // Without the other policy there is no service left.
    let bind = policies.iter().find(|policy| policy["type"] == "Bind").unwrap();
    let id = bind["id"].as_str().unwrap();
    changed.client.delete(&resource::service_policy::KIND, id).await.unwrap();
    let state = ["--pairs", "0", "--state", "far.json"];
    let (status, said) = run(&place, &[&compare[..], &state[..]].concat()).await;
    assert_eq!(status, Some(8), "{said}");
    let rows = told(&said);
    let lost = rows.iter().find(|row| row.starts_with("identity | ann | services"));
    assert!(lost.is_some_and(|row| row.contains("second")), "{rows:#?}");
    assert!(!rows.iter().any(|row| row.contains("advice")), "{rows:#?}");
    drop(operator);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_goes_on_where_it_ended() {
    let place = NetworkFolder::made().await;
    let port = free_port();
    let twin = copied(&place, port);
    let _original = place.start_controller();
    drop(Operator::log_in(port).await);
    let operator = Operator::log_in(place.control).await;
    let (original, weft) = (format!("localhost:{}", place.control), format!("localhost:{port}"));
    for (address, name) in [(&original, "original"), (&weft, "weft")] {
        let login = ["login", address, "-u", USER, "-p", PASSWORD, "--yes", "--name", name];
        let (status, said) = run(&place, &login).await;
        assert_eq!(status, Some(0), "{said}");
    }
    // A state as an earlier run has left it: all identities but the last are done, and a difference was found.
    let identities = operator.list(&resource::identity::KIND).await;
    let last = identities.iter().filter_map(|identity| identity["id"].as_str()).max().unwrap();
    let difference = json!({
        "kind": "identity", "id": "earlier", "name": "earlier", "member": "services", "original": "a", "weft": null, "known": null,
    });
    let mut state = json!({
        "original": format!("https://{original}"), "weft": format!("https://{weft}"), "pairs": 5, "lastIdentity": last,
        "pairsDone": 0, "found": {"differences": [difference], "unlisted": 0},
    });
    let file = place.folder().join("far.json");
    fs::write(&file, state.to_string()).unwrap();
    let compare = [
        "controller",
        "import",
        "--compare",
        "original",
        "--pairs",
        "5",
        "--state",
        "far.json",
        "--output",
        "json",
    ];
    let (status, said) = run(&place, &compare).await;
    assert_eq!(status, Some(8), "{said}");
    assert_eq!(told(&said), ["identity | earlier | services | a | null"]);
    assert!(!file.exists(), "the comparison is complete");

    // The state of another comparison is no state of this one, and stays.
    state["weft"] = json!("https://other:1280");
    fs::write(&file, state.to_string()).unwrap();
    let (status, said) = run(&place, &compare).await;
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("name another file with --state") && file.exists(), "{said}");
    fs::remove_file(&file).unwrap();

    // Nobody answers in place of weft: the reason is told.
    twin.kill();
    let (status, said) = run(&place, &compare).await;
    assert_eq!(status, Some(6), "{said}");
}
