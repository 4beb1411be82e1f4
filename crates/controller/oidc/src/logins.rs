//! Everything that is begun and not finished: logins, codes, device codes, and sessions that wait for a second factor, in
//! one table with a bound and shares by source.
//!
//! | what | how long |
//! |---|---|
//! | a login | 10 minutes from its beginning |
//! | a code | 60 s |
//! | a device code and its user code | 5 minutes; the device hears for one more that it is too old |
//! | a session that waits for a second factor | until it is released |
//!
//! Codes that were used are remembered apart, for 60 s, so that they displace nothing that somebody waits for.
//!
//! The times are those of a clock that never jumps. Everything is found by the hash of its secret.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use weft_limits::{BoundedTable, Caps, Network, WhenFull, networks_of, source_of};

use crate::authorize::AuthorizeRequest;
use crate::browser::{self, secret_for};
use crate::client::Client;
use crate::device::{self, Decision, DeviceCodes, DeviceRequest, UserCode, Waiting};
use crate::login::{CallerData, Device, Granted, Login, LoginRefused, Purpose, Visitor};
use crate::pending::{Key, PendingTable};
use crate::pkce::PkceChallenge;
use crate::problem::{OidcError, OidcErrorCode, bad_grant};
use crate::secret::{Hash, RandomBytes, text};

/// How long a login may take.
pub const LOGIN_LIFE: Duration = Duration::from_secs(600);
/// How long a code is good.
pub const CODE_LIFE: Duration = Duration::from_secs(60);
/// Places in all. Each entry takes one for a KiB.
pub const MAX_PLACES: usize = 65_536;
/// Places of one source.
pub const MAX_PLACES_OF_SOURCE: usize = 4096;
/// Codes that were used and are remembered.
pub const MAX_SPENT: usize = 65_536;
/// Those of one source. A code that is forgotten is refused all the same; only the session that it gave goes on.
pub const MAX_SPENT_OF_SOURCE: usize = 32_768;
/// Sources, and networks around them, whose wrong user codes are counted. The oldest goes when there are more.
pub const MAX_GUESSERS: usize = 16_384;

#[derive(Debug)]
enum LoginStep<D> {
    Login(Box<Login<D>>),
    Code(Box<Issued<D>>),
    Device(Box<Waiting<D>>),
    /// A user code: the key of its device.
    UserCode(Key),
    /// A session that waits for a second factor.
    Half(String),
}

/// A code that waits for its exchange.
#[derive(Debug)]
struct Issued<D> {
    redirect: String,
    challenge: PkceChallenge,
    granted: Granted<D>,
}

/// A login that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// Its id: `authRequestID`.
    pub id: String,
    /// The secret of the browser, for [`set_cookie`](crate::browser::set_cookie).
    pub browser: String,
}

/// The answer to a callback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Callback {
    /// The URL that gives the client its code.
    Code(String),
    /// The URL that tells the client that the login is not finished. The login has ended.
    NotFinished(String),
}

/// What a code gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redeemed<D> {
    /// Tokens.
    Granted(Box<Granted<D>>),
    /// Nothing, as it was used before. The session that it gave then is to be revoked, as a thief may have it.
    Again {
        /// That session.
        session: String,
        /// The answer.
        problem: OidcError,
    },
    /// Nothing.
    Refused(OidcError),
}

/// Why a user code is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoDevice {
    /// No device shows it.
    Wrong,
    /// The source has entered too many wrong ones.
    TooOften,
}

/// The table.
#[derive(Debug)]
pub struct PendingLogins<D> {
    table: PendingTable<LoginStep<D>>,
    /// The sessions of codes that were used.
    spent: BoundedTable<Key, String, IpAddr>,
    /// Wrong user codes by source, and by the networks around it.
    guesses: BoundedTable<Network, u8, ()>,
    /// Sessions that waited and have gone.
    ended: Vec<String>,
}

impl<D: CallerData> Default for PendingLogins<D> {
    fn default() -> Self {
        Self::new(MAX_PLACES, MAX_PLACES_OF_SOURCE)
    }
}

impl<D: CallerData> PendingLogins<D> {
    /// An empty table with this many places in all and for each source.
    #[must_use]
    pub fn new(total: usize, per_source: usize) -> Self {
        let caps = |total, per_source, life| Caps {
            total,
            per_source,
            max_age: Some(life),
            when_full: WhenFull::EvictOldest,
        };
        Self {
            table: PendingTable::new(total, per_source),
            spent: BoundedTable::new(caps(MAX_SPENT, MAX_SPENT_OF_SOURCE, CODE_LIFE)),
            guesses: BoundedTable::new(caps(MAX_GUESSERS, MAX_GUESSERS, device::LIFE)),
            ended: Vec::new(),
        }
    }

    /// Begins a login for a client. `session` is the API session that it leads to, a new UUID; `cookie` the secret that
    /// the browser showed; `random` are new bytes for the id and for a cookie.
    pub fn begin(
        &mut self,
        request: AuthorizeRequest,
        session: String,
        cookie: Option<&str>,
        address: IpAddr,
        random: &[RandomBytes; 2],
        now: Instant,
    ) -> Begun {
        self.begin_for(Purpose::Code(request), session, cookie, address, random, now)
    }

    /// A login, to look at.
    pub fn get(&self, id: &str, now: Instant) -> Result<&Login<D>, LoginRefused> {
        match self.table.get(&key(id), now) {
            Some(LoginStep::Login(login)) => Ok(login),
            _ => Err(LoginRefused::Unknown),
        }
    }

    /// Takes a step of a login.
    pub fn step<R>(
        &mut self,
        id: &str,
        now: Instant,
        step: impl FnOnce(&mut Login<D>) -> Result<R, LoginRefused>,
    ) -> Result<R, LoginRefused> {
        let key = key(id);
        let Some(LoginStep::Login(login)) = self.table.get_mut(&key, now) else {
            return Err(LoginRefused::Unknown);
        };
        let result = step(login);
        let (bytes, is_proven, has_ended) =
            (login.bytes(), login.owner().is_some(), login.is_ended());
        match has_ended {
            true => _ = self.table.remove(&key),
            false => {
                let gone = self.table.update(&key, bytes, is_proven);
                self.note(gone);
            }
        }
        result
    }

    /// The callback of a login for a client. It works once. A login by JSON gives no code to a page, so that nobody is sent
    /// to a client with the code of somebody else.
    pub fn callback(
        &mut self,
        id: &str,
        visitor: Visitor,
        random: &RandomBytes,
        now: Instant,
    ) -> Result<Callback, LoginRefused> {
        let login = self.get(id, now)?;
        login.admit(visitor)?;
        let Purpose::Code(request) = login.purpose().clone() else {
            return Err(LoginRefused::NotWanted);
        };
        let (login, source) = self.take_login(id)?;
        let Some(granted) = login.into_granted() else {
            let problem =
                OidcError::new(OidcErrorCode::InteractionRequired, "the login is not finished");
            return Ok(Callback::NotFinished(request.with_error(&problem)));
        };
        let code = text(random);
        let to = request.with_code(&code);
        let redirect = request.redirect.as_str().to_owned();
        let bytes = size_of::<Issued<D>>() + redirect.len() + granted.kept.bytes();
        let issued = Issued { redirect, challenge: request.challenge, granted };
        self.put(
            key(&code),
            LoginStep::Code(Box::new(issued)),
            (source, true),
            bytes,
            now + CODE_LIFE,
            now,
        );
        Ok(Callback::Code(to))
    }

    /// Exchanges a code. A request of another client, with another redirect URI or without the verifier does not use it
    /// up, as a thief without the verifier would take it from its owner.
    pub fn redeem(
        &mut self,
        code: &str,
        client: Client,
        redirect: &str,
        verifier: &str,
        now: Instant,
    ) -> Redeemed<D> {
        let key = key(code);
        if let Some(session) = self.spent.get(&key, now) {
            let (session, problem) = (session.clone(), bad_grant("the code was used before"));
            return Redeemed::Again { session, problem };
        }
        let unknown = || Redeemed::Refused(bad_grant("code invalid or expired"));
        let Some(LoginStep::Code(issued)) = self.table.get(&key, now) else { return unknown() };
        if let Some(text) = issued.refusal(client, redirect, verifier) {
            return Redeemed::Refused(bad_grant(text));
        }
        let source = self.table.source(&key);
        let (Some(LoginStep::Code(issued)), Some(source)) = (self.table.remove(&key), source)
        else {
            return unknown();
        };
        let session = issued.granted.session.clone();
        _ = self.spent.insert(key, session, source, now);
        Redeemed::Granted(Box::new(issued.granted))
    }

    /// Begins to wait for a person who agrees to a device. `random` are new bytes for both codes.
    pub fn begin_device(
        &mut self,
        request: DeviceRequest,
        random: &[RandomBytes; 2],
        now: Instant,
    ) -> DeviceCodes {
        let codes =
            DeviceCodes { device_code: text(&random[0]), user_code: UserCode::new(&random[1]) };
        let (device, user_code) = (key(&codes.device_code), key(codes.user_code.letters()));
        let (source, bytes) = (source_of(request.address), request.program.len() + 256);
        let waiting = LoginStep::Device(Box::new(Waiting::new(request, user_code, now)));
        let by = (source, false);
        self.put(device, waiting, by, bytes, now + device::LIFE + device::TOLD, now);
        self.put(user_code, LoginStep::UserCode(device), by, 1, now + device::LIFE, now);
        codes
    }

    /// A person enters the code that a device shows: begins a login on pages, at the end of which the person is asked.
    pub fn enter(
        &mut self,
        entered: &str,
        session: String,
        cookie: Option<&str>,
        address: IpAddr,
        random: &[RandomBytes; 2],
        now: Instant,
    ) -> Result<Begun, NoDevice> {
        let wrong = |network: Network| {
            usize::from(self.guesses.get(&network, now).copied().unwrap_or_default())
        };
        let own = networks_of(address).next_back().map_or(0, wrong);
        let share = usize::from(device::MAX_TRIES);
        if networks_of(address).any(|network| wrong(network) >= network.room(share, own)) {
            return Err(NoDevice::TooOften);
        }
        let Some(device) = self.find_device(entered, now) else {
            for network in networks_of(address) {
                match self.guesses.get_mut(&network, now) {
                    Some(wrong) => *wrong = wrong.saturating_add(1),
                    None => _ = self.guesses.insert(network, 1, (), now),
                }
            }
            return Err(NoDevice::Wrong);
        };
        Ok(self.begin_for(Purpose::Device(device), session, cookie, address, random, now))
    }

    /// The device that waits for a login, for the page that asks; none if it waits no more.
    #[must_use]
    pub fn device(&self, id: &str, now: Instant) -> Option<&DeviceRequest> {
        let Purpose::Device(device) = self.get(id, now).ok()?.purpose() else { return None };
        match self.table.get(&device.key, now) {
            Some(LoginStep::Device(waiting)) if waiting.is_open(now) => Some(&waiting.request),
            _ => None,
        }
    }

    /// The person agrees to a device, when the login is complete, or refuses. It works once.
    pub fn decide(
        &mut self,
        id: &str,
        cookie: Option<&str>,
        agrees: bool,
        now: Instant,
    ) -> Result<(), LoginRefused> {
        let login = self.get(id, now)?;
        login.admit(browser::visitor(cookie))?;
        let Purpose::Device(device) = *login.purpose() else { return Err(LoginRefused::NotWanted) };
        if agrees && !login.is_complete() {
            return Err(LoginRefused::NoPrimary);
        }
        let (login, _) = self.take_login(id)?;
        let Some(LoginStep::Device(waiting)) = self.table.get_mut(&device.key, now) else {
            return Err(LoginRefused::Unknown);
        };
        if !waiting.is_open(now) {
            return Err(LoginRefused::Unknown);
        }
        let granted = login.into_granted().filter(|_| agrees);
        let is_proven = granted.is_some();
        let kept = granted.as_ref().map_or(0, |granted| granted.kept.bytes());
        waiting.decision = match granted {
            Some(granted) => Decision::Agreed(Box::new(granted)),
            None => Decision::Refused,
        };
        let (user_code, bytes) = (waiting.user_code, kept + waiting.request.program.len() + 512);
        self.table.remove(&user_code);
        let gone = self.table.update(&device.key, bytes, is_proven);
        self.note(gone);
        Ok(())
    }

    /// A device asks for its tokens.
    pub fn ask(
        &mut self,
        device_code: &str,
        client: Client,
        now: Instant,
    ) -> Result<Granted<D>, OidcError> {
        let key = key(device_code);
        let Some(LoginStep::Device(waiting)) = self.table.get_mut(&key, now) else {
            return Err(bad_grant("nobody knows the device code"));
        };
        let granted = waiting.ask(client, now)?;
        self.table.remove(&key);
        Ok(granted)
    }

    /// Gives a session that waits for a second factor its place, until it is [released](Self::release). Whoever has to
    /// go for it is in [`take_ended`](Self::take_ended). `bytes` is about what the session takes in memory.
    pub fn hold(&mut self, session: &str, address: IpAddr, bytes: usize, now: Instant) {
        self.expire(now);
        self.release(session);
        let entry = LoginStep::Half(session.to_owned());
        let by = (source_of(address), true);
        let gone = self.table.insert(half_key(session), entry, by, bytes, None);
        self.note(gone);
    }

    /// The session waits no more.
    pub fn release(&mut self, session: &str) {
        self.table.remove(&half_key(session));
    }

    /// Sessions that waited for a second factor and lost their place, since the last call. They are to be ended.
    pub fn take_ended(&mut self) -> Vec<String> {
        std::mem::take(&mut self.ended)
    }

    /// Takes out everything that is too old. Every beginning does so, too.
    pub fn expire(&mut self, now: Instant) {
        let gone = self.table.expire(now);
        self.note(gone);
        self.guesses.expire(now);
        self.spent.expire(now);
    }

    /// Entries in all.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// True without any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Places taken in all, of [`MAX_PLACES`].
    #[must_use]
    pub fn places(&self) -> usize {
        self.table.used()
    }

    fn begin_for(
        &mut self,
        purpose: Purpose,
        session: String,
        cookie: Option<&str>,
        address: IpAddr,
        random: &[RandomBytes; 2],
        now: Instant,
    ) -> Begun {
        let begun = Begun { id: text(&random[0]), browser: secret_for(cookie, &random[1]) };
        let login = Login::new(purpose, session, Hash::of(&begun.browser));
        let bytes = login.bytes();
        let entry = LoginStep::Login(Box::new(login));
        let by = (source_of(address), false);
        self.put(key(&begun.id), entry, by, bytes, now + LOGIN_LIFE, now);
        begun
    }

    fn find_device(&self, entered: &str, now: Instant) -> Option<Device> {
        let code = UserCode::read(entered)?;
        let LoginStep::UserCode(device) = self.table.get(&key(code.letters()), now)? else {
            return None;
        };
        match self.table.get(device, now)? {
            LoginStep::Device(waiting) if waiting.is_open(now) => {
                let DeviceRequest { client, scopes, .. } = waiting.request;
                Some(Device { key: *device, client, scopes })
            }
            _ => None,
        }
    }

    fn take_login(&mut self, id: &str) -> Result<(Login<D>, IpAddr), LoginRefused> {
        let key = key(id);
        let source = self.table.source(&key).ok_or(LoginRefused::Unknown)?;
        match self.table.remove(&key) {
            Some(LoginStep::Login(login)) => Ok((*login, source)),
            _ => Err(LoginRefused::Unknown),
        }
    }

    fn put(
        &mut self,
        key: Key,
        entry: LoginStep<D>,
        by: (IpAddr, bool),
        bytes: usize,
        end: Instant,
        now: Instant,
    ) {
        self.expire(now);
        let gone = self.table.insert(key, entry, by, bytes, Some(end));
        self.note(gone);
    }

    /// Keeps which sessions have gone.
    fn note(&mut self, gone: Vec<LoginStep<D>>) {
        self.ended.extend(gone.into_iter().filter_map(|entry| match entry {
            LoginStep::Half(session) => Some(session),
            _ => None,
        }));
    }
}

impl<D> Issued<D> {
    /// Why a request may not have the tokens.
    fn refusal(&self, client: Client, redirect: &str, verifier: &str) -> Option<&'static str> {
        if client != self.granted.client {
            return Some("the code belongs to another client");
        }
        if redirect != self.redirect {
            return Some("the redirect_uri is another one than at the beginning of the login");
        }
        (!self.challenge.is_of(verifier)).then_some("the code_verifier does not fit")
    }
}

fn key(secret: &str) -> Key {
    Hash::of(secret).bytes()
}

/// The key of a session, which is none of a secret that a stranger could show.
fn half_key(session: &str) -> Key {
    Hash::of(&format!("session {session}")).bytes()
}
