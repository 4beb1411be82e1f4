//! The etcd of a network of several controllers: one member, which listens on loopback only.
//!
//! ```text
//! <home>/etcd/etcd.yaml    its configuration
//! <home>/etcd/etcd.log     its log
//! <home>/etcd/data/        what it keeps
//! ```

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use weft_config::{ControllerConfig, HostPort};
use weft_identity::write_private;

use super::children::{Child, Program, ToldBy};
use super::sockets::Sockets;
use crate::cli::QuickstartArgs;
use crate::failure::{Failure, Result};
use crate::home::{Home, text};
use crate::place::ListenAddress;

const PORT: u16 = 2379;
/// Whoever reaches it can destroy the network's data.
const HOST: &str = "127.0.0.1";
const NAME: &str = "quickstart";
/// Time to become ready, and for one look at it.
const LIMIT: Duration = Duration::from_secs(30);
const LOOK_LIMIT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);
/// Time to stop before it is killed.
const GRACE: Duration = Duration::from_secs(10);
/// Most bytes that are read of an answer.
const ANSWER: u64 = 4096;

/// The etcd of a new network.
#[derive(Debug)]
pub(super) struct EtcdPlan {
    clients: ListenAddress,
    peers: ListenAddress,
}

impl EtcdPlan {
    /// The plan for these options. Its program has to be there.
    pub(super) fn of(args: &QuickstartArgs, sockets: &mut Sockets) -> Result<Self> {
        program(args)?;
        let first = (args.etcd_port.unwrap_or(PORT), args.etcd_port.is_some());
        let mut near = |number| sockets.near("--etcd-port", first, number, "--etcd-port", HOST);
        Ok(Self { clients: near(1)?, peers: near(2)? })
    }

    /// Its address for controllers.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.clients.advertise)
    }

    /// Writes its file.
    pub(super) fn carry_out(&self, home: &Home) -> Result<()> {
        home.make_etcd_folder()?;
        Ok(write_private(&file(home), self.text(home).as_bytes())?)
    }

    fn text(&self, home: &Home) -> String {
        let (clients, peers) = (self.url(), format!("http://{}", self.peers.advertise));
        // A string of JSON is one of YAML.
        let data = serde_json::Value::from(text(&home.etcd_folder().join("data")));
        format!(
            "# etcd of the controllers of this network. Only this machine reaches it; another user of the machine \
             can, too.\n\
             name: {NAME}\n\
             data-dir: {data}\n\
             listen-client-urls: {clients}\n\
             advertise-client-urls: {clients}\n\
             listen-peer-urls: {peers}\n\
             initial-advertise-peer-urls: {peers}\n\
             initial-cluster: {NAME}={peers}\n\
             # Former values are forgotten after this time; controllers do not need them.\n\
             auto-compaction-mode: periodic\n\
             auto-compaction-retention: 1h\n"
        )
    }
}

/// The file of the network's etcd.
fn file(home: &Home) -> PathBuf {
    home.etcd_folder().join("etcd.yaml")
}

fn log(home: &Home) -> PathBuf {
    home.etcd_folder().join("etcd.log")
}

/// True if the network has an etcd of its own.
pub(super) fn is_part_of(home: &Home) -> bool {
    file(home).exists()
}

/// The program of etcd.
pub(super) fn program(args: &QuickstartArgs) -> Result<PathBuf> {
    match &args.etcd_program {
        Some(named) if named.is_file() => Ok(named.clone()),
        Some(named) => {
            Err(missing(format!("--etcd-program (or WEFT_ETCD) {}: no such file", named.display())))
        }
        None => on_path(std::env::var_os("PATH").unwrap_or_default())
            .ok_or_else(|| missing("there is no program `etcd` on the PATH")),
    }
}

fn on_path(paths: OsString) -> Option<PathBuf> {
    let mut found = std::env::split_paths(&paths).map(|folder| folder.join("etcd"));
    found.find(|path| path.is_file())
}

fn missing(what: impl std::fmt::Display) -> Failure {
    Failure::usage(format!(
        "{what}. Several controllers share their network in etcd, 3.4 or later, which has to be installed"
    ))
    .and("Debian, Ubuntu: apt install etcd-server      macOS: brew install etcd")
    .and("or a release of https://github.com/etcd-io/etcd/releases, named with --etcd-program FILE")
    .and("without --controllers, or with --controllers 1, the network is in a file and needs no etcd")
}

/// The address of a network's etcd.
pub(super) fn address(home: &Home) -> Result<HostPort> {
    let file = home.controller_file();
    let config = ControllerConfig::from_path(&file)?.config;
    let member = config.storage.cluster.and_then(|cluster| cluster.members.into_iter().next());
    member.ok_or_else(|| {
        Failure::new(format!("{}: the section `cluster` names no etcd any more", file.display()))
    })
}

/// Starts it.
pub(super) fn start(home: &Home, args: &QuickstartArgs) -> Result<Child> {
    let program = program(args)?;
    let parent = OsString::from(std::process::id().to_string());
    let args = ["with-parent".into(), parent, "--".into(), program.into(), "--config-file".into()];
    Child::start(Program {
        name: "etcd".to_owned(),
        args: args.into_iter().chain([file(home).into()]).collect(),
        log: log(home),
        grace: GRACE,
        told_by: ToldBy::Signal,
    })
}

/// Waits until it answers.
pub(super) async fn ready(home: &Home, child: &Child, address: &HostPort) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    loop {
        let look = tokio::time::timeout(LOOK_LIMIT, is_healthy(address)).await;
        if child.process().is_none() {
            return Err(no_start("etcd ended", &log(home)));
        }
        if look.is_ok_and(|it| it.unwrap_or(false)) {
            return Ok(());
        }
        if Instant::now() > deadline {
            let limit = LIMIT.as_secs();
            return Err(no_start(&format!("etcd is not ready after {limit} s"), &log(home)));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn no_start(what: &str, log: &Path) -> Failure {
    let said = std::fs::read_to_string(log).unwrap_or_default();
    let failure = Failure::new(format!("{what}; its log is {}", log.display()));
    match said.lines().last() {
        Some(last) => failure.and(format!("the last line there: {last}")),
        None => failure,
    }
}

/// Asks etcd whether it can write.
async fn is_healthy(address: &HostPort) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
    let request = format!("GET /health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).contains("\"health\":\"true\""))
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::args;
    use super::*;

    #[test]
    fn what_to_install_is_said_where_there_is_no_etcd() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = folder.path().join("etcd");
        let named = || QuickstartArgs { etcd_program: Some(nowhere.clone()), ..args() };
        let failure = program(&named()).unwrap_err();
        let said = format!("{failure:?}");
        for words in ["no such file", "apt install", "--etcd-program", "--controllers 1"] {
            assert!(said.contains(words), "{words}: {said}");
        }
        assert_eq!(on_path(folder.path().into()), None);
        std::fs::write(&nowhere, "").unwrap();
        assert_eq!(on_path(folder.path().into()).as_ref(), Some(&nowhere));
        assert_eq!(program(&named()).unwrap(), nowhere);
    }

    #[test]
    fn its_file_is_yaml_and_names_loopback_only() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(Some(&folder.path().join("a \"b\""))).unwrap();
        let program = folder.path().join("etcd");
        std::fs::write(&program, "").unwrap();
        let args = QuickstartArgs { etcd_program: Some(program), etcd_port: Some(0), ..args() };
        let plan = EtcdPlan::of(&args, &mut Sockets::default()).unwrap();
        assert_ne!(plan.clients.bind.port, plan.peers.bind.port);
        let text = plan.text(&home);
        let urls = text.lines().filter(|line| line.contains("http://"));
        assert_eq!(urls.clone().count(), 5);
        assert!(urls.clone().all(|line| line.contains("http://127.0.0.1:")), "{text}");
        assert!(text.contains(r#"a \"b\"/etcd/data""#), "{text}");
        crate::yaml::read(&text).unwrap();
    }
}
