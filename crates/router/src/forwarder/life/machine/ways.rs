//! The ways of a circuit, as reports to controllers name them: the routes that are in effect, in one.

use std::sync::Arc;

use weft_wire::PeerData;
use weft_wire::ctrl::{self, DestType, Route};
use weft_xgress::Role;

/// Most ways of a circuit that are kept for payloads of former neighbours, to which the circuit sends
/// nothing any more. The data half keeps as many. A controller adopts no route of more than 2 KiB.
const LEFT: usize = 8;

/// Most ways of a circuit that are kept. A router between the ends may be led a circuit over two other links again and
/// again, and does not hear which ways are not used any more.
const MOST_WAYS: usize = 2 * (LEFT + 1);

/// A route as it is kept: without its secrets and its time.
pub(super) fn for_reports(route: &Route) -> Route {
    let egress = route.egress.as_ref().map(|egress| ctrl::route::Egress {
        binding: egress.binding.clone(),
        address: egress.address.clone(),
        destination: egress.destination.clone(),
        peer_data: PeerData::new(),
    });
    Route {
        circuit_id: route.circuit_id.clone(),
        attempt: route.attempt,
        egress,
        forwards: route.forwards.clone(),
        context: None,
        timeout: 0,
        tags: route.tags.clone(),
        term: route.term,
    }
}

/// Keeps a route that was set up. A route that moves the circuit has no egress and names only new ways: the other ways
/// stay. Another attempt at making the circuit replaces the earlier ones.
pub(super) fn keep(known: &mut Option<Arc<Route>>, route: Route) {
    let Some(known) = known.as_mut().map(Arc::make_mut) else {
        *known = Some(Arc::new(route));
        return;
    };
    if route.is_reroute() {
        add(&mut known.forwards, route.forwards);
    } else {
        known.forwards = route.forwards;
    }
    if route.egress.is_some() {
        known.egress = route.egress;
    }
}

/// Adds ways: the last route that names an address decides where its messages go. The oldest ways that
/// the circuit has left are forgotten, because a circuit may be moved as long as it lives.
fn add(known: &mut Vec<ctrl::route::Forward>, new: Vec<ctrl::route::Forward>) {
    known.retain(|way| new.iter().all(|it| it.src_address != way.src_address));
    known.extend(new);
    let is_left =
        |way: &ctrl::route::Forward| known.iter().all(|to| to.dst_address != way.src_address);
    let left: Vec<bool> = known.iter().map(is_left).collect();
    let mut over = left.iter().filter(|is_left| **is_left).count().saturating_sub(LEFT);
    let mut left = left.into_iter();
    known.retain(|_| {
        let goes = over > 0 && left.next().unwrap_or_default();
        over -= usize::from(goes);
        !goes
    });
    known.drain(..known.len().saturating_sub(MOST_WAYS));
}

/// The addresses on this router at which a circuit begins or ends.
pub(super) fn ends(route: &Route) -> Vec<(String, Role)> {
    let end = |way: &ctrl::route::Forward| {
        let role = match way.dst_type() {
            DestType::Start => Role::Initiator,
            DestType::End => Role::Terminator,
            DestType::Link => return None,
        };
        Some((way.dst_address.clone(), role))
    };
    route.forwards.iter().filter_map(end).collect()
}

#[cfg(test)]
mod tests {
    use weft_wire::ctrl::{REROUTE_ATTEMPT, route};

    use super::*;

    fn route(egress: bool) -> Route {
        Route {
            circuit_id: "x".to_owned(),
            egress: egress.then(|| route::Egress {
                binding: "edge".into(),
                address: "E".into(),
                destination: "t1".into(),
                peer_data: [(1003, "key".into())].into(),
            }),
            forwards: vec![way("I", "E", DestType::End)],
            timeout: 10_000_000_000,
            ..Route::default()
        }
    }

    fn way(from: &str, to: &str, kind: DestType) -> route::Forward {
        route::Forward { src_address: from.into(), dst_address: to.into(), dst_type: kind.into() }
    }

    #[test]
    fn a_reroute_keeps_the_egress_and_secrets_are_not_kept() {
        let mut known = None;
        keep(&mut known, for_reports(&route(true)));
        let mut moved = route(false);
        moved.attempt = REROUTE_ATTEMPT;
        moved.forwards[0].dst_address = "l2".into();
        keep(&mut known, for_reports(&moved));
        let kept = known.unwrap();
        let egress = kept.egress.as_ref().unwrap();
        assert!(egress.peer_data.is_empty() && kept.timeout == 0);
        assert_eq!(
            (egress.destination.as_str(), kept.forwards[0].dst_address.as_str()),
            ("t1", "l2")
        );
        assert_eq!(ends(&route(true)), [("E".to_owned(), Role::Terminator)]);
    }

    #[test]
    fn a_circuit_that_moved_is_told_whole() {
        let mut known = None;
        let told = |attempt, forwards| Route { attempt, forwards, ..route(false) };
        let (start, link) = (DestType::Start, DestType::Link);
        // It is made, and moves in two steps to another link.
        let made = vec![way("I", "l1", link), way("l1", "I", start)];
        keep(&mut known, told(0, made));
        for step in [way("l2", "I", start), way("I", "l2", link)] {
            keep(&mut known, told(REROUTE_ATTEMPT, vec![step]));
        }
        let kept = &known.as_ref().unwrap().forwards;
        let expected = [way("l1", "I", start), way("l2", "I", start), way("I", "l2", link)];
        assert_eq!(*kept, expected);
        // After many moves the report is still small, and has the ways that count.
        for number in 0..100 {
            let to = format!("a-link-with-a-long-name-{number}");
            for step in [way(&to, "I", start), way("I", &to, link)] {
                keep(&mut known, told(REROUTE_ATTEMPT, vec![step]));
            }
        }
        let kept = &known.as_ref().unwrap().forwards;
        let last = "a-link-with-a-long-name-99";
        assert_eq!(kept.len(), LEFT + 2);
        assert_eq!(kept[LEFT..], [way(last, "I", start), way("I", last, link)]);
        // A router between the ends forgets former pairs of links, too.
        for number in 0..100 {
            let [one, other] = ["one", "other"].map(|it| format!("{it}-link-with-a-name-{number}"));
            let pair = vec![way(&one, &other, link), way(&other, &one, link)];
            keep(&mut known, told(REROUTE_ATTEMPT, pair));
        }
        let kept = &known.as_ref().unwrap().forwards;
        assert_eq!(kept.len(), MOST_WAYS);
        assert_eq!(kept[MOST_WAYS - 1].src_address, "other-link-with-a-name-99");
        // Another attempt at making it begins anew.
        let again = vec![way("I", "l3", link), way("l3", "I", start)];
        keep(&mut known, told(1, again.clone()));
        assert_eq!(known.as_ref().unwrap().forwards, again);
    }
}
