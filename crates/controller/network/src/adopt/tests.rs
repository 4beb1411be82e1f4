//! Circuits put together from pieces, and limits on reports of routers.

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
    };
    spec.routes().into_iter().collect()
}

#[test]
fn one_router_fills_only_its_own_share() {
    let pieces = Pieces::default();
    let (r1, r2) = (Id::new("r1"), Id::new("r2"));
    assert!((0..MAX_BEGUN).all(|number| pieces.begin(&r1, &format!("c{number}"))));
    let route = |id: &str| Route { circuit_id: id.to_owned(), ..Route::default() };
    assert!(!pieces.begin(&r1, "more") && pieces.add(&r1, route("more")).is_none());
    assert_eq!(pieces.add(&r1, route("c7")).unwrap().len(), 1, "it told of this one before");
    assert_eq!(pieces.add(&r2, route("more")).unwrap().len(), 1);
    assert_eq!(pieces.add(&r1, route("more")).unwrap().len(), 2);
    pieces.over("c7");
    pieces.over("c7");
    assert!(pieces.begin(&r1, "c7") && !pieces.begin(&r1, "c8888888"));
    pieces.over("more");
    assert!(!pieces.state.lock().begun.contains_key(&r2));
}

#[test]
fn the_pieces_of_one_router_have_a_limit_in_bytes() {
    let pieces = Pieces::default();
    let (r1, r2) = (Id::new("r1"), Id::new("r2"));
    let route = |number: usize, bytes: usize| Route {
        circuit_id: format!("c{number:06}"),
        tags: [("tag".to_owned(), "x".repeat(bytes))].into(),
        ..Route::default()
    };
    assert!(pieces.add(&r1, route(0, MAX_ROUTE)).is_none(), "it is too long");
    assert!(pieces.state.lock().circuits.is_empty());
    let added = (0..MAX_BEGUN).take_while(|at| pieces.add(&r1, route(*at, 1_900)).is_some());
    let added = added.count();
    assert!(added * 1_900 < MAX_BYTES && (added + 2) * 2_000 > MAX_BYTES, "{added}");
    assert!(pieces.add(&r2, route(0, 1_900)).is_some(), "another has its own share");
    assert!(pieces.add(&r1, route(1, 1_900)).is_some(), "it takes the place of another");
    (0..MAX_BEGUN).for_each(|number| pieces.over(&route(number, 0).circuit_id));
    let state = pieces.state.lock();
    assert!(state.bytes.is_empty() && state.begun.is_empty() && state.circuits.is_empty());
}

/// The route of a circuit over one router alone makes the circuit whole.
#[test]
fn whole_circuits_count_for_who_told_of_them_until_they_end() {
    let pieces = Pieces::default();
    let (r1, r2) = (Id::new("r1"), Id::new("r2"));
    let tell = |router: &Id, number: usize| {
        let id = format!("c{number:06}");
        let route = Route { circuit_id: id.clone(), ..Route::default() };
        pieces.add(router, route).is_some() && pieces.put_whole(&id, 2_000)
    };
    let told = (0..MAX_BEGUN).take_while(|number| tell(&r1, *number)).count();
    assert_eq!(told, MAX_BYTES / 2_000);
    assert!(!tell(&r1, told) && tell(&r2, MAX_BEGUN));
    assert!(pieces.state.lock().first.len() == 1, "what did not fit is known in part");
    pieces.over("c000000");
    pieces.over("c000000");
    assert!(tell(&r1, told) && !tell(&r1, told + 1));
    (0..=MAX_BEGUN).for_each(|number| pieces.over(&format!("c{number:06}")));
    let state = pieces.state.lock();
    assert!(state.bytes.is_empty() && state.whole.is_empty() && state.first.is_empty());
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

#[test]
fn a_router_between_the_ends_takes_its_piece_back() {
    let pieces = Pieces::default();
    for (router, mut route) in pieces_of(&["r1", "r2", "r3"], &["l1", "l2"]) {
        route.circuit_id = "c".to_owned();
        pieces.add(&router, route).unwrap();
    }
    assert!(pieces.without("c", &Id::new("r1")).is_none(), "it has an end");
    assert_eq!(pieces.without("c", &Id::new("r2")).unwrap().len(), 2);
    assert!(pieces.without("c", &Id::new("r2")).is_none() && pieces.of("c").unwrap().len() == 2);
    pieces.over("c");
    assert!(pieces.state.lock().bytes.is_empty());
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
