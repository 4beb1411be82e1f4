//! A controller, router or tunneler as a service of the system.
//!
//! * The service manager (systemd) gets `READY`, `RELOADING`, `STOPPING`, and `WATCHDOG` as long as
//!   the program's runtimes work ([`Manager`]).
//! * SIGHUP reads the levels of the log again ([`HangUps`]), and identity files of controllers and routers.
//! * The first SIGTERM or Ctrl-C stops the program, the second ends it at once (`signals`).

mod manager;

use std::sync::Arc;

pub(crate) use manager::Manager;
use tokio::sync::Notify;

use crate::failure::{Failure, Result};
use crate::log;

/// SIGHUPs that were received and not handled yet.
#[derive(Debug, Clone)]
pub(crate) struct HangUps(Arc<Notify>);

impl HangUps {
    /// None will be received.
    pub(crate) fn none() -> Self {
        Self(Arc::new(Notify::new()))
    }

    /// Begins to listen for SIGHUP. On systems without this signal [`Self::next`] never returns.
    pub(crate) fn listen() -> Result<Self> {
        let told = Self::none();
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

    /// Waits for the next SIGHUP.
    async fn next(&self) {
        self.0.notified().await;
    }

    /// Reads everything again at each SIGHUP, until the future is dropped. `reload` does the
    /// program's own part, and returns what it has read.
    pub(crate) async fn follow(
        &self,
        manager: &Manager,
        reload: impl AsyncFn() -> Option<&'static str>,
    ) {
        loop {
            self.next().await;
            manager.reloading();
            log::read_levels_again();
            let own = reload().await;
            manager.ready();
            match own {
                Some(own) => tracing::info!("{own} and levels of the log were read again"),
                None => tracing::info!("levels of the log were read again"),
            }
        }
    }
}
