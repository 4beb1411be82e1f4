//! The reactions of the binding when sessions end, rights are lost, or the router is about to stop.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use super::binding::EdgeBinding;
use crate::seam::{AccessEvent, ControllerId};

impl EdgeBinding {
    /// Closes connections and listeners that are no longer allowed, after each event, until
    /// cancelled.
    pub(crate) async fn watch(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let mut events = self.access.events();
            self.heard.fetch_add(1, Ordering::AcqRel);
            // Earlier events are not in this stream, so that every channel is checked once.
            for connection in self.live() {
                connection.look_again();
            }
            self.ask_about_service_sessions(|_| true);
            loop {
                let event = tokio::select! {
                    () = stop.cancelled() => return,
                    event = events.next() => event,
                };
                match event {
                    Some(event) => self.on_event(&event),
                    // The stream fell behind and ended: begin again.
                    None => break,
                }
            }
            // A stream that ends at once must not turn this into a busy loop.
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
        }
    }

    /// Asks each controller that `of` selects which service sessions have ended, of those that are
    /// in use in the opaque sessions that it announced.
    fn ask_about_service_sessions(&self, of: impl Fn(&ControllerId) -> bool) {
        let mut used: BTreeMap<ControllerId, BTreeSet<String>> = BTreeMap::new();
        for connection in self.live() {
            let Some(session) = connection.session().filter(|session| session.legacy) else {
                continue;
            };
            let Some(controller) = session.controller.clone().filter(&of) else { continue };
            let grants = connection.ids.grants(|grant| !grant.service_session.is_empty());
            let ids = grants.into_iter().map(|(_, grant)| grant.service_session);
            used.entry(controller).or_default().extend(ids);
        }
        for (controller, ids) in used {
            if !ids.is_empty() {
                self.control.validate_service_sessions(&controller, ids.into_iter().collect());
            }
        }
    }

    /// Accepts no new dials and binds, and ends all listeners.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        self.live().iter().for_each(|connection| connection.drain());
    }

    fn on_event(&self, event: &AccessEvent) {
        self.heard.fetch_add(1, Ordering::AcqRel);
        if let AccessEvent::SessionsTold { controller } = event {
            return self.ask_about_service_sessions(|of| of == controller);
        }
        let concerned = {
            let live = self.connections.lock();
            match event {
                AccessEvent::SessionEnded { session }
                | AccessEvent::ServiceSessionsEnded { session, .. } => live.of_session(session),
                AccessEvent::IdentityGone { identity } | AccessEvent::Lost { identity, .. } => {
                    live.of_identity(identity)
                }
                AccessEvent::SessionsTold { .. } => Vec::new(),
            }
        };
        for connection in concerned {
            match event {
                AccessEvent::SessionEnded { .. } => connection.close("the API session ended"),
                AccessEvent::IdentityGone { .. } => {
                    connection.close("the identity is gone or disabled");
                }
                AccessEvent::ServiceSessionsEnded { service_sessions, .. } => {
                    connection.service_sessions_ended(service_sessions);
                }
                AccessEvent::Lost { service, purpose, .. } => {
                    connection.access_lost(service, *purpose);
                }
                AccessEvent::SessionsTold { .. } => {}
            }
        }
    }
}
