//! The second factor of the caller: begin, verify, use at a login, remove (docs/protocol/auth.md
//! 11).
//!
//! The decision checks a code against the last used step, so that of two requests with the same
//! code one is refused (`codes`). [`super::spent`] has the further uses of an accepted code,
//! [`super::attempts`] the limits on guessing.

mod codes;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use codes::Giver;
use codes::{Purpose, with_code};
use weft_contract::entity::{Base as BaseDetail, Link, Links};
use weft_contract::envelope::Created;
use weft_contract::resource::mfa::{CodeBody, MfaDetail, PATH, RecoveryCodes, TotpToken};
use weft_contract::{Api, ErrorCode, Verb, headers};
use weft_kernel::call::HandlerRow;
use weft_kernel::decision::Decision;
use weft_kernel::{Call, Caller, Failure, Reply, Result, convert};
use weft_model::entity::{Mfa, OfKind as _};
use weft_model::token::{AUDIENCE, TokenKind, TotpClaims};
use weft_model::{Id, Snapshot};

use super::current::{login_of, session_of};
use super::totp::{self, PictureError};
use crate::handle::Auth;

/// The operations, the same in both APIs.
pub const HANDLERS: &[HandlerRow<Auth>] = &[
    (Api::Management, "authenticateMfa", &authenticate),
    (Api::Client, "authenticateMfa", &authenticate),
    (Api::Management, "createTotpToken", &totp_token),
    (Api::Client, "createTotpToken", &totp_token),
    (Api::Management, "detailMfa", &detail),
    (Api::Client, "detailMfa", &detail),
    (Api::Management, "enrollMfa", &enroll),
    (Api::Client, "enrollMfa", &enroll),
    (Api::Management, "deleteMfa", &remove),
    (Api::Client, "deleteMfa", &remove),
    (Api::Management, "detailMfaQrCode", &qr_code),
    (Api::Client, "detailMfaQrCode", &qr_code),
    (Api::Management, "detailMfaRecoveryCodes", &recovery_codes),
    (Api::Client, "detailMfaRecoveryCodes", &recovery_codes),
    (Api::Management, "createMfaRecoveryCodes", &new_recovery_codes),
    (Api::Client, "createMfaRecoveryCodes", &new_recovery_codes),
    (Api::Management, "verifyMfa", &verify),
    (Api::Client, "verifyMfa", &verify),
];

/// Life of a proof for routers that a code was given. A client shows it at once.
const PROOF: Duration = Duration::from_secs(300);

/// The login method of a one-time code.
const TOTP: &str = "totp";

/// The second factor of an identity.
pub fn of<'s>(snapshot: &'s Snapshot, identity: &str) -> Option<&'s Arc<Mfa>> {
    snapshot.by_unique::<Mfa>(Mfa::IDENTITY, identity)
}

fn not_found(identity: &str) -> Failure {
    Failure::not_found("MFA of identity", identity)
}

/// The refusal of a wrong code, at every operation that takes one: 401 with the error code that clients know.
fn wrong_code() -> Failure {
    Failure::new(ErrorCode::MfaInvalidToken).with_status(401)
}

/// The code of a body.
fn code_of(call: &Call) -> Result<String> {
    let body: CodeBody = call.decode(Verb::Create)?;
    Ok(body.code.unwrap_or_default())
}

/// Handles `POST /authenticate/mfa`: the code that completes a login (docs/protocol/auth.md 9.7).
async fn authenticate(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let code = code_of(&call)?;
    let identity = login_of(&caller)?.identity.clone();
    if of(&auth.kernel().snapshot(), &identity).is_none_or(|mfa| !mfa.is_verified) {
        return Err(Failure::new(ErrorCode::MfaNotEnrolled).with_status(401));
    }
    let session = session_of(&auth, &caller)?;
    let put = |decision: &mut Decision<'_>, mfa| {
        decision.put(mfa);
        Ok(())
    };
    // The login counts if its code was right. It waits before that, so that no recovery code is
    // used up for nothing.
    let from = caller.origin.remote.map(|remote| remote.ip());
    let until = auth.patience();
    auth.admits_logins()?;
    let counted = auth.rates().login(&session.identity_id, true, from, until).await?;
    with_code(&auth, &caller, code, Purpose::Authenticate, put).await?;
    counted.keep();
    auth.mfa_passed(&session.base.id).await?;
    Reply::empty()
}

/// A signed proof for routers that a code was given, for sessions that routers judge themselves
/// (docs/protocol/auth.md 11.5).
async fn totp_token(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let code = code_of(&call)?;
    let login = login_of(&caller)?;
    if login.session.legacy {
        return Err(ErrorCode::InvalidBackingTokenType.into());
    }
    if of(&auth.kernel().snapshot(), &login.identity).is_none_or(|mfa| !mfa.is_verified) {
        return Err(ErrorCode::MfaNotEnrolled.into());
    }
    let put = |decision: &mut Decision<'_>, mfa| {
        decision.put(mfa);
        Ok(())
    };
    with_code(&auth, &caller, code, Purpose::Prove, put).await?;
    auth.mfa_passed(&Id::new(&login.session.id)).await?;
    let now = auth.kernel().now();
    let claims = TotpClaims {
        iss: auth.issuer(),
        sub: login.identity.clone(),
        aud: vec![AUDIENCE.to_owned()],
        iat: now.secs(),
        exp: Some(now.plus(PROOF).secs()),
        jti: auth.kernel().ids().token().to_string(),
        z_asid: login.session.id.clone(),
        z_t: TokenKind::Totp,
    };
    let token = auth.sign(&claims)?;
    Reply::detail(&TotpToken { issued_at: convert::time(now), token })
}

/// Begins a second factor; an unverified one is replaced.
async fn enroll(auth: Auth, caller: Caller, _call: Call) -> Result<Reply> {
    let id = auth.begin_mfa(&caller, &Id::new(&login_of(&caller)?.identity)).await?;
    Reply::created_with(&Created { links: self_link(), id: id.to_string() })
}

fn self_link() -> Links {
    Links::from([("self".to_owned(), Link::to(PATH))])
}

/// Links of a second factor (docs/protocol/management-api.md 2.1).
fn links(mfa: &Mfa) -> Links {
    let mut links = self_link();
    let mut link = |name: &str, path: &str| links.insert(name.to_owned(), Link::to(path));
    link("current-identity", "current-identity");
    if mfa.is_verified {
        link("recovery-codes", &format!("{PATH}/recovery-codes"));
    } else {
        link("verify", &format!("{PATH}/verify"));
        link("qr", &format!("{PATH}/qr-code"));
    }
    links
}

fn base(mfa: &Mfa) -> BaseDetail {
    BaseDetail { links: links(mfa), ..convert::base("mfas", &mfa.base, &[]) }
}

fn provisioning_url(auth: &Auth, caller: &Caller, mfa: &Mfa) -> Result<String> {
    let name = &login_of(caller)?.name;
    Ok(totp::provisioning_url(&auth.kernel().settings().totp_issuer, name, &mfa.secret))
}

/// The second factor of the caller, if there is one.
fn own(auth: &Auth, caller: &Caller) -> Result<Arc<Mfa>> {
    let identity = &login_of(caller)?.identity;
    of(&auth.kernel().snapshot(), identity).cloned().ok_or_else(|| not_found(identity))
}

async fn detail(auth: Auth, caller: Caller, _call: Call) -> Result<Reply> {
    let mfa = own(&auth, &caller)?;
    let mut detail =
        MfaDetail { base: base(&mfa), is_verified: mfa.is_verified, ..MfaDetail::default() };
    if !mfa.is_verified {
        detail.provisioning_url = Some(provisioning_url(&auth, &caller, &mfa)?);
        detail.recovery_codes = Some(mfa.recovery_codes.clone());
    }
    Reply::detail(&detail)
}

/// The provisioning address as a picture, while the second factor is unverified.
async fn qr_code(auth: Auth, caller: Caller, _call: Call) -> Result<Reply> {
    let mfa = own(&auth, &caller)?;
    if mfa.is_verified {
        return Err(not_found(mfa.identity_id.as_str()));
    }
    let url = provisioning_url(&auth, &caller, &mfa)?;
    let picture = match totp::qr_png(&url) {
        // The name of the identity is only a label in the app: without it the address always
        // fits.
        Err(PictureError::TooLong) => {
            let issuer = &auth.kernel().settings().totp_issuer;
            totp::qr_png(&totp::provisioning_url(issuer, "", &mfa.secret))
        }
        picture => picture,
    };
    let picture = picture.map_err(|error| Failure::unhandled(error.to_string()))?;
    Ok(Reply::raw(headers::PNG, picture))
}

/// Verifies the second factor by its first code. From now on every login needs a code; this session
/// has given one.
async fn verify(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let code = code_of(&call)?;
    let put = |decision: &mut Decision<'_>, mut mfa: Mfa| {
        mfa.is_verified = true;
        decision.put(mfa);
        Ok(())
    };
    with_code(&auth, &caller, code, Purpose::Enroll, put).await?;
    let login = login_of(&caller)?;
    let session = Id::new(&login.session.id);
    // A session by signed tokens has given a code, too; the next ones of its tokens say so.
    auth.sessions().change(&session, auth.kernel().now(), |session| {
        if let Some(tokens) = &mut session.tokens {
            (session.is_mfa_required, session.is_mfa_complete) = (true, true);
            tokens.methods.push(TOTP.to_owned());
        }
    });
    auth.mfa_passed(&session).await?;
    auth.code_is_needed(&Id::new(&login.identity));
    Reply::empty()
}

/// Removes the second factor; an unverified one needs no code.
async fn remove(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let mfa = own(&auth, &caller)?;
    let delete = |decision: &mut Decision<'_>, mfa: Mfa| decision.delete(Mfa::KIND, &mfa.base.id);
    if mfa.is_verified {
        let code = call.header(headers::MFA_CODE).unwrap_or_default().to_owned();
        with_code(&auth, &caller, code, Purpose::Remove, delete).await?;
        auth.mfa_removed(&mfa.identity_id);
    } else {
        // No session depends on an unverified one.
        auth.drop_unverified_mfa(&caller, (*mfa).clone()).await?;
    }
    Reply::empty()
}

/// The unused recovery codes. A code in the body has priority over one in the header.
async fn recovery_codes(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let body: CodeBody = call.decode_optional(Verb::Patch)?;
    let header = || call.header(headers::MFA_CODE).map(str::to_owned);
    let code = body.code.or_else(header).unwrap_or_default();
    let put = |decision: &mut Decision<'_>, mfa| {
        decision.put(mfa);
        Ok(())
    };
    with_code(&auth, &caller, code, Purpose::ReadRecoveryCodes, put).await?;
    let mfa = own(&auth, &caller)?;
    Reply::detail(&RecoveryCodes { base: base(&mfa), recovery_codes: mfa.recovery_codes.clone() })
}

/// Replaces the recovery codes by new ones.
async fn new_recovery_codes(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let code = code_of(&call)?;
    let fresh = totp::recovery_codes(auth.kernel().ids().bytes());
    let put = move |decision: &mut Decision<'_>, mut mfa: Mfa| {
        mfa.recovery_codes.clone_from(&fresh);
        decision.put(mfa);
        Ok(())
    };
    with_code(&auth, &caller, code, Purpose::NewRecoveryCodes, put).await?;
    Reply::empty()
}

impl Auth {
    /// Notes that a session has given a code: it may be complete now, and posture checks may pass.
    pub async fn mfa_passed(&self, session: &Id) -> Result<()> {
        let now = self.kernel().now();
        let passed = self.sessions().change(session, now, |session| {
            session.mfa_passed_at = Some(now);
            // Which factors a session by signed tokens has is written in its tokens: it gains nothing here.
            if session.tokens.is_none() {
                session.is_mfa_required = true;
                session.is_mfa_complete = true;
            }
        });
        let passed = passed.ok_or_else(|| Failure::unauthorized("the session has ended"))?;
        self.sessions().begun().await;
        let snapshot = self.kernel().snapshot();
        if crate::factors::is_complete(&snapshot, &passed) {
            self.sessions().completed(&passed.base.id);
            self.sessions().make_room(&passed, |it| crate::factors::is_complete(&snapshot, it));
        }
        self.posture_changed(&passed.identity_id);
        Ok(())
    }

    /// Handles the removal of an identity's second factor: codes that its sessions have given do
    /// not count any more, and sessions that lacked a code are complete.
    pub fn mfa_removed(&self, identity: &Id) {
        let now = self.kernel().now();
        self.spent().forget(identity);
        self.attempts().forget(identity);
        let snapshot = self.kernel().snapshot();
        for session in self.sessions().of_identity(identity) {
            let id = &session.base.id;
            if crate::factors::is_complete(&snapshot, &session) {
                self.sessions().waits_no_more(id);
            }
            if session.is_mfa_required || session.is_mfa_complete || session.mfa_passed_at.is_some()
            {
                self.sessions().change(id, now, |session| {
                    session.is_mfa_required = false;
                    session.is_mfa_complete = false;
                    session.mfa_passed_at = None;
                });
            } else {
                self.sessions().updated(id);
            }
        }
        self.posture_changed(identity);
    }
}
