//! Opening a link to another router (docs/protocol/data-plane.md 3.1 to 3.3, 3.7, 3.8).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weft_channel::{
    ChannelOptions, DialError, DialOptions, Established, GroupPolicy, ServerScreen, dial,
};
use weft_circuit::now;
use weft_config::router::LinkDialer;
use weft_identity::ExpectedRouter;
use weft_wire::hello::alpn;
use weft_wire::link::{LinkHello, SplitPart};
use weft_wire::{Address, Version};

use super::live::Channels;
use super::machine::{Dial, Facts, Input};
use super::{Links, datagram, interfaces};

/// The reason why a link was not opened.
#[derive(Debug, thiserror::Error)]
enum NotOpened {
    #[error("the address {0} is not understood: {1}")]
    Address(String, String),
    #[error("there is no interface or address {0} here to dial from (link.dialers.bind)")]
    Bind(String),
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("the router there is {found}, not {meant}")]
    Other { meant: String, found: String },
    #[error("the dialer of the link is not configured any more")]
    NoDialer,
}

/// The forms of a link; the release of a router decides which one it understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A group of several connections.
    Grouped,
    /// One connection for payloads, one for acks.
    Split,
    /// One connection.
    Single,
}

fn form(version: &str, dialer: &LinkDialer) -> Form {
    let release: Option<Version> = version.parse().ok();
    if release.is_some_and(|release| release.at_least(1, 6, 6)) {
        Form::Grouped
    } else if dialer.split {
        Form::Split
    } else {
        Form::Single
    }
}

impl Links {
    /// Dials a link once.
    pub(super) async fn dial_once(self: Arc<Self>, dial: Dial) {
        let begun = now();
        let connected = self.connect(&dial).await;
        self.forwarder.measures().link_dials.took(now().saturating_duration_since(begun));
        let channels = match connected {
            Ok(channels) => channels,
            Err(problem) => {
                tracing::info!(
                    link = %dial.link, peer = %dial.peer, address = %dial.address,
                    iteration = dial.iteration, %problem, "link not dialed"
                );
                return self.step(Input::DialFailed(dial));
            }
        };
        let facts = Facts {
            number: self.numbers.fetch_add(1, Ordering::Relaxed),
            key: dial.key,
            id: dial.link,
            peer: dial.peer,
            iteration: dial.iteration,
            dialed: Some(dial.address),
            leaf: None,
        };
        self.opened(facts, &dial.protocol, channels);
    }

    /// Dials a link and says hello.
    async fn connect(&self, dial: &Dial) -> Result<Channels, NotOpened> {
        let setup = self.setup();
        let dialer = setup.dialers.get(dial.dialer).ok_or(NotOpened::NoDialer)?;
        let bindings = interfaces::dialer_bindings(&setup);
        let hello = LinkHello {
            link_id: dial.link.clone(),
            connection_id: uuid::Uuid::new_v4().to_string(),
            part: None,
            router_id: self.options.router_id.clone(),
            dialed_version: dial.version.clone(),
            dialer_binding: bindings.into_iter().nth(dial.dialer).unwrap_or_default(),
            iteration: dial.iteration,
            dialed_router_id: Some(dial.peer.clone()),
        };
        Ok(match form(&dial.version, dialer) {
            Form::Grouped => {
                let (payloads, acks) = (dialer.max_default_connections, dialer.max_ack_connections);
                let policy = GroupPolicy::link_dialer(
                    payloads as usize,
                    acks as usize,
                    dialer.startup_delay,
                );
                vec![(None, self.one(dial, dialer, &hello, Some(policy)).await?)]
            }
            Form::Single => vec![(None, self.one(dial, dialer, &hello, None).await?)],
            Form::Split => {
                let part = |part| LinkHello { part: Some(part), ..hello.clone() };
                let payload = self.one(dial, dialer, &part(SplitPart::Payload), None).await?;
                let ack = self.one(dial, dialer, &part(SplitPart::Ack), None).await?;
                vec![(Some(SplitPart::Payload), payload), (Some(SplitPart::Ack), ack)]
            }
        })
    }

    /// Dials one channel of a link.
    async fn one(
        &self,
        target: &Dial,
        dialer: &LinkDialer,
        hello: &LinkHello,
        group: Option<GroupPolicy>,
    ) -> Result<Established, NotOpened> {
        let address: Address =
            target.address.parse().map_err(|problem: weft_wire::AddressError| {
                NotOpened::Address(target.address.clone(), problem.to_string())
            })?;
        let bind = match &dialer.bind {
            None => None,
            Some(bind) => {
                let found = interfaces::address_of(bind);
                Some(found.ok_or_else(|| NotOpened::Bind(bind.clone()))?)
            }
        };
        let channel = ChannelOptions {
            write_timeout: dialer.options.write_timeout,
            ..self.channel_options(format!("link to {}", target.peer))
        };
        let tls = Arc::clone(&self.client_tls);
        let expected = ExpectedRouter::new(target.peer.clone(), target.keys.clone());
        let expected = expected.in_domain_of(&self.identity.current());
        let options = DialOptions {
            screen: Some(ServerScreen::new(move |chain| {
                expected.prove(chain).map(|_| ()).map_err(|problem| problem.to_string())
            })),
            told_by: Some(target.peer.clone()),
            timeout: dialer.options.connect_timeout,
            bind,
            proxy: self.options.proxy.clone(),
            datagrams: datagram::dials(&self.identity, &address.host, self.options.datagrams),
            connection_id: group.is_some().then(|| hello.connection_id.clone()),
            group,
            ..DialOptions::new(address, tls, alpn::LINK, hello.to_hello(), channel)
        };
        let channel = dial(options).await?;
        let meant = &target.peer;
        match channel.peer().id.clone() {
            Some(found) if found != *meant => Err(NotOpened::Other { meant: meant.clone(), found }),
            _ => Ok(channel),
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_config::RouterConfig;
    use weft_config::router::LinkDialer;

    use super::*;

    fn dialer(more: &str) -> LinkDialer {
        let text = format!(
            "v: 3\nidentity: {{cert: a, server_cert: s, key: b, ca: c}}\nctrl: {{endpoint: 'tls:localhost:1'}}\n\
             link: {{dialers: [{{binding: transport{more}}}]}}\n"
        );
        let none = |_: &str| None;
        let path = std::path::Path::new("router.yaml");
        let config = RouterConfig::from_str(&text, path, &none).unwrap().config;
        config.link.dialers.into_iter().next().unwrap()
    }

    #[test]
    fn the_release_of_the_peer_decides_the_form() {
        let usual = dialer("");
        for version in ["v1.6.6", "1.7.0", "v2.1.0-pre2", "v0.0.0"] {
            assert_eq!(form(version, &usual), Form::Grouped, "{version}");
        }
        for version in ["v1.6.5", "1.6.6-pre1", "", "unknown"] {
            assert_eq!(form(version, &usual), Form::Split, "{version}");
            assert_eq!(form(version, &dialer(", split: false")), Form::Single, "{version}");
            // The numbers are those of a group.
            let one = dialer(", split: false, maxAckConnections: 2");
            assert_eq!(form(version, &one), Form::Single, "{version}");
            assert_eq!(form(version, &dialer(", maxAckConnections: 0")), Form::Split, "{version}");
        }
    }
}
