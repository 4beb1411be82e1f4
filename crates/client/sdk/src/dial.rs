//! Dials to services (docs/protocol/sdk.md 7).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use weft_contract::entity::DialBind;
use weft_contract::resource::service::ServiceDetail;
use weft_contract::resource::service_session::SessionDetail;
use weft_e2e::ending::{self, HostKey};
use weft_e2e::ends::Statement;
use weft_e2e::proof::{Greeting, Hint};
use weft_e2e::{KeyPair, PublicKey};
use weft_spans::{Span, SpanKind, attribute};
use weft_wire::TraceContext;
use weft_wire::edge::Connect;

use crate::channel::{Dialed, RouterChannel};
use crate::circuit::Circuit;
use crate::connection::{Connection, Info};
use crate::error::{Error, Failure, Result};
use crate::exchange::Exchange;
use crate::inner::{Guard, Inner};
use crate::sealing::Keys;

/// How long known routers have for connecting before the controller is asked for newer ones.
const KNOWN_ROUTERS: Duration = Duration::from_secs(3);
/// An answer that arrives this long after the time limit still counts.
const GRACE: Duration = Duration::from_millis(100);

/// The options of a dial.
///
/// ```
/// use std::time::Duration;
/// use weft_sdk::DialOptions;
///
/// let options = DialOptions::new().instance("berlin").timeout(Duration::from_secs(5));
/// assert_eq!(options.instance.as_deref(), Some("berlin"));
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DialOptions {
    /// The instance of the service; `None` for any.
    pub instance: Option<String>,
    /// Data for the host's application.
    pub app_data: Option<Bytes>,
    /// The name of this side for the host; the name of the identity by default. Controllers of weft replace it by the
    /// name of the identity.
    pub caller_id: Option<String>,
    /// Time limit; by default that of the endpoint.
    pub timeout: Option<Duration>,
}

impl DialOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Dials this instance of the service.
    #[must_use]
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.instance = Some(instance.into());
        self
    }

    /// Sends this data to the host's application with the dial.
    #[must_use]
    pub fn app_data(mut self, data: impl Into<Bytes>) -> Self {
        self.app_data = Some(data.into());
        self
    }

    /// Gives this side another name than that of the identity. Controllers of weft replace it by the name of the identity.
    #[must_use]
    pub fn caller_id(mut self, name: impl Into<String>) -> Self {
        self.caller_id = Some(name.into());
        self
    }

    /// Dials for this long at most.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// The instance as routers are told it: empty for any.
    fn instance_or_any(&self) -> &str {
        self.instance.as_deref().unwrap_or_default()
    }
}

pub(crate) async fn dial(
    guard: &Arc<Guard>,
    service: &str,
    options: &DialOptions,
) -> Result<Connection> {
    let limit = options.timeout.unwrap_or(guard.inner.settings.dial_timeout);
    let deadline = Instant::now() + limit;
    let mut span = guard.inner.settings.spans.start("sdk.dial", SpanKind::Client, None);
    span.set(attribute::SERVICE_NAME, service);
    if let Some(instance) = &options.instance {
        span.set(attribute::INSTANCE, instance.as_str());
    }
    // Boxed, so that the application's future stays small.
    let dialed = Box::pin(dial_by(guard, service, options, deadline, &mut span));
    let dialed = tokio::time::timeout_at(deadline + GRACE, dialed).await.unwrap_or_else(|_| {
        Err(Error::Timeout { action: format!("dialing `{service}`"), limit, last: None })
    });
    match &dialed {
        Ok(connection) => {
            span.set(attribute::CIRCUIT_ID, connection.circuit_id().unwrap_or_default())
        }
        Err(error) => {
            if let Some(code) = error.code() {
                span.set(attribute::ERROR_CODE, code);
            }
            span.fail(&weft_client::chain(error));
        }
    }
    dialed
}

/// Dials; a second time with new sessions and routers if the first ones turn out to be outdated.
async fn dial_by(
    guard: &Arc<Guard>,
    name: &str,
    options: &DialOptions,
    deadline: Instant,
    span: &mut Span,
) -> Result<Connection> {
    let inner = &guard.inner;
    let (mut attempts, mut refused) = (0u32, None);
    loop {
        attempts += 1;
        let begun = Instant::now();
        span.set(attribute::ATTEMPTS, attempts);
        let service = inner.account.service(name, DialBind::Dial).await?;
        let session = inner.account.session(&service, DialBind::Dial).await?;
        span.set(attribute::SERVICE_ID, &service.base.id);
        span.event("session known");
        let statement = statement(inner, &service, &session);
        let routed =
            route(inner, &service, Arc::clone(&session), begun, refused.as_ref(), deadline);
        let (own, routed) = tokio::join!(statement, routed);
        let (session, channel) = routed?;
        span.event("router connected");
        let trace = span.context();
        let target = DialTarget { session: &session, channel: &channel, own };
        let failure = match connect(guard, &service, target, options, trace).await? {
            Ok(connection) => return Ok(connection),
            Err(failure) => failure,
        };
        let again = match &failure {
            Failure::Refused(refusal) => refusal.is_stale_session(),
            Failure::Channel(_) => true,
        };
        if attempts > 1 || !again {
            return Err(Error::of_failure(name, failure));
        }
        tracing::debug!(service = name, %failure, "a dial failed and is repeated with new sessions and routers");
        if let Failure::Refused(_) = failure {
            inner.account.forget_session(&service.base.id, DialBind::Dial);
            inner.account.check_session().await?;
            // A router that drains refuses sessions, too.
            refused = Some(channel);
        }
    }
}

/// The controller's statement about this end, if the data of the service is sealed.
async fn statement(
    inner: &Inner,
    service: &ServiceDetail,
    session: &SessionDetail,
) -> Option<Arc<Statement>> {
    match service.encryption_required {
        true => inner.ends.statement(&inner.account, &session.base.id, "").await,
        false => None,
    }
}

/// The session and the router over which a service is dialed.
struct DialTarget<'a> {
    session: &'a SessionDetail,
    channel: &'a RouterChannel,
    /// The controller's statement about this end.
    own: Option<Arc<Statement>>,
}

/// A router for the session; newer ones are asked for if the known ones cannot be reached, and were known when the
/// attempt began.
async fn route(
    inner: &Arc<Inner>,
    service: &ServiceDetail,
    session: Arc<SessionDetail>,
    begun: Instant,
    refused: Option<&Arc<RouterChannel>>,
    deadline: Instant,
) -> Result<(Arc<SessionDetail>, Arc<RouterChannel>)> {
    let soon = deadline.min(Instant::now() + KNOWN_ROUTERS);
    match inner.pick(&service.name, &session.edge_routers, refused, soon).await {
        Err(Error::NoEdgeRouters { .. }) => {}
        picked => return Ok((session, picked?)),
    }
    let session = inner.account.session_since(service, DialBind::Dial, begun).await?;
    let channel = inner.pick(&service.name, &session.edge_routers, refused, deadline).await?;
    Ok((session, channel))
}

/// One dial over one router.
async fn connect(
    guard: &Arc<Guard>,
    service: &ServiceDetail,
    DialTarget { session, channel, own: statement }: DialTarget<'_>,
    options: &DialOptions,
    trace: Option<TraceContext>,
) -> Result<Result<Connection, Failure>> {
    let inner = &guard.inner;
    let own = own_keys(service)?;
    check_own(service, statement.is_some())?;
    let caller_id = options.caller_id.clone().or_else(|| inner.account.identity_name());
    let hint = statement.as_deref().map(|own| inner.ends.own().dialer_hint(own));
    let request = Connect {
        conn_id: None,
        token: Bytes::from(session.token.clone()),
        public_key: own.as_ref().map(|own| Bytes::copy_from_slice(own.public_key().as_bytes())),
        instance: options.instance_or_any().to_owned(),
        caller_id: Some(Bytes::from(caller_id.clone().unwrap_or_default())),
        app_data: options.app_data.clone(),
        marker: Some(Bytes::from(marker(own.is_some(), hint.as_ref()))),
        stickiness: inner.stickiness(&service.base.id, options.instance_or_any()),
        use_xgress: inner.settings.own_flow_control,
        router_conn_ids: false,
    };
    let (circuit, connected): Dialed = match channel.connect(request, trace).await {
        Ok(dialed) => dialed,
        Err(failure) => return Ok(Err(failure)),
    };
    inner.set_stickiness(&service.base.id, options.instance_or_any(), connected.stickiness);
    let refused = |problem| {
        circuit.abort();
        Error::Encryption { service: service.name.clone(), problem }
    };
    let sealed = match own {
        None => None,
        Some(own) => {
            let keys = keys(&own, connected.public_key.as_ref(), statement);
            Some(keys.map_err(refused)?)
        }
    };
    let unproved = |circuit: &Circuit| {
        circuit.abort();
        Error::Unproved { service: service.name.clone(), problem: NO_ANNOUNCEMENT.to_owned() }
    };
    let info = Info {
        service: service.name.clone(),
        circuit_id: known_id(&circuit),
        caller_id,
        dialer_identity: None,
        dialer_name: None,
        app_data: options.app_data.clone(),
    };
    let (keys, proof) = sealed.map_or((None, None), |(keys, proof)| (Some(keys), proof));
    let (Some(keys), Some(Proving { own, public, host })) = (&keys, proof) else {
        let id = &service.base.id;
        if service.authenticated_ends || !inner.admits_unproved(id, &circuit) {
            return Err(unproved(&circuit));
        }
        return Ok(Ok(Connection::new(circuit, keys, info, Arc::clone(guard))));
    };
    // The dial may be given up meanwhile.
    let pending = Unproved(Some(&circuit));
    let exchange = Exchange {
        circuit: circuit.id(),
        ends: &inner.ends,
        account: &inner.account,
        own: &own,
        service: &service.base.id,
        public,
        fresh: host.fresh,
        keys: &keys.session,
    };
    let outcome =
        exchange.dial(&circuit, &host, options.instance_or_any()).await.map_err(refused)?;
    pending.proved();
    Ok(Ok(Connection::opened(circuit, outcome, info, Arc::clone(guard))))
}

/// The circuit's id, if the router sends it.
pub(crate) fn known_id(circuit: &Circuit) -> Option<Arc<str>> {
    Some(Arc::clone(circuit.id())).filter(|id| !id.is_empty())
}

/// What is wrong with a host that did not say that it proves itself.
const NO_ANNOUNCEMENT: &str = "the host has announced no proof: its program has none, or a router on the way has removed \
                               the announcement, as one of OpenZiti before 2.1 at the host does";

/// Checks that this end can prove itself if the service demands it.
fn check_own(service: &ServiceDetail, has_statement: bool) -> Result<()> {
    if !service.authenticated_ends || has_statement {
        return Ok(());
    }
    let problem = "the controller has stated nothing about this end, without which it cannot prove itself; try again, and \
                   see the log of the controller";
    Err(Error::Unproved { service: service.name.clone(), problem: problem.to_owned() })
}

/// A circuit whose host has not proved itself; given up when dropped.
struct Unproved<'a>(Option<&'a Circuit>);

impl Unproved<'_> {
    fn proved(mut self) {
        self.0 = None;
    }
}

impl Drop for Unproved<'_> {
    fn drop(&mut self) {
        if let Some(circuit) = self.0 {
            circuit.abort();
        }
    }
}

/// What a proof of both ends needs beside the keys.
struct Proving {
    own: Arc<Statement>,
    public: (PublicKey, PublicKey),
    host: Greeting,
}

/// The keys of the connection, and what a proof of both ends needs, if the host gives one.
fn keys(
    own: &KeyPair,
    host: Option<&Bytes>,
    statement: Option<Arc<Statement>>,
) -> Result<(Keys, Option<Proving>), String> {
    let key = host.ok_or("the host sent no key")?;
    let host = HostKey::read(key).map_err(|error| error.to_string())?;
    let session = own.client_session(&host.key).map_err(|error| error.to_string())?;
    let public = (own.public_key(), host.key);
    let proving = match (host.proves, statement) {
        (Some(host), Some(own)) => Some(Proving { own, public, host }),
        (Some(_), None) => return Err("the host answers with a proof that was not offered".into()),
        (None, _) => None,
    };
    Ok((Keys::new(session, host.seals_end, host.seals_end), proving))
}

/// The key pair of this side, if the service demands encryption.
pub(crate) fn own_keys(service: &ServiceDetail) -> Result<Option<KeyPair>> {
    let keys = service.encryption_required.then(|| KeyPair::generate(&mut rand::rng()));
    keys.transpose().map_err(|error| {
        let (service, problem) = (service.name.clone(), error.to_string());
        Error::Encryption { service, problem }
    })
}

/// A short random name for logs (docs/protocol/sdk.md 5, header 1025). For a connection that is
/// sealed, it also says that its end is sealed, and the hint of an end that proves itself.
fn marker(is_sealed: bool, proves: Option<&Hint>) -> String {
    let name = format!("{:08x}", rand::random::<u32>());
    if is_sealed { ending::marker(&name, proves) } else { name }
}
