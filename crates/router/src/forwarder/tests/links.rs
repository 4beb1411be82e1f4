//! Links that close while circuits are led over them.

use super::{done::ways, *};

fn link(id: &str, iteration: u32) -> Arc<Link> {
    let outlet = Outlet::new(Budget::unlimited());
    Arc::new(Link { id: id.into(), peer: "peer".into(), iteration, outlet })
}

#[test]
fn a_route_over_a_link_that_has_closed_is_refused_with_the_dial_that_closed() {
    let (forwarder, control) = heard();
    let refused = |id: &str| {
        let path = ways(("in", ForwardKind::Start), (id, ForwardKind::Link));
        let refused = attempt(&forwarder, 0).unwrap().route(&path).unwrap_err();
        assert_eq!(refused.code, RouteErrorCode::InvalidLinkDestination);
    };
    refused("unknown");
    let (known, next) = (link("known", 4), link("known", 5));
    forwarder.register_link(&known).unwrap();
    forwarder.unregister_link(&known);
    refused("known");
    // The end of the fourth dial is noticed after that of the fifth.
    forwarder.register_link(&next).unwrap();
    forwarder.unregister_link(&next);
    forwarder.unregister_link(&known);
    refused("known");
    let faults = control.1.lock();
    assert_eq!(*faults, [("unknown".into(), 0), ("known".into(), 4), ("known".into(), 5)]);
}
