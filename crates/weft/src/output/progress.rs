//! Progress of long work, on standard error of a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::printable;

/// A spinner with a message. Hidden if standard error is not a terminal.
pub(crate) fn spinner(message: impl Into<String>) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
        bar.set_style(style);
    }
    bar.set_message(printable::line(&message.into()));
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// A bar that counts to a known total.
pub(crate) fn bar(total: u64, message: impl Into<String>) -> ProgressBar {
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}") {
        bar.set_style(style);
    }
    bar.set_message(printable::line(&message.into()));
    bar
}
