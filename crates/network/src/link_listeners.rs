//! The listeners on which routers take links of other routers. A router's hello names them, and a
//! report when they change (docs/protocol/control-plane.md 8). All other routers are told of them, so
//! that they have limits.

use std::sync::Arc;

use weft_wire::ctrl::{Listener, Listeners};
use weft_wire::{Message, ProtoBody as _, WireError};

use crate::misreports::Misreport;
use crate::network::Network;
use crate::routers::LiveRouter;

/// Most listeners of a router, and most groups of a listener.
const MAX_LISTENERS: usize = 16;
const MAX_GROUPS: usize = 16;
/// Longest address, in bytes.
const MAX_ADDRESS: usize = 300;
/// Longest protocol, longest name of a group, and longest binding, in bytes.
const MAX_NAME: usize = 100;

/// The listeners that are kept, and the number of those that are left out.
pub(crate) fn kept(listeners: Listeners) -> (Vec<Listener>, usize) {
    let count = listeners.listeners.len();
    let fits = |one: &Listener| {
        one.address.len() <= MAX_ADDRESS
            && [&one.protocol, &one.local_binding].iter().all(|name| name.len() <= MAX_NAME)
            && one.groups.len() <= MAX_GROUPS
            && one.groups.iter().all(|group| group.len() <= MAX_NAME)
    };
    let kept = listeners.listeners.into_iter().filter(fits).take(MAX_LISTENERS);
    let kept: Vec<Listener> = kept.collect();
    let left_out = count - kept.len();
    (kept, left_out)
}

impl Network {
    /// Handles a router's report of its listeners for links. True if they differ from the former ones,
    /// so that other routers have to be told.
    pub fn on_listeners(
        &self,
        router: &Arc<LiveRouter>,
        message: &Message,
    ) -> Result<bool, WireError> {
        if !router.may_change_listeners() {
            self.refuse(router, Misreport::LinkListeners, "too many reports");
            return Ok(false);
        }
        let (listeners, left_out) = kept(Listeners::from_message(message)?);
        let what = "a listener that is too long, or one of too many";
        self.0.misreports.count(&router.id, Misreport::LinkListeners, left_out, what);
        Ok(router.set_listeners(listeners))
    }

    /// Counts the listeners of a router's hello that were left out.
    pub(crate) fn count_left_out(&self, router: &LiveRouter) {
        let what = "a listener of the hello that is too long, or one of too many";
        let left_out = router.listeners_left_out;
        self.0.misreports.count(&router.id, Misreport::LinkListeners, left_out, what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(address: &str, groups: Vec<String>) -> Listener {
        Listener {
            address: address.to_owned(),
            protocol: "tls".to_owned(),
            groups,
            local_binding: "eth0".to_owned(),
        }
    }

    #[test]
    fn listeners_for_links_have_limits() {
        let of = |listeners| kept(Listeners { listeners });
        let usual = vec![listener("tls:a:1", vec!["default".to_owned()])];
        assert_eq!(of(usual.clone()), (usual.clone(), 0));
        let long = listener(&"a".repeat(MAX_ADDRESS + 1), Vec::new());
        let odd = Listener { protocol: "p".repeat(MAX_NAME + 1), ..usual[0].clone() };
        let bound = Listener { local_binding: "b".repeat(MAX_NAME + 1), ..usual[0].clone() };
        assert_eq!(of(vec![long, odd, usual[0].clone(), bound]), (usual, 3));
        let grouped = |count, length| listener("tls:a:1", vec!["g".repeat(length); count]);
        let (many, left_out) = of(vec![grouped(MAX_GROUPS, MAX_NAME); 100]);
        assert_eq!((many.len(), left_out), (MAX_LISTENERS, 100 - MAX_LISTENERS));
        // Left out as a whole: without one of its groups a listener would be dialed by others.
        for odd in [grouped(MAX_GROUPS + 1, 1), grouped(1, MAX_NAME + 1)] {
            assert_eq!(of(vec![odd]), (Vec::new(), 1));
        }
    }
}
