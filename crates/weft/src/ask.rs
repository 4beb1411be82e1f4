//! Questions at the terminal.
//!
//! A person may think about an answer for any time, so the answer is read on a thread of its own. A
//! command that is interrupted drops the question: the terminal is restored, and the thread, which
//! cannot be woken, ends with the process.

mod echo;
mod terminal;

use std::fs::File;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::thread;

pub(crate) use echo::{Off as Unseen, restore};
use tokio::sync::oneshot;

use crate::failure::{Failure, Result};
use crate::output::printable;

/// Asks a yes-or-no question. Without a terminal it fails with `cannot`.
pub(crate) async fn confirm(question: &str, cannot: &str) -> Result<bool> {
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(cannot));
    }
    let asked = Line::begin(&format!("{question} [y/N] "));
    let answer = typed(line).await?;
    if answer.ends_with('\n') {
        asked.ended();
    }
    Ok(matches!(answer.trim(), "y" | "Y" | "yes" | "Yes"))
}

/// Asks for an existing password.
pub(crate) async fn password(of: &str) -> Result<String> {
    let cannot = "a password is needed: give --password or set WEFT_PASSWORD";
    hidden(&format!("Password of {of}: "), cannot).await
}

/// Asks for a new password, twice. Without a terminal it fails with `cannot`.
pub(crate) async fn new_password(of: &str, cannot: &str) -> Result<String> {
    let first = hidden(&format!("New password of {of}: "), cannot).await?;
    if first == hidden("Once more: ", cannot).await? {
        return Ok(first);
    }
    Err(Failure::usage("the two are not the same; nothing was changed"))
}

/// Asks for a code; `None` without a terminal, or without an answer. The code is shown, as it is good once. If
/// standard input is data, the terminal of the command is asked.
pub(crate) async fn code(question: &str) -> Option<String> {
    let terminal = match io::stdin().is_terminal() {
        true => None,
        false => Some(terminal::own()?),
    };
    let asked = Line::begin(question);
    let answer = match terminal {
        None => typed(line).await,
        Some(terminal) => typed(move || terminal::line(terminal)).await,
    };
    let answer = answer.ok()?;
    if answer.ends_with('\n') {
        asked.ended();
    }
    Some(answer.trim().to_owned()).filter(|code| !code.is_empty())
}

/// Asks for text that is not shown while it is typed.
async fn hidden(prompt: &str, cannot: &str) -> Result<String> {
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(cannot));
    }
    // Input is hidden before the question is shown, and shown again before the line ends: `_unseen` is
    // created first and dropped first.
    let _line;
    let _unseen = echo::Off::begin().map_err(cannot_read)?;
    _line = Line::begin(prompt);
    let answer = typed(echo::line).await?;
    // Ctrl-D, or the terminal is gone.
    let Some(password) = answer.strip_suffix('\n') else {
        return Err(Failure::usage("no password was typed"));
    };
    Ok(password.strip_suffix('\r').unwrap_or(password).to_owned())
}

/// Typed text, read on a thread of its own.
async fn typed(read: impl FnOnce() -> io::Result<String> + Send + 'static) -> Result<String> {
    let (tell, told) = oneshot::channel();
    let reading = move || {
        // The command may have been interrupted.
        let _ = tell.send(read());
    };
    thread::Builder::new().name("ask".to_owned()).spawn(reading).map_err(cannot_read)?;
    told.await.map_err(cannot_read)?.map_err(cannot_read)
}

fn cannot_read(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("the answer cannot be read: {error}"))
}

/// A line from standard input, with its end.
fn line() -> io::Result<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line)
}

/// The line with the question. Later output begins a new line, even without an answer.
struct Line {
    is_open: bool,
}

impl Line {
    fn begin(prompt: &str) -> Self {
        show(&printable::line(prompt));
        Self { is_open: true }
    }

    /// Notes that the answer has ended the line.
    fn ended(mut self) {
        self.is_open = false;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.is_open {
            show("\n");
        }
    }
}

/// Shows text at the terminal, even if standard error is a file.
fn show(text: &str) {
    let mut errors = io::stderr();
    if cfg!(unix) && !errors.is_terminal() {
        let terminal = File::options().write(true).open("/dev/tty");
        if terminal.and_then(|mut terminal| terminal.write_all(text.as_bytes())).is_ok() {
            return;
        }
    }
    let _ = errors.write_all(text.as_bytes()).and_then(|()| errors.flush());
}
