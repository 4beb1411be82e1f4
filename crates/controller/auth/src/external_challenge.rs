//! The items of `WWW-Authenticate` that ask for tokens of external signers (docs/protocol/auth.md 1.5).

use weft_model::entity::ExtJwtSigner;
use weft_model::{Id, Snapshot};

use crate::token_refusal::TokenRefused;

/// Most signers that a challenge names.
const MOST_NAMED: usize = 20;

/// What is wrong with the tokens of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack {
    /// The request has none of a signer that is asked for.
    Missing,
    /// One was good, and has expired.
    Expired,
    /// Another reason.
    Invalid,
}

impl Lack {
    /// What is wrong with tokens that were refused. What is no token, or one of somebody else, counts as none.
    pub(crate) fn of(refused: &[TokenRefused]) -> Self {
        let is_related = |reason: &&TokenRefused| !matches!(reason, TokenRefused::Unrelated(_));
        let related = || refused.iter().filter(is_related);
        match related().next() {
            None => Self::Missing,
            Some(_) if related().any(|reason| *reason == TokenRefused::Expired) => Self::Expired,
            Some(_) => Self::Invalid,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Missing => {
                "error=\"missing\" error_description=\"no matching token was provided\""
            }
            Self::Expired => "error=\"expired\" error_description=\"token expired\"",
            Self::Invalid => "error=\"invalid\" error_description=\"token is invalid\"",
        }
    }
}

/// The item for a login by token that failed: all enabled signers. None if no signer is enabled.
pub(crate) fn primary(snapshot: &Snapshot, lack: Lack) -> Option<String> {
    let enabled = snapshot.list::<ExtJwtSigner>().filter(|signer| signer.enabled);
    let named: Vec<_> =
        enabled.take(MOST_NAMED).map(|it| (it.base.id.as_str(), issuer(it))).collect();
    let joined =
        |of: fn(&(&str, String)) -> String| named.iter().map(of).collect::<Vec<_>>().join("|");
    (!named.is_empty()).then(|| {
        let (ids, issuers) =
            (joined(|(id, _)| (*id).to_owned()), joined(|(_, issuer)| issuer.clone()));
        text("openziti-primary-ext-jwt", lack, &ids, &issuers)
    })
}

/// The item for a session that lacks a token of a signer.
pub(crate) fn secondary(snapshot: &Snapshot, signer: &Id, lack: Lack) -> String {
    let issuer = snapshot.get::<ExtJwtSigner>(signer).map(|signer| issuer(signer));
    text("openziti-secondary-ext-jwt", lack, signer.as_str(), &issuer.unwrap_or_default())
}

fn text(realm: &str, lack: Lack, ids: &str, issuers: &str) -> String {
    let lack = lack.text();
    format!("Bearer realm=\"{realm}\" {lack} id=\"{ids}\" issuer=\"{issuers}\"")
}

/// The issuer of a signer, without characters that would end the quotation or the header.
fn issuer(signer: &ExtJwtSigner) -> String {
    let issuer = signer.issuer.as_deref().unwrap_or_default();
    issuer.chars().filter(|it| !matches!(it, '"' | '\\') && (' '..='~').contains(it)).collect()
}
