//! A network of processes in a folder of its own.

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use crate::operator::Operator;
use crate::program::Program;
use crate::wait::{PATIENCE, until};

pub(crate) const USER: &str = "admin";
pub(crate) const PASSWORD: &str = "weft-process";

/// Ports below the kernel's range for clients: a listener that is down for a moment finds its port
/// free again, and no client connects to itself.
const PORTS: std::ops::Range<u16> = 15_000..32_000;

/// A port that is not in use.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let span = PORTS.end - PORTS.start;
    // Parallel runs begin at different ports.
    let first = (std::process::id() as u16).wrapping_mul(97) % span;
    for _ in 0..span {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = PORTS.start + (first + step % span) % span;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}

/// A folder for a network: its home, its logs, its ports.
pub(crate) struct NetworkFolder {
    folder: TempDir,
    pub(crate) control: u16,
    pub(crate) router: u16,
}

impl NetworkFolder {
    /// An empty folder.
    pub(crate) fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder, control: free_port(), router: free_port() }
    }

    /// A folder with a network that was made and stopped.
    pub(crate) async fn made() -> Self {
        let place = Self::empty();
        let mut quickstart = place.quickstart();
        quickstart.says("The network is up", PATIENCE).await;
        assert!(quickstart.stop().await.success());
        place
    }

    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Keeps the folder after the test, for people who look for the cause of a failure.
    pub(crate) fn keep(&mut self) -> &std::path::Path {
        self.folder.disable_cleanup(true);
        self.folder.path()
    }

    /// The home of the network.
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Adds text to the router's file.
    pub(crate) fn append_to_router_file(&self, text: &str) {
        let mut file =
            fs::File::options().append(true).open(self.home().join("router.yaml")).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// Controller and router in one process.
    pub(crate) fn quickstart(&self) -> Program {
        self.quickstart_saying("")
    }

    /// [`NetworkFolder::quickstart`] with a filter for the log.
    pub(crate) fn quickstart_saying(&self, filter: &str) -> Program {
        let (home, ctrl, router) = (self.home(), self.control.to_string(), self.router.to_string());
        Program::start_saying(
            filter,
            &self.folder.path().join("quickstart.log"),
            &[
                "quickstart",
                "--home",
                home.to_str().unwrap(),
                "--username",
                USER,
                "--password",
                PASSWORD,
                "--ctrl-port",
                &ctrl,
                "--router-port",
                &router,
            ],
        )
    }

    /// Starts the controller only.
    pub(crate) fn start_controller(&self) -> Program {
        let file = self.home().join("controller.yaml");
        self.start("controller", &["controller", "run", file.to_str().unwrap()])
    }

    /// Starts the router only.
    pub(crate) fn start_router(&self) -> Program {
        let file = self.home().join("router.yaml");
        self.start("router", &["router", "run", file.to_str().unwrap()])
    }

    /// Starts a shell command that keeps running.
    pub(crate) fn start_shell(&self, name: &str, command: &str) -> Program {
        Program::start_shell(&self.folder.path().join(format!("{name}.log")), command)
    }

    /// Starts any command that keeps running.
    pub(crate) fn start(&self, name: &str, args: &[&str]) -> Program {
        Program::start(&self.folder.path().join(format!("{name}.log")), args)
    }
}

/// Controller and router as separate processes, and an operator's login.
pub(crate) struct Network {
    // Dropped first to last: clients before servers.
    pub(crate) operator: Operator,
    router: Option<Program>,
    controller: Option<Program>,
    pub(crate) place: NetworkFolder,
}

impl Network {
    pub(crate) async fn start() -> Self {
        Self::start_with("").await
    }

    /// A new network with additions to the router's file.
    pub(crate) async fn start_with(router_file: &str) -> Self {
        let place = NetworkFolder::made().await;
        place.append_to_router_file(router_file);
        let controller = place.start_controller();
        let operator = Operator::log_in(place.control).await;
        let router = place.start_router();
        let network = Self { place, controller: Some(controller), router: Some(router), operator };
        network.router_online(true, PATIENCE).await;
        network
    }

    /// Waits until the controller reports the router online or offline, and returns how long it
    /// took.
    pub(crate) async fn router_online(&self, wanted: bool, limit: Duration) -> Duration {
        let look = async || {
            let online = self.operator.router_online().await?;
            if online == wanted { Ok(()) } else { Err(format!("isOnline is {online}")) }
        };
        until(&format!("isOnline becomes {wanted}"), limit, look).await.1
    }

    /// The router's process.
    pub(crate) fn router(&self) -> &Program {
        self.router.as_ref().unwrap()
    }

    /// `kill -9` of the router.
    pub(crate) fn kill_router(&mut self) {
        self.router.take().unwrap().kill();
    }

    /// Starts the router again.
    pub(crate) fn start_router(&mut self) {
        self.router = Some(self.place.start_router());
    }

    /// `kill -9` of the controller.
    pub(crate) fn kill_controller(&mut self) {
        self.controller.take().unwrap().kill();
    }

    /// Starts the controller again and logs in.
    pub(crate) async fn start_controller(&mut self) {
        self.controller = Some(self.place.start_controller());
        self.operator = Operator::log_in(self.place.control).await;
    }
}
