//! Parts of the network as child processes: started, started again when they end, and stopped together with
//! this process.
//!
//! Standard input of a child is a pipe of which this process holds the other end. However this process
//! ends, routers and controllers then see the end of their input and stop. For etcd, which does not look at
//! its input, see [`with_parent`](mod@super::with_parent).

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::progress::step;
use crate::failure::{Failure, Result};

/// First and longest pause before a child is started again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Running time after which the pause begins at its first value again.
const CALM: Duration = Duration::from_secs(60);
/// A program that is to run as a child.
pub(super) struct Program {
    /// The name of the part for messages, such as "router `paris`".
    pub(super) name: String,
    /// The arguments of this program itself.
    pub(super) args: Vec<OsString>,
    /// The file for its output. That of the start before is kept beside it.
    pub(super) log: PathBuf,
    /// Time to stop before it is killed.
    pub(super) grace: Duration,
    /// How it is told to stop.
    pub(super) told_by: ToldBy,
}

/// How a child is told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToldBy {
    /// By the end of its input.
    EndOfInput,
    /// By SIGTERM; where there are no signals, it is ended.
    Signal,
}

/// A running child process.
pub(super) struct Child {
    /// Process id; 0 if the child does not run.
    process: Arc<AtomicU32>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// What keeps a child running.
struct Keeper {
    program: Program,
    /// This program.
    own: PathBuf,
    process: Arc<AtomicU32>,
}

impl Child {
    /// Starts a program.
    pub(super) fn start(program: Program) -> Result<Self> {
        let own = std::env::current_exe()
            .map_err(|error| Failure::new(format!("cannot find this program itself: {error}")))?;
        let before = program.log.with_extension("log.1");
        if let Err(error) = std::fs::rename(&program.log, before)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(Failure::new(format!("{}: {error}", program.log.display())));
        }
        let process = Arc::new(AtomicU32::new(0));
        let keeper = Keeper { program, own, process: Arc::clone(&process) };
        let started = keeper.spawn()?;
        let stop = CancellationToken::new();
        let task = tokio::spawn(keeper.keep(started, stop.clone()));
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

impl Keeper {
    fn spawn(&self) -> Result<tokio::process::Child> {
        let Program { name, args, log: path, .. } = &self.program;
        let failed = |what: &Path, error: std::io::Error| {
            Failure::new(format!("{name}: {}: {error}", what.display()))
        };
        let log = File::options().create(true).append(true).open(path);
        let log = log.map_err(|error| failed(path, error))?;
        let errors = log.try_clone().map_err(|error| failed(path, error))?;
        let mut command = Command::new(&self.own);
        command.args(args).stdin(Stdio::piped()).stdout(log).stderr(errors).kill_on_drop(true);
        // Ctrl-C must reach this process only, which stops the children in order.
        #[cfg(unix)]
        command.process_group(0);
        let child = command.spawn().map_err(|error| failed(&self.own, error))?;
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
                Ok(child) => match self.run(child, &stop).await {
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
                "{} ended ({why}) and is started again in {} s; its log is {}",
                self.program.name,
                pause.as_secs(),
                self.program.log.display()
            ));
            if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
            running = self.spawn();
            if running.is_ok() {
                let process = self.process.load(Ordering::Relaxed);
                step(&format!("{} runs again as process {process}", self.program.name));
            }
        }
    }

    /// Waits until a child ends and describes how; `None` if it was stopped.
    async fn run(
        &self,
        mut child: tokio::process::Child,
        stop: &CancellationToken,
    ) -> Option<String> {
        let input = child.stdin.take();
        tokio::select! {
            ended = child.wait() => Some(match ended {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            }),
            () = stop.cancelled() => {
                if self.program.told_by == ToldBy::Signal {
                    terminate(&mut child);
                }
                drop(input);
                if tokio::time::timeout(self.program.grace, child.wait()).await.is_err() {
                    // If the kill fails, dropping `child` kills once more.
                    let _ = child.kill().await;
                }
                None
            }
        }
    }
}

/// Sends a child SIGTERM. One that has ended meanwhile is no error.
#[cfg(unix)]
fn terminate(child: &mut tokio::process::Child) {
    use rustix::process::{Pid, Signal, kill_process};
    let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    if let Some(id) = id {
        let _ = kill_process(id, Signal::TERM);
    }
}

#[cfg(not(unix))]
fn terminate(child: &mut tokio::process::Child) {
    let _ = child.start_kill();
}
