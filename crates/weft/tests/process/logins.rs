//! Logins by OpenID Connect: on the pages of the controller (`weft login --browser` and `--device`), with a password and
//! with a certificate.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use weft_client::{ControllerAddress, trust};
use weft_contract::resource;
use weft_identity::tls::{ALPN_HTTP1, ClientTls, client_config};

use crate::network::{NetworkFolder, PASSWORD, USER};
use crate::operator::Operator;
use crate::program::{Program, text, weft};
use crate::wait::{PATIENCE, until};

/// A network, and a person with a browser.
struct Scene {
    operator: Operator,
    browser: Client,
    controller: String,
    _network: Program,
    place: NetworkFolder,
}

impl Scene {
    async fn start() -> Self {
        let place = NetworkFolder::empty();
        let mut network = place.quickstart();
        network.says("The network is up", PATIENCE).await;
        let operator = Operator::log_in(place.control).await;
        let address: ControllerAddress = format!("localhost:{}", place.control).parse().unwrap();
        let bundle = trust::meet(&address).await.unwrap().bundle;
        let tls = client_config(&ClientTls::anonymous(bundle, &[ALPN_HTTP1])).unwrap();
        let browser = Client::builder()
            .tls_backend_preconfigured(tls)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(PATIENCE)
            .build()
            .unwrap();
        Self { operator, browser, controller: address.to_string(), _network: network, place }
    }

    /// Begins a login; what it says has this word.
    async fn begin(&self, how: &str, says: &str) -> Program {
        let url = self.controller.as_str();
        let args = ["login", url, how, "--yes", "--name", "person"];
        let nowhere = [("DISPLAY", String::new()), ("WAYLAND_DISPLAY", String::new())];
        let log = self.place.folder().join("login.log");
        let mut program = Program::start_in(&nowhere, &log, &args);
        program.says(says, PATIENCE).await;
        program
    }

    async fn weft(&self, args: &[&str]) -> (Option<i32>, String) {
        let done = weft(self.place.folder(), args).await;
        (done.status.code(), text(&done))
    }

    fn file(&self) -> PathBuf {
        self.place.folder().join("logins/logins/person.json")
    }

    fn saved(&self) -> Value {
        serde_json::from_slice(&fs::read(self.file()).unwrap()).unwrap()
    }

    /// Lets the access token of the saved login seem to have ended.
    fn end_access(&self) {
        let mut saved = self.saved();
        saved["tokens"]["endsAt"] = json!("2020-01-01T00:00:00.000Z");
        fs::write(self.file(), saved.to_string()).unwrap();
    }

    /// Runs a command that succeeds; what it said.
    async fn does(&self, args: &[&str]) -> String {
        let (status, said) = self.weft(args).await;
        assert_eq!(status, Some(0), "{args:?}: {said}");
        said
    }

    /// The ids of the sessions by tokens, which are UUIDs.
    async fn by_tokens(&self) -> Vec<String> {
        let all = self.operator.list(&resource::session::KIND).await;
        let ids = all.iter().map(|session| session["id"].as_str().unwrap().to_owned());
        ids.filter(|id| id.len() == 36).collect()
    }

    async fn sessions(&self) -> usize {
        self.by_tokens().await.len()
    }

    /// Sends the form of a page.
    async fn submit(&self, url: &str, form: &[(&str, &str)], cookie: &str) -> Response {
        let form = reqwest::Url::parse_with_params("http://form", form).unwrap();
        let body = form.query().unwrap().to_owned();
        let request = self.browser.post(url).body(body);
        self.page(request.header("content-type", "application/x-www-form-urlencoded"), cookie).await
    }

    async fn page(&self, request: RequestBuilder, cookie: &str) -> Response {
        request.header("accept", "text/html").header("cookie", cookie).send().await.unwrap()
    }
}

fn header(response: &Response, name: &str) -> String {
    let value = response.headers().get(name);
    value.unwrap_or_else(|| panic!("no {name}: {response:?}")).to_str().unwrap().to_owned()
}

/// The word behind these words in the output.
fn word_behind<'s>(said: &'s str, words: &str) -> &'s str {
    said.split_once(words).unwrap().1.split_whitespace().next().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_in_a_browser_is_refreshed_by_commands_that_run_at_once() {
    let scene = Scene::start().await;
    let mut login = scene.begin("--browser", "waiting for the login").await;
    let said = login.said();
    let authorize = word_behind(&said, "another one):");
    let begun = scene.browser.get(authorize).send().await.unwrap();
    let place = header(&begun, "location");
    let id = place.split_once("authRequestID=").unwrap().1;
    let body = json!({"id": id, "username": USER, "password": PASSWORD});
    let step = format!("{}/oidc/login/password", scene.controller);
    let done = scene.browser.post(step).json(&body).send().await.unwrap();
    let callback = scene.browser.get(header(&done, "location")).send().await.unwrap();
    let back = scene.browser.get(header(&callback, "location")).send().await.unwrap();
    assert_eq!(back.status(), 200);
    assert!(back.text().await.unwrap().contains("You are logged in"));
    assert!(login.ended().await.success());
    assert_eq!(fs::metadata(scene.file()).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(scene.sessions().await, 1);
    let list = ["list", "services", "--login", "person"];
    let (status, said) = scene.weft(&list).await;
    assert_eq!(status, Some(0), "{said}");

    // The access token seems to have ended: several commands refresh it at once, twice.
    for _ in 0..2 {
        let before = scene.saved()["token"].clone();
        scene.end_access();
        let all = (0..4).map(|_| scene.weft(&list));
        for (status, said) in futures::future::join_all(all).await {
            assert_eq!(status, Some(0), "{said}");
        }
        assert_ne!(scene.saved()["token"], before);
    }
    assert_eq!(scene.sessions().await, 1, "it is one session");

    // The key is not in the tokens: they are worth nothing without the file's.
    let saved = scene.saved();
    let own = format!("{}/edge/management/v1/current-identity", scene.controller);
    let copied = scene.browser.get(own).bearer_auth(saved["token"].as_str().unwrap());
    assert_eq!(copied.send().await.unwrap().status(), 401);

    let (status, said) = scene.weft(&["logout", "person"]).await;
    assert_eq!(status, Some(0), "{said}");
    assert!(!said.contains("could not be ended"), "{said}");
    assert!(!scene.file().exists());
    assert_eq!(scene.sessions().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_with_a_code_waits_for_a_person_elsewhere() {
    let scene = Scene::start().await;
    let mut login = scene.begin("--device", "waiting for the login").await;
    let said = login.said();
    let (url, code) =
        (word_behind(&said, "to log in, open "), word_behind(&said, "enter the code "));
    let entered = scene.submit(url, &[("user_code", code)], "").await;
    let cookie = header(&entered, "set-cookie").split(';').next().unwrap().to_owned();
    let place = header(&entered, "location");
    let id = place.split_once("authRequestID=").unwrap().1;
    let at = |path: &str| format!("{}{path}", scene.controller);
    let form = [("id", id), ("username", USER), ("password", PASSWORD)];
    let logged = scene.submit(&at("/oidc/login/username"), &form, &cookie).await;
    let to = header(&logged, "location");
    let to = if to.starts_with('/') { at(&to) } else { to };
    let question = scene.page(scene.browser.get(to), &cookie).await.text().await.unwrap();
    assert!(question.contains("weft/"), "it names the program: {question}");
    let form = [("id", id), ("decision", "agree")];
    let agreed = scene.submit(&at("/oidc/device/consent"), &form, &cookie).await;
    assert_eq!(agreed.status(), 200);
    assert!(login.ended().await.success());
    let (status, said) = scene.weft(&["status", "--login", "person"]).await;
    assert_eq!(status, Some(0), "{said}");

    // An administrator ends the session.
    let all = scene.operator.list(&resource::session::KIND).await;
    let own = all.iter().find(|session| session["id"].as_str().unwrap().len() == 36).unwrap();
    scene
        .operator
        .client
        .delete(&resource::session::KIND, own["id"].as_str().unwrap())
        .await
        .unwrap();
    let look = async || match scene.weft(&["list", "services", "--login", "person"]).await {
        (Some(3), said) if said.contains("the session of the login `person` has ended") => Ok(()),
        other => Err(other),
    };
    until("the login has ended", PATIENCE, look).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_by_password_or_certificate_has_tokens_and_its_session_ends_with_it() {
    let scene = Scene::start().await;
    let url = scene.controller.as_str();
    let list = ["list", "services", "--login", "person"];
    let by_password = ["login", url, "-u", USER, "-p", PASSWORD, "--yes", "--name", "person"];
    scene.does(&by_password).await;
    let first = scene.by_tokens().await;
    let saved = scene.saved();
    assert!(saved["tokens"]["refresh"].is_string() && saved["expiresAt"].is_string(), "{saved}");
    assert_eq!(fs::metadata(scene.file()).unwrap().permissions().mode() & 0o777, 0o600);
    scene.end_access();
    scene.does(&list).await;
    assert_ne!(scene.saved()["token"], saved["token"]);
    assert_eq!(scene.by_tokens().await, first, "the same session");
    let shown = scene.does(&["list", "api-sessions", "--login", "person", "-o", "json"]).await;
    assert!(shown.contains(&first[0]), "{shown}");
    // The copy of an access token is worth nothing.
    let own = format!("{}/edge/management/v1/current-identity", scene.controller);
    let token = scene.saved()["token"].as_str().unwrap().to_owned();
    assert_eq!(scene.browser.get(own).bearer_auth(token).send().await.unwrap().status(), 401);
    // Another login takes its place and ends it.
    scene.does(&by_password).await;
    let second = scene.by_tokens().await;
    assert!(second.len() == 1 && second != first, "{second:?}");

    // By certificate: the file keeps no key, and a session that was ended is made anew.
    scene
        .does(&[
            "create",
            "identity",
            "robot",
            "--is-admin",
            "-o",
            "robot.jwt",
            "--login",
            "person",
        ])
        .await;
    scene.does(&["enroll", "robot.jwt"]).await;
    scene.does(&["login", "-i", "robot.json", "--name", "person"]).await;
    let third = scene.by_tokens().await;
    assert!(third.len() == 1 && third != second, "{third:?}");
    assert_eq!(scene.saved()["tokens"]["key"], Value::Null);
    scene.end_access();
    scene.does(&list).await;
    assert_eq!(scene.by_tokens().await, third);
    scene.operator.client.delete(&resource::session::KIND, &third[0]).await.unwrap();
    scene.does(&list).await;
    let renewed = scene.by_tokens().await;
    assert!(renewed.len() == 1 && renewed != third, "{renewed:?}");
    let said = scene.does(&["logout", "person"]).await;
    assert!(!said.contains("could not be ended"), "{said}");
    assert_eq!(scene.sessions().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_is_given_up_leaves_nothing() {
    let scene = Scene::start().await;
    for how in ["--browser", "--device"] {
        let mut login = scene.begin(how, "waiting for the login").await;
        login.signal("INT");
        assert_eq!(login.ended().await.code(), Some(130));
        assert!(!scene.file().exists());
        fs::remove_file(scene.place.folder().join("login.log")).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_without_a_certificate_is_told_what_to_do_without_a_terminal() {
    let scene = Scene::start().await;
    let url = scene.controller.as_str();
    let login = ["login", url, "-u", USER, "-p", PASSWORD, "--yes"];
    let (status, said) = scene.weft(&login).await;
    assert_eq!(status, Some(0), "{said}");
    // A provider that nobody reaches: the reason names it.
    let signer = json!({"name": "company", "issuer": "https://127.0.0.1:1", "audience": "weft", "enabled": true,
        "jwksEndpoint": "https://127.0.0.1:1/keys", "externalAuthUrl": "https://127.0.0.1:1", "clientId": "weft"});
    scene.operator.create(&resource::external_jwt_signer::KIND, &signer).await;
    for args in [
        &["jwt", "network", "-o", "network.jwt"][..],
        &["enroll", "network.jwt", "--signer", "company", "-o", "anna.json"],
        &["enroll", "network.jwt", "--token-file", "token.jwt", "-o", "robot.json"],
    ] {
        let (status, said) = scene.weft(args).await;
        assert_eq!(status, Some(0), "{said}");
    }
    let (status, said) = scene.weft(&["dial", "web", "-i", "anna.json"]).await;
    assert_eq!(status, Some(6), "{said}");
    assert!(said.contains("company"), "{said}");
    // The token of a program is missing, and then refused.
    let (status, said) = scene.weft(&["dial", "web", "-i", "robot.json"]).await;
    assert_eq!(status, Some(6), "{said}");
    assert!(said.contains("token.jwt"), "{said}");
    fs::write(scene.place.folder().join("token.jwt"), "eyJhbGciOiJFUzI1NiJ9.e30.eA").unwrap();
    let (status, said) = scene.weft(&["dial", "web", "-i", "robot.json"]).await;
    assert_eq!(status, Some(3), "{said}");
}
