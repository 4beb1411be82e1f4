//! Programs that die while circuits end at them: their peers are told at once.

use std::future::Future;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use weft_sdk::{Connection, Endpoint, IdentityFile};

use crate::mesh::{at, file_at, links, network};
use crate::network::{Network, Peer, free_port, soon};
use crate::sdk::dial;

/// A program of its own: everything that it runs, and its sockets, can end at once.
struct Program(Runtime);

impl Program {
    fn start() -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        Self(builder.worker_threads(1).enable_all().build().unwrap())
    }

    async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        soon(self.0.spawn(work)).await.unwrap()
    }

    fn die(self) {
        self.0.shutdown_background();
    }
}

/// A router that keeps circuits which have ended for an hour, so that nothing is told late.
async fn patient(network: &Network, name: &str) -> Peer {
    let link = free_port();
    let mut router = network.enrolled_router(name, link, link).await;
    let hour = Duration::from_secs(3600);
    router.change(|config| config.forwarder.xgress_close_check_interval = hour);
    router.start().await;
    router
}

async fn endpoint(file: IdentityFile, own_flow_control: bool) -> Endpoint {
    let builder = Endpoint::builder();
    let builder = if own_flow_control { builder } else { builder.router_flow_control() };
    builder.build(file).await.unwrap()
}

/// Reads to the end of a connection: the bytes, and whether the end was regular.
async fn all_of(connection: &mut Connection) -> (usize, bool) {
    let mut read = Vec::new();
    let ended = soon(connection.read_to_end(&mut read)).await;
    (read.len(), ended.is_ok())
}

const SAID: usize = 300_000;

/// A host says something and dies once its dialer has heard that.
async fn a_host_dies(network: &Network, [hosts, dials]: [&Peer; 2], own_flow_control: bool) {
    let name = format!("echo-{}", free_port());
    network.service(&name, true).await;
    let file = file_at(network, hosts, &format!("host-{}", free_port())).await;
    let (program, service) = (Program::start(), name.clone());
    program
        .run(async move {
            let host = endpoint(file, own_flow_control).await;
            let mut listener = host.bind(&service).await.unwrap();
            tokio::spawn(async move {
                let mut all = Vec::new();
                while let Ok(incoming) = listener.accept().await {
                    let mut connection = incoming.accept().await.unwrap();
                    connection.write_all(&vec![7; SAID]).await.unwrap();
                    connection.flush().await.unwrap();
                    all.push((connection, host.clone()));
                }
            });
        })
        .await;
    let dialer = at(network, dials, &format!("dialer-{}", free_port())).await;
    let mut connection = dial(&dialer, &name).await;
    let mut said = vec![0; SAID];
    soon(connection.read_exact(&mut said)).await.unwrap();
    program.die();
    assert_eq!(
        all_of(&mut connection).await,
        (0, false),
        "{} {own_flow_control}",
        hosts.id == dials.id
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dialer_is_told_at_once_that_its_host_has_died() {
    let network = network().await;
    let (one, two) = (patient(&network, "r1").await, patient(&network, "r2").await);
    links(&one, 1).await;
    links(&two, 1).await;
    for own_flow_control in [true, false] {
        a_host_dies(&network, [&one, &one], own_flow_control).await;
        a_host_dies(&network, [&one, &two], own_flow_control).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_is_told_at_once_that_its_dialer_has_died() {
    let network = network().await;
    let (one, two) = (patient(&network, "r1").await, patient(&network, "r2").await);
    links(&one, 1).await;
    links(&two, 1).await;
    network.service("listens", true).await;
    let host = at(&network, &one, "host").await;
    let mut listener = soon(host.bind("listens")).await.unwrap();
    let (heard, mut hears) = mpsc::channel(10);
    tokio::spawn(async move {
        while let Ok(incoming) = listener.accept().await {
            let (mut connection, heard) = (incoming.accept().await.unwrap(), heard.clone());
            tokio::spawn(async move {
                let mut first = [0; 5];
                connection.read_exact(&mut first).await.unwrap();
                heard.send((5, true)).await.unwrap();
                heard.send(all_of(&mut connection).await).await.unwrap();
            });
        }
    });
    for (number, own_flow_control) in [true, false].into_iter().enumerate() {
        let file = file_at(&network, &two, &format!("dialer{number}")).await;
        let program = Program::start();
        let connection = program.run(async move {
            let dialer = endpoint(file, own_flow_control).await;
            let mut connection = loop {
                // The router hears of the service a moment after the controller.
                match dialer.dial("listens").await {
                    Ok(connection) => break connection,
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            };
            connection.write_all(b"hello").await.unwrap();
            connection.flush().await.unwrap();
            (connection, dialer)
        });
        let connection = connection.await;
        assert_eq!(soon(hears.recv()).await, Some((5, true)));
        program.die();
        assert_eq!(soon(hears.recv()).await, Some((0, false)));
        drop(connection);
    }
}
