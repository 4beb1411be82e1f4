//! Connections to routers: made when first needed, kept, and made again with growing pauses after
//! they are lost.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use weft_channel::{ChannelOptions, DialOptions, RequestError, ServerScreen, dial};
use weft_client::chain;
use weft_contract::resource::service_session::SessionEdgeRouter;
use weft_identity::tls::{ClientTls, client_config};
use weft_identity::{ExpectedRouter, LiveIdentity};
use weft_wire::edge::{self, UpdateToken, UpdateTokenFailure, header};
use weft_wire::hello::{self, Hello, alpn};
use weft_wire::{Message, content_type};

use crate::addresses::{address_of, are_usable, unusable};
use crate::channel::RouterChannel;
use crate::error::{Error, Result};
use crate::inner::Inner;
use crate::jitter::jittered;
use crate::routers::{DRAIN_LIMIT, RouterLocation, Slot, first_connected};
use crate::shown::Shown;

/// Write timeout without flow control of its own: the SDK's channel is then not read while circuits
/// catch up.
const UNREAD: Duration = Duration::from_secs(300);
/// The first wait before a router is dialed again.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The longest such wait of a program without another router: a host has to be back within 10 s after its
/// router.
const LONGEST_WAIT: Duration = Duration::from_secs(4);
/// The bound of the first wait while another router is connected.
const FIRST_WAIT_WITH_OTHERS: Duration = Duration::from_secs(1);
/// The bound of the longest such wait: a router that comes back is not dialed by all of its SDKs at the same
/// time.
const LONGEST_WAIT_WITH_OTHERS: Duration = Duration::from_secs(60);
/// A channel that was open this long counts as a success, whatever the router sent.
const GOOD_LIFE: Duration = Duration::from_secs(10);
/// The longest wait for a router's answer to a new token.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval of probes to a router, and the longest wait for its answer.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);

impl Inner {
    /// Starts to connect to the routers of this list. A router without a usable address is offline: if it is
    /// known, it is dialed at the last one that it had; otherwise it is left out.
    pub(crate) fn want(self: &Arc<Self>, routers: &[SessionEdgeRouter]) -> Vec<Arc<Slot>> {
        let wanted = routers.iter().filter_map(|router| {
            let name = &router.router.name;
            let expected = self.account.expected_router(name);
            match address_of(router) {
                Some(address) => self.slot(name, RouterLocation { address, expected }),
                None => self.routers.known(name),
            }
        });
        wanted.collect()
    }

    fn slot(self: &Arc<Self>, name: &str, location: RouterLocation) -> Option<Arc<Slot>> {
        let (slot, is_new) = self.routers.slot(name, location, &self.cancel)?;
        if is_new {
            tokio::spawn(Arc::clone(self).keep(Arc::clone(&slot)));
        }
        Some(slot)
    }

    /// The channel to the connected router with the shortest round trip, or else to the first one
    /// that connects; not waited for if all are offline. `refused` is chosen only if no other router is
    /// connected.
    pub(crate) async fn pick(
        self: &Arc<Self>,
        service: &str,
        routers: &[SessionEdgeRouter],
        refused: Option<&Arc<RouterChannel>>,
        deadline: Instant,
    ) -> Result<Arc<RouterChannel>> {
        let slots = self.want(routers);
        let none = |reason| {
            let service = service.to_owned();
            Err(Error::NoEdgeRouters { service, reason, cause: None })
        };
        let has_refused = |channel: &Arc<RouterChannel>| {
            refused.is_some_and(|refused| Arc::ptr_eq(refused, channel))
        };
        let nearest = slots
            .iter()
            .filter_map(|slot| Some((slot.rtt(), slot.channel()?)))
            .min_by_key(|(rtt, channel)| (has_refused(channel), *rtt));
        if let Some((_, channel)) = nearest {
            return Ok(channel);
        }
        if slots.is_empty() || !are_usable(routers) {
            return none(unusable(routers));
        }
        let _waiting: Vec<_> = slots.iter().map(Slot::wanted).collect();
        match tokio::time::timeout_at(deadline, first_connected(&slots)).await {
            Ok(Some(channel)) => Ok(channel),
            Ok(None) if self.cancel.is_cancelled() => {
                Err(Error::Closed("the endpoint is closed".to_owned()))
            }
            Ok(None) | Err(_) => {
                let problems: Vec<_> = slots.iter().map(|slot| slot.problem()).collect();
                none(problems.join("; "))
            }
        }
    }

    /// Keeps a router connected until it is not needed any more.
    async fn keep(self: Arc<Self>, slot: Arc<Slot>) {
        let mut failures = 0;
        loop {
            let location = slot.location();
            let connected = tokio::select! {
                () = slot.dropped() => break,
                connected = self.connect(&slot, &location) => connected,
            };
            match connected {
                Ok((channel, shown)) => {
                    tracing::debug!(router = %slot.name(), "connected to a router");
                    let good = self.use_channel(&slot, &channel, shown).await;
                    if slot.is_dropped() {
                        break;
                    }
                    if good {
                        failures = 0;
                    } else {
                        failures += 1;
                        // A router that does not know the session closes the channel.
                        if let Err(problem) = self.account.check_session().await {
                            tracing::debug!(
                                problem = chain(&problem),
                                "the API session could not be checked"
                            );
                        }
                    }
                }
                Err(problem) => {
                    tracing::debug!(router = %slot.name(), %problem, "a router was not reached; it is dialed again");
                    failures += 1;
                    slot.not_connected(problem);
                }
            }
            tokio::select! {
                () = slot.dropped() => break,
                () = slot.moved_from(&location) => {}
                () = self.pause(&slot, failures) => {}
            }
        }
        slot.left();
    }

    /// Waits before a router is dialed again. The wait becomes a short one when no other router is connected
    /// any more, or when a dial or a listener waits for this one.
    async fn pause(&self, slot: &Slot, failures: u32) {
        let (since, chance): (_, f64) = (Instant::now(), rand::random());
        if self.routers.has_other(slot) {
            tokio::select! {
                () = tokio::time::sleep(wait(failures, true, chance)) => return,
                () = self.routers.no_other(slot) => {}
                () = slot.until_wanted() => {
                    if since.elapsed() >= LONGEST_WAIT {
                        // The router may be back since the last attempt.
                        return tokio::time::sleep(FIRST_WAIT_WITH_OTHERS.mul_f64(chance)).await;
                    }
                }
            }
        }
        tokio::time::sleep(wait(failures, false, chance)).await;
    }

    /// Uses a channel until it closes; true if it counts as a success.
    async fn use_channel(
        &self,
        slot: &Arc<Slot>,
        channel: &Arc<RouterChannel>,
        shown: Shown,
    ) -> bool {
        let since = Instant::now();
        slot.up(channel);
        let reason = tokio::select! {
            left = self.keep_shown(channel, shown) => match left {
                ShowingEnd::Refused(reason) => reason,
                ShowingEnd::Replaced => {
                    self.leave_behind(slot, channel);
                    return true;
                }
            },
            reason = channel.handle().closed() => reason.to_string(),
            () = probe(slot, channel) => "the router does not answer".to_owned(),
            problem = slot.contradicted(channel.handle().peer()) => problem,
            () = slot.dropped() => {
                let _ = tokio::time::timeout(DRAIN_LIMIT, channel.drained()).await;
                channel.settled().await;
                channel.count_undelivered();
                "this program leaves".to_owned()
            }
        };
        channel.handle().close(reason.clone());
        tracing::debug!(router = %slot.name(), %reason, "disconnected from a router; it is dialed again");
        slot.down(reason);
        channel.is_proved() || since.elapsed() >= GOOD_LIFE
    }

    /// Shows a router every further token of the session. Ends when it refuses one, or when the identity has another
    /// session.
    async fn keep_shown(&self, channel: &RouterChannel, mut shown: Shown) -> ShowingEnd {
        let mut changes = self.account.shown_changes();
        loop {
            let now = changes.borrow_and_update().clone();
            if let Some(now) = now.filter(|now| shown.is_refreshed() && *now != shown) {
                if now.session != shown.session {
                    return ShowingEnd::Replaced;
                }
                if let Err(problem) = show(channel, &now).await {
                    return ShowingEnd::Refused(problem);
                }
                shown = now;
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Leaves the connections of a former session on their channel, until they or the channel are closed. Others get a
    /// channel of the present session.
    fn leave_behind(&self, slot: &Arc<Slot>, channel: &Arc<RouterChannel>) {
        slot.down("the identity has logged in again".to_owned());
        let (slot, channel) = (Arc::clone(slot), Arc::clone(channel));
        let cancel = self.cancel.clone();
        tokio::spawn(async move {
            let emptied = async {
                // Listeners are bound on the new channel as soon as the former one is closed.
                slot.connected().await;
                channel.emptied().await;
            };
            tokio::select! {
                () = emptied => {}
                _ = channel.handle().closed() => {}
                () = cancel.cancelled() => {
                    let _ = tokio::time::timeout(DRAIN_LIMIT, channel.drained()).await;
                    channel.settled().await;
                    channel.count_undelivered();
                }
            }
            channel.handle().close("the identity has logged in again".to_owned());
        });
    }

    async fn connect(
        &self,
        slot: &Slot,
        location: &RouterLocation,
    ) -> Result<(Arc<RouterChannel>, Shown), String> {
        let text = |error: Error| chain(&error);
        self.account.ensure_login().await.map_err(text)?;
        let shown = self.account.show().ok_or("not logged in")?;
        let mut hello = Hello::new(self.identity_token());
        hello.headers.set(header::SESSION_TOKEN, shown.token.as_bytes());
        hello.headers.set_bool(header::SUPPORTS_INSPECT, true);
        let alpn = [alpn::EDGE.as_bytes()];
        let tls = ClientTls::of_identity(&self.identity, &alpn);
        let tls = client_config(&tls).map_err(|error| error.to_string())?;
        let mut channel = ChannelOptions::edge(slot.name());
        if !self.settings.own_flow_control {
            channel.write_timeout = Some(UNREAD);
        }
        let address = location.address.clone();
        let options = DialOptions {
            timeout: self.settings.connect_timeout,
            screen: location.expected.clone().map(|router| screen(router, &self.identity)),
            ..DialOptions::new(address, Arc::new(tls), hello::alpn::EDGE, hello, channel)
        };
        let established = dial(options).await.map_err(|error| error.to_string())?;
        let (meant, found) = (location.expected.as_ref(), established.peer().id.as_ref());
        if let (Some(meant), Some(found)) = (meant, found)
            && meant.id() != found
        {
            return Err(format!("router {} was dialed, and router {found} answered", meant.id()));
        }
        Ok((RouterChannel::start(established, self.figures.clone()), shown))
    }

    /// The token of the hello: the id in the certificate. It proves nothing.
    fn identity_token(&self) -> String {
        self.identity.current().name().unwrap_or_default().to_owned()
    }
}

/// Refuses servers that are not the router.
fn screen(router: ExpectedRouter, own: &LiveIdentity) -> ServerScreen {
    let router = router.in_domain_of(&own.current());
    ServerScreen::new(move |chain| match router.prove(chain) {
        Ok(proof) => {
            tracing::debug!(router = router.id(), ?proof, "the router is the one that is meant");
            Ok(())
        }
        Err(problem) => Err(problem.to_string()),
    })
}

/// Why a session is shown to a router no more.
enum ShowingEnd {
    /// The router did not take the newest token.
    Refused(String),
    /// The identity has another session.
    Replaced,
}

/// Shows a router the newest token of the session.
async fn show(channel: &RouterChannel, shown: &Shown) -> Result<(), String> {
    let update = UpdateToken { token: Bytes::copy_from_slice(shown.token.as_bytes()) };
    let answer = match channel.handle().request(update.to_message(), UPDATE_TIMEOUT).await {
        Ok(answer) => answer,
        // Answers are not read while the application holds the channel up.
        Err(RequestError::Timeout) if channel.is_held_back() => return Ok(()),
        Err(problem) => return Err(format!("the new token was not shown: {problem}")),
    };
    if answer.content_type == edge::content_type::UPDATE_TOKEN_SUCCESS {
        return Ok(());
    }
    let refused = UpdateTokenFailure::from_message(&answer);
    let text = refused.map_or_else(|error| error.to_string(), |refused| refused.error.message);
    Err(format!("the router refuses the new token: {text}"))
}

/// Measures the round trip at intervals; ends when the router does not answer any more.
async fn probe(slot: &Slot, channel: &RouterChannel) {
    loop {
        let since = Instant::now();
        let mut message = Message::new(content_type::LATENCY, bytes::Bytes::new());
        message.headers.set_u64(hello::header::REFLECTED, rand::random());
        match channel.handle().request(message, PROBE_INTERVAL).await {
            Ok(_) => slot.set_rtt(since.elapsed()),
            // Answers are not read while the application holds the channel up.
            Err(RequestError::Timeout) if !channel.is_held_back() => return,
            Err(_) => {}
        }
        tokio::time::sleep(jittered(PROBE_INTERVAL)).await;
    }
}

/// The wait after this many failures in a row; `chance` is between 0 and 1. Without another router the wait
/// varies by a tenth. With another one it may be of any length up to its bound, because nobody needs the
/// router at once, and thousands of SDKs may have lost it together.
fn wait(failures: u32, has_other: bool, chance: f64) -> Duration {
    let chance = chance.clamp(0.0, 1.0);
    let doubled = |first: Duration| first.saturating_mul(1 << failures.min(10));
    if has_other {
        let bound = doubled(FIRST_WAIT_WITH_OTHERS).min(LONGEST_WAIT_WITH_OTHERS);
        return bound.mul_f64(chance).max(FIRST_WAIT);
    }
    doubled(FIRST_WAIT).min(LONGEST_WAIT).mul_f64(0.9 + chance / 5.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_without_another_router_stay_short_enough_to_be_back_in_time() {
        assert!(wait(0, false, 1.0) < Duration::from_millis(120));
        assert!((0..99).all(|failures| wait(failures, false, 1.0) < Duration::from_secs(5)));
        assert!(wait(99, false, 0.0) > Duration::from_secs(3));
    }

    #[test]
    fn waits_with_another_router_grow_and_are_spread_over_all_their_length() {
        for (failures, most) in [(0, 1), (3, 8), (6, 60), (99, 60)] {
            let most = Duration::from_secs(most);
            assert_eq!(wait(failures, true, 1.0), most);
            assert_eq!(wait(failures, true, 0.5), most / 2);
            assert_eq!(wait(failures, true, 0.0), FIRST_WAIT);
        }
    }
}
