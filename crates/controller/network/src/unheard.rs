//! Routers that this controller does not hear, and their links.
//!
//! A router goes on carrying data while its connection to the controller is cut. Its circuits therefore stay, and so
//! do its links in the table, until a router at the other end of a link says that the link has broken. New paths
//! avoid such a router, because it can be told no routes.
//!
//! Routers of other programs report only links that they dialed. While such a router has links with a router that is
//! not heard, it is asked at intervals which links it has. A router of weft reports all its links that break; it is
//! asked once after it has connected, because a link may have broken while it was away, too. `presence` decides when a
//! router is asked.
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
use weft_paths::queue::MoveReason;
use weft_wire::ctrl::RouterLink;

use crate::clock;
use crate::network::Network;
use crate::presence::machine::Input;
use crate::questions::Answers;
use crate::routers::LiveRouter;

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

    /// Whether a router of a path is not connected.
    pub(crate) fn has_unheard(&self, path: &Path) -> bool {
        path.nodes.iter().any(|router| self.0.routers.get(router.as_str()).is_none())
    }

    /// Whether a router is connected, or not heard with a link that stands, or that may be back already.
    pub(crate) fn is_there(&self, router: &Id) -> bool {
        let has_link = || self.0.links.has_any(router) || self.may_have_link(router);
        self.0.routers.get(router.as_str()).is_some()
            || (has_link() && self.cost_unheard(router).is_some())
    }

    /// The router at an end of a path that is not heard, if there is one.
    pub(crate) fn unheard_end<'p>(&self, path: &'p Path) -> Option<&'p Id> {
        let is_unheard = |end: &&Id| self.0.routers.get(end.as_str()).is_none();
        [path.first(), path.last()].into_iter().flatten().find(is_unheard)
    }

    /// Finds out whether a router is to be asked about its links: some of them may end at routers that are not heard, and
    /// these routers have dialed links that may come back.
    pub(crate) async fn judge_links(self, router: Arc<LiveRouter>, dialers: HashSet<Id>) {
        let has_doubtful = !self.doubtful(&router.id).is_empty();
        let has_unheard_dialer = dialers.iter().any(|dialer| self.is_unheard(dialer));
        let connection = &router.connection;
        self.presence(Input::Judged { connection, has_doubtful, has_unheard_dialer });
    }

    /// Asks a router which links it has.
    pub(crate) async fn ask_links(self, router: Arc<LiveRouter>) {
        let (doubtful, asked_at) = (self.doubtful(&router.id), clock::now());
        let connection = &router.connection;
        match links_of(&router).await {
            Ok(links) => {
                let (doubtful, links) = (doubtful.as_slice(), &links);
                self.presence(Input::LinksListed { connection, asked_at, doubtful, links });
            }
            Err(problem) => {
                tracing::debug!(router = %router.id, problem, "a router does not answer which links it has; they are kept for now");
                self.presence(Input::LinksUnanswered(connection));
            }
        }
    }

    /// Notes that a link broke. It may come back without a report, if the router that dialed it is not heard by then.
    pub(crate) fn may_come_back(&self, link: &Arc<Link>) {
        if self.cost_unheard(&link.source).is_some() {
            self.presence(Input::LinkBroke(link));
        }
    }

    /// Whether a router is not heard: it is not connected, or has not answered for some seconds.
    pub(crate) fn is_unheard(&self, router: &Id) -> bool {
        self.0.routers.get(router.as_str()).is_none_or(|live| !live.answers())
    }

    /// Handles a broken link that one of its routers has again.
    pub(crate) fn restore(&self, link: &Link) {
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
            self.move_over(&link.id, MoveReason::Back);
        }
    }

    /// The links of a router with routers that are not heard.
    fn doubtful(&self, router: &Id) -> Vec<Arc<Link>> {
        let mut links = self.0.links.at(router);
        links.retain(|link| self.0.routers.get(link.other_end(router.as_str()).as_str()).is_none());
        links
    }

    /// Removes a link that a router does not have, unless it was dialed anew since the router was asked.
    pub(crate) fn drop_unless_new(&self, link: &Link) {
        let known = self.0.links.get(&link.id);
        if known.is_some_and(|known| known.iteration == link.iteration)
            && let Some(link) = self.0.links.fault(&link.id, link.iteration)
        {
            tracing::info!(link = %link.id, "a link with a router that is not heard is gone");
            self.link_lost(&link, LinkChange::Fault);
            self.may_come_back(&link);
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
