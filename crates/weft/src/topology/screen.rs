//! A terminal that is redrawn repeatedly, and restored however the command ends.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, channel};

use super::tables;
use crate::ask;
use crate::failure::{Failure, Result};
use crate::output::counted;

/// Switches to the alternate screen and hides the cursor.
const OPEN: &str = "\u{1b}[?1049h\u{1b}[?25l";
const CLOSE: &str = "\u{1b}[?25h\u{1b}[?1049l";
/// Moves the cursor to the first character of the first line.
const HOME: &str = "\u{1b}[H";
/// Clears the rest of the line.
const REST: &str = "\u{1b}[K";
const BELOW: &str = "\u{1b}[J";
/// Default height, in lines.
const LINES: usize = 24;

/// True while the alternate screen is shown. The flag is not kept in [`Screen`], because a second signal
/// ends the process without dropping values.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// A key that was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// A key that ends the display.
    End,
    /// Any other key: redraw.
    Other,
}

/// The alternate screen, until it is dropped.
pub(crate) struct Screen {
    keys: Receiver<Key>,
    /// True while keys can be read.
    is_open: bool,
    _keyboard: ask::Unseen,
}

impl Screen {
    /// Switches to the alternate screen. `command` prints once what it would draw.
    pub(crate) fn open(command: &str) -> Result<Self> {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return Err(Failure::usage(format!(
                "--watch draws at a terminal, and there is none; `{command}` prints it once"
            )));
        }
        let failed = |error| Failure::new(format!("the terminal cannot be used: {error}"));
        let keyboard = ask::Unseen::by_key().map_err(failed)?;
        let (tell, keys) = channel(8);
        let reading = move || {
            let mut one = [0_u8];
            while matches!(io::stdin().lock().read(&mut one), Ok(1)) {
                let key = match one {
                    [b'q' | b'Q' | 0x04] => Key::End,
                    _ => Key::Other,
                };
                if tell.blocking_send(key).is_err() {
                    break;
                }
            }
        };
        thread::Builder::new().name("keys".to_owned()).spawn(reading).map_err(failed)?;
        IS_OPEN.store(true, Ordering::SeqCst);
        show(OPEN);
        Ok(Self { keys, is_open: true, _keyboard: keyboard })
    }

    /// Width in columns and height in lines.
    pub(crate) fn size(&self) -> (usize, usize) {
        let width = tables::width().unwrap_or(super::draw::USUAL);
        (width, height().filter(|lines| *lines > 2).unwrap_or(LINES))
    }

    /// Draws as much of a text as fits, and a line at the foot.
    pub(crate) fn show(&self, text: &str, foot: &str) {
        show(&frame(text, foot, self.size().1));
    }

    /// Waits for a key; `None` after `patience`.
    pub(crate) async fn key(&mut self, patience: Duration) -> Option<Key> {
        if !self.is_open {
            tokio::time::sleep(patience).await;
            return None;
        }
        match tokio::time::timeout(patience, self.keys.recv()).await {
            Ok(Some(key)) => Some(key),
            // The terminal has no more keys.
            Ok(None) => {
                self.is_open = false;
                None
            }
            Err(_) => None,
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the former screen.
pub(crate) fn restore() {
    if IS_OPEN.swap(false, Ordering::SeqCst) {
        show(CLOSE);
    }
}

/// The characters of one drawing, written at once against flicker.
fn frame(text: &str, foot: &str, lines: usize) -> String {
    let room = lines.saturating_sub(1);
    let all: Vec<&str> = text.lines().collect();
    let shown = if all.len() > room { room.saturating_sub(1) } else { all.len() };
    let mut out = HOME.to_owned();
    for line in &all[..shown] {
        out.push_str(&format!("{line}{REST}\r\n"));
    }
    if shown < all.len() {
        out.push_str(&format!(
            "and {}{REST}\r\n",
            counted(all.len() - shown, "more line", "more lines")
        ));
    }
    out.push_str(&format!("{foot}{REST}{BELOW}"));
    out
}

fn show(text: &str) {
    let mut out = io::stdout().lock();
    // Errors are ignored: the terminal may be gone.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(unix)]
fn height() -> Option<usize> {
    rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_row))
}

#[cfg(not(unix))]
fn height() -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_never_scrolls() {
        let text = "1\n2\n3\n4\n5";
        let whole = frame(text, "foot", 6);
        assert!(whole.contains("5") && whole.ends_with(&format!("foot{REST}{BELOW}")));
        assert_eq!(whole.matches("\r\n").count(), 5);
        let cut = frame(text, "foot", 4);
        assert!(cut.contains("2") && !cut.contains("3\u{1b}") && cut.contains("and 3 more lines"));
        assert_eq!(cut.matches("\r\n").count(), 3);
    }
}
