//! Routers that this controller does not hear, and their links.
//!
//! A router goes on carrying data while its connection to the controller is cut. Its circuits therefore stay, and so
//! do its links in the table, until a router at the other end of a link says that the link has broken. New paths
//! avoid such a router, because it can be told no routes.
//!
//! Routers of other programs report only links that they dialed. While such a router has links with a router that is
//! not heard, it is asked at intervals which links it has. A router of weft reports all its links that break; it is
//! asked once after it has connected, because a link may have broken while it was away, too.
//!
//! Only the router that dialed a link reports the link when it is back. If that router is not heard, or does not answer
//! heartbeats and may soon count as lost, the other one is asked for a while whether it has the link again.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashSet;
use serde::Deserialize;
use weft_kernel::events::LinkChange;
use weft_model::Id;
use weft_model::entity::Router;
use weft_paths::links::{Link, ReportedLinkOutcome};
use weft_paths::path::Path;
use weft_paths::queue::Why;
use weft_wire::ctrl::RouterLink;

use crate::clock;
use crate::network::Network;
use crate::questions::Answers;
use crate::routers::LiveRouter;

/// The interval of questions about links with routers that are not heard, and the time until the first one: a router
/// that has just gone down takes its links along within this time.
const INTERVAL: Duration = Duration::from_secs(5);
/// How long a router has to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The inspection that lists the links of a router.
const LINKS: &str = "links";
impl Network {
    /// The cost of a router that is not connected, if data may still go over it: it is enrolled and not disabled.
    pub(crate) fn cost_unheard(&self, router: &Id) -> Option<u16> {
        let snapshot = self.0.kernel.snapshot();
        let router = snapshot.get::<Router>(router)?;
        (!router.disabled && router.fingerprint.is_some()).then_some(router.cost)
    }

    /// Whether the routers at both ends of a path are there, as far as anybody can tell: connected, or with a link
    /// that stands.
    pub(crate) fn has_both_ends(&self, path: &Path) -> bool {
        [path.first(), path.last()].into_iter().flatten().all(|end| self.is_there(end))
    }

    /// Whether no router at an end of a path is heard, and all of them may return: nobody can be told that a circuit
    /// over the path has ended, and data may go over links that are back without a report.
    pub(crate) fn has_no_heard_end(&self, path: &Path) -> bool {
        let is_away = |end: &Id| self.is_unheard(end) && self.cost_unheard(end).is_some();
        [path.first(), path.last()].into_iter().flatten().all(is_away)
    }

    /// Whether a router is connected, or not heard with a link that stands, or that may be back already.
    pub(crate) fn is_there(&self, router: &Id) -> bool {
        let has_link = || self.0.links.has_any(router) || self.0.broken.may_have(router);
        self.0.routers.get(router.as_str()).is_some()
            || (has_link() && self.cost_unheard(router).is_some())
    }

    /// The router at an end of a path that is not heard, if there is one.
    pub(crate) fn unheard_end<'p>(&self, path: &'p Path) -> Option<&'p Id> {
        let is_unheard = |end: &&Id| self.0.routers.get(end.as_str()).is_none();
        [path.first(), path.last()].into_iter().flatten().find(is_unheard)
    }

    /// Ends the circuits of a router that may not be used any more, and removes its links, also if it is not
    /// connected.
    pub fn shut_out(&self, router: &Id) {
        self.0.broken.forget(router);
        self.end_circuits_at(router);
        self.drop_links(&self.0.links.at(router));
    }

    /// Has the neighbours of a router asked about their links with it.
    pub(crate) fn ask_neighbours(&self, router: &Id) {
        let neighbours = self.0.links.neighbours(router);
        let live = neighbours.iter().filter_map(|peer| self.0.routers.get(peer.as_str()));
        live.for_each(|live| live.doubts.notify_one());
    }

    /// Asks a connected router about its links with routers that are not heard, whenever there are some; never
    /// returns.
    pub async fn confirm_links(&self, router: &Arc<LiveRouter>) {
        let mut is_new = true;
        loop {
            while self.is_to_be_asked(router, is_new) {
                tokio::time::sleep(INTERVAL).await;
                if !self.is_to_be_asked(router, is_new) {
                    break;
                }
                let (doubtful, asked_at) = (self.doubtful(&router.id), clock::now());
                match links_of(router).await {
                    Ok(links) => {
                        let back = self.0.broken.take(&router.id, &links, asked_at);
                        back.iter().for_each(|link| self.restore(link));
                        self.drop_all_but(router, &doubtful, &links);
                        is_new = false;
                    }
                    Err(problem) => {
                        tracing::debug!(router = %router.id, problem, "a router does not answer which links it has; they are kept for now");
                    }
                }
            }
            let doubts = router.doubts.notified();
            if self.0.broken.dialers(&router.id, clock::now()).is_empty() {
                doubts.await;
            } else {
                // A router that has dialed one of them may stop answering.
                let _ = tokio::time::timeout(INTERVAL, doubts).await;
            }
        }
    }

    /// Notes that a connected router has reported a broken link. If another router dialed the link, and is not heard by
    /// then, the link may come back without a report.
    pub(crate) fn may_come_back(&self, link: &Arc<Link>, reporter: &LiveRouter) {
        if link.destination == reporter.id && self.cost_unheard(&link.source).is_some() {
            self.0.broken.insert(link, clock::now());
            reporter.doubts.notify_one();
        }
    }

    /// Whether a router is not heard: it is not connected, or has not answered for some seconds.
    fn is_unheard(&self, router: &Id) -> bool {
        self.0.routers.get(router.as_str()).is_none_or(|live| !live.answers())
    }

    /// Handles a broken link that one of its routers has again.
    fn restore(&self, link: &Link) {
        let reported = RouterLink {
            id: link.id.clone(),
            dest_router_id: link.destination.to_string(),
            link_protocol: link.protocol.clone(),
            dial_address: link.address.clone(),
            iteration: link.iteration,
            conn_state: None,
        };
        let (now, initial) = (self.0.kernel.now(), self.0.options.initial_link_latency);
        if let ReportedLinkOutcome::New(link) =
            self.0.links.report(&link.source, &reported, initial, now)
        {
            tracing::info!(link = %link.id, "a link with a router that is not heard is back");
            self.tell_link(&link, LinkChange::New);
            self.move_over(&link.id, Why::Back);
        }
    }

    /// Whether a router is to be asked about its links. A router that reports the faults of its links is asked only
    /// after it has connected, and while links may come back without a report.
    fn is_to_be_asked(&self, router: &LiveRouter, is_new: bool) -> bool {
        let reports_faults = router.reports_by_itself() && !is_new;
        let dialers = || self.0.broken.dialers(&router.id, clock::now());
        (!reports_faults && !self.doubtful(&router.id).is_empty())
            || dialers().iter().any(|dialer| self.is_unheard(dialer))
    }

    /// The links of a router with routers that are not heard.
    fn doubtful(&self, router: &Id) -> Vec<Arc<Link>> {
        let mut links = self.0.links.at(router);
        links.retain(|link| self.0.routers.get(link.other_end(router.as_str()).as_str()).is_none());
        links
    }

    /// Removes the links that their router does not have.
    fn drop_all_but(&self, router: &LiveRouter, asked: &[Arc<Link>], links: &HashSet<String>) {
        for link in asked.iter().filter(|link| !links.contains(&link.id)) {
            // The link may have been dialed anew since the question.
            let is_same =
                self.0.links.get(&link.id).is_some_and(|now| now.iteration == link.iteration);
            if is_same && let Some(link) = self.0.links.fault(&link.id, link.iteration) {
                tracing::info!(link = %link.id, "a link with a router that is not heard is gone");
                self.link_lost(&link, LinkChange::Fault);
                self.may_come_back(&link, router);
            }
        }
    }
}

/// The answer of a router to the question which links it has. Other members are passed over.
#[derive(Debug, Deserialize)]
struct Listed {
    #[serde(default)]
    links: Option<Vec<ListedLink>>,
}

#[derive(Debug, Deserialize)]
struct ListedLink {
    id: String,
}

/// The ids of the links that a router has.
async fn links_of(router: &LiveRouter) -> Result<HashSet<String>, String> {
    let answers = Answers::of(router, vec![LINKS.to_owned()], PATIENCE).await?;
    let listed: Listed = answers.get(LINKS)?.ok_or("the answer has no links")?;
    Ok(listed.links.unwrap_or_default().into_iter().map(|link| link.id).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_routers_are_read() {
        let ids = |text: &str| {
            let listed: Listed = serde_json::from_str(text).ok()?;
            Some(listed.links.unwrap_or_default().into_iter().map(|it| it.id).collect::<Vec<_>>())
        };
        let whole = r#"{"links":[{"id":"l1","iteration":2},{"id":"l2"}],"destinations":null}"#;
        assert_eq!(ids(whole), Some(vec!["l1".to_owned(), "l2".to_owned()]));
        assert_eq!(ids(r#"{"links":null}"#), Some(Vec::new()));
        assert_eq!(ids(r#"{"destinations":[]}"#), Some(Vec::new()));
        assert_eq!(ids(r#"{"links":[{"iteration":2}]}"#), None);
    }
}
