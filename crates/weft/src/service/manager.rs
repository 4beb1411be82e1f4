//! What the system's manager is told, over the socket that it names (`NOTIFY_SOCKET`).

use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

/// The manager that started this process, if one did and wants to hear of it.
#[derive(Debug, Default)]
pub(crate) struct Manager {
    is_there: bool,
    watchdog: Option<AbortOnDropHandle<()>>,
}

/// What a manager can be told.
#[derive(Debug, Clone, Copy)]
enum Word {
    Ready,
    Reloading,
    /// With the time that it may take.
    Stopping(Duration),
    Alive,
}

impl Manager {
    /// The one that this process was started by.
    pub(crate) fn of_process() -> Self {
        let is_there = std::env::var_os("NOTIFY_SOCKET").is_some_and(|socket| !socket.is_empty());
        Self { is_there, watchdog: None }
    }

    /// The program does its work. From now on the manager hears that it is alive, if it wants to,
    /// for as long as each of these runtimes finds time for a task.
    pub(crate) fn up(&mut self, runtimes: Vec<Handle>) {
        self.ready();
        let Some(limit) = watched().filter(|_| self.is_there) else { return };
        let every = (limit / 2).max(Duration::from_millis(1));
        self.watchdog = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                for runtime in &runtimes {
                    // A runtime that is gone or stuck is what the manager is to notice.
                    if runtime.spawn(async {}).await.is_err() {
                        return;
                    }
                }
                tell(Word::Alive);
                tokio::time::sleep(every).await;
            }
        })));
    }

    /// It does its work (again).
    pub(crate) fn ready(&self) {
        self.say(Word::Ready);
    }

    /// It reads again what may change.
    pub(crate) fn reloading(&self) {
        self.say(Word::Reloading);
    }

    /// It stops, which may take so long.
    pub(crate) fn stopping(&self, within: Duration) {
        self.say(Word::Stopping(within));
    }

    fn say(&self, word: Word) {
        if self.is_there {
            tell(word);
        }
    }
}

#[cfg(unix)]
fn tell(word: Word) {
    use sd_notify::NotifyState as State;
    let told = match word {
        Word::Ready => sd_notify::notify(&[State::Ready]),
        Word::Alive => sd_notify::notify(&[State::Watchdog]),
        Word::Reloading => match State::monotonic_usec_now() {
            Ok(now) => sd_notify::notify(&[State::Reloading, now]),
            Err(_) => sd_notify::notify(&[State::Reloading]),
        },
        Word::Stopping(within) => {
            let micros = u32::try_from(within.as_micros()).unwrap_or(u32::MAX);
            sd_notify::notify(&[State::Stopping, State::ExtendTimeoutUsec(micros)])
        }
    };
    if let Err(error) = told {
        tracing::debug!(%error, ?word, "the service manager was not told");
    }
}

/// How long the manager waits for a sign of life, if it does.
#[cfg(unix)]
fn watched() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}

#[cfg(not(unix))]
fn tell(word: Word) {
    tracing::debug!(?word, "there is no service manager to be told");
}

#[cfg(not(unix))]
fn watched() -> Option<Duration> {
    None
}
