//! A new password for a login, by somebody who has the files of the stopped controller: the way back
//! if no administrator can log in. The next run of the controller tells of it in its log.

use std::sync::Arc;

use weft_auth::credentials::{check_password, hash};
use weft_model::entity::{AuthPolicy, Authenticator, Identity};
use weft_model::{Id, Snapshot};
use weft_store::{ReadError, Space};

use crate::{Caller, Controller, Failure};

/// Notes of passwords that were set, for the log of the next run.
const SET: Space = Space(32);

/// Why a password was not set.
#[derive(Debug, thiserror::Error)]
pub enum ResetError {
    /// No login has this user name.
    #[error("no login with a password has the user name `{0}`")]
    NoLogin(String),
    /// The auth policy of the identity allows no passwords.
    #[error("the auth policy of `{0}` allows no logins with a password")]
    NotAllowed(String),
    /// The password breaks a rule of the auth policy, or was not stored.
    #[error(transparent)]
    Refused(#[from] Failure),
}

impl Controller {
    /// Sets the password of a login, unlocks it, and enables its identity. Sessions that began with the
    /// former password end. Returns the name of the identity.
    pub async fn reset_password(
        &self,
        username: &str,
        password: &str,
    ) -> Result<String, ResetError> {
        let snapshot = self.kernel().snapshot();
        let (login, identity) = login_of(&snapshot, username)
            .ok_or_else(|| ResetError::NoLogin(username.to_owned()))?;
        let policy = snapshot.get::<AuthPolicy>(&identity.auth_policy_id);
        if policy.is_some_and(|policy| !policy.updb.allowed) {
            return Err(ResetError::NotAllowed(identity.name.to_string()));
        }
        check_password(&snapshot, &identity, password)?;
        let (hashed, _) = hash(self.auth(), password).await?;
        let (login, owner) = (login.base.id.clone(), identity.base.id.clone());
        let wanted = login.clone();
        self.kernel()
            .decide(&Caller::own("password"), move |decision| {
                let (tip, now) = (decision.tip(), decision.now());
                let gone = || Failure::not_found("authenticator", wanted.as_str());
                let mut login = (**tip.get::<Authenticator>(&wanted).ok_or_else(gone)?).clone();
                let mut identity = (**tip.get::<Identity>(&owner).ok_or_else(gone)?).clone();
                if let Some(updb) = &mut login.updb {
                    updb.password.clone_from(&hashed.password);
                    updb.salt.clone_from(&hashed.salt);
                    updb.unlock();
                }
                (identity.disabled_at, identity.disabled_until) = (None, None);
                (login.base.updated_at, identity.base.updated_at) = (now, now);
                decision.put(login);
                decision.put(identity);
                Ok(())
            })
            .await?;
        self.note(&login, &format!("{username} of {}", identity.name));
        Ok(identity.name.to_string())
    }

    /// User names of the administrators that have a password.
    pub fn administrators(&self) -> Vec<String> {
        let snapshot = self.kernel().snapshot();
        let logins = snapshot.list::<Authenticator>().filter(|login| {
            let owner = snapshot.get::<Identity>(&login.identity_id);
            owner.is_some_and(|owner| owner.is_admin || owner.is_default_admin)
        });
        logins.filter_map(|login| Some(login.updb.as_ref()?.username.to_string())).collect()
    }

    fn note(&self, login: &Id, whose: &str) {
        let text = format!("{}\n{whose}", self.kernel().now());
        self.kernel().settings().store.live().put_note(SET, login.as_str(), Some(text.into()));
    }

    /// The passwords that were set while the controller did not run, each as user name and time. They are
    /// told once.
    pub fn take_reset_passwords(&self) -> Result<Vec<(String, String)>, ReadError> {
        let live = self.kernel().settings().store.live();
        let notes = live.notes(SET)?;
        let told = notes.into_iter().map(|(key, text)| {
            live.put_note(SET, &key, None);
            let text = String::from_utf8_lossy(&text).into_owned();
            let (time, whose) = text.split_once('\n').unwrap_or(("", &text));
            (whose.to_owned(), time.to_owned())
        });
        Ok(told.collect())
    }
}

fn login_of(snapshot: &Snapshot, username: &str) -> Option<(Arc<Authenticator>, Arc<Identity>)> {
    let is_it = |login: &&Arc<Authenticator>| {
        login.updb.as_ref().is_some_and(|updb| *updb.username == *username)
    };
    let login = snapshot.list::<Authenticator>().find(is_it)?;
    let identity = snapshot.get::<Identity>(&login.identity_id)?;
    Some((Arc::clone(login), Arc::clone(identity)))
}

#[cfg(test)]
mod tests {
    use weft_model::Timestamp;

    use super::*;
    use crate::testing::{Bed, PASSWORD, USERNAME};

    #[tokio::test]
    async fn a_new_password_opens_a_disabled_login_ends_its_sessions_and_is_told_once() {
        let bed = Bed::new().await;
        bed.admin().await;
        let stopped = bed.restarted().await;
        let controller = &stopped.controller;
        let sessions = || controller.auth().sessions().counts().api_sessions;
        assert_eq!((controller.administrators(), sessions()), (vec![USERNAME.to_owned()], 1));
        let unknown = controller.reset_password("nobody", "ganz neu").await.unwrap_err();
        assert!(unknown.to_string().contains("`nobody`"), "{unknown}");
        let short = controller.reset_password(USERNAME, "neu").await.unwrap_err();
        assert!(matches!(short, ResetError::Refused(_)), "{short}");
        assert_eq!(sessions(), 1);
        let whose = controller.reset_password(USERNAME, "ganz neu").await.unwrap();
        assert_eq!((whose.as_str(), sessions()), ("Default Admin", 0));

        let system = Caller::system();
        let disable = controller.kernel().decide(&system, |decision| {
            let tip = decision.tip();
            let found = tip.list::<Identity>().find(|it| it.is_default_admin).unwrap();
            let disabled_at = Some(Timestamp(1));
            decision.put(Identity { disabled_at, ..(**found).clone() });
            Ok(())
        });
        disable.await.unwrap();
        assert!(stopped.login(USERNAME, "ganz neu").await.is_err());
        controller.reset_password(USERNAME, "noch einmal").await.unwrap();

        let again = stopped.restarted().await;
        assert!(again.login(USERNAME, PASSWORD).await.is_err());
        assert!(again.login(USERNAME, "noch einmal").await.is_ok());
        let told = again.controller.take_reset_passwords().unwrap();
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].0, format!("{USERNAME} of Default Admin"));
        assert!(again.controller.take_reset_passwords().unwrap().is_empty());
    }
}
