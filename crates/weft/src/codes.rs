//! Codes of the second factor: from the command line once, and then from a secret, or from the person at the
//! terminal.

mod secrets;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
pub(crate) use secrets::Secrets;
use weft_client::TotpSecret;
use weft_sdk::{CodePurpose, CodeRequest, EndpointBuilder};

use crate::ask;
use crate::cli::CodeSource;
use crate::failure::Result;

/// Codes for all identities of a command.
pub(crate) struct Codes {
    /// The code of the command line, until it is given.
    given: Mutex<Option<String>>,
    /// The secrets that make codes. For an identity with a secret nobody is asked.
    secrets: Secrets,
    /// Held during a question. False once the terminal is for something else.
    may_ask: tokio::sync::Mutex<bool>,
}

impl Codes {
    /// Codes from this source, for the identities of these files or tokens, or for a login without a file.
    ///
    /// # Errors
    /// When the file of a secret cannot be read or understood, or it is not clear whose secret it has.
    pub(crate) fn new(source: &CodeSource, identities: &[PathBuf]) -> Result<Arc<Self>> {
        let secrets = Secrets::read(&source.totp_secret_file, identities)?;
        let given = Mutex::new(source.code.clone().filter(|code| !code.trim().is_empty()));
        Ok(Arc::new(Self { given, secrets, may_ask: tokio::sync::Mutex::new(true) }))
    }

    /// Lets the endpoints of a builder ask for codes of the identity of this file or token.
    pub(crate) fn with(
        self: &Arc<Self>,
        builder: EndpointBuilder,
        identity: &Path,
    ) -> EndpointBuilder {
        let (codes, secret) = (Arc::clone(self), self.secrets.of(Some(identity)));
        builder.second_factor(move |request| {
            let (codes, secret) = (Arc::clone(&codes), secret.clone());
            async move { codes.code(&request, secret.as_deref()).await }
        })
    }

    /// Codes for a client of the management API.
    pub(crate) fn of_client(self: &Arc<Self>) -> weft_client::Codes {
        let (codes, secret) = (Arc::clone(self), self.secrets.of(None));
        weft_client::Codes::new(move |request| {
            let (codes, secret) = (Arc::clone(&codes), secret.clone());
            async move { codes.code(&request, secret.as_deref()).await }
        })
    }

    async fn code(&self, request: &CodeRequest, secret: Option<&TotpSecret>) -> Option<String> {
        if let Some(code) = self.given.lock().take() {
            return Some(code);
        }
        if let Some(secret) = secret {
            return secret.code(request.is_repeated).await;
        }
        let may_ask = self.may_ask.lock().await;
        if !*may_ask {
            return None;
        }
        ask::code(&question(request)).await
    }

    /// Nobody is asked from now on: the terminal is for something else.
    pub(crate) async fn ask_no_more(&self) {
        *self.may_ask.lock().await = false;
    }
}

fn question(request: &CodeRequest) -> String {
    let identity = request.identity.as_deref().unwrap_or("the identity");
    let what = match request.purpose {
        CodePurpose::PostureCheck => format!("New code of {identity} for a posture check: "),
        _ => format!("Code of {identity} (second factor): "),
    };
    match request.is_repeated {
        true => format!("The controller refused the code. {what}"),
        false => what,
    }
}
