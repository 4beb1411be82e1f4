//! The address of a controller, in the forms of command lines, identity files and tokens.

use std::fmt;
use std::str::FromStr;

use url::Url;
use weft_contract::Api;

use crate::error::{Error, Result};

/// `https://host:port`. A path in the text (`/edge/client/v1`, `/edge/management/v1`) is read and
/// dropped, as the contract knows the paths.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ControllerAddress {
    origin: Url,
}

impl ControllerAddress {
    /// The host, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        self.origin.host_str().unwrap_or_default().trim_matches(['[', ']'])
    }

    /// The port number.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.origin.port_or_known_default().unwrap_or(443)
    }

    /// The URL `https://host:port/<base of the API><path>`.
    pub(crate) fn at(&self, api: Api, path: &str) -> Result<Url> {
        self.join(&format!("{}{path}", api.base()))
    }

    /// The URL `https://host:port<path>`.
    pub(crate) fn join(&self, path: &str) -> Result<Url> {
        self.origin.join(path).map_err(|error| Error::Address {
            given: format!("{self}{path}"),
            reason: error.to_string(),
        })
    }
}

impl FromStr for ControllerAddress {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        let refuse =
            |reason: String| Error::Address { given: given.chars().take(200).collect(), reason };
        let text = given.trim();
        let full = match text.split_once("://") {
            Some(("https", _)) => text.to_owned(),
            Some((scheme, _)) => return Err(refuse(format!("`{scheme}` is not spoken"))),
            // An IPv6 address alone needs brackets in a URL.
            None if text.parse::<std::net::Ipv6Addr>().is_ok() => format!("https://[{text}]"),
            None => format!("https://{text}"),
        };
        let mut origin = Url::parse(&full).map_err(|error| refuse(error.to_string()))?;
        if origin.host_str().is_none_or(str::is_empty) {
            return Err(refuse("there is no host in it".to_owned()));
        }
        if !origin.username().is_empty() || origin.password().is_some() {
            return Err(refuse("names and passwords do not belong in it".to_owned()));
        }
        origin.set_path("");
        origin.set_query(None);
        origin.set_fragment(None);
        Ok(Self { origin })
    }
}

impl fmt::Display for ControllerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.origin.as_str().trim_end_matches('/'))
    }
}
