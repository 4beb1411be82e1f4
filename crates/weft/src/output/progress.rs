//! Signs of life on work that takes long: on standard error, and only when somebody watches.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::printable;

/// A spinner with a word on what is being done. Hidden when standard error is no terminal.
pub(crate) fn spinner(message: impl Into<String>) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
        bar.set_style(style);
    }
    bar.set_message(printable::line(&message.into()));
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// A bar over a known number of things.
pub(crate) fn bar(total: u64, message: impl Into<String>) -> ProgressBar {
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}") {
        bar.set_style(style);
    }
    bar.set_message(printable::line(&message.into()));
    bar
}
