//! The controller that is measured, as a process of its own.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use weft_client::{ControllerAddress, trust};
use weft_identity::tls::{ALPN_HTTP1, ClientTls, client_config};

use super::client::{Client, Target};
use crate::{cpu, program};

const USER: &str = "admin";
const PASSWORD: &str = "weft-scale";
/// Longest wait for a process to be ready.
const PATIENCE: Duration = Duration::from_secs(120);
/// Wait before the memory of a process is read.
const SETTLE: Duration = Duration::from_millis(1500);

/// The folder of a network.
pub(crate) struct Home {
    root: PathBuf,
    port: u16,
    _temporary: Option<TempDir>,
}

impl Home {
    /// A home with keys, files and an administrator, in `root` or a temporary folder.
    pub(crate) async fn make(root: Option<&Path>) -> io::Result<Self> {
        let temporary = if root.is_none() { Some(tempfile::tempdir()?) } else { None };
        let given = root.or(temporary.as_ref().map(TempDir::path));
        let root = given.unwrap_or(Path::new(".")).to_owned();
        std::fs::create_dir_all(&root)?;
        let port_file = root.join("port");
        if let Ok(text) = std::fs::read_to_string(&port_file) {
            let port = text.trim().parse().map_err(io::Error::other)?;
            return Ok(Self { root, port, _temporary: temporary });
        }
        let port = program::free_port()?;
        let home = Self { root, port, _temporary: temporary };
        let child = Command::new(program::weft()?)
            .args(["quickstart", "--username", USER, "--password", PASSWORD])
            .args(["--ctrl-port", &port.to_string(), "--router-port", "0"])
            .arg("--home")
            .arg(&home.root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let made = Running { child, port };
        made.serving().await?;
        made.log_in().await?;
        drop(made);
        std::fs::write(port_file, port.to_string())?;
        Ok(home)
    }

    /// Address of the APIs and of the control plane.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.root.join("controller.db")
    }

    pub(crate) fn is_filled(&self) -> bool {
        self.root.join("filled").exists()
    }

    pub(crate) fn mark_filled(&self) -> io::Result<()> {
        std::fs::write(self.root.join("filled"), "")
    }

    /// The memory of the controller before the network is filled, in bytes; stored for later runs.
    pub(crate) async fn resident_when_empty(&self) -> io::Result<u64> {
        let note = self.root.join("empty");
        if let Some(known) = std::fs::read_to_string(&note).ok().and_then(|it| it.parse().ok()) {
            return Ok(known);
        }
        let (running, _) = self.start().await?;
        let resident = running.resident_settled().await;
        drop(running);
        std::fs::write(note, resident.to_string())?;
        Ok(resident)
    }

    /// Starts the controller; also returns the time until its first answer.
    pub(crate) async fn start(&self) -> io::Result<(Running, Duration)> {
        let begun = Instant::now();
        let child = Command::new(program::weft()?)
            .args(["controller", "run"])
            .arg(self.root.join("controller.yaml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .env("NO_COLOR", "1")
            .env("RUST_LOG", "warn,weft_control::data_model=debug")
            .stderr(File::create(self.root.join("controller.log"))?)
            .spawn()?;
        let running = Running { child, port: self.port };
        running.serving().await?;
        Ok((running, begun.elapsed()))
    }

    /// Starts the router, without a copy of the data model.
    pub(crate) fn start_router(&self) -> io::Result<Running> {
        // Removes the router's copy of the data model of an earlier run.
        match std::fs::remove_file(self.root.join("router.yaml.proto.gzip")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let child = Command::new(program::weft()?)
            .args(["router", "run"])
            .arg(self.root.join("router.yaml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .env("NO_COLOR", "1")
            .env("RUST_LOG", "warn,weft_router::access=info")
            .stderr(File::create(self.root.join("router.log"))?)
            .spawn()?;
        Ok(Running { child, port: self.port })
    }

    /// The log of the controller.
    pub(crate) fn log(&self) -> io::Result<String> {
        std::fs::read_to_string(self.root.join("controller.log"))
    }

    /// The log of the router.
    pub(crate) fn router_log(&self) -> io::Result<String> {
        std::fs::read_to_string(self.root.join("router.log"))
    }
}

/// A running controller; killed when dropped.
pub(crate) struct Running {
    child: Child,
    port: u16,
}

impl Running {
    /// Processor time used so far.
    pub(crate) fn cpu(&self) -> Duration {
        cpu::cpu_time(self.child.id()).unwrap_or_default()
    }

    /// Memory that the process holds when idle.
    pub(crate) async fn resident_settled(&self) -> u64 {
        tokio::time::sleep(SETTLE).await;
        cpu::resident(self.child.id()).unwrap_or_default()
    }

    /// The most memory that the process ever held.
    pub(crate) fn resident_peak(&self) -> u64 {
        cpu::resident_peak(self.child.id()).unwrap_or_default()
    }

    /// Waits until the API answers.
    async fn serving(&self) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match trust::meet(&self.address()?).await {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => return Err(io::Error::other(error)),
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }

    fn address(&self) -> io::Result<ControllerAddress> {
        format!("localhost:{}", self.port).parse().map_err(io::Error::other)
    }

    /// Logs the administrator in.
    pub(crate) async fn log_in(&self) -> io::Result<Target> {
        let stranger = trust::meet(&self.address()?).await.map_err(io::Error::other)?;
        let tls = ClientTls::anonymous(stranger.bundle, &[ALPN_HTTP1]);
        let mut target = Target {
            address: SocketAddr::from(([127, 0, 0, 1], self.port)),
            tls: Arc::new(client_config(&tls).map_err(io::Error::other)?),
            session: String::new(),
        };
        let body = format!(r#"{{"username":"{USER}","password":"{PASSWORD}"}}"#);
        let path = "/edge/management/v1/authenticate?method=password";
        let deadline = Instant::now() + PATIENCE;
        // The administrator is made shortly after the API first answers.
        let answer = loop {
            let mut client = Client::connect(&target).await?;
            match client.send("POST", path, Some(body.clone())).await?.accept() {
                Ok(answer) => break answer.json()?,
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        let token = answer.pointer("/data/token").and_then(Value::as_str);
        let token = token.ok_or_else(|| io::Error::other("no token for the administrator"))?;
        target.session = token.to_owned();
        Ok(target)
    }
}

/// Logs the administrator in once more, at an API.
pub(crate) async fn log_in_at(target: &Target, api: &str) -> io::Result<Target> {
    let body = format!(r#"{{"username":"{USER}","password":"{PASSWORD}"}}"#);
    let path = format!("{api}/authenticate?method=password");
    let mut client = Client::connect(target).await?;
    let answer = client.send("POST", &path, Some(body)).await?.accept()?.json()?;
    let token = answer.pointer("/data/token").and_then(Value::as_str);
    let token = token.ok_or_else(|| io::Error::other("no token for the administrator"))?;
    Ok(Target { session: token.to_owned(), ..target.clone() })
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
