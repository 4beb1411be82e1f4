//! Lists of routers and of services that are empty, short, stale or refused for a while.

use std::time::Duration;

use weft_wire::edge::{ErrorCode, RetryHint};

use super::router::Router;
use super::{LONG, Network, pair_of, soon, until};
use crate::{BindOptions, Endpoint, EndpointBuilder, Error, Listener};

/// An endpoint that reads often.
async fn endpoint(network: &Network) -> Endpoint {
    let mut builder = EndpointBuilder::new();
    builder.settings.refresh_interval = Duration::from_millis(20);
    network.endpoint_of(builder).await
}

/// Stops the router and waits until the listener has read that the router is not connected.
async fn goes_offline(network: &mut Network, listener: &Listener) -> std::net::SocketAddr {
    let address = network.router.stop();
    network.change(|state| state.offline = vec!["router1"]);
    until(|| {
        let problem = listener.problem();
        matches!(&problem, Some(Error::NoEdgeRouters { reason, .. }) if reason.contains("online"))
    })
    .await;
    address
}

#[tokio::test]
async fn a_host_is_back_after_its_router_was_listed_without_addresses() {
    let mut network = Network::new().await;
    let endpoint = endpoint(&network).await;
    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    for is_elsewhere in [false, true] {
        let address = goes_offline(&mut network, &listener).await;
        assert_eq!(listener.terminators(), 0);
        let again = if is_elsewhere { "127.0.0.1:0".parse().unwrap() } else { address };
        network.router.restart(&network.pki, again).await;
        network.change(|state| {
            state.routers = vec![("router1".to_owned(), network.router.address())];
            state.offline.clear();
        });
        soon(listener.established(1)).await.unwrap();
        assert!(listener.problem().is_none(), "{:?}", listener.problem());
        drop(pair_of(&endpoint, &mut listener).await);
    }
}

#[tokio::test]
async fn a_router_that_comes_back_unnoticed_by_the_controller_is_used() {
    let mut network = Network::new().await;
    let endpoint = endpoint(&network).await;
    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    let address = goes_offline(&mut network, &listener).await;
    network.router.restart(&network.pki, address).await;
    soon(listener.established(1)).await.unwrap();
    drop(pair_of(&endpoint, &mut listener).await);
}

#[tokio::test]
async fn a_host_that_begins_while_its_router_is_offline_waits_for_it() {
    let network = Network::new().await;
    network.change(|state| state.offline = vec!["router1"]);
    let endpoint = endpoint(&network).await;
    // The first reading of the services makes all service sessions read again.
    until(|| network.seen(|state| state.refreshes) > 1).await;
    let options = BindOptions { timeout: Some(LONG), ..BindOptions::default() };
    let online = async {
        until(|| network.seen(|state| state.made) > 0).await;
        network.change(|state| state.offline.clear());
    };
    let bind = endpoint.bind_with("plain", options);
    let (bound, ()) = soon(async { tokio::join!(bind, online) }).await;
    drop(pair_of(&endpoint, &mut bound.unwrap()).await);
}

#[tokio::test]
async fn a_host_is_back_after_the_controller_has_refused_everything() {
    let mut network = Network::new().await;
    let endpoint = endpoint(&network).await;
    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    for status in [500, 503, 403, 400, 429] {
        let address = network.router.stop();
        network.change(|state| state.refusal = Some(status));
        let before = network.seen(|state| state.refused);
        until(|| network.seen(|state| state.refused) > before + 3).await;
        until(|| listener.terminators() == 0 && listener.problem().is_some()).await;
        network.change(|state| state.refusal = None);
        network.router.restart(&network.pki, address).await;
        soon(listener.established(1)).await.unwrap();
        drop(pair_of(&endpoint, &mut listener).await);
    }
}

#[tokio::test]
async fn a_host_and_a_dialer_go_on_after_their_service_sessions_have_ended() {
    let network = Network::new().await;
    let endpoint = endpoint(&network).await;
    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    drop(pair_of(&endpoint, &mut listener).await);
    network.change(|state| state.ended = state.made);
    network.router.end_binds(ErrorCode::INVALID_SESSION, RetryHint::DEFAULT);
    until(|| network.router.hosts() == 1).await;
    drop(pair_of(&endpoint, &mut listener).await);
}

#[tokio::test]
async fn services_that_are_gone_for_a_moment_can_be_used_again() {
    let network = Network::new().await;
    let endpoint = endpoint(&network).await;
    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    drop(pair_of(&endpoint, &mut listener).await);
    let mut services = endpoint.service_changes();
    soon(services.wait_for(|services| services.len() == 2)).await.unwrap();
    for is_remade in [false, true] {
        let before = network.seen(|state| state.services.clone());
        network.change(|state| {
            state.services.clear();
            state.changes += 1;
        });
        soon(services.wait_for(|services| services.is_empty())).await.unwrap();
        let unknown = soon(endpoint.dial("plain")).await.unwrap_err();
        assert!(matches!(unknown, Error::ServiceUnknown { .. }), "{unknown}");
        network.change(|state| {
            state.services = before;
            state.changes += 1;
            state.remade += usize::from(is_remade);
        });
        soon(services.wait_for(|services| services.len() == 2)).await.unwrap();
        if is_remade {
            network.router.end_binds(ErrorCode::INVALID_SERVICE, RetryHint::DEFAULT);
            let over = soon(listener.accept()).await.unwrap_err();
            assert!(matches!(over, Error::ServiceUnknown { .. }), "{over}");
            listener = soon(endpoint.bind("plain")).await.unwrap();
        }
        drop(pair_of(&endpoint, &mut listener).await);
    }
}

#[tokio::test]
async fn a_dialer_dials_again_after_its_router_was_listed_without_addresses() {
    let mut network = Network::new().await;
    let (host, dialer) = (endpoint(&network).await, endpoint(&network).await);
    let mut listener = soon(host.bind("plain")).await.unwrap();
    drop(pair_of(&dialer, &mut listener).await);
    for names in [vec!["router1"], Vec::new()] {
        let address = network.router.stop();
        let routers = network.seen(|state| state.routers.clone());
        let is_listed = !names.is_empty();
        network.change(|state| {
            state.offline = names;
            if !is_listed {
                state.routers.clear();
            }
        });
        until(|| dialer.connected_routers().is_empty()).await;
        let none = soon(dialer.dial("plain")).await.unwrap_err();
        assert!(matches!(none, Error::NoEdgeRouters { .. }), "{none}");
        network.router.restart(&network.pki, address).await;
        network.change(|state| {
            state.routers = routers;
            state.offline.clear();
        });
        soon(listener.established(1)).await.unwrap();
        drop(pair_of(&dialer, &mut listener).await);
    }
}

#[tokio::test]
async fn a_dial_while_every_router_is_offline_reads_the_routers_once() {
    let network = Network::new().await;
    network.change(|state| state.offline = vec!["router1"]);
    let dialer = network.endpoint().await;
    let reads = || network.seen(|state| state.session_reads);
    // The first dial makes the session, and its routers are known with it.
    for expected in [0, 1, 2] {
        let none = soon(dialer.dial("plain")).await.unwrap_err();
        assert!(matches!(none, Error::NoEdgeRouters { .. }), "{none}");
        assert_eq!(reads(), expected);
    }
}

#[tokio::test]
async fn a_host_takes_its_second_router_again_that_was_away() {
    let network = Network::new().await;
    let mut other = Router::start(&network.pki, &network.controller, "router2").await;
    let endpoint = endpoint(&network).await;
    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    soon(listener.established(2)).await.unwrap();
    let both = network.seen(|state| state.routers.clone());
    for is_listed in [true, false] {
        let address = other.stop();
        network.change(|state| match is_listed {
            true => state.offline = vec!["router2"],
            false => state.routers.retain(|(name, _)| name == "router1"),
        });
        until(|| listener.terminators() == 1).await;
        assert!(listener.problem().is_none(), "it can be dialed over the other router");
        let before = network.seen(|state| state.session_reads);
        until(|| network.seen(|state| state.session_reads) > before).await;
        other.restart(&network.pki, address).await;
        network.change(|state| {
            state.routers.clone_from(&both);
            state.offline.clear();
        });
        soon(listener.established(2)).await.unwrap();
    }
    drop(pair_of(&endpoint, &mut listener).await);
}
