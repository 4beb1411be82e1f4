//! Codes of the second factor: from the command line once, and then from a secret, or from the person at the
//! terminal.

use std::sync::Arc;

use parking_lot::Mutex;
use weft_client::TotpSecret;
use weft_sdk::{CodePurpose, CodeRequest, ContextBuilder};

use crate::{ask, cli::CodeSource, failure::Failure};

/// Codes for all identities of a command.
pub(crate) struct Codes {
    /// The code of the command line, until it is given.
    given: Mutex<Option<String>>,
    /// The secret that makes codes. With it nobody is asked.
    secret: Option<TotpSecret>,
    /// Held during a question. False once the terminal is for something else.
    may_ask: tokio::sync::Mutex<bool>,
}

impl Codes {
    /// Codes from this source.
    ///
    /// # Errors
    /// When the file of the secret cannot be read or understood.
    pub(crate) fn new(source: &CodeSource) -> Result<Arc<Self>, Failure> {
        let secret = source.totp_secret_file.as_deref().map(TotpSecret::read).transpose()?;
        let given = Mutex::new(source.code.clone().filter(|code| !code.trim().is_empty()));
        Ok(Arc::new(Self { given, secret, may_ask: tokio::sync::Mutex::new(true) }))
    }

    /// Lets the contexts of a builder ask for codes.
    pub(crate) fn with(self: &Arc<Self>, builder: ContextBuilder) -> ContextBuilder {
        let codes = Arc::clone(self);
        builder.second_factor(move |request| {
            let codes = Arc::clone(&codes);
            async move { codes.code(&request).await }
        })
    }

    /// Codes for a client of the management API.
    pub(crate) fn of_client(self: &Arc<Self>) -> weft_client::Codes {
        let codes = Arc::clone(self);
        weft_client::Codes::new(move |request| {
            let codes = Arc::clone(&codes);
            async move { codes.code(&request).await }
        })
    }

    async fn code(&self, request: &CodeRequest) -> Option<String> {
        if let Some(code) = self.given.lock().take() {
            return Some(code);
        }
        if let Some(secret) = &self.secret {
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
    let identity = &request.identity;
    let what = match request.purpose {
        CodePurpose::PostureCheck => format!("New code of {identity} for a posture check: "),
        _ => format!("Code of {identity} (second factor): "),
    };
    match request.is_repeated {
        true => format!("The controller refused the code. {what}"),
        false => what,
    }
}
