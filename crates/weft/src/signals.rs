//! Signals: Ctrl-C, SIGTERM, and the end of the parent process.

use std::{
    future::Future,
    io::{self, Read as _},
    process, thread,
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use crate::{ask, failure::Failure, topology};

/// Exit status after a second signal, as shells report Ctrl-C.
const IMPATIENT: i32 = 130;
/// Longest time for stopping after the parent process has ended. Then this process ends by itself,
/// because no other process would kill it.
const ORPHANED: Duration = Duration::from_secs(15);

/// A token that the first Ctrl-C or SIGTERM cancels. The second one ends the process at once.
pub(crate) fn first() -> Result<CancellationToken, Failure> {
    let mut signals = Signals::new()?;
    let token = CancellationToken::new();
    let told = token.clone();
    tokio::spawn(async move {
        signals.next().await;
        told.cancel();
        signals.next().await;
        topology::restore();
        ask::restore();
        process::exit(IMPATIENT);
    });
    Ok(token)
}

/// Runs a command that leaves nothing to clean up, until Ctrl-C.
pub(crate) async fn until_interrupted(
    command: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let stop = first()?;
    tokio::select! {
        // An interrupted command must not begin its next step, even if an answer arrives at the
        // same moment.
        biased;
        () = stop.cancelled() => Err(Failure::interrupted()),
        done = command => done,
    }
}

/// Cancels a token when standard input ends, which it does when the process with its other end has
/// ended.
pub(crate) fn parent(stop: &CancellationToken) -> Result<(), Failure> {
    let stop = stop.clone();
    let wait = move || {
        let mut ignored = [0; 64];
        loop {
            match io::stdin().lock().read(&mut ignored) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(1..) => {}
                Ok(0) | Err(_) => break,
            }
        }
        stop.cancel();
        thread::sleep(ORPHANED);
        process::exit(1);
    };
    let thread = thread::Builder::new().name("parent".to_owned()).spawn(wait);
    thread.map(drop).map_err(|error| Failure::new(format!("cannot start a thread: {error}")))
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::new(format!("cannot listen to signals: {error}")))
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> Result<Self, Failure> {
        Ok(Self)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            // Ctrl-C cannot be received: the wait never ends.
            std::future::pending::<()>().await;
        }
    }
}
