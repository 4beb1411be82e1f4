//! The circuits of another controller, which has ended and comes back.

use std::time::Duration;

use weft_network::ownership::machine::Roster;
use weft_wire::ProtoBody as _;
use weft_wire::ctrl::content_type::{CLAIM_CIRCUITS, INSPECT_REQUEST, UNROUTE};
use weft_wire::ctrl::{
    CarriedCircuits, CircuitConfirmation, ClaimCircuits, Fault, InspectRequest, Route,
};

use super::circuits::{hosted, made};
use super::support::{Net, Peer, later, soon, until};

/// What this controller hears: it leads, and the other one is alive or not.
fn heard(net: &Net, since: u64, moment: u64, is_alive: bool) {
    let others = vec!["two"];
    let alive = if is_alive { vec!["one", "two"] } else { vec!["one"] };
    net.network.on_controllers(&Roster { moment, since, leads: true, others, alive });
}

/// The next claim, of the circuits of this controller.
async fn claim(peer: &mut Peer, of: &str) -> ClaimCircuits {
    loop {
        let claim = ClaimCircuits::from_message(&peer.expect(CLAIM_CIRCUITS).await).unwrap();
        if claim.controller == of {
            return claim;
        }
    }
}

async fn answer(peer: &Peer, claim: &ClaimCircuits, routes: Vec<Route>) {
    let claimed_of = claim.controller.clone();
    peer.send(
        CarriedCircuits { routes, last: true, claimed_of, ..Default::default() }.to_message(),
    )
    .await;
    peer.settled().await;
}

async fn ask_about(peer: &Peer, circuit: &str) {
    let circuit_ids = vec![circuit.to_owned()];
    peer.send(CircuitConfirmation { circuit_ids, ..Default::default() }.to_message()).await;
    peer.settled().await;
}

/// Has the other one end, and waits for the claim.
async fn ended(net: &Net, peer: &mut Peer, since: u64, moment: u64) -> ClaimCircuits {
    let claimed = async {
        loop {
            heard(net, since, moment, false);
            while peer.has(CLAIM_CIRCUITS) {
                let claim = ClaimCircuits::from_message(&peer.expect(CLAIM_CIRCUITS).await);
                if let Ok(claim) = claim
                    && claim.controller == "two"
                {
                    return claim;
                }
            }
            later(Duration::from_millis(20)).await;
        }
    };
    soon(claimed).await
}

#[tokio::test]
async fn circuits_of_a_controller_that_has_ended_are_taken_over_and_given_back() {
    let (net, _, mut peer, _) = hosted().await;
    heard(&net, 3, 10, true);
    let own = net.bed.controller.kernel().settings().id.clone();
    let claimed = claim(&mut peer, &own).await;
    assert_eq!(claimed.term, 3);
    answer(&peer, &claimed, Vec::new()).await;
    let (kept, route) = made(&mut peer).await;
    assert!(kept.circuit_id.starts_with(&claimed.tag) && route.term == 3);

    // The other one ends. What a router answers is adopted; before, nothing of it is ended.
    let claimed = ended(&net, &mut peer, 3, 20).await;
    assert_eq!(claimed.term, 20);
    let of_other = |name: &str| format!("{}{name}", claimed.tag);
    let carried = |id: &str| {
        let circuit_id = of_other(id);
        Route { circuit_id, context: None, term: 20, ..route.clone() }
    };
    ask_about(&peer, &of_other("a")).await;
    answer(&peer, &claimed, vec![carried("a"), carried("b")]).await;
    let has = |id: &str| net.network.circuits().get(&of_other(id)).is_some_and(|it| it.is_whole);
    assert!(has("a") && has("b") && net.network.circuits().len() == 3);
    assert_eq!(net.network.circuits().get(&of_other("a")).unwrap().term, 20);
    assert!(!peer.has(UNROUTE));
    // They are this controller's.
    peer.send(Fault::circuit(true, of_other("b")).to_message()).await;
    until(|| !has("b")).await;
    peer.expect(UNROUTE).await;
    // An answer that nobody waits for counts for nothing.
    answer(&peer, &claimed, vec![carried("c")]).await;
    assert!(!has("c"));

    // It is back, and owns the rest: this controller says nothing of it any more.
    heard(&net, 3, 30, true);
    assert_eq!(net.network.circuits().len(), 1);
    for id in ["a", "c"] {
        ask_about(&peer, &of_other(id)).await;
        let fault = Fault::forward(true, &[of_other(id)]);
        peer.send(fault.to_message()).await;
    }
    peer.settled().await;
    assert!(!peer.has(UNROUTE) && net.network.circuits().len() == 1);

    // It ends again, and its circuit is taken over again.
    let claimed = ended(&net, &mut peer, 3, 40).await;
    answer(&peer, &claimed, vec![carried("a")]).await;
    assert!(has("a"));
}

#[tokio::test]
async fn a_controller_that_was_not_counted_among_the_living_gets_back_what_was_taken_over() {
    let (net, router, mut peer, _) = hosted().await;
    heard(&net, 3, 10, true);
    let own = net.bed.controller.kernel().settings().id.clone();
    let claimed = claim(&mut peer, &own).await;
    assert!(claimed.changed_only);
    answer(&peer, &claimed, Vec::new()).await;
    let (taken, route) = made(&mut peer).await;
    let (kept, _) = made(&mut peer).await;
    let cost = net.network.dynamic_cost(&"t1".into());

    // Another controller takes one over: this one says nothing of it any more, whoever asks.
    let notice = |ids: &[&str]| {
        let taken = ids.iter().map(|id| (*id).to_owned()).collect();
        CarriedCircuits { taken, ..Default::default() }.to_message()
    };
    peer.send(notice(&[&taken.circuit_id, "unknown"])).await;
    peer.settled().await;
    let ids = |net: &Net| -> Vec<String> {
        net.network.circuits().all().iter().map(|it| it.id.clone()).collect()
    };
    assert!(ids(&net) == std::slice::from_ref(&kept.circuit_id));
    assert!(net.network.dynamic_cost(&"t1".into()) < cost);
    let last = CarriedCircuits { last: true, ..Default::default() };
    peer.send(last.to_message()).await;
    ask_about(&peer, &taken.circuit_id).await;
    assert!(!peer.has(UNROUTE) && net.network.in_part() == 0);
    // A router that the circuit does not go over cannot say so.
    let other = net.router("er2").await;
    let other = net.connect(&other).await;
    other.send(notice(&[&kept.circuit_id])).await;
    other.settled().await;
    assert!(ids(&net) == std::slice::from_ref(&kept.circuit_id));

    // It is counted again: what is its own goes on as it is, and the rest comes back.
    heard(&net, 50, 51, true);
    let again = claim(&mut peer, &own).await;
    assert_eq!((again.term, &again.tag), (50, &claimed.tag));
    ask_about(&peer, &taken.circuit_id).await;
    assert!(!peer.has(UNROUTE), "it is about to be named");
    answer(&peer, &again, vec![Route { context: None, ..route.clone() }]).await;
    assert_eq!((ids(&net).len(), net.network.dynamic_cost(&"t1".into())), (2, cost));
    let is_reported =
        |id: &str| net.network.circuits().get(id).is_some_and(|it| it.is_of_earlier_run());
    assert!(is_reported(&taken.circuit_id) && !is_reported(&kept.circuit_id));
    let (new, route) = made(&mut peer).await;
    assert!(route.term == 50 && new.circuit_id[..8] != kept.circuit_id[..8]);
    // A router that connects is told, too.
    peer.leave();
    until(|| net.network.routers().all().len() == 1).await;
    let mut peer = net.connect(&router).await;
    assert_eq!(claim(&mut peer, &own).await.term, 50);
}

/// The end of a circuit overtakes the answer that names it.
#[tokio::test]
async fn a_circuit_that_ends_while_it_is_claimed_is_not_adopted() {
    let (net, _, mut peer, _) = hosted().await;
    heard(&net, 3, 10, true);
    let (_, route) = made(&mut peer).await;
    let claimed = ended(&net, &mut peer, 3, 20).await;
    let circuit_id = format!("{}a", claimed.tag);
    peer.send(Fault::circuit(true, &circuit_id).to_message()).await;
    peer.settled().await;
    answer(&peer, &claimed, vec![Route { circuit_id, context: None, ..route }]).await;
    assert_eq!(net.network.circuits().len(), 1);
}

#[tokio::test]
async fn a_router_that_answers_no_claims_is_asked_for_its_circuits() {
    let (net, router, peer, _) = hosted().await;
    peer.leave();
    until(|| net.network.routers().all().is_empty()).await;
    let mut peer = net.connect_as(&router, "v2.0.3").await;
    until(|| {
        heard(&net, 3, 20, false);
        peer.has(INSPECT_REQUEST)
    })
    .await;
    let asked = InspectRequest::from_message(&peer.expect(INSPECT_REQUEST).await).unwrap();
    assert_eq!(asked.requested_values, ["router-circuits", "router-edge-circuits"]);
    assert!(!peer.has(CLAIM_CIRCUITS));
}
