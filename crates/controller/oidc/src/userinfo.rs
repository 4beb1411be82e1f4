//! `/oidc/userinfo`: the access token of a request, and the answer.

use serde_json::{Map, Value};

use crate::params::Params;
use crate::problem::{OidcError, invalid};
use crate::scopes::Scopes;
use crate::token_request::{MAX_TOKEN, form};

/// The access token of a request: in `Authorization`, or in the form of a `POST` (RFC 6750), and in one of both only. None:
/// there is none, and the answer is 401 with the challenge of docs/protocol/auth.md 1.5.
pub fn token(
    authorization: Option<&str>,
    content_type: Option<&str>,
    body: &[u8],
) -> Result<Option<String>, OidcError> {
    let bearer = authorization.and_then(|header| {
        let (scheme, token) = header.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
    });
    let form = if body.is_empty() { "" } else { form(content_type, body)? };
    let params = Params::read("", form)?;
    match (bearer, params.one("access_token", MAX_TOKEN)?) {
        (Some(_), Some(_)) => Err(invalid("the request has two access tokens")),
        (Some(token), None) if token.len() > MAX_TOKEN => Err(invalid("the token is too long")),
        (header, body) => Ok(header.or(body).filter(|token| !token.is_empty()).map(str::to_owned)),
    }
}

/// The answer, JSON: the identity, and its name if the login asked for `openid`.
#[must_use]
pub fn body(identity: &str, name: &str, scopes: Scopes) -> String {
    let mut claims = Map::new();
    claims.insert("sub".to_owned(), identity.into());
    if scopes.openid {
        claims.insert("name".to_owned(), name.into());
    }
    Value::Object(claims).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: Option<&str> = Some("application/x-www-form-urlencoded");

    #[test]
    fn the_token_is_in_one_place() {
        assert_eq!(token(Some("Bearer a.b.c"), None, b"").unwrap().as_deref(), Some("a.b.c"));
        assert_eq!(token(None, FORM, b"access_token=t").unwrap().as_deref(), Some("t"));
        assert_eq!(token(Some("Basic x"), None, b"").unwrap(), None);
        assert_eq!(token(Some("Bearer "), None, b"").unwrap(), None);
        assert!(token(Some("bearer a"), FORM, b"access_token=t").is_err());
        assert!(token(None, Some("text/plain"), b"access_token=t").is_err());
        assert!(token(Some(&format!("Bearer {}", "x".repeat(MAX_TOKEN + 1))), None, b"").is_err());
    }

    #[test]
    fn the_answer_is_exact() {
        assert_eq!(body("i", "A", Scopes::parse("openid")), r#"{"sub":"i","name":"A"}"#);
        assert_eq!(body("i", "A", Scopes::default()), r#"{"sub":"i"}"#);
    }
}
