//! `weft` at a terminal of its own, with simulated typing.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, SpecialCodeIndex, Winsize, tcgetattr, tcsetwinsize};

use crate::network::NetworkFolder;
use crate::program::{WEFT, ended, signal};
use crate::wait::{PATIENCE, until};

/// A command at a terminal, killed when dropped.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    /// Kept open, so that the terminal outlives the command and can be inspected.
    screen: OwnedFd,
    said: Arc<Mutex<String>>,
}

impl Terminal {
    /// Starts `weft` with these arguments.
    pub(crate) fn start(place: &NetworkFolder, args: &[&str]) -> Self {
        Self::start_in(place, None, args)
    }

    /// [`Terminal::start`] with this many columns.
    pub(crate) fn start_in(place: &NetworkFolder, columns: Option<u16>, args: &[&str]) -> Self {
        let (near, screen) = Self::open();
        if let Some(columns) = columns {
            let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
            tcsetwinsize(&screen, size).unwrap();
        }
        let mut command = Command::new(WEFT);
        command.args(args);
        Self::run(place, near, screen, command)
    }

    /// Starts a command of the shell in a session of its own, which has the terminal; `$WEFT` is the program.
    #[cfg(target_os = "linux")]
    pub(crate) fn start_apart(place: &NetworkFolder, command: &str) -> Self {
        let (near, screen) = Self::open();
        let mut apart = Command::new("setsid");
        apart.args(["--ctty", "sh", "-c", command]).env("WEFT", WEFT);
        Self::run(place, near, screen, apart)
    }

    /// The near and the far end of a new terminal.
    fn open() -> (OwnedFd, OwnedFd) {
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&near).unwrap();
        unlockpt(&near).unwrap();
        let name = ptsname(&near, Vec::new()).unwrap().into_string().unwrap();
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
        (near, rustix::fs::open(name, flags, rustix::fs::Mode::empty()).unwrap())
    }

    fn run(place: &NetworkFolder, near: OwnedFd, screen: OwnedFd, mut command: Command) -> Self {
        let end = || Stdio::from(screen.try_clone().unwrap());
        let child = command
            .current_dir(place.folder())
            .env("WEFT_CONFIG_DIR", place.folder().join("logins"))
            .env("NO_COLOR", "1")
            .env_remove("RUST_LOG")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let keyboard = File::from(near);
        let said = Arc::new(Mutex::new(String::new()));
        let mut printed = keyboard.try_clone().unwrap();
        let heard = Arc::clone(&said);
        thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(length @ 1..) = printed.read(&mut some) {
                heard.lock().unwrap().push_str(&String::from_utf8_lossy(&some[..length]));
            }
        });
        Self { child, keyboard, screen, said }
    }

    /// Everything shown so far.
    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Waits until these words are shown.
    pub(crate) async fn says(&self, words: &str) {
        let look = async || {
            let said = self.said();
            if said.contains(words) { Ok(()) } else { Err(said) }
        };
        until(&format!("it says `{words}`"), PATIENCE, look).await;
    }

    pub(crate) fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    /// True if typed text is shown.
    pub(crate) fn shows_what_is_typed(&self) -> bool {
        tcgetattr(&self.screen).unwrap().local_modes.contains(LocalModes::ECHO)
    }

    /// True if Ctrl-Z stops the command, as usual.
    pub(crate) fn can_be_stopped(&self) -> bool {
        tcgetattr(&self.screen).unwrap().special_codes[SpecialCodeIndex::VSUSP] != 0
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Waits until the command ends by itself.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        ended(&mut self.child).await
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- the screen:\n{}", self.said());
        }
    }
}
