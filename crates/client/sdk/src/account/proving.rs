//! The proofs that posture checks ask for: reports about this device, and codes of the second factor
//! (docs/protocol/auth.md 9.7, 18).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weft_client::chain;
use weft_contract::resource::service::ServiceDetail;

use super::Account;
use crate::error::Result;
use crate::posture;

impl Account {
    /// Tells the controller about this device, if services of the identity have posture checks and
    /// the controller does not know it yet. To be called at intervals.
    pub(crate) async fn answer_posture_checks(&self) -> Result<()> {
        let questions = posture::questions(self.known.lock().services.values().map(Arc::as_ref));
        if questions.is_empty() {
            return Ok(());
        }
        self.ensure_login().await?;
        let used = self.used()?;
        self.watch(used, self.posture.report(used.api, questions).await).map(|_| ())
    }

    /// Tells the controller about this device, as the posture checks of a service ask. If that
    /// fails, the controller decides by the reports that it has.
    pub(super) async fn answer_checks_of(&self, service: &ServiceDetail) {
        let questions = posture::questions([service]);
        let Ok(used) = self.used() else { return };
        let told = self.watch(used, self.posture.report(used.api, questions).await);
        if let Err(problem) = told {
            tracing::debug!(service = %service.name, problem = chain(&problem), "the posture checks of a service were not answered");
        }
    }

    /// Gives the controller a new code of the second factor. A call that is given up leaves the question to
    /// [`Account::keep_proving`] and to later calls.
    pub(super) async fn prove(&self) -> Result<()> {
        let proofs = &self.proofs;
        let before = proofs.given.load(Ordering::SeqCst);
        proofs.is_open.store(true, Ordering::SeqCst);
        proofs.opened.notify_one();
        let _one = proofs.one.lock().await;
        if proofs.given.load(Ordering::SeqCst) != before {
            return Ok(());
        }
        let given = self.give_code().await;
        proofs.is_open.store(false, Ordering::SeqCst);
        if given.is_ok() {
            proofs.given.fetch_add(1, Ordering::SeqCst);
        }
        given
    }

    async fn give_code(&self) -> Result<()> {
        self.ensure_login().await?;
        let used = self.used()?;
        let identity = self.identity_name();
        self.watch(used, used.api.prove(identity).await)
    }

    /// Waits for the codes that calls have asked for and given up.
    pub(crate) async fn keep_proving(&self) {
        loop {
            self.proofs.opened.notified().await;
            let _one = self.proofs.one.lock().await;
            if !self.proofs.is_open.swap(false, Ordering::SeqCst) {
                continue;
            }
            match self.give_code().await {
                Ok(()) => {
                    self.proofs.given.fetch_add(1, Ordering::SeqCst);
                }
                Err(problem) => {
                    tracing::debug!(
                        problem = chain(&problem),
                        "a posture check got no code of the second factor"
                    )
                }
            }
        }
    }
}
