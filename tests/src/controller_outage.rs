//! Paths that break while no controller can be reached: circuits go on over another path once the controller
//! is back.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weft_sdk::{Connection, Endpoint};

use crate::mesh::{at, links, network};
use crate::network::{Network, Peer, free_port, soon, until_some};
use crate::sdk::{dial, echo, round_trip};
use crate::wires::Wires;

/// Two routers at the ends that link with two routers between them only.
struct Diamond {
    network: Network,
    one: Peer,
    two: Peer,
    between: [Peer; 2],
    /// Wires to the two routers between the ends.
    wires: [Wires; 2],
}

impl Diamond {
    async fn new() -> Self {
        let network = network().await;
        let [one, two] = [at_end(&network, "r1").await, at_end(&network, "r2").await];
        let (third, fourth) = (between(&network, "r3").await, between(&network, "r4").await);
        let (between, wires) = ([third.0, fourth.0], [third.1, fourth.1]);
        for router in [&one, &two, &between[0], &between[1]] {
            links(router, 2).await;
        }
        Self { network, one, two, between, wires }
    }

    /// Hosts an echo at one end and dials it at the other; returns the index of the router between the ends.
    async fn talk(&self) -> (Connection, usize, [Endpoint; 2]) {
        self.network.service("echo", true).await;
        let host = at(&self.network, &self.one, "host").await;
        let dialer = at(&self.network, &self.two, "dialer").await;
        echo(soon(host.bind("echo")).await.unwrap());
        let mut connection = dial(&dialer, "echo").await;
        say(&mut connection).await;
        let circuit = self.network.circuits().circuits().all().remove(0);
        let over = self.between.iter().position(|one| circuit.path.has_node(&one.id)).unwrap();
        (connection, over, [host, dialer])
    }

    /// Waits until the controller knows every circuit with its whole path, and no circuit waits for a path.
    async fn settled(&self) {
        let network = self.network.circuits();
        until_some(async || {
            let all = network.circuits().all();
            let are_whole = all.iter().all(|one| one.is_whole && network.is_usable(&one.path));
            (are_whole && network.waiting_moves() + network.without_path() == 0).then_some(())
        })
        .await;
    }
}

/// A router at an end.
async fn at_end(network: &Network, name: &str) -> Peer {
    let link = free_port();
    let mut router = network.enrolled_router(name, link, link).await;
    router.change(|config| {
        config.link.listeners.clear();
        config.link.dialers[0].groups = vec!["between".into()];
    });
    router.start().await;
    router
}

/// A router between the ends, which others reach over wires.
async fn between(network: &Network, name: &str) -> (Peer, Wires) {
    let link = free_port();
    let wires = Wires::to(link).await;
    let mut router = network.enrolled_router(name, link, wires.port).await;
    router.change(|config| {
        config.link.listeners[0].groups = vec!["between".into()];
        config.link.dialers.clear();
    });
    router.start().await;
    (router, wires)
}

async fn say(connection: &mut Connection) {
    let mut said = [0; 5];
    connection.write_all(b"hello").await.unwrap();
    soon(connection.read_exact(&mut said)).await.unwrap();
    assert_eq!(&said, b"hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_circuit_goes_on_after_its_router_and_the_controller_were_lost_together() {
    let mut diamond = Box::pin(Diamond::new()).await;
    let (mut connection, over, ends) = diamond.talk().await;
    diamond.network.stop_controller().await;
    diamond.between[over].stop().await;
    links(&diamond.one, 1).await;
    connection.write_all(b"wait").await.unwrap();
    diamond.network.start_controller().await;
    soon(connection.read_exact(&mut [0; 4])).await.unwrap();
    say(&mut connection).await;
    diamond.settled().await;
    round_trip(connection, 1_000_000).await;
    diamond.between[over].start().await;
    round_trip(dial(&ends[1], "echo").await, 100_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_circuit_goes_on_after_its_link_and_the_controller_were_lost_together() {
    let mut diamond = Box::pin(Diamond::new()).await;
    let (mut connection, over, _ends) = diamond.talk().await;
    diamond.network.stop_controller().await;
    diamond.wires[over].refuse(true);
    links(&diamond.one, 1).await;
    connection.write_all(b"wait").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    diamond.network.start_controller().await;
    soon(connection.read_exact(&mut [0; 4])).await.unwrap();
    say(&mut connection).await;
    diamond.settled().await;
    round_trip(connection, 1_000_000).await;
}
