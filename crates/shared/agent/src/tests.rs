//! The agent and its client over real sockets.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener as StdListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use parking::Calls;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use weft_wire::{Message, Outcome};

use super::*;
use crate::limits::{CONNECTIONS, REQUEST_TIME};
use crate::messages::{content_type, header};
use crate::serve::may_connect;

const PATIENCE: Duration = Duration::from_secs(20);

/// What an application was asked.
mod parking {
    use std::sync::Mutex;

    #[derive(Default)]
    pub(super) struct Calls(Mutex<Vec<String>>);

    impl Calls {
        pub(super) fn note(&self, call: String) {
            self.0.lock().unwrap().push(call);
        }

        pub(super) fn all(&self) -> Vec<String> {
            self.0.lock().unwrap().clone()
        }
    }
}

/// A router that repeats what it is asked.
#[derive(Default)]
struct Echo(Calls);

#[async_trait]
impl Application for Echo {
    fn kind(&self) -> AppKind {
        AppKind::Router
    }

    fn info(&self) -> AppInfo {
        AppInfo {
            id: "r1".into(),
            kind: "router".into(),
            version: "v1".into(),
            ..AppInfo::default()
        }
    }

    async fn answer(&self, request: &AgentRequest) -> Result<String, String> {
        match request {
            AgentRequest::Other(_) => Ok(String::new()),
            AgentRequest::HeapProfile => Err("no profile".to_owned()),
            request => Ok(format!("{request:?}\n")),
        }
    }

    async fn answer_message(&self, message: &Message) -> AgentReply {
        let done = AgentReply::outcome(Ok(message.text()));
        if message.content_type == content_type::DECOMMISSION {
            self.0.note("decommission".to_owned());
        }
        done
    }
}

struct Bed {
    folder: TempDir,
    application: Arc<Echo>,
    served: Served,
}

impl Bed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let application = Arc::new(Echo::default());
        let place = Place::At(socket_of(folder.path(), std::process::id()));
        let served = Served::start(&place, application.clone()).unwrap();
        Self { folder, application, served }
    }

    fn socket(&self) -> PathBuf {
        self.served.path().to_owned()
    }

    async fn ask(&self, request: AgentRequest) -> String {
        let answer = ask(&self.socket(), &request, PATIENCE).await.unwrap();
        String::from_utf8(answer).unwrap()
    }

    async fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = UnixStream::connect(self.socket()).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        // A connection that is closed with unread bytes is reset.
        let _ = stream.read_to_end(&mut answer).await;
        answer
    }
}

#[tokio::test]
async fn requests_are_answered_and_the_connection_closes() {
    let bed = Bed::new();
    assert_eq!(bed.ask(AgentRequest::Stats).await, "Stats\n");
    assert_eq!(bed.ask(AgentRequest::Info).await, r#"{"id":"r1","type":"router","version":"v1"}"#);
    assert!(bed.ask(AgentRequest::InfoAndCapabilities).await.contains("logging.slog-levels"));
    assert_eq!(bed.ask(AgentRequest::HeapProfile).await, "no profile");
    assert_eq!(bed.ask(AgentRequest::Other(0x40)).await, "");
    let module = AgentRequest::SetModuleLevel("m".into(), Level::Trace);
    assert_eq!(bed.ask(module).await, "SetModuleLevel(\"m\", Trace)\n");
}

#[tokio::test]
async fn what_is_no_request_gets_nothing_and_a_wrong_parameter_its_reason() {
    let bed = Bed::new();
    assert_eq!(bed.raw(b"GET / HTTP/1.1\r\n\r\n").await, b"");
    let wrong = [AgentRequest::SetLevel(Level::Info).to_bytes()[..14].to_vec(), vec![9]].concat();
    let answer = String::from_utf8(bed.raw(&wrong).await).unwrap();
    assert!(answer.contains("invalid log level 9"), "{answer}");
    let kind = String::from_utf8(bed.raw(&AgentRequest::Channel(1).to_bytes()).await).unwrap();
    assert!(kind.contains("invalid app id 1") && kind.contains("router"), "{kind}");
    assert_eq!(bed.ask(AgentRequest::Stats).await, "Stats\n");
}

#[tokio::test]
async fn who_says_nothing_is_left_after_a_second_and_others_wait_for_their_turn() {
    let bed = Bed::new();
    let begun = Instant::now();
    let mut silent = Vec::new();
    for _ in 0..CONNECTIONS {
        silent.push(UnixStream::connect(bed.socket()).await.unwrap());
    }
    assert_eq!(bed.ask(AgentRequest::Stats).await, "Stats\n");
    assert!(begun.elapsed() >= REQUEST_TIME / 2, "{:?}", begun.elapsed());
    for mut one in silent {
        let mut answer = Vec::new();
        one.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"");
    }
}

#[tokio::test]
async fn messages_are_answered_on_a_channel() {
    let bed = Bed::new();
    let mut channel = AgentChannel::open(&bed.socket(), 2, PATIENCE).await.unwrap();
    let asked = Message::new(content_type::DUMP_LINKS, "links");
    let reply = channel.request(asked).await.unwrap();
    assert_eq!(Outcome::from_message(&reply).unwrap(), Outcome::success("links"));
    let mut level = Message::new(content_type::SET_LEVEL, "");
    level.headers.set_str(header::LEVEL, "debug");
    let reply = channel.request(level).await.unwrap();
    assert_eq!(reply.text(), "SetLevel(Debug)");
    let reply = channel.request(Message::new(content_type::SET_LEVEL, "")).await.unwrap();
    assert!(!Outcome::from_message(&reply).unwrap().success);
    channel.request(Message::new(content_type::DECOMMISSION, "")).await.unwrap();
    assert_eq!(bed.application.0.all(), ["decommission"]);
    // Other kinds of programs are named.
    let refused = AgentChannel::open(&bed.socket(), 1, PATIENCE).await.unwrap_err().to_string();
    assert!(refused.contains("is a router"), "{refused}");
    AgentChannel::open(&bed.socket(), 0, PATIENCE).await.unwrap();
}

#[tokio::test]
async fn a_channel_with_something_else_than_messages_is_closed() {
    let bed = Bed::new();
    let with = |rest: &[u8]| [&AgentRequest::Channel(0).to_bytes()[..], rest].concat();
    assert_eq!(bed.raw(&with(b"no frame at all, but long enough for one")).await, b"");
    let huge = [&weft_wire::frame::MAGIC[..], &[0; 8], &[0xff; 8]].concat();
    assert_eq!(bed.raw(&with(&huge)).await, b"");
    assert_eq!(bed.raw(&with(&[])).await, b"");
    assert_eq!(bed.ask(AgentRequest::Stats).await, "Stats\n");
}

#[tokio::test]
async fn the_socket_has_its_rights_and_goes_with_the_agent() {
    let bed = Bed::new();
    let socket = bed.socket();
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let inside = |folder: &Path| std::fs::read_dir(folder).unwrap().count();
    assert_eq!(inside(bed.folder.path()), 1, "the folder in which it was made is gone");
    let again = Served::start(&Place::At(socket.clone()), bed.application.clone()).unwrap_err();
    assert!(matches!(again, SocketError::Served(_)), "{again}");
    let Bed { folder, served, .. } = bed;
    drop(served);
    let deadline = Instant::now() + PATIENCE;
    while inside(folder.path()) > 0 {
        assert!(Instant::now() < deadline, "the socket is left behind");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_file_that_is_no_socket_is_left_and_a_dead_socket_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("precious");
    std::fs::write(&file, "x").unwrap();
    let taken = Served::start(&Place::At(file.clone()), Arc::<Echo>::default()).unwrap_err();
    assert!(matches!(taken, SocketError::Taken(_)), "{taken}");
    assert_eq!(std::fs::read(&file).unwrap(), b"x");
    let dead = folder.path().join("dead");
    drop(StdListener::bind(&dead).unwrap());
    let served = Served::start(&Place::At(dead.clone()), Arc::<Echo>::default()).unwrap();
    assert_eq!(ask(&dead, &AgentRequest::Stats, PATIENCE).await.unwrap(), b"Stats\n");
    drop(served);
}

#[tokio::test]
async fn processes_are_found_and_dead_sockets_removed() {
    let bed = Bed::new();
    let folder = bed.folder.path();
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let dead = socket_of(folder, child.id());
    drop(StdListener::bind(&dead).unwrap());
    // Another process under the name of a third one.
    let foreign = socket_of(folder, std::process::id() - 1);
    let _foreign = StdListener::bind(&foreign).unwrap();
    std::fs::write(folder.join("gops-agent.x.sock"), "").unwrap();
    let found = processes(folder).await.unwrap();
    assert_eq!(found.iter().map(|one| one.pid).collect::<Vec<_>>(), [std::process::id()]);
    assert_eq!(found[0].info.as_ref().unwrap().id, "r1");
    remove_stale(folder);
    assert!(!dead.exists() && foreign.exists() && bed.socket().exists());
    assert!(folder.join("gops-agent.x.sock").exists());
}

#[test]
fn only_the_same_user_and_root_may_connect() {
    assert!(may_connect(1000, 1000) && may_connect(0, 1000) && may_connect(0, 0));
    assert!(!may_connect(1001, 1000) && !may_connect(1000, 0));
}

/// The id of a user that is not this one.
const NOBODY: u32 = 65534;
/// The socket to which the process of another user connects.
const ASKED_BY_NOBODY: &str = "WEFT_AGENT_ASKED_BY_NOBODY";

/// Runs as another user, in a process of its own, for the test below.
#[tokio::test]
async fn another_user_asks() {
    let Some(socket) = std::env::var_os(ASKED_BY_NOBODY) else { return };
    let answer = ask(Path::new(&socket), &AgentRequest::Info, PATIENCE).await;
    println!("answer: {:?}", answer.map(|bytes| bytes.len()).map_err(|error| error.to_string()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_of_another_user_gets_nothing() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can start a process of another user");
        return;
    }
    let bed = Bed::new();
    let open = |path: &Path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777));
    open(bed.folder.path()).unwrap();
    // A copy, because the folder of this program may be closed to others. Another process makes it: a program that
    // this one had open for writing cannot run while a process that another test has just started holds its files.
    let program = bed.folder.path().join("program");
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status();
    assert!(copied.unwrap().success());
    open(&program).unwrap();
    let ask = |socket: PathBuf| {
        let mut command = Command::new(&program);
        command
            .args(["--exact", "tests::another_user_asks", "--nocapture"])
            .uid(NOBODY)
            .gid(NOBODY);
        let output = command.env(ASKED_BY_NOBODY, socket).current_dir("/").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let said = tokio::task::block_in_place(|| ask(bed.socket()));
    assert!(said.contains("answer: Err(") && said.contains("denied"), "{said}");
    // Even if the rights of the socket are wrong.
    open(&bed.socket()).unwrap();
    let said = tokio::task::block_in_place(|| ask(bed.socket()));
    assert!(said.contains("answer: Ok(0)") || said.contains("answer: Err("), "{said}");
    assert!(bed.ask(AgentRequest::Info).await.contains("r1"));
}

#[tokio::test]
async fn a_name_that_somebody_else_holds_or_that_is_too_long_delays_nobody() {
    let folder = tempfile::tempdir().unwrap();
    // A process that listens, and accepts nothing: the queue is full.
    let path = folder.path().join("full.sock");
    let full = tokio::net::UnixSocket::new_stream().unwrap();
    full.bind(&path).unwrap();
    let _full = full.listen(0).unwrap();
    let mut clients = Vec::new();
    while let Ok(Ok(client)) = tokio::time::timeout(
        std::time::Duration::from_millis(50),
        tokio::net::UnixStream::connect(&path),
    )
    .await
    {
        clients.push(client);
        assert!(clients.len() < 1_000);
    }
    assert!(!crate::socket::is_dead(&path), "it is there, and busy");
    assert!(matches!(crate::socket::Bound::make(&Place::At(path)), Err(SocketError::Served(_))));
    let long = folder.path().join("x".repeat(108));
    assert!(matches!(crate::socket::Bound::make(&Place::At(long)), Err(SocketError::Long(_))));
    for other in ["+7", "007", "0", "-7", "7 ", ""] {
        assert_eq!(crate::socket::pid_of(format!("{PREFIX}.{other}.sock").as_ref()), None);
    }
    assert_eq!(crate::socket::pid_of(format!("{PREFIX}.7.sock").as_ref()), Some(7));
}
