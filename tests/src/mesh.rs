//! Several routers: links, circuits over them, and broken links and routers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weft_contract::resource;
use weft_sdk::{Connection, Endpoint, IdentityFile};

use crate::network::{LONG, Network, Peer, free_port, soon, until_some};
use crate::sdk::{dial, echo, round_trip};
use crate::wires::Wires;

/// An identity that may use one router alone.
pub(crate) async fn at(network: &Network, router: &Peer, name: &str) -> Endpoint {
    let file = file_at(network, router, name).await;
    soon(Endpoint::from_identity(file)).await.unwrap()
}

/// The file of a new identity that may use one router alone.
pub(crate) async fn file_at(network: &Network, router: &Peer, name: &str) -> IdentityFile {
    let file = network.identity_file_of(name, &[name]).await;
    let policy = json!({"name": format!("{name} at {}", router.id), "semantic": "AnyOf",
        "identityRoles": [format!("#{name}")], "edgeRouterRoles": [format!("@{}", router.id)]});
    network.create(&resource::edge_router_policy::KIND, &policy).await;
    file
}

/// A network in which identities use the routers that their policies name.
pub(crate) async fn network() -> Network {
    let network = Network::start().await;
    // The first policy lets everybody use every router.
    let policies: Vec<Value> = network.list(&resource::edge_router_policy::KIND).await;
    for policy in policies.iter().filter(|policy| policy["name"] == "all") {
        let id = policy["id"].as_str().unwrap();
        network.admin.delete(&resource::edge_router_policy::KIND, id).await.unwrap();
    }
    network
}

/// A service that is hosted at one router and dialed at another, with a connection.
pub(crate) struct Talk {
    pub(crate) dialer: Endpoint,
    pub(crate) connection: Connection,
    _host: Endpoint,
}

/// Hosts an echo at one router and dials it at another, once the two are linked.
pub(crate) async fn talk(network: &Network, hosts: &Peer, dials: &Peer, encrypted: bool) -> Talk {
    links(hosts, 1).await;
    links(dials, 1).await;
    network.service("echo", encrypted).await;
    let (host, dialer) = (at(network, hosts, "host").await, at(network, dials, "dialer").await);
    echo(soon(host.bind("echo")).await.unwrap());
    let connection = dial(&dialer, "echo").await;
    Talk { dialer, connection, _host: host }
}

/// Two routers whose only link goes over wires.
async fn wired(network: &Network) -> (Peer, Peer, Wires) {
    let (behind, link) = (free_port(), free_port());
    let wires = Wires::to(behind).await;
    let one = network.router_behind("r1", behind, wires.port).await;
    // The second router advertises an address where nothing listens.
    let two = network.router_behind("r2", link, free_port()).await;
    (one, two, wires)
}

/// The time for which routers that have dialed each other at once keep both links, and some more.
const BOTH: Duration = Duration::from_secs(90);

/// Waits until a router has this number of links.
pub(crate) async fn links(router: &Peer, count: usize) {
    let counted = || router.router().data().link_count();
    let begun = Instant::now();
    while counted() != count {
        assert!(
            begun.elapsed() < LONG + BOTH,
            "{} has {} links, not {count}",
            router.id,
            counted()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The links of each circuit.
fn paths(network: &Network) -> Vec<Vec<String>> {
    network.circuits().circuits().all().iter().map(|one| one.path.links.clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_goes_over_a_link_encrypted_and_plain() {
    let network = network().await;
    let (one, two) = (network.another_router("r1").await, network.another_router("r2").await);
    links(&one, 1).await;
    links(&two, 1).await;
    let (host, dialer) = (at(&network, &one, "host").await, at(&network, &two, "dialer").await);
    for (service, encrypted) in [("secret", true), ("plain", false)] {
        network.service(service, encrypted).await;
        echo(soon(host.bind(service)).await.unwrap());
        let connection = dial(&dialer, service).await;
        assert_eq!(connection.is_encrypted(), encrypted);
        assert!(paths(&network).iter().any(|links| links.len() == 1), "over a link");
        round_trip(connection, 20_000_000).await;
    }
    // No circuit is left.
    until_some(async || network.circuits().circuits().all().is_empty().then_some(())).await;
    for router in [&one, &two] {
        let data = router.router().data();
        until_some(async || (data.counts().0 == 0 && data.budget_used() == 0).then_some(())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_flow_control_of_the_router_serves_over_a_link_too() {
    let network = network().await;
    let (one, two) = (network.another_router("r1").await, network.another_router("r2").await);
    links(&one, 1).await;
    network.service("secret", true).await;
    let host = at(&network, &one, "host").await;
    echo(soon(host.bind("secret")).await.unwrap());
    drop(at(&network, &two, "dialer").await);
    let file = network.identity_file_of("old", &["dialer"]).await;
    let old = Endpoint::builder().router_flow_control().build(file).await.unwrap();
    let connection = dial(&old, "secret").await;
    assert!(!connection.has_own_flow_control());
    round_trip(connection, 5_000_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_circuit_takes_another_way_when_a_router_on_it_stops() {
    let network = network().await;
    let (one, two) = (reporting_often(&network, "r1").await, reporting_often(&network, "r2").await);
    let mut middles =
        [reporting_often(&network, "r3").await, reporting_often(&network, "r4").await];
    for router in [&one, &two, &middles[0], &middles[1]] {
        links(router, 3).await;
    }
    network.service("secret", true).await;
    let (host, dialer) = (at(&network, &one, "host").await, at(&network, &two, "dialer").await);
    echo(soon(host.bind("secret")).await.unwrap());
    // The direct link has a high cost, so that circuits go over a router between.
    until_some(async || {
        let all = network.circuits().links().all();
        let ends = [one.id.as_str(), two.id.as_str()];
        let direct = all.iter().find(|link| ends.iter().all(|end| link.has_end(end)))?;
        let measured = all.iter().all(|link| link.cost() < 60_000);
        measured.then(|| network.circuits().change_link(&direct.id, Some(50_000), None))
    })
    .await;
    let mut connection = dial(&dialer, "secret").await;
    let over = |middle: &Peer| {
        let all = network.circuits().circuits().all();
        all.iter().any(|circuit| circuit.path.has_node(&middle.id))
    };
    let mut said = vec![0; 100_000];
    for turn in 0..20 {
        if turn == 10 {
            let at = middles.iter().position(&over).expect("it goes over one of them");
            middles[at].stop().await;
        }
        let data: Vec<u8> = (0..said.len()).map(|n| (n + turn) as u8).collect();
        let (mut reader, mut writer) = tokio::io::split(&mut connection);
        soon(async { tokio::join!(writer.write_all(&data), reader.read_exact(&mut said)) })
            .await
            .1
            .unwrap();
        assert!(said == data);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_re_form_and_circuits_go_on_while_no_controller_is_there() {
    let mut network = network().await;
    let (one, two, wires) = wired(&network).await;
    let Talk { dialer, mut connection, _host } = talk(&network, &one, &two, true).await;
    let mut said = [0; 5];
    let say = async |connection: &mut Connection, said: &mut [u8]| {
        connection.write_all(b"hello").await.unwrap();
        soon(connection.read_exact(said)).await.unwrap();
    };
    say(&mut connection, &mut said).await;
    network.stop_controller().await;
    for _ in 0..3 {
        wires.cut();
        say(&mut connection, &mut said).await;
    }
    network.start_controller().await;
    // The controller learns of the link and of the circuit, and changes neither.
    until_some(async || (paths(&network) == [vec![link_id(&network)?]]).then_some(())).await;
    say(&mut connection, &mut said).await;
    round_trip(connection, 1_000_000).await;
    round_trip(dial(&dialer, "echo").await, 1_000_000).await;
}

/// Starts a router that reports its measurements, such as the latencies of links, every second instead of every minute.
async fn reporting_often(network: &Network, name: &str) -> Peer {
    let link = free_port();
    let mut router = network.enrolled_router(name, link, link).await;
    router.change(|config| config.metrics.report_interval = Duration::from_secs(1));
    router.start().await;
    router
}

/// Raises the cost of a circuit's path until the circuit moves, which happens once the latencies of the other
/// links are measured and in effect.
async fn moves_away(network: &Network, circuit: &str) {
    let path =
        || network.circuits().circuits().get(circuit).map(|circuit| circuit.path.links.clone());
    let before = path().unwrap();
    until_some(async || {
        if path()? != before {
            return Some(());
        }
        network.circuits().change_link(&before[0], Some(50_000), None);
        None
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_circuit_that_moved_moves_again_after_the_controller_started_again() {
    let mut network = network().await;
    let [one, two, middle] = [
        reporting_often(&network, "r1").await,
        reporting_often(&network, "r2").await,
        reporting_often(&network, "r3").await,
    ];
    for router in [&one, &two, &middle] {
        links(router, 2).await;
    }
    network.service("echo", true).await;
    let (host, dialer) = (at(&network, &one, "host").await, at(&network, &two, "dialer").await);
    echo(soon(host.bind("echo")).await.unwrap());
    let mut connection = dial(&dialer, "echo").await;
    let circuit = network.circuits().circuits().all()[0].id.clone();
    moves_away(&network, &circuit).await;
    network.stop_controller().await;
    network.start_controller().await;
    until_some(async || {
        let circuit = network.circuits().circuits().get(&circuit)?;
        circuit.is_whole.then_some(())
    })
    .await;
    moves_away(&network, &circuit).await;
    let mut said = [0; 5];
    connection.write_all(b"hello").await.unwrap();
    soon(connection.read_exact(&mut said)).await.unwrap();
    assert_eq!(&said, b"hello");
    round_trip(connection, 1_000_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn circuits_over_a_link_that_is_back_at_once_go_on() {
    let network = network().await;
    let (one, two, wires) = wired(&network).await;
    let Talk { connection, _host, .. } = talk(&network, &one, &two, true).await;
    let id = link_id(&network);
    const AT_ONCE: usize = 500_000;
    let (came, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    // It is the only path, and it breaks ten times while data is on its way in both directions: each time
    // once more bytes have arrived than had passed the link when it broke, whether or not the controller has
    // looked at the circuit meanwhile.
    let cutting = async {
        for _ in 0..10 {
            let before = came.load(Ordering::Relaxed);
            until_some(async || (came.load(Ordering::Relaxed) > before + AT_ONCE).then_some(()))
                .await;
            wires.cut();
        }
        is_over.store(true, Ordering::Relaxed);
    };
    let (mut reader, mut writer) = connection.into_split();
    let (sent, mut said) = (vec![7; AT_ONCE], vec![0; AT_ONCE]);
    let talking = async {
        while !is_over.load(Ordering::Relaxed) {
            let reading = async {
                for part in said.chunks_mut(10_000) {
                    reader.read_exact(part).await.unwrap();
                    came.fetch_add(part.len(), Ordering::Relaxed);
                }
            };
            let (wrote, ()) = soon(async { tokio::join!(writer.write_all(&sent), reading) }).await;
            wrote.unwrap();
            assert!(said == sent);
        }
    };
    tokio::join!(cutting, talking);
    until_some(async || (link_id(&network) == id).then_some(())).await;
}

/// Bytes that an end without flow control of its own sends while the only link is away.
const QUEUED: usize = 400_000;

/// Cuts the only link of an idle circuit, and sends data that is queued for the link; `away` ends when the
/// link may come back. Returns the connection and the data that was sent.
async fn queue_for_a_lost_link(
    network: &Network,
    routers: [&Peer; 2],
    wires: &Wires,
    dialer: &Endpoint,
    away: Duration,
) -> (Connection, Vec<u8>) {
    let mut connection = dial(dialer, "echo").await;
    // The ends have measured the path, and no payload is on its way.
    let mut said = [0; 1000];
    for _ in 0..20 {
        connection.write_all(&said).await.unwrap();
        soon(connection.read_exact(&mut said)).await.unwrap();
    }
    let quiet = async || (routers[1].router().data().budget_used() == 0).then_some(());
    until_some(quiet).await;
    wires.refuse(true);
    let begun = Instant::now();
    for router in routers {
        links(router, 0).await;
    }
    until_some(async || network.circuits().links().all().is_empty().then_some(())).await;
    let data: Vec<u8> = (0..QUEUED).map(|n| (n * 7 + n / 255) as u8).collect();
    connection.write_all(&data).await.unwrap();
    until_some(async || (routers[1].router().data().budget_used() > 0).then_some(())).await;
    tokio::time::sleep_until((begun + away).into()).await;
    (connection, data)
}

/// An endpoint beside the one of `talk`, whose ends are on the router, where they can be inspected.
async fn inspected(network: &Network) -> Endpoint {
    let file = network.identity_file_of("old", &["dialer"]).await;
    Endpoint::builder().router_flow_control().build(file).await.unwrap()
}

/// The payloads that the ends of the only circuit on a router sent again.
async fn sent_again(network: &Network, router: &Peer) -> u64 {
    let circuit = network.circuits().circuits().all()[0].id.clone();
    let asked = network.circuits().inspect(&router.id, &[format!("circuit:{circuit}")]).await;
    let ends = asked.values[0].value["xgressDetails"].as_object().unwrap();
    assert!(!ends.is_empty(), "there is an end on the router");
    let copies =
        |end: &Value| end.pointer("/sendBufferDetail/retransmits").unwrap().as_u64().unwrap();
    ends.values().map(copies).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_is_back_within_5_s_resumes_its_circuits_with_what_was_queued() {
    let network = network().await;
    let (one, two, wires) = wired(&network).await;
    let Talk { connection, _host, .. } = talk(&network, &one, &two, true).await;
    drop(connection);
    until_some(async || network.circuits().circuits().all().is_empty().then_some(())).await;
    let (dialer, id) = (inspected(&network).await, link_id(&network));
    // A router tries again at most 1 s later.
    let away = Duration::from_millis(3_200);
    let (connection, data) =
        queue_for_a_lost_link(&network, [&one, &two], &wires, &dialer, away).await;
    let circuit = connection.circuit_id().unwrap().to_owned();
    wires.refuse(false);
    let mut back = vec![0; data.len()];
    let (mut reader, mut writer) = connection.into_split();
    soon(reader.read_exact(&mut back)).await.unwrap();
    assert!(back == data, "what was queued arrives whole and in order");
    // Without any ack, the end sent a copy of one payload about once a second.
    let copies = sent_again(&network, &two).await;
    println!("{copies} payloads were sent again");
    assert!(copies <= 8, "{copies} payloads were sent again");
    until_some(async || (link_id(&network) == id).then_some(())).await;
    assert_eq!(network.circuits().circuits().all()[0].id, circuit);
    writer.shutdown().await.unwrap();
    until_some(async || network.circuits().circuits().all().is_empty().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn circuits_of_a_link_that_stays_away_end_and_give_back_their_queues() {
    let network = network().await;
    let (one, two, wires) = wired(&network).await;
    let Talk { connection, _host, .. } = talk(&network, &one, &two, true).await;
    drop(connection);
    let dialer = inspected(&network).await;
    let begun = Instant::now();
    let (mut connection, _) =
        queue_for_a_lost_link(&network, [&one, &two], &wires, &dialer, Duration::ZERO).await;
    soon(async { while connection.read_u8().await.is_ok() {} }).await;
    let lasted = begun.elapsed();
    assert!(lasted >= Duration::from_secs(5), "the circuit was kept for {lasted:?} only");
    for router in [&one, &two] {
        let data = router.router().data();
        let empty = async || (data.counts().0 == 0 && data.budget_used() == 0).then_some(());
        until_some(empty).await;
    }
    assert!(network.circuits().circuits().all().is_empty());
    wires.refuse(false);
    round_trip(dial(&dialer, "echo").await, 100_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_queued_for_a_lost_link_takes_a_path_that_comes_up_within_5_s() {
    let network = network().await;
    let (one, two, wires) = wired(&network).await;
    let Talk { connection, _host, .. } = talk(&network, &one, &two, true).await;
    drop(connection);
    until_some(async || network.circuits().circuits().all().is_empty().then_some(())).await;
    let dialer = inspected(&network).await;
    let link = free_port();
    let mut middle = network.enrolled_router("r3", link, link).await;
    let away = Duration::from_millis(1_500);
    let (connection, data) =
        queue_for_a_lost_link(&network, [&one, &two], &wires, &dialer, away).await;
    middle.start().await;
    let (mut reader, _writer) = connection.into_split();
    let mut back = vec![0; data.len()];
    soon(reader.read_exact(&mut back)).await.unwrap();
    assert!(back == data, "what was queued arrives whole and in order");
    assert_eq!(paths(&network)[0].len(), 2, "over the third router");
}

/// The id of the only link.
fn link_id(network: &Network) -> Option<String> {
    let all = network.circuits().links().all();
    all.first().map(|link| link.id.clone()).filter(|_| all.len() == 1)
}
