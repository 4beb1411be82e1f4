//! Admission of SDKs: their hellos, and the start of their channels.

use std::sync::Arc;
use std::time::Duration;

use weft_channel::{
    Admission, Behaviour, ChannelOptions, Established, GroupPolicy, HelloGate, PeerHello, Refusal,
};
use weft_wire::edge::header;
use weft_wire::{Capabilities, FrameLimits, Headers, VersionInfo, hello, router_capability};

use super::binding::{Dialed, EdgeBinding};
use super::connection::SdkConnection;

/// Admits SDKs at one listener.
pub(crate) struct EdgeGate {
    pub(crate) binding: Arc<EdgeBinding>,
    /// How long an SDK may accept none of the bytes to be written to it.
    pub(crate) write_timeout: Option<Duration>,
    pub(crate) dialed: Arc<Dialed>,
}

impl HelloGate for EdgeGate {
    async fn check(&self, peer: &PeerHello) -> Result<Admission, Refusal> {
        let binding = &self.binding;
        let refused = |why: &'static str| {
            binding.forwarder.measures().edge.refused.one();
            Err(Refusal::close(why))
        };
        if peer.hello.headers.get(header::SESSION_TOKEN).is_none_or(<[u8]>::is_empty) {
            return refused("the hello of an SDK carries no session token");
        }
        if peer.certificates.is_empty() {
            return refused("the SDK presents no certificate");
        }
        Ok(Admission {
            listener_id: binding.options.router_id.clone(),
            identity: Vec::new(),
            headers: hello_headers(&binding.options.version),
            channel: ChannelOptions {
                threads: Some(binding.options.threads.clone()),
                write_timeout: self.write_timeout,
                unjudged: Some(FrameLimits::UNJUDGED),
                frames: FrameLimits::FROM_SDK,
                ..ChannelOptions::edge(format!("sdk {}", peer.remote))
            },
            group: Some(GroupPolicy::edge_listener()),
        })
    }

    async fn established(&self, established: Established) {
        let token = established.peer().headers.get_bytes(header::SESSION_TOKEN);
        let (binding, channel) = (Arc::clone(&self.binding), established.handle());
        if let Some(trace) = &binding.options.trace {
            trace.follow(&channel);
        }
        let dialed = Arc::clone(&self.dialed);
        let make = |number| SdkConnection::new(binding, channel, dialed, number);
        let connection = self.binding.connections.lock().add(make);
        established.start(Arc::clone(&connection) as Arc<dyn Behaviour>);
        connection.authenticate(token.unwrap_or_default());
    }
}

/// Headers of the answer to a hello (docs/protocol/sdk.md 2.2; the form of the version:
/// docs/protocol/channel.md 9.3, Go SDKs complain about any other). A capability is named only if
/// the feature is complete. Posture checks are not among them, so that SDKs report their posture to
/// controllers.
fn hello_headers(version: &VersionInfo) -> Headers {
    let mut headers = Headers::new();
    headers.set_str(hello::header::HELLO_VERSION, &version.to_header());
    headers.set_bool(header::SUPPORTS_BIND_SUCCESS, true);
    let capabilities = Capabilities::NONE
        .with(router_capability::BIND_SUCCESS)
        .with(router_capability::ROUTER_DATA_MODEL);
    headers.set(header::ROUTER_CAPABILITIES, &capabilities.to_wire());
    headers
}
