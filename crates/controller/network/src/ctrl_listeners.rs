//! The listeners on which routers take controllers. A router's hello names them; they are kept with
//! its entity for controllers that dial (docs/protocol/control-plane.md 2.3, 23).

use std::collections::{BTreeMap, BTreeSet};

use weft_model::entity::{CtrlListener, Router};
use weft_wire::ctrl::CtrlChanListeners;
use weft_wire::{Address, Scheme};

/// Most listeners of a router, and most groups of a listener.
const MAX_LISTENERS: usize = 16;
const MAX_GROUPS: usize = 16;
/// Longest address and longest name of a group, in bytes.
const MAX_ADDRESS: usize = 300;
const MAX_GROUP: usize = 100;
/// The group of a listener that names none.
const DEFAULT_GROUP: &str = "default";

/// The listeners in a hello, as they are kept. Addresses that cannot be dialed are left out.
pub fn told(router: &str, listeners: CtrlChanListeners) -> BTreeMap<String, CtrlListener> {
    let all = listeners.listeners;
    let count = all.len();
    let kept: BTreeMap<_, _> = all
        .into_iter()
        .take(MAX_LISTENERS)
        .filter(|one| address(&one.address).is_some())
        .map(|one| {
            let groups = one.groups.into_iter().filter(|group| group.len() <= MAX_GROUP);
            (one.address, CtrlListener { groups: groups.take(MAX_GROUPS).collect() })
        })
        .collect();
    if kept.len() < count {
        tracing::warn!(
            router,
            ignored = count - kept.len(),
            "a router has too many or invalid listeners for controllers; only {MAX_LISTENERS} \
             different addresses of the form tls:<host>:<port> are kept"
        );
    }
    kept
}

/// The addresses of a router that a controller with these groups may dial.
pub fn dialable(router: &Router, groups: &[String]) -> Vec<Address> {
    let shares = |listener: &CtrlListener| match listener.groups.as_slice() {
        [] => groups.iter().any(|own| own == DEFAULT_GROUP),
        named => named.iter().any(|group| groups.contains(group)),
    };
    let listeners = router.ctrl_chan_listeners.iter();
    let shared = listeners.filter(|(_, listener)| shares(listener));
    shared.filter_map(|(text, _)| address(text)).take(MAX_LISTENERS).collect()
}

/// An address, if it can be dialed.
fn address(text: &str) -> Option<Address> {
    let address: Address = text.parse().ok().filter(|_| text.len() <= MAX_ADDRESS)?;
    (address.scheme == Scheme::Tls && !address.host.is_empty() && address.port != 0)
        .then_some(address)
}

/// Whether two maps mean the same: the order of groups does not count.
pub fn same(one: &BTreeMap<String, CtrlListener>, other: &BTreeMap<String, CtrlListener>) -> bool {
    let groups = |listener: &CtrlListener| listener.groups.iter().cloned().collect::<BTreeSet<_>>();
    one.len() == other.len()
        && one.iter().all(|(address, listener)| {
            other.get(address).is_some_and(|known| groups(known) == groups(listener))
        })
}

#[cfg(test)]
mod tests {
    use weft_wire::ctrl::CtrlChanListener;

    use super::*;

    fn listener(address: &str, groups: &[&str]) -> CtrlChanListener {
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        CtrlChanListener { address: address.to_owned(), groups }
    }

    fn kept(listeners: Vec<CtrlChanListener>) -> Router {
        let ctrl_chan_listeners = told("r1", CtrlChanListeners { listeners });
        Router { ctrl_chan_listeners, ..Router::default() }
    }

    #[test]
    fn only_addresses_of_tls_are_kept_and_not_too_many() {
        let others = ["dtls:a:1", "tcp:a:1", "wss:a:1", "tls:a:0", "tls::1", "a:1", "https://a/"];
        let others = others.map(|text| listener(text, &[]));
        assert_eq!(kept(others.into()).ctrl_chan_listeners.len(), 0);
        let long = format!("tls:{}:1", "a".repeat(MAX_ADDRESS));
        assert_eq!(kept(vec![listener(&long, &[])]).ctrl_chan_listeners.len(), 0);
        let many = (1..100).map(|port| listener(&format!("tls:a:{port}"), &["x"; 50]));
        let many = kept(many.collect()).ctrl_chan_listeners;
        assert_eq!(many.len(), MAX_LISTENERS);
        assert!(many.values().all(|one| one.groups.len() == MAX_GROUPS));
    }

    #[test]
    fn a_group_in_common_is_dialed_and_none_means_default() {
        let router = kept(vec![
            listener("tls:a:1", &["blue", "red"]),
            listener("tls:b:2", &[]),
            listener("tls:c:3", &["default"]),
        ]);
        let hosts = |groups: &[&str]| -> String {
            let groups: Vec<String> = groups.iter().map(|&group| group.to_owned()).collect();
            dialable(&router, &groups).into_iter().map(|address| address.host).collect()
        };
        assert_eq!(hosts(&["default"]), "bc");
        assert_eq!(hosts(&["red"]), "a");
        assert_eq!(hosts(&["default", "blue"]), "abc");
        assert_eq!(hosts(&["green"]), "");
        // Entries that the API wrote need not be dialable.
        let of_api = BTreeMap::from([("udp:a:1".to_owned(), CtrlListener::default())]);
        let of_api = Router { ctrl_chan_listeners: of_api, ..Router::default() };
        assert_eq!(dialable(&of_api, &["default".to_owned()]), []);
    }

    #[test]
    fn the_order_of_groups_means_nothing() {
        let of = |groups: &[&str]| kept(vec![listener("tls:a:1", groups)]).ctrl_chan_listeners;
        assert!(same(&of(&["a", "b"]), &of(&["b", "a"])) && !same(&of(&["a"]), &of(&["b"])));
        assert!(!same(&of(&[]), &BTreeMap::new()) && same(&BTreeMap::new(), &BTreeMap::new()));
    }
}
