//! Services that the router itself hosts: terminators from configs, with costs that follow the health
//! of the applications, and dials to applications for circuits (docs/protocol/tunnel.md 8, 9).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use weft_e2e::ending::Announced;
use weft_tunnel::{
    AppData, CheckOutcome, Connected, CostAndPrecedence, DialingIdentity, HostConfig,
    SourceAddresses,
};
use weft_wire::edge::header;
use weft_xgress::Options;

use super::super::ends::{Purpose, TunnelEnds};
use super::super::keys::{self, HostedConnection, Shown};
use super::super::transport;
use crate::forwarder::{Circuit, Forwarder};
use crate::seam::{
    Control, Egress, PeerData, RouteError, RouteErrorCode, TerminatorHost, TerminatorRequest,
    TerminatorUpdate, TunnelService,
};

/// The services that the router itself hosts.
pub(crate) struct Hosting {
    forwarder: Arc<Forwarder>,
    control: Arc<dyn Control>,
    /// The router as an end that proves itself.
    ends: Option<Arc<TunnelEnds>>,
    options: Options,
    /// How long applications may leave sent data unacknowledged.
    peer_timeout: Option<Duration>,
    /// Configs that were read, by service id; read again only when they change.
    read: Mutex<HashMap<String, Read>>,
    /// Terminators by id.
    hosted: Mutex<HashMap<String, Arc<HostedTerminator>>>,
}

/// A service, the terminators that its configs ask for, and the id of each.
struct Read {
    service: Arc<TunnelService>,
    terminators: Vec<(HostConfig, Option<String>)>,
}

/// One terminator of a service.
struct HostedTerminator {
    service: Arc<TunnelService>,
    config: HostConfig,
    over: CancellationToken,
}

impl Hosting {
    pub(super) fn new(
        forwarder: Arc<Forwarder>,
        control: Arc<dyn Control>,
        ends: Option<Arc<TunnelEnds>>,
        options: Options,
        peer_timeout: Option<Duration>,
    ) -> Arc<Self> {
        let (read, hosted) = (Mutex::default(), Mutex::default());
        Arc::new(Self { forwarder, control, ends, options, peer_timeout, read, hosted })
    }

    pub(super) fn hosts(&self, terminator: &str) -> bool {
        self.hosted.lock().contains_key(terminator)
    }

    /// Brings the terminators in line with the services: unchanged services keep theirs, others are
    /// removed or made.
    pub(super) fn host(self: &Arc<Self>, services: &[Arc<TunnelService>]) {
        let wanted: HashMap<&str, &Arc<TunnelService>> = services
            .iter()
            .filter(|service| service.can_bind)
            .map(|service| (service.id.as_str(), service))
            .collect();
        let mut removed = Vec::new();
        let mut read = self.read.lock();
        let mut hosted = self.hosted.lock();
        read.retain(|id, known| {
            let stays = wanted.get(id.as_str()).is_some_and(|service| known.is_of(service));
            if !stays {
                if !wanted.contains_key(id.as_str()) && !known.terminators.is_empty() {
                    tracing::info!(
                        service = %known.service.name,
                        "a service is hosted no more: it was deleted, no service policy of type \
                         Bind gives it to the router, or the router stops"
                    );
                }
                for id in known.terminators.drain(..).filter_map(|(_, id)| id) {
                    if let Some(terminator) = hosted.remove(&id) {
                        terminator.over.cancel();
                        removed.push(id);
                    }
                }
            }
            stays
        });
        for service in wanted.into_values() {
            let known =
                read.entry(service.id.clone()).or_insert_with(|| Read::new(Arc::clone(service)));
            for (config, id) in &mut known.terminators {
                if id.as_ref().is_some_and(|id| hosted.contains_key(id)) {
                    continue;
                }
                let terminator = Arc::new(HostedTerminator {
                    service: Arc::clone(service),
                    config: config.clone(),
                    over: CancellationToken::new(),
                });
                let new = Uuid::new_v4().to_string();
                hosted.insert(new.clone(), Arc::clone(&terminator));
                *id = Some(new.clone());
                let this = Arc::clone(self);
                tokio::spawn(async move { this.keep(new, terminator).await });
            }
        }
        drop((hosted, read));
        if !removed.is_empty() {
            self.control.remove_terminators(removed);
        }
    }

    /// Establishes a terminator and follows the health of its application, until the terminator is
    /// removed.
    async fn keep(&self, id: String, terminator: Arc<HostedTerminator>) {
        let (service, config) = (&terminator.service, &terminator.config);
        let work = async {
            let _sources = SourceAddresses::add(config.allowed_sources.as_ref()).await;
            let terms = terminator.terms();
            let request = TerminatorRequest {
                id: id.clone(),
                host: TerminatorHost::Tunnel {
                    service: service.id.clone(),
                    end_key: self.end_key(service),
                },
                instance: config.instance(&service.identity),
                instance_secret: Bytes::new(),
                peer_data: PeerData::new(),
                cost: terms.cost,
                precedence: terms.precedence,
            };
            if let Err(refusal) = self.control.create_terminator(request).await {
                tracing::warn!(
                    service = %service.name, %refusal,
                    "a service cannot be hosted; it is tried again when the service, its config \
                     or a policy changes"
                );
                // Tried again only after a change of the service, its config or the policies.
                self.hosted.lock().remove(&id);
                return;
            }
            tracing::info!(service = %service.name, terminator = %id, "hosting a service");
            weft_tunnel::watch(terms, &config.checks, |outcome, passed| {
                self.follow(&id, service, outcome, passed);
            })
            .await;
            terminator.over.cancelled().await;
        };
        tokio::select! {
            () = work => {}
            () = terminator.over.cancelled() => {}
        }
    }

    /// Applies the outcome of a health check.
    fn follow(&self, id: &str, service: &TunnelService, outcome: CheckOutcome, passed: bool) {
        if let Some(terms) = outcome.terms {
            let (cost, precedence) = (terms.cost, terms.precedence);
            tracing::info!(service = %service.name, terminator = %id, cost, ?precedence, "a health check has set the terms of a terminator");
            let update = TerminatorUpdate { cost: Some(cost), precedence: Some(precedence) };
            self.control.update_terminator(id, update);
        }
        if outcome.event {
            self.control.health_event(id, passed);
        }
    }

    /// Dials the application of a terminator and registers the end of the circuit.
    pub(super) async fn dial(
        &self,
        circuit: &Arc<Circuit>,
        egress: &Egress,
        timeout: Duration,
    ) -> Result<PeerData, RouteError> {
        let terminator = self.hosted.lock().get(&egress.destination).cloned();
        let terminator = terminator.ok_or_else(|| RouteError {
            code: RouteErrorCode::InvalidTerminator,
            text: format!("terminator {} is not hosted here", egress.destination),
        })?;
        let data = egress.peer_data.get(&header::APP_DATA.cast_unsigned());
        let app_data = AppData::parse(data.map_or(&[][..], |data| &data[..]))
            .map_err(transport::not_connected)?;
        let keys = encryption(&terminator.service, egress)?;
        let shown = self.shown(&terminator, keys.as_ref());
        let dialing = transport::dialing_identity(egress);
        let dialer = DialingIdentity::new(dialing, &terminator.service.name);
        let connecting = terminator.config.connect(&dialer, &app_data, timeout, self.peer_timeout);
        let (shown, connected) = tokio::join!(shown, connecting);
        let shown = shown?;
        let connected = match connected.map_err(transport::not_connected)? {
            Connected::Tcp(stream) => transport::Connected::Tcp(stream),
            Connected::Udp(socket) => transport::Connected::Udp(socket),
            Connected::Resolver(names) => transport::Connected::Resolver(names),
        };
        let mut peer_data = connected.peer_data();
        let is_stream = matches!(connected, transport::Connected::Tcp(_));
        let crypto = keys.map(|keys| {
            let (crypto, told) = match shown {
                Some(shown) => {
                    let (circuit, demands) = (&*circuit.id, terminator.service.authenticated_ends);
                    let hosted = HostedConnection { circuit, claimed: dialing, demands, is_stream };
                    keys.proving(shown, hosted)
                }
                None => keys.ready(is_stream),
            };
            peer_data.extend(told);
            crypto
        });
        transport::attach(&self.forwarder, circuit, egress, connected, &self.options, crypto);
        Ok(peer_data)
    }
}

impl Hosting {
    /// The key that proves the host of a service, if its data is sealed.
    fn end_key(&self, service: &TunnelService) -> Bytes {
        let ends = self.ends.as_ref().filter(|_| service.encryption_required);
        ends.map(|ends| ends.key()).unwrap_or_default()
    }

    /// What proves this host to a dialer that proves itself, and what that dialer announces.
    async fn shown(
        &self,
        terminator: &HostedTerminator,
        keys: Option<&keys::HostHandshake>,
    ) -> Result<Option<(Shown, Announced)>, RouteError> {
        let HostedTerminator { service, config, .. } = terminator;
        let demanded = |what: &str| RouteError {
            code: RouteErrorCode::Generic,
            text: format!(
                "service {} demands that both ends prove who they are: {what}",
                service.name
            ),
        };
        let Some(dialer) = keys.and_then(keys::HostHandshake::dialer_proves) else {
            return match service.authenticated_ends {
                true => Err(demanded(
                    "the dialer has announced no proof: its program has none, or a router on the way has removed the \
                     announcement",
                )),
                false => Ok(None),
            };
        };
        let purpose = Purpose::hosts(&service.id, &config.instance(&service.identity));
        let shown = Shown::of(self.ends.as_ref(), purpose).await;
        match service.authenticated_ends && shown.is_none() {
            true => Err(demanded("the controller has stated nothing about the host's router")),
            false => Ok(shown.map(|shown| (shown, dialer))),
        }
    }
}

impl HostedTerminator {
    /// Cost and precedence of the terminator: the identity's for this service, or else those of the
    /// config, or else the identity's for all services (docs/protocol/tunnel.md 9.3).
    fn terms(&self) -> CostAndPrecedence {
        let (hosting, config) = (&self.service.hosting, &self.config);
        let said = hosting.precedence.or(config.precedence);
        CostAndPrecedence {
            cost: hosting.cost.or(config.cost).unwrap_or(hosting.default_cost),
            precedence: said.unwrap_or(hosting.default_precedence),
        }
    }
}

impl Read {
    /// The terminators that a service's configs ask for. A config with a mistake hosts nothing.
    fn new(service: Arc<TunnelService>) -> Self {
        let configs = HostConfig::read(&service.configs).unwrap_or_else(|problem| {
            tracing::warn!(
                service = %service.name, %problem,
                "a service is not hosted, because its config has a mistake"
            );
            Vec::new()
        });
        for problem in configs.iter().filter_map(|config| config.checks_problem.as_ref()) {
            tracing::warn!(
                service = %service.name, %problem,
                "health checks of a service are not made, because their config has a mistake"
            );
        }
        for problem in configs.iter().flat_map(|config| &config.left_out) {
            tracing::warn!(service = %service.name, %problem, "an entry is left out");
        }
        let terminators = configs.into_iter().map(|config| (config, None)).collect();
        Self { service, terminators }
    }

    fn is_of(&self, service: &Arc<TunnelService>) -> bool {
        Arc::ptr_eq(&self.service, service) || self.service == *service
    }
}

/// Keys for the connection, if the dialer sent one.
fn encryption(
    service: &TunnelService,
    egress: &Egress,
) -> Result<Option<keys::HostHandshake>, RouteError> {
    let keys = keys::answer(&egress.peer_data)?;
    if keys.is_none() && service.encryption_required {
        return Err(RouteError {
            code: RouteErrorCode::Generic,
            text: "the service is encrypted, but the dialer sent no key".into(),
        });
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::{self, TerminatorPrecedence};

    #[test]
    fn the_identity_has_the_last_word_on_terms() {
        let mut service = TunnelService {
            configs: [(
                "host.v1".to_owned(),
                r#"{"protocol":"tcp","address":"a","port":1,
                    "listenOptions":{"cost":10,"precedence":"required"}}"#
                    .to_owned(),
            )]
            .into(),
            ..TunnelService::default()
        };
        service.hosting.default_cost = 3;
        let terms = |service: &TunnelService| {
            let service = Arc::new(service.clone());
            let (config, _) = Read::new(Arc::clone(&service)).terminators.remove(0);
            HostedTerminator { service, config, over: CancellationToken::new() }.terms()
        };
        assert_eq!(
            terms(&service),
            CostAndPrecedence { cost: 10, precedence: TerminatorPrecedence::Required }
        );
        service.hosting.cost = Some(4);
        service.hosting.precedence = Some(TerminatorPrecedence::Failed);
        assert_eq!(
            terms(&service),
            CostAndPrecedence { cost: 4, precedence: TerminatorPrecedence::Failed }
        );
        service.hosting = seam::Hosting { default_cost: 3, ..seam::Hosting::default() };
        let plain = r#"{"protocol":"tcp","address":"a","port":1}"#;
        service.configs.insert("host.v1".to_owned(), plain.to_owned());
        assert_eq!(terms(&service).cost, 3);
    }
}
