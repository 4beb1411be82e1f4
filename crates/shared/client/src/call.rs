//! Calls of the contract's operations, with a session, over one API of one controller.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;
use weft_contract::envelope::{Envelope, MAX_LIMIT, Pagination};
use weft_contract::{Api, Method, Operation, headers};
use weft_identity::{Identity, KeyedChain, LiveIdentity};

use crate::address::ControllerAddress;
use crate::error::{Error, Result};
use crate::http::{Http, HttpResponse, MAX_WAIT, Outgoing, SHORT_WAIT, Tls};
use crate::oidc::Tokens;

/// Query parameters of a call.
pub type QueryPairs<'a> = [(&'a str, &'a str)];

/// Most pages of one list: 200,000 entities. A list that has not ended by then is an error, so that a
/// server cannot keep a caller reading for ever.
const MAX_PAGES: usize = 400;

/// A token of an external signer. Its text reaches no log.
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalToken(String);

impl ExternalToken {
    /// A token from its text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// The value of the header that has the token.
    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl std::fmt::Debug for ExternalToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ExternalToken(..)")
    }
}

/// One page of a list.
#[derive(Clone, Debug)]
pub struct ListPage<T> {
    /// The entities on the page.
    pub items: Vec<T>,
    /// Position of the page in the list.
    pub pagination: Option<Pagination>,
    /// Controllers that have not told their part of the list, by their ids.
    pub missing_controllers: Vec<String>,
    /// How the controller found the list, if the query asked for it.
    pub explained: Option<String>,
}

/// The session of a client. Its token reaches no log.
enum Session {
    /// An opaque token, or an access token that somebody else refreshes.
    Token(String),
    /// The tokens of OpenID Connect.
    Tokens(Box<Tokens>),
}

impl Session {
    fn token(&self) -> &str {
        match self {
            Self::Token(token) => token,
            Self::Tokens(tokens) => tokens.access(),
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Session(..)")
    }
}

/// The tokens of external signers that a client shows.
#[derive(Clone, Debug, Default)]
struct ExternalShown {
    /// The token that the client logged in with.
    login: Option<ExternalToken>,
    /// The second factor beside the session.
    second: Option<ExternalToken>,
}

/// The beginning of access tokens, by which controllers and routers tell them from opaque tokens.
const SIGNED: &str = "ey";

/// Calls the operations of one API of one controller, with a session once there is one.
#[derive(Debug)]
pub(crate) struct Caller {
    http: RwLock<Http>,
    /// The trust, and the certificate that is shown.
    identity: Arc<LiveIdentity>,
    /// The certificate that was made for a session of this client.
    made: RwLock<Option<KeyedChain>>,
    address: ControllerAddress,
    api: Api,
    session: RwLock<Option<Session>>,
    /// Counts the sessions and tokens that this client has had.
    changes: watch::Sender<u64>,
    /// Tokens of external signers, which go with every request.
    external: RwLock<ExternalShown>,
}

impl Caller {
    pub(crate) fn new(address: ControllerAddress, api: Api, tls: &Tls) -> Result<Self> {
        let identity = match tls {
            Tls::Identity(identity) => Arc::clone(identity),
            Tls::Anonymous(trust) => {
                LiveIdentity::fixed(Identity::new(None, Vec::new(), trust.clone()))
            }
        };
        let http = RwLock::new(Http::new(&Tls::Identity(Arc::clone(&identity)))?);
        let (session, external) = (RwLock::new(None), RwLock::default());
        let changes = watch::Sender::default();
        let made = RwLock::default();
        Ok(Self { http, identity, made, address, api, session, changes, external })
    }

    /// The present connections.
    pub(crate) fn http(&self) -> Http {
        self.http.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows this certificate from now on.
    pub(crate) fn present(&self, chain: KeyedChain) -> Result<()> {
        *self.made.write().unwrap_or_else(PoisonError::into_inner) = Some(chain.clone());
        self.show(chain)
    }

    /// Shows the certificate that was made for the present session, if there is one: another client of the same identity may
    /// have shown its own meanwhile.
    pub(crate) fn present_again(&self) -> Result<()> {
        match self.made().filter(|_| self.has_session()) {
            Some(chain) => self.show(chain),
            None => Ok(()),
        }
    }

    /// The certificate that was made for a session of this client.
    pub(crate) fn made(&self) -> Option<KeyedChain> {
        self.made.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn show(&self, chain: KeyedChain) -> Result<()> {
        let trust = self.identity.current().ca().clone();
        self.identity.replace(Identity::new(Some(chain), Vec::new(), trust));
        self.reconnect()
    }

    /// The name in the certificate that is shown: the id of the identity.
    pub(crate) fn certificate_name(&self) -> Option<String> {
        self.identity.current().name().map(str::to_owned)
    }

    /// Makes new connections from now on. Those that are open show the certificate that was in use when
    /// they were made.
    pub(crate) fn reconnect(&self) -> Result<()> {
        let http = Http::new(&Tls::Identity(Arc::clone(&self.identity)))?;
        *self.http.write().unwrap_or_else(PoisonError::into_inner) = http;
        Ok(())
    }

    pub(crate) fn address(&self) -> &ControllerAddress {
        &self.address
    }

    /// True if there is a session token.
    pub(crate) fn has_session(&self) -> bool {
        self.held(|_| ()).is_some()
    }

    /// The session token, if there is one.
    pub(crate) fn session(&self) -> Option<String> {
        self.held(|session| session.token().to_owned())
    }

    /// A text that stays the same as long as the session is the same one.
    pub(crate) fn session_key(&self) -> Option<String> {
        self.held(|session| match session {
            Session::Token(token) => token.clone(),
            Session::Tokens(tokens) => tokens.session().to_owned(),
        })
    }

    /// The tokens of the session, if it is one by OpenID Connect.
    pub(crate) fn tokens(&self) -> Option<Tokens> {
        self.held(|session| match session {
            Session::Tokens(tokens) => Some((**tokens).clone()),
            Session::Token(_) => None,
        })?
    }

    /// What is wanted of the session, if there is one.
    fn held<T>(&self, of: impl FnOnce(&Session) -> T) -> Option<T> {
        self.session.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(of)
    }

    pub(crate) fn set_session(&self, token: Option<String>) {
        self.hold(token.map(Session::Token));
    }

    pub(crate) fn set_tokens(&self, tokens: Tokens) {
        self.hold(Some(Session::Tokens(Box::new(tokens))));
    }

    fn hold(&self, session: Option<Session>) {
        *self.session.write().unwrap_or_else(PoisonError::into_inner) = session;
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Changes with every other session and token.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Sends a token of an external signer with every request from now on, as login.
    pub(crate) fn set_external_token(&self, token: Option<ExternalToken>) {
        self.external.write().unwrap_or_else(PoisonError::into_inner).login = token;
    }

    /// Sends a token of an external signer with every request from now on, as second factor beside the session.
    pub(crate) fn set_second_token(&self, token: Option<ExternalToken>) {
        self.external.write().unwrap_or_else(PoisonError::into_inner).second = token;
    }

    /// The token that is the second factor beside the session.
    pub(crate) fn second_token(&self) -> Option<ExternalToken> {
        self.external.read().unwrap_or_else(PoisonError::into_inner).second.clone()
    }

    /// Runs an operation and returns the `data` of its answer.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        operation: &Operation,
        ids: &[&str],
        query: &QueryPairs<'_>,
        body: Option<&Value>,
    ) -> Result<T> {
        self.call_in(self.api, operation, ids, query, body).await
    }

    /// [`Caller::call`] without the session.
    pub(crate) async fn call_without_session<T: DeserializeOwned>(
        &self,
        operation: &Operation,
        query: &QueryPairs<'_>,
        body: Option<&Value>,
    ) -> Result<T> {
        let answer = self.send_in(None, self.api, operation, &[], query, json(body)).await?;
        answer.envelope().map(|envelope: Envelope<T>| envelope.data)
    }

    /// [`Caller::call`] with the session of this token, for operations without ids.
    pub(crate) async fn call_with<T: DeserializeOwned>(
        &self,
        token: &str,
        operation: &Operation,
        body: Option<&Value>,
    ) -> Result<T> {
        let session = Some(token.to_owned());
        let answer = self.send_in(session, self.api, operation, &[], &[], json(body)).await?;
        answer.envelope().map(|envelope: Envelope<T>| envelope.data)
    }

    /// [`Caller::call`] over another API of the same controller, with the same session.
    pub(crate) async fn call_in<T: DeserializeOwned>(
        &self,
        api: Api,
        operation: &Operation,
        ids: &[&str],
        query: &QueryPairs<'_>,
        body: Option<&Value>,
    ) -> Result<T> {
        let answer = self.send(api, operation, ids, query, json(body)).await?;
        answer.envelope().map(|envelope: Envelope<T>| envelope.data)
    }

    /// Runs an operation with a body of any media type and returns the body of the answer unread.
    pub(crate) async fn raw_in(
        &self,
        api: Api,
        operation: &Operation,
        ids: &[&str],
        query: &QueryPairs<'_>,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<Vec<u8>> {
        Ok(self.send(api, operation, ids, query, body).await?.accept()?.body)
    }

    /// The first page of a list of the client API that needs no session.
    pub(crate) async fn list_anonymously<T: DeserializeOwned>(
        &self,
        operation: &Operation,
    ) -> Result<Vec<T>> {
        let limit = MAX_LIMIT.to_string();
        let query = [("limit", limit.as_str())];
        let answer = self.send_in(None, Api::Client, operation, &[], &query, None).await?;
        answer.envelope().map(|envelope: Envelope<Vec<T>>| envelope.data)
    }

    /// One page of a list.
    pub(crate) async fn page<T: DeserializeOwned>(
        &self,
        operation: &Operation,
        ids: &[&str],
        query: &QueryPairs<'_>,
    ) -> Result<ListPage<T>> {
        self.page_in(self.api, operation, ids, query).await
    }

    /// [`Caller::page`] over another API.
    pub(crate) async fn page_in<T: DeserializeOwned>(
        &self,
        api: Api,
        operation: &Operation,
        ids: &[&str],
        query: &QueryPairs<'_>,
    ) -> Result<ListPage<T>> {
        let answer = self.send(api, operation, ids, query, None).await?;
        let explained = answer.headers.get(headers::EXPLAINED);
        let explained = explained.and_then(|text| text.to_str().ok()).map(str::to_owned);
        let envelope: Envelope<Vec<T>> = answer.envelope()?;
        let Envelope { data: items, meta } = envelope;
        let missing_controllers = meta.missing_controllers;
        Ok(ListPage { items, pagination: meta.pagination, missing_controllers, explained })
    }

    /// The entities of every page of a list. A filter with a `limit` or `skip` of its own is sent once.
    pub(crate) async fn list_all<T: DeserializeOwned>(
        &self,
        operation: &Operation,
        ids: &[&str],
        query: &QueryPairs<'_>,
    ) -> Result<Vec<T>> {
        let mut all = Vec::new();
        for _ in 0..MAX_PAGES {
            let (limit, offset) = (MAX_LIMIT.to_string(), all.len().to_string());
            let mut paged = query.to_vec();
            paged.extend([("limit", limit.as_str()), ("offset", offset.as_str())]);
            let page = self.page(operation, ids, &paged).await?;
            let got = page.items.len();
            all.extend(page.items);
            let total = page.pagination.map_or(0, |at| at.total_count);
            // The page begins or ends elsewhere than asked: the filter has paging of its own.
            let own = page
                .pagination
                .is_some_and(|at| at.limit != MAX_LIMIT || at.offset.to_string() != offset);
            if got == 0 || own || i64::try_from(all.len()).unwrap_or(i64::MAX) >= total {
                return Ok(all);
            }
        }
        Err(Error::Answer {
            url: format!("{}{}", self.address, operation.path),
            status: 200,
            reason: format!("the list does not end after {MAX_PAGES} pages"),
        })
    }

    async fn send(
        &self,
        api: Api,
        operation: &Operation,
        ids: &[&str],
        query: &QueryPairs<'_>,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<HttpResponse> {
        self.send_in(self.session(), api, operation, ids, query, body).await
    }

    async fn send_in(
        &self,
        session: Option<String>,
        api: Api,
        operation: &Operation,
        ids: &[&str],
        query: &QueryPairs<'_>,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<HttpResponse> {
        let mut url = self.address.at(api, &operation.fill(ids)?)?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let session = session.map(|token| match token.starts_with(SIGNED) {
            true => (headers::AUTHORIZATION, format!("Bearer {token}")),
            false => (headers::SESSION, token),
        });
        let external = self.external.read().unwrap_or_else(PoisonError::into_inner).clone();
        let external = external.login.into_iter().chain(external.second);
        let external = external.map(|token| (headers::AUTHORIZATION, token.bearer()));
        let body = match body {
            Some(body) => Some(body),
            // Servers require a JSON body on these methods, even an empty one.
            None if matches!(operation.method, Method::Post | Method::Put | Method::Patch) => {
                Some((headers::JSON, b"{}".to_vec()))
            }
            None => None,
        };
        let accept = ("accept", format!("{}, */*;q=0.5", headers::JSON));
        let request = Outgoing {
            method: operation.method,
            url,
            headers: session.into_iter().chain(external).chain([accept]).collect(),
            body,
            load: operation.load,
            patience: patience(operation, query),
        };
        self.http().send(&request).await
    }
}

/// Operations whose caller decides about another try.
const ASKED_AGAIN: &[&str] = &["createDatabaseSnapshot", "createDatabaseSnapshotWithPath"];

/// Longest wait before another try. It is short for a snapshot, and for a login by password, which the
/// controller holds back because it may be a guess.
fn patience(operation: &Operation, query: &QueryPairs<'_>) -> Duration {
    let is_asked_again =
        ASKED_AGAIN.contains(&operation.id) || query.contains(&("method", "password"));
    if is_asked_again { SHORT_WAIT } else { MAX_WAIT }
}

/// A value as the body of a request.
fn json(body: Option<&Value>) -> Option<(&'static str, Vec<u8>)> {
    body.map(|value| (headers::JSON, value.to_string().into_bytes()))
}

/// A body type of the contract as JSON.
pub(crate) fn to_value<B: serde::Serialize>(body: &B) -> Result<Value> {
    serde_json::to_value(body).map_err(|error| Error::Request(error.to_string()))
}

/// The operation with this id; an error if the tables hold none.
pub(crate) fn row(api: Api, id: &'static str) -> Result<&'static Operation> {
    weft_contract::resource::operation(api, id)
        .ok_or_else(|| Error::Request(format!("there is no operation {id} in {api}")))
}
