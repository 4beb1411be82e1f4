//! The management API, for administrators: every operation in its tables.

use serde::de::DeserializeOwned;
use serde_json::Value;
use weft_contract::resource::identity::IdentityDetail;
use weft_contract::resource::server::Version;
use weft_contract::resource::session::ApiSessionDetail;
use weft_contract::{Api, Body, Created, Empty, Kind, Operation};
use weft_identity::to_pem;

use crate::address::ControllerAddress;
use crate::authenticate::{Means, authenticate};
use crate::call::{Caller, ListPage, QueryPairs, row, to_value};
use crate::credentials::{About, Credentials};
use crate::error::{Error, Result};
use crate::http::Tls;
use crate::login::SavedLogin;
use crate::oidc::LoginProtocol;
use crate::saved_tokens::SavedTokens;
use crate::second_factor::{self, Codes};
use crate::second_tokens::SecondTokens;

const API: Api = Api::Management;

/// A client of the management API.
///
/// ```no_run
/// # async fn example(ca: weft_identity::TrustBundle) -> weft_client::Result<()> {
/// use weft_client::{Credentials, ManagementClient, Tls};
/// use weft_contract::resource::service::{self, ServiceBody};
///
/// let client = ManagementClient::new("localhost:1280".parse()?, &Tls::Anonymous(ca))?;
/// client.login(&Credentials::password("admin", "geheim")?).await?;
/// let body = ServiceBody {
///     name: Some("web".into()),
///     encryption_required: Some(true),
///     ..ServiceBody::default()
/// };
/// let id = client.create(&service::KIND, &body).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ManagementClient {
    caller: Caller,
    means: Means,
}

impl ManagementClient {
    /// A client of the controller at this address, without a login.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new(address: ControllerAddress, tls: &Tls) -> Result<Self> {
        Ok(Self { caller: Caller::new(address, API, tls)?, means: Means::opaque() })
    }

    /// Logins that ask for a code of the second factor get one of these.
    #[must_use]
    pub fn with_codes(mut self, codes: Option<Codes>) -> Self {
        self.means.factors.codes = codes;
        self
    }

    /// Logins that ask for a token of an external signer as second factor get one of these.
    #[must_use]
    pub fn with_second_tokens(mut self, tokens: SecondTokens) -> Self {
        self.means.factors.tokens = tokens;
        self
    }

    /// Whether the login was asked for a token of an external signer, which each request shows from then on.
    #[must_use]
    pub fn shows_second_token(&self) -> bool {
        self.caller.second_token().is_some()
    }

    /// Logins use this protocol; that of opaque tokens if none is set.
    #[must_use]
    pub fn with_protocol(mut self, protocol: LoginProtocol) -> Self {
        self.means.protocol = protocol;
        self
    }

    /// A client with a saved login. Whether its session has ended shows at the first call.
    ///
    /// # Errors
    /// When the saved login cannot be used.
    pub fn resume(login: &SavedLogin) -> Result<Self> {
        let client = Self::new(login.address()?, &login.tls()?)?;
        client.caller.set_session(Some(login.token.clone()));
        client.caller.set_second_token(login.shown_token());
        Ok(client)
    }

    /// Address of the controller.
    #[must_use]
    pub fn address(&self) -> &ControllerAddress {
        self.caller.address()
    }

    /// The session token, once logged in.
    #[must_use]
    pub fn token(&self) -> Option<String> {
        self.caller.session()
    }

    /// Uses the session of this token.
    pub fn set_token(&self, token: impl Into<String>) {
        self.caller.set_session(Some(token.into()));
    }

    /// Logs in.
    ///
    /// # Errors
    /// When the controller refuses, or demands a second factor that is not given.
    pub async fn login(&self, credentials: &Credentials) -> Result<ApiSessionDetail> {
        authenticate(&self.caller, API, credentials, &About::default(), &self.means).await
    }

    /// The tokens of the session of this client, to be kept in a file; none if its session has an opaque token.
    ///
    /// # Errors
    /// When the certificate of the session and its key do not belong together.
    pub fn saved_tokens(&self) -> Result<Option<SavedTokens>> {
        let Some(tokens) = self.caller.tokens() else { return Ok(None) };
        let certificate = self.caller.made().map(|chain| to_pem(chain.chain()));
        SavedTokens::new(&tokens, &self.means.key, certificate.as_deref()).map(Some)
    }

    /// Gives the second factor that the session of this client still lacks, if it lacks one: the session may
    /// have been made elsewhere.
    ///
    /// # Errors
    /// When the session has ended, or the second factor is not given. The session stays then.
    pub async fn complete(&self) -> Result<ApiSessionDetail> {
        let mut session: ApiSessionDetail =
            self.call(row(API, "getCurrentAPISession")?, &[], &[], None).await?;
        if session.token.is_empty() {
            session.token = self.token().unwrap_or_default();
        }
        second_factor::supply(&self.caller, API, session, &self.means.factors).await
    }

    /// Ends the session.
    ///
    /// # Errors
    /// When the controller cannot be reached.
    pub async fn logout(&self) -> Result<()> {
        let _: Empty = self.call(row(API, "deleteCurrentAPISession")?, &[], &[], None).await?;
        self.caller.set_session(None);
        Ok(())
    }

    /// Version of the controller; needs no login.
    ///
    /// # Errors
    /// As [`ManagementClient::call`].
    pub async fn version(&self) -> Result<Version> {
        self.call(row(API, "listVersion")?, &[], &[], None).await
    }

    /// The identity that is logged in.
    ///
    /// # Errors
    /// As [`ManagementClient::call`].
    pub async fn current_identity(&self) -> Result<IdentityDetail> {
        self.call(row(API, "getCurrentIdentity")?, &[], &[], None).await
    }

    /// Runs an operation of the management API; `ids` fill the variables of its path.
    ///
    /// # Errors
    /// [`Error::Api`] with the controller's answer when it refuses; other errors when it was not
    /// reached or its answer cannot be read.
    pub async fn call<T: DeserializeOwned>(
        &self,
        operation: &Operation,
        ids: &[&str],
        query: &QueryPairs<'_>,
        body: Option<&Value>,
    ) -> Result<T> {
        self.caller.call(operation, ids, query, body).await
    }

    /// Runs an operation of any API of the same controller, with the same session.
    ///
    /// # Errors
    /// As [`ManagementClient::call`].
    pub async fn call_in<T: DeserializeOwned>(
        &self,
        api: Api,
        operation: &Operation,
        ids: &[&str],
        query: &QueryPairs<'_>,
        body: Option<&Value>,
    ) -> Result<T> {
        self.caller.call_in(api, operation, ids, query, body).await
    }

    /// Runs an operation whose body or answer is not JSON. The body is a media type and bytes; the
    /// body of the answer is returned unread.
    ///
    /// # Errors
    /// As [`ManagementClient::call`].
    pub async fn raw(
        &self,
        api: Api,
        operation: &Operation,
        ids: &[&str],
        query: &QueryPairs<'_>,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<Vec<u8>> {
        self.caller.raw_in(api, operation, ids, query, body).await
    }

    /// One page of a list of any API.
    ///
    /// # Errors
    /// As [`ManagementClient::call`].
    pub async fn page_in<T: DeserializeOwned>(
        &self,
        api: Api,
        operation: &Operation,
        ids: &[&str],
        query: &QueryPairs<'_>,
    ) -> Result<ListPage<T>> {
        self.caller.page_in(api, operation, ids, query).await
    }

    /// One page of a list.
    ///
    /// # Errors
    /// As [`ManagementClient::call`].
    pub async fn page<T: DeserializeOwned>(
        &self,
        operation: &Operation,
        ids: &[&str],
        query: &QueryPairs<'_>,
    ) -> Result<ListPage<T>> {
        self.caller.page(operation, ids, query).await
    }

    /// Every entry of a list that passes the filter. A `limit` in the filter holds.
    ///
    /// # Errors
    /// As [`ManagementClient::call`].
    pub async fn list_all<T: DeserializeOwned>(
        &self,
        operation: &Operation,
        ids: &[&str],
        filter: Option<&str>,
    ) -> Result<Vec<T>> {
        let query: Vec<_> = filter.map(|filter| ("filter", filter)).into_iter().collect();
        self.caller.list_all(operation, ids, &query).await
    }

    /// Every entity of a kind that passes the filter.
    ///
    /// # Errors
    /// As [`ManagementClient::call`].
    pub async fn list<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        filter: Option<&str>,
    ) -> Result<Vec<T>> {
        self.list_all(offered(kind, kind.list(), "listed")?, &[], filter).await
    }

    /// Creates an entity and returns its id.
    ///
    /// # Errors
    /// As [`ManagementClient::call`].
    pub async fn create<B: Body>(&self, kind: &Kind, body: &B) -> Result<String> {
        let operation = offered(kind, kind.create(), "created")?;
        let created: Created = self.call(operation, &[], &[], Some(&to_value(body)?)).await?;
        Ok(created.id)
    }

    /// Reads an entity.
    ///
    /// # Errors
    /// As [`ManagementClient::call`].
    pub async fn get<T: DeserializeOwned>(&self, kind: &Kind, id: &str) -> Result<T> {
        self.call(offered(kind, kind.detail(), "read")?, &[id], &[], None).await
    }

    /// Replaces an entity.
    ///
    /// # Errors
    /// As [`ManagementClient::call`].
    pub async fn replace<B: Body>(&self, kind: &Kind, id: &str, body: &B) -> Result<()> {
        let operation = offered(kind, kind.replace(), "replaced")?;
        let _: Value = self.call(operation, &[id], &[], Some(&to_value(body)?)).await?;
        Ok(())
    }

    /// Changes the members of an entity that the body holds.
    ///
    /// # Errors
    /// As [`ManagementClient::call`].
    pub async fn patch<B: Body>(&self, kind: &Kind, id: &str, body: &B) -> Result<()> {
        let operation = offered(kind, kind.patch(), "changed")?;
        let _: Value = self.call(operation, &[id], &[], Some(&to_value(body)?)).await?;
        Ok(())
    }

    /// Deletes an entity.
    ///
    /// # Errors
    /// As [`ManagementClient::call`].
    pub async fn delete(&self, kind: &Kind, id: &str) -> Result<()> {
        let operation = offered(kind, kind.delete(), "deleted")?;
        let _: Value = self.call(operation, &[id], &[], None).await?;
        Ok(())
    }
}

fn offered(
    kind: &Kind,
    operation: Option<&'static Operation>,
    done: &str,
) -> Result<&'static Operation> {
    operation.ok_or_else(|| Error::Request(format!("{} cannot be {done}", kind.plural)))
}
