//! Ends that prove themselves to each other, and routers in between that do not like it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Network, pair_of, soon, until};
use crate::{
    BindOptions, Connection, DialOptions, Endpoint, EndpointBuilder, Error, Listener, chain,
};

/// A network whose controller states who its ends are.
async fn network() -> Network {
    let network = Network::new().await;
    network.change(|state| state.states = true);
    network
}

async fn ends(network: &Network) -> (Endpoint, Listener, Endpoint) {
    let (dialer, host) = (network.endpoint().await, network.endpoint().await);
    let listener = soon(host.bind("secret")).await.unwrap();
    (dialer, listener, host)
}

/// The dialer sends an order, and the host repeats it.
async fn order(mut dialed: Connection, mut accepted: Connection) -> std::io::Result<String> {
    let hosting = tokio::spawn(async move {
        let mut read = [0; 11];
        accepted.read_exact(&mut read).await?;
        accepted.write_all(&read).await?;
        accepted.shutdown().await?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&read).into_owned())
    });
    dialed.write_all(b"pay 100 EUR").await?;
    let mut said = String::new();
    soon(dialed.read_to_string(&mut said)).await?;
    assert_eq!(soon(hosting).await.unwrap()?, said);
    Ok(said)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_ends_know_who_the_other_is() {
    // The host speaks first, unless the router prevents that.
    for (own, turns) in [(true, false), (false, false), (true, true), (false, true)] {
        let network = network().await;
        network.router.core.turns.store(turns, Ordering::Relaxed);
        let builder = || match own {
            true => EndpointBuilder::new(),
            false => EndpointBuilder::new().router_flow_control(),
        };
        let (dialer, host) =
            (network.endpoint_of(builder()).await, network.endpoint_of(builder()).await);
        let mut listener = soon(host.bind("secret")).await.unwrap();
        // The second time they remember each other.
        for met in [false, true] {
            let (mut dialed, mut accepted) = pair_of(&dialer, &mut listener).await;
            let peer = soon(dialed.peer()).await.unwrap().cloned().unwrap();
            assert_eq!((&*peer.identity, &*peer.name), ("i1", "tester"));
            let peer = soon(accepted.peer()).await.unwrap().unwrap();
            assert_eq!((&*peer.identity, &*peer.name), ("i1", "tester"));
            assert_eq!(order(dialed, accepted).await.unwrap(), "pay 100 EUR");
            assert_eq!(network.router.core.longest_proof.load(Ordering::Relaxed) > 1000, !met);
            network.router.core.longest_proof.store(0, Ordering::Relaxed);
        }
        // A host that starts anew has forgotten the dialer.
        drop(listener);
        let host = network.endpoint_of(builder()).await;
        until(|| network.router.hosts() == 0).await;
        let mut listener = soon(host.bind("secret")).await.unwrap();
        let (dialed, accepted) = pair_of(&dialer, &mut listener).await;
        assert_eq!(order(dialed, accepted).await.unwrap(), "pay 100 EUR");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_between_two_ends_changes_nothing_that_they_say() {
    // Ends without the controller's word do not see the router.
    let blind = Network::new().await;
    blind.router.core.spies.store(true, Ordering::Relaxed);
    let (dialer, mut listener, _host) = ends(&blind).await;
    let (mut dialed, accepted) = pair_of(&dialer, &mut listener).await;
    assert_eq!(soon(dialed.peer()).await.unwrap(), None);
    assert_eq!(order(dialed, accepted).await.unwrap(), "pay 999 EUR");
    assert!(blind.router.read().windows(7).any(|part| part == b"pay 100"));

    // Who speaks first finds out, or the other one does.
    for turns in [false, true] {
        let network = network().await;
        network.router.core.turns.store(turns, Ordering::Relaxed);
        network.router.core.spies.store(true, Ordering::Relaxed);
        let (dialer, listener, _host) = ends(&network).await;
        let (refused, listener) = spied(&dialer, listener).await;
        let expected = if turns { "had proved themselves" } else { "somebody on the path" };
        assert!(refused.contains(expected), "{refused}");
        assert!(!network.router.read().windows(3).any(|part| part == b"pay"));
        meet_and_be_spied(&network, &dialer, listener).await;
    }
}

/// Dials through a router that is between the ends: why the dialer refuses. The host refuses, too.
async fn spied(dialer: &Endpoint, mut listener: Listener) -> (String, Listener) {
    let hosting = tokio::spawn(async move {
        let mut accepted = listener.accept().await.unwrap().accept().await.unwrap();
        let peer = accepted.peer().await.map(Option::<&crate::Peer>::cloned);
        let read = accepted.read_u8().await;
        (peer, read, listener)
    });
    let refused = chain(&soon(dialer.dial("secret")).await.unwrap_err());
    let (peer, read, listener) = soon(hosting).await.unwrap();
    assert!(peer.unwrap_err().to_string().contains("has not proved who it is"));
    assert!(read.is_err());
    (refused, listener)
}

/// An honest router, and a router again that is between the ends, which have met now.
async fn meet_and_be_spied(network: &Network, dialer: &Endpoint, mut listener: Listener) {
    network.router.core.spies.store(false, Ordering::Relaxed);
    let (dialed, accepted) = pair_of(dialer, &mut listener).await;
    assert_eq!(order(dialed, accepted).await.unwrap(), "pay 100 EUR");
    network.router.core.spies.store(true, Ordering::Relaxed);
    let hosting = tokio::spawn(async move {
        let mut accepted = listener.accept().await.unwrap().accept().await.unwrap();
        accepted.read_u8().await
    });
    let refused = chain(&soon(dialer.dial("secret")).await.unwrap_err());
    assert!(refused.contains("somebody on the path"), "{refused}");
    assert!(soon(hosting).await.unwrap().is_err());
}

/// What a router does with what the ends announce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stripping {
    /// It leaves out of the dialer's marker that the dialer proves itself.
    Dialers,
    /// It leaves out of the host's answer that the host proves itself.
    Hosts,
    /// It leaves the host's answer out, as routers of OpenZiti before 2.1 at the host do.
    Answer,
}

impl Stripping {
    const ALL: [Self; 3] = [Self::Dialers, Self::Hosts, Self::Answer];

    fn of(network: &Network, of: Option<Self>) {
        let core = &network.router.core;
        core.strips.store(of == Some(Self::Dialers), Ordering::Relaxed);
        core.strips_answer.store(of == Some(Self::Hosts), Ordering::Relaxed);
        core.forgets_answer.store(of == Some(Self::Answer), Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_that_strips_the_announcement_gets_a_connection_that_says_so() {
    for own in [true, false] {
        let network = network().await;
        let builder = || match own {
            true => EndpointBuilder::new(),
            false => EndpointBuilder::new().router_flow_control(),
        };
        let (dialer, host) =
            (network.endpoint_of(builder()).await, network.endpoint_of(builder()).await);
        let mut listener = soon(host.bind("secret")).await.unwrap();
        // Before and after both have met, when the host waits for another first payload.
        for met in [false, true] {
            for stripping in Stripping::ALL {
                Stripping::of(&network, Some(stripping));
                let (mut dialed, mut accepted) = pair_of(&dialer, &mut listener).await;
                let case = format!("{own} {met} {stripping:?}");
                assert_eq!(soon(dialed.peer()).await.unwrap(), None, "{case}");
                assert_eq!(soon(accepted.peer()).await.unwrap(), None, "{case}");
                assert_eq!(order(dialed, accepted).await.unwrap(), "pay 100 EUR", "{case}");
                // The host's application may be the first to say something, and leave.
                let (mut dialed, mut accepted) = pair_of(&dialer, &mut listener).await;
                soon(accepted.write_all(b"hello")).await.unwrap();
                drop(accepted);
                let mut said = String::new();
                soon(dialed.read_to_string(&mut said)).await.unwrap();
                assert_eq!(said, "hello", "{case}");
            }
            Stripping::of(&network, None);
            let (mut dialed, mut accepted) = pair_of(&dialer, &mut listener).await;
            assert!(soon(dialed.peer()).await.unwrap().is_some());
            assert!(soon(accepted.peer()).await.unwrap().is_some());
            assert_eq!(order(dialed, accepted).await.unwrap(), "pay 100 EUR");
        }
        until(|| network.router.circuits() == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_a_router_has_recorded_is_not_opened_once_more() {
    let network = network().await;
    network.router.core.records.store(true, Ordering::Relaxed);
    let (dialer, mut listener, _host) = ends(&network).await;
    // The second time the ends have met.
    for _ in 0..2 {
        let (dialed, accepted) = pair_of(&dialer, &mut listener).await;
        assert_eq!(order(dialed, accepted).await.unwrap(), "pay 100 EUR");
        until(|| network.router.circuits() == 0).await;
        network.router.replay();
        let mut accepted = soon(listener.accept()).await.unwrap().accept().await.unwrap();
        assert!(soon(accepted.peer()).await.is_err());
        assert!(soon(accepted.read_u8()).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_that_strips_the_announcement_gets_no_connection_where_a_proof_is_demanded() {
    let network = network().await;
    network.change(|state| state.demands = true);
    let (dialer, mut listener, _host) = ends(&network).await;
    let (mut dialed, accepted) = pair_of(&dialer, &mut listener).await;
    assert!(soon(dialed.peer()).await.unwrap().is_some());
    assert_eq!(order(dialed, accepted).await.unwrap(), "pay 100 EUR");
    // From the dialer's marker the host learns nothing, and from the host's answer the dialer.
    for stripping in Stripping::ALL {
        Stripping::of(&network, Some(stripping));
        let to_host = stripping == Stripping::Dialers;
        let hosting = tokio::spawn(async move {
            let accepted = listener.accept().await.unwrap().accept().await;
            let problem = match accepted {
                Ok(mut accepted) => accepted.read_u8().await.unwrap_err().to_string(),
                Err(error) => chain(&error),
            };
            (problem, listener)
        });
        let refused = soon(dialer.dial("secret")).await.unwrap_err();
        let text = chain(&refused);
        assert!(text.contains("demands that both ends prove who they are"), "{text}");
        assert!(text.contains("announced no proof"), "{text}");
        assert_eq!(matches!(refused, Error::Unproved { .. }), !to_host, "{refused:?}");
        let (problem, again) = soon(hosting).await.unwrap();
        assert!(!to_host || problem.contains("the dialer has announced no proof"), "{problem}");
        listener = again;
        until(|| network.router.circuits() == 0).await;
    }
    assert!(!network.router.read().windows(3).any(|part| part == b"pay"));
    // Without the controller's word about itself an end says so.
    network.change(|state| state.states = false);
    let other = network.endpoint().await;
    let refused = soon(other.dial("secret")).await.unwrap_err();
    assert!(matches!(&refused, Error::Unproved { .. }), "{refused:?}");
    assert!(refused.to_string().contains("stated nothing about this end"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_without_a_proof_end_when_it_is_demanded() {
    let network = network().await;
    let builder = || {
        let mut builder = EndpointBuilder::new();
        builder.settings.refresh_interval = Duration::from_millis(20);
        builder
    };
    let (dialer, host) =
        (network.endpoint_of(builder()).await, network.endpoint_of(builder()).await);
    let mut listener = soon(host.bind("secret")).await.unwrap();
    let (mut proved, mut other) = pair_of(&dialer, &mut listener).await;
    assert!(soon(proved.peer()).await.unwrap().is_some());
    let mut unproved = Vec::new();
    for stripping in Stripping::ALL {
        Stripping::of(&network, Some(stripping));
        let (mut dialed, mut accepted) = pair_of(&dialer, &mut listener).await;
        assert!(soon(dialed.peer()).await.unwrap().is_none());
        assert!(soon(accepted.peer()).await.unwrap().is_none());
        unproved.push((dialed, accepted));
    }
    Stripping::of(&network, Some(Stripping::Dialers));
    network.change(|state| {
        state.demands = true;
        state.changes += 1;
    });
    for (mut dialed, mut accepted) in unproved {
        assert!(soon(dialed.read_u8()).await.is_err());
        assert!(soon(accepted.read_u8()).await.is_err());
    }
    // They may have ended because of the dialer: the host hears of the demand by itself, too.
    until(|| host.service_changes().borrow().iter().any(|service| service.authenticated)).await;
    let hosting = tokio::spawn(async move { listener.accept().await.unwrap().accept().await });
    let refused = chain(&soon(dialer.dial("secret")).await.unwrap_err());
    assert!(refused.contains("demands"), "{refused}");
    assert!(matches!(soon(hosting).await.unwrap(), Err(Error::Unproved { .. })));
    proved.write_u8(7).await.unwrap();
    assert_eq!(soon(other.read_u8()).await.unwrap(), 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_that_leads_a_dial_to_another_instance_is_found_out() {
    let network = network().await;
    let (dialer, host) = (network.endpoint().await, network.endpoint().await);
    let bind = async |instance: &str| {
        let options = BindOptions::new().instance(instance);
        soon(host.bind_with("secret", options)).await.unwrap()
    };
    let dial = async |listener: &mut Listener, instance: &str| {
        let options = DialOptions::new().instance(instance);
        let accept = async { listener.accept().await.unwrap().accept().await.unwrap() };
        let dial = dialer.dial_with("secret", options);
        let (_accepted, dialed) = soon(async { tokio::join!(accept, dial) }).await;
        let mut dialed = dialed.map_err(|error| chain(&error))?;
        let peer = soon(dialed.peer()).await.unwrap().unwrap();
        Ok::<_, String>(peer.instance.clone())
    };
    // This router leads each dial of the service to its last host.
    let mut one = bind("one").await;
    assert_eq!(dial(&mut one, "one").await.unwrap(), "one");
    let refused = dial(&mut one, "two").await.unwrap_err();
    assert!(refused.contains("instance one") && refused.contains("instance two"), "{refused}");
    // What the dialer remembers of one instance proves no other one of the same program.
    let mut two = bind("two").await;
    assert_eq!(dial(&mut two, "two").await.unwrap(), "two");
    let refused = dial(&mut two, "one").await.unwrap_err();
    assert!(refused.contains("instance two"), "{refused}");
    let mut none = bind("").await;
    assert_eq!(dial(&mut none, "").await.unwrap(), "");
    let refused = dial(&mut none, "two").await.unwrap_err();
    assert!(refused.contains("names no instance"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dialer_that_never_proves_itself_stops_no_other() {
    let network = network().await;
    let (dialer, mut listener, _host) = ends(&network).await;
    // The router holds back what the dialer says.
    network.router.core.mute.store(true, Ordering::Relaxed);
    let silent = {
        let dialer = dialer.clone();
        tokio::spawn(async move { dialer.dial("secret").await.unwrap().read_u8().await })
    };
    let mut waiting = soon(listener.accept()).await.unwrap().accept().await.unwrap();
    network.router.core.mute.store(false, Ordering::Relaxed);
    let (dialed, accepted) = pair_of(&dialer, &mut listener).await;
    assert_eq!(order(dialed, accepted).await.unwrap(), "pay 100 EUR");
    // The application may end its direction, or leave, before the proof is there.
    assert!(tokio::time::timeout(Duration::from_millis(50), waiting.peer()).await.is_err());
    waiting.shutdown().await.unwrap();
    drop(waiting);
    assert!(soon(silent).await.unwrap().is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dialer_that_the_host_has_met_proves_itself_each_time_or_is_given_up() {
    let network = network().await;
    let (dialer, mut listener, _host) = ends(&network).await;
    let (dialed, accepted) = pair_of(&dialer, &mut listener).await;
    assert_eq!(order(dialed, accepted).await.unwrap(), "pay 100 EUR");
    // The router holds back what the dialer says, that of who it is included.
    network.router.core.mute.store(true, Ordering::Relaxed);
    let (mut dialed, mut accepted) = pair_of(&dialer, &mut listener).await;
    dialed.write_all(b"pay 100 EUR").await.unwrap();
    let begun = std::time::Instant::now();
    let refused = soon(accepted.peer()).await.unwrap_err().to_string();
    assert!(refused.contains("has not proved who it is"), "{refused}");
    assert!(begun.elapsed() > Duration::from_secs(5), "it has time");
    assert!(soon(dialed.read_u8()).await.is_err());
    until(|| network.router.circuits() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_leaves_at_once_is_an_end_and_no_failed_proof() {
    let network = network().await;
    let (dialer, mut listener, _host) = ends(&network).await;
    let hosting = tokio::spawn(async move {
        drop(listener.accept().await.unwrap().accept().await.unwrap());
        let mut accepted = listener.accept().await.unwrap().accept().await.unwrap();
        accepted.write_all(b"bye").await.unwrap();
    });
    for said in ["", "bye"] {
        let mut dialed = soon(dialer.dial("secret")).await.unwrap();
        assert!(soon(dialed.peer()).await.unwrap().is_some());
        let mut read = String::new();
        soon(dialed.read_to_string(&mut read)).await.unwrap();
        assert_eq!(read, said);
    }
    soon(hosting).await.unwrap();
    until(|| network.router.circuits() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dial_that_is_given_up_during_the_proof_leaves_nothing() {
    let network = network().await;
    let (dialer, mut listener, _host) = ends(&network).await;
    // The dialer speaks first.
    network.router.core.turns.store(true, Ordering::Relaxed);
    network.router.core.mute.store(true, Ordering::Relaxed);
    let accepting = tokio::spawn(async move { listener.accept().await.unwrap().accept().await });
    let mut dialing = Box::pin(dialer.dial("secret"));
    let core = &network.router.core;
    let is_proving = until(|| core.longest_proof.load(Ordering::Relaxed) > 0);
    tokio::select! {
        dialed = &mut dialing => panic!("the host has heard no proof: {dialed:?}"),
        () = is_proving => {}
    }
    assert_eq!(network.router.circuits(), 1);
    drop(dialing);
    // Long before the host would give up by itself, after 10 s.
    let gone =
        tokio::time::timeout(Duration::from_secs(5), until(|| network.router.circuits() == 0));
    gone.await.expect("the dialer takes its circuit down");
    let mut accepted = soon(accepting).await.unwrap().unwrap();
    assert!(soon(accepted.peer()).await.is_err());
}
