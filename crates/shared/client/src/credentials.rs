//! What a client logs in with, and what it says of itself.

use weft_contract::json::{Password, Username};
use weft_contract::resource::client::{EnvInfo, SdkInfo};
use weft_contract::resource::session::method;

use crate::call::ExternalToken;
use crate::error::{Error, Result};
use crate::external_tokens::ExternalTokens;

/// Credentials of a login.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// Name and password.
    Password {
        /// The login name.
        username: Username,
        /// The password.
        password: Password,
    },
    /// The client certificate of the TLS connection.
    Certificate,
    /// A token of an external signer.
    ExternalToken(ExternalToken),
    /// Tokens of an external signer, of which each login gets another one.
    ExternalTokens(ExternalTokens),
}

impl Credentials {
    /// Credentials of a name and a password.
    ///
    /// # Errors
    /// When one of them is shorter or longer than a controller takes.
    pub fn password(username: impl Into<String>, password: impl Into<String>) -> Result<Self> {
        let wrong = |what: &str, error| Error::Request(format!("the {what} {error}"));
        let username =
            Username::try_from(username.into()).map_err(|error| wrong("login name", error))?;
        let password =
            Password::try_from(password.into()).map_err(|error| wrong("password", error))?;
        Ok(Self::Password { username, password })
    }

    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::Password { .. } => method::PASSWORD,
            Self::Certificate => method::CERT,
            Self::ExternalToken(_) | Self::ExternalTokens(_) => method::EXT_JWT,
        }
    }
}

/// A client's report of itself at a login.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The program that logs in.
    pub sdk: SdkInfo,
    /// The machine that the program runs on.
    pub env: EnvInfo,
    /// Config types whose configs are listed with services by default.
    pub config_types: Vec<String>,
    /// The public key that proves the client to the ends of its connections, in base64.
    pub end_key: Option<String>,
}
