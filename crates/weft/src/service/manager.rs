//! Messages to the system's service manager, over the socket in `NOTIFY_SOCKET`.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

/// The service manager that started this process, if it wants messages.
#[derive(Debug, Default)]
pub(crate) struct Manager {
    is_there: bool,
    watchdog: Option<AbortOnDropHandle<()>>,
    settling: Option<AbortOnDropHandle<()>>,
}

/// Waits before pages of code that only the start needed are given back to the system: 5 s after the
/// program is ready, and another 55 s later.
const SETTLED: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(55)];

/// The intervals at which freed memory is given back to the system: the shortest one as long as there is much of it, and
/// then twice as long each time. The allocator is held up meanwhile, after a flood for some milliseconds.
const RELEASED: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(16 * 60)];
/// Memory that was given back is much if it is at least this part of what is left.
const MUCH: u64 = 20;

/// A message to the service manager.
#[derive(Debug, Clone, Copy)]
enum Word {
    Ready,
    Reloading,
    /// The time is the longest that stopping may take.
    Stopping(Duration),
    Alive,
}

impl Manager {
    /// The manager of this process.
    pub(crate) fn of_process() -> Self {
        let is_there = std::env::var_os("NOTIFY_SOCKET").is_some_and(|socket| !socket.is_empty());
        Self { is_there, watchdog: None, settling: None }
    }

    /// Reports that the program is ready. From then on the manager gets signs of life, if it wants
    /// them, as long as each of these runtimes runs tasks.
    pub(crate) fn up(&mut self, runtimes: Vec<Handle>) {
        self.ready();
        self.settling = Some(AbortOnDropHandle::new(tokio::spawn(settle())));
        let Some(limit) = watched().filter(|_| self.is_there) else { return };
        let every = (limit / 2).max(Duration::from_millis(1));
        self.watchdog = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                for runtime in &runtimes {
                    // A runtime that is gone or stuck ends the signs of life, so that the manager notices.
                    if runtime.spawn(async {}).await.is_err() {
                        return;
                    }
                }
                tell(Word::Alive);
                tokio::time::sleep(every).await;
            }
        })));
    }

    /// Reports that the program is ready again.
    pub(crate) fn ready(&self) {
        self.say(Word::Ready);
    }

    /// Reports that settings are being read again.
    pub(crate) fn reloading(&self) {
        self.say(Word::Reloading);
    }

    /// Reports that the program stops, which may take this long.
    pub(crate) fn stopping(&self, within: Duration) {
        self.say(Word::Stopping(within));
    }

    fn say(&self, word: Word) {
        if self.is_there {
            tell(word);
        }
    }
}

/// Gives pages of code back that only the start needed: soon after the start, and once more when peers
/// have connected ([`SETTLED`]). From then on gives freed memory back.
async fn settle() {
    for after in SETTLED {
        tokio::time::sleep(after).await;
        let released = tokio::task::spawn_blocking(weft_unsafe_pages::release_code).await;
        if let Ok(Err(problem)) = released {
            tracing::debug!(%problem, "pages of program code stay resident");
            break;
        }
    }
    let [shortest, longest] = RELEASED;
    let mut wait = shortest;
    loop {
        tokio::time::sleep(wait).await;
        let released = tokio::task::spawn_blocking(weft_unsafe_pages::release_heap).await;
        let Ok((released, left)) = released else { return };
        wait = if released >= left / MUCH { shortest } else { (wait * 2).min(longest) };
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

/// Longest time between two signs of life, if the manager wants them.
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
