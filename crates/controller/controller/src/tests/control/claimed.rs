//! The circuits of another controller, which has ended and comes back.

use weft_network::ownership::machine::Roster;
use weft_wire::ProtoBody as _;
use weft_wire::ctrl::content_type::{CLAIM_CIRCUITS, UNROUTE};
use weft_wire::ctrl::{CarriedCircuits, CircuitConfirmation, ClaimCircuits, Fault, Route};

use super::circuits::{hosted, made};
use super::support::{Net, Peer, until};

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
    peer.send(CarriedCircuits { routes, last: true, claimed_of }.to_message()).await;
    peer.settled().await;
}

async fn ask_about(peer: &Peer, circuit: &str) {
    let circuit_ids = vec![circuit.to_owned()];
    peer.send(CircuitConfirmation { circuit_ids, ..Default::default() }.to_message()).await;
    peer.settled().await;
}

/// Has the other one end, and waits for the claim.
async fn ended(net: &Net, peer: &mut Peer, since: u64, moment: u64) -> ClaimCircuits {
    until(|| {
        heard(net, since, moment, false);
        peer.has(CLAIM_CIRCUITS)
    })
    .await;
    claim(peer, "two").await
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
    peer.send(Fault::circuit(true, &of_other("b")).to_message()).await;
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
async fn a_controller_that_was_not_counted_among_the_living_asks_for_its_circuits() {
    let (net, router, mut peer, _) = hosted().await;
    heard(&net, 3, 10, true);
    let own = net.bed.controller.kernel().settings().id.clone();
    let claimed = claim(&mut peer, &own).await;
    answer(&peer, &claimed, Vec::new()).await;
    let (kept, route) = made(&mut peer).await;
    let (ended, _) = made(&mut peer).await;
    heard(&net, 50, 51, true);
    assert!(net.network.circuits().is_empty());
    let again = claim(&mut peer, &own).await;
    assert_eq!((again.term, &again.tag), (50, &claimed.tag));
    // It is asked about one before the answer, and about one that another controller has ended afterwards.
    ask_about(&peer, &kept.circuit_id).await;
    assert!(!peer.has(UNROUTE));
    answer(&peer, &again, vec![Route { context: None, ..route }]).await;
    assert!(net.network.circuits().get(&kept.circuit_id).is_some());
    assert_eq!(net.network.dynamic_cost(&"t1".into()), 2);
    let (new, route) = made(&mut peer).await;
    assert!(route.term == 50 && new.circuit_id[..8] != kept.circuit_id[..8]);
    ask_about(&peer, &ended.circuit_id).await;
    assert!(!peer.has(UNROUTE), "the router has not said yet that it named all");
    // A router that connects is asked, too.
    peer.leave();
    until(|| net.network.routers().all().is_empty()).await;
    let mut peer = net.connect(&router).await;
    assert_eq!(claim(&mut peer, &own).await.term, 50);
}
