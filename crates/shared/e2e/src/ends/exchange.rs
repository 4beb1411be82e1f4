//! The messages of a proof, over a line between both ends.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;

use super::{Ends, Peer, Statement};
use crate::ending::{Announced, IncomingDirection, Outgoing};
use crate::proof::{
    Brief, ExchangeFacts, FRESH, First, Greeting, Hint, MAC, Opening, Proved, Second, stated,
};
use crate::{ConnectionKeys, Header, Opener, PublicKey, Sealer};

/// The payloads between both ends, in order.
pub trait Line: Send {
    /// Sends a payload.
    fn say(&mut self, payload: Bytes) -> impl Future<Output = Result<(), String>> + Send;

    /// The next payload of the peer.
    fn hear(&mut self) -> impl Future<Output = Result<Bytes, String>> + Send;

    /// Asks the controller for the statement about this end anew, which brings the keys that sign statements: the peer's is
    /// signed with a key that is not among the known ones. `None` if there is none.
    fn renew(&mut self) -> impl Future<Output = Option<Arc<Statement>>> + Send;
}

/// A sealed connection whose ends have not proved themselves yet.
#[derive(Debug, Clone, Copy)]
pub struct Exchange<'a> {
    /// This program.
    pub ends: &'a Ends,
    /// The controller's statement about it.
    pub own: &'a Statement,
    /// The id of the service.
    pub service: &'a str,
    /// The id of the circuit; empty if it is not known.
    pub circuit: &'a str,
    /// The keys of the agreement: the dialer's, and the host's.
    pub public: (PublicKey, PublicKey),
    /// The host's fresh bytes.
    pub fresh: [u8; FRESH],
    /// The keys that follow from the agreement.
    pub keys: &'a ConnectionKeys,
}

/// What a host knows of a dialer before the exchange.
#[derive(Debug)]
pub struct UnprovenDialer {
    /// The bytes by which the host recognizes the dialer.
    hint: Hint,
    /// The id of the dialer as the router says: the application may have decided by it.
    claimed: Option<String>,
    /// What the host has said first.
    opening: HostOpening,
}

/// What a host has said of itself in its answer to a dial.
#[derive(Debug)]
enum HostOpening {
    /// Nothing: the dialer speaks first.
    Nothing,
    /// The brief proof, to a dialer that it has met.
    Brief(Box<Brief<Peer>>),
    /// The full one.
    Full(First),
}

/// What the first payload of a dialer tells its host.
#[derive(Debug)]
pub enum DialerOpening {
    /// Who the dialer is, or why it has not proved itself: both ends have met before.
    Decided(Result<Box<Proved<Peer>>, String>),
    /// Not enough yet: it is for [`Exchange::host`].
    Open(UnprovenDialer),
    /// The dialer proves nothing: [`HostedDialer::Unaware`].
    Unaware(Header),
}

/// What a host knows of its dialer after the exchange.
#[derive(Debug)]
pub enum HostedDialer {
    /// It has proved itself.
    Proved(Box<Proved<Peer>>),
    /// It has not heard what the host announced, and has begun the stream of 14.3 with this header, as it does with hosts
    /// that prove nothing: a router on the way has kept the host's answer back, as OpenZiti's before 2.1 at hosts do. If the service
    /// does not demand a proof, the connection goes on by the keys of the agreement, as one without.
    Unaware(Header),
}

impl UnprovenDialer {
    /// True if the host takes the dialer for one that it has met: what the dialer says first is decided at once then.
    #[must_use]
    pub fn is_known(&self) -> bool {
        matches!(self.opening, HostOpening::Brief(_))
    }

    /// Takes the first payload of the dialer.
    #[must_use]
    pub fn hear(self, payload: &[u8]) -> DialerOpening {
        match self.opening {
            HostOpening::Brief(brief) if payload.len() == MAC => {
                DialerOpening::Decided(brief.hosts(payload).map(Box::new).map_err(in_words))
            }
            // A proof is longer.
            _ => match Header::try_from(payload) {
                Ok(header) => DialerOpening::Unaware(header),
                Err(_) => DialerOpening::Open(self),
            },
        }
    }
}

impl Exchange<'_> {
    /// Proves this end as the dialer's of an instance, which may be empty, to the host that has answered with this greeting.
    ///
    /// # Errors
    /// Why the host has not proved itself.
    pub async fn dial(
        &self,
        line: &mut impl Line,
        host: &Greeting,
        instance: &str,
    ) -> Result<Proved<Peer>, String> {
        if let Opening::Met(met) = &host.proof
            && !self.circuit.is_empty()
            && let Some(memory) = self.ends.met(self.own, host.hint, instance, &met.name)
        {
            let brief = Brief::of_dialer(&self.facts(), self.keys, memory).map_err(in_words)?;
            let (proved, opening) = brief.dials(met).map_err(in_words)?;
            line.say(opening).await?;
            return Ok(proved);
        }
        let (facts, end) = (self.facts(), self.ends.end(self.own));
        let proved = if let Opening::Full(sealed) = &host.proof {
            let heard = open(self.keys, sealed)?;
            let judge = self.judge(line, &heard).await;
            let judge = judge.as_deref().unwrap_or(self.own);
            let accepts = |text: &str| judge.host(self.service, instance, text);
            let second = Second { facts, end, keys: self.keys };
            let (proved, opening) = second.hears_host(&heard, accepts).map_err(in_words)?;
            line.say(seal(self.keys, &opening)?).await?;
            proved
        } else {
            let (first, opening) = First::of_dialer(&facts, end).map_err(in_words)?;
            line.say(seal(self.keys, &opening)?).await?;
            let heard = open(self.keys, &line.hear().await?)?;
            let judge = self.judge(line, &heard).await;
            let judge = judge.as_deref().unwrap_or(self.own);
            let accepts = |text: &str| judge.host(self.service, instance, text);
            first.take(&facts, self.keys, &heard, accepts).map_err(in_words)?
        };
        self.ends.meet(self.own, host.hint, instance, &proved.memory);
        Ok(proved)
    }

    /// What this host answers the dialer that announced this, and what it knows of that dialer. `claimed` is the id of the
    /// dialer as the router says.
    #[must_use]
    pub fn greet(&self, dialer: Announced, claimed: Option<&str>) -> (Greeting, UnprovenDialer) {
        let Announced { hint, hears_first } = dialer;
        let (proof, opening) = match self.known(&hint, claimed) {
            Some(brief) => (Opening::Met(brief.greets()), HostOpening::Brief(Box::new(brief))),
            None if hears_first => self.speak().unwrap_or((Opening::None, HostOpening::Nothing)),
            None => (Opening::None, HostOpening::Nothing),
        };
        let greeting = Greeting { hint: self.ends.hint(), fresh: self.fresh, proof };
        (greeting, UnprovenDialer { hint, claimed: claimed.map(str::to_owned), opening })
    }

    /// The full proof of this host, before that of the dialer. `None` if the library fails: the dialer speaks first then.
    fn speak(&self) -> Option<(Opening, HostOpening)> {
        let (first, opening) = First::of_host(&self.facts(), self.ends.end(self.own)).ok()?;
        Some((Opening::Full(seal(self.keys, &opening).ok()?), HostOpening::Full(first)))
    }

    /// The exchange of this host with a dialer that it has met.
    fn known(&self, hint: &Hint, claimed: Option<&str>) -> Option<Brief<Peer>> {
        if self.circuit.is_empty() {
            return None;
        }
        let memory = self.ends.recall(hint, self.own, self.service)?;
        let is_claimed = claimed.is_none_or(|claimed| claimed == memory.peer.identity);
        is_claimed.then(|| Brief::of_host(&self.facts(), self.keys, memory).ok())?
    }

    /// Proves this end as the host's, once the dialer has proved itself.
    ///
    /// # Errors
    /// Why the dialer has not proved itself, although it has heard that the host does.
    pub async fn host(
        &self,
        line: &mut impl Line,
        caller: UnprovenDialer,
    ) -> Result<HostedDialer, String> {
        let heard = line.hear().await?;
        let UnprovenDialer { hint, claimed, opening } = match caller.hear(&heard) {
            DialerOpening::Decided(proved) => return proved.map(HostedDialer::Proved),
            DialerOpening::Unaware(header) => return Ok(HostedDialer::Unaware(header)),
            DialerOpening::Open(caller) => caller,
        };
        let first = match opening {
            HostOpening::Full(first) => Some(first),
            HostOpening::Brief(_) | HostOpening::Nothing => None,
        };
        let heard = open(self.keys, &heard)?;
        let (facts, end) = (self.facts(), self.ends.end(self.own));
        let judge = self.judge(line, &heard).await;
        let judge = judge.as_deref().unwrap_or(self.own);
        let accepts = |text: &str| judge.dialer(self.service, text);
        let (proved, opening) = match first {
            Some(first) => {
                let proved = first.take(&facts, self.keys, &heard, accepts).map_err(in_words)?;
                (proved, None)
            }
            None => {
                let second = Second { facts, end, keys: self.keys };
                let (proved, opening) = second.hears_dialer(&heard, accepts).map_err(in_words)?;
                (proved, Some(opening))
            }
        };
        let dialer = &proved.memory.peer.identity;
        if let Some(other) = claimed.filter(|claimed| claimed != dialer) {
            return Err(format!("the router says that {other} dials, and it is {dialer}"));
        }
        if let Some(opening) = opening {
            line.say(seal(self.keys, &opening)?).await?;
        }
        self.ends.remember(self.own, hint, &proved.memory);
        Ok(HostedDialer::Proved(Box::new(proved)))
    }

    /// A newer statement about this end to judge the peer's message with, if the known keys do not suffice.
    async fn judge(&self, line: &mut impl Line, heard: &[u8]) -> Option<Arc<Statement>> {
        let signer = stated(heard).filter(|text| !self.own.has_key_of(text));
        signer?;
        line.renew().await
    }

    fn facts(&self) -> ExchangeFacts<'_> {
        let (dialer, host) = self.public;
        let Self { service, circuit, fresh, .. } = *self;
        ExchangeFacts { service, circuit, dialer, host, fresh }
    }
}

fn in_words(problem: impl ToString) -> String {
    problem.to_string()
}

/// The payload of this end in a full exchange: its message, sealed by the keys of the agreement, behind the header of its
/// stream.
fn seal(keys: &ConnectionKeys, message: &[u8]) -> Result<Bytes, String> {
    let (sealer, header) = Sealer::new(&keys.tx, &mut rand::rng());
    let sealed = Outgoing::new(sealer, true).seal(message).map_err(in_words)?;
    Ok([header.as_bytes(), &sealed[..]].concat().into())
}

/// Opens the payload of the peer in a full exchange.
fn open(keys: &ConnectionKeys, payload: &Bytes) -> Result<Bytes, String> {
    let (header, sealed) = payload.split_at_checked(Header::LEN).unwrap_or((payload, &[]));
    let header = Header::try_from(header).map_err(in_words)?;
    let opened = Opener::new(&keys.rx, &header).open(sealed).map_err(in_words)?;
    IncomingDirection::new(true).note(&opened).map_err(in_words)?;
    Ok(opened.plaintext)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
    use weft_contract::entity::DialBind;
    use weft_contract::resource::service_session::{EndClaims, EndStatement};
    use weft_identity::KeySet;
    use weft_identity::token::TokenSigner;

    use super::super::tests::{claims, signer, signer_of, told};
    use super::*;
    use crate::KeyPair;
    use crate::proof::print;

    /// A line, and what the controller answers now.
    struct Wire(UnboundedSender<Bytes>, UnboundedReceiver<Bytes>, Option<Arc<Statement>>);

    impl Line for Wire {
        async fn say(&mut self, payload: Bytes) -> Result<(), String> {
            self.0.send(payload).map_err(in_words)
        }

        async fn hear(&mut self) -> Result<Bytes, String> {
            self.1.recv().await.ok_or_else(|| "the line has ended".to_owned())
        }

        async fn renew(&mut self) -> Option<Arc<Statement>> {
            self.2.clone()
        }
    }

    fn stated(ends: &Ends, signer: &TokenSigner, role: DialBind, instance: &str) -> Statement {
        stated_with(ends, signer, role, instance, &[signer])
    }

    /// The statement with the keys of these.
    fn stated_with(
        ends: &Ends,
        signer: &TokenSigner,
        role: DialBind,
        instance: &str,
        keys: &[&TokenSigner],
    ) -> Statement {
        let mut known = KeySet::new();
        keys.iter().for_each(|it| known.insert(it.kid(), it.public().clone()));
        let key = hex::encode(print(ends.key()));
        let (session, instance) = (role.to_string(), instance.to_owned());
        let claims = EndClaims { session, role, instance, key, ..claims() };
        let told = EndStatement { keys: known.to_json().unwrap(), ..told(signer, &claims) };
        Statement::new(&role.to_string(), told, Arc::default()).unwrap()
    }

    /// Lets both ends prove themselves in a circuit: whether each end had met the other, or why one has not proved itself.
    async fn proved(
        (dialer, dials): (&Ends, &Statement),
        (host, hosts): (&Ends, &Statement),
        circuit: &str,
        instance: &str,
    ) -> Result<(bool, bool), String> {
        proved_by((dialer, dials), (host, hosts), circuit, instance, true).await
    }

    /// The same for a dialer that hears a host that speaks first, or does not.
    async fn proved_by(
        dialer: (&Ends, &Statement),
        host: (&Ends, &Statement),
        circuit: &str,
        instance: &str,
        hears_first: bool,
    ) -> Result<(bool, bool), String> {
        proved_with(dialer, host, circuit, instance, hears_first, [None, None]).await
    }

    /// The same with what the controller answers the dialer and the host meanwhile.
    async fn proved_with(
        (dialer, dials): (&Ends, &Statement),
        (host, hosts): (&Ends, &Statement),
        circuit: &str,
        instance: &str,
        hears_first: bool,
        [at_dialer, at_host]: [Option<&Arc<Statement>>; 2],
    ) -> Result<(bool, bool), String> {
        let newer = (at_dialer.cloned(), at_host.cloned());
        let [one, other] = [(); 2].map(|()| KeyPair::generate(&mut rand::rng()).unwrap());
        let (public, fresh) = ((one.public_key(), other.public_key()), rand::random());
        let keys = one.client_session(&public.1).unwrap();
        let (service, ends, own) = ("web", dialer, dials);
        let dialing = Exchange { ends, own, service, circuit, public, fresh, keys: &keys };
        let keys = other.server_session(&public.0).unwrap();
        let hosting = Exchange { ends: host, own: hosts, keys: &keys, ..dialing };
        let announced = Announced { hint: dialer.dialer_hint(dials), hears_first };
        let (greeting, caller) = hosting.greet(announced, Some("i1"));
        assert!(hears_first || !matches!(greeting.proof, Opening::Full(_)));
        let ((to_host, at_host), (to_dialer, at_dialer)) =
            (unbounded_channel(), unbounded_channel());
        let dial = async move {
            dialing.dial(&mut Wire(to_host, at_dialer, newer.0), &greeting, instance).await
        };
        let host =
            async move { hosting.host(&mut Wire(to_dialer, at_host, newer.1), caller).await };
        let (at_dialer, at_host) = tokio::join!(dial, host);
        match (at_dialer?, at_host?) {
            (at_dialer, HostedDialer::Proved(at_host)) => Ok((at_dialer.again, at_host.again)),
            (_, HostedDialer::Unaware(_)) => Err("the dialer has heard nothing".to_owned()),
        }
    }

    /// A controller that has just begun has signed the statement of one end, which the other end has not heard of.
    #[tokio::test]
    async fn an_end_that_shows_a_statement_of_an_unknown_key_is_judged_by_the_keys_of_now() {
        let (former, new) = (signer(), signer_of("k2"));
        let (dialer, host) = (Ends::new().unwrap(), Ends::new().unwrap());
        let of = |ends: &Ends, signer, role| stated_with(ends, signer, role, "", &[&former, &new]);
        for (role, hears_first) in [DialBind::Dial, DialBind::Bind]
            .into_iter()
            .flat_map(|role| [(role, true), (role, false)])
        {
            let is_dialer_new = role == DialBind::Dial;
            let (dials, hosts) = match is_dialer_new {
                true => {
                    (of(&dialer, &new, DialBind::Dial), stated(&host, &former, DialBind::Bind, ""))
                }
                false => {
                    (stated(&dialer, &former, DialBind::Dial, ""), of(&host, &new, DialBind::Bind))
                }
            };
            let (at_dialer, at_host) = ((&dialer, &dials), (&host, &hosts));
            assert!(proved_by(at_dialer, at_host, "", "", hears_first).await.is_err());
            let newer = match is_dialer_new {
                true => Arc::new(of(&host, &former, DialBind::Bind)),
                false => Arc::new(of(&dialer, &former, DialBind::Dial)),
            };
            let newer = if is_dialer_new { [None, Some(&newer)] } else { [Some(&newer), None] };
            let proved = proved_with(at_dialer, at_host, "", "", hears_first, newer).await;
            assert_eq!(proved, Ok((false, false)), "{role} {hears_first}");
        }
    }

    #[tokio::test]
    async fn ends_that_have_met_are_brief_about_the_same_instance_in_a_known_circuit() {
        let signer = signer();
        let (dialer, host) = (Ends::new().unwrap(), Ends::new().unwrap());
        let dials = stated(&dialer, &signer, DialBind::Dial, "");
        let [one, two] = ["a", "b"].map(|name| stated(&host, &signer, DialBind::Bind, name));
        let (dialer, one, two) = ((&dialer, &dials), (&host, &one), (&host, &two));
        let (full, brief) = (Ok((false, false)), Ok((true, true)));
        assert_eq!(proved(dialer, one, "c1", "a").await, full);
        assert_eq!(proved(dialer, one, "c2", "a").await, brief);
        // Routers that do not tell the circuit.
        assert_eq!(proved(dialer, one, "", "a").await, full);
        // What is remembered of one instance proves no other one of the same program.
        assert_eq!(proved(dialer, two, "c3", "b").await, full);
        assert_eq!(proved(dialer, two, "c4", "b").await, brief);
        let refused = proved(dialer, two, "c5", "a").await.unwrap_err();
        assert!(refused.contains("instance b") && refused.contains("instance a"), "{refused}");
        assert_eq!(proved(dialer, one, "c6", "a").await, full);
        assert_eq!(proved(dialer, one, "c7", "a").await, brief);
        assert!(proved(dialer, two, "c8", "a").await.unwrap_err().contains("instance b"));
        // A host that has forgotten the dialer, and a dialer that has forgotten the host.
        let other = Ends::new().unwrap();
        let again = stated(&other, &signer, DialBind::Bind, "a");
        assert_eq!(proved(dialer, (&other, &again), "c9", "a").await, full);
        let other = Ends::new().unwrap();
        let again = stated(&other, &signer, DialBind::Dial, "");
        assert_eq!(proved((&other, &again), one, "c10", "a").await, full);
    }

    #[tokio::test]
    async fn a_dialer_of_before_speaks_first() {
        let signer = signer();
        let (dialer, host) = (Ends::new().unwrap(), Ends::new().unwrap());
        let dials = stated(&dialer, &signer, DialBind::Dial, "");
        let hosts = stated(&host, &signer, DialBind::Bind, "");
        let (dialer, host) = ((&dialer, &dials), (&host, &hosts));
        assert_eq!(proved_by(dialer, host, "c1", "", false).await, Ok((false, false)));
        assert_eq!(proved_by(dialer, host, "c2", "", false).await, Ok((true, true)));
    }

    #[tokio::test]
    async fn a_dialer_that_the_router_calls_another_one_is_refused() {
        let signer = signer();
        for hears_first in [false, true] {
            let (dialer, host) = (Ends::new().unwrap(), Ends::new().unwrap());
            let dials = stated(&dialer, &signer, DialBind::Dial, "");
            let hosts = stated(&host, &signer, DialBind::Bind, "");
            assert!(proved((&dialer, &dials), (&host, &hosts), "c1", "").await.is_ok());
            let [one, other] = [(); 2].map(|()| KeyPair::generate(&mut rand::rng()).unwrap());
            let public = (one.public_key(), other.public_key());
            let keys = &other.server_session(&public.0).unwrap();
            let (ends, own, service, circuit) = (&host, &hosts, "web", "c2");
            let exchange =
                Exchange { ends, own, service, circuit, public, fresh: [7; FRESH], keys };
            let announced = Announced { hint: dialer.dialer_hint(&dials), hears_first };
            let (greeting, _) = exchange.greet(announced, Some("i1"));
            assert!(matches!(greeting.proof, Opening::Met(_)));
            let (greeting, caller) = exchange.greet(announced, Some("i2"));
            assert_eq!(matches!(greeting.proof, Opening::Full(_)), hears_first);
            assert!(!matches!(greeting.proof, Opening::Met(_)));
            // The dialer proves itself in full then.
            let keys = one.client_session(&public.1).unwrap();
            let dialing = Exchange { ends: &dialer, own: &dials, keys: &keys, ..exchange };
            let ((to_host, at_host), (to_dialer, at_dialer)) =
                (unbounded_channel(), unbounded_channel());
            let dial = async move {
                dialing.dial(&mut Wire(to_host, at_dialer, None), &greeting, "").await.map(drop)
            };
            let host =
                async move { exchange.host(&mut Wire(to_dialer, at_host, None), caller).await };
            let (at_dialer, at_host) = tokio::join!(dial, host);
            assert!(at_host.unwrap_err().contains("the router says that i2 dials"));
            // A host that spoke first has proved itself before.
            assert_eq!(at_dialer.is_ok(), hears_first);
        }
    }

    /// A router that keeps the host's answer back: the dialer begins the stream of a connection without a proof.
    #[tokio::test]
    async fn a_dialer_that_has_not_heard_the_host_is_no_failed_proof() {
        let signer = signer();
        let (dialer, host) = (Ends::new().unwrap(), Ends::new().unwrap());
        let dials = stated(&dialer, &signer, DialBind::Dial, "");
        let hosts = stated(&host, &signer, DialBind::Bind, "");
        for (met, hears_first) in [(false, true), (false, false), (true, true)] {
            if met {
                assert!(proved((&dialer, &dials), (&host, &hosts), "c1", "").await.is_ok());
            }
            let [one, other] = [(); 2].map(|()| KeyPair::generate(&mut rand::rng()).unwrap());
            let public = (one.public_key(), other.public_key());
            let keys = &other.server_session(&public.0).unwrap();
            let (ends, own, service, circuit) = (&host, &hosts, "web", "c2");
            let exchange =
                Exchange { ends, own, service, circuit, public, fresh: [7; FRESH], keys };
            let announced = Announced { hint: dialer.dialer_hint(&dials), hears_first };
            let (_, caller) = exchange.greet(announced, Some("i1"));
            assert_eq!(caller.is_known(), met);
            let keys = one.client_session(&public.1).unwrap();
            let (mut sealer, header) = Sealer::new(&keys.tx, &mut rand::rng());
            let ((to_host, at_host), (to_dialer, mut at_dialer)) =
                (unbounded_channel(), unbounded_channel());
            to_host.send(Bytes::copy_from_slice(header.as_bytes())).unwrap();
            let mut line = Wire(to_dialer, at_host, None);
            let Ok(HostedDialer::Unaware(heard)) = exchange.host(&mut line, caller).await else {
                panic!("{met} {hears_first}");
            };
            let said = sealer.seal(b"hello", crate::Tag::Message).unwrap();
            let opened = Opener::new(&exchange.keys.rx, &heard).open(&said).unwrap();
            assert_eq!(&opened.plaintext[..], b"hello");
            assert!(at_dialer.try_recv().is_err(), "the host has said nothing");
        }
    }

    /// A router that does not pass the dialer's proof on, but one of another form.
    #[tokio::test]
    async fn a_host_that_spoke_first_takes_no_other_proof_than_the_answer_to_its_own() {
        let signer = signer();
        let (dialer, host) = (Ends::new().unwrap(), Ends::new().unwrap());
        let dials = stated(&dialer, &signer, DialBind::Dial, "");
        let hosts = stated(&host, &signer, DialBind::Bind, "");
        let [one, other] = [(); 2].map(|()| KeyPair::generate(&mut rand::rng()).unwrap());
        let public = (one.public_key(), other.public_key());
        let keys = &other.server_session(&public.0).unwrap();
        let (ends, own, service, circuit) = (&host, &hosts, "web", "c1");
        let exchange = Exchange { ends, own, service, circuit, public, fresh: [7; FRESH], keys };
        let announced = Announced { hint: dialer.dialer_hint(&dials), hears_first: true };
        let (greeting, caller) = exchange.greet(announced, Some("i1"));
        let keys = one.client_session(&public.1).unwrap();
        let dialing = Exchange { ends: &dialer, own: &dials, keys: &keys, ..exchange };
        let ((to_host, at_host), (to_dialer, at_dialer)) =
            (unbounded_channel(), unbounded_channel());
        // The dialer is told of a host that does not speak first.
        let stripped = Greeting { proof: Opening::None, ..greeting };
        let dial = async move {
            dialing.dial(&mut Wire(to_host, at_dialer, None), &stripped, "").await.map(drop)
        };
        let host = async move { exchange.host(&mut Wire(to_dialer, at_host, None), caller).await };
        let (at_dialer, at_host) = tokio::join!(dial, host);
        assert!(at_host.unwrap_err().contains("its kind is another one"));
        assert!(at_dialer.is_err());
    }
}
