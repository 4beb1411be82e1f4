//! This program as an end of connections that prove themselves: its key, and the controller's statements about it
//! (docs/protocol/sdk.md 14.6).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use parking_lot::Mutex;
use weft_e2e::ends::{Statement, StatementReply, Statements};
use weft_limits::LogLines;

use crate::account::Account;
use crate::error::{Error, Result};

/// What a statement is for: a service session, and the instance that it hosts; empty for none.
type Purpose = (String, String);

/// This program as an end.
#[derive(Debug)]
pub(crate) struct Ends {
    own: weft_e2e::ends::Ends,
    /// True if this program proves itself.
    proves: bool,
    statements: Statements<Purpose>,
    renewing: tokio::sync::Mutex<()>,
    /// Lines about dialers that have not proved themselves.
    complaints: Mutex<LogLines>,
}

impl Ends {
    /// An end with a key of its own, which `proves` says is used.
    pub(crate) fn new(proves: bool) -> Result<Self> {
        let own = weft_e2e::ends::Ends::new().map_err(|error| Error::Encryption {
            service: "any".to_owned(),
            problem: error.to_string(),
        })?;
        let complaints = Mutex::new(LogLines::new(weft_circuit::now()));
        let (statements, renewing) = Default::default();
        Ok(Self { own, proves, statements, renewing, complaints })
    }

    /// The key, and what is remembered of other ends.
    pub(crate) fn own(&self) -> &weft_e2e::ends::Ends {
        &self.own
    }

    /// The public key, as logins name it; `None` if this program does not prove itself.
    pub(crate) fn key(&self) -> Option<String> {
        self.proves.then(|| STANDARD.encode(self.own.key()))
    }

    /// The number of lines about dialers without a proof that were left out, if one is to be logged now.
    pub(crate) fn complains(&self) -> Option<u64> {
        self.complaints.lock().due(weft_circuit::now())
    }

    /// The controller's statement for a service session, and the instance that it hosts; `None` if the controller gives
    /// none, or was not reached.
    pub(crate) async fn statement(
        &self,
        account: &Account,
        session: &str,
        instance: &str,
    ) -> Option<Arc<Statement>> {
        if !self.proves {
            return None;
        }
        let purpose = (session.to_owned(), instance.to_owned());
        let (known, patience) = self.statements.known(&purpose);
        let Some(patience) = patience else { return known };
        let asked = account.ask(|api| api.end_statement(session, instance).boxed());
        let answer = match tokio::time::timeout(patience, asked).await {
            Ok(Ok(told)) => StatementReply::Stated(session.to_owned(), told),
            Ok(Err(Error::Controller(problem))) if !problem.is_temporary() => {
                match lacks_terminator(&problem) {
                    true => StatementReply::NotYet,
                    false => StatementReply::Refused,
                }
            }
            Ok(Err(_)) | Err(_) => StatementReply::Unreached,
        };
        self.statements.answered(&purpose, answer)
    }

    /// The newest statement in the place of this one: a peer has shown a statement of a key that is not known, as those of
    /// a controller that has just begun are. All that wait are served by one question.
    pub(crate) async fn renewed(
        &self,
        account: &Account,
        own: &Statement,
    ) -> Option<Arc<Statement>> {
        let _one_by_one = self.renewing.lock().await;
        let purpose = (own.session().to_owned(), own.instance().to_owned());
        self.statements.ask_now(&purpose);
        self.statement(account, &purpose.0, &purpose.1).await
    }

    /// A proof has failed: the controller may have new keys, and is asked before one of the next connections.
    pub(crate) fn doubts(&self, own: &Statement) {
        self.statements.ask_soon(&(own.session().to_owned(), own.instance().to_owned()));
    }
}

/// True if the controller knows no terminator of this host that offers the instance: it may be about to be made.
fn lacks_terminator(problem: &weft_client::Error) -> bool {
    let cause = problem.api().and_then(|refused| refused.body.cause.as_deref());
    cause.and_then(|cause| cause.field.as_deref()) == Some("instance")
}

#[cfg(test)]
mod tests {
    use weft_client::ApiError;

    use super::*;

    #[test]
    fn a_refusal_before_the_terminator_is_there_is_not_one_for_ever() {
        let refusal = |status: u16, body: &str| {
            weft_client::Error::Api(Box::new(ApiError {
                status,
                body: serde_json::from_str(body).unwrap(),
                retry_after: None,
                challenge: None,
            }))
        };
        let of = |field: &str| {
            format!(r#"{{"code":"INVALID_FIELD","cause":{{"field":"{field}","reason":"none"}}}}"#)
        };
        assert!(lacks_terminator(&refusal(400, &of("instance"))));
        assert!(!lacks_terminator(&refusal(400, &of("endKey"))));
        assert!(!lacks_terminator(&refusal(404, r#"{"code":"NOT_FOUND"}"#)));
    }
}
