//! A running `weft`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use crate::wait::{PATIENCE, until};

/// The program under test.
pub(crate) const WEFT: &str = env!("CARGO_BIN_EXE_weft");

/// A process of `weft`, killed when dropped. Its output goes to a file.
pub(crate) struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts a process whose output is appended to this file.
    pub(crate) fn start(log: &Path, args: &[&str]) -> Self {
        Self::start_saying("", log, args)
    }

    /// [`Program::start`] with a filter for the log; empty is the default.
    pub(crate) fn start_saying(filter: &str, log: &Path, args: &[&str]) -> Self {
        Self::run(filter, log, Command::new(WEFT).args(args))
    }

    /// [`Program::start`] with these environment variables.
    pub(crate) fn start_in(
        environment: &[(&'static str, String)],
        log: &Path,
        args: &[&str],
    ) -> Self {
        Self::run("", log, Command::new(WEFT).args(args).envs(environment.iter().cloned()))
    }

    /// Starts a shell command.
    pub(crate) fn start_shell(log: &Path, command: &str) -> Self {
        Self::run("", log, Command::new("sh").args(["-c", command]))
    }

    fn run(filter: &str, log: &Path, command: &mut Command) -> Self {
        let file = File::options().create(true).append(true).open(log).unwrap();
        let folder = log.parent().unwrap();
        let child = command
            .current_dir(folder)
            .env("WEFT_CONFIG_DIR", folder.join("logins"))
            // Only the filter of the test, unless `WEFT_TEST_LOG` sets one for debugging.
            .env("RUST_LOG", std::env::var("WEFT_TEST_LOG").unwrap_or_else(|_| filter.to_owned()))
            .env("NO_COLOR", "1")
            // For measuring memory without what glibc reserves for each thread.
            .env("MALLOC_ARENA_MAX", "2")
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Self { child, log: log.to_owned() }
    }

    /// `kill -9`; returns when the process is gone.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks the process to stop, and waits until the process has ended.
    pub(crate) async fn stop(mut self) -> ExitStatus {
        self.signal("TERM");
        self.ended().await
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Waits until the process ends by itself.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        ended(&mut self.child).await
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Everything in the output file, including output of earlier processes.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until the process prints these words.
    pub(crate) async fn says(&mut self, words: &str, limit: Duration) {
        let look = async || {
            if self.said().contains(words) {
                return Ok(());
            }
            match self.child.try_wait().unwrap() {
                Some(status) => panic!("it ended ({status}) before it said `{words}`"),
                None => Err("not yet"),
            }
        };
        until(&format!("it says `{words}`"), limit, look).await;
    }

    /// Resident memory in bytes, as the kernel counts it.
    pub(crate) fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib * 1024
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let said = self.said();
            let tail: Vec<&str> = said.lines().rev().take(60).collect();
            eprintln!("--- the end of {}:", self.log.display());
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}

/// Runs a command to its end in a folder, which also has its logins.
pub(crate) async fn weft(folder: &Path, args: &[&str]) -> Output {
    weft_in(folder, &[], args).await
}

/// [`weft`] with these environment variables.
pub(crate) async fn weft_in(
    folder: &Path,
    environment: &[(&'static str, String)],
    args: &[&str],
) -> Output {
    let mut command = tokio::process::Command::new(WEFT);
    command.envs(environment.iter().cloned());
    command.args(args).current_dir(folder).env("WEFT_CONFIG_DIR", folder.join("logins"));
    command.env_remove("RUST_LOG").stdin(Stdio::null()).kill_on_drop(true);
    let done = tokio::time::timeout(PATIENCE, command.output()).await;
    done.unwrap_or_else(|_| panic!("weft {args:?} took longer than {PATIENCE:?}")).unwrap()
}

/// Output of a command.
pub(crate) fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{err}")
}

/// Sends a process a signal by its name.
pub(crate) fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap();
    assert!(sent.success(), "kill -{name} {pid}");
}

/// Waits until a process ends by itself.
pub(crate) async fn ended(child: &mut Child) -> ExitStatus {
    let ended = async || child.try_wait().unwrap().ok_or("it still runs");
    until("the process ends", PATIENCE, ended).await.0
}
