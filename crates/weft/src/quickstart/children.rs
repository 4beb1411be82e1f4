//! Routers as child processes: started, started again when they end, and stopped together with this
//! process.
//!
//! Standard input of a child is a pipe of which this process holds the other end. However this process
//! ends, the child then sees the end of its input and stops.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::step;
use crate::failure::{Failure, Result};

/// First and longest pause before a child is started again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Running time after which the pause begins at its first value again.
const CALM: Duration = Duration::from_secs(60);
/// Time for a child to stop, before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// A router in a child process.
pub(super) struct Child {
    /// Process id; 0 if the child does not run.
    process: Arc<AtomicU32>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Arguments for starting a router.
struct Router {
    name: String,
    program: PathBuf,
    file: PathBuf,
    log: PathBuf,
    process: Arc<AtomicU32>,
}

impl Child {
    /// Starts a router with this file. Its output goes to `log`; the log of the start before is
    /// kept beside it.
    pub(super) fn start(name: &str, file: &Path, log: &Path) -> Result<Self> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::new(format!("cannot find this program itself: {error}")))?;
        let before = log.with_extension("log.1");
        if let Err(error) = std::fs::rename(log, before)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(Failure::new(format!("{}: {error}", log.display())));
        }
        let process = Arc::new(AtomicU32::new(0));
        let router = Router {
            name: name.to_owned(),
            program,
            file: file.to_owned(),
            log: log.to_owned(),
            process: Arc::clone(&process),
        };
        let started = router.spawn()?;
        let stop = CancellationToken::new();
        let task = tokio::spawn(router.keep(started, stop.clone()));
        Ok(Self { process, stop, task })
    }

    /// Process id, if the child runs.
    pub(super) fn process(&self) -> Option<u32> {
        Some(self.process.load(Ordering::Relaxed)).filter(|id| *id != 0)
    }

    /// Tells the child to stop, without waiting.
    pub(super) fn tell_to_stop(&self) {
        self.stop.cancel();
    }

    /// Waits until the child has stopped.
    pub(super) async fn stopped(self) {
        let _ = self.task.await;
    }
}

impl Router {
    fn spawn(&self) -> Result<tokio::process::Child> {
        let failed = |what: &Path, error: std::io::Error| {
            Failure::new(format!("{}: {}: {error}", self.name, what.display()))
        };
        let log = File::options().create(true).append(true).open(&self.log);
        let log = log.map_err(|error| failed(&self.log, error))?;
        let errors = log.try_clone().map_err(|error| failed(&self.log, error))?;
        let mut command = Command::new(&self.program);
        command
            .args(["router", "run", "--exit-with-parent", "--grace", "0"])
            .arg(&self.file)
            .stdin(Stdio::piped())
            .stdout(log)
            .stderr(errors)
            .kill_on_drop(true);
        // Ctrl-C must reach this process only, which stops the routers before the controller.
        #[cfg(unix)]
        command.process_group(0);
        let child = command.spawn().map_err(|error| failed(&self.program, error))?;
        self.process.store(child.id().unwrap_or_default(), Ordering::Relaxed);
        Ok(child)
    }

    /// Starts the child again whenever it ends.
    async fn keep(self, first: tokio::process::Child, stop: CancellationToken) {
        let mut pause = FIRST_PAUSE;
        let mut running: Result<_> = Ok(first);
        loop {
            let begun = Instant::now();
            let why = match running {
                Ok(child) => match run(child, &stop).await {
                    Some(why) => why,
                    None => return,
                },
                Err(failure) => failure.to_string(),
            };
            self.process.store(0, Ordering::Relaxed);
            if begun.elapsed() >= CALM {
                pause = FIRST_PAUSE;
            }
            step(&format!(
                "router `{}` ended ({why}) and is started again in {} s; its log is {}",
                self.name,
                pause.as_secs(),
                self.log.display()
            ));
            if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
            running = self.spawn();
            if running.is_ok() {
                let process = self.process.load(Ordering::Relaxed);
                step(&format!("router `{}` runs again as process {process}", self.name));
            }
        }
    }
}

/// Waits until a child ends and describes how; `None` if it was stopped.
async fn run(mut child: tokio::process::Child, stop: &CancellationToken) -> Option<String> {
    // The child stops when this end of its input is closed.
    let input = child.stdin.take();
    tokio::select! {
        ended = child.wait() => Some(match ended {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        }),
        () = stop.cancelled() => {
            drop(input);
            if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
                // If the kill fails, dropping `child` kills once more.
                let _ = child.kill().await;
            }
            None
        }
    }
}
