//! Runs the programs that change the system.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Time limit of a program; changes of tables with tens of thousands of elements take a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program that changes the system failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The program could not be run.
    #[error("cannot run {program}: {problem}")]
    Run {
        /// The program.
        program: String,
        /// The error of the system.
        problem: io::Error,
    },
    /// The program reported a failure.
    #[error("{command}: {message}")]
    Failed {
        /// The program with its arguments.
        command: String,
        /// The first lines of its output.
        message: String,
    },
}

impl CommandError {
    /// True if the program is not installed.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Run { problem, .. } if problem.kind() == io::ErrorKind::NotFound)
    }
}

/// Runs a program with some input, and returns its output.
pub(crate) async fn run(program: &str, args: &[&str], input: &str) -> Result<String, CommandError> {
    run_for(PATIENCE, program, args, input).await
}

/// Runs a program within a time limit, and returns its output.
pub(crate) async fn run_for(
    patience: Duration,
    program: &str,
    args: &[&str],
    input: &str,
) -> Result<String, CommandError> {
    let cannot = |problem| CommandError::Run { program: program.to_owned(), problem };
    let mut child = Command::new(program)
        .args(args)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(cannot)?;
    let mut stdin = child.stdin.take();
    let feeding = async {
        if let Some(stdin) = stdin.as_mut() {
            // A program that does not read its input reports why.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        drop(stdin);
    };
    let both = async { tokio::join!(feeding, child.wait_with_output()).1 };
    let output = tokio::time::timeout(patience, both).await;
    let output = output.map_err(|_| cannot(io::ErrorKind::TimedOut.into()))?.map_err(cannot)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // Some programs repeat scripts of thousands of lines in their output.
    let message: Vec<&str> = said.lines().take(3).map(str::trim).collect();
    Err(CommandError::Failed {
        command: format!("{program} {}", args.join(" ")),
        message: message.join("; ").chars().take(500).collect(),
    })
}
