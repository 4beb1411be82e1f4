//! This program as an end of connections that prove themselves: its key, the controller's statements about it, and what
//! it remembers of other ends (docs/protocol/sdk.md 14.6).

mod meetings;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::time::Instant;
use weft_contract::entity::DialBind;
use weft_contract::resource::service_session::{END_AUDIENCE, EndClaims, EndStatement};
use weft_e2e::proof::{End, EndKey, Hint, MAX_STATEMENT, Memory, Stated, print};
use weft_identity::KeySet;
use weft_identity::token::{Expect, peek};
use weft_limits::LogLines;

use self::meetings::Meetings;
use crate::account::Account;
use crate::error::{Error, Result};
use crate::peer::Peer;

/// Most statements that are kept, one for each service session.
const MAX_STATEMENTS: usize = 65_536;
/// The longest life of a statement that is believed.
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// The time for the first statement of a session, and for a later one while the former is still good.
const FIRST: Duration = Duration::from_secs(3);
const LATER: Duration = Duration::from_secs(1);
/// The time until a controller is asked again that gave no statement.
const UNSUPPORTED: Duration = Duration::from_secs(600);
const UNREACHED: Duration = Duration::from_secs(30);

/// This program as an end.
#[derive(Debug)]
pub(crate) struct Ends {
    /// `None` if this end does not prove itself.
    key: Option<Arc<EndKey>>,
    hint: Hint,
    statements: Mutex<HashMap<String, Known>>,
    meetings: Mutex<Meetings>,
    /// Lines about dialers that have not proved themselves.
    complaints: Mutex<LogLines>,
}

#[derive(Debug, Clone)]
struct Known {
    /// `None` if the controller gives none.
    own: Option<Arc<Own>>,
    /// The time from which the controller is asked again.
    ask: Instant,
}

/// The controller's statement about this program as the end of a service session.
#[derive(Debug)]
pub(crate) struct Own {
    session: String,
    /// The bytes by which hosts recognize the session.
    hint: Hint,
    /// The key that the statement names.
    key: Arc<EndKey>,
    text: String,
    /// The keys that sign statements.
    keys: KeySet,
    /// The end of the statement, here.
    good_until: Instant,
    /// The time of the controller at `read`.
    told_at: SystemTime,
    read: Instant,
}

impl Own {
    /// What the controller has told about a session of the program with this hint and key.
    fn of(session: &str, program: Hint, key: Arc<EndKey>, told: EndStatement) -> Option<Self> {
        // Peers read no longer one.
        if told.statement.len() > MAX_STATEMENT {
            return None;
        }
        let (_, claims) = peek::<EndClaims>(&told.statement).ok()?;
        let (told_at, end) = (time(claims.iat)?, time(claims.exp)?);
        let read = Instant::now();
        Some(Self {
            session: session.to_owned(),
            hint: hint_of(program, session),
            key,
            text: told.statement,
            keys: KeySet::from_json(told.keys.to_string().as_bytes()).ok()?,
            good_until: read + end.duration_since(told_at).ok()?.min(LONGEST),
            told_at,
            read,
        })
    }

    /// This end, as proofs need it.
    pub(crate) fn end(&self) -> End<'_> {
        End { key: &self.key, statement: &self.text }
    }

    /// The bytes by which hosts recognize this dialer.
    pub(crate) fn hint(&self) -> &Hint {
        &self.hint
    }

    /// The time now by the controller's clock: that of this machine may be wrong.
    fn now(&self) -> SystemTime {
        self.told_at + self.read.elapsed()
    }

    /// What a statement of a peer says, if it is one about an end of this service in this role.
    fn accept(&self, text: &str, service: &str, role: DialBind) -> Result<Stated<Peer>, String> {
        let expect = Expect {
            now: self.now(),
            issuer: None,
            audience: &[END_AUDIENCE],
            require_expiry: true,
            longest: Some(LONGEST),
        };
        let claims: EndClaims =
            self.keys.verify(text, &expect).map_err(|error| error.to_string())?;
        if claims.role != role || claims.service != service {
            return Err(format!("it is for {} of service {}", claims.role, claims.service));
        }
        let print = hex::decode(&claims.key).ok().and_then(|bytes| bytes.try_into().ok());
        let print = print.ok_or("it names no key")?;
        let end = time(claims.exp).ok_or("its end is no time")?;
        let left = end.duration_since(self.now()).unwrap_or_default().min(LONGEST);
        let EndClaims { sub: identity, name, session, service, .. } = claims;
        let good_until = Instant::now() + left;
        Ok(Stated { print, peer: Peer { identity, name, session, service, good_until } })
    }
}

/// The hint of a session of a program. Who knows it and that of the program knows no other session's.
fn hint_of(program: Hint, session: &str) -> Hint {
    let mut hint = Hint::default();
    let print = print(&[&program, session.as_bytes()].concat());
    hint.iter_mut().zip(print).for_each(|(byte, from)| *byte = from);
    hint
}

/// The time of a claim, in seconds since 1970; none after 2106.
fn time(seconds: i64) -> Option<SystemTime> {
    let seconds = u32::try_from(seconds).ok()?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.into()))
}

impl Ends {
    /// An end with a key of its own, if it is to prove itself.
    pub(crate) fn new(proves: bool) -> Result<Self> {
        let key = proves.then(EndKey::generate).transpose().map_err(|error| Error::Encryption {
            service: "any".to_owned(),
            problem: error.to_string(),
        })?;
        let key = key.map(Arc::new);
        let (statements, meetings) = (Mutex::default(), Mutex::default());
        let complaints = Mutex::new(LogLines::new(weft_circuit::now()));
        Ok(Self { key, hint: rand::random(), statements, meetings, complaints })
    }

    /// The public key, as logins name it.
    pub(crate) fn key(&self) -> Option<String> {
        self.key.as_ref().map(|key| STANDARD.encode(key.public()))
    }

    /// The bytes by which dialers recognize this program as a host.
    pub(crate) fn hint(&self) -> Hint {
        self.hint
    }

    /// The number of lines about dialers without a proof that were left out, if one is to be logged now.
    pub(crate) fn complains(&self) -> Option<u64> {
        self.complaints.lock().due(weft_circuit::now())
    }

    /// The controller's statement for a service session; `None` if the controller gives none, or was not reached.
    pub(crate) async fn statement(&self, account: &Account, session: &str) -> Option<Arc<Own>> {
        let key = self.key.as_ref()?;
        let now = Instant::now();
        let known = self.statements.lock().get(session).cloned();
        let own = known.as_ref().and_then(|known| known.own.clone());
        let own = own.filter(|own| own.good_until > now + LATER);
        if known.is_some_and(|known| now < known.ask) {
            return own;
        }
        if own.is_some() {
            // Others go on with the known one meanwhile.
            self.keep(session, own.clone(), now + UNREACHED);
        }
        let asked = account.ask(|api| api.end_statement(session).boxed());
        let patience = if own.is_some() { LATER } else { FIRST };
        let told = match tokio::time::timeout(patience, asked).await {
            Ok(Ok(told)) => Own::of(session, self.hint, Arc::clone(key), told).map(Arc::new),
            Ok(Err(Error::Controller(problem))) if !problem.is_temporary() => None,
            Ok(Err(_)) | Err(_) => {
                self.keep(session, own.clone(), now + UNREACHED);
                return own;
            }
        };
        let ask = match &told {
            Some(told) => now + told.good_until.saturating_duration_since(now) / 2,
            None => now + UNSUPPORTED,
        };
        self.keep(session, told.clone(), ask);
        told
    }

    fn keep(&self, session: &str, own: Option<Arc<Own>>, ask: Instant) {
        let mut statements = self.statements.lock();
        if statements.len() >= MAX_STATEMENTS {
            let now = Instant::now();
            statements.retain(|_, known| known.ask > now);
        }
        if statements.len() < MAX_STATEMENTS {
            statements.insert(session.to_owned(), Known { own, ask });
        }
    }

    /// What a host's statement says.
    pub(crate) fn host(
        &self,
        own: &Own,
        service: &str,
        text: &str,
    ) -> Result<Stated<Peer>, String> {
        self.accept(own, service, text, DialBind::Bind)
    }

    /// What a dialer's statement says.
    pub(crate) fn dialer(
        &self,
        own: &Own,
        service: &str,
        text: &str,
    ) -> Result<Stated<Peer>, String> {
        self.accept(own, service, text, DialBind::Dial)
    }

    fn accept(
        &self,
        own: &Own,
        service: &str,
        text: &str,
        role: DialBind,
    ) -> Result<Stated<Peer>, String> {
        own.accept(text, service, role).inspect_err(|_| {
            // The controller may have new keys: it is asked before the next connection.
            if let Some(known) = self.statements.lock().get_mut(&own.session) {
                known.ask = known.ask.min(Instant::now() + LATER);
            }
        })
    }

    /// What this dialer remembers of a host, if both remember the same meeting.
    pub(crate) fn met(&self, own: &Own, hint: Hint, name: &[u8; 16]) -> Option<Memory<Peer>> {
        let known = self.meetings.lock().host(&own.session, hint, Instant::now());
        known.filter(|known| known.name == *name)
    }

    /// Remembers a host.
    pub(crate) fn meet(&self, own: &Own, hint: Hint, memory: &Memory<Peer>) {
        let until = own.good_until.min(memory.peer.good_until);
        self.meetings.lock().meet(&own.session, hint, memory.clone(), until);
    }

    /// What this host remembers of a dialer of a service. It proves nothing for another service, for which the controller
    /// has stated nothing.
    pub(crate) fn recall(&self, hint: &Hint, service: &str) -> Option<Memory<Peer>> {
        let known = self.meetings.lock().dialer(hint, Instant::now());
        known.filter(|known| known.peer.service == service)
    }

    /// Remembers a dialer.
    pub(crate) fn remember(&self, own: &Own, hint: Hint, memory: &Memory<Peer>) {
        let until = own.good_until.min(memory.peer.good_until);
        self.meetings.lock().remember(hint, memory.clone(), until);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_identity::token::TokenSigner;
    use weft_identity::{KeyAlgorithm, PrivateKey};

    use super::*;

    /// What is kept of a controller's answer with these times, and so long a name.
    fn kept(iat: i64, exp: i64, name: usize) -> Option<Own> {
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let signer = TokenSigner::with_kid(key, "k1").unwrap();
        let claims = json!({"iss": "c", "aud": END_AUDIENCE, "iat": iat, "exp": exp, "sub": "i1",
            "name": "n".repeat(name), "session": "s1", "service": "web", "role": "Dial", "key": ""});
        let mut keys = KeySet::new();
        keys.insert("k1", signer.public().clone());
        let (statement, end) = (signer.sign(&claims).unwrap(), EndKey::generate().unwrap());
        let end = Arc::new(end);
        Own::of("s1", [7; 16], end, EndStatement { statement, keys: keys.to_json().unwrap() })
    }

    #[test]
    fn a_statement_of_an_odd_time_or_length_is_none() {
        let own = kept(1_800_000_000, 1_800_000_600, 9).unwrap();
        assert!(own.now() >= SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000));
        for (iat, exp) in [(i64::MAX, i64::MAX), (0, i64::MAX), (i64::MIN, 9), (-1, 600), (9, 8)] {
            assert!(kept(iat, exp, 9).is_none(), "{iat} {exp}");
        }
        assert!(kept(1_800_000_000, 1_800_000_600, MAX_STATEMENT).is_none());
    }
}
