//! Codes of the second factor: from the command line once, and then from the person at the terminal.

use std::sync::Arc;

use parking_lot::Mutex;
use weft_sdk::{CodePurpose, CodeRequest, ContextBuilder};

use crate::{ask, cli::IdentityLogin};

/// Codes for all identities of a command.
pub(super) struct Codes {
    /// The code of the command line, until it is given.
    given: Mutex<Option<String>>,
    /// Held during a question. False once standard input is for something else.
    may_ask: tokio::sync::Mutex<bool>,
}

impl Codes {
    pub(super) fn new(login: &IdentityLogin) -> Arc<Self> {
        let given = Mutex::new(login.code.clone());
        Arc::new(Self { given, may_ask: tokio::sync::Mutex::new(true) })
    }

    /// Lets the contexts of a builder ask for codes.
    pub(super) fn with(self: &Arc<Self>, builder: ContextBuilder) -> ContextBuilder {
        let codes = Arc::clone(self);
        builder.second_factor(move |request| {
            let codes = Arc::clone(&codes);
            async move { codes.code(&request).await }
        })
    }

    async fn code(&self, request: &CodeRequest) -> Option<String> {
        let may_ask = self.may_ask.lock().await;
        if let Some(code) = self.given.lock().take() {
            return Some(code);
        }
        if !*may_ask {
            return None;
        }
        ask::code(&question(request)).await
    }

    /// Standard input is for something else from now on.
    pub(super) async fn ask_no_more(&self) {
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
