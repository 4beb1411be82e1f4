//! State of tunnelers, over a local socket of mode 0600, which only the user of the tunneler can open.
//!
//! A client that connects gets everything as JSON; nothing is read from the client.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weft_tunneler::{Counters, Status, Tunneler};

use crate::{
    cli::TunnelStatusArgs,
    failure::Failure,
    output::{self, Format, bytes, counted, printable, table},
    topology::{Key, Screen},
};

/// Time between the two states that rates are computed from.
const LOOK: Duration = Duration::from_secs(1);
/// Time for a client to read its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most clients that wait for the tunneler to answer.
#[cfg(unix)]
const WAITING: u32 = 128;
/// Longest answer that is read, in bytes.
const MAX_ANSWER: u64 = 64 << 20;

/// State of one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Answer {
    pid: u32,
    /// State of each identity.
    identities: Vec<Status>,
}

/// The tunnelers of a process.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// Those that have begun.
    pub(super) tunnelers: Vec<Arc<Tunneler>>,
    /// The files of identities that are not served, and why.
    pub(super) unserved: BTreeMap<PathBuf, String>,
}

impl Shown {
    fn states(&self) -> Vec<Status> {
        let unserved = self.unserved.iter().map(|(path, problem)| Status {
            identity: path.display().to_string(),
            problem: Some(problem.clone()),
            ..Status::default()
        });
        self.tunnelers.iter().map(|tunneler| tunneler.status()).chain(unserved).collect()
    }
}

/// The socket of a tunneler, removed when dropped.
pub(super) struct Served {
    path: PathBuf,
    _task: tokio_util::task::AbortOnDropHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Shows the state of tunnelers.
pub(super) async fn status(args: TunnelStatusArgs) -> Result<(), Failure> {
    let format = args.output.format();
    let first = ask_all(args.socket.as_deref()).await?;
    let Some(seconds) = args.watch else {
        tokio::time::sleep(LOOK).await;
        let second = ask_all(args.socket.as_deref()).await?;
        let rows = rows(&second, Some((&first, LOOK)));
        if format == Format::Table {
            output::print(&(text(&rows) + "\n"));
        } else {
            output::value(format, &Value::Array(rows), String::new);
        }
        return Ok(());
    };
    if format != Format::Table {
        return Err(Failure::usage("--watch draws; it does not go with --output"));
    }
    let pause = Duration::from_secs(seconds.into());
    let mut screen = Screen::open("weft tunnel status")?;
    let (mut before, mut now) = (None, first);
    let mut trouble = None;
    loop {
        let shown = rows(&now, before.as_ref().map(|before| (before, pause)));
        let foot = match &trouble {
            None => format!("every {seconds} s; q or Ctrl-C ends"),
            Some(failure) => format!("out of date: {failure}; q or Ctrl-C ends"),
        };
        screen.show(&text(&shown), &printable::line(&foot));
        if let Some(Key::End) = screen.key(pause).await {
            return Ok(());
        }
        match ask_all(args.socket.as_deref()).await {
            Ok(answers) => {
                before = Some(std::mem::replace(&mut now, answers));
                trouble = None;
            }
            Err(failure) => trouble = Some(failure),
        }
    }
}

/// One row for each use of a service: dialing, and hosting. One more for an identity whose services could not be
/// read.
fn rows(now: &[Answer], before: Option<(&Vec<Answer>, Duration)>) -> Vec<Value> {
    let mut out = Vec::new();
    for answer in now {
        for identity in &answer.identities {
            let earlier = before.map(|(before, time)| (find(before, answer.pid, identity), time));
            if let Some(problem) = &identity.problem {
                out.push(json!({
                    "pid": answer.pid, "identity": identity.identity, "service": "",
                    "role": "identity", "at": [problem], "state": "problem", "encrypted": false,
                    "open": 0, "total": 0, "failed": 0, "sent": 0, "received": 0,
                }));
            }
            for service in &identity.services {
                let before = earlier.and_then(|(earlier, time)| {
                    let earlier = earlier?.services.iter().find(|one| one.name == service.name)?;
                    Some((earlier, time))
                });
                let mut row = |role: &str,
                               at: Vec<String>,
                               state: String,
                               now: &Counters,
                               before: Option<&Counters>| {
                    let time = earlier.map_or(LOOK, |(_, time)| time).as_secs_f64();
                    let rate = |now: u64, before: Option<u64>| {
                        before.map(|before| (now.saturating_sub(before) as f64 / time) as u64)
                    };
                    out.push(json!({
                        "pid": answer.pid, "identity": identity.identity, "service": service.name,
                        "role": role, "at": at, "state": state, "encrypted": service.encrypted,
                        "open": now.open, "total": now.total, "failed": now.failed,
                        "sent": now.sent, "received": now.received,
                        "sentPerSecond": rate(now.sent, before.map(|one| one.sent)),
                        "receivedPerSecond": rate(now.received, before.map(|one| one.received)),
                    }));
                };
                if let Some(why) = &service.unavailable {
                    let earlier = before.map(|(before, _)| &before.dialed);
                    let state = "unavailable".to_owned();
                    row("dial", vec![why.clone()], state, &service.dialed, earlier);
                } else if service.can_dial {
                    let ports = service.ports.iter().map(|port| match &port.address {
                        Some(address) => format!("{}:{address}", port.protocol),
                        None => port.problem.clone().unwrap_or_default(),
                    });
                    let at = ports.chain(service.intercepted.iter().cloned());
                    let at = at.chain(service.problems.iter().cloned());
                    let failed = service.ports.iter().any(|port| port.problem.is_some())
                        || !service.problems.is_empty();
                    let state = match (service.ports.is_empty(), service.intercepted.is_empty()) {
                        _ if failed => "failed",
                        (_, false) => "intercepted",
                        (false, true) => "listening",
                        (true, true) => "no port",
                    };
                    let earlier = before.map(|(before, _)| &before.dialed);
                    row("dial", at.collect(), state.to_owned(), &service.dialed, earlier);
                }
                if service.can_bind && !service.hosting.is_empty() {
                    let at =
                        service.hosting.iter().map(|host| match (&host.problem, &host.refused) {
                            (Some(problem), _) => problem.clone(),
                            (None, refused) => format!(
                                "{}, cost {}, {}{}",
                                counted(host.terminators, "router", "routers"),
                                host.cost,
                                host.precedence,
                                refused.as_ref().map_or_else(String::new, |why| format!(
                                    "; the last dialer did not reach the application: {why}"
                                ))
                            ),
                        });
                    let hosted = service.hosting.iter().all(|host| host.terminators > 0);
                    let state = if hosted { "hosted" } else { "not hosted" };
                    let earlier = before.map(|(before, _)| &before.hosted);
                    row("host", at.collect(), state.to_owned(), &service.hosted, earlier);
                }
            }
        }
    }
    out
}

fn find<'a>(answers: &'a [Answer], pid: u32, identity: &Status) -> Option<&'a Status> {
    let answer = answers.iter().find(|answer| answer.pid == pid)?;
    answer.identities.iter().find(|known| known.identity == identity.identity)
}

fn text(rows: &[Value]) -> String {
    const COLUMNS: [(&str, &str); 10] = [
        ("SERVICE", "/service"),
        ("IDENTITY", "/identity"),
        ("ROLE", "/role"),
        ("STATE", "/state"),
        ("AT", "/at"),
        ("OPEN", "/open"),
        ("TOTAL", "/total"),
        ("FAILED", "/failed"),
        ("SENT", "/sent"),
        ("RECEIVED", "/received"),
    ];
    let column = |(title, pointer): (&str, &str)| table::Column {
        title: title.to_owned(),
        pointer: pointer.to_owned(),
    };
    let mut shown = table::Rows::new(COLUMNS.map(column).into());
    for row in rows {
        let amount = |total: &str, rate: &str| {
            let total = bytes(row[total].as_u64().unwrap_or_default());
            match row[rate].as_u64() {
                Some(rate) if rate > 0 => format!("{total} ({}/s)", bytes(rate)),
                _ => total,
            }
        };
        let mut row = row.clone();
        let (sent, received) =
            (amount("sent", "sentPerSecond"), amount("received", "receivedPerSecond"));
        (row["sent"], row["received"]) = (sent.into(), received.into());
        shown.push(&row);
    }
    shown.fitted().text
}

/// Asks one tunneler, or all of this user.
#[cfg(unix)]
async fn ask_all(socket: Option<&Path>) -> Result<Vec<Answer>, Failure> {
    if let Some(socket) = socket {
        let answer = ask(socket).await;
        let named = |error: std::io::Error| {
            Failure::not_found(format!("no tunneler answers at {}: {error}", socket.display()))
        };
        return Ok(vec![answer.map_err(named)?]);
    }
    let folder = folder();
    let mut answers = Vec::new();
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.starts_with("tunnel-") {
            continue;
        }
        match ask(&path).await {
            Ok(answer) => answers.push(answer),
            // Left behind by a tunneler that was killed.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                let _ = std::fs::remove_file(&path);
            }
            Err(error) => {
                tracing::warn!(
                    socket = %path.display(), %error,
                    "a tunneler does not answer on its socket"
                )
            }
        }
    }
    if answers.is_empty() {
        return Err(Failure::not_found("this user runs no tunneler on this machine")
            .and("hint: weft tunnel run --identity FILE; another user's is asked with --socket"));
    }
    answers.sort_by_key(|answer| answer.pid);
    Ok(answers)
}

#[cfg(unix)]
async fn ask(path: &Path) -> std::io::Result<Answer> {
    use tokio::io::AsyncReadExt as _;
    let asking = async {
        let stream = tokio::net::UnixStream::connect(path).await?;
        let mut text = Vec::new();
        stream.take(MAX_ANSWER).read_to_end(&mut text).await?;
        serde_json::from_slice(&text).map_err(std::io::Error::other)
    };
    tokio::time::timeout(PATIENCE, asking)
        .await
        .unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
}

/// Folder of this user's sockets.
#[cfg(unix)]
fn folder() -> PathBuf {
    let user = rustix::process::geteuid();
    if let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
        return PathBuf::from(runtime).join("weft");
    }
    match user.is_root() {
        true => PathBuf::from("/run/weft"),
        false => std::env::temp_dir().join(format!("weft-{}", user.as_raw())),
    }
}

#[cfg(unix)]
impl Served {
    /// Serves the state of tunnelers until dropped.
    pub(super) fn start(path: Option<&Path>, shown: Arc<Mutex<Shown>>) -> Result<Self, Failure> {
        let pid = std::process::id();
        let path = match path {
            Some(path) => path.to_owned(),
            None => {
                let folder = folder();
                private(&folder)?;
                folder.join(format!("tunnel-{pid}.sock"))
            }
        };
        let failed = |error: std::io::Error| {
            Failure::new(format!("{}: {error}", path.display()))
                .during("the socket for `weft tunnel status`")
        };
        // A socket without a server was left behind by a killed process.
        if std::os::unix::net::UnixStream::connect(&path)
            .is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
        {
            std::fs::remove_file(&path).map_err(failed)?;
        }
        let listener = bound(&path).and_then(|socket| socket.listen(WAITING)).map_err(failed)?;
        let task = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    tokio::time::sleep(LOOK).await;
                    continue;
                };
                let identities = shown.lock().states();
                let text = serde_json::to_vec(&Answer { pid, identities }).unwrap_or_default();
                let _ = tokio::time::timeout(PATIENCE, tell(stream, &text)).await;
            }
        });
        Ok(Self { path, _task: tokio_util::task::AbortOnDropHandle::new(task) })
    }
}

/// A socket that does not listen yet: nobody can connect before the socket has mode 0600.
#[cfg(unix)]
fn bound(path: &Path) -> std::io::Result<tokio::net::UnixSocket> {
    use std::os::unix::fs::PermissionsExt as _;
    let socket = tokio::net::UnixSocket::new_stream()?;
    socket.bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(socket)
}

#[cfg(unix)]
async fn tell(mut stream: tokio::net::UnixStream, text: &[u8]) -> std::io::Result<()> {
    use tokio::io::AsyncWriteExt as _;
    stream.write_all(text).await?;
    stream.shutdown().await
}

/// Creates a folder that only this user can open. Of a folder that exists, checks that it is this
/// user's, and that nobody else can write to it.
#[cfg(unix)]
fn private(folder: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", folder.display()));
    match std::fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(failed(error));
        }
        _ => {}
    }
    let found = std::fs::symlink_metadata(folder).map_err(failed)?;
    let is_own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if is_own && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} is not a folder that only this user can write to; remove it, or name a socket with \
         --socket",
        folder.display()
    )))
}

#[cfg(not(unix))]
async fn ask_all(_: Option<&Path>) -> Result<Vec<Answer>, Failure> {
    let _ = (PATIENCE, MAX_ANSWER);
    Err(Failure::new("tunnelers tell their status on Unix only"))
}

#[cfg(not(unix))]
impl Served {
    pub(super) fn start(_: Option<&Path>, _: Arc<Mutex<Shown>>) -> Result<Self, Failure> {
        let _task = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(async {}));
        Ok(Self { path: PathBuf::new(), _task })
    }
}

#[cfg(test)]
mod tests {
    use weft_tunneler::ServiceStatus;

    use super::*;

    fn answer(sent: u64) -> Answer {
        let service = ServiceStatus {
            name: "web".into(),
            can_dial: true,
            dialed: Counters { open: 1, total: 2, sent, ..Counters::default() },
            ..ServiceStatus::default()
        };
        let status = Status { identity: "me".into(), services: vec![service], ..Status::default() };
        Answer { pid: 7, identities: vec![status] }
    }

    #[test]
    fn rates_are_made_of_two_looks() {
        let before = vec![answer(1000)];
        let shown = rows(&[answer(5096)], Some((&before, Duration::from_secs(2))));
        assert_eq!(shown[0]["sentPerSecond"], 2048);
        assert_eq!((&shown[0]["open"], &shown[0]["state"]), (&json!(1), &json!("no port")));
        let alone = rows(&[answer(5)], None);
        assert!(alone[0]["sentPerSecond"].is_null());
        assert!(text(&shown).contains("(2.0 KiB/s)"));
    }

    #[test]
    fn an_identity_without_services_says_why() {
        let unserved = [(PathBuf::from("me.json"), "not logged in".to_owned())];
        let shown = Shown { unserved: unserved.into(), ..Shown::default() };
        let answer = Answer { pid: 7, identities: shown.states() };
        let rows = rows(&[answer], None);
        let told = [&rows[0]["identity"], &rows[0]["state"], &rows[0]["at"][0]];
        assert_eq!(told, [&json!("me.json"), &json!("problem"), &json!("not logged in")]);
        assert!(text(&rows).contains("not logged in"));
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn nobody_connects_before_the_socket_is_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sock");
        let socket = bound(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let refused = std::os::unix::net::UnixStream::connect(&path).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        let _listener = socket.listen(WAITING).unwrap();
        std::os::unix::net::UnixStream::connect(&path).unwrap();
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_tunneler_tells_its_user_and_leaves_nothing() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let served = Served::start(Some(&path), Arc::default()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let answer = ask(&path).await.unwrap();
        assert_eq!((answer.pid, answer.identities.len()), (std::process::id(), 0));
        drop(served);
        assert!(!path.exists());
        assert!(ask_all(Some(&path)).await.is_err());
        // A folder that others can write to is refused.
        let open = folder.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(private(&open).is_err());
        private(&folder.path().join("new")).unwrap();
    }
}
