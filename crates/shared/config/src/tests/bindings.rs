//! Listeners and dialers beside the tunneler, and the files of their page for operators.

use super::{router, warnings};
use crate::router::{DialerBinding, IngressKind, IngressListener, Listener};

const PAGE: &str = include_str!("../../../../../docs/bindings.md");
const BARE: &str = "v: 3\nidentity: {cert: a, server_cert: s, key: b}\nctrl: {endpoint: 'tls:c:6262'}\nlisteners:\n";

fn ingress(listener: &str) -> IngressListener {
    let loaded = router(&format!("{BARE}- {listener}\n")).unwrap();
    assert_eq!(warnings(&loaded), "");
    match loaded.config.listeners.into_iter().next() {
        Some(Listener::Ingress(listener)) => listener,
        other => panic!("{other:?}"),
    }
}

fn refused(listener: &str) -> String {
    router(&format!("{BARE}- {listener}\n")).unwrap_err().to_string()
}

#[test]
fn files_of_the_page_are_accepted_and_acted_upon() {
    let (mut bindings, mut dialers) = (Vec::new(), Vec::new());
    let files = PAGE.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    for file in files {
        let loaded = router(file).unwrap_or_else(|error| panic!("{error}\n{file}"));
        assert_eq!(warnings(&loaded), "", "{file}");
        assert_eq!(loaded.not_acted_upon, [], "{file}");
        for listener in &loaded.config.listeners {
            bindings.push(match listener {
                Listener::Ingress(listener) => listener.binding(),
                Listener::Edge(edge) => edge.address.scheme.name(),
                Listener::Tunnel(_) => "tunnel",
            });
        }
        dialers.extend(loaded.config.dialers.iter().map(|one| one.binding));
    }
    bindings.sort_unstable();
    assert_eq!(bindings, ["proxy", "proxy_udp", "tls", "transport", "transport_udp", "wss"]);
    let expected =
        [DialerBinding::Transport, DialerBinding::TransportUdp, DialerBinding::EdgeTransport];
    assert_eq!(dialers, expected);
}

#[test]
fn addresses_of_every_form() {
    for (listener, kind, binding, at) in [
        (
            "{binding: proxy, address: 'tcp:0.0.0.0:80', service: s}",
            IngressKind::Tcp,
            "proxy",
            "tcp:0.0.0.0:80",
        ),
        ("{binding: proxy, bind: 'tcp::80', service: s}", IngressKind::Tcp, "proxy", "tcp::80"),
        (
            "{binding: proxy, address: 'tls:[::]:443', service: s}",
            IngressKind::Tls,
            "proxy",
            "tls:[::]:443",
        ),
        (
            "{binding: proxy, address: 'udp:h:1', service: s}",
            IngressKind::Udp,
            "proxy_udp",
            "udp:h:1",
        ),
        (
            "{binding: proxy_udp, address: 'udp6:[::1]:1', service: s}",
            IngressKind::Udp6,
            "proxy_udp",
            "udp6:[::1]:1",
        ),
        ("{binding: transport, address: 'tcp:h:1'}", IngressKind::Tcp, "transport", "tcp:h:1"),
        (
            "{binding: proxy_udp, address: 'unixgram:/run/a:b.sock', service: s}",
            IngressKind::Unixgram,
            "proxy_udp",
            "unixgram:/run/a:b.sock",
        ),
        (
            "{binding: transport_udp, address: 'udp4:h:1'}",
            IngressKind::Udp4,
            "transport_udp",
            "udp4:h:1",
        ),
    ] {
        let read = ingress(listener);
        assert_eq!((read.address.kind, read.binding()), (kind, binding), "{listener}");
        assert_eq!(read.address.to_string(), at);
        assert_eq!(read.service.is_some(), binding.starts_with("proxy"));
    }
    let read = ingress(
        "{binding: transport, address: 'tcp:h:1', options: {mtu: 1400, getCircuitTimeout: 3s}}",
    );
    assert_eq!((read.options.mtu, read.options.get_circuit_timeout.as_secs()), (1400, 3));
}

#[test]
fn what_cannot_be_listened_on_is_named() {
    for (listener, reason) in [
        ("{binding: proxy, address: 'tcp:h:1'}", "missing 'service' configuration option"),
        ("{binding: proxy, service: s}", "required value [address] not found"),
        (
            "{binding: proxy_udp, address: 'tcp:h:1', service: s}",
            "must be udp, udp4, udp6 or unixgram, not tcp",
        ),
        (
            "{binding: transport_udp, address: 'tls:h:1'}",
            "must be udp, udp4, udp6 or unixgram, not tls",
        ),
        ("{binding: transport, address: 'wss:h:1'}", "`wss` is not served here"),
        ("{binding: proxy_udp, address: 'unixgram:', service: s}", "expected unixgram:<path>"),
        ("{binding: transport, address: 'tcp:h'}", "missing port"),
        ("{binding: transport, address: 'tcp://h:1'}", "`/` is not allowed"),
        ("{binding: transport, address: 'tcp:h:65536'}", "above 65535"),
        ("{binding: edge_transport, address: 'tcp:h:1'}", "there is no such listener"),
    ] {
        let text = refused(listener);
        assert!(text.contains(reason), "{listener}: {text}");
    }
    let text = "v: 3\nidentity: {cert: a, server_cert: s, key: b}\nctrl: {endpoint: 'tls:c:6262'}\nedge: {}\nlisteners:\n\
                - {binding: edge, address: 'ws:0.0.0.0:80', options: {advertise: 'r:80'}}\n";
    let text = router(text).unwrap_err().to_string();
    assert!(text.contains("not ws; browsers need TLS, use wss"), "{text}");
}
