//! The subscription of this router to the data model: when, and at which controller
//! (docs/protocol/edge-control-plane.md 6.3).
//!
//! Pure: the caller passes the time and the controllers, and sends the resulting requests.

use std::time::{Duration, Instant};

use weft_wire::edge_ctrl::data_model::SubscribeToDataModelRequest;

use crate::seam::ControllerId;

/// The duration that a subscription is requested for.
const DURATION: Duration = Duration::from_secs(300);
/// The time after which a subscription is renewed.
const RENEW_AFTER: Duration = Duration::from_secs(200);

/// The subscription of this router.
#[derive(Debug, Default)]
pub(crate) struct Subscription {
    current: Option<Current>,
}

#[derive(Debug, Clone)]
struct Current {
    controller: ControllerId,
    id: String,
    renew_at: Instant,
}

/// A request to be sent to a controller.
#[derive(Debug, PartialEq)]
pub(crate) struct ToSend {
    pub(crate) controller: ControllerId,
    pub(crate) request: SubscribeToDataModelRequest,
}

impl Subscription {
    /// The controller of the subscription.
    pub(crate) fn controller(&self) -> Option<&ControllerId> {
        self.current.as_ref().map(|current| &current.controller)
    }

    /// True if a message about the model is to be applied. The message names a subscription (`id`)
    /// or none. Changes outside of the sequence (`synthetic`) are taken from every controller.
    pub(crate) fn accepts(&self, from: &str, id: Option<&str>, synthetic: bool) -> bool {
        let Some(current) = &self.current else { return synthetic };
        if *current.controller != *from {
            return synthetic;
        }
        id.is_none_or(|id| id.is_empty() || id == current.id)
    }

    /// A change set is missing: subscribe again at the index of the model.
    pub(crate) fn begin_anew(&mut self) {
        self.current = None;
    }

    /// A controller has connected or disconnected.
    pub(crate) fn changed(&mut self, controller: &str) {
        if self.controller().is_some_and(|current| **current == *controller) {
            self.current = None;
        }
    }

    /// The request to send now, if any. `best` is the controller to ask, `alive` whether the
    /// current one answers.
    pub(crate) fn check(
        &mut self,
        best: Option<&ControllerId>,
        alive: bool,
        position: (&str, u64),
        now: Instant,
        new_id: impl FnOnce() -> String,
    ) -> Option<ToSend> {
        let best = best?;
        let renew = match &self.current {
            Some(current) if !alive && current.controller != *best => false,
            Some(current) if now < current.renew_at => return None,
            Some(current) => current.controller == *best,
            None => false,
        };
        let id = match &self.current {
            Some(current) if renew => current.id.clone(),
            _ => new_id(),
        };
        let (timeline, index) = position;
        let request = SubscribeToDataModelRequest {
            current_index: index,
            subscription_duration_seconds: DURATION.as_secs() as u32,
            renew,
            timeline_id: timeline.to_owned(),
            subscription_id: id.clone(),
        };
        let renew_at = now + RENEW_AFTER;
        self.current = Some(Current { controller: best.clone(), id, renew_at });
        Some(ToSend { controller: best.clone(), request })
    }

    /// The request could not be sent.
    pub(crate) fn not_sent(&mut self) {
        self.current = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        subscription: &mut Subscription,
        best: &str,
        alive: bool,
        index: u64,
        now: Instant,
        id: &str,
    ) -> Option<SubscribeToDataModelRequest> {
        let best: ControllerId = best.into();
        let sent = subscription.check(Some(&best), alive, ("t", index), now, || id.to_owned())?;
        assert_eq!(sent.controller, best);
        Some(sent.request)
    }

    #[test]
    fn begins_renews_and_moves() {
        let mut subscription = Subscription::default();
        let now = Instant::now();
        assert!(subscription.check(None, true, ("", 0), now, String::new).is_none());
        let first = check(&mut subscription, "a", true, 7, now, "s1").unwrap();
        assert_eq!((first.current_index, first.renew), (7, false));
        assert_eq!((first.timeline_id.as_str(), first.subscription_id.as_str()), ("t", "s1"));
        assert_eq!(first.subscription_duration_seconds, 300);
        assert!(check(&mut subscription, "a", true, 8, now, "s2").is_none());
        let renewed = check(&mut subscription, "a", true, 8, now + RENEW_AFTER, "s2").unwrap();
        assert_eq!((renewed.renew, renewed.subscription_id.as_str()), (true, "s1"));
        assert!(check(&mut subscription, "b", true, 8, now + RENEW_AFTER, "s3").is_none());
        let moved = check(&mut subscription, "b", false, 8, now + RENEW_AFTER, "s3").unwrap();
        assert_eq!((moved.renew, moved.subscription_id.as_str()), (false, "s3"));
    }

    #[test]
    fn begins_anew_where_the_model_is() {
        let mut subscription = Subscription::default();
        let now = Instant::now();
        check(&mut subscription, "a", true, 7, now, "s1").unwrap();
        subscription.begin_anew();
        let anew = check(&mut subscription, "a", true, 8, now, "s2").unwrap();
        assert_eq!((anew.current_index, anew.renew), (8, false));
        subscription.not_sent();
        assert_eq!(check(&mut subscription, "a", true, 8, now, "s3").unwrap().current_index, 8);
    }

    #[test]
    fn only_what_is_meant_for_it_is_taken() {
        let mut subscription = Subscription::default();
        assert!(subscription.accepts("a", None, true) && !subscription.accepts("a", None, false));
        check(&mut subscription, "a", true, 7, Instant::now(), "s1").unwrap();
        assert!(subscription.accepts("a", Some("s1"), false));
        assert!(subscription.accepts("a", None, false), "1.x controllers name none");
        assert!(!subscription.accepts("a", Some("old"), false));
        assert!(!subscription.accepts("b", Some("s1"), false));
        assert!(subscription.accepts("b", None, true));
        subscription.changed("b");
        assert!(subscription.controller().is_some());
        subscription.changed("a");
        assert!(subscription.controller().is_none());
    }
}
