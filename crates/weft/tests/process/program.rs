//! A running `weft`.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    time::Duration,
};

use crate::wait::{PATIENCE, until};

/// The program under test.
pub(crate) const WEFT: &str = env!("CARGO_BIN_EXE_weft");

/// A process of it, killed when dropped. What it prints goes to a file.
pub(crate) struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts one whose output goes to the end of this file.
    pub(crate) fn start(log: &Path, args: &[&str]) -> Self {
        Self::start_saying("", log, args)
    }

    /// The same with a filter for what it logs; none is the usual one.
    pub(crate) fn start_saying(filter: &str, log: &Path, args: &[&str]) -> Self {
        Self::run(filter, log, Command::new(WEFT).args(args))
    }

    /// The same with this in its environment.
    pub(crate) fn start_in(
        environment: &[(&'static str, String)],
        log: &Path,
        args: &[&str],
    ) -> Self {
        Self::run("", log, Command::new(WEFT).args(args).envs(environment.iter().cloned()))
    }

    /// What a shell makes of a command.
    pub(crate) fn start_shell(log: &Path, command: &str) -> Self {
        Self::run("", log, Command::new("sh").args(["-c", command]))
    }

    fn run(filter: &str, log: &Path, command: &mut Command) -> Self {
        let file = File::options().create(true).append(true).open(log).unwrap();
        let folder = log.parent().unwrap();
        let child = command
            .current_dir(folder)
            .env("WEFT_CONFIG_DIR", folder.join("logins"))
            // Nothing but what a test sets; to look closer, name a filter there.
            .env("RUST_LOG", std::env::var("WEFT_TEST_LOG").unwrap_or_else(|_| filter.to_owned()))
            .env("NO_COLOR", "1")
            // Its memory is looked at: not what glibc sets aside for each thread.
            .env("MALLOC_ARENA_MAX", "2")
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Self { child, log: log.to_owned() }
    }

    /// `kill -9`: it is gone when this returns.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to stop and waits until it has.
    pub(crate) async fn stop(mut self) -> ExitStatus {
        self.signal("TERM");
        self.ended().await
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Waits until it ends by itself.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        ended(&mut self.child).await
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Everything it printed, with what earlier processes printed to the same file.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until it prints something.
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

    /// Its memory in bytes, as the kernel counts it.
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

/// Runs a command to its end in a folder, with its logins kept there.
pub(crate) async fn weft(folder: &Path, args: &[&str]) -> Output {
    weft_in(folder, &[], args).await
}

/// The same with this in its environment.
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

/// What it printed.
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
