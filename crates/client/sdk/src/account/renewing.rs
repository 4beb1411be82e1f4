//! Renewal of the identity's certificate (docs/protocol/auth.md 12).
//!
//! ```text
//! SDK                                          controller
//!   | extend, with a signing request             |
//!   |------------------------------------------->|
//!   |                        the new certificate |
//!   |<-------------------------------------------|
//!   (writes it beside the identity file)
//!   | extend-verify                              |
//!   |------------------------------------------->|   the former one counts no more
//!   (renames it over the identity file)
//! ```
//!
//! Each attempt is noted beside the identity file before the controller is asked ([`RenewalNote`]), so that programs
//! that run for a short time do not repeat it in every run.
//!
//! When the answer to the confirmation is missing, or the program ends before the file is renamed, the new
//! certificate stays beside the file. It is tried when a controller refuses the one in the file.

use std::time::SystemTime;

use weft_client::chain;
use weft_identity::{
    Certificate, CertificateRequest, Identity, KeyAlgorithm, KeyedChain, NewCertificate,
    PreparedFile, PrivateKey, RenewableFile, RenewalNote,
};

use super::Account;
use crate::error::{Error, Result};
use crate::jitter::spread;
use crate::renewal::{Due, Extension};

#[derive(Debug, thiserror::Error)]
enum RenewalError {
    #[error("renewal is turned off for this program")]
    TurnedOff,
    #[error(
        "the identity was not loaded from a file, into which a new certificate could be written"
    )]
    NoFile,
    #[error("the identity has no certificate")]
    NoCertificate,
    #[error(
        "an administrator asks for a new key, which needs a file that has key and certificate in itself \
         (`pem:`); enroll the identity again"
    )]
    KeyElsewhere,
    #[error(
        "the attempt could not be noted beside the identity file, so that every run would repeat it"
    )]
    NotNoted(#[source] weft_identity::Error),
    #[error("the controller issued no certificate")]
    NotIssued(#[source] Error),
    #[error("the controller does not confirm the new certificate")]
    NotConfirmed(#[source] Error),
    #[error(
        "the controller's answer about the new certificate is missing; if a controller refuses the \
         present certificate, the new one is used"
    )]
    Unsure(#[source] Error),
    #[error("the new certificate is in use, and could not be saved")]
    NotSaved(#[source] weft_identity::Error),
    #[error(transparent)]
    Identity(#[from] weft_identity::Error),
}

fn ends_later(one: &KeyedChain, other: &KeyedChain) -> bool {
    one.leaf().not_after() > other.leaf().not_after()
}

/// Notes a renewal that has succeeded. If only the end of the certificate led to it, nothing would repeat it, and no
/// note is needed.
fn note_success(file: &RenewableFile, note: RenewalNote, due: &Due, identity: &Identity) {
    let leaf = identity.client().map(KeyedChain::leaf);
    let noted = match leaf.filter(|_| due.is_requested || due.lacks_chain) {
        Some(leaf) => file.write_note(&note.succeeded(leaf.fingerprint())),
        None => file.remove_note(),
    };
    if let Err(problem) = noted {
        tracing::debug!(problem = chain(&problem), "the renewal is not noted");
    }
}

impl Account {
    /// Renews the certificate, if it ends soon or the controller asks for it. To be called at intervals.
    pub(crate) async fn renew_certificate(&self) {
        if !self.save_certificate() {
            return;
        }
        let extension = self.known.lock().extension.clone();
        let (identity, now) = (self.renewal.identity.current(), SystemTime::now());
        let Some(leaf) = identity.client().map(KeyedChain::leaf) else { return };
        let Some(due) = self.renewal.attempts.lock().due(&extension, leaf, now) else { return };
        let ends = leaf.end_in_words(now);
        let done = self.renew(&due).await;
        let name = self.identity_name();
        let left = self.certificate_end().duration_since(SystemTime::now()).unwrap_or_default();
        let mut attempts = self.renewal.attempts.lock();
        attempts.tried(left, spread());
        match done {
            Ok(()) => {
                attempts.succeeded(&extension);
                tracing::info!(identity = name, "the certificate of the identity is renewed");
            }
            Err(problem) if attempts.warns() => {
                tracing::warn!(
                    identity = name,
                    problem = chain(&problem),
                    ends,
                    "the certificate of the identity is not renewed"
                );
            }
            Err(problem) => {
                tracing::debug!(
                    identity = name,
                    problem = chain(&problem),
                    "the certificate of the identity is not renewed"
                );
            }
        }
    }

    fn certificate_end(&self) -> SystemTime {
        let identity = self.renewal.identity.current();
        identity.client().map_or(SystemTime::UNIX_EPOCH, |client| client.leaf().not_after())
    }

    async fn renew(&self, due: &Due) -> Result<(), RenewalError> {
        if !self.renewal.is_wanted {
            return Err(RenewalError::TurnedOff);
        }
        let file = self.renewal.file.as_ref().ok_or(RenewalError::NoFile)?;
        let current = self.renewal.identity.current();
        let client = current.client().ok_or(RenewalError::NoCertificate)?;
        let written = file.read()?;
        if written.client().is_some_and(|other| ends_later(other, client)) {
            // Another program has renewed it.
            self.use_identity(written);
            return Ok(());
        }
        file.check()?;
        let is_new_key = due.wants_new_key && file.holds_key()?;
        if due.wants_new_key && !is_new_key && !due.ends_soon {
            return Err(RenewalError::KeyElsewhere);
        }
        let key = match is_new_key {
            true => PrivateKey::generate(KeyAlgorithm::EcP256)?,
            false => client.key().clone(),
        };
        let request = CertificateRequest::renew_pem(&key, client.leaf().subject_der(), &[])?;
        let used = self.used().map_err(RenewalError::NotIssued)?;
        let note = RenewalNote::at(SystemTime::now());
        match file.write_note(&note) {
            Err(problem) if !due.ends_soon && !due.is_requested => {
                return Err(RenewalError::NotNoted(problem));
            }
            Err(problem) => tracing::debug!(problem = chain(&problem), "the renewal is not noted"),
            Ok(()) => {}
        }
        let issued = used.api.extend(&due.authenticator, request).await;
        let issued = self.watch(used, issued).map_err(RenewalError::NotIssued)?;
        KeyedChain::new(Certificate::from_pem(issued.client_cert.as_bytes())?, key.clone())?;
        let new = NewCertificate {
            chain: &issued.client_cert,
            key: is_new_key.then_some(&key),
            ca: &issued.ca,
        };
        let prepared = file.prepare(&new)?;
        let confirmed = used.api.extend_verify(&due.authenticator, issued.client_cert).await;
        match confirmed {
            Ok(()) => {
                note_success(file, note, due, prepared.identity());
                self.take(prepared)?;
                self.begin_anew().await;
                Ok(())
            }
            Err(problem) if problem.api().is_some() && !problem.is_temporary() => {
                prepared.discard();
                Err(RenewalError::NotConfirmed(problem.into()))
            }
            Err(problem) => Err(RenewalError::Unsure(problem.into())),
        }
    }

    /// Uses a confirmed certificate, and puts it into its file.
    fn take(&self, mut prepared: PreparedFile) -> Result<(), RenewalError> {
        self.use_identity(prepared.identity().clone());
        if let Err(problem) = prepared.put() {
            *self.renewal.unsaved.lock() = Some(prepared);
            return Err(RenewalError::NotSaved(problem));
        }
        Ok(())
    }

    /// Logs in again in place of a session whose tokens name the former certificate.
    async fn begin_anew(&self) {
        let has_tokens = self.shown().is_some_and(|shown| shown.is_refreshed());
        if !has_tokens {
            return;
        }
        let _one = self.login.lock().await;
        if let Err(failed) = self.log_in_once().await {
            let problem = failed.last;
            tracing::debug!(
                problem = chain(&problem),
                "there is no session with the new certificate yet"
            );
        }
    }

    /// Puts a confirmed certificate into its file that could not be put there before. False if it still cannot.
    fn save_certificate(&self) -> bool {
        let mut unsaved = self.renewal.unsaved.lock();
        let Some(prepared) = unsaved.as_mut() else { return true };
        let is_saved = prepared.put().is_ok();
        if is_saved {
            tracing::info!("the renewed certificate of the identity is saved");
            *unsaved = None;
        }
        is_saved
    }

    /// Uses another certificate from now on. Open connections to routers stay.
    pub(super) fn use_identity(&self, identity: Identity) {
        self.renewal.identity.replace(identity);
        for api in &self.apis {
            if let Err(problem) = api.reconnect() {
                tracing::warn!(
                    problem = chain(&problem),
                    "connections to a controller still show the former certificate"
                );
            }
        }
    }

    /// Logs in with another certificate, after a controller has refused the one in use: another program may have
    /// renewed it, or this one may have ended in the middle of a renewal. False if there is no other one, or
    /// it is refused, too.
    pub(super) async fn log_in_with_another(&self) -> bool {
        for (other, is_left) in self.renewal.others() {
            let former = (*self.renewal.identity.current()).clone();
            self.use_identity(other);
            match self.log_in_once().await {
                Ok(()) => {
                    tracing::info!(
                        identity = self.identity_name(),
                        "the controller takes the renewed certificate of the identity"
                    );
                    let file = self.renewal.file.as_ref().filter(|_| is_left);
                    let settled = file.map(|file| file.settle().and_then(|()| file.remove_note()));
                    if let Some(Err(problem)) = settled {
                        tracing::warn!(
                            problem = chain(&problem),
                            "the renewed certificate could not be put in its place"
                        );
                    }
                    return true;
                }
                Err(failed) => {
                    let problem = failed.last;
                    tracing::debug!(
                        problem = chain(&problem),
                        "the other certificate does not help"
                    );
                    self.use_identity(former);
                }
            }
        }
        false
    }

    /// Notes the controller's answer about the certificate.
    pub(super) fn note_extension(&self, extension: Extension) {
        self.known.lock().extension = extension;
    }
}
