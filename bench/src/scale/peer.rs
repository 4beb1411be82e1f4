//! Simulated routers, which have a connection to their controller and carry no data.

use std::io;
use std::time::{Duration, Instant, SystemTime};

use bytes::Buf as _;
use prost::encoding::{WireType, decode_key, decode_varint};
use weft_channel::{
    ChannelHandle, Established, GroupPolicy, Inbox, InboxLimits, RedialPolicy, inbox,
};
use weft_identity::{
    Authority, Certificate, KeyAlgorithm, KeyPurpose, KeyedChain, Leaf, PrivateKey, SubjectName,
    TrustBundle,
};
use weft_model::Id;
use weft_wire::edge_ctrl::data_model::{ChangeSet, SubscribeToDataModelRequest};
use weft_wire::edge_ctrl::{ApiSessionAdded, ClientHello, SyncState, content_type as is};
use weft_wire::{Message, ProtoBody as _};

use super::server::Home;
use crate::router::{Credentials, PATIENCE, connect};

/// Messages of a controller that may wait: a full state of all sessions is in parts.
const WAITING: InboxLimits = InboxLimits { messages: 16_384, bytes: 256 * 1024 * 1024 };

/// First and longest wait of a router after it was turned away.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The authorities of the network of a home.
pub(crate) struct Pki {
    signer: Authority,
    bundle: TrustBundle,
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
    pub(crate) fn router(&self, id: Id) -> io::Result<Credentials> {
        Credentials::make(id, &self.signer)
    }

    /// The certificates that the network believes.
    pub(crate) fn bundle(&self) -> &TrustBundle {
        &self.bundle
    }

    /// A key, and a certificate for it with this name.
    pub(crate) fn chain(&self, name: &str) -> io::Result<KeyedChain> {
        let make = || {
            let key = PrivateKey::generate(KeyAlgorithm::EcP256)?;
            let (subject, now) = (SubjectName::common_name(name), SystemTime::now());
            let leaf = Leaf::for_key(key.public(), &subject, Vec::new(), KeyPurpose::Client, now)?;
            KeyedChain::new(vec![self.signer.issue(&leaf)?, self.signer.certificate().clone()], key)
        };
        make().map_err(io::Error::other)
    }

    /// Connects a router and sends its hello. If the controller has no place for a further peer that is not
    /// authenticated, the router connects again after a wait, as real routers do.
    pub(crate) async fn connect(&self, router: &Credentials, port: u16) -> io::Result<Peer> {
        let until = Instant::now() + PATIENCE;
        let mut pause = FIRST_PAUSE;
        loop {
            match self.connect_once(router, port).await {
                Err(_) if Instant::now() < until => {
                    tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.5))).await;
                    pause = (2 * pause).min(LONGEST_PAUSE);
                }
                outcome => return outcome,
            }
        }
    }

    /// Connects a router of a program that knows no lists of sessions.
    pub(crate) async fn connect_other(&self, router: &Credentials, port: u16) -> io::Result<Peer> {
        self.greet(connect(router, &self.bundle, port, None).await?).await
    }

    async fn connect_once(&self, router: &Credentials, port: u16) -> io::Result<Peer> {
        let group = GroupPolicy {
            min_total: 1,
            redial: Some(RedialPolicy { survive: false, ..RedialPolicy::CONTROL }),
            ..GroupPolicy::control_dialer(true)
        };
        self.greet(connect(router, &self.bundle, port, Some(group)).await?).await
    }

    async fn greet(&self, established: Established) -> io::Result<Peer> {
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

    /// Sends a request and waits for the answer.
    pub(crate) async fn ask(&self, message: Message) -> io::Result<Message> {
        self.channel.request(message, PATIENCE).await.map_err(io::Error::other)
    }

    /// Subscribes to the data model, and waits until it has come.
    pub(crate) async fn subscribe(&mut self) -> io::Result<()> {
        let wanted = SubscribeToDataModelRequest {
            subscription_duration_seconds: 360,
            subscription_id: "bench".into(),
            ..SubscribeToDataModelRequest::default()
        };
        self.send(wanted.to_message()).await?;
        self.expect(is::DATA_STATE).await.map(drop)
    }

    /// The next change of the data model, and the bytes of its message.
    pub(crate) async fn change(&mut self) -> io::Result<(ChangeSet, usize)> {
        let message = self.expect(is::DATA_STATE_CHANGE_SET).await?;
        let change = ChangeSet::from_message(&message).map_err(io::Error::other)?;
        Ok((change, message.body.len()))
    }

    /// The sessions that the router is told of at first: their number, and the tokens if they are wanted.
    /// Real routers do this work on their own machines; here the messages are decoded only as far as needed
    /// to see that no session is missing.
    pub(crate) async fn sessions(&mut self, with_tokens: bool) -> io::Result<(usize, Vec<String>)> {
        let (mut count, mut tokens) = (0, Vec::new());
        loop {
            let message = self.expect(is::API_SESSION_ADDED).await?;
            let told = SessionsSummary::read(&message.body)
                .ok_or_else(|| io::Error::other("no sessions"))?;
            if !told.is_full_state {
                continue;
            }
            count += told.sessions;
            if with_tokens {
                let added = ApiSessionAdded::from_message(&message).map_err(io::Error::other)?;
                tokens.extend(added.api_sessions.into_iter().map(|session| session.token));
            }
            if SyncState::from_message(&message).map_err(io::Error::other)?.is_last {
                // The last session belongs to nobody.
                tokens.pop();
                return Ok((count.saturating_sub(1), tokens));
            }
        }
    }
}

/// The contents of an [`ApiSessionAdded`], without the sessions themselves.
#[derive(Debug, Default, PartialEq, Eq)]
struct SessionsSummary {
    is_full_state: bool,
    sessions: usize,
}

impl SessionsSummary {
    fn read(body: &[u8]) -> Option<Self> {
        let (mut body, mut told) = (body, Self::default());
        while body.has_remaining() {
            let (field, wire_type) = decode_key(&mut body).ok()?;
            let value = decode_varint(&mut body).ok()?;
            match (field, wire_type) {
                (1, WireType::Varint) => told.is_full_state = value != 0,
                (2, WireType::LengthDelimited) => {
                    let length = usize::try_from(value).ok()?;
                    body = body.get(length..)?;
                    told.sessions += 1;
                }
                _ => return None,
            }
        }
        Some(told)
    }
}

#[cfg(test)]
mod tests {
    use weft_wire::edge_ctrl::ApiSession;

    use super::*;

    #[test]
    fn sessions_are_counted_as_they_are() {
        for (sessions, is_full_state) in [(0, true), (3, true), (1, false)] {
            let session = ApiSession { token: "t".repeat(300), ..ApiSession::default() };
            let added = ApiSessionAdded { is_full_state, api_sessions: vec![session; sessions] };
            let told = SessionsSummary::read(&added.to_message().body);
            assert_eq!(told, Some(SessionsSummary { is_full_state, sessions }));
        }
        assert_eq!(SessionsSummary::read(&[0x12, 5, 0]), None, "cut off");
    }
}
