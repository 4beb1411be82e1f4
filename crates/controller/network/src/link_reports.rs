//! Changes of links: reports of routers (docs/protocol/control-plane.md 9.5, 14, 19), and actions
//! of operators.
//!
//! Reports count only for links that the router dialed or that end at it. A report takes time in
//! proportion to the links that it names or that the router has. Moving circuits and finding new
//! paths happens later, on other tasks.

use std::collections::BTreeSet;
use std::sync::Arc;

use weft_channel::Lane;
use weft_kernel::events::{Event, LinkChange, LinkEvent};
use weft_model::Id;
use weft_model::entity::Router;
use weft_paths::links::{Link, ReportedLinkOutcome};
use weft_paths::queue::MoveReason;
use weft_wire::ctrl::{
    Fault, LinkStateUpdate, Listeners, PeerState, PeerStateChange, PeerStateChanges, RouterLinks,
};
use weft_wire::metrics::MetricsMessage;
use weft_wire::{Message, ProtoBody as _, WireError};

use super::misreports::Misreport;
use super::routers::LiveRouter;
use crate::adoption::machine::Input as OfAdoption;
use crate::link_listeners::{self, Reported};
use crate::network::Network;
use crate::presence::machine::Input;

/// Latencies that are applied before the lock is released for others.
const LATENCIES: usize = 500;

impl Network {
    /// Handles a router's report of its listeners for links. True if they differ from the former ones,
    /// so that other routers have to be told.
    pub fn on_listeners(
        &self,
        router: &Arc<LiveRouter>,
        message: &Message,
    ) -> Result<bool, WireError> {
        let (listeners, left_out) = link_listeners::kept(Listeners::from_message(message)?);
        let what = "a listener that is too long, or one of too many";
        self.0.misreports.count(&router.id, Misreport::LinkListeners, left_out, what);
        let reported = router.report_listeners(listeners);
        if reported == Reported::TooSoon {
            self.refuse(router, Misreport::LinkListeners, "too many reports");
        }
        Ok(reported == Reported::Changed)
    }

    /// Takes a report of listeners that came too soon, if the limit allows the change now. True if
    /// other routers have to be told.
    pub fn settle_listeners(&self, router: &LiveRouter) -> bool {
        router.settle_listeners()
    }

    /// Counts the listeners of a router's hello that were left out.
    pub(crate) fn count_left_out(&self, router: &LiveRouter) {
        let what = "a listener of the hello that is too long, or one of too many";
        let left_out = router.listeners_left_out;
        self.0.misreports.count(&router.id, Misreport::LinkListeners, left_out, what);
    }

    pub(super) fn on_link_fault(
        &self,
        router: &Arc<LiveRouter>,
        fault: &Fault,
        change: LinkChange,
    ) {
        let Some(known) = self.0.links.get(&fault.id) else {
            return self.presence(Input::BrokeAgain(&router.id, &fault.id));
        };
        if !known.has_end(router.id.as_str()) {
            return self.refuse(router, Misreport::LinkFault, &fault.id);
        }
        let Some(link) = self.0.links.fault(&fault.id, fault.iteration) else { return };
        let forward = Fault::link(link.id.clone(), link.iteration).to_message();
        self.tell(link.other_end(router.id.as_str()).as_str(), Lane::Default, forward);
        self.link_lost(&link, change);
        self.may_come_back(&link);
    }

    /// Handles a link that was removed from the table: circuits over it are moved.
    pub(super) fn link_lost(&self, link: &Link, change: LinkChange) {
        self.tell_link(link, change);
        self.move_over(&link.id, MoveReason::Broken);
        self.adoption(OfAdoption::News);
    }

    pub(super) fn tell_link(&self, link: &Link, change: LinkChange) {
        self.0.events.tell(Event::Link(LinkEvent {
            at: self.0.kernel.now(),
            link: link.id.clone(),
            source: link.source.clone(),
            destination: link.destination.clone(),
            change,
        }));
    }

    /// Handles a report of the links that a router dialed.
    pub fn on_links(&self, router: &Arc<LiveRouter>, report: &RouterLinks) {
        if !self.0.routers.is_current(router) {
            return;
        }
        if report.full_refresh {
            for gone in self.0.links.missing(&router.id, &report.links) {
                if let Some(link) = self.0.links.fault(&gone, 0) {
                    self.link_lost(&link, LinkChange::Fault);
                }
            }
        }
        let (now, snapshot) = (self.0.kernel.now(), self.0.kernel.snapshot());
        let initial = self.0.options.initial_link_latency;
        let mut removed = BTreeSet::new();
        for reported in &report.links {
            let destination = snapshot.get::<Router>(&Id::new(&reported.dest_router_id));
            if destination.is_none_or(|one| one.disabled) {
                removed.insert(reported.dest_router_id.as_str());
            }
            if destination.is_none() {
                self.refuse(router, Misreport::LinkToNobody, &reported.dest_router_id);
                continue;
            }
            let link = match self.0.links.report(&router.id, reported, initial, now) {
                ReportedLinkOutcome::New(link) => link,
                ReportedLinkOutcome::Known(link) => {
                    self.tell_link(&link, LinkChange::Known);
                    continue;
                }
                refused => {
                    let kind = match refused {
                        ReportedLinkOutcome::TooMany => Misreport::TooManyLinks,
                        ReportedLinkOutcome::TooManyParallel => Misreport::TooManyParallel,
                        ReportedLinkOutcome::Malformed => Misreport::MalformedLink,
                        _ => Misreport::ForeignLink,
                    };
                    self.refuse(router, kind, &reported.id);
                    continue;
                }
            };
            self.presence(Input::LinkBack(&link));
            self.tell_link(&link, LinkChange::New);
            self.move_over(&link.id, MoveReason::Back);
            if self.0.routers.get(link.destination.as_str()).is_none() {
                self.tell_link(&link, LinkChange::DisconnectedDestination);
            }
        }
        self.tell_removed(router, &removed);
    }

    /// Tells a router which routers were removed or disabled. The router reports links to them, because it could
    /// not be told at that time.
    fn tell_removed(&self, router: &LiveRouter, removed: &BTreeSet<&str>) {
        if removed.is_empty() {
            return;
        }
        let change = |id: &&str| PeerStateChange {
            id: (*id).to_owned(),
            state: PeerState::Removed.into(),
            ..PeerStateChange::default()
        };
        let news = PeerStateChanges { changes: removed.iter().map(change).collect() };
        self.tell(router.id.as_str(), Lane::Default, news.to_message());
    }

    /// Handles a change of the connections of a link.
    pub fn on_link_state(&self, router: &Arc<LiveRouter>, update: LinkStateUpdate) {
        let Some(link) = self.0.links.get(&update.link_id) else { return };
        if !link.has_end(router.id.as_str()) {
            return self.refuse(router, Misreport::LinkFault, &update.link_id);
        }
        let state = update.conn_state.unwrap_or_default();
        if self.0.links.connections_changed(&update.link_id, update.link_iteration, state) {
            self.tell_link(&link, LinkChange::Connections);
        }
    }

    /// Handles measured values of a router, among them the latencies of links.
    pub fn on_metrics(&self, router: &LiveRouter, report: &MetricsMessage) {
        let latencies: Vec<(&str, u64)> = report.link_latencies().collect();
        let mut foreign = 0;
        for part in latencies.chunks(LATENCIES) {
            foreign += self.0.links.measured(&router.id, part.iter().copied()).foreign;
        }
        self.0.misreports.count(&router.id, Misreport::Latency, foreign, "");
        self.keep_report(router, report);
    }

    /// Changes a link for an operator; circuits over it look for a better path. False if there is
    /// no such link.
    pub fn change_link(&self, id: &str, static_cost: Option<i32>, down: Option<bool>) -> bool {
        let Some(link) = self.0.links.change(id, static_cost, down) else { return false };
        match link.down {
            true => self.move_over(id, MoveReason::Broken),
            false => {
                self.move_over(id, MoveReason::Back);
                self.move_over(id, MoveReason::Cost);
            }
        }
        true
    }

    /// Removes a link for an operator. False if there is no such link.
    pub fn remove_link(&self, id: &str) -> bool {
        let Some(link) = self.0.links.fault(id, 0) else { return false };
        let fault = Fault::link(link.id.clone(), link.iteration).to_message();
        for end in [&link.source, &link.destination] {
            self.tell(end.as_str(), Lane::Default, fault.clone());
        }
        self.link_lost(&link, LinkChange::Fault);
        true
    }

    /// Removes links, and moves the circuits over them.
    pub(super) fn drop_links(&self, links: &[Arc<Link>]) {
        for link in links {
            if let Some(link) = self.0.links.fault(&link.id, 0) {
                self.link_lost(&link, LinkChange::Fault);
            }
        }
    }
}
