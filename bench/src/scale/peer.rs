//! Routers that only talk to their controller: as many as a large network has.

use std::{
    io,
    sync::Arc,
    time::{Duration, SystemTime},
};

use weft_channel::{
    ChannelHandle, ChannelOptions, DialOptions, GroupPolicy, Inbox, InboxLimits, RedialPolicy,
    dial, inbox,
};
use weft_identity::{
    Authority, Certificate, Identity, KeyAlgorithm, KeyedChain, Leaf, LiveIdentity, PrivateKey,
    Purpose, Subject, TrustBundle,
    tls::{ClientTls, client_config},
};
use weft_model::Id;
use weft_wire::{
    Address, Capabilities, Message, ProtoBody as _, Scheme, VersionInfo,
    ctrl::RouterHello,
    edge_ctrl::{ApiSessionAdded, ClientHello, SyncState, content_type as is},
    hello::{Hello, alpn},
    router_capability,
};

use super::server::Home;

/// How long a router waits for anything.
const PATIENCE: Duration = Duration::from_secs(120);
/// Messages of a controller that may wait: a full state of all sessions is in parts.
const WAITING: InboxLimits = InboxLimits { messages: 16_384, bytes: 256 * 1024 * 1024 };

/// Who signs for the network of a home, and who is believed there.
pub(crate) struct Pki {
    signer: Authority,
    bundle: TrustBundle,
}

/// A router that is known to the network.
#[derive(Clone)]
pub(crate) struct Router {
    pub(crate) id: Id,
    pub(crate) chain: KeyedChain,
}

impl Pki {
    pub(crate) fn of(home: &Home) -> io::Result<Self> {
        let read = |name: &str| std::fs::read(home.root().join("pki").join(name));
        let certificates =
            |name: &str| Certificate::from_pem(&read(name)?).map_err(io::Error::other);
        let signer = certificates("signer.crt")?;
        let key = PrivateKey::from_pem(&read("signer.key")?).map_err(io::Error::other)?;
        let first = signer.first().cloned().ok_or_else(|| io::Error::other("no signer"))?;
        let all = signer.into_iter().chain(certificates("root.crt")?);
        Ok(Self {
            bundle: TrustBundle::new(all),
            signer: Authority::new(first, key).map_err(io::Error::other)?,
        })
    }

    /// Gives a router a certificate.
    pub(crate) fn router(&self, id: Id) -> io::Result<Router> {
        let make = || {
            let key = PrivateKey::generate(KeyAlgorithm::EcP256)?;
            let (subject, now) = (Subject::common_name(id.as_str()), SystemTime::now());
            let leaf = Leaf::for_key(key.public(), &subject, Vec::new(), Purpose::Both, now)?;
            let leaf = self.signer.issue(&leaf)?;
            KeyedChain::new(vec![leaf, self.signer.certificate().clone()], key)
        };
        let chain = make().map_err(io::Error::other)?;
        Ok(Router { id, chain })
    }

    /// Connects a router and greets the controller.
    pub(crate) async fn connect(&self, router: &Router, port: u16) -> io::Result<Peer> {
        let identity = Identity::new(Some(router.chain.clone()), Vec::new(), self.bundle.clone());
        let identity = LiveIdentity::fixed(identity);
        let tls =
            client_config(&ClientTls::of_identity(&identity, &[])).map_err(io::Error::other)?;
        let mut hello = Hello::new(router.id.as_str());
        RouterHello {
            version: VersionInfo::from_header("v2.1.0|r|d|linux|amd64"),
            capabilities: Capabilities::NONE.with(router_capability::MULTI_CHANNEL),
            ..RouterHello::default()
        }
        .write(&mut hello.headers);
        let address = Address::new(Scheme::Tls, "127.0.0.1", port);
        let channel = ChannelOptions { heartbeat: None, ..ChannelOptions::control("router") };
        let group = GroupPolicy {
            min_total: 1,
            redial: Some(RedialPolicy { survive: false, ..RedialPolicy::CONTROL }),
            ..GroupPolicy::control_dialer(true)
        };
        let options = DialOptions {
            group: Some(group),
            timeout: PATIENCE,
            ..DialOptions::new(address, Arc::new(tls), alpn::CTRL, hello, channel)
        };
        let established = dial(options).await.map_err(io::Error::other)?;
        let (behaviour, inbox) = inbox(WAITING);
        let mut peer = Peer { channel: established.start(behaviour), inbox };
        let greeting = peer.expect(is::SERVER_HELLO).await?;
        let hello = ClientHello { version: "v2.1.0".into(), ..ClientHello::default() };
        peer.send(hello.answer(&greeting, 0)).await?;
        Ok(peer)
    }
}

/// A connected router.
pub(crate) struct Peer {
    channel: ChannelHandle,
    inbox: Inbox,
}

impl Peer {
    async fn expect(&mut self, content_type: i32) -> io::Result<Message> {
        loop {
            let next = tokio::time::timeout(PATIENCE, self.inbox.recv()).await;
            let message = next.map_err(|_| io::Error::other("the controller says nothing"))?;
            let message = message.ok_or_else(|| io::Error::other("the controller hung up"))?;
            if message.content_type == content_type {
                return Ok(message);
            }
        }
    }

    pub(crate) async fn send(&self, message: Message) -> io::Result<()> {
        self.channel.send(message).await.map_err(io::Error::other)
    }

    /// Asks something and waits for the answer.
    pub(crate) async fn ask(&self, message: Message) -> io::Result<Message> {
        self.channel.request(message, PATIENCE).await.map_err(io::Error::other)
    }

    /// Everything it is told of sessions at first; their tokens.
    pub(crate) async fn sessions(&mut self) -> io::Result<Vec<String>> {
        let mut all = Vec::new();
        loop {
            let message = self.expect(is::API_SESSION_ADDED).await?;
            let added = ApiSessionAdded::from_message(&message).map_err(io::Error::other)?;
            if !added.is_full_state {
                continue;
            }
            all.extend(added.api_sessions.into_iter().map(|session| session.token));
            if SyncState::from_message(&message).map_err(io::Error::other)?.is_last {
                // The last one is nobody's.
                all.pop();
                return Ok(all);
            }
        }
    }
}
