//! The place of an opened link among the others: it is taken, takes the place of another one, or is
//! refused.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use weft_channel::Established;
use weft_circuit::now;
use weft_wire::link::SplitPart;

use super::{
    Links,
    confirm::REFUSED_LATER,
    live::LiveLink,
    opened::Opened,
    registry::{Candidate, Verdict},
};
use crate::{
    forwarder::{Link, NotTaken, Outlet},
    seam::LinkReport,
};

/// Bytes that may wait for one link.
const LINK_BUDGET: u64 = 64 << 20;
/// Most links that one router may open.
const MAX_PER_PEER: usize = 64;
/// How long a replaced link stays open, for messages on their way.
const REPLACED: Duration = Duration::from_secs(75);

impl Links {
    /// Takes an opened link, unless another one with its key stays. True if it is taken.
    pub(super) fn opened(self: &Arc<Self>, opened: Opened) -> bool {
        if opened.dialed.is_none() && self.links_with(&opened.peer) >= MAX_PER_PEER {
            tracing::warn!(
                peer = %opened.peer,
                "a link is refused: its peer has {MAX_PER_PEER} links already"
            );
            return false;
        }
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let candidate = Candidate {
            number,
            key: opened.key.clone(),
            id: opened.id.clone(),
            iteration: opened.iteration,
            dialed: opened.dialed.clone(),
            since: now(),
        };
        let verdict = self.registry.lock().register(candidate);
        match verdict {
            Verdict::Refused { close_after } => {
                tracing::debug!(link = %opened.id, peer = %opened.peer, "a link is refused: an open link with the same key stays");
                self.keep_for(close_after, opened.channels);
                return false;
            }
            Verdict::Unwanted(reason) => {
                tracing::info!(
                    link = %opened.id, peer = %opened.peer, iteration = opened.iteration,
                    address = opened.dialed.as_deref().unwrap_or_default(), reason,
                    "a dialed link is closed"
                );
                for (_, channel) in opened.channels {
                    channel.handle().close(reason);
                }
                return false;
            }
            Verdict::Taken | Verdict::Replaces { .. } => {}
        }
        let budget = self.forwarder.budget().child(LINK_BUDGET);
        let link = Arc::new(Link {
            id: opened.id.as_str().into(),
            peer: opened.peer.as_str().into(),
            iteration: opened.iteration,
            outlet: Outlet::new(budget),
        });
        // Before a message is read, which would count as one over the other link of this id.
        if let Err(problem) = self.forwarder.may_register(&link) {
            self.not_taken(&link, problem, &verdict);
            self.registry.lock().closed(&opened.key, number, now());
            self.wake.notify_one();
            return false;
        }
        let owner: Weak<Self> = Arc::downgrade(self);
        let measures = self.forwarder.measures();
        let live = LiveLink::new(measures, owner, number, Arc::clone(&link), &opened);
        self.live.lock().insert(number, Arc::clone(&live));
        for (part, channel) in opened.channels {
            live.add(part, channel.handle());
            if let Some(trace) = &self.options.trace {
                trace.follow(&channel.handle());
            }
            channel.start(live.behaviour(part));
        }
        if let Err(problem) = self.forwarder.register_link(&link) {
            // It was free a moment ago.
            live.close("its id is in use");
            self.not_taken(&link, problem, &verdict);
            return false;
        }
        if live.is_closed() {
            // The link closed before it was registered, and before its last channel was added.
            live.close("another connection of the link has closed");
            self.forwarder.unregister_link(&link);
            return true;
        }
        if let Some(leaf) = &live.leaf
            && self.confirmed.was_refused(&link.peer, leaf)
        {
            // The answer came after the hello and before the link was in the table.
            live.close(REFUSED_LATER);
        }
        if let Verdict::Replaces { number, id, iteration, close_after } = verdict {
            self.replaced(number, id, iteration, close_after, &live);
        }
        tracing::info!(link = %link.id, peer = %link.peer, dialed = live.dialed, iteration = live.iteration, "link established");
        let told = live.connections();
        if live.dialed {
            self.control.link_up(LinkReport { connections: told.clone(), ..live.report() });
            if live.is_closed() {
                // The link's end may have been reported before the link itself.
                self.faults.link_fault(&live.link.id, live.iteration);
            }
            if !self.registry.lock().is_live(&live.key, live.number) && !live.is_closed() {
                // Another link took its place meanwhile, and that was reported before the link
                // itself.
                self.control.link_duplicate(&live.link.id, live.iteration);
            }
        }
        if live.dialed {
            // The report about its peer may have come before the link was in this table.
            let unwanted = self.registry.lock().unwanted(&live.key, &live.link.id, &live.address);
            unwanted.into_iter().for_each(|reason| live.close(reason));
            self.judge(&live);
        }
        if !self.registry.lock().is_live(&live.key, live.number) {
            // The link that took its place may have looked for it before it was in this table.
            self.close_after(REPLACED, Arc::clone(&live));
        }
        self.spawn(Arc::clone(self).follow(live, told));
        true
    }

    /// Handles a link whose id is in use: the link whose place it took is closed, too.
    fn not_taken(&self, link: &Link, problem: NotTaken, verdict: &Verdict) {
        tracing::warn!(link = %link.id, peer = %link.peer, ?problem, "a link is refused");
        if let Verdict::Replaces { number, .. } = verdict {
            // The registry knows that link no more.
            self.close(*number, "a link with an id that is in use took its place");
        }
    }

    /// Closes a link after this time, because another one has its place.
    fn close_after(&self, time: Duration, live: Arc<LiveLink>) {
        self.spawn(async move {
            tokio::time::sleep(time).await;
            live.close("another link took its place");
        });
    }

    fn links_with(&self, peer: &str) -> usize {
        self.live.lock().values().filter(|live| *live.link.peer == *peer).count()
    }

    /// Keeps channels that are never started for this time, then closes them.
    fn keep_for(&self, time: Duration, channels: Vec<(Option<SplitPart>, Established)>) {
        if time.is_zero() {
            return drop(channels);
        }
        self.spawn(async move {
            tokio::time::sleep(time).await;
            drop(channels);
        });
    }

    /// Closes a link whose place another link took.
    fn replaced(
        self: &Arc<Self>,
        number: u64,
        id: String,
        iteration: u32,
        close_after: Duration,
        by: &LiveLink,
    ) {
        let Some(former) = self.live.lock().get(&number).cloned() else { return };
        if former.link.id == by.link.id {
            // The peer dialed the same link again, so that the former connection is dead.
            return former.close("the link was dialed anew");
        }
        self.control.link_duplicate(&id, iteration);
        self.close_after(close_after, former);
    }
}
