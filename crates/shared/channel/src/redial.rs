//! Maintains the connections of a dialed group.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::connect::{DialOptions, connect};
use crate::error::CloseReason;
use crate::established::OnStart;
use crate::group::RedialPolicy;
use crate::handle::ChannelHandle;
use crate::shared::{GroupState, Shared};

/// The function that starts the redialer once the channel runs.
pub(crate) fn starter(options: DialOptions) -> OnStart {
    Box::new(move |channel| {
        let shared = channel.shared().clone();
        let Some(policy) = shared.group.as_ref().and_then(|group| group.policy.redial) else {
            return;
        };
        let changes = shared.subscribe_changes();
        let redialer = Redialer {
            shared,
            options,
            policy,
            changes,
            failures: 0,
            rebuilt: 0,
            last_dial: None,
            last_success: Instant::now(),
        };
        tokio::spawn(redialer.run());
    })
}

struct Redialer {
    shared: Arc<Shared>,
    options: DialOptions,
    policy: RedialPolicy,
    changes: watch::Receiver<u32>,
    /// The number of failures in a row.
    failures: u32,
    /// The number of attempts to open the group again, part of its id.
    rebuilt: u32,
    last_dial: Option<Instant>,
    last_success: Instant,
}

impl Redialer {
    async fn run(mut self) {
        let closed = ChannelHandle::from_shared(self.shared.clone()).closed();
        tokio::select! {
            _ = closed => {}
            () = self.keep_up() => {}
        }
    }

    async fn keep_up(&mut self) {
        self.start_delay().await;
        loop {
            self.changes.mark_unchanged();
            let Some(_) = self.missing() else {
                if self.changes.changed().await.is_err() {
                    return;
                }
                continue;
            };
            tokio::time::sleep_until(self.next_dial()).await;
            let Some(kind) = self.missing() else { continue };
            self.last_dial = Some(Instant::now());
            match self.dial(&kind).await {
                Ok(()) => {
                    self.last_success = Instant::now();
                    if self.policy.min_stable.is_none() {
                        self.failures = 0;
                    }
                }
                Err(problem) => {
                    self.failures += 1;
                    let channel = &self.shared.options.label;
                    tracing::debug!(%channel, %kind, %problem, failures = self.failures, "further connection failed");
                }
            }
        }
    }

    /// Waits before the first further connection, unless the channel has lost all of them.
    async fn start_delay(&mut self) {
        let delay = tokio::time::sleep(self.policy.start_delay);
        let lost = async {
            while !self.shared.kinds().is_empty() {
                if self.changes.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = delay => {}
            () = lost => {}
        }
    }

    fn missing(&self) -> Option<String> {
        let kinds = self.shared.kinds();
        let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
        let policy = &self.shared.group.as_ref()?.policy;
        policy.missing(&kinds).map(str::to_owned)
    }

    /// The time before which no dial may happen.
    fn next_dial(&mut self) -> Instant {
        let stable = self.policy.min_stable;
        if stable.is_some_and(|stable| self.last_success.elapsed() >= stable) && self.failures > 0 {
            let dialed_since = self.last_dial.is_some_and(|dial| dial > self.last_success);
            if !dialed_since {
                self.failures = 0;
            }
        }
        self.failures += self.shared.take_short_lived();
        let now = Instant::now();
        let Some(last) = self.last_dial else { return now + self.policy.delay(self.failures) };
        now.max(last + self.policy.min_interval.max(self.policy.delay(self.failures)))
    }

    async fn dial(&mut self, kind: &str) -> Result<(), String> {
        let Some(group) = &self.shared.group else { return Ok(()) };
        let alone = self.shared.kinds().is_empty();
        let known = group.state.lock().clone();
        let base = self.options.hello.clone();
        let (hello, id) = if alone {
            self.rebuilt += 1;
            let original = known.id.strip_suffix(&suffix(self.rebuilt - 1)).unwrap_or(&known.id);
            let id = format!("{original}{}", suffix(self.rebuilt));
            (base.grouped_first(kind, Some(&id), Some(&known.secret)), id)
        } else {
            (base.grouped_later(kind, &known.id, &known.secret), known.id.clone())
        };
        if alone {
            // Set whatever the outcome, because attempts are counted, and not successes.
            group.state.lock().id.clone_from(&id);
        }
        let dialed = connect(&self.options, &hello).await.map_err(|error| error.to_string())?;
        if dialed.peer.id != self.shared_peer_id() {
            return Err("the listener is another one than at first".to_owned());
        }
        let Some(secret) = dialed.result.group_secret() else {
            return Err("the listener no longer groups connections".to_owned());
        };
        if alone {
            *group.state.lock() = GroupState { id, secret: secret.to_vec() };
        }
        self.shared.attach(dialed.connection).map_err(|reason: CloseReason| reason.to_string())?;
        if alone {
            self.shared.reestablished();
        }
        Ok(())
    }

    fn shared_peer_id(&self) -> Option<String> {
        ChannelHandle::from_shared(self.shared.clone()).peer().id.clone()
    }
}

/// The end of a group's id at this attempt to open it again.
fn suffix(attempt: u32) -> String {
    if attempt == 0 { String::new() } else { format!("-{attempt}") }
}
