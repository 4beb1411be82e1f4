//! The circuits of a controller that ends: another one takes them over, and gives them back.

use super::*;

/// Waits until each of these controllers says that the controllers own these circuits.
async fn listed(operators: &[&Operator], wanted: &[(&str, &[String])]) {
    let names: Vec<&str> = wanted.iter().map(|(name, _)| *name).collect();
    let wanted: Vec<&[String]> = wanted.iter().map(|(_, ids)| *ids).collect();
    let look = async || {
        for operator in operators {
            let all = operator.circuits_of(&names).await;
            if all != wanted {
                return Err(format!("{all:?}"));
            }
        }
        Ok(())
    };
    until("each circuit is listed once", PATIENCE, look).await;
}

const NAMES: [&str; 2] = ["controller", "two"];

#[tokio::test(flavor = "multi_thread")]
async fn another_controller_takes_circuits_over_and_gives_them_back() {
    let Some(cluster) = Cluster::make().await else { return };
    let cluster = cluster.with_second().await;
    let (programs, _router, operators) = cluster.start_all().await;
    let mut running = programs.map(Some);
    let host = operators[0].endpoint("host").await;
    let client = operators[1].endpoint("client").await;
    let _hosting = streams::Server::sdk(&host, "echo", Manner::Echo).await;
    dial(&client).await;
    let mut kept = client.dial("echo").await.unwrap();
    let mut ended = client.dial("echo").await.unwrap();
    round_trip(&mut kept, "before").await.unwrap();
    round_trip(&mut ended, "before").await.unwrap();

    // Both are of the controller that the router has asked, and both controllers say so. It is killed.
    let look = async || {
        let all = operators[0].circuits_of(&NAMES).await;
        match all.iter().position(|ids| ids.len() == 2) {
            Some(owner) if all == operators[1].circuits_of(&NAMES).await => {
                Ok((owner, all[owner].clone()))
            }
            _ => Err(format!("{all:?}")),
        }
    };
    let ((owner, ids), _) = until("two circuits of one controller", PATIENCE, look).await;
    let other = 1 - owner;
    let [own, others] = [NAMES[owner], NAMES[other]];
    running[owner].take().unwrap().kill();
    listed(&[&operators[other]], &[(own, &[]), (others, &ids)]).await;
    let said = running[other].as_ref().unwrap().said();
    assert!(said.contains("a controller has ended: its circuits are taken over"), "{said}");
    round_trip(&mut kept, "of another controller").await.unwrap();
    round_trip(&mut ended, "of another controller").await.unwrap();

    // The other one is told of ends, and ends circuits itself.
    drop(ended);
    let look = async || match operators[other].circuit_ids().await {
        left if left.len() == 1 => Ok(left),
        left => Err(format!("{left:?}")),
    };
    let (left, _) = until("a circuit has ended", PATIENCE, look).await;
    let mut third = client.dial("echo").await.unwrap();
    round_trip(&mut third, "made there").await.unwrap();
    let all = operators[other].circuit_ids().await;
    let made = vec![all.into_iter().find(|id| !ids.contains(id)).unwrap()];

    // The first one is back, and has its circuit again.
    running[owner] = Some(cluster.start(owner).await);
    let back = Operator::log_in(cluster.ports[owner]).await;
    listed(&[&back, &operators[other]], &[(own, &left), (others, &made)]).await;
    round_trip(&mut kept, "given back").await.unwrap();
    round_trip(&mut third, "left where it is").await.unwrap();
    // Any controller ends a circuit of any.
    operators[other].end_circuit(&left[0]).await;
    let is_over = async || match round_trip(&mut kept, "after the end").await {
        Err(_) => Ok(()),
        Ok(()) => Err("it goes on"),
    };
    until("the circuit is over", PATIENCE, is_over).await;
    listed(&[&back, &operators[other]], &[(own, &[]), (others, &made)]).await;
    round_trip(&mut third, "still there").await.unwrap();
}
