//! The client API, for applications: log in, list services, ask for sessions.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use weft_contract::resource::authenticator::{ExtendBody, ExtendVerifyBody, ExtendedCerts};
use weft_contract::resource::edge_router::OwnEdgeRouterDetail;
use weft_contract::resource::identity::IdentityDetail;
use weft_contract::resource::posture_check::{PostureResponseBody, PostureResponseDetail};
use weft_contract::resource::server::Version;
use weft_contract::resource::service::{ALL_CONFIG_TYPES, ServiceDetail};
use weft_contract::resource::service_session::{EndStatement, SessionBody, SessionDetail};
use weft_contract::resource::session::{ApiSessionDetail, ServiceUpdates};
use weft_contract::{Api, Empty, Timestamp};
use weft_identity::{IdentityFile, LiveIdentity};

use crate::address::ControllerAddress;
use crate::authenticate::{Means, authenticate, certificate_of, refresh};
use crate::call::{Caller, ExternalToken, QueryPairs, row, to_value};
use crate::credentials::{About, Credentials};
use crate::error::{ApiError, Error, FactorProblem, Result, chain};
use crate::http::Tls;
use crate::oidc::LoginProtocol;
use crate::second_factor::{self, CodePurpose, Codes};
use crate::second_tokens::SecondTokens;

const API: Api = Api::Client;
/// When a certificate that was made for a session, which lasts for twelve hours, is made anew.
const CERTIFICATE_DUE: Duration = Duration::from_secs(6 * 3600);

/// A client of the client API.
///
/// When a call is refused because the session has ended, the client logs in again, once per call. Calls
/// that are refused together share one login.
#[derive(Debug)]
pub struct ClientApi {
    caller: Caller,
    login: Mutex<Option<(Credentials, About)>>,
    /// When the certificate that was made for an opaque session is to be made anew.
    certificate_due: Mutex<Option<Instant>>,
    /// Held during a login, so that there is one at a time.
    one_login: tokio::sync::Mutex<()>,
    means: Means,
}

/// What a request shows of its client.
#[derive(PartialEq, Eq)]
struct Shown {
    session: Option<String>,
    second: Option<ExternalToken>,
}

impl ClientApi {
    /// A client of the controller at this address, without a login.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new(address: ControllerAddress, tls: &Tls) -> Result<Self> {
        let caller = Caller::new(address, API, tls)?;
        let (login, one_login) = (Mutex::new(None), tokio::sync::Mutex::new(()));
        Ok(Self {
            caller,
            login,
            certificate_due: Mutex::default(),
            one_login,
            means: Means::default(),
        })
    }

    /// Logins use this protocol.
    #[must_use]
    pub fn with_protocol(mut self, protocol: LoginProtocol) -> Self {
        self.means.protocol = protocol;
        self
    }

    /// Sessions of logins without a certificate get one of their own, for a key of this client: routers ask for it.
    #[must_use]
    pub fn for_routers(mut self) -> Self {
        self.means.is_for_routers = true;
        self
    }

    /// Logins and posture checks that ask for a code of the second factor get one of these.
    #[must_use]
    pub fn with_codes(mut self, codes: Option<Codes>) -> Self {
        self.means.factors.codes = codes;
        self
    }

    /// Logins that ask for a token of an external signer as second factor get one of these. Where the controller wants to see
    /// it with each request, another one is asked for once it has ended.
    #[must_use]
    pub fn with_second_tokens(mut self, tokens: SecondTokens) -> Self {
        self.means.factors.tokens = tokens;
        self
    }

    /// Makes new connections from now on, with the certificate that the identity has now.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn reconnect(&self) -> Result<()> {
        self.caller.reconnect()
    }

    /// Shows the certificate that was made for the session of this client again, if it has one. Clients of several
    /// controllers that share an identity each have one of their own, and the last one to log in shows its own.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn present_again(&self) -> Result<()> {
        self.caller.present_again()
    }

    /// A client of the first controller that an identity file names, as that identity.
    ///
    /// # Errors
    /// When the file names no controller, or its key and certificates cannot be loaded.
    pub fn of_identity(file: &IdentityFile) -> Result<Self> {
        let first = file.controllers().next().unwrap_or_default();
        let identity = LiveIdentity::load(file.section())?;
        Self::new(first.parse()?, &Tls::Identity(identity))
    }

    /// Address of the controller.
    #[must_use]
    pub fn address(&self) -> &ControllerAddress {
        self.caller.address()
    }

    /// True once logged in.
    #[must_use]
    pub fn is_logged_in(&self) -> bool {
        self.caller.has_session()
    }

    /// The token of the session, once logged in: an opaque or an access token. Routers are shown it.
    #[must_use]
    pub fn token(&self) -> Option<String> {
        self.caller.session()
    }

    /// A text that stays the same as long as the session is the same one, whatever its tokens are.
    #[must_use]
    pub fn session_key(&self) -> Option<String> {
        self.caller.session_key()
    }

    /// Changes with every other session and token.
    #[must_use]
    pub fn session_changes(&self) -> watch::Receiver<u64> {
        self.caller.changes()
    }

    /// When [`ClientApi::refresh`] is due; `None` if the session needs none.
    #[must_use]
    pub fn refresh_due(&self) -> Option<Instant> {
        let tokens = self.caller.tokens().map(|tokens| tokens.due());
        let certificate = *self.certificate_due.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.or(certificate.filter(|_| self.caller.has_session()))
    }

    /// Refreshes what the session would end without: the tokens, or the certificate that was made for it. If it cannot be
    /// refreshed any more, the client logs in again.
    ///
    /// # Errors
    /// When the controller cannot be reached, or refuses the login.
    pub async fn refresh(&self) -> Result<()> {
        let _one = self.one_login.lock().await;
        if self.refresh_due().is_none_or(|due| Instant::now() < due) {
            return Ok(());
        }
        let Some((credentials, about)) = self.remembered().clone() else { return Ok(()) };
        if self.caller.tokens().is_some() {
            let done = refresh(&self.caller, API, &credentials, &about, &self.means).await;
            self.note_certificate(&credentials);
            return done;
        }
        let token = self.caller.session().unwrap_or_default();
        certificate_of(&self.caller, API, &token, &self.means).await?;
        self.note_certificate(&credentials);
        Ok(())
    }

    /// Notes that the session has a new certificate, if it has one.
    fn note_certificate(&self, credentials: &Credentials) {
        let has_own = matches!(credentials, Credentials::Certificate);
        let is_made = self.means.is_for_routers && !has_own && self.caller.tokens().is_none();
        *self.certificate_due.lock().unwrap_or_else(PoisonError::into_inner) =
            is_made.then(|| Instant::now() + CERTIFICATE_DUE);
    }

    /// Logs in and keeps the credentials for the next login.
    ///
    /// # Errors
    /// When the controller refuses, or demands a second factor that is not given.
    pub async fn login(&self, credentials: Credentials, about: About) -> Result<ApiSessionDetail> {
        let _one = self.one_login.lock().await;
        let session = authenticate(&self.caller, API, &credentials, &about, &self.means).await?;
        self.note_certificate(&credentials);
        *self.remembered() = Some((credentials, about));
        Ok(session)
    }

    /// Logs in with the credentials of the last login.
    async fn authenticate_again(&self) -> Result<ApiSessionDetail> {
        let Some((credentials, about)) = self.remembered().clone() else {
            return Err(Error::Request("there was no login before".to_owned()));
        };
        let session = authenticate(&self.caller, API, &credentials, &about, &self.means).await?;
        self.note_certificate(&credentials);
        Ok(session)
    }

    /// Gives the controller a new code of the second factor, which posture checks ask for. `identity` is
    /// told to the supplier of codes.
    ///
    /// # Errors
    /// [`Error::SecondFactor`] without a code that the controller takes; others as
    /// [`ClientApi::call`].
    pub async fn prove(&self, identity: Option<String>) -> Result<()> {
        let codes =
            self.means.factors.codes.as_ref().ok_or(Error::SecondFactor(FactorProblem::NoCode))?;
        let token = self.token().unwrap_or_default();
        let purpose = CodePurpose::PostureCheck;
        second_factor::give(&self.caller, API, &token, codes, identity, purpose).await
    }

    /// Asks for a new certificate in place of the one that this client shows. The new one counts once
    /// [`ClientApi::extend_verify`] has confirmed it.
    ///
    /// # Errors
    /// As [`ClientApi::call`].
    pub async fn extend(&self, authenticator: &str, request: String) -> Result<ExtendedCerts> {
        let body = to_value(&ExtendBody { client_cert_csr: Some(request) })?;
        self.call("extendCurrentIdentityAuthenticator", &[authenticator], &[], Some(&body)).await
    }

    /// Confirms that a new certificate has arrived. The former one does not count any more.
    ///
    /// # Errors
    /// As [`ClientApi::call`].
    pub async fn extend_verify(&self, authenticator: &str, certificate: String) -> Result<()> {
        let body = to_value(&ExtendVerifyBody { client_cert: Some(certificate) })?;
        let operation = "extendVerifyCurrentIdentityAuthenticator";
        let _: Empty = self.call(operation, &[authenticator], &[], Some(&body)).await?;
        Ok(())
    }

    /// Ends the session.
    ///
    /// # Errors
    /// When the controller cannot be reached.
    pub async fn logout(&self) -> Result<()> {
        *self.remembered() = None;
        let row = row(API, "deleteCurrentAPISession")?;
        let _: Empty = self.caller.call(row, &[], &[], None).await?;
        self.caller.set_session(None);
        self.caller.set_second_token(None);
        Ok(())
    }

    /// Version, capabilities and API addresses of the controller; needs no login.
    ///
    /// # Errors
    /// As [`ClientApi::call`].
    pub async fn version(&self) -> Result<Version> {
        self.caller.call(row(API, "listVersion")?, &[], &[], None).await
    }

    /// The API session of this client. The request keeps the session alive.
    ///
    /// # Errors
    /// As [`ClientApi::call`].
    pub async fn current_session(&self) -> Result<ApiSessionDetail> {
        self.call("getCurrentAPISession", &[], &[], None).await
    }

    /// The identity that is logged in.
    ///
    /// # Errors
    /// As [`ClientApi::call`].
    pub async fn current_identity(&self) -> Result<IdentityDetail> {
        self.call("getCurrentIdentity", &[], &[], None).await
    }

    /// The routers the caller may connect to.
    ///
    /// # Errors
    /// As [`ClientApi::call`].
    pub async fn edge_routers(&self) -> Result<Vec<OwnEdgeRouterDetail>> {
        self.list("getCurrentIdentityEdgeRouters", &[], &[]).await
    }

    /// The services the caller may dial or host, with their configs of the types that the login
    /// named ([`About::config_types`]), or of all types if it named none.
    ///
    /// # Errors
    /// As [`ClientApi::call`].
    pub async fn services(&self) -> Result<Vec<ServiceDetail>> {
        self.list("listServices", &[], &self.config_types()).await
    }

    /// The service of this name, if the caller may dial or host it, with its configs as in
    /// [`ClientApi::services`].
    ///
    /// # Errors
    /// As [`ClientApi::call`].
    pub async fn service_named(&self, name: &str) -> Result<Option<ServiceDetail>> {
        let filter = format!("name = {}", weft_contract::filter_text(name));
        let mut query = self.config_types();
        query.push(("filter", filter.as_str()));
        let found: Vec<ServiceDetail> = self.list("listServices", &[], &query).await?;
        Ok(found.into_iter().find(|service| service.name == name))
    }

    /// Time of the last change of the caller's services: they are worth listing again if it
    /// differs.
    ///
    /// # Errors
    /// As [`ClientApi::call`].
    pub async fn services_changed_at(&self) -> Result<Timestamp> {
        let updates: ServiceUpdates = self.call("listServiceUpdates", &[], &[], None).await?;
        Ok(updates.last_change_at)
    }

    /// Makes a service session: the permission to dial or host a service.
    ///
    /// # Errors
    /// As [`ClientApi::call`].
    pub async fn create_session(
        &self,
        service: &str,
        session_type: weft_contract::entity::DialBind,
    ) -> Result<SessionDetail> {
        let body = SessionBody {
            service_id: Some(service.to_owned()),
            session_type: Some(session_type),
            tags: None,
        };
        self.call("createSession", &[], &[], Some(&to_value(&body)?)).await
    }

    /// A service session with its current routers.
    ///
    /// # Errors
    /// As [`ClientApi::call`].
    pub async fn session(&self, id: &str) -> Result<SessionDetail> {
        self.call("detailSession", &[id], &[], None).await
    }

    /// The controller's statement about this client as the end of a service session, for the other end; `instance` is the
    /// one that it hosts, or empty. Only weft's controllers give one, if the login named a key ([`About::end_key`]).
    ///
    /// # Errors
    /// As [`ClientApi::call`].
    pub async fn end_statement(&self, session: &str, instance: &str) -> Result<EndStatement> {
        let instance = [("instance", instance)];
        let query = if instance[0].1.is_empty() { &[][..] } else { &instance[..] };
        self.call("stateSessionEnd", &[session], query, None).await
    }

    /// Tells the controller about this device, as answers to posture checks. A controller takes 1,000
    /// answers at once. Returns the services that need a new code of the second factor.
    ///
    /// # Errors
    /// As [`ClientApi::call`].
    pub async fn report_posture(
        &self,
        answers: &[PostureResponseBody],
    ) -> Result<PostureResponseDetail> {
        self.call("createPostureResponseBulk", &[], &[], Some(&to_value(&answers)?)).await
    }

    /// Runs an operation of the client API, by its id. If the session has ended, the client logs in
    /// again, once.
    ///
    /// # Errors
    /// [`Error::Api`] with the controller's answer when it refuses; other errors when it was not
    /// reached or its answer cannot be read.
    pub async fn call<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        ids: &[&str],
        query: &QueryPairs<'_>,
        body: Option<&Value>,
    ) -> Result<T> {
        let row = row(API, operation)?;
        let tried = self.shown();
        match self.caller.call(row, ids, query, body).await {
            Err(error) if error.is_unauthorized() => match self.renew(&error, &tried).await? {
                true => self.caller.call(row, ids, query, body).await,
                false => Err(error),
            },
            done => done,
        }
    }

    async fn list<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        ids: &[&str],
        query: &QueryPairs<'_>,
    ) -> Result<Vec<T>> {
        let row = row(API, operation)?;
        let tried = self.shown();
        match self.caller.list_all(row, ids, query).await {
            Err(error) if error.is_unauthorized() => match self.renew(&error, &tried).await? {
                true => self.caller.list_all(row, ids, query).await,
                false => Err(error),
            },
            done => done,
        }
    }

    /// What the next request shows.
    fn shown(&self) -> Shown {
        Shown { session: self.caller.session(), second: self.caller.second_token() }
    }

    /// Returns true if there is another session or second token than those that were refused, after a new login if needed.
    /// False if that login, or the one of another call meanwhile, has failed.
    ///
    /// # Errors
    /// [`Error::SecondFactor`] or [`Error::NoToken`] if the login needs a code or a token that is not given.
    async fn renew(&self, error: &Error, refused: &Shown) -> Result<bool> {
        let _one = self.one_login.lock().await;
        let now = self.shown();
        if now != *refused {
            return Ok(now.session.is_some());
        }
        if error.api().is_some_and(ApiError::lacks_second_token) && self.show_another().await? {
            return Ok(true);
        }
        let remembered = self.remembered().clone();
        let renewed = match (self.caller.tokens(), remembered) {
            (Some(_), Some((credentials, about))) => {
                refresh(&self.caller, API, &credentials, &about, &self.means).await
            }
            _ => self.authenticate_again().await.map(drop),
        };
        match renewed {
            Ok(()) => Ok(true),
            Err(error) if error.is_of_person() => Err(error),
            Err(error) => {
                tracing::debug!(
                    error = chain(&error),
                    "the session has ended and cannot be made anew"
                );
                Ok(false)
            }
        }
    }

    /// Shows another token of the external signer that is the second factor of the session, since the former one has ended.
    /// False if the session lacks something else.
    async fn show_another(&self) -> Result<bool> {
        let session = self.caller.call(row(API, "getCurrentAPISession")?, &[], &[], None).await;
        let supplied = async |mut session: ApiSessionDetail| {
            session.token = self.token().unwrap_or_default();
            second_factor::supply(&self.caller, API, session, &self.means.factors).await
        };
        let done = match session {
            Ok(session) => supplied(session).await,
            Err(error) => Err(error),
        };
        match done {
            Ok(_) => Ok(true),
            Err(error) if error.is_of_person() => Err(error),
            Err(error) => {
                tracing::debug!(
                    error = chain(&error),
                    "the session gets no other token of its external signer"
                );
                Ok(false)
            }
        }
    }

    /// The part of a query that asks for configs. A query without it means the types of the login;
    /// several types in the query give no configs at OpenZiti's controllers (docs/protocol/sdk.md 15.1).
    fn config_types(&self) -> Vec<(&'static str, &'static str)> {
        let login = self.remembered();
        let types = login.as_ref().map_or(&[][..], |(_, about)| about.config_types.as_slice());
        match types.is_empty() || types.iter().any(|one| one == ALL_CONFIG_TYPES) {
            true => vec![("configTypes", ALL_CONFIG_TYPES)],
            false => Vec::new(),
        }
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, Option<(Credentials, About)>> {
        self.login.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
