//! The terminal of a command whose standard input is data.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};

/// Longest line that is read, in bytes.
const LONGEST: u64 = 4096;

/// The terminal that the command was started at; `None` if there is none, or if the command is in its background,
/// where the system stops a command that reads.
#[cfg(unix)]
pub(super) fn own() -> Option<File> {
    let terminal = File::options().read(true).write(true).open("/dev/tty").ok()?;
    let foreground = rustix::termios::tcgetpgrp(&terminal).ok()?;
    (foreground == rustix::process::getpgrp()).then_some(terminal)
}

#[cfg(not(unix))]
pub(super) fn own() -> Option<File> {
    None
}

/// A line from a terminal, with its end.
pub(super) fn line(terminal: File) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(terminal.take(LONGEST)).read_line(&mut line)?;
    Ok(line)
}
