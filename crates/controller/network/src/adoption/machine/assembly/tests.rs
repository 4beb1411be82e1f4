//! Circuits put together from pieces.

use std::time::Duration;

use proptest::prelude::*;
use weft_model::entity::Terminator;
use weft_wire::PeerData;

use super::*;
use crate::routes::RouteSpec;

fn pieces_of(nodes: &[&str], links: &[&str]) -> BTreeMap<Id, Route> {
    let path = Path {
        nodes: nodes.iter().map(|id| Id::new(id)).collect(),
        links: links.iter().map(|id| (*id).to_owned()).collect(),
        cost: 0,
    };
    let (terminator, none) = (Terminator::default(), PeerData::new());
    let spec = RouteSpec {
        circuit: "c",
        attempt: 0,
        path: &path,
        ingress: "I",
        egress: "E",
        dial: Some((&terminator, &none)),
        timeout: Duration::ZERO,
        tags: &[("serviceId".to_owned(), "svc".to_owned())].into(),
        term: 0,
    };
    spec.routes().into_iter().collect()
}

#[test]
fn only_known_tags_are_taken_up() {
    let mut pieces = pieces_of(&["r1"], &[]);
    for route in pieces.values_mut() {
        route.tags.extend([
            ("hostId".to_owned(), "h".to_owned()),
            ("other".to_owned(), "x".repeat(1_900)),
        ]);
    }
    let told = put_together(&pieces);
    assert_eq!(told.tags.iter().collect::<Vec<_>>(), [("hostId", "h"), ("serviceId", "svc")]);
    assert_eq!(told.bytes(), "r1IE".len() + "hostIdh".len() + "serviceIdsvc".len());
}

#[test]
fn a_circuit_whose_ends_send_over_different_paths_is_not_whole() {
    let (direct, around) =
        (pieces_of(&["a", "c"], &["ac"]), pieces_of(&["a", "b", "c"], &["ab", "bc"]));
    assert!(put_together(&direct).is_whole && put_together(&around).is_whole);
    let mut pieces = around.clone();
    // The second step of a move to the direct path has reached `a` alone.
    for (router, changed) in [("a", "I"), ("a", "ac"), ("c", "ac")].map(|it| (Id::new(it.0), it.1))
    {
        let new = direct[&router].forwards.iter().find(|it| it.src_address == changed).unwrap();
        let route = pieces.get_mut(&router).unwrap();
        route.forwards.retain(|it| it.src_address != changed);
        route.forwards.push(new.clone());
    }
    let told = put_together(&pieces);
    assert!(!told.is_whole);
    assert_eq!(told.path.nodes, ["a", "b", "c"].map(Id::new));
    assert_eq!((&*told.ingress, &*told.egress), ("I", "E"));
}

#[test]
fn one_router_is_whole_at_once() {
    let told = put_together(&pieces_of(&["r1"], &[]));
    assert!(told.is_whole);
    assert_eq!(told.path, Path::of_one(Id::new("r1")));
    assert_eq!((told.ingress.as_str(), told.egress.as_str()), ("I", "E"));
    assert_eq!(told.dialed.unwrap().0, Id::new("r1"));
}

#[test]
fn a_circuit_is_put_together_in_any_order() {
    // The order of the routers' ids is not that of the path.
    let mut pieces = pieces_of(&["r3", "r1", "r2"], &["l1", "l2"]);
    let told = put_together(&pieces);
    assert!(told.is_whole);
    assert_eq!(told.path.links, ["l1", "l2"]);
    assert_eq!(told.path.nodes, ["r3", "r1", "r2"].map(Id::new));
    for missing in ["r1", "r2", "r3"] {
        let route = pieces.remove(missing).unwrap();
        let part = put_together(&pieces);
        assert!(!part.is_whole, "{missing}");
        assert_eq!(part.path.nodes.len(), 2);
        pieces.insert(Id::new(missing), route);
    }
}

#[test]
fn a_circuit_with_a_gap_has_ends_if_one_router_reports_each() {
    let mut pieces = pieces_of(&["r3", "r1", "r2", "r4"], &["l1", "l2", "l3"]);
    pieces.remove("r1");
    let told = put_together(&pieces);
    assert!(!told.is_whole && told.path.links.is_empty());
    assert_eq!(told.path.nodes, ["r3", "r2", "r4"].map(Id::new));
    assert_eq!((told.ingress.as_str(), told.egress.as_str()), ("I", "E"));
    // Two routers that report the same end are not believed.
    let mut two = pieces.clone();
    two.insert(Id::new("r5"), pieces["r4"].clone());
    assert_eq!(put_together(&two).egress, "");
    pieces.remove("r3");
    let told = put_together(&pieces);
    assert_eq!((told.ingress.as_str(), told.egress.as_str()), ("", ""));
}

proptest! {
    #[test]
    fn nonsense_ends(
        forwards in prop::collection::vec(("r[1-4]", "[IEl][12]?", "[IEl][12]?", 0i32..4), 0..24),
    ) {
        let mut pieces: BTreeMap<Id, Route> = BTreeMap::new();
        for (router, from, to, kind) in forwards {
            let route = pieces.entry(Id::new(&router)).or_default();
            route.forwards.push(weft_wire::ctrl::route::Forward {
                src_address: from,
                dst_address: to,
                dst_type: kind,
            });
        }
        let told = put_together(&pieces);
        if told.is_whole {
            prop_assert_eq!(told.path.nodes.len(), told.path.links.len() + 1);
        }
    }
}
