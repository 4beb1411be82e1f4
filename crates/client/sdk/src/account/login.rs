//! Logins at the controllers.

use weft_client::Credentials;

use super::Account;
use crate::error::{Error, Result};

/// A login that failed at every controller.
#[derive(Debug)]
pub(super) struct LoginFailed {
    /// The error of the last controller.
    pub(super) last: Error,
    /// True if a controller refused the certificate.
    pub(super) is_refused: bool,
}

impl Account {
    /// Logs in, unless there is an API session.
    pub(crate) async fn ensure_login(&self) -> Result<()> {
        if self.api()?.is_logged_in() {
            return Ok(());
        }
        let _one = self.login.lock().await;
        if self.api()?.is_logged_in() {
            return Ok(());
        }
        let Err(failed) = self.log_in_once().await else { return Ok(()) };
        let is_by_certificate = matches!(self.credentials, Credentials::Certificate);
        if failed.is_refused && is_by_certificate && self.log_in_with_another().await {
            return Ok(());
        }
        Err(failed.last)
    }

    /// Logs in with the present certificate, or the other credentials of the identity, at the first controller that accepts it.
    pub(super) async fn log_in_once(&self) -> Result<(), LoginFailed> {
        let last = Error::Closed("the identity names no controller".to_owned());
        let mut failed = LoginFailed { last, is_refused: false };
        for _ in 0..self.apis.len() {
            let Ok(used) = self.used() else { break };
            let error = match used.api.login(self.credentials.clone(), self.about.clone()).await {
                Ok(session) => {
                    tracing::debug!(identity = %session.identity.name, "logged in");
                    self.note_session(&session);
                    self.known.lock().identity = Some(session.identity.name);
                    return Ok(());
                }
                Err(error) => error,
            };
            failed.is_refused |= error.is_unauthorized();
            failed.last = Error::of_login(error);
            if failed.last.is_of_person() {
                // The other controllers would ask the same person.
                break;
            }
            self.turn_from(used);
        }
        Err(failed)
    }
}
