//! The socket of an agent: its name, how it is made, and how it goes.
//!
//! Clients look for `gops-agent.PID.sock` in the folder for temporary files, which every user can write. The socket is
//! made in a folder of mode 0700 and gets its own mode there; only then it is moved to its name. So there is no moment
//! at which another user could connect.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use tokio::net::{UnixListener, UnixSocket};

use crate::limits::WAITING;
use crate::place::Place;

/// The beginning of the names of sockets.
pub const PREFIX: &str = "gops-agent";
/// The rights of a socket.
const MODE: u32 = 0o700;
/// Most bytes of the name of a socket.
const MAX_PATH: usize = 107;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Something else has the name.
    #[error("{0} is there and is no socket; it is left as it is")]
    Taken(PathBuf),
    /// Another user has made a socket of this name.
    #[error("{0} belongs to another user; it is left as it is")]
    Foreign(PathBuf),
    /// The name is longer than the system takes for a socket.
    #[error("{0} has more than {MAX_PATH} bytes, and no socket has so long a name")]
    Long(PathBuf),
    /// Another process serves it.
    #[error("another process listens at {0}")]
    Served(PathBuf),
    /// The system refuses.
    #[error("{0}: {1}")]
    Io(PathBuf, #[source] io::Error),
}

/// The folder in which clients look for sockets.
#[must_use]
pub fn folder() -> PathBuf {
    let named = std::env::var_os("TMPDIR").filter(|path| !path.is_empty());
    named.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
}

/// The socket of a process in a folder.
#[must_use]
pub fn socket_of(folder: &Path, pid: u32) -> PathBuf {
    folder.join(format!("{PREFIX}.{pid}.sock"))
}

/// The process whose socket has this name.
pub(crate) fn pid_of(name: &OsStr) -> Option<u32> {
    let pid = name.to_str()?.strip_prefix(PREFIX)?.strip_prefix('.')?.strip_suffix(".sock")?;
    // Other ways to write a number would give one process many names.
    let number: u32 = pid.parse().ok().filter(|number| *number > 0)?;
    (number.to_string() == pid).then_some(number)
}

/// A socket that listens. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) listener: UnixListener,
    pub(crate) path: PathBuf,
    /// Device and inode.
    is: (u64, u64),
}

impl Bound {
    /// Makes the socket. One that a process has left behind is replaced.
    pub(crate) fn make(place: &Place) -> Result<Self, SocketError> {
        let path = match place {
            Place::Usual => socket_of(&folder(), std::process::id()),
            Place::At(path) => path.clone(),
        };
        let failed = |error| SocketError::Io(path.clone(), error);
        if path.as_os_str().len() > MAX_PATH {
            return Err(SocketError::Long(path));
        }
        make_way(&path)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let private = Private::make(parent.unwrap_or(Path::new("."))).map_err(failed)?;
        let inside = private.0.join("s");
        let listener = listen(&inside).map_err(failed)?;
        let made = std::fs::symlink_metadata(&inside).map_err(failed)?;
        std::fs::rename(&inside, &path).map_err(failed)?;
        Ok(Self { listener, is: (made.dev(), made.ino()), path: path.clone() })
    }
}

impl Bound {
    /// Removes the socket from its folder.
    pub(crate) fn remove(&self) {
        // Another process may have taken the name since.
        let now = std::fs::symlink_metadata(&self.path).map(|now| (now.dev(), now.ino()));
        if now.is_ok_and(|now| now == self.is) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.remove();
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(MODE))?;
    socket.listen(WAITING)
}

/// Refuses a name that is taken: by no socket, or by one that is served.
fn make_way(path: &Path) -> Result<(), SocketError> {
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(SocketError::Io(path.to_owned(), error)),
    };
    if !found.file_type().is_socket() {
        return Err(SocketError::Taken(path.to_owned()));
    }
    // Nothing is asked of somebody else, who may let a client wait for ever.
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(SocketError::Foreign(path.to_owned()));
    }
    if is_dead(path) { Ok(()) } else { Err(SocketError::Served(path.to_owned())) }
}

/// Whether no process listens at a socket. One that accepts nothing, because it is stopped or busy, is alive.
pub(crate) fn is_dead(path: &Path) -> bool {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let connected = SocketAddrUnix::new(path).and_then(|address| {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &address)
    });
    connected == Err(Errno::CONNREFUSED)
}

/// A folder of mode 0700 with a name that nobody knows before, removed when dropped.
struct Private(PathBuf);

impl Private {
    fn make(parent: &Path) -> io::Result<Self> {
        let path = parent.join(format!(".weft-{:016x}", rand::random::<u64>()));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.0.join("s"));
        let _ = std::fs::remove_dir(&self.0);
    }
}
