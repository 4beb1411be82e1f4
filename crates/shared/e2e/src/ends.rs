//! A program as an end of connections that prove themselves (docs/protocol/sdk.md 14.6): its key, the controller's
//! statements, and what it remembers of other ends.
//!
//! This module is without I/O: who uses it asks the controller for a [`Statement`], and carries the messages of
//! [`proof`](crate::proof).

mod clock;
mod exchange;
mod meetings;
mod statements;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use weft_contract::entity::DialBind;
use weft_contract::resource::service_session::{END_AUDIENCE, EndClaims, EndStatement};
use weft_identity::token::{Expect, peek};
use weft_identity::{KeySet, SeenTokens};

pub use self::exchange::{DialerOpening, Exchange, HostedDialer, Line, UnprovenDialer};
use self::meetings::Meetings;
pub use self::statements::{StatementReply, Statements};
use crate::proof::{
    AcceptedStatement, EndKey, Hint, MAX_STATEMENT, PeerMemory, ProofError, ProvingEnd, print,
};

/// The longest life of a statement that is believed.
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// An end of a connection that has proved itself: the controller says whose key it showed, and no router on the path can
/// take its place. Ends of weft prove themselves where the service requires encryption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The id of the identity.
    pub identity: String,
    /// The name of the identity.
    pub name: String,
    /// The instance of the service that it hosts; empty for none, and for a dialer.
    pub instance: String,
    /// The id of its service session.
    session: String,
    /// The id of the service that the session is for.
    service: String,
    /// The instance as which this program has met it.
    met_as: String,
    /// The end of the controller's statement.
    good_until: Instant,
}

/// The controller's statement about this program as the end of a service session.
#[derive(Debug)]
pub struct Statement {
    session: String,
    instance: String,
    text: String,
    /// The keys that sign statements.
    keys: KeySet,
    /// The statements about other ends that were verified before.
    seen: Arc<SeenTokens>,
    /// The end of the statement, by this program's clock of ends.
    good_until: Instant,
    /// The time of the controller at `read`.
    told_at: SystemTime,
    read: Instant,
}

impl Statement {
    /// The statement for a session that the controller gave now; `None` if it is none. `seen` has the statements about
    /// other ends that were verified before.
    #[must_use]
    pub fn new(session: &str, told: EndStatement, seen: Arc<SeenTokens>) -> Option<Self> {
        // Peers read no longer one.
        if told.statement.len() > MAX_STATEMENT {
            return None;
        }
        let (_, claims) = peek::<EndClaims>(&told.statement).ok()?;
        let (told_at, end) = (time(claims.iat)?, time(claims.exp)?);
        let read = clock::now();
        Some(Self {
            session: session.to_owned(),
            instance: claims.instance,
            text: told.statement,
            keys: KeySet::from_json(told.keys.to_string().as_bytes()).ok()?,
            seen,
            good_until: read + end.duration_since(told_at).ok()?.min(LONGEST),
            told_at,
            read,
        })
    }

    /// The session that it is about.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.session
    }

    /// The instance of the service that this program hosts, as the statement says.
    #[must_use]
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Whether the key is known that has signed another statement. True for what is no statement.
    fn has_key_of(&self, text: &str) -> bool {
        let header = peek::<EndClaims>(text).map(|(header, _)| header);
        header.ok().and_then(|header| header.kid).is_none_or(|kid| self.keys.get(&kid).is_some())
    }

    /// The end of the statement.
    #[must_use]
    pub fn good_until(&self) -> Instant {
        self.good_until
    }

    /// The time now by the controller's clock: that of this machine may be wrong. A sleep of the machine counts.
    fn now(&self) -> SystemTime {
        self.told_at + clock::since(self.read)
    }

    /// What a dialer's statement says, if it is one about an end of this service.
    ///
    /// # Errors
    /// Why it is not accepted.
    pub fn dialer(&self, service: &str, text: &str) -> Result<AcceptedStatement<Peer>, String> {
        self.accept(text, service, DialBind::Dial)
    }

    /// What a host's statement says, if it is one about an end of this service, and of this instance unless that is empty.
    ///
    /// # Errors
    /// Why it is not accepted.
    pub fn host(
        &self,
        service: &str,
        instance: &str,
        text: &str,
    ) -> Result<AcceptedStatement<Peer>, String> {
        let stated = self.accept(text, service, DialBind::Bind)?;
        let hosted = &stated.peer.instance;
        match instance.is_empty() || instance == hosted {
            true => Ok(stated),
            false if hosted.is_empty() => {
                Err(format!("it names no instance, and instance {instance} was dialed"))
            }
            false => {
                Err(format!("it is for instance {hosted}, and instance {instance} was dialed"))
            }
        }
    }

    fn accept(
        &self,
        text: &str,
        service: &str,
        role: DialBind,
    ) -> Result<AcceptedStatement<Peer>, String> {
        let expect = Expect {
            now: self.now(),
            issuer: None,
            audience: &[END_AUDIENCE],
            require_expiry: true,
            longest: Some(LONGEST),
        };
        let key = |kid: &str| self.keys.get(kid).cloned();
        let claims = self.seen.verify(text, key, &expect);
        let claims: EndClaims = claims.map_err(|error| error.to_string())?;
        if claims.role != role || claims.service != service {
            return Err(format!("it is for {} of service {}", claims.role, claims.service));
        }
        let print = hex::decode(&claims.key).ok().and_then(|bytes| bytes.try_into().ok());
        let print = print.ok_or("it names no key")?;
        let end = time(claims.exp).ok_or("its end is no time")?;
        let left = end.duration_since(self.now()).unwrap_or_default().min(LONGEST);
        let EndClaims { sub: identity, name, session, service, instance, .. } = claims;
        let (good_until, met_as) = (clock::now() + left, self.instance.clone());
        let peer = Peer { identity, name, instance, session, service, met_as, good_until };
        Ok(AcceptedStatement { print, peer })
    }
}

/// The time of a claim, in seconds since 1970; none after 2106.
fn time(seconds: i64) -> Option<SystemTime> {
    let seconds = u32::try_from(seconds).ok()?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.into()))
}

/// This program as an end.
#[derive(Debug)]
pub struct Ends {
    key: EndKey,
    hint: Hint,
    meetings: Mutex<Meetings>,
}

impl Ends {
    /// An end with a new key.
    ///
    /// # Errors
    /// [`ProofError::Library`] without memory.
    pub fn new() -> Result<Self, ProofError> {
        Ok(Self { key: EndKey::generate()?, hint: rand::random(), meetings: Mutex::default() })
    }

    /// The public key, which the controller is told.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.key.public()
    }

    /// The bytes by which dialers recognize this program as a host.
    #[must_use]
    pub fn hint(&self) -> Hint {
        self.hint
    }

    /// The bytes by which hosts recognize this dialer, for its service session. Who knows them and those of the program
    /// knows no other session's.
    #[must_use]
    pub fn dialer_hint(&self, own: &Statement) -> Hint {
        let mut hint = Hint::default();
        let print = print(&[&self.hint, own.session.as_bytes()].concat());
        hint.iter_mut().zip(print).for_each(|(byte, from)| *byte = from);
        hint
    }

    /// This end, as proofs need it.
    #[must_use]
    pub fn end<'a>(&'a self, own: &'a Statement) -> ProvingEnd<'a> {
        ProvingEnd { key: &self.key, statement: &own.text }
    }

    /// What this dialer remembers of the host of an instance, if both remember the meeting of this name.
    #[must_use]
    pub fn met(
        &self,
        own: &Statement,
        hint: Hint,
        instance: &str,
        name: &[u8; 16],
    ) -> Option<PeerMemory<Peer>> {
        let host = (own.session.clone(), hint, instance.to_owned());
        let known = self.meetings.lock().host(&host, clock::now());
        known.filter(|known| known.name == *name)
    }

    /// Remembers the host of an instance.
    pub fn meet(&self, own: &Statement, hint: Hint, instance: &str, memory: &PeerMemory<Peer>) {
        let until = own.good_until.min(memory.peer.good_until);
        let key = (own.session.clone(), hint, instance.to_owned());
        self.meetings.lock().meet(key, memory.clone(), until);
    }

    /// What this host remembers of a dialer of a service. It proves nothing for another service, for which the controller
    /// has stated nothing, nor for another instance, which the dialer would take this one for.
    #[must_use]
    pub fn recall(&self, hint: &Hint, own: &Statement, service: &str) -> Option<PeerMemory<Peer>> {
        let known = self.meetings.lock().dialer(hint, clock::now());
        known.filter(|it| it.peer.service == service && it.peer.met_as == own.instance)
    }

    /// Remembers a dialer.
    pub fn remember(&self, own: &Statement, hint: Hint, memory: &PeerMemory<Peer>) {
        let until = own.good_until.min(memory.peer.good_until);
        self.meetings.lock().remember(hint, memory.clone(), until);
    }
}

#[cfg(test)]
mod tests {
    use weft_identity::token::TokenSigner;
    use weft_identity::{KeyAlgorithm, PrivateKey};

    use super::*;

    pub(super) fn claims() -> EndClaims {
        EndClaims {
            iss: "c".into(),
            aud: END_AUDIENCE.into(),
            iat: 1_800_000_000,
            exp: 1_800_000_600,
            sub: "i1".into(),
            name: "pi".into(),
            session: "s1".into(),
            service: "web".into(),
            role: DialBind::Bind,
            instance: String::new(),
            key: "07".repeat(32),
        }
    }

    pub(super) fn told(signer: &TokenSigner, claims: &EndClaims) -> EndStatement {
        let mut keys = KeySet::new();
        keys.insert("k1", signer.public().clone());
        EndStatement { statement: signer.sign(claims).unwrap(), keys: keys.to_json().unwrap() }
    }

    pub(super) fn signer() -> TokenSigner {
        signer_of("k1")
    }

    pub(super) fn signer_of(kid: &str) -> TokenSigner {
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        TokenSigner::with_kid(key, kid).unwrap()
    }

    #[test]
    fn a_statement_of_an_odd_time_or_length_is_none() {
        let signer = signer();
        let kept = |iat: i64, exp: i64, name: usize| {
            let claims = EndClaims { iat, exp, name: "n".repeat(name), ..claims() };
            Statement::new("s1", told(&signer, &claims), Arc::default())
        };
        let own = kept(1_800_000_000, 1_800_000_600, 9).unwrap();
        assert!(own.now() >= SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000));
        for (iat, exp) in [(i64::MAX, i64::MAX), (0, i64::MAX), (i64::MIN, 9), (-1, 600), (9, 8)] {
            assert!(kept(iat, exp, 9).is_none(), "{iat} {exp}");
        }
        assert!(kept(1_800_000_000, 1_800_000_600, MAX_STATEMENT).is_none());
    }

    #[test]
    fn a_statement_that_ended_while_the_machine_slept_is_not_accepted() {
        let signer = signer();
        let own = Statement::new("s0", told(&signer, &claims()), Arc::default()).unwrap();
        let peer = signer.sign(&claims()).unwrap();
        let met = own.host("web", "", &peer).unwrap().peer;
        clock::testing::AHEAD.set(LONGEST);
        let refused = own.host("web", "", &peer).unwrap_err();
        assert!(refused.contains("expired"), "{refused}");
        let now = clock::now();
        assert!(own.good_until() <= now && met.good_until <= now);
    }

    #[test]
    fn a_host_of_another_instance_is_not_the_one_that_was_dialed() {
        let signer = signer();
        let own = Statement::new("s0", told(&signer, &claims()), Arc::default()).unwrap();
        let of = |instance: &str| {
            signer.sign(&EndClaims { instance: instance.into(), ..claims() }).unwrap()
        };
        for (hosted, dialed, fits) in
            [("", "", true), ("a", "", true), ("a", "a", true), ("a", "b", false), ("", "b", false)]
        {
            let stated = own.host("web", dialed, &of(hosted));
            assert_eq!(stated.is_ok(), fits, "{hosted} {dialed}");
        }
        assert!(own.host("web", "b", &of("a")).unwrap_err().contains("instance a"));
        assert!(own.dialer("web", &of("")).is_err() && own.host("db", "", &of("")).is_err());
    }
}
