//! Simulated routers: their identities, and their connections to the controller.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use weft_channel::{ChannelOptions, DialOptions, Established, GroupPolicy, dial};
use weft_identity::tls::{ClientTls, client_config};
use weft_identity::{
    Authority, Identity, KeyAlgorithm, KeyPurpose, KeyedChain, Leaf, LiveIdentity, PrivateKey,
    SubjectName, TrustBundle,
};
use weft_model::Id;
use weft_wire::ctrl::RouterHello;
use weft_wire::hello::{Hello, alpn};
use weft_wire::{Address, Capabilities, Scheme, VersionInfo, router_capability};

/// Longest wait of a router for a connection or an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The identity of a router.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) id: Id,
    chain: KeyedChain,
}

impl Credentials {
    /// A key, and a certificate for it.
    pub(crate) fn make(id: Id, authority: &Authority) -> io::Result<Self> {
        let make = || {
            let key = PrivateKey::generate(KeyAlgorithm::EcP256)?;
            let (subject, now) = (SubjectName::common_name(id.as_str()), SystemTime::now());
            let leaf = Leaf::for_key(key.public(), &subject, Vec::new(), KeyPurpose::Both, now)?;
            KeyedChain::new(vec![authority.issue(&leaf)?, authority.certificate().clone()], key)
        };
        let chain = make().map_err(io::Error::other)?;
        Ok(Self { id, chain })
    }

    pub(crate) fn fingerprint(&self) -> &str {
        self.chain.leaf().fingerprint()
    }
}

/// Connects a router, by a group of connections if a policy for groups is given.
pub(crate) async fn connect(
    who: &Credentials,
    bundle: &TrustBundle,
    port: u16,
    group: Option<GroupPolicy>,
) -> io::Result<Established> {
    let identity = Identity::new(Some(who.chain.clone()), Vec::new(), bundle.clone());
    let identity = LiveIdentity::fixed(identity);
    let tls = client_config(&ClientTls::of_identity(&identity, &[])).map_err(io::Error::other)?;
    let address = Address::new(Scheme::Tls, "127.0.0.1", port);
    let channel = ChannelOptions { heartbeat: None, ..ChannelOptions::control("router") };
    let hello = hello(&who.id, group.is_some());
    let options = DialOptions {
        group,
        timeout: PATIENCE,
        ..DialOptions::new(address, Arc::new(tls), alpn::CTRL, hello, channel)
    };
    dial(options).await.map_err(io::Error::other)
}

fn hello(id: &Id, is_grouped: bool) -> Hello {
    let mut hello = Hello::new(id.as_str());
    let capabilities = match is_grouped {
        true => Capabilities::NONE
            .with(router_capability::MULTI_CHANNEL)
            .with(router_capability::SESSION_LISTS),
        false => Capabilities::NONE,
    };
    RouterHello {
        version: VersionInfo::from_header("v2.1.0|r|d|linux|amd64"),
        capabilities,
        ..RouterHello::default()
    }
    .write(&mut hello.headers);
    hello
}
