//! From the configuration to the limits and options of the parts.

use std::sync::Arc;
use std::time::Duration;

use weft_channel::{AcceptOptions, ListenerLimits, WebSocketOptions};
use weft_config::RouterConfig;
use weft_config::router::{EdgeListener, Listener, WssOptions};
use weft_spans::Spans;
use weft_wire::VersionInfo;

use crate::data::{DataOptions, EdgeLimits};
use crate::forwarder::FIN_HOLD;
use crate::runtimes::Runtimes;

/// Longest time for a TLS handshake, whatever the file says: the most that a hello may be given.
pub(super) const MAX_HANDSHAKE: Duration = Duration::from_secs(60);

/// The listeners for SDKs that are served.
pub(super) fn edge_listeners(config: &RouterConfig) -> impl Iterator<Item = &EdgeListener> {
    let listeners = config.edge.is_some().then_some(config.listeners.as_slice());
    listeners.unwrap_or_default().iter().filter_map(|listener| match listener {
        Listener::Edge(edge) => Some(edge),
        _ => None,
    })
}

/// The limits of handshakes and hellos (docs/protocol/channel.md 3, 7.1, 15.4). The file can only
/// raise the number of hellos at the same time: with as few as the original allows, as many silent
/// strangers would keep everybody else out.
pub(super) fn edge_limits(config: &RouterConfig, listener: &EdgeListener) -> EdgeLimits {
    let (channel, usual) = (&listener.channel, ListenerLimits::default());
    let at_once = channel.max_outstanding_connects.saturating_add(channel.max_queued_connects);
    EdgeLimits {
        listener: ListenerLimits {
            pending: usual.pending.max(at_once),
            handshake_timeout: config.tls_handshake_timeout.min(MAX_HANDSHAKE),
            ..usual
        },
        hello: AcceptOptions { hello_timeout: channel.connect_timeout, ..AcceptOptions::default() },
        write_timeout: channel.write_timeout,
        circuits: listener.options.clone(),
    }
}

/// The options of the data half; without a trace and without spans.
pub(super) fn data_options(
    config: &RouterConfig,
    id: &str,
    version: VersionInfo,
    runtimes: &Runtimes,
    client_tls: Arc<rustls::ClientConfig>,
) -> DataOptions {
    let xgress = config.listeners.iter().find_map(|one| match one {
        Listener::Tunnel(tunnel) => Some(tunnel.options.clone()),
        _ => None,
    });
    DataOptions {
        router_id: id.to_owned(),
        version,
        xgress: xgress.unwrap_or_default(),
        forwarder: config.forwarder.clone(),
        dialers: config.dialers.clone(),
        client_tls: Some(client_tls),
        fin_hold: FIN_HOLD,
        per_identity: config.edge.as_ref().map(|edge| edge.per_identity).unwrap_or_default(),
        tunnel: config.listeners.iter().find_map(|one| match one {
            Listener::Tunnel(options) => Some((**options).clone()),
            _ => None,
        }),
        usage_interval: config.metrics.report_interval,
        trace: None,
        spans: Spans::off(),
        threads: runtimes.data.clone(),
        control_runtime: runtimes.control.clone(),
    }
}

/// A time limit of the file; 0, which means none there, becomes the longest time allowed for
/// strangers.
fn or_most(time: Duration) -> Duration {
    if time.is_zero() { MAX_HANDSHAKE } else { time }
}

/// The options for WebSockets in the file.
pub(super) fn websocket_options(wss: &WssOptions) -> WebSocketOptions {
    WebSocketOptions {
        read_timeout: or_most(wss.read_timeout),
        write_timeout: or_most(wss.write_timeout),
        handshake_timeout: or_most(wss.handshake_timeout).min(MAX_HANDSHAKE),
        ping_interval: wss.ping_interval,
        pong_timeout: wss.pong_timeout,
        read_buffer: wss.read_buffer as usize,
        write_buffer: wss.write_buffer as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits_of(options: &str, more: &str) -> EdgeLimits {
        let text = format!(
            "v: 3\nidentity: {{cert: a, server_cert: s, key: b, ca: c}}\nctrl: {{endpoint: 'tls:localhost:1'}}\n\
             edge: {{}}\nlisteners: [{{binding: edge, address: 'tls:0.0.0.0:3022', \
             options: {{advertise: 'localhost:3022'{options}}}}}]\n{more}"
        );
        let path = std::path::Path::new("router.yaml");
        let none = |_: &str| None;
        let config = RouterConfig::from_str(&text, path, &none).unwrap().config;
        edge_limits(&config, edge_listeners(&config).next().unwrap())
    }

    #[test]
    fn the_file_sets_the_deadlines_of_strangers() {
        let five = Duration::from_secs(5);
        let usual = limits_of("", "");
        assert_eq!((usual.listener.handshake_timeout, usual.hello.hello_timeout), (five, five));
        assert_eq!(usual.listener.pending, ListenerLimits::default().pending);

        let set = limits_of(", connectTimeoutMs: 700", "tls: {handshakeTimeout: 2s}");
        assert_eq!(set.listener.handshake_timeout, Duration::from_secs(2));
        assert_eq!(set.hello.hello_timeout, Duration::from_millis(700));
        assert_eq!(set.write_timeout, Some(Duration::from_secs(30)));
        assert_eq!(limits_of(", writeTimeout: 0s", "").write_timeout, None);
        let set =
            limits_of(", connectTimeout: 9s, writeTimeout: 1m", "tls: {handshakeTimeout: 24h}");
        assert_eq!(set.write_timeout, Some(Duration::from_secs(60)));
        assert_eq!(set.listener.handshake_timeout, MAX_HANDSHAKE);
        assert_eq!(set.hello.hello_timeout, Duration::from_secs(9));
    }

    #[test]
    fn no_limit_for_strangers_is_the_most_there_is() {
        let text = "v: 3\nidentity: {cert: a, server_cert: s, key: b}\nctrl: {endpoint: 'tls:localhost:1'}\n\
                    transport: {wss: {readTimeout: 0, writeTimeout: 0, handshakeTimeout: 0, pingInterval: 0}}\n";
        let none = |_: &str| None;
        let config = RouterConfig::from_str(text, std::path::Path::new("r.yaml"), &none).unwrap();
        let options = websocket_options(&config.config.transport.wss);
        let times = [options.read_timeout, options.write_timeout, options.handshake_timeout];
        assert_eq!(times, [MAX_HANDSHAKE; 3]);
        assert_eq!(options.ping_interval, Duration::ZERO, "never");
    }

    #[test]
    fn the_file_can_only_raise_how_many_strangers_wait() {
        let pending = |options: &str| limits_of(options, "").listener.pending;
        assert_eq!(pending(", maxOutstandingConnects: 1"), 512);
        assert_eq!(pending(", maxOutstandingConnects: 1000, maxQueuedConnects: 500"), 1500);
    }
}
