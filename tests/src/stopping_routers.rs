//! Routers that stop while circuits end at them.

use std::time::Duration;

use crate::mesh::{network, talk};
use crate::network::soon;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_circuit_is_left_of_a_router_that_stops() {
    let network = network().await;
    let (mut one, two) = (network.another_router("r1").await, network.another_router("r2").await);
    let talk = talk(&network, &one, &two, true).await;
    assert_eq!(network.circuits().circuits().len(), 1);
    soon(one.router().drain(Duration::ZERO)).await;
    one.stop().await;
    assert_eq!(network.circuits().circuits().len(), 0, "its end was told before the router left");
    drop(talk);
}
