//! Follows the files that have the identity's certificate, which somebody else may renew: the authority of a company, or
//! another program with the same identity file.
//!
//! A session belongs to the certificate that it began with: routers take no other one for it. So there is another login as
//! soon as a new certificate is there. Connections that are open stay on the channels of the former session.

use weft_client::{Credentials, chain};
use weft_identity::Identity;

use super::Account;
use crate::renewal::Material;

impl Account {
    /// Uses the certificate in the identity's files, if that is another one than the files had before. To be called at
    /// intervals. While the files cannot be used, for instance because the certificate is there and its key is not yet, the
    /// present certificate stays.
    pub(crate) async fn follow_files(&self) {
        let is_saved = self.renewal.unsaved.lock().is_none();
        if !matches!(self.credentials, Credentials::Certificate) || !is_saved {
            return;
        }
        let files = self.renewal.files();
        let Ok(read) = tokio::task::spawn_blocking(move || files.read()).await else { return };
        match read {
            Ok(identity) => {
                if self.renewal.followed.lock().note(Material::of(&identity)) {
                    self.use_renewed(identity).await;
                }
            }
            Err(problem) => {
                let text = problem.to_string();
                if self.renewal.followed.lock().complains(text) {
                    tracing::warn!(
                        identity = self.identity_name(),
                        problem = chain(&problem),
                        "the changed files of the identity cannot be used; the former certificate stays in use"
                    );
                }
            }
        }
    }

    /// Uses what the files of the identity have now.
    async fn use_renewed(&self, identity: Identity) {
        let former = self.renewal.identity.current();
        let (before, now) = (Material::of(&former), Material::of(&identity));
        if before == now {
            return;
        }
        self.use_identity(identity);
        if before.chain == now.chain {
            return;
        }
        let name = self.identity_name();
        let _one = self.login.lock().await;
        match self.log_in_once().await {
            Ok(()) => {
                tracing::info!(
                    identity = name,
                    "the renewed certificate of the identity is in use"
                );
            }
            Err(failed) if failed.is_refused => {
                tracing::warn!(
                    identity = name,
                    problem = chain(&failed.last),
                    "the controller refuses the renewed certificate of the identity, and the former one stays in use: an \
                     identity that is found by its certificate has to enroll again (docs/authorities.md)"
                );
                self.use_identity((*former).clone());
                if let Err(failed) = self.log_in_once().await {
                    let problem = failed.last;
                    tracing::debug!(
                        problem = chain(&problem),
                        "there is no session with the former certificate yet"
                    );
                }
            }
            Err(failed) => {
                let problem = failed.last;
                tracing::debug!(
                    problem = chain(&problem),
                    "there is no session with the renewed certificate yet"
                );
            }
        }
    }
}
