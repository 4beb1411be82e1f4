//! Tokens of an identity provider, for logins: from the application, a file, a command, or the provider's own endpoint for
//! devices.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use weft_contract::resource::external_jwt_signer::ClientSignerDetail;

use crate::call::{Caller, ExternalToken, row};
use crate::error::{Error, Result, chain};
use crate::provider_login::ProviderLogin;

/// Largest token that is read, in bytes.
const MAX_TOKEN: usize = 64 * 1024;
/// Longest run of a command that prints a token.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// A question for a token of the identity provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenRequest {
    /// True if the controller has refused the token that was given last.
    pub is_repeated: bool,
    /// The external JWT signer, by name, that a token is asked of as second factor; `None` if the token is to log in with.
    pub signer: Option<String>,
}

/// Why there is no token.
#[derive(Clone, Debug)]
pub(crate) struct NoToken {
    pub(crate) reason: String,
    /// True if there may be one later, although nobody does anything.
    pub(crate) may_pass: bool,
}

impl NoToken {
    pub(crate) fn for_now(reason: impl fmt::Display) -> Self {
        Self { reason: reason.to_string(), may_pass: true }
    }

    pub(crate) fn at_all(reason: impl fmt::Display) -> Self {
        Self { reason: reason.to_string(), may_pass: false }
    }
}

impl From<NoToken> for Error {
    fn from(NoToken { reason, may_pass }: NoToken) -> Self {
        Self::NoToken { reason, may_pass }
    }
}

type Given = Result<ExternalToken, NoToken>;
/// A question that waits for its answer; several calls may wait.
type Question = Shared<BoxFuture<'static, Given>>;
type Supply = dyn Fn(TokenRequest) -> BoxFuture<'static, Given> + Send + Sync;

#[derive(Clone)]
enum Source {
    Supply(Arc<Supply>),
    Provider(Arc<ProviderLogin>),
}

/// Supplies tokens of an identity provider, whenever a login needs one: at first, when the longest life of the session
/// ends, and when the controller has refused the one before. Clones are the same supply.
///
/// A question stays open when the call that asked it is given up; the next call gets its answer.
#[derive(Clone)]
pub struct ExternalTokens {
    source: Source,
    open: Arc<Mutex<Option<Question>>>,
}

impl fmt::Debug for ExternalTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalTokens").finish_non_exhaustive()
    }
}

impl ExternalTokens {
    fn from_source(source: Source) -> Self {
        Self { source, open: Arc::default() }
    }

    fn supplied(
        supply: impl Fn(TokenRequest) -> BoxFuture<'static, Given> + Send + Sync + 'static,
    ) -> Self {
        Self::from_source(Source::Supply(Arc::new(supply)))
    }

    /// Tokens that a function fetches. After an error the login is tried again later.
    pub fn new<F, A, E>(fetch: F) -> Self
    where
        F: Fn(TokenRequest) -> A + Send + Sync + 'static,
        A: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        Self::supplied(move |request| {
            let fetched = fetch(request);
            async move {
                let text = fetched.await.map_err(|error| NoToken::for_now(error.into()))?;
                checked(text)
            }
            .boxed()
        })
    }

    /// Tokens from a file, which is read each time: somebody else renews it, as Kubernetes does with the tokens of
    /// service accounts.
    pub fn of_file(path: impl Into<PathBuf>) -> Self {
        let path: PathBuf = path.into();
        Self::supplied(move |_| {
            let path = path.clone();
            async move {
                let reading = tokio::task::spawn_blocking(move || {
                    weft_identity::read_file(&path).map_err(|error| error.to_string())
                });
                let bytes = reading.await.map_err(NoToken::for_now)?.map_err(NoToken::for_now)?;
                checked(String::from_utf8(bytes).map_err(NoToken::for_now)?)
            }
            .boxed()
        })
    }

    /// Tokens that a command prints, which is run each time, without a shell: the program and its arguments. It has 60 s.
    pub fn of_command<S: Into<String>>(command: impl IntoIterator<Item = S>) -> Self {
        let words: Vec<String> = command.into_iter().map(Into::into).collect();
        Self::supplied(move |_| printed(words.clone()).boxed())
    }

    /// Tokens that a person gets at the provider with a code, which another function shows to them.
    #[must_use]
    pub fn of_provider(login: ProviderLogin) -> Self {
        Self::from_source(Source::Provider(Arc::new(login)))
    }

    /// The token for a login at the controller of this caller.
    pub(crate) async fn ask(
        &self,
        caller: &Caller,
        request: TokenRequest,
    ) -> Result<ExternalToken> {
        let asked = match self.open() {
            Some(open) => open,
            None => {
                let question = match &self.source {
                    Source::Supply(supply) => supply(request),
                    Source::Provider(login) => {
                        let signers = signers(caller).await?;
                        Arc::clone(login).token(signers, request).boxed()
                    }
                };
                let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
                open.get_or_insert_with(|| question.shared()).clone()
            }
        };
        let answer = asked.clone().await;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.as_ref().is_some_and(|open| open.ptr_eq(&asked)) {
            *open = None;
        }
        drop(open);
        Ok(answer?)
    }

    /// The refusal of the token that was given last. If a person has just logged in for it, another login, or the same one
    /// for another controller, gives no better one: there is no token then.
    pub(crate) fn refused(&self, error: Error) -> Error {
        match self.is_of_fresh_login() && error.is_unauthorized() {
            true => NoToken::at_all(format!(
                "the controller refused the token of this login, whose person may have no identity there: {}",
                chain(&error)
            ))
            .into(),
            false => error,
        }
    }

    /// Whether a person logs in for the tokens.
    pub(crate) fn is_of_person(&self) -> bool {
        matches!(&self.source, Source::Provider(_))
    }

    /// Whether a person has just logged in for the token that was given last, so that they are not asked for another one.
    pub(crate) fn is_of_fresh_login(&self) -> bool {
        matches!(&self.source, Source::Provider(login) if login.is_fresh())
    }

    fn open(&self) -> Option<Question> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The signers of a controller, as clients see them.
pub(crate) async fn signers(caller: &Caller) -> Result<Vec<ClientSignerDetail>> {
    let row = row(weft_contract::Api::Client, "listExternalJwtSigners")?;
    caller.list_anonymously(row).await
}

/// A text as a token.
pub(crate) fn checked(text: String) -> Given {
    if text.len() > MAX_TOKEN {
        return Err(NoToken::for_now(format!("the token has more than {MAX_TOKEN} bytes")));
    }
    match text.trim().is_empty() {
        true => Err(NoToken::for_now("the token is empty")),
        false => Ok(ExternalToken::new(&text)),
    }
}

/// What a command prints.
async fn printed(words: Vec<String>) -> Given {
    let Some((program, arguments)) = words.split_first() else {
        return Err(NoToken::at_all("the command for the token is empty"));
    };
    let failed = |reason: String| NoToken::for_now(format!("{program}: {reason}"));
    let running = tokio::process::Command::new(program)
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .stderr(std::process::Stdio::inherit())
        .kill_on_drop(true)
        .output();
    let ended = tokio::time::timeout(COMMAND_TIMEOUT, running).await;
    let late = || failed(format!("it has not ended within {} s", COMMAND_TIMEOUT.as_secs()));
    let ended = ended.map_err(|_| late())?.map_err(|error| failed(error.to_string()))?;
    if !ended.status.success() {
        return Err(failed(format!("it failed ({})", ended.status)));
    }
    checked(String::from_utf8(ended.stdout).map_err(|error| failed(error.to_string()))?)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use weft_contract::Api;
    use weft_identity::TrustBundle;

    use super::*;
    use crate::error::ProviderError;
    use crate::http::Tls;

    fn caller() -> Caller {
        let tls = Tls::Anonymous(TrustBundle::new([]));
        Caller::new("localhost:1".parse().unwrap(), Api::Client, &tls).unwrap()
    }

    async fn ask(tokens: &ExternalTokens) -> Result<String> {
        let given = tokens.ask(&caller(), TokenRequest::default()).await;
        given.map(|token| token.bearer())
    }

    #[tokio::test]
    async fn a_file_is_read_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let tokens = ExternalTokens::of_file(&path);
        let missing = ask(&tokens).await.unwrap_err();
        assert!(missing.is_temporary(), "{missing}");
        for text in ["one\n", "two"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(ask(&tokens).await.unwrap(), format!("Bearer {}", text.trim()));
        }
        std::fs::write(&path, " \n").unwrap();
        assert!(ask(&tokens).await.unwrap_err().to_string().contains("empty"));
    }

    #[tokio::test]
    async fn a_command_prints_the_token_or_says_why_not() {
        let printed = async |words: &[&str]| ask(&ExternalTokens::of_command(words.to_vec())).await;
        assert_eq!(printed(&["echo", "a b"]).await.unwrap(), "Bearer a b");
        let failed = printed(&["false"]).await.unwrap_err().to_string();
        assert!(failed.contains("false: it failed"), "{failed}");
        assert!(printed(&["/no/such/program"]).await.unwrap_err().is_temporary());
        assert!(!printed(&[]).await.unwrap_err().is_temporary());
    }

    #[test]
    fn a_person_whose_new_token_is_refused_is_not_asked_again() {
        let login = Arc::new(ProviderLogin::new(|_| Ok(())));
        let tokens = ExternalTokens::from_source(Source::Provider(Arc::clone(&login)));
        let refusal = |status| {
            let (error, description) = ("access_denied".to_owned(), Some("no".to_owned()));
            Error::Provider(Box::new(ProviderError { status, error, description }))
        };
        assert!(tokens.refused(refusal(401)).is_unauthorized(), "nobody has logged in");
        login.set_fresh(true);
        let refused = tokens.refused(refusal(401));
        assert!(matches!(refused, Error::NoToken { may_pass: false, .. }), "{refused}");
        assert!(refused.to_string().contains("access_denied"), "{refused}");
        assert_eq!(tokens.refused(refusal(503)).status(), Some(503));
    }

    #[tokio::test]
    async fn a_question_stays_open_when_its_caller_gives_up() {
        let (tell, told) = tokio::sync::watch::channel(false);
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let tokens = ExternalTokens::new(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            let mut told = told.clone();
            async move {
                told.wait_for(|told| *told).await.map_err(|error| error.to_string())?;
                Ok::<_, String>("token".to_owned())
            }
        });
        let given_up = tokio::time::timeout(Duration::from_millis(1), ask(&tokens)).await;
        assert!(given_up.is_err());
        tell.send_replace(true);
        assert_eq!(ask(&tokens).await.unwrap(), "Bearer token");
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }
}
