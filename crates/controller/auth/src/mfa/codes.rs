//! Codes of second factors: each waits for its turn, is checked, and changes the second factor in the same decision
//! (docs/protocol/auth.md 11).

use std::sync::Arc;

use weft_contract::ErrorCode;
use weft_kernel::decision::Decision;
use weft_kernel::events::EndCause;
use weft_kernel::{Caller, Failure, Result};
use weft_model::entity::{Identity, Mfa, OfKind as _};
use weft_model::{Base, Id, Snapshot};

use super::{not_found, of, wrong_code};
use crate::attempts::{CodeKind, Guesser};
use crate::current::{login_of, session_of};
use crate::handle::Auth;
use crate::totp::{self, Takes};

/// The purpose of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Enroll,
    /// To enroll within a login, in which the enrollment counts.
    EnrollInLogin,
    Authenticate,
    /// To prove a second factor to routers.
    Prove,
    ReadRecoveryCodes,
    NewRecoveryCodes,
    Remove,
}

impl Purpose {
    fn takes(self) -> Takes {
        match self {
            Self::Enroll | Self::EnrollInLogin | Self::Prove | Self::ReadRecoveryCodes => {
                Takes::Totp
            }
            Self::Authenticate | Self::NewRecoveryCodes | Self::Remove => Takes::TotpOrRecovery,
        }
    }

    /// The second factor that the code is for: an unverified one to enroll, otherwise the one in
    /// use.
    fn finds(self, snapshot: &Snapshot, identity: &str) -> Result<Arc<Mfa>> {
        let is_verified = !matches!(self, Self::Enroll | Self::EnrollInLogin);
        let found = of(snapshot, identity).filter(|mfa| mfa.is_verified == is_verified);
        found.cloned().ok_or_else(|| not_found(identity))
    }
}

/// Waits for the turn of a code of the caller, checks it, and changes the second factor in the same decision.
pub(super) async fn with_code(
    auth: &Auth,
    caller: &Caller,
    code: String,
    purpose: Purpose,
    change: impl Fn(&mut Decision<'_>, Mfa) -> Result<()> + Send + Sync + 'static,
) -> Result<()> {
    let login = login_of(caller)?;
    let known = auth.sessions().by_id(&login.session.id);
    let giver = Giver {
        identity: Id::new(&login.identity),
        session: Id::new(&login.session.id),
        is_proven: known.is_some_and(|session| session.is_mfa_complete),
    };
    let is_current = |auth: &Auth| session_of(auth, caller).map(drop);
    code_of_giver(auth, caller, giver, code, purpose, (is_current, change)).await
}

/// The identity that gives a code, in a session or in a login that leads to one.
#[derive(Debug, Clone)]
pub(crate) struct Giver {
    pub(crate) identity: Id,
    pub(crate) session: Id,
    /// Whether the session has given a code before.
    pub(crate) is_proven: bool,
}

impl Auth {
    /// Checks the code that completes the login of an identity: a one-time code or a recovery code.
    pub(crate) async fn code_of_login(
        &self,
        caller: &Caller,
        giver: Giver,
        code: String,
    ) -> Result<()> {
        let put = |decision: &mut Decision<'_>, mfa| {
            decision.put(mfa);
            Ok(())
        };
        code_of_giver(self, caller, giver, code, Purpose::Authenticate, (|_: &Auth| Ok(()), put))
            .await
    }

    /// Checks the first code of a second factor, which is in use from then on. It counts in the login that enrolled.
    pub(crate) async fn code_of_enrollment(
        &self,
        caller: &Caller,
        giver: Giver,
        code: String,
    ) -> Result<()> {
        let identity = giver.identity.clone();
        let put = |decision: &mut Decision<'_>, mut mfa: Mfa| {
            mfa.is_verified = true;
            decision.put(mfa);
            Ok(())
        };
        let purpose = Purpose::EnrollInLogin;
        code_of_giver(self, caller, giver, code, purpose, (|_: &Auth| Ok(()), put)).await?;
        self.code_is_needed(&identity);
        Ok(())
    }

    /// Handles that the sessions of an identity need a code from now on.
    pub(super) fn code_is_needed(&self, identity: &Id) {
        self.sessions().changed_around(identity);
        let own = self.sessions().of_identity(identity);
        self.sessions().end_incomplete(&self.kernel().snapshot(), &own, &EndCause::Other);
    }

    /// The second factor of an identity.
    pub(crate) fn mfa_of(&self, identity: &str) -> Option<Arc<Mfa>> {
        of(&self.kernel().snapshot(), identity).cloned()
    }

    /// Begins a second factor of an identity; an unverified one is replaced.
    pub(crate) async fn begin_mfa(&self, caller: &Caller, identity: &Id) -> Result<Id> {
        let (identity, id) = (identity.clone(), self.kernel().ids().entity());
        let secret = totp::secret(self.kernel().ids().bytes());
        let codes = totp::recovery_codes(self.kernel().ids().bytes());
        let made = id.clone();
        self.kernel()
            .decide(caller, move |decision| {
                decision.require::<Identity>("identityId", &identity)?;
                if let Some(old) = of(decision.tip(), identity.as_str()) {
                    if old.is_verified {
                        return Err(ErrorCode::MfaExists.into());
                    }
                    decision.delete(Mfa::KIND, &old.base.id)?;
                }
                decision.put(Mfa {
                    base: Base::new(id.clone(), decision.now()),
                    identity_id: identity.clone(),
                    is_verified: false,
                    secret: secret.clone(),
                    recovery_codes: codes.clone(),
                    last_step: 0,
                });
                Ok(())
            })
            .await?;
        Ok(made)
    }

    /// Removes a second factor that is not verified.
    pub(crate) async fn drop_unverified_mfa(&self, caller: &Caller, seen: Mfa) -> Result<()> {
        self.kernel()
            .decide(caller, move |decision| {
                let now = decision.tip().get::<Mfa>(&seen.base.id);
                match now {
                    Some(now) if !now.is_verified => decision.delete(Mfa::KIND, &seen.base.id),
                    _ => Err(not_found(seen.identity_id.as_str())),
                }
            })
            .await
            .map(drop)
    }
}

/// Waits for the turn of a code, checks it, and changes the second factor in the same decision. `is_current` says, after
/// the wait, whether the code is still wanted.
async fn code_of_giver(
    auth: &Auth,
    caller: &Caller,
    Giver { identity, session, is_proven }: Giver,
    code: String,
    purpose: Purpose,
    (is_current, change): (
        impl Fn(&Auth) -> Result<()>,
        impl Fn(&mut Decision<'_>, Mfa) -> Result<()> + Send + Sync + 'static,
    ),
) -> Result<()> {
    purpose.finds(&auth.kernel().snapshot(), identity.as_str())?;
    let guesser = Guesser {
        is_proven,
        source: caller.origin.remote.map(|remote| remote.ip()),
        identity: identity.clone(),
        session: session.clone(),
    };
    let attempt = auth.attempts().attempt(guesser, CodeKind::of(&code)).await.map_err(|wait| {
        Failure::because(ErrorCode::ServerTooManyRequests, "too many wrong codes")
            .with_retry_after(wait)
    })?;
    if let Err(ended) = is_current(auth) {
        attempt.neither();
        return Err(ended);
    }
    let (spent, now) = (auth.spent(), auth.kernel().now());
    let serves_again = match purpose {
        Purpose::ReadRecoveryCodes => spent.reads(&identity, &session, &code, now),
        Purpose::Authenticate | Purpose::Prove => spent.authenticates(&identity, &code, now),
        _ => false,
    };
    if serves_again {
        attempt.neither();
        return Ok(());
    }
    let takes = purpose.takes();
    let is_doubted = purpose.finds(&auth.kernel().snapshot(), identity.as_str()).is_ok_and(|mfa| {
        totp::accept(&mut (*mfa).clone(), &code, takes, now) && !attempt.believes(&code)
    });
    if is_doubted {
        return Err(wrong_code());
    }
    let (owner, given) = (identity.clone(), code.clone());
    let done = auth
        .kernel()
        .decide(caller, move |decision| {
            let mut mfa = (*purpose.finds(decision.tip(), owner.as_str())?).clone();
            if !totp::accept(&mut mfa, &given, takes, decision.now()) {
                return Err(wrong_code());
            }
            mfa.base.updated_at = decision.now();
            change(decision, mfa)
        })
        .await;
    match &done {
        Ok(_) => {
            // An accepted code may be used once more to read the result of its operation. For a
            // recovery code that holds only if the operation made new recovery codes.
            if CodeKind::of(&code) == CodeKind::Totp || purpose == Purpose::NewRecoveryCodes {
                spent.put(&identity, &session, &code, purpose == Purpose::Enroll, now);
            }
            attempt.right();
        }
        Err(failure) if failure.code() == ErrorCode::MfaInvalidToken => drop(attempt),
        Err(_) => attempt.neither(),
    }
    done.map(drop)
}
