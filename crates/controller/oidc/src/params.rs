//! Parameters of a query and of a form: each at most once, each with a limit on its length. Unknown ones are ignored, and
//! so are those without a value (RFC 6749, section 3.1).

use std::borrow::Cow;

use crate::problem::{OidcError, invalid};

/// Most parameters of a request.
pub const MAX_PARAMETERS: usize = 128;
/// Most bytes of a query and a form together. The longest requests have a token and a certificate request.
pub const MAX_BYTES: usize = 64 << 10;

/// The parameters of one request, decoded.
#[derive(Debug, Clone, Default)]
pub struct Params<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Params<'a> {
    /// Reads the query and the body of a request, of which either may be empty. A parameter counts in both: clients send
    /// `POST /oidc/authorize` with a query.
    pub fn read(query: &'a str, form: &'a str) -> Result<Self, OidcError> {
        if query.len() + form.len() > MAX_BYTES {
            return Err(invalid("the request is too long"));
        }
        let pairs = |text: &'a str| url::form_urlencoded::parse(text.as_bytes());
        let all: Vec<_> = pairs(query).chain(pairs(form)).take(MAX_PARAMETERS + 1).collect();
        match all.len() > MAX_PARAMETERS {
            true => Err(invalid("the request has too many parameters")),
            false => Ok(Self(all)),
        }
    }

    /// The value of a parameter; none if it is missing or empty.
    pub fn one(&self, name: &'static str, most: usize) -> Result<Option<&str>, OidcError> {
        let mut found = self.0.iter().filter(|(key, _)| key == name);
        let first = found.next();
        if found.next().is_some() {
            return Err(invalid(format!("the parameter {name} is there twice")));
        }
        match first.map(|(_, value)| value.as_ref()) {
            Some(value) if value.len() > most => {
                Err(invalid(format!("the parameter {name} has more than {most} bytes")))
            }
            found => Ok(found.filter(|value| !value.is_empty())),
        }
    }

    /// The value of a parameter that must be there.
    pub fn required(&self, name: &'static str, most: usize) -> Result<&str, OidcError> {
        let missing = || invalid(format!("the parameter {name} is missing"));
        self.one(name, most)?.ok_or_else(missing)
    }

    /// The values of a parameter that may be there several times.
    pub fn many(
        &self,
        name: &'static str,
        count: usize,
        most: usize,
    ) -> Result<Vec<String>, OidcError> {
        let found = self.0.iter().filter(|(key, value)| key == name && !value.is_empty());
        let found: Vec<_> = found.map(|(_, value)| value.to_string()).take(count + 1).collect();
        if found.len() > count || found.iter().any(|value| value.len() > most) {
            return Err(invalid(format!(
                "the parameter {name} is there more than {count} times, or has more than {most} bytes"
            )));
        }
        Ok(found)
    }

    /// True if a parameter is there with a value.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, value)| key == name && !value.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_and_form_are_one_list() {
        let params = Params::read("a=1&b=%20x+y&empty=", "c=3&a=2&d=1&d=2").unwrap();
        assert_eq!(params.one("b", 9).unwrap(), Some(" x y"));
        assert_eq!(params.one("c", 9).unwrap(), Some("3"));
        assert_eq!(params.one("empty", 9).unwrap(), None);
        assert!(params.has("a") && !params.has("empty") && !params.has("other"));
        let twice = params.one("a", 9).unwrap_err();
        assert_eq!(twice.description, "the parameter a is there twice");
        assert_eq!(params.one("b", 3).unwrap_err().code.word(), "invalid_request");
        assert_eq!(params.many("d", 2, 1).unwrap(), ["1", "2"]);
        assert!(params.many("d", 1, 1).is_err() && params.many("d", 2, 0).is_err());
        assert!(params.required("e", 1).is_err());
    }

    #[test]
    fn long_requests_are_refused() {
        assert!(Params::read(&"a&".repeat(MAX_PARAMETERS), "").is_ok());
        assert!(Params::read(&"a&".repeat(MAX_PARAMETERS + 1), "").is_err());
        assert!(Params::read("", &"a".repeat(MAX_BYTES + 1)).is_err());
    }
}
