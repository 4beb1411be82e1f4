//! The lines that say what is being done.

use std::io::{self, Write as _};

/// Prints a step of the start.
pub(super) fn step(text: &str) {
    say(format_args!("  {text}"));
}

/// Prints a line; a closed pipe is ignored.
pub(super) fn say(text: std::fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}
