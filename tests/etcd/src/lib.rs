//! An etcd of one member, or of several on this machine, for tests. The program is the one that `WEFT_ETCD` names, or
//! `etcd` of the path; without one there is no server, and a line says that the test is skipped. `WEFT_ETCD_REQUIRED`
//! makes that an error. `WEFT_ETCD_OTHER` names a program of another release, which about half of the tests use instead:
//! the name of a test decides. With one thread for all tests (`--test-threads=1`), all of them use it.

#![allow(
    clippy::print_stderr,
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "this crate is a part of tests"
)]

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use tempfile::TempDir;

/// The longest wait for the start.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(40);

/// A running etcd, or one member of an etcd of several. It ends with the value.
#[derive(Debug)]
pub struct Server {
    folder: TempDir,
    program: PathBuf,
    /// For clients, and for other members.
    ports: [u16; 2],
    name: String,
    /// All members, as `name=URL`.
    members: String,
    arguments: Vec<String>,
    /// The scheme of the address for clients.
    scheme: &'static str,
    child: Option<Child>,
}

/// The program of another release, if there is one and this test uses it. The same test always uses the same one.
fn other_program() -> Option<PathBuf> {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let is_odd = name.bytes().fold(0, |sum, byte| sum ^ byte) & 1 == 1;
    std::env::var_os("WEFT_ETCD_OTHER").map(PathBuf::from).filter(|_| is_odd)
}

/// The program of etcd; none if there is none, which is said.
pub fn program() -> Option<PathBuf> {
    let named = other_program().or_else(|| std::env::var_os("WEFT_ETCD").map(PathBuf::from));
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&paths).map(|folder| folder.join("etcd"));
    let program = named.or_else(|| found.find(|path| path.is_file()));
    if program.is_none() {
        assert!(std::env::var_os("WEFT_ETCD_REQUIRED").is_none(), "etcd is required and not here");
        eprintln!("SKIPPED: etcd is not here; WEFT_ETCD names its program");
    }
    program
}

/// A port that is not in use, below those that the system gives clients: a member that is down for a while finds it free.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Processes that run beside each other begin at different ports.
    let first = (std::process::id() as u16).wrapping_mul(61);
    let port = |step: u16| 10_000 + first.wrapping_add(step) % 5_000;
    let mut steps = (0..5_000).map(|_| port(NEXT.fetch_add(1, Ordering::Relaxed)));
    steps.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

impl Server {
    /// Starts an etcd with more arguments; none if there is no program.
    pub fn start(arguments: &[&str]) -> Option<Self> {
        Self::start_with("http", arguments)
    }

    /// The same with this scheme for clients.
    pub fn start_with(scheme: &'static str, arguments: &[&str]) -> Option<Self> {
        Self::start_members(1, scheme, arguments)?.pop()
    }

    /// Starts an etcd of several members.
    pub fn start_several(count: usize) -> Option<Vec<Self>> {
        Self::start_members(count, "http", &[])
    }

    fn start_members(count: usize, scheme: &'static str, arguments: &[&str]) -> Option<Vec<Self>> {
        let program = program()?;
        let ports: Vec<u16> = (0..count * 2).map(|_| free_port()).collect();
        let named = ports.chunks(2).enumerate();
        let named = named.map(|(at, ports)| format!("m{at}=http://127.0.0.1:{}", ports[1]));
        let members = named.collect::<Vec<_>>().join(",");
        let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
        let servers = ports.chunks(2).enumerate().map(|(at, ports)| {
            let mut server = Self {
                folder: tempfile::tempdir().unwrap(),
                program: program.clone(),
                ports: [ports[0], ports[1]],
                name: format!("m{at}"),
                members: members.clone(),
                arguments: arguments.clone(),
                scheme,
                child: None,
            };
            server.run();
            server
        });
        Some(servers.collect())
    }

    /// Starts an etcd that ends with this process, by whatever means the process ends.
    pub fn start_for_the_process() -> Option<Self> {
        let mut server = Self::start(&[])?;
        let child = server.child.take()?;
        let watch =
            format!("read end; kill -9 {}; rm -r '{}'", child.id(), server.folder.path().display());
        let guard = Command::new("sh").arg("-c").arg(watch).stdin(Stdio::piped()).spawn();
        // Its standard input is closed when this process ends.
        server.child = Some(guard.unwrap());
        Some(server)
    }

    /// Starts the process, and waits until it accepts connections.
    pub fn run(&mut self) {
        let [clients, peers] = self.ports.map(|port| format!("127.0.0.1:{port}"));
        let (clients, peers) = (format!("{}://{clients}", self.scheme), format!("http://{peers}"));
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        let mut command = Command::new(&self.program);
        command.arg("--data-dir").arg(self.folder.path().join("data"));
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--name", &self.name, "--initial-cluster", &self.members]);
        command.args(&self.arguments);
        command.env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH);
        command.stdout(Stdio::null()).stderr(log).stdin(Stdio::null());
        let deadline = std::time::Instant::now() + PATIENCE;
        let mut child = command.spawn().unwrap();
        while std::net::TcpStream::connect(("127.0.0.1", self.ports[0])).is_err() {
            assert!(std::time::Instant::now() < deadline, "etcd does not start");
            std::thread::sleep(std::time::Duration::from_millis(20));
            // Somebody else had one of its ports for a moment.
            if child.try_wait().unwrap().is_some() {
                child = command.spawn().unwrap();
            }
        }
        self.child = Some(child);
    }

    /// Kills the process.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Stops the server, and keeps a copy of its data beside them.
    pub fn keep(&mut self) {
        self.kill();
        self.copy("data", "kept");
        self.run();
    }

    /// Puts the server back to the data that were kept, as after a restore of a snapshot.
    pub fn put_back(&mut self) {
        self.kill();
        self.copy("kept", "data");
        self.run();
    }

    fn copy(&self, from: &str, to: &str) {
        let [from, to] = [from, to].map(|name| self.folder.path().join(name));
        if to.exists() {
            std::fs::remove_dir_all(&to).unwrap();
        }
        assert!(Command::new("cp").arg("-r").args([&from, &to]).status().unwrap().success());
    }

    /// Sends the process a signal: `STOP` or `CONT`.
    pub fn signal(&self, signal: &str) {
        let id = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
    }

    /// Its port for clients.
    pub fn port(&self) -> u16 {
        self.ports[0]
    }

    /// Its address for clients, `host:port`.
    pub fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.ports[0])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
