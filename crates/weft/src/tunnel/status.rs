//! State of tunnelers, over a local socket of mode 0600, which only the user of the tunneler can open.
//!
//! A client that connects gets everything as JSON; nothing is read from the client.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weft_tunneler::{Counters, Status, Tunneler};

use crate::cli::TunnelStatusArgs;
use crate::failure::{Failure, Result};
use crate::output::{self, Format, bytes, counted, printable, table};
use crate::topology::{Key, Screen};

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
struct ProcessStatus {
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
    /// The state of each identity.
    pub(super) fn as_json(&self) -> Value {
        serde_json::to_value(self.states()).unwrap_or_default()
    }

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

/// The tunnelers of this user.
#[derive(Debug, Default)]
struct Asked {
    answers: Vec<ProcessStatus>,
    /// Sockets at which a tunneler did not answer, and why.
    silent: Vec<(PathBuf, String)>,
}

/// Shows the state of tunnelers.
pub(super) async fn status(args: TunnelStatusArgs) -> Result<()> {
    let format = args.output.format();
    let first = ask_all(args.socket.as_deref()).await?;
    let Some(seconds) = args.watch else {
        tokio::time::sleep(LOOK).await;
        let second = ask_all(args.socket.as_deref()).await?;
        let rows = rows(&second, Some((&first, LOOK)));
        if format == Format::Table {
            output::print(&(text(&second, &rows) + "\n"));
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
        screen.show(&text(&now, &shown), &printable::line(&foot));
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
/// read, and one for a tunneler that does not answer.
fn rows(now: &Asked, before: Option<(&Asked, Duration)>) -> Vec<Value> {
    let mut out = Vec::new();
    let problem = |pid: Option<u32>, identity: &str, role: &str, state: &str, at: &str| {
        json!({
            "pid": pid, "identity": identity, "service": "", "role": role, "at": [at],
            "state": state, "encrypted": false, "open": 0, "total": 0, "failed": 0, "sent": 0,
            "received": 0,
        })
    };
    for (socket, why) in &now.silent {
        let at = format!("{}: {why}", socket.display());
        out.push(problem(pid_of(socket), "", "tunneler", "no answer", &at));
    }
    for answer in &now.answers {
        for identity in &answer.identities {
            let earlier =
                before.map(|(before, time)| (find(&before.answers, answer.pid, identity), time));
            if let Some(why) = &identity.problem {
                let pid = Some(answer.pid);
                out.push(problem(pid, &identity.identity, "identity", "problem", why));
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

fn find<'a>(answers: &'a [ProcessStatus], pid: u32, identity: &Status) -> Option<&'a Status> {
    let answer = answers.iter().find(|answer| answer.pid == pid)?;
    answer.identities.iter().find(|known| known.identity == identity.identity)
}

/// The table of the rows; without any, why there are none.
fn text(asked: &Asked, rows: &[Value]) -> String {
    if rows.is_empty() {
        return nothing(asked).join("\n");
    }
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

/// Why tunnelers use no service: a line for each identity, or for the tunneler that has none yet.
fn nothing(asked: &Asked) -> Vec<String> {
    let mut lines = Vec::new();
    for ProcessStatus { pid, identities } in &asked.answers {
        if identities.is_empty() {
            lines.push(format!("no services yet: the tunneler (process {pid}) logs in"));
        }
        for Status { identity, services, .. } in identities {
            // Services that it may dial have rows.
            let why = match services.is_empty() {
                true => format!(
                    "no service policy gives it one; `weft why {identity} SERVICE` says what is missing"
                ),
                false => "it may only host services, and this tunneler hosts none".to_owned(),
            };
            lines.push(format!("no services: identity {identity} (process {pid}): {why}"));
        }
    }
    lines.iter().map(|line| printable::line(line)).collect()
}

/// The process of a tunneler, from the name of its socket.
fn pid_of(socket: &Path) -> Option<u32> {
    let name = socket.file_stem()?.to_str()?;
    name.strip_prefix("tunnel-")?.parse().ok()
}

/// Asks one tunneler, or all of this user.
#[cfg(unix)]
async fn ask_all(socket: Option<&Path>) -> Result<Asked> {
    use std::io::ErrorKind;
    if let Some(socket) = socket {
        let answer = ask(socket).await.map_err(|error| {
            let text = format!("no tunneler answers at {}: {}", socket.display(), why(&error));
            match error.kind() {
                ErrorKind::NotFound | ErrorKind::ConnectionRefused => Failure::not_found(text),
                _ => Failure::unreachable(text),
            }
        })?;
        return Ok(Asked { answers: vec![answer], silent: Vec::new() });
    }
    let folder = folder();
    let mut asked = Asked::default();
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.starts_with("tunnel-") {
            continue;
        }
        match ask(&path).await {
            Ok(answer) => asked.answers.push(answer),
            // Left behind by a tunneler that was killed.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                let _ = std::fs::remove_file(&path);
            }
            // It has ended meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => asked.silent.push((path, why(&error))),
        }
    }
    asked.answers.sort_by_key(|answer| answer.pid);
    match (asked.answers.is_empty(), asked.silent.first()) {
        (false, _) => Ok(asked),
        (true, Some((path, why))) => {
            let text = format!("the tunneler at {} does not answer: {why}", path.display());
            Err(Failure::unreachable(text)
                .and("hint: it is stopped or stuck; its log may say more"))
        }
        (true, None) => Err(Failure::not_found("this user runs no tunneler on this machine")
            .and("hint: weft tunnel run --identity FILE; another user's is asked with --socket")),
    }
}

/// Why a tunneler did not answer, for people.
#[cfg(unix)]
fn why(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::TimedOut => format!("it said nothing for {} s", PATIENCE.as_secs()),
        _ => error.to_string(),
    }
}

#[cfg(unix)]
async fn ask(path: &Path) -> std::io::Result<ProcessStatus> {
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
    pub(super) fn start(path: Option<&Path>, shown: Arc<Mutex<Shown>>) -> Result<Self> {
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
                let text =
                    serde_json::to_vec(&ProcessStatus { pid, identities }).unwrap_or_default();
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
fn private(folder: &Path) -> Result<()> {
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
async fn ask_all(_: Option<&Path>) -> Result<Asked> {
    let _ = (PATIENCE, MAX_ANSWER);
    Err(Failure::new("tunnelers tell their status on Unix only"))
}

#[cfg(not(unix))]
impl Served {
    pub(super) fn start(_: Option<&Path>, _: Arc<Mutex<Shown>>) -> Result<Self> {
        let _task = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(async {}));
        Ok(Self { path: PathBuf::new(), _task })
    }
}

#[cfg(test)]
mod tests {
    use weft_tunneler::ServiceStatus;

    use super::*;

    fn asked(answers: Vec<ProcessStatus>) -> Asked {
        Asked { answers, silent: Vec::new() }
    }

    fn answer(sent: u64) -> ProcessStatus {
        let service = ServiceStatus {
            name: "web".into(),
            can_dial: true,
            dialed: Counters { open: 1, total: 2, sent, ..Counters::default() },
            ..ServiceStatus::default()
        };
        let status = Status { identity: "me".into(), services: vec![service], ..Status::default() };
        ProcessStatus { pid: 7, identities: vec![status] }
    }

    #[test]
    fn rates_are_made_of_two_looks() {
        let (before, now) = (asked(vec![answer(1000)]), asked(vec![answer(5096)]));
        let shown = rows(&now, Some((&before, Duration::from_secs(2))));
        assert_eq!(shown[0]["sentPerSecond"], 2048);
        assert_eq!((&shown[0]["open"], &shown[0]["state"]), (&json!(1), &json!("no port")));
        let alone = rows(&asked(vec![answer(5)]), None);
        assert!(alone[0]["sentPerSecond"].is_null());
        assert!(text(&now, &shown).contains("(2.0 KiB/s)"));
    }

    #[test]
    fn an_empty_table_says_why() {
        let told = |identities: Vec<Status>| {
            let now = asked(vec![ProcessStatus { pid: 7, identities }]);
            assert_eq!(rows(&now, None), Vec::<Value>::new());
            text(&now, &[])
        };
        let of = |services: Vec<ServiceStatus>| Status {
            identity: "me".into(),
            services,
            ..Status::default()
        };
        assert_eq!(told(Vec::new()), "no services yet: the tunneler (process 7) logs in");
        let none = told(vec![of(Vec::new())]);
        assert!(none.contains("identity me (process 7): no service policy gives it one"), "{none}");
        let hosted =
            ServiceStatus { name: "web".into(), can_bind: true, ..ServiceStatus::default() };
        let only = told(vec![of(vec![hosted])]);
        assert!(only.contains("it may only host services"), "{only}");
    }

    #[test]
    fn an_identity_without_services_says_why() {
        let unserved = [(PathBuf::from("me.json"), "not logged in".to_owned())];
        let shown = Shown { unserved: unserved.into(), ..Shown::default() };
        let now = asked(vec![ProcessStatus { pid: 7, identities: shown.states() }]);
        let rows = rows(&now, None);
        let told = [&rows[0]["identity"], &rows[0]["state"], &rows[0]["at"][0]];
        assert_eq!(told, [&json!("me.json"), &json!("problem"), &json!("not logged in")]);
        assert!(text(&now, &rows).contains("not logged in"));
    }

    #[cfg(unix)]
    #[tokio::test(start_paused = true)]
    async fn a_tunneler_that_does_not_answer_is_not_taken_for_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tunnel-7.sock");
        let absent = ask_all(Some(&path)).await.unwrap_err().to_string();
        // It accepts nothing.
        let _stuck = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let silent = ask_all(Some(&path)).await.unwrap_err().to_string();
        assert!(absent.contains("No such file"), "{absent}");
        assert!(silent.contains("it said nothing for 5 s"), "{silent}");
        let beside = Asked { silent: vec![(path, "stuck".into())], ..asked(vec![answer(1)]) };
        let shown = rows(&beside, None);
        assert_eq!((&shown[0]["pid"], &shown[0]["state"]), (&json!(7), &json!("no answer")));
        assert_eq!((shown.len(), &shown[1]["service"]), (2, &json!("web")));
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
