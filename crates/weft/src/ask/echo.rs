//! Input that is not shown while it is typed, such as passwords. However the question ends, the
//! terminal shows input again.

use std::io;
#[cfg(unix)]
use std::sync::{Mutex, PoisonError};

#[cfg(unix)]
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

#[cfg(unix)]
pub(super) use super::line;

/// State of the terminal before the question. The state is not kept in [`Off`], because a second signal
/// ends the process without dropping values.
#[cfg(unix)]
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Value of a special key that is disabled.
#[cfg(any(target_os = "linux", target_os = "android"))]
const NO_KEY: u8 = 0;
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
const NO_KEY: u8 = 0xff;

/// While a value exists, the terminal does not show input.
pub(crate) struct Off;

impl Off {
    pub(super) fn begin() -> io::Result<Self> {
        Self::take(false)
    }

    /// Hides input and reads single keys, without waiting for the end of a line. Ctrl-Z is an
    /// ordinary key: a stopped command would leave the terminal in this state.
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

/// Restores the terminal.
#[cfg(unix)]
pub(crate) fn restore() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        // Errors are ignored: the terminal may be gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
    }
}

/// Does nothing: the reader restores the terminal itself.
#[cfg(not(unix))]
pub(crate) fn restore() {}

/// A line that is typed without being shown, with its end.
#[cfg(not(unix))]
pub(super) fn line() -> io::Result<String> {
    rpassword::read_password().map(|password| password + "\n")
}
