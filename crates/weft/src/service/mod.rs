//! A controller or router as a service: told when it is up and when it stops, watched, told to read
//! again what may change while it runs.
//!
//! * the system's manager (systemd) hears `READY`, `RELOADING`, `STOPPING`, and `WATCHDOG` for as long
//!   as the program's runtimes work ([`Manager`]);
//! * SIGHUP has identity files and the levels of the log read again ([`HangUps`]);
//! * the first SIGTERM or Ctrl-C stops, the second ends the process at once (`signals`).

mod manager;

use std::sync::Arc;

use tokio::sync::Notify;

pub(crate) use manager::Manager;

use crate::{failure::Failure, log};

/// SIGHUPs that came and were not dealt with.
#[derive(Debug, Clone)]
pub(crate) struct HangUps(Arc<Notify>);

impl HangUps {
    /// Listens for them from now on. Where there is no such signal none ever comes.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let told = Self(Arc::new(Notify::new()));
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let mut signals = signal(SignalKind::hangup())
                .map_err(|error| Failure::new(format!("cannot listen to signals: {error}")))?;
            let tell = told.clone();
            tokio::spawn(async move {
                while signals.recv().await.is_some() {
                    tell.0.notify_one();
                }
            });
        }
        Ok(told)
    }

    /// Waits for one.
    async fn next(&self) {
        self.0.notified().await;
    }

    /// Has everything read again with each of them, for as long as it is polled. `reload` does what
    /// the program itself has to do.
    pub(crate) async fn follow(&self, manager: &Manager, reload: impl AsyncFn()) {
        loop {
            self.next().await;
            manager.reloading();
            log::read_levels_again();
            reload().await;
            manager.ready();
            tracing::info!("identity files and levels of the log were read again");
        }
    }
}
