//! Codes of the second factor (TOTP) that logins and posture checks ask for
//! (docs/protocol/auth.md 9.5, 9.7, 11).
//!
//! A login of an identity with a second factor begins a session that may do almost nothing until a code
//! is given. A posture check asks a complete session for a further code. The codes come from the
//! application ([`Codes`]).

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use weft_contract::resource::mfa::CodeBody;
use weft_contract::resource::session::{ApiSessionDetail, AuthQuery};
use weft_contract::{Api, Empty};

use crate::call::{Caller, row, to_value};
use crate::error::{Error, FactorProblem, Result, chain};
use crate::second_tokens::{SecondToken, SecondTokens};
use crate::totp::TotpSecret;

/// What became of a code.
pub(crate) enum Offered<T> {
    Taken(T),
    Refused,
}

/// Most codes that are tried for one login or posture check.
const ATTEMPTS: u32 = 3;

/// A question for a code of the second factor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CodeRequest {
    /// The name of the identity; `None` if the controller does not tell it before the login is complete.
    pub identity: Option<String>,
    /// What the code is needed for.
    pub purpose: CodePurpose,
    /// True if the controller refused the code that was given before.
    pub is_repeated: bool,
}

/// The use of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodePurpose {
    /// A login: the first one, or a later one after the session has ended.
    Login,
    /// A posture check of a service, which asks for a new code from time to time.
    PostureCheck,
}

/// A question that waits for its answer; several calls may wait.
type Question = Shared<BoxFuture<'static, Option<String>>>;

type Supply = dyn Fn(CodeRequest) -> BoxFuture<'static, Option<String>> + Send + Sync;

/// Supplies codes of the second factor. Clones are the same supply.
///
/// A question stays open when the call that asked it is given up; the next call gets its answer. A person
/// who looks for a phone is not asked again and again.
#[derive(Clone)]
pub struct Codes {
    supply: Arc<Supply>,
    open: Arc<Mutex<Option<Question>>>,
}

impl fmt::Debug for Codes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codes").finish_non_exhaustive()
    }
}

impl Codes {
    /// Codes that a function supplies whenever one is asked for; `None` if it has none.
    pub fn new<F, A>(supply: F) -> Self
    where
        F: Fn(CodeRequest) -> A + Send + Sync + 'static,
        A: Future<Output = Option<String>> + Send + 'static,
    {
        Self { supply: Arc::new(move |request| supply(request).boxed()), open: Arc::default() }
    }

    /// One code, which is given to the first question.
    pub fn once(code: impl Into<String>) -> Self {
        let code = Mutex::new(Some(code.into()));
        Self::new(move |_| {
            std::future::ready(code.lock().unwrap_or_else(PoisonError::into_inner).take())
        })
    }

    /// Codes that a secret makes, so that nobody is asked.
    #[must_use]
    pub fn of_secret(secret: Arc<TotpSecret>) -> Self {
        Self::new(move |request| {
            let secret = Arc::clone(&secret);
            async move { secret.code(request.is_repeated).await }
        })
    }

    /// Asks for codes and gives them, until one is taken.
    pub(crate) async fn offer<'a, T>(
        &self,
        identity: Option<String>,
        purpose: CodePurpose,
        give: impl Fn(String) -> BoxFuture<'a, Result<Offered<T>>>,
    ) -> Result<T> {
        let mut request = CodeRequest { identity, purpose, is_repeated: false };
        for _ in 0..ATTEMPTS {
            let Some(code) = self.ask(request.clone()).await else { break };
            match give(code).await? {
                Offered::Taken(done) => return Ok(done),
                Offered::Refused => request.is_repeated = true,
            }
        }
        Err(Error::SecondFactor(match request.is_repeated {
            true => FactorProblem::Refused,
            false => FactorProblem::NoCode,
        }))
    }

    /// The answer to a question, or to the question that is open.
    async fn ask(&self, request: CodeRequest) -> Option<String> {
        let asked = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.get_or_insert_with(|| (self.supply)(request).shared()).clone()
        };
        let answer = asked.clone().await;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.as_ref().is_some_and(|open| open.ptr_eq(&asked)) {
            *open = None;
        }
        drop(open);
        answer.map(|code| code.trim().to_owned()).filter(|code| !code.is_empty())
    }
}

/// What the factors of a login are given from, beside its first one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Factors {
    pub(crate) codes: Option<Codes>,
    /// Tokens of external signers.
    pub(crate) tokens: SecondTokens,
}

/// Most factors that are given for one session.
const MAX_FACTORS: usize = 4;

/// Whether a query is for a token of an external signer.
pub(crate) fn is_for_token(query: &AuthQuery) -> bool {
    query.type_id == "EXT-JWT"
}

/// Gives the factors that a new session still lacks. A session that stays incomplete is ended.
pub(crate) async fn complete(
    caller: &Caller,
    api: Api,
    session: ApiSessionDetail,
    factors: &Factors,
) -> Result<ApiSessionDetail> {
    let token = session.token.clone();
    let completed = supply(caller, api, session, factors).await;
    if completed.is_err()
        && let Ok(row) = row(api, "deleteCurrentAPISession")
    {
        let ended: Result<Empty> = caller.call_with(&token, row, None).await;
        if let Err(error) = ended {
            tracing::debug!(
                error = chain(&error),
                "a session without its second factor could not be ended"
            );
        }
    }
    completed
}

/// Gives the factors that a session still lacks.
pub(crate) async fn supply(
    caller: &Caller,
    api: Api,
    session: ApiSessionDetail,
    factors: &Factors,
) -> Result<ApiSessionDetail> {
    let token = session.token.clone();
    let mut second = SecondToken::new(caller, &factors.tokens);
    let (mut now, mut has_code) = (session, false);
    for _ in 0..MAX_FACTORS {
        let Some(query) = now.auth_queries.first() else { return Ok(now) };
        if is_for_token(query) {
            caller.set_second_token(Some(second.answer(query).await?));
        } else {
            let codes = wanted(query, factors.codes.as_ref().filter(|_| !has_code))?;
            let name = Some(now.identity.name.clone()).filter(|name| !name.is_empty());
            let (identity, purpose) = (name, CodePurpose::Login);
            give(caller, api, &token, codes, identity, purpose).await?;
            has_code = true;
        }
        now = caller.call_with(&token, row(api, "getCurrentAPISession")?, None).await?;
        if now.token.is_empty() {
            now.token.clone_from(&token);
        }
    }
    match now.auth_queries.first() {
        None => Ok(now),
        Some(query) => Err(Error::SecondFactor(FactorProblem::Unsupported(query.type_id.clone()))),
    }
}

/// The codes that answer a query.
fn wanted<'a>(query: &AuthQuery, codes: Option<&'a Codes>) -> Result<&'a Codes> {
    let problem = match query.type_id.as_str() {
        "MFA" | "TOTP" if query.is_totp_enrolled == Some(false) => FactorProblem::NotSetUp,
        "MFA" | "TOTP" => return codes.ok_or(Error::SecondFactor(FactorProblem::NoCode)),
        other => FactorProblem::Unsupported(other.to_owned()),
    };
    Err(Error::SecondFactor(problem))
}

/// Asks for codes and gives them, until the controller takes one.
pub(crate) async fn give(
    caller: &Caller,
    api: Api,
    token: &str,
    codes: &Codes,
    identity: Option<String>,
    purpose: CodePurpose,
) -> Result<()> {
    let row = row(api, "authenticateMfa")?;
    let offer = |code: String| {
        async move {
            let body = to_value(&CodeBody { code: Some(code) })?;
            let given: Result<Empty> = caller.call_with(token, row, Some(&body)).await;
            let Err(error) = given else { return Ok(Offered::Taken(())) };
            // Controllers differ in the status (docs/protocol/auth.md 1.4).
            match error.api().map(|refusal| refusal.code()) {
                Some("MFA_INVALID_TOKEN") => Ok(Offered::Refused),
                Some("MFA_NOT_ENROLLED") => Err(Error::SecondFactor(FactorProblem::NotSetUp)),
                _ => Err(error),
            }
        }
        .boxed()
    };
    codes.offer(identity, purpose, offer).await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    fn request() -> CodeRequest {
        let purpose = CodePurpose::Login;
        CodeRequest { identity: Some("me".to_owned()), purpose, is_repeated: false }
    }

    #[tokio::test]
    async fn a_question_stays_open_when_its_caller_gives_up() {
        let (tell, told) = tokio::sync::watch::channel(None::<String>);
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let codes = Codes::new(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            let mut told = told.clone();
            async move { told.wait_for(Option::is_some).await.ok().and_then(|code| code.clone()) }
        });
        let given_up = tokio::time::timeout(Duration::from_millis(1), codes.ask(request())).await;
        assert!(given_up.is_err());
        tell.send_replace(Some(" 123456\n".to_owned()));
        assert_eq!(codes.ask(request()).await.as_deref(), Some("123456"));
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        codes.ask(request()).await;
        assert_eq!(asked.load(Ordering::SeqCst), 2, "the first question was answered");
    }

    #[tokio::test]
    async fn one_code_answers_one_question() {
        let codes = Codes::once("1");
        assert_eq!(codes.ask(request()).await.as_deref(), Some("1"));
        assert_eq!(codes.ask(request()).await, None);
    }
}
