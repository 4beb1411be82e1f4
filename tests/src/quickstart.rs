//! The program as people use it: `weft quickstart`, logins, commands, restarts, and the same things
//! one by one. Every step is a process of its own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Longer than anything here should take.
const LONG: Duration = Duration::from_secs(60);
const PASSWORD: &str = "geheimnis";
const READY: &str = "The network is up";

/// The program, built as these tests were.
fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let own = std::env::current_exe().unwrap();
        let profile = own.ancestors().nth(2).unwrap();
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "weft", "--bin", "weft"]);
        build.arg("--manifest-path").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"));
        build.arg("--target-dir").arg(profile.parent().unwrap());
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().unwrap().success(), "the program does not build");
        profile.join("weft")
    })
}

fn weft(home: &Path) -> Command {
    let mut command = Command::new(binary());
    command.env("WEFT_CONFIG_DIR", home.join("config")).env_remove("RUST_LOG");
    command.stdin(Stdio::null()).current_dir(home);
    command
}

fn run(home: &Path, args: &[&str]) -> Output {
    weft(home).args(args).output().unwrap()
}

/// Runs a command that must work and answers what it printed.
fn ok(home: &Path, args: &[&str]) -> String {
    let output = run(home, args);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "weft {}: {err}{out}", args.join(" "));
    out
}

/// Runs a command that must fail and answers its exit status and its complaint.
fn refused(home: &Path, args: &[&str]) -> (i32, String) {
    let output = run(home, args);
    assert!(!output.status.success(), "weft {} worked", args.join(" "));
    (output.status.code().unwrap(), text(&output.stderr))
}

fn json(home: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&ok(home, args)).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LONG;
    loop {
        if let Some(done) = attempt() {
            return done;
        }
        assert!(Instant::now() < deadline, "took too long: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A program that stays; killed when dropped.
struct Running {
    child: Child,
    /// What it said until it was ready.
    said: String,
    _log: mpsc::Receiver<String>,
}

impl Running {
    /// Starts a program and waits until it says this.
    fn start(mut command: Command, ready: &str) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (lines, log) = mpsc::channel();
        let streams: [Box<dyn std::io::Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for stream in streams {
            let lines = lines.clone();
            // Read to the end whether somebody listens or not, so that the program never blocks.
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    let _ = lines.send(line);
                }
            });
        }
        drop(lines);
        let deadline = Instant::now() + LONG;
        let mut said = String::new();
        while !said.contains(ready) {
            match log.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => said = said + &line + "\n",
                Err(error) => {
                    let _ = child.kill();
                    panic!("never said `{ready}` ({error}):\n{said}");
                }
            }
        }
        Self { child, said, _log: log }
    }

    fn quickstart(home: &Path, more: &[&str]) -> Self {
        let mut command = weft(home);
        command.args(["quickstart", "--home", "network"]).args(more);
        Self::start(command, READY)
    }

    fn new_network(home: &Path) -> Self {
        let free = ["--ctrl-port", "0", "--router-port", "0", "--password", PASSWORD];
        Self::quickstart(home, &free)
    }

    /// The first address it named.
    fn url(&self) -> String {
        let start = self.said.find("https://").unwrap();
        self.said[start..].split_whitespace().next().unwrap().to_owned()
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    fn stop(mut self, signal: &str) -> ExitStatus {
        self.signal(signal);
        until("the program stops", || self.child.try_wait().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn login(home: &Path, url: &str) {
    ok(home, &["login", url, "--username", "admin", "--password", PASSWORD, "--yes"]);
}

fn names(home: &Path, plural: &str) -> Vec<String> {
    let list = json(home, &["list", plural, "--output", "json"]);
    list.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_network_keeps_everything_over_restarts() {
    let folder = TempDir::new().unwrap();
    let home = folder.path();
    let network = Running::new_network(home);
    assert!(network.said.contains("self-check passed"), "{}", network.said);
    let url = network.url();
    login(home, &url);
    ok(home, &["create", "service", "kept"]);
    assert!(network.stop("-INT").success());

    let network = Running::quickstart(home, &["--ctrl-port", "1"]);
    assert!(network.said.contains("ignored"), "{}", network.said);
    assert!(network.said.contains("self-check passed"), "{}", network.said);
    assert_eq!(network.url(), url, "ports are kept");
    assert_eq!(names(home, "services"), ["kept"], "and so are login and service");
    ok(home, &["create", "service", "kept-too"]);
    network.stop("-KILL");

    let network = Running::quickstart(home, &[]);
    assert_eq!(names(home, "services"), ["kept", "kept-too"]);
    assert_eq!(names(home, "edge-routers"), ["quickstart-router"]);
    assert!(network.stop("-TERM").success());
}

#[test]
fn a_generated_password_works_and_is_told_once() {
    let folder = TempDir::new().unwrap();
    let home = folder.path();
    let network = Running::quickstart(home, &["--ctrl-port", "0", "--router-port", "0"]);
    let (_, after) = network.said.split_once("(shown only now): ").unwrap();
    let password = after.lines().next().unwrap();
    ok(home, &["login", &network.url(), "--password", password, "--yes"]);
    assert_eq!(network.said.matches(password).count(), 1);
    assert!(network.stop("-TERM").success());
    let network = Running::quickstart(home, &[]);
    assert!(!network.said.contains("password"), "{}", network.said);
}

#[test]
fn a_home_serves_one_process() {
    let folder = TempDir::new().unwrap();
    let home = folder.path();
    let _network = Running::new_network(home);
    let (status, complaint) = refused(home, &["quickstart", "--home", "network"]);
    assert_eq!(status, 1);
    assert!(complaint.contains("in use by a running"), "{complaint}");
}

#[test]
fn traffic_is_verified_and_nothing_is_left() {
    let folder = TempDir::new().unwrap();
    let home = folder.path();
    let network = Running::new_network(home);
    let (status, complaint) = refused(home, &["verify", "traffic"]);
    assert_eq!(status, 3, "{complaint}");
    login(home, &network.url());
    let told = json(home, &["verify", "traffic", "--size", "8", "--json"]);
    assert_eq!(told["bytesEachWay"], 8 << 20);
    assert_eq!(told["encrypted"], true);
    assert!(told["roundTrips"]["p50Micros"].as_u64().unwrap() > 0);

    let mut long = weft(home);
    long.args(["verify", "traffic", "--size", "100000", "--json"]);
    long.stdout(Stdio::null()).stderr(Stdio::null());
    let mut long = long.spawn().unwrap();
    until("the check has made its service", || (!names(home, "services").is_empty()).then_some(()));
    Command::new("kill").args(["-INT", &long.id().to_string()]).status().unwrap();
    assert_eq!(until("the check stops", || long.try_wait().unwrap()).code(), Some(130));
    assert_eq!(names(home, "services"), [""; 0]);
    assert_eq!(names(home, "service-policies"), [""; 0]);
    assert_eq!(names(home, "identities").len(), 2, "the administrator and the router's own");
}

/// Answers every connection with what it read, once the peer has said everything.
async fn echo(server: TcpListener) {
    while let Ok((mut peer, _)) = server.accept().await {
        tokio::spawn(async move {
            let mut all = Vec::new();
            if peer.read_to_end(&mut all).await.is_ok() {
                let _ = peer.write_all(&all).await;
            }
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomers_first_service_works() {
    let folder = TempDir::new().unwrap();
    let home = folder.path();
    let network = Running::new_network(home);
    login(home, &network.url());
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = server.local_addr().unwrap().port();
    tokio::spawn(echo(server));

    let data = format!(r#"{{"protocol":"tcp","address":"127.0.0.1","port":{port}}}"#);
    ok(home, &["create", "config", "host", "--config-type", "host.v1", "--data", &data]);
    ok(home, &["create", "service", "web", "--configs", "host", "--role-attributes", "web"]);
    for (name, kind, identities) in
        [("bind", "Bind", "@quickstart-router"), ("dial", "Dial", "#users")]
    {
        let create = ["create", "service-policy", name, "--type", kind];
        let roles = ["--service-roles", "#web", "--identity-roles", identities];
        ok(home, &[&create[..], &roles[..]].concat());
    }
    ok(home, &["create", "identity", "laptop", "--role-attributes", "users", "-o", "laptop.jwt"]);
    ok(home, &["enroll", "laptop.jwt"]);
    let (_, complaint) = refused(home, &["enroll", "laptop.jwt", "-o", "again.json"]);
    assert!(complaint.contains("used already"), "{complaint}");
    until("the router hosts", || {
        let list = json(home, &["list", "terminators", "--output", "json"]);
        (!list.as_array().unwrap().is_empty()).then_some(())
    });

    let context = weft_sdk::Context::load(home.join("laptop.json")).await.unwrap();
    let mut connection = context.dial("web").await.unwrap();
    assert!(connection.is_encrypted());
    let sent = vec![7; 300_000];
    connection.write_all(&sent).await.unwrap();
    connection.shutdown().await.unwrap();
    let mut back = Vec::new();
    connection.read_to_end(&mut back).await.unwrap();
    assert!(back == sent, "{} bytes came back", back.len());
}

#[test]
fn the_same_things_one_by_one() {
    let folder = TempDir::new().unwrap();
    let home = folder.path();
    // Keys and files are quickstart's, the database is not.
    let network = Running::new_network(home);
    let url = network.url();
    assert!(network.stop("-TERM").success());
    let (controller, router) = ("network/controller.yaml", "network/router.yaml");
    std::fs::remove_file(home.join("network/controller.db")).unwrap();

    let (status, complaint) = refused(home, &["controller", "run", controller]);
    assert!(status == 1 && complaint.contains("controller init"), "{complaint}");
    ok(home, &["controller", "init", controller, "--password", PASSWORD]);
    let (_, complaint) = refused(home, &["controller", "init", controller, "-p", PASSWORD]);
    assert!(complaint.contains("already initialized"), "{complaint}");
    let start = |args: &[&str], ready: &str| {
        let mut command = weft(home);
        command.args(args).env("NO_COLOR", "1");
        Running::start(command, ready)
    };
    let controller = start(&["controller", "run", controller], "controller runs");
    login(home, &url);

    ok(home, &["create", "edge-router", "paris", "--is-tunneler-enabled", "-o", "paris.jwt"]);
    ok(home, &["router", "enroll", router, "--jwt", "paris.jwt"]);
    let (_, complaint) = refused(home, &["router", "enroll", router, "--jwt", "paris.jwt"]);
    assert!(complaint.contains("used already"), "{complaint}");
    let router = start(&["router", "run", router], "router runs");
    ok(home, &["verify", "traffic", "--size", "1"]);
    assert!(router.stop("-TERM").success());
    assert!(controller.stop("-TERM").success());
}
