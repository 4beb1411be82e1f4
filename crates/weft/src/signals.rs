//! Signals: Ctrl-C, SIGTERM, the close of the terminal, and the end of the parent process.
//!
//! | signal | controllers, routers, tunnelers without a terminal | other commands |
//! |---|---|---|
//! | Ctrl-C, SIGTERM | stop | stop |
//! | SIGHUP | settings are read again ([`HangUps`](crate::service::HangUps)) | stop, unless started with `nohup` |

use std::future::Future;
use std::io::{self, IsTerminal as _, Read as _};
use std::time::Duration;
use std::{process, thread};

use tokio_util::sync::CancellationToken;

use crate::failure::{Failure, Result};
use crate::{ask, topology};

/// Exit status after a signal that ends the process at once, as shells report Ctrl-C.
const IMPATIENT: i32 = 130;
/// Longest time in which a command that leaves nothing to clean up sees a signal.
const UNSEEN: Duration = Duration::from_secs(1);
/// Longest time for stopping after the parent process has ended. Then this process ends by itself,
/// because no other process would kill it.
const ORPHANED: Duration = Duration::from_secs(15);

/// The stages in which a command ends that has changed the machine.
#[derive(Clone, Debug)]
pub(crate) struct Stages {
    /// The first signal cancels it: nothing new begins.
    pub(crate) stop: CancellationToken,
    /// The second signal cancels it: only the clean-up of the machine is waited for. The third signal
    /// ends the process at once.
    pub(crate) hurry: CancellationToken,
}

/// The stages of a command, by Ctrl-C, SIGTERM and SIGHUP.
pub(crate) fn stages() -> Result<Stages> {
    Ok(stages_of(Signals::new(!hang_ups_are_ignored())?))
}

/// [`stages`] for a program that reads settings again at SIGHUP.
pub(crate) fn stages_of_service() -> Result<Stages> {
    Ok(stages_of(Signals::new(false)?))
}

/// A token that the first Ctrl-C, SIGTERM or SIGHUP cancels. The second signal ends the process at once.
pub(crate) fn first() -> Result<CancellationToken> {
    Ok(first_of(Signals::new(!hang_ups_are_ignored())?))
}

/// [`first`] for a program that reads settings again at SIGHUP.
pub(crate) fn first_of_service() -> Result<CancellationToken> {
    Ok(first_of(Signals::new(false)?))
}

/// True if standard input or standard error is a terminal.
pub(crate) fn is_at_terminal() -> bool {
    io::stdin().is_terminal() || io::stderr().is_terminal()
}

fn first_of(signals: Signals) -> CancellationToken {
    let token = CancellationToken::new();
    tokio::spawn(follow(signals, vec![token.clone()]));
    token
}

fn stages_of(signals: Signals) -> Stages {
    let (stop, hurry) = (CancellationToken::new(), CancellationToken::new());
    tokio::spawn(follow(signals, vec![stop.clone(), hurry.clone()]));
    Stages { stop, hurry }
}

/// Cancels a token at each signal. The signal after the last one ends the process at once.
async fn follow(mut signals: Signals, tokens: Vec<CancellationToken>) {
    for token in tokens {
        signals.next().await;
        token.cancel();
    }
    signals.next().await;
    exit();
}

fn exit() -> ! {
    topology::restore();
    ask::restore();
    process::exit(IMPATIENT)
}

/// Runs a command that leaves nothing to clean up, until Ctrl-C. A command that does not see the signal, because it
/// reads a pipe into which nobody writes, is ended after [`UNSEEN`].
pub(crate) async fn until_interrupted(command: impl Future<Output = Result<()>>) -> Result<()> {
    let stop = first()?;
    let signal = stop.clone();
    tokio::spawn(async move {
        signal.cancelled().await;
        tokio::time::sleep(UNSEEN).await;
        exit();
    });
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
pub(crate) fn parent(stop: &CancellationToken) -> Result<()> {
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

/// True if the process was started so that SIGHUP does not concern it, as by `nohup`.
fn hang_ups_are_ignored() -> bool {
    match std::fs::read_to_string("/proc/self/status") {
        Ok(status) => is_hang_up_in(&status),
        // `nohup` replaces terminals by files.
        Err(_) => !is_at_terminal(),
    }
}

/// True if SIGHUP is among the ignored signals in `/proc/PID/status`.
fn is_hang_up_in(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    // SIGHUP is signal 1.
    ignored.is_some_and(|bits| bits & 1 == 1)
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    fn new(with_hang_ups: bool) -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::new(format!("cannot listen to signals: {error}")))
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: with_hang_ups.then(|| listen(SignalKind::hangup())).transpose()?,
        })
    }

    async fn next(&mut self) {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hang_up => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new(_: bool) -> Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            // Ctrl-C cannot be received: the wait never ends.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_started_by_nohup_is_known() {
        let status = |bits: &str| format!("Name:\tweft\nSigBlk:\t1\nSigIgn:\t{bits}\nSigCgt:\t1\n");
        assert!(is_hang_up_in(&status("0000000000000001")));
        assert!(is_hang_up_in(&status("0000000000001001")));
        assert!(!is_hang_up_in(&status("0000000000001000")));
        assert!(!is_hang_up_in("Name:\tweft\n"));
    }
}
