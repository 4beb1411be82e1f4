//! Routers that lie about themselves, about links and about circuits.
//!
//! Each is enrolled and claims more than it may: it is refused, named in the log and counted.

use std::sync::Arc;
use std::time::Duration;

use weft_channel::{
    ChannelHandle, ChannelOptions, DatagramDial, DatagramOptions, DialError, DialOptions,
    Established, GroupPolicy, Inbox, InboxLimits, dial, inbox,
};
use weft_identity::tls::{ClientTls, client_config, provider};
use weft_identity::{Identity, KeyedChain, LiveIdentity};
use weft_wire::hello::{Hello, alpn};
use weft_wire::link::{LinkHello, SplitPart};
use weft_wire::payload::Payload;
use weft_wire::{Address, Scheme};

use crate::mesh::{links, network, talk};
use crate::network::{Network, Peer, free_port, soon, until_some};
use crate::sdk::round_trip;
use crate::wires::Wires;

/// A router that is enrolled and never started: an attacker has its keys.
async fn liar(network: &Network) -> Peer {
    network.enrolled_router("liar", free_port(), free_port()).await
}

/// The hello of a router that opens a link to another.
fn hello(from: &Peer, to: &Peer, link: &str) -> LinkHello {
    LinkHello {
        link_id: link.to_owned(),
        connection_id: format!("group of {link}"),
        router_id: from.id.clone(),
        dialed_version: "v2.1.0".to_owned(),
        iteration: 1,
        dialed_router_id: Some(to.id.clone()),
        ..LinkHello::default()
    }
}

/// Opens a link to a port with these keys.
fn towards(keys: &Arc<LiveIdentity>, port: u16, hello: Hello) -> DialOptions {
    let tls = Arc::new(client_config(&ClientTls::of_identity(keys, &[])).unwrap());
    let address = Address::new(Scheme::Tls, "127.0.0.1", port);
    DialOptions::new(address, tls, alpn::LINK, hello, ChannelOptions::link("liar"))
}

/// Opens a link to a port with the keys of a router.
async fn open(keys: &Peer, port: u16, hello: &LinkHello) -> Result<Established, DialError> {
    let group = GroupPolicy::link_dialer(1, 0, Duration::ZERO);
    open_as(keys, port, hello, hello.part.is_none().then_some(group)).await
}

async fn open_as(
    keys: &Peer,
    port: u16,
    hello: &LinkHello,
    group: Option<GroupPolicy>,
) -> Result<Established, DialError> {
    let options = towards(&keys.identity(), port, hello.to_hello());
    let connection_id = group.is_some().then(|| hello.connection_id.clone());
    dial(DialOptions { group, connection_id, ..options }).await
}

fn start(link: Established) -> (ChannelHandle, Inbox) {
    let (behaviour, inbox) = inbox(InboxLimits::default());
    (link.start(behaviour), inbox)
}

/// Number of hellos that a router has refused.
fn refused(router: &Peer) -> u64 {
    router.router().data().links_refused()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ghsa_hhm9_wf63_g7qj_nobody_opens_a_link_as_somebody_else() {
    let network = network().await;
    let port = free_port();
    let victim = network.router_behind("victim", port, port).await;
    let other = network.another_router("other").await;
    let liar = liar(&network).await;
    // As another router that exists, as one that does not, as the victim itself, and for another
    // receiver.
    let as_other = hello(&other, &victim, "l1");
    let as_nobody = LinkHello { router_id: "nobody".into(), ..hello(&liar, &victim, "l2") };
    let as_victim = hello(&victim, &victim, "l3");
    let astray = hello(&liar, &other, "l4");
    for (number, lie) in [as_other, as_nobody, as_victim, astray].iter().enumerate() {
        let opened = soon(open(&liar, port, lie)).await;
        assert!(opened.is_err(), "lie {number}");
        assert_eq!(refused(&victim), number as u64 + 1);
    }
    // Under its own id the router is let in.
    let (channel, _inbox) =
        start(soon(open(&liar, port, &hello(&liar, &victim, "l5"))).await.unwrap());
    links(&victim, 2).await;
    assert!(!channel.is_closed());
    // A disabled router is refused.
    channel.close("done");
    let kind = &weft_contract::resource::edge_router::KIND;
    let off = serde_json::json!({"disabled": true});
    network.patch(kind, &liar.id, &off).await;
    assert!(soon(open(&liar, port, &hello(&liar, &victim, "l6"))).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ghsa_mrpr_756c_xm47_certificates_behind_the_leaf_make_nobody_another_router() {
    let network = network().await;
    let port = free_port();
    let victim = network.router_behind("victim", port, port).await;
    let other = network.another_router("other").await;
    let liar = liar(&network).await;
    let (own, others) = (liar.identity().current(), other.identity().current());
    let (own, others) = (own.client().unwrap(), others.client().unwrap());
    let mut chain = vec![own.leaf().clone()];
    chain.extend_from_slice(others.chain());
    chain.extend_from_slice(&own.chain()[1..]);
    let chain = KeyedChain::new(chain, own.key().clone()).unwrap();
    let bundle = liar.identity().current().ca().clone();
    let keys = LiveIdentity::fixed(Identity::new(Some(chain), Vec::new(), bundle));
    let lie = hello(&other, &victim, "l1").to_hello();
    assert!(soon(dial(towards(&keys, port, lie))).await.is_err());
    assert_eq!(refused(&victim), 1);
    // The same certificates are accepted for the router whose leaf comes first.
    let truth = hello(&liar, &victim, "l2").to_hello();
    assert!(soon(dial(towards(&keys, port, truth))).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_dtls_only_the_leaf_makes_a_router_itself() {
    let network = network().await;
    let port = free_port();
    let mut victim = network.enrolled_router("victim", port, port).await;
    victim.change(|config| {
        config.link.dialers.clear();
        for listener in &mut config.link.listeners {
            listener.bind.scheme = Scheme::Dtls;
            listener.advertise.scheme = Scheme::Dtls;
        }
    });
    victim.start().await;
    let mut other = network.enrolled_router("other", free_port(), free_port()).await;
    other.change(|config| config.link.dialers.clear());
    other.start().await;
    let liar = liar(&network).await;
    let (own, others) = (liar.identity().current(), other.identity().current());
    let (own, others) = (own.client().unwrap(), others.client().unwrap());
    let mut chain = vec![own.leaf().clone()];
    chain.extend_from_slice(others.chain());
    chain.extend_from_slice(&own.chain()[1..]);
    let mixed = KeyedChain::new(chain, own.key().clone()).unwrap();
    let over_dtls = |chain: &KeyedChain, hello: Hello| {
        let settings = weft_dtls::DtlsSettings {
            certified: vec![chain.tls()],
            judge: Arc::new(|_| Ok(())),
            provider: provider(),
            server_name: None,
        };
        let options = DatagramOptions::default();
        let keys = LiveIdentity::fixed(Identity::new(
            Some(chain.clone()),
            Vec::new(),
            liar.identity().current().ca().clone(),
        ));
        DialOptions {
            address: Address::new(Scheme::Dtls, "127.0.0.1", port),
            datagrams: Some(DatagramDial { settings, options }),
            ..towards(&keys, port, hello)
        }
    };
    let as_other = |link: &str| hello(&other, &victim, link).to_hello();
    assert!(soon(dial(over_dtls(own, as_other("l1")))).await.is_err());
    assert_eq!(refused(&victim), 1);
    // Certificates of the other router behind the leaf.
    assert!(soon(dial(over_dtls(&mixed, as_other("l2")))).await.is_err());
    assert_eq!(refused(&victim), 2);
    // Another kind of channel.
    let mut lie = as_other("l3");
    lie.headers.set_str(weft_wire::hello::header::TYPE, "link.ack");
    assert!(soon(dial(over_dtls(&mixed, lie))).await.is_err());
    assert_eq!(refused(&victim), 3);
    let truth = hello(&liar, &victim, "l4").to_hello();
    let (channel, _inbox) = start(soon(dial(over_dtls(&mixed, truth))).await.unwrap());
    links(&victim, 1).await;
    assert!(!channel.is_closed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_voids_the_confirmation_of_another_router() {
    let mut network = network().await;
    let port = free_port();
    let wires = Wires::to(port).await;
    let victim = network.router_behind("victim", port, wires.port).await;
    // It dials the victim, and not the other way round.
    let other = network.router_behind("other", free_port(), free_port()).await;
    let liar = liar(&network).await;
    links(&victim, 1).await;
    assert!(soon(open(&liar, port, &hello(&other, &victim, "l1"))).await.is_err());
    assert_eq!(refused(&victim), 1);
    network.stop_controller().await;
    wires.pause(true);
    wires.cut();
    links(&victim, 0).await;
    wires.pause(false);
    links(&victim, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_is_refused_for_its_id_leaves_the_others_as_they_are() {
    let network = network().await;
    let port = free_port();
    let victim = network.router_behind("victim", port, port).await;
    // It dials the victim, and not the other way round: a second link would take the place of the first.
    let other = network.router_behind("other", free_port(), free_port()).await;
    links(&victim, 1).await;
    let taken = until_some(async || {
        let all = network.circuits().links().all();
        all.first().map(|link| link.id.clone())
    })
    .await;
    let liar = liar(&network).await;
    // Of two links with one key the one with the smaller id would stay.
    let first = hello(&liar, &victim, "~");
    let (former, _inbox) = start(soon(open(&liar, port, &first)).await.unwrap());
    links(&victim, 2).await;
    let second = hello(&liar, &victim, &taken);
    let (lie, _inbox) = start(soon(open(&liar, port, &second)).await.unwrap());
    soon(lie.closed()).await;
    assert!(!former.is_closed());
    links(&victim, 2).await;
    links(&other, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ghsa_cc5m_7mhm_xh9f_what_a_hello_calls_its_channel_skips_no_check() {
    let network = network().await;
    let port = free_port();
    let victim = network.router_behind("victim", port, port).await;
    let other = network.another_router("other").await;
    let liar = liar(&network).await;
    let types = ["", "link", "link.default", "link.ack", "ctrl", "ctrl.high", "edge", "edge.mgmt"];
    for (number, name) in types.iter().enumerate() {
        let mut lie = hello(&other, &victim, &format!("l{number}")).to_hello();
        lie.headers.set_str(weft_wire::hello::header::TYPE, name);
        let opened = soon(dial(towards(&liar.identity(), port, lie))).await;
        assert!(opened.is_err(), "{name}");
        assert_eq!(refused(&victim), number as u64 + 1, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_of_another_router_is_not_taken_over_by_its_id() {
    let network = network().await;
    let port = free_port();
    let victim = network.router_behind("victim", port, port).await;
    // It dials the victim, and not the other way round: both at once would make two links.
    let other = network.router_behind("other", free_port(), free_port()).await;
    let talk = talk(&network, &victim, &other, true).await;
    let id = network.circuits().links().all()[0].id.clone();
    let liar = liar(&network).await;
    let (channel, _inbox) =
        start(soon(open(&liar, port, &hello(&liar, &victim, &id))).await.unwrap());
    soon(channel.closed()).await;
    assert_eq!(victim.router().data().link_count(), 1);
    round_trip(talk.connection, 1_000_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_of_circuits_that_do_not_come_over_a_link_go_nowhere() {
    let network = network().await;
    let port = free_port();
    let victim = network.router_behind("victim", port, port).await;
    // It dials the victim, and not the other way round: a second link would take the circuit over.
    let other = network.router_behind("other", free_port(), free_port()).await;
    let talk = talk(&network, &victim, &other, false).await;
    let circuit = network.circuits().circuits().all()[0].id.clone();
    let liar = liar(&network).await;
    let (channel, _inbox) =
        start(soon(open(&liar, port, &hello(&liar, &victim, "l1"))).await.unwrap());
    let before = victim.router().data().dropped_messages();
    for sequence in 0..100 {
        let data = bytes::Bytes::from_static(b"a lie");
        let lie = Payload { sequence, data, ..Payload::default() };
        channel.send(lie.into_message(&circuit)).await.unwrap();
    }
    until_some(async || {
        let now = victim.router().data().dropped_messages();
        (now.foreign == before.foreign + 100).then_some(())
    })
    .await;
    // The circuit is as it was: not a byte of it is another's, and it was not moved.
    round_trip(talk.connection, 1_000_000).await;
    assert!(network.circuits().links().all().iter().all(|link| link.id != "l1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routers_of_old_releases_link_with_one_connection_or_two() {
    let network = network().await;
    let port = free_port();
    let victim = network.router_behind("new", port, port).await;
    let old = liar(&network).await;
    let data = victim.router().data();
    // One connection.
    let one = hello(&old, &victim, "one");
    let (channel, _inbox) = start(soon(open_as(&old, port, &one, None)).await.unwrap());
    until_some(async || (data.link_count() == 1).then_some(())).await;
    channel.close("done");
    until_some(async || (data.link_count() == 0).then_some(())).await;

    // Two connections, the one for acks first: there is a link once both are there.
    let part = |part| LinkHello { part: Some(part), ..hello(&old, &victim, "two") };
    let acks = soon(open(&old, port, &part(SplitPart::Ack))).await.unwrap();
    assert_eq!(data.link_count(), 0);
    let payloads = soon(open(&old, port, &part(SplitPart::Payload))).await.unwrap();
    until_some(async || (data.link_count() == 1).then_some(())).await;
    let ((acks, _one), (payloads, _two)) = (start(acks), start(payloads));
    // Without one of the connections the other one is closed, too.
    acks.close("done");
    soon(payloads.closed()).await;
    until_some(async || (data.link_count() == 0).then_some(())).await;

    // Halves that do not belong together make no link.
    let first = soon(open(&old, port, &part(SplitPart::Payload))).await.unwrap();
    let again = soon(open(&old, port, &part(SplitPart::Payload))).await.unwrap();
    let ((first, _one), (again, _two)) = (start(first), start(again));
    soon(async { tokio::join!(first.closed(), again.closed()) }).await;
    assert_eq!(data.link_count(), 0);
}
