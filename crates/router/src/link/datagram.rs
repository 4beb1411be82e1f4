//! Links over DTLS (docs/protocol/channel.md 13): listeners and dialers of `dtls:` addresses.
//!
//! Peers show and prove the same certificates as over TLS, and the same gate admits them.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::Arc;

use rustls_pki_types::{CertificateDer, ServerName};
use tokio::runtime;
use weft_channel::clock::time_of_day;
use weft_channel::{
    ChannelAcceptor, DatagramDial, DatagramListen, DatagramOptions, DatagramRegistration,
    HelloGate, ListenerLimits, RegisterError, Registration, listen_datagrams,
};
use weft_config::RouterConfig;
use weft_config::router::Listener;
use weft_dtls::DtlsSettings;
use weft_identity::tls::{Trust, provider, verify_server};
use weft_identity::{KeyedChain, LiveIdentity};

/// A listening socket. Dropping it ends the listening.
#[derive(Debug)]
pub(crate) enum Socket {
    /// A socket for links over streams.
    Streams(Registration),
    /// A socket for links over DTLS.
    Datagrams(DatagramRegistration),
}

impl Socket {
    pub(crate) fn local_addr(&self) -> SocketAddr {
        match self {
            Self::Streams(socket) => socket.local_addr(),
            Self::Datagrams(socket) => socket.local_addr(),
        }
    }
}

impl From<Registration> for Socket {
    fn from(socket: Registration) -> Self {
        Self::Streams(socket)
    }
}

/// The options of links over DTLS. Payloads have their compact form if the ends of circuits on this
/// router keep payloads below an `mtu`.
pub(crate) fn options(config: &RouterConfig) -> DatagramOptions {
    let dtls = &config.transport.dtls;
    let of_listener = |listener: &Listener| match listener {
        Listener::Edge(edge) => edge.options.mtu,
        Listener::Tunnel(tunnel) => tunnel.options.mtu,
        Listener::Ingress(ingress) => ingress.options.mtu,
    };
    let of_listeners = config.listeners.iter().map(of_listener);
    let of_dialers = config.dialers.iter().map(|dialer| dialer.options.mtu);
    DatagramOptions {
        max_bytes_per_second: dtls.max_bytes_per_second.and_then(NonZeroU64::new),
        write_buffer: dtls.write_buffer,
        read_buffer: dtls.read_buffer,
        compact: of_listeners.chain(of_dialers).any(|mtu| mtu > 0),
    }
}

fn settings<'a>(
    chains: impl IntoIterator<Item = &'a KeyedChain>,
    judge: impl Fn(&[CertificateDer<'static>]) -> Result<(), String> + Send + Sync + 'static,
) -> DtlsSettings {
    DtlsSettings {
        certified: chains.into_iter().map(KeyedChain::tls).collect(),
        judge: Arc::new(judge),
        provider: provider(),
        server_name: None,
    }
}

/// The settings of a dial to this host.
fn dialing(identity: &Arc<LiveIdentity>, host: &str) -> Option<DtlsSettings> {
    let name = ServerName::try_from(host.to_owned()).ok()?;
    let trust = Trust::Identity(Arc::clone(identity));
    let judge = move |chain: &[CertificateDer<'static>]| {
        let leaf = verify_server(&trust, chain, &name, time_of_day());
        leaf.map(|_| ()).map_err(|problem| problem.to_string())
    };
    let current = identity.current();
    Some(settings(current.client(), judge))
}

/// The settings and options of dials to a `dtls:` address of this host.
pub(super) fn dials(
    identity: &Arc<LiveIdentity>,
    host: &str,
    options: DatagramOptions,
) -> Option<DatagramDial> {
    Some(DatagramDial { settings: dialing(identity, host)?, options })
}

/// Listens for links over DTLS.
pub(super) async fn listen<G: HelloGate>(
    bind: &str,
    identity: Arc<LiveIdentity>,
    limits: ListenerLimits,
    options: DatagramOptions,
    runtime: runtime::Handle,
    acceptor: ChannelAcceptor<G>,
) -> Result<DatagramRegistration, RegisterError> {
    let listen = DatagramListen {
        limits,
        // Any certificate is taken here, as over TLS: the gate judges it.
        settings: Arc::new(move || {
            Some(settings(identity.current().served(time_of_day()), |_| Ok(())))
        }),
        options,
        runtime: Some(runtime),
    };
    listen_datagrams(bind, listen, acceptor).await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn config(more: &str) -> RouterConfig {
        let text = format!(
            "v: 3\nidentity: {{cert: a, server_cert: s, key: b, ca: c}}\nctrl: {{endpoint: 'tls:localhost:1'}}\n{more}\n"
        );
        let path = std::path::Path::new("router.yaml");
        RouterConfig::from_str(&text, path, &|_: &str| None).unwrap().config
    }

    #[test]
    fn the_file_sets_the_options_of_dtls() {
        let usual = options(&config(""));
        assert_eq!((usual.write_buffer, usual.read_buffer), (4 << 20, 4 << 20));
        assert_eq!((usual.max_bytes_per_second, usual.compact), (None, false));
        let set = config(
            "transport: {handshakeTimeout: 7s, dtls: {maxBytesPerSecond: 9, writeBufferSize: 8192, \
             readBufferSize: 4096}}",
        );
        assert_eq!(set.transport.dtls.handshake_timeout, Duration::from_secs(7));
        let set = options(&set);
        assert_eq!((set.write_buffer, set.read_buffer), (8192, 4096));
        assert_eq!(set.max_bytes_per_second, NonZeroU64::new(9));
        let small = options(&config("dialers: [{binding: transport, options: {mtu: 1400}}]"));
        assert!(small.compact);
    }
}
