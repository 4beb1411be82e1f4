//! The operator's commands, as scripts and people use them.

use std::fs;

use serde_json::Value;

use crate::network::{NetworkFolder, PASSWORD, USER};
use crate::program::{Program, text, weft};
use crate::wait::PATIENCE;

/// A network with a login named `main`.
async fn network() -> (NetworkFolder, Program) {
    let place = NetworkFolder::empty();
    let mut network = place.quickstart();
    network.says("The network is up", PATIENCE).await;
    let url = format!("https://localhost:{}", place.control);
    let login = ["login", &url, "-u", USER, "-p", PASSWORD, "--yes", "--name", "main"];
    let done = weft(place.folder(), &login).await;
    assert!(done.status.success(), "{}", text(&done));
    (place, network)
}

/// Runs a command that must end with this status, and returns its output.
async fn run(place: &NetworkFolder, status: i32, line: &str) -> String {
    let words = words(line);
    let args: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = weft(place.folder(), &args).await;
    assert_eq!(done.status.code(), Some(status), "weft {line}\n{}", text(&done));
    text(&done)
}

/// Splits at spaces that are not inside single quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, part) in line.split('\'').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_whitespace().map(ToOwned::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_is_made_listed_shown_changed_and_deleted() {
    let (place, network) = network().await;
    run(&place, 0, "create service web --role-attributes intranet,prod").await;
    let made = run(&place, 0, "create identity laptop --role-attributes staff -o laptop.jwt").await;
    assert!(made.contains("enrollment token in laptop.jwt"), "{made}");
    run(&place, 0, "create service-policy staff --type Dial --identity-roles '#staff,@laptop' --service-roles '@web'").await;

    // Lists: filters, order, columns, formats, entities of another entity.
    let listed = run(&place, 0, "list services --columns name,roleAttributes").await;
    assert!(listed.contains("intranet, prod") && listed.contains("1 service"), "{listed}");
    let listed = run(&place, 0, "list services 'name = \"nope\"'").await;
    assert!(listed.contains("0 services"), "{listed}");
    let found = run(&place, 0, "list services 'anyOf(roleAttributes) = \"prod\"' --explain").await;
    let how = "found by: index anyOf(roleAttributes) = \"prod\"; 1 candidate,";
    assert!(found.contains(how), "{found}");
    let json = run(&place, 0, "list identities --sort 'name desc' --output json").await;
    let json: Vec<Value> = serde_json::from_str(&json).unwrap();
    let names: Vec<&str> = json.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["quickstart-router", "laptop", "Default Admin"]);
    let mine = run(&place, 0, "list services --of identity laptop --policy-type dial").await;
    assert!(mine.contains("web"), "{mine}");
    let yaml = run(&place, 0, "show service web --output yaml").await;
    assert!(yaml.contains("roleAttributes:\n  - intranet\n  - prod\n"), "{yaml}");

    // Updates: some members, all members, from a file.
    run(&place, 0, "update service web --max-idle-time-millis 5").await;
    let shown = run(&place, 0, "show service web --output json").await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(
        (&shown["maxIdleTimeMillis"], &shown["encryptionRequired"]),
        (&5.into(), &true.into())
    );
    assert_eq!(shown["roleAttributes"], serde_json::json!(["intranet", "prod"]));
    run(&place, 0, "update service web --replace --role-attributes intranet").await;
    let shown = run(&place, 0, "show service web --output json").await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["name"], &shown["maxIdleTimeMillis"]), (&"web".into(), &0.into()));
    fs::write(place.folder().join("db.yaml"), "name: db\nencryptionRequired: false\n").unwrap();
    run(&place, 0, "create service --from @db.yaml --role-attributes data").await;

    // Mistakes are reported, with a status for scripts.
    let refused = run(&place, 5, "create service web").await;
    let cause = "weft: name must be unique (value `web`) (400 COULD_NOT_VALIDATE)\n";
    assert!(refused.ends_with(cause), "{refused}");
    let missing = run(&place, 4, "show service wbe").await;
    assert!(missing.contains("did you mean `web`?"), "{missing}");
    run(&place, 2, "update service web").await;
    run(&place, 5, "list services 'name ='").await;
    run(&place, 3, "list services --login nobody").await;

    for wrong in ["login foo:99999", "login http://localhost:1", "inspect config --of '['"] {
        run(&place, 2, wrong).await;
    }
    fs::create_dir(place.folder().join("empty")).unwrap();
    fs::write(place.folder().join("bad.yaml"), b"name: \xff\n").unwrap();
    run(&place, 5, "diff empty").await;
    run(&place, 5, "diff bad.yaml").await;
    run(&place, 2, "tunnel run -i empty").await;
    let status = run(&place, 0, "status").await;
    assert!(status.contains("compatible with OpenZiti v"), "{status}");

    // Explanations and actions.
    let why = run(&place, 0, "why laptop web").await;
    assert!(why.contains("✓ Dial policies that allow it: staff"), "{why}");
    assert!(why.contains("no Bind policy holds both"), "{why}");
    run(&place, 0, "disable identity laptop --duration-minutes 5").await;
    assert!(run(&place, 0, "why laptop web").await.contains("the identity is disabled"));
    run(&place, 0, "enable identity laptop").await;
    run(&place, 0, "disable identity laptop").await;
    run(&place, 0, "enable identity laptop").await;
    let traced = run(&place, 0, "trace identity laptop").await;
    assert!(traced.contains("true"), "{traced}");
    let traced = run(&place, 0, "trace identity laptop --enabled=false").await;
    assert!(traced.contains("false"), "{traced}");
    assert!(run(&place, 0, "inspect router-circuits").await.contains("== router-circuits of "));
    assert!(run(&place, 4, "inspect nothing").await.contains("knows nothing"));
    assert!(run(&place, 0, "jwt identity laptop").await.starts_with("ey"));
    let status = run(&place, 0, "status").await;
    assert!(status.contains("Default Admin") && status.contains("services"), "{status}");
    run(&place, 0, "call listSummary").await;

    run(&place, 0, "delete service db web").await;
    assert!(run(&place, 0, "list services").await.contains("0 services"));
    assert!(network.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn logins_are_by_password_certificate_and_name() {
    let (place, network) = network().await;
    run(&place, 0, "create identity robot --is-admin -o robot.jwt").await;
    run(&place, 0, "enroll robot.jwt").await;
    let done = run(&place, 0, "login --identity robot.json --name robot").await;
    assert!(done.contains("as robot"), "{done}");
    assert!(run(&place, 0, "status").await.contains("robot"));
    assert!(run(&place, 0, "status --login main").await.contains("Default Admin"));
    let logins = run(&place, 0, "logins --output json").await;
    let logins: Vec<Value> = serde_json::from_str(&logins).unwrap();
    assert_eq!(logins.len(), 2);
    assert_eq!((&logins[1]["name"], &logins[1]["current"]), (&"robot".into(), &true.into()));
    run(&place, 0, "use main").await;
    assert!(run(&place, 0, "status").await.contains("Default Admin"));
    run(&place, 4, "use nobody").await;
    // Without a name no login takes the place of another user's.
    let by_password = format!("https://localhost:{} -u {USER} -p {PASSWORD} --yes", place.control);
    for (login, name) in [
        (by_password.as_str(), format!("localhost-{}", place.control)),
        ("--identity robot.json", format!("localhost-{}-robot", place.control)),
        ("--identity robot.json", format!("localhost-{}-robot", place.control)),
    ] {
        let done = run(&place, 0, &format!("login {login}")).await;
        assert!(done.contains(&format!("is called `{name}`")), "{done}");
        assert!(!done.contains("replaces"), "{done}");
    }
    run(&place, 0, &format!("login {by_password} --name spare")).await;
    let done = run(&place, 0, "login --identity robot.json --name spare").await;
    let replaces = format!("it replaces the saved login of {USER} at https://localhost");
    assert!(done.contains(&replaces), "{done}");
    run(&place, 0, "use main").await;

    // A login by certificate is renewed after its session was deleted.
    let file = place.folder().join("logins/logins/robot.json");
    let saved = fs::read_to_string(&file).unwrap();
    let mut saved: Value = serde_json::from_str(&saved).unwrap();
    saved["token"] = "gone".into();
    fs::write(&file, saved.to_string()).unwrap();
    assert!(run(&place, 0, "status --login robot").await.contains("robot"));

    // Passwords: another identity's, and one's own.
    run(&place, 0, "password --identity robot --username robby --new-password a-long-secret").await;
    let url = format!("https://localhost:{}", place.control);
    let login = format!("login {url} -u robby -p a-long-secret --name robby");
    assert!(run(&place, 0, &login).await.contains("as robot"));
    run(&place, 0, "password --current-password a-long-secret --new-password another-secret").await;
    let refused = run(&place, 1, &login).await;
    assert!(refused.contains("wrong user name or password"), "{refused}");
    run(&place, 0, "create identity late -o late.jwt").await;
    run(&place, 0, "logout robby").await;
    assert!(!run(&place, 0, "logins").await.contains("robby"));
    run(&place, 0, "logout --all").await;
    let out = run(&place, 3, "status").await;
    assert!(out.contains("weft login"), "{out}");
    assert!(network.stop().await.success());

    // An unreachable controller has a status of its own.
    run(&place, 6, &format!("login {url} --ca home/pki/root.crt -p any-password")).await;
    run(&place, 6, "enroll late.jwt").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shells_are_offered_the_names_in_the_network() {
    let (place, network) = network().await;
    run(&place, 0, "create service web-1").await;
    run(&place, 0, "create service web-2").await;
    let script = run(&place, 0, "completions bash").await;
    assert!(script.contains("WEFT_COMPLETE"), "{script}");
    run(&place, 0, "completions fish --static").await;
    let offered = async |words: &[&str]| {
        let mut command = tokio::process::Command::new(crate::program::WEFT);
        command.env("WEFT_COMPLETE", "bash");
        command.env("WEFT_CONFIG_DIR", place.folder().join("logins"));
        command.arg("--").arg(words.join(" ")).arg(" \t\n\"'@><=;|&(:").kill_on_drop(true);
        text(&command.output().await.unwrap())
    };
    let kinds = offered(&["weft", "list", "serv"]).await;
    assert!(kinds.contains("services") && kinds.contains("service-policies"), "{kinds}");
    for words in [&["weft", "--login", ""][..], &["weft", "list", "services", "--login", "ma"]] {
        assert_eq!(offered(words).await.trim(), "main", "{words:?}");
    }
    let kinds = offered(&["weft", "--login", "main", "list", "serv"]).await;
    assert!(kinds.contains("services"), "{kinds}");
    // On a busy machine the answer may be too late for a completion, which is then empty.
    let look = async || {
        let names = offered(&["weft", "show", "service", "web"]).await;
        if names.contains("web-1") && names.contains("web-2") { Ok(()) } else { Err(names) }
    };
    crate::wait::until("names are offered", PATIENCE, look).await;
    // A name with a space is one word.
    let policy = ["weft", "create", "service-policy", "p", "--identity-roles", "@Def"];
    for words in [&["weft", "show", "identity", "Def"][..], &policy] {
        let look = async || {
            let names = offered(words).await;
            let name = names.trim().trim_start_matches('@');
            if name == r"Default\ Admin" { Ok(()) } else { Err(names) }
        };
        crate::wait::until("a name with a space is offered", PATIENCE, look).await;
    }
    assert!(network.stop().await.success());
}
