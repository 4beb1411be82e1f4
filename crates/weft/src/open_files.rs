//! The limit of open files of this process (`RLIMIT_NOFILE`): each connection is one.

#[cfg(not(unix))]
mod system {
    pub(crate) fn raise() {}

    pub(crate) async fn watch() {}
}

#[cfg(unix)]
mod system {
    use std::fs::File;
    use std::time::Duration;

    use rustix::io::Errno;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    /// The limit to which it is raised at most: Linux allows no more by default, and the BSDs less.
    const MOST: u64 = if cfg!(target_os = "linux") { 1 << 20 } else { 10_240 };
    /// A limit below this is said at the start of a program that runs for long.
    const FEW: u64 = 8_192;
    /// The interval of looking whether the limit is reached.
    const LOOK: Duration = Duration::from_secs(1);
    /// The places where an operator raises the limit.
    const REMEDY: &str = "raise it: `LimitNOFILE=` in the unit of systemd, `--ulimit nofile=` of a \
                          container, or `nofile` in /etc/security/limits.conf";

    /// Raises the limit to the hard one. Shells and systemd begin programs with 1,024, for the sake of
    /// programs that use `select`.
    pub(crate) fn raise() {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let most = maximum.unwrap_or(MOST).min(MOST);
        if current.is_some_and(|current| current < most) {
            let raised = Rlimit { current: Some(most), maximum };
            if let Err(error) = setrlimit(Resource::Nofile, raised) {
                tracing::warn!(%error, limit = most, "the limit of open files is not raised");
            }
        }
    }

    /// Says that the limit is low, and later once that it is reached, with the remedy.
    pub(crate) async fn watch() {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        if limit < FEW {
            tracing::warn!(
                "{limit} files may be open at most, and each connection is one: that is few for a \
                 program that serves others; {REMEDY}"
            );
        }
        loop {
            let error = File::open("/dev/null").err().and_then(|error| error.raw_os_error());
            match error.map(Errno::from_raw_os_error) {
                Some(Errno::MFILE) => {
                    let limit = getrlimit(Resource::Nofile).current.unwrap_or(limit);
                    tracing::error!(
                        "the limit of open files ({limit}) is reached: there is no room for further \
                         connections until others end; {REMEDY}"
                    );
                    return;
                }
                Some(Errno::NFILE) => {
                    tracing::error!(
                        "the system's limit of open files is reached: there is no room for further \
                         connections of any program; raise `fs.file-max` (sysctl)"
                    );
                    return;
                }
                _ => tokio::time::sleep(LOOK).await,
            }
        }
    }
}

pub(crate) use system::{raise, watch};
