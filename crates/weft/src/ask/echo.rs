//! What is typed is not shown, passwords for instance, and the terminal shows it again however the
//! question ends.

use std::io;

#[cfg(unix)]
use std::sync::{Mutex, PoisonError};

#[cfg(unix)]
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

#[cfg(unix)]
pub(super) use super::line;

/// How the terminal was while it does not show what is typed. Not in [`Off`] because a second
/// signal ends the process without dropping anything.
#[cfg(unix)]
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Stands for no key among the special ones.
#[cfg(any(target_os = "linux", target_os = "android"))]
const NO_KEY: u8 = 0;
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
const NO_KEY: u8 = 0xff;

/// While this lives, what is typed is not shown.
pub(crate) struct Off;

impl Off {
    pub(super) fn begin() -> io::Result<Self> {
        Self::take(false)
    }

    /// The same, and every key counts at once, without the end of its line. Ctrl-Z is a key like
    /// others: a command that is stopped would leave the terminal as nobody else expects it.
    pub(crate) fn by_key() -> io::Result<Self> {
        Self::take(true)
    }

    #[cfg(unix)]
    fn take(by_key: bool) -> io::Result<Self> {
        let stdin = io::stdin();
        let before = tcgetattr(&stdin)?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL);
        if by_key {
            quiet.local_modes.remove(LocalModes::ICANON);
            quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
            quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
            quiet.special_codes[SpecialCodeIndex::VSUSP] = NO_KEY;
        }
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        tcsetattr(&stdin, OptionalActions::Now, &quiet)?;
        Ok(Self)
    }

    #[cfg(not(unix))]
    fn take(_by_key: bool) -> io::Result<Self> {
        Ok(Self)
    }
}

impl Drop for Off {
    fn drop(&mut self) {
        restore();
    }
}

/// Makes the terminal as it was.
#[cfg(unix)]
pub(crate) fn restore() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
    }
}

/// Nothing to do: the reader itself does it.
#[cfg(not(unix))]
pub(crate) fn restore() {}

/// A line that is typed unseen, with its end.
#[cfg(not(unix))]
pub(super) fn line() -> io::Result<String> {
    rpassword::read_password().map(|password| password + "\n")
}
