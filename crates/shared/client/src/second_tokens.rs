//! Tokens of external signers that a controller asks for as second factor (docs/protocol/auth.md 9.5, 15.4).
//!
//! A query names the signer by its id. The application names it by its name, as an operator does, or by its id.

use weft_contract::resource::session::AuthQuery;

use crate::call::{Caller, ExternalToken};
use crate::error::{Error, FactorProblem, Result, chain};
use crate::external_tokens::{ExternalTokens, TokenRequest, signers};

/// Sources of tokens that are second factors, each for one external JWT signer.
#[derive(Clone, Debug, Default)]
pub struct SecondTokens {
    /// By the name or the id of the signer.
    of_signers: Vec<(String, ExternalTokens)>,
    /// For all other signers.
    of_others: Option<ExternalTokens>,
}

impl SecondTokens {
    /// Answers queries for tokens of this signer, by its name or id, from this source. A former source for the signer is
    /// replaced.
    #[must_use]
    pub fn with(mut self, signer: impl Into<String>, tokens: ExternalTokens) -> Self {
        let signer = signer.into();
        self.of_signers.retain(|(known, _)| *known != signer);
        self.of_signers.push((signer, tokens));
        self
    }

    /// Answers queries for tokens of signers without a source of their own from this source, unless there is one already.
    #[must_use]
    pub fn or(mut self, tokens: ExternalTokens) -> Self {
        self.of_others.get_or_insert(tokens);
        self
    }

    /// The source for a signer. A person can log in only at a signer that names an address for it.
    fn source(&self, signer: &Signer) -> Option<&ExternalTokens> {
        let is_own = |named: &str| named == signer.name || named == signer.id;
        let own = self.of_signers.iter().find(|(named, _)| is_own(named));
        let other = self.of_others.as_ref();
        own.map(|(_, tokens)| tokens)
            .or(other.filter(|tokens| signer.has_address || !tokens.is_of_person()))
    }
}

/// The signer of a query.
struct Signer {
    id: String,
    /// Its name; its id if the controller does not tell the name.
    name: String,
    /// Whether it names an address at which a person can log in.
    has_address: bool,
}

/// The answers to the queries of one login for tokens of external signers.
pub(crate) struct SecondToken<'a> {
    caller: &'a Caller,
    tokens: &'a SecondTokens,
    /// The token that was given last, and the id of its signer.
    given: Option<(String, ExternalToken)>,
    tries: u32,
}

/// Most tokens that are given in one login.
const MOST_TOKENS: u32 = 2;

impl<'a> SecondToken<'a> {
    pub(crate) fn new(caller: &'a Caller, tokens: &'a SecondTokens) -> Self {
        Self { caller, tokens, given: None, tries: 0 }
    }

    /// The token that answers a query. A query that comes again says that the token before was refused; another one is tried
    /// once.
    pub(crate) async fn answer(&mut self, query: &AuthQuery) -> Result<ExternalToken> {
        let signer = self.signer(query).await;
        let name = signer.name.clone();
        let Some(source) = self.tokens.source(&signer) else {
            return Err(Error::SecondFactor(FactorProblem::NoTokenSource { signer: name }));
        };
        let refused = || Error::SecondFactor(FactorProblem::TokenRefused { signer: name.clone() });
        let former = self.given.take().filter(|(signer, _)| *signer == query.id);
        let may_another = self.tries < MOST_TOKENS && !source.is_of_fresh_login();
        if former.is_some() && !may_another {
            return Err(refused());
        }
        self.tries += 1;
        let signer = Some(name.clone());
        let request = TokenRequest { is_repeated: former.is_some(), signer };
        let token = source.ask(self.caller, request).await.map_err(|error| match error {
            Error::NoToken { reason, may_pass } => {
                let reason = format!(
                    "the external JWT signer `{name}`, which the controller asks for as second factor: {reason}"
                );
                Error::NoToken { reason, may_pass }
            }
            other => other,
        })?;
        if former.is_some_and(|(_, former)| former == token) {
            return Err(refused());
        }
        self.given = Some((query.id.clone(), token.clone()));
        Ok(token)
    }

    async fn signer(&self, query: &AuthQuery) -> Signer {
        let told = signers(self.caller).await.unwrap_or_else(|problem| {
            tracing::debug!(problem = chain(&problem), "the controller does not tell its signers");
            Vec::new()
        });
        let named = told.into_iter().find(|signer| signer.base.id == query.id);
        Signer {
            id: query.id.clone(),
            name: named.map_or_else(|| query.id.clone(), |signer| signer.name),
            has_address: !query.http_url.is_empty(),
        }
    }
}
