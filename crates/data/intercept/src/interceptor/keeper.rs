//! The owner of the firewall and the hosts file while an interceptor runs.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::firewall::{Firewall, own_addresses};
use crate::hosts_file::{HostsFile, Names};
use crate::lock::Lock;
use crate::shared::{InFirewall, Shared};
use crate::state::Revision;

/// The interval at which the rules and this machine's addresses are checked.
const LOOK: Duration = Duration::from_secs(15);
/// The interval at which unused names are given back.
const SWEEP: Duration = Duration::from_secs(60);

/// Destinations that are never intercepted: an address, and one port or all.
pub(super) type Excluded = BTreeSet<(IpAddr, Option<u16>)>;

/// Applies changes, checks the rules, and removes everything at the end.
pub(super) struct Keeper {
    shared: Arc<Shared>,
    firewall: Firewall,
    hosts: Option<HostsFile>,
    /// True if the firewall may miss changes.
    broken: bool,
    /// The last revision of the state whose rules the firewall has; 0 while rules are missing.
    applied: Revision,
}

impl Keeper {
    pub(super) fn new(shared: Arc<Shared>, firewall: Firewall, hosts: Option<HostsFile>) -> Self {
        Self { shared, firewall, hosts, broken: false, applied: 0 }
    }

    /// Runs until it is told to stop.
    pub(super) async fn run(
        mut self,
        mut exclude: watch::Receiver<Excluded>,
        stop: CancellationToken,
        mut lock: Lock,
    ) {
        let mut look = tokio::time::interval(LOOK);
        let mut sweep = tokio::time::interval(SWEEP);
        for timer in [&mut look, &mut sweep] {
            timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            timer.tick().await;
        }
        if self.firewall.is_diverted() {
            self.leave_alone(&mut exclude).await;
        }
        let shared = Arc::clone(&self.shared);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = shared.changed.notified() => self.put_in().await,
                Ok(()) = exclude.changed() => self.leave_alone(&mut exclude).await,
                _ = look.tick() => {
                    if !self.look_for_rules().await || self.broken {
                        tracing::warn!("rules of the firewall are missing; all are added again");
                        self.broken = !self.put_in_anew().await;
                    }
                    self.tell_others(true).await;
                    self.leave_alone(&mut exclude).await;
                }
                _ = sweep.tick() => {
                    let now = Instant::now();
                    let in_use = shared.conversations.destinations();
                    // Datagrams of a conversation need its address in the firewall for as long as it lives.
                    // Packets of a connection are recognized by its socket.
                    let ((), _known) = shared.change(|state| {
                        state.touch(in_use, now);
                        ((), state.sweep(now, HashSet::new))
                    });
                }
            }
        }
        self.write_hosts(Vec::new(), true).await;
        self.firewall.close().await;
        // Otherwise the note stays, because names that could not be removed are left for a later
        // start.
        if self.hosts.is_none_or(|hosts| !hosts.differs(&Vec::new())) {
            let _ = lock.remember("");
        }
        shared.conversations.end_all();
        // Ends all waits for changes.
        shared.pending.lock().end();
        drop(lock);
    }

    /// True if no rules are missing. While some are, no client is told an address.
    async fn look_for_rules(&mut self) -> bool {
        let is_intact = self.firewall.is_intact().await;
        if !is_intact {
            self.applied = 0;
            self.shared.in_firewall.send_replace(InFirewall::default());
        }
        is_intact
    }

    async fn put_in(&mut self) {
        let (pending, everything, revision) = {
            let state = self.shared.state.lock();
            let pending = self.shared.pending.lock().take();
            let much = Firewall::is_much(&pending.changes);
            (pending, much.then(|| state.everything()), state.revision())
        };
        let mut known = !self.broken;
        if known
            && !pending.changes.is_empty()
            && let Err(error) = self.firewall.apply(&pending.changes, everything.as_ref()).await
        {
            tracing::warn!(%error, "the firewall refused a change; all rules are added again");
            known = false;
        }
        if known {
            self.applied = revision;
        } else {
            known = self.put_in_anew().await;
            self.broken = !known;
        }
        known &= self.tell_others(false).await;
        for waiting in pending.waiting {
            let _ = waiting.send(known);
        }
    }

    /// Adds the whole state again, with the waiting changes; true if that succeeded.
    async fn put_in_anew(&mut self) -> bool {
        let (everything, revision, waiting) = {
            let state = self.shared.state.lock();
            let pending = self.shared.pending.lock().take();
            (state.everything(), state.revision(), pending.waiting)
        };
        let done = self.firewall.rebuild(&everything).await;
        match &done {
            Ok(()) => self.applied = revision,
            Err(error) => {
                tracing::error!(%error, "the firewall cannot be set up; tried again in {LOOK:?}");
                // The firewall may still have all former rules.
                self.look_for_rules().await;
            }
        }
        let known = done.is_ok() && self.tell_others(false).await;
        for waiting in waiting {
            let _ = waiting.send(known);
        }
        done.is_ok()
    }

    /// Brings the diverting program and the hosts file in line with the state; true if everything is
    /// diverted. With `surely` the hosts file is read again, because other programs write it, too.
    async fn tell_others(&mut self, surely: bool) -> bool {
        let (diversions, names) = {
            let state = self.shared.state.lock();
            let diversions = self.firewall.is_diverted().then(|| state.diversions());
            (diversions, self.hosts.as_ref().map(|_| state.held()))
        };
        let mut diverted = true;
        let mut undiverted = HashSet::new();
        if let Some((diversions, left)) = diversions {
            if !left.is_empty() {
                self.shared.complain(|| {
                    tracing::warn!(services = ?left, "too many networks with ports, sources and \
                        interfaces for a program that diverts: not intercepted");
                });
            }
            if let Err(error) = self.firewall.divert(&diversions).await {
                tracing::warn!(
                    %error,
                    "the diverting program failed for some packets; it is called again in \
                     {LOOK:?}"
                );
                diverted = false;
            }
            undiverted = self.firewall.undiverted(&diversions);
        }
        let revision = self.applied;
        self.shared.in_firewall.send_replace(InFirewall { revision, undiverted });
        if let Some(names) = names {
            self.write_hosts(names, surely).await;
        }
        diverted
    }

    async fn write_hosts(&mut self, names: Names, surely: bool) {
        let Some(mut hosts) = self.hosts.clone().filter(|hosts| surely || hosts.differs(&names))
        else {
            return;
        };
        let writing = tokio::task::spawn_blocking(move || {
            let written = hosts.set(&names);
            (hosts, written)
        });
        if let Ok((hosts, written)) = writing.await {
            if let Err(problem) = written {
                let path = hosts.path().display();
                tracing::warn!(
                    %path, %problem,
                    "the hosts file could not be updated with the names of services"
                );
            }
            self.hosts = Some(hosts);
        }
    }

    async fn leave_alone(&mut self, exclude: &mut watch::Receiver<Excluded>) {
        let wanted = exclude.borrow_and_update().clone();
        if let Err(error) = self.firewall.exclude(wanted, own_addresses()).await {
            tracing::warn!(%error, "the excluded destinations could not be changed");
        }
    }
}
