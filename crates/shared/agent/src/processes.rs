//! The processes of this machine with an agent, found by their sockets.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::ask::{AskError, read_answer};
use crate::info::AppInfo;
use crate::limits::{INFO_TIME, MAX_ENTRIES, MAX_INFO};
use crate::request::AgentRequest;
use crate::socket::{is_dead, pid_of};

/// Processes that are asked at once.
const AT_ONCE: usize = 64;

/// A process with an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalProcess {
    /// Its id.
    pub pid: u32,
    /// The name of its program; empty if the system does not tell.
    pub program: String,
    /// Its socket.
    pub socket: PathBuf,
    /// What it says that it is, or why it said nothing.
    pub info: Result<AppInfo, String>,
}

/// The processes whose agents this user may ask, by their id. A socket that another process has put under the name of a
/// process is left out.
///
/// # Errors
/// When the folder cannot be read.
pub async fn processes(folder: &Path) -> io::Result<Vec<LocalProcess>> {
    let mut found = Vec::new();
    // Many at once, so that silent ones delay others little.
    for some in sockets(folder)?.chunks(AT_ONCE) {
        let asked: JoinSet<_> = some.iter().map(|it| look_at(it.0, it.1.clone())).collect();
        found.extend(asked.join_all().await.into_iter().flatten());
    }
    found.sort_by_key(|process| process.pid);
    Ok(found)
}

/// A process, if it serves its socket and this user may ask it.
async fn look_at(pid: u32, socket: PathBuf) -> Option<LocalProcess> {
    let asked = timeout(INFO_TIME, info(&socket, pid)).await;
    let info = match asked.unwrap_or(Err(AskError::Silent(INFO_TIME))) {
        Ok(Some(info)) => Ok(info),
        // Of another process.
        Ok(None) => return None,
        Err(AskError::Io(error)) if is_gone(&error) => return None,
        Err(problem) => Err(problem.to_string()),
    };
    Some(LocalProcess { pid, program: program(pid), socket, info })
}

/// Whether an error says that there is nobody, or nobody for this user.
fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, NotFound, PermissionDenied};
    matches!(error.kind(), ConnectionRefused | NotFound | PermissionDenied)
}

/// What a process says that it is; `None` if another process serves its socket.
async fn info(socket: &Path, pid: u32) -> Result<Option<AppInfo>, AskError> {
    let mut stream = UnixStream::connect(socket).await?;
    // A process of another namespace has no id here.
    let served_by = stream.peer_cred()?.pid().and_then(|pid| u32::try_from(pid).ok());
    if served_by.is_some_and(|by| by != 0 && by != pid) {
        return Ok(None);
    }
    stream.write_all(&AgentRequest::Info.to_bytes()).await?;
    let answer = read_answer(stream, MAX_INFO).await?;
    if answer.is_empty() {
        return Ok(Some(AppInfo::default()));
    }
    Ok(Some(serde_json::from_slice(&answer).map_err(io::Error::other)?))
}

/// The sockets in a folder with the processes of their names.
fn sockets(folder: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let entries = std::fs::read_dir(folder)?.take(MAX_ENTRIES).flatten();
    Ok(entries.filter_map(|entry| Some((pid_of(&entry.file_name())?, entry.path()))).collect())
}

/// The name of a process's program.
fn program(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// Whether there is a process of this id.
fn is_running(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// Removes the sockets that dead processes of this user have left behind. Those of other users are left, and so is
/// everything that is no socket.
pub fn remove_stale(folder: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for (pid, path) in sockets(folder).unwrap_or_default() {
        let is_own = std::fs::symlink_metadata(&path)
            .is_ok_and(|found| found.file_type().is_socket() && found.uid() == own);
        // One that has just been made may not listen yet.
        if is_own && !is_running(pid) && is_dead(&path) {
            let _ = std::fs::remove_file(&path);
        }
    }
}
