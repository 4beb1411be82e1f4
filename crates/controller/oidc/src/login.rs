//! One login: from `/oidc/authorize` to its code (docs/protocol/auth.md 15.4, 15.8).
//!
//! | state | event | condition | state after it |
//! |---|---|---|---|
//! | started | a primary factor | | open, or complete if nothing is missing |
//! | started | a second factor, an enrollment | | started; refused |
//! | open, complete | a primary factor | same identity, same authenticator | open or complete, with the second factors that were given |
//! | open, complete | a primary factor | another identity or authenticator | ended; refused |
//! | open | TOTP code | of the owner, TOTP is missing | open or complete |
//! | open | enrollment of TOTP | of the owner, TOTP is missing | enrolling |
//! | enrolling | code of the enrollment | | open or complete |
//! | enrolling | enrollment removed | | open |
//! | open | external token | of the owner, of the signer that is missing | open or complete |
//! | open | external token | of another identity | ended; refused |
//! | any | anything | in another browser, or by another kind of client | as before; refused |
//! | started, open | callback | | ended: `interaction_required` |
//! | complete | callback | of a client | ended: a code |
//! | complete | decision | of a device | ended: the device gets its tokens, or none |
//! | any | 10 minutes | | ended |
//!
//! The owner is the identity of the first primary factor, with its authenticator.
//!
//! A login is finished on pages or by JSON. On pages every request shows the cookie of the browser that began it. By JSON it
//! needs none, and it never continues on a page, so that nobody finishes on a genuine page what somebody else began. The
//! first factor decides which it is.

use weft_model::Timestamp;

use crate::authorize::{AuthorizeRequest, PrimaryFactor};
use crate::client::Client;
use crate::scopes::Scopes;
use crate::secret::Hash;

/// What the caller keeps with a login, such as the report of the SDK and the certificate request.
pub trait CallerData {
    /// About how many bytes it takes in memory.
    fn bytes(&self) -> usize;
}

impl CallerData for () {
    fn bytes(&self) -> usize {
        0
    }
}

/// Whom a login belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The id of the identity.
    pub identity: String,
    /// The id of the authenticator of the primary factor.
    pub authenticator: String,
}

/// A second factor by one-time codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Totp {
    /// The identity has it: a code is asked for.
    Enrolled,
    /// The policy asks for it, and the identity has none yet.
    NotEnrolled,
}

/// What is missing from a login.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Missing {
    /// A one-time code.
    pub totp: Option<Totp>,
    /// A token of the signer with this id.
    pub signer: Option<String>,
}

impl Missing {
    /// True if nothing is.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// A primary factor that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Primary {
    /// Whose factor it is.
    pub owner: Owner,
    /// The factor.
    pub method: PrimaryFactor,
    /// The time of the login.
    pub at: Timestamp,
    /// What the policy and the identity ask for beside it.
    pub wanted: Missing,
}

/// Why a step of a login is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LoginRefused {
    /// Nobody knows the login: it has ended, or there never was one.
    #[error("there is no such login, or it is over; begin again")]
    Unknown,
    /// The login is one of another browser, or is not finished on pages, or is not finished by JSON.
    #[error("the login was begun, or goes on, in another browser or program")]
    Elsewhere,
    /// A primary factor comes first.
    #[error("log in with a password, a certificate or an external token first")]
    NoPrimary,
    /// Another identity or authenticator: the login has ended.
    #[error("this is another identity than before; the login is over")]
    OtherIdentity,
    /// The factor is not missing, or it is of another signer.
    #[error("the login does not ask for this")]
    NotWanted,
    /// No enrollment was started in this login.
    #[error("this login has started no enrollment")]
    NotEnrolling,
}

impl LoginRefused {
    /// The status of the answer to a program.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::Unknown | Self::NoPrimary | Self::OtherIdentity => 401,
            Self::Elsewhere => 403,
            Self::NotWanted | Self::NotEnrolling => 400,
        }
    }
}

/// How a request talks to the login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visitor {
    /// A browser, with the hash of its cookie if it showed one.
    Page(Option<Hash>),
    /// A program that takes JSON.
    Json,
}

/// What a login is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// A client waits for a code.
    Code(AuthorizeRequest),
    /// A device waits for tokens; the person agrees when the login is complete.
    Device(Device),
}

/// A device that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// The key of its entry.
    pub(crate) key: [u8; 32],
    /// Its client.
    pub client: Client,
    /// Its scopes.
    pub scopes: Scopes,
}

/// How a login is finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoginMode {
    Open,
    Pages,
    Json,
}

/// What was given so far.
#[derive(Debug)]
struct Given<D> {
    owner: Owner,
    method: PrimaryFactor,
    at: Timestamp,
    wanted: Missing,
    totp: bool,
    signer: Option<String>,
    enrolling: bool,
    kept: D,
}

impl<D> Given<D> {
    fn missing(&self) -> Missing {
        Missing {
            totp: self.wanted.totp.filter(|_| !self.totp),
            signer: self
                .wanted
                .signer
                .clone()
                .filter(|wanted| self.signer.as_ref() != Some(wanted)),
        }
    }
}

/// A login that is not finished.
#[derive(Debug)]
pub struct Login<D> {
    purpose: Purpose,
    /// The API session that the login leads to.
    session: String,
    /// The hash of the cookie that the browser got.
    browser: Hash,
    mode: LoginMode,
    given: Option<Given<D>>,
    ended: bool,
}

/// What a finished login gives: everything that its tokens follow from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted<D> {
    /// The API session: `z_asid`.
    pub session: String,
    /// The identity and its authenticator.
    pub owner: Owner,
    /// The primary factor.
    pub method: PrimaryFactor,
    /// The factors that were given: `amr`.
    pub amr: Vec<String>,
    /// The time of the login: `auth_time`.
    pub at: Timestamp,
    /// The client.
    pub client: Client,
    /// What the client asked for.
    pub scopes: Scopes,
    /// `nonce` of the ID token.
    pub nonce: Option<String>,
    /// Config types by id or name that `/oidc/authorize` named.
    pub config_types: Vec<String>,
    /// What the caller kept.
    pub kept: D,
}

impl<D: CallerData> Login<D> {
    pub(crate) fn new(purpose: Purpose, session: String, browser: Hash) -> Self {
        Self { purpose, session, browser, mode: LoginMode::Open, given: None, ended: false }
    }

    /// What the login is for.
    #[must_use]
    pub fn purpose(&self) -> &Purpose {
        &self.purpose
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> Client {
        match &self.purpose {
            Purpose::Code(request) => request.client,
            Purpose::Device(device) => device.client,
        }
    }

    /// Where a complete login continues: at the callback of its issuer, or at the question about the device.
    #[must_use]
    pub fn next(&self, id: &str) -> String {
        match &self.purpose {
            Purpose::Code(request) => format!("{}/authorize/callback?id={id}", request.issuer),
            Purpose::Device(_) => format!("/oidc/device/consent?id={id}"),
        }
    }

    /// The API session that the login leads to.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.session
    }

    /// The owner, after a primary factor.
    #[must_use]
    pub fn owner(&self) -> Option<&Owner> {
        self.given.as_ref().map(|given| &given.owner)
    }

    /// What the caller kept, after a primary factor.
    #[must_use]
    pub fn kept(&self) -> Option<&D> {
        self.given.as_ref().map(|given| &given.kept)
    }

    /// What is missing, after a primary factor; none before.
    #[must_use]
    pub fn missing(&self) -> Option<Missing> {
        self.given.as_ref().map(Given::missing)
    }

    /// True if nothing is missing.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.missing().is_some_and(|missing| missing.is_nothing())
    }

    /// Checks that a visitor may see the login and take steps of it. Every page, every step and the callback asks. A login
    /// by JSON is known by its id only, as its clients show no cookie.
    pub fn admit(&self, visitor: Visitor) -> Result<(), LoginRefused> {
        let is_browser = |cookie: Option<Hash>| cookie == Some(self.browser);
        let is_admitted = match (visitor, self.mode) {
            _ if self.ended => return Err(LoginRefused::Unknown),
            (Visitor::Page(cookie), LoginMode::Open | LoginMode::Pages) => is_browser(cookie),
            (Visitor::Json, LoginMode::Open) => matches!(self.purpose, Purpose::Code(_)),
            (Visitor::Json, LoginMode::Json) => true,
            (Visitor::Page(_), LoginMode::Json) | (Visitor::Json, LoginMode::Pages) => false,
        };
        if is_admitted { Ok(()) } else { Err(LoginRefused::Elsewhere) }
    }

    /// A primary factor was accepted. Gives what is missing after it.
    pub fn primary(
        &mut self,
        visitor: Visitor,
        primary: Primary,
        kept: D,
    ) -> Result<Missing, LoginRefused> {
        self.admit(visitor)?;
        let Primary { owner, method, at, wanted } = primary;
        let (mut totp, mut signer, mut enrolling) = (false, None, false);
        if let Some(given) = &mut self.given {
            if given.owner != owner {
                self.ended = true;
                return Err(LoginRefused::OtherIdentity);
            }
            (totp, signer, enrolling) = (given.totp, given.signer.take(), given.enrolling);
        }
        self.mode =
            if matches!(visitor, Visitor::Json) { LoginMode::Json } else { LoginMode::Pages };
        let given = Given { owner, method, at, wanted, totp, signer, enrolling, kept };
        let missing = given.missing();
        self.given = Some(given);
        Ok(missing)
    }

    /// The owner for whom a second factor is to be checked, if one-time codes are missing.
    pub fn wants_totp(&self, visitor: Visitor) -> Result<&Owner, LoginRefused> {
        self.admit(visitor)?;
        let given = self.given.as_ref().ok_or(LoginRefused::NoPrimary)?;
        given.missing().totp.map(|_| &given.owner).ok_or(LoginRefused::NotWanted)
    }

    /// A one-time code, or a recovery code, of this identity was accepted.
    pub fn totp(&mut self, visitor: Visitor, identity: &str) -> Result<Missing, LoginRefused> {
        self.wants_totp(visitor)?;
        let given = self.owned_by(identity)?;
        given.totp = true;
        Ok(given.missing())
    }

    /// An enrollment of this identity was started.
    pub fn enrollment_started(
        &mut self,
        visitor: Visitor,
        identity: &str,
    ) -> Result<(), LoginRefused> {
        self.wants_totp(visitor)?;
        self.owned_by(identity)?.enrolling = true;
        Ok(())
    }

    /// The owner whose enrollment this login started, for its code or its removal.
    pub fn enrolling(&self, visitor: Visitor) -> Result<&Owner, LoginRefused> {
        let owner = self.wants_totp(visitor)?;
        let is_started = self.given.as_ref().is_some_and(|given| given.enrolling);
        if is_started { Ok(owner) } else { Err(LoginRefused::NotEnrolling) }
    }

    /// The code of the enrollment was accepted: the identity has one-time codes now, and has given one.
    pub fn enrolled(&mut self, visitor: Visitor, identity: &str) -> Result<Missing, LoginRefused> {
        self.enrolling(visitor)?;
        let given = self.owned_by(identity)?;
        (given.enrolling, given.totp) = (false, true);
        given.wanted.totp = Some(Totp::Enrolled);
        Ok(given.missing())
    }

    /// The enrollment was removed.
    pub fn enrollment_removed(
        &mut self,
        visitor: Visitor,
        identity: &str,
    ) -> Result<(), LoginRefused> {
        self.enrolling(visitor)?;
        self.owned_by(identity)?.enrolling = false;
        Ok(())
    }

    /// The owner for whom a token is to be checked, and the signer whose token is missing. A `POST` to
    /// `/oidc/login/ext-jwt` asks this first, also of a login by certificate: C SDKs send the missing token there.
    pub fn wants_token(&self, visitor: Visitor) -> Result<(&Owner, &str), LoginRefused> {
        self.admit(visitor)?;
        let given = self.given.as_ref().ok_or(LoginRefused::NoPrimary)?;
        let wanted = given.wanted.signer.as_deref().filter(|_| given.missing().signer.is_some());
        wanted.map(|signer| (&given.owner, signer)).ok_or(LoginRefused::NotWanted)
    }

    /// A token of this signer for this identity was accepted as the second factor.
    pub fn token(
        &mut self,
        visitor: Visitor,
        identity: &str,
        signer: &str,
    ) -> Result<Missing, LoginRefused> {
        if self.wants_token(visitor)?.1 != signer {
            return Err(LoginRefused::NotWanted);
        }
        let given = self.owned_by(identity)?;
        given.signer = Some(signer.to_owned());
        Ok(given.missing())
    }

    /// What the complete login gives; none while something is missing.
    pub(crate) fn into_granted(self) -> Option<Granted<D>> {
        if !self.is_complete() || self.ended {
            return None;
        }
        let given = self.given?;
        let (client, scopes, nonce, config_types) = match self.purpose {
            Purpose::Code(it) => (it.client, it.scopes, it.nonce, it.config_types),
            Purpose::Device(it) => (it.client, it.scopes, None, Vec::new()),
        };
        let totp = given.totp.then(|| "totp".to_owned());
        let signer = given.signer.map(|signer| format!("ejs:{signer}"));
        let amr = [Some(given.method.word().to_owned()), totp, signer];
        Some(Granted {
            session: self.session,
            owner: given.owner,
            method: given.method,
            amr: amr.into_iter().flatten().collect(),
            at: given.at,
            client,
            scopes,
            nonce,
            config_types,
            kept: given.kept,
        })
    }

    /// True if the login has ended and is to be taken out of the table.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// About how many bytes the login takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let purpose = match &self.purpose {
            Purpose::Code(request) => request.bytes(),
            Purpose::Device(_) => 0,
        };
        let kept = self.given.as_ref().map_or(0, |given| given.kept.bytes());
        size_of::<Self>() + purpose + self.session.len() + kept
    }

    /// What was given, if the identity is the owner. The login of another identity ends.
    fn owned_by(&mut self, identity: &str) -> Result<&mut Given<D>, LoginRefused> {
        match &mut self.given {
            None => Err(LoginRefused::NoPrimary),
            Some(given) if given.owner.identity == identity => Ok(given),
            Some(_) => {
                self.ended = true;
                Err(LoginRefused::OtherIdentity)
            }
        }
    }
}
