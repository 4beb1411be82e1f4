//! Identities with a second factor at the command line.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};
use weft_contract::resource;

use crate::network::{NetworkFolder, PASSWORD, USER};
use crate::operator::Operator;
use crate::program::{Program, WEFT, text};
use crate::terminal::Terminal;
use crate::wait::PATIENCE;

/// A network with the identity `laptop`, an administrator with a second factor.
struct Scene {
    operator: Operator,
    laptop: String,
    /// Codes for a time without the app, each good once.
    codes: Vec<String>,
    _network: Program,
    place: NetworkFolder,
}

/// Exit status and output of a command that cannot ask: it is in the background, and its input is data.
async fn weft(
    place: &NetworkFolder,
    environment: &[(&str, &str)],
    args: &[&str],
) -> (Option<i32>, String) {
    let mut command = tokio::process::Command::new(WEFT);
    command.envs(environment.iter().copied()).process_group(0);
    command.args(args).current_dir(place.folder());
    command.env("WEFT_CONFIG_DIR", place.folder().join("logins")).env_remove("RUST_LOG");
    command.stdin(Stdio::null()).kill_on_drop(true);
    let done = tokio::time::timeout(PATIENCE, command.output()).await.unwrap().unwrap();
    (done.status.code(), text(&done))
}

/// Sets up the second factor of the identity that these arguments name: the secret of the app goes into a file, from
/// which the command takes the first code. Returns the recovery codes.
async fn set_up(place: &NetworkFolder, of: &[&str], secret: &str) -> Vec<String> {
    let begin = [&["second-factor"][..], of].concat();
    let (status, said) = weft(place, &[], &begin).await;
    assert_eq!(status, Some(5), "{said}");
    let url = said.lines().find_map(|line| line.strip_prefix("for the authenticator app: "));
    fs::write(place.folder().join(secret), url.unwrap()).unwrap();
    let codes = said.lines().filter(|line| line.starts_with("  ") && !line.contains("hint"));
    let codes: Vec<String> = codes.flat_map(str::split_whitespace).map(str::to_owned).collect();
    assert_eq!(codes.len(), 20, "{said}");
    let complete = [&begin[..], &["--totp-secret-file", secret]].concat();
    let (status, said) = weft(place, &[], &complete).await;
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("the second factor is complete"), "{said}");
    let (status, said) = weft(place, &[], &complete).await;
    assert_eq!(status, Some(5), "{said}");
    assert!(said.contains("has a second factor already"), "{said}");
    codes
}

impl Scene {
    async fn start() -> Self {
        let place = NetworkFolder::empty();
        let mut network = place.quickstart();
        network.says("The network is up", PATIENCE).await;
        let operator = Operator::log_in(place.control).await;
        let body = json!({"name": "laptop", "type": "Default", "isAdmin": true,
            "enrollment": {"ott": true}});
        let laptop = operator.create(&resource::identity::KIND, &body).await;
        let made: Value = operator.client.get(&resource::identity::KIND, &laptop).await.unwrap();
        let token = made.pointer("/enrollment/ott/jwt").and_then(Value::as_str).unwrap();
        let file = weft_sdk::enroll(token).await.unwrap();
        file.write(&place.folder().join("laptop.json")).unwrap();

        let codes = set_up(&place, &["-i", "laptop.json"], "laptop.totp").await;
        Self { operator, laptop, codes, _network: network, place }
    }

    fn code(&mut self) -> String {
        self.codes.pop().unwrap()
    }

    /// Ends the sessions of the identity.
    async fn end_sessions(&self) {
        let all: Vec<Value> =
            self.operator.client.list(&resource::session::KIND, None).await.unwrap();
        for session in all.iter().filter(|session| session["identityId"] == *self.laptop) {
            let id = session["id"].as_str().unwrap();
            self.operator.client.delete(&resource::session::KIND, id).await.unwrap();
        }
    }

    async fn weft(&self, environment: &[(&str, &str)], args: &[&str]) -> (Option<i32>, String) {
        weft(&self.place, environment, args).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_with_a_second_factor_is_asked_for_its_code() {
    let mut scene = Scene::start().await;
    let login = ["login", "-i", "laptop.json", "--name", "laptop"];
    let (status, said) = scene.weft(&[], &login).await;
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("asks for a code of the identity's second factor"), "{said}");
    assert!(said.contains("hint: give --code"), "{said}");
    let (status, said) = scene.weft(&[("WEFT_CODE", "nonsense")], &login).await;
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("refused the code of the second factor"), "{said}");
    let code = scene.code();
    let (status, said) = scene.weft(&[("WEFT_CODE", &code)], &login).await;
    assert_eq!(status, Some(0), "{said}");
    let list = ["list", "services", "--login", "laptop"];
    let (status, said) = scene.weft(&[], &list).await;
    assert_eq!(status, Some(0), "{said}");

    // The session ends: a later command needs another code, and says so.
    scene.end_sessions().await;
    let (status, said) = scene.weft(&[], &list).await;
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("the session of the login `laptop` has ended"), "{said}");
    assert!(said.contains("WEFT_CODE"), "{said}");
    let code = scene.code();
    let (status, said) = scene.weft(&[("WEFT_CODE", &code)], &list).await;
    assert_eq!(status, Some(0), "{said}");

    let mut at = Terminal::start(&scene.place, &login);
    at.says("Code of laptop (second factor): ").await;
    at.types("nonsense\n");
    at.says("The controller refused the code. Code of laptop").await;
    at.types(&format!("{}\n", scene.code()));
    at.says("logged in to").await;
    assert!(at.ended().await.success());
    scene.end_sessions().await;
    let mut at = Terminal::start(&scene.place, &list);
    at.says("Code of laptop (second factor): ").await;
    at.types(&format!("{}\n", scene.code()));
    assert!(at.ended().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_input_is_data_asks_at_its_terminal() {
    let mut scene = Scene::start().await;
    let dial = "\"$WEFT\" dial web -i laptop.json < laptop.totp";
    let mut at = Terminal::start_apart(&scene.place, dial);
    at.says("Code of laptop (second factor): ").await;
    at.types(&format!("{}\n", scene.code()));
    at.says("there is no service `web`").await;
    assert_eq!(at.ended().await.code(), Some(4));
    // In the background of the terminal, a command that reads would be stopped.
    let behind = format!("set -m; {dial} & wait $!; echo \"status $?\"");
    let mut at = Terminal::start_apart(&scene.place, &behind);
    at.says("status 3").await;
    assert!(at.ended().await.success());
    assert!(!at.said().contains("Code of laptop"), "{}", at.said());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_makes_its_codes_from_the_secret() {
    let scene = Scene::start().await;
    // The present code was used to complete the second factor: the next one counts.
    let secret = [("WEFT_TOTP_SECRET_FILE", "laptop.totp")];
    let folder = scene.place.folder();
    let log = folder.join("run.log");
    let socket = folder.join("run.sock");
    // Of two identities, one has a secret.
    fs::copy(folder.join("laptop.json"), folder.join("other.json")).unwrap();
    let both = ["tunnel", "run-host", "-i", "laptop.json", "other.json"];
    let own = ["--totp-secret-file", "laptop=laptop.totp", "--socket", socket.to_str().unwrap()];
    let run = [&both[..], &own].concat();
    let mut tunneler = Program::start(&log, &run);
    tunneler.says("tunneling identity=laptop", PATIENCE).await;
    #[cfg(unix)]
    assert!(
        tunneler.said().contains("every user of this machine may read the secret of"),
        "{}",
        tunneler.said()
    );
    assert!(tunneler.stop().await.success());

    let (status, said) = scene.weft(&secret, &both).await;
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("--totp-secret-file laptop.json=laptop.totp"), "{said}");
    let apart = [("WEFT_TOTP_SECRET_FILE", "server=laptop.totp")];
    let (status, said) = scene.weft(&apart, &both).await;
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("none of the identities: laptop.json, other.json"), "{said}");
    fs::write(folder.join("laptop.totp"), "no secret!").unwrap();
    let (status, said) = scene.weft(&secret, &["dial", "web", "-i", "laptop.json"]).await;
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("laptop.totp: the secret of the second factor"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_with_a_password_has_a_second_factor_too() {
    let place = NetworkFolder::empty();
    let mut network = place.quickstart();
    network.says("The network is up", PATIENCE).await;
    let url = format!("https://localhost:{}", place.control);
    let login = ["login", &url, "-u", USER, "-p", PASSWORD, "--yes"];
    let (status, said) = weft(&place, &[], &login).await;
    assert_eq!(status, Some(0), "{said}");
    let mut codes = set_up(&place, &[], "admin.totp").await;
    // The session in which the second factor was set up stays.
    let (status, said) = weft(&place, &[], &["list", "services"]).await;
    assert_eq!(status, Some(0), "{said}");
    let (status, said) = weft(&place, &[], &login).await;
    assert_eq!(status, Some(3), "{said}");
    let code = codes.pop().unwrap();
    let (status, said) = weft(&place, &[], &[&login[..], &["--code", &code]].concat()).await;
    assert_eq!(status, Some(0), "{said}");
    let (status, said) = weft(&place, &[], &["list", "services"]).await;
    assert_eq!(status, Some(0), "{said}");
}
