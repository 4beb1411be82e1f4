//! The key of the network rolls when a controller was removed ([`roll`](super::roll)).
//! Each controller publishes a key for which others wrap keys of the network.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use weft_identity::wrap;
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure, Result};
use weft_model::entity::{ControllerMember, HandedKey};
use weft_model::{Base, Id, Snapshot};
use weft_store::LogKeys;

use super::roll::{self, Roll, Step};
use crate::handle::{Auth, WeakAuth};

/// The interval of looks at what is to be done.
const LOOK: Duration = Duration::from_secs(2);
/// The pause between two steps.
const STEP: Duration = Duration::from_millis(100);
/// The pause while values are written anew.
const ANEW: Duration = Duration::from_secs(1);
/// How often the pause is doubled while values of a former key are found again and again.
const ROUNDS: u32 = 6;
/// The pause after a failure.
const AGAIN: Duration = Duration::from_secs(10);

/// What a key is wrapped for.
fn subject(number: u32, controller: &Id) -> String {
    format!("key {number} of the network for the controller {controller}")
}

/// The entry of a controller with a key that is wrapped for it.
fn with_key(member: &ControllerMember, number: u32, key: &[u8]) -> Result<ControllerMember> {
    let wrapped = wrap(&member.wrap_key, &subject(number, &member.base.id), key);
    let wrapped = wrapped.map_err(|error| Failure::unhandled(error.to_string()))?.into();
    Ok(ControllerMember { handed: Some(HandedKey { number, wrapped }), ..member.clone() })
}

impl Auth {
    /// Adds to the entry of this controller what it tells of keys of the network. `known` is the entry that is there.
    pub(super) fn tell_network_key(
        &self,
        own: ControllerMember,
        known: Option<&ControllerMember>,
    ) -> ControllerMember {
        let (network_key, numbers) = (&self.0.network_key, self.0.network_key.numbers());
        let handed = known.and_then(|known| known.handed.clone());
        let is_new = |handed: &HandedKey| {
            handed.number > numbers.newest && self.unwrapped(&own.base.id, handed).is_some()
        };
        let (told, found) =
            (known.map_or(0, |known| known.sealed_since), &network_key.sealed_since);
        ControllerMember {
            wrap_key: Bytes::copy_from_slice(network_key.pair.public()),
            network_key: numbers.newest,
            seals_with: numbers.sealing,
            sealed_since: roll::sealed_since(told, &numbers, found.load(Ordering::Acquire)),
            handed: handed.filter(is_new),
            ..own
        }
    }

    /// The number of the newest key of the network that this controller has.
    pub(super) fn newest_network_key(&self) -> u32 {
        self.0.network_key.numbers().newest
    }

    /// The number of the key with which this controller seals, and the controllers for which a newer one waits.
    pub(super) fn network_key_standing(&self, snapshot: &Snapshot) -> (u32, Vec<String>) {
        let members: Vec<_> = snapshot.list::<ControllerMember>().map(|it| &**it).collect();
        let awaited = roll::awaited(&members).map(|it| it.base.id.to_string()).collect();
        (self.0.network_key.numbers().sealing, awaited)
    }

    fn unwrapped(&self, own: &Id, handed: &HandedKey) -> Option<[u8; 32]> {
        let pair = &self.0.network_key.pair;
        pair.unwrap(&subject(handed.number, own), &handed.wrapped)?.try_into().ok()
    }

    /// Takes the next step, if there is one. Returns when to look for another one.
    async fn roll_on(&self) -> Result<Duration> {
        let Some(keys) = self.0.network_key.keys.clone() else { return Ok(LOOK) };
        let (own, snapshot) = (Id::new(&self.kernel().settings().id), self.kernel().snapshot());
        let members: Vec<_> = snapshot.list::<ControllerMember>().map(|it| &**it).collect();
        let roll = Roll {
            own: own.as_str(),
            is_leader: self.is_leader(),
            keys: keys.numbers(),
            sealed_since: self.0.network_key.sealed_since.load(Ordering::Acquire),
        };
        match roll.next(&members) {
            None => return Ok(LOOK),
            Some(Step::Take) => self.take_key(&*keys, &own, &snapshot).await?,
            Some(Step::Tell) => self.write_member(false).await?,
            Some(Step::Make(number)) => self.make_key(number).await?,
            Some(Step::Hand) => self.hand_key(&*keys).await?,
            Some(Step::SealWith(number)) => {
                keys.seal_with(number).map_err(|error| unwritten(number, &error))?;
                tracing::info!(
                    number,
                    "what is written to etcd is sealed with another key of the network"
                );
            }
            Some(Step::SealAnew) => {
                let anew = self.kernel().settings().store.seal_anew().await;
                if !anew.map_err(|error| Failure::unwritable(error.to_string()))? {
                    return Ok(ANEW);
                }
                self.0.network_key.sealed_since.store(roll.keys.sealing, Ordering::Release);
            }
            Some(Step::Forget(number)) => {
                keys.forget_before(number).map_err(|error| unwritten(number, &error))?;
                tracing::info!(
                    number,
                    "the former keys of the network are forgotten: nothing in etcd is sealed with them"
                );
            }
        }
        Ok(STEP)
    }

    async fn take_key(&self, keys: &dyn LogKeys, own: &Id, snapshot: &Snapshot) -> Result<()> {
        let member = snapshot.get::<ControllerMember>(own);
        let Some(handed) = member.and_then(|it| it.handed.clone()) else { return Ok(()) };
        match self.unwrapped(own, &handed) {
            Some(key) => {
                keys.add(handed.number, key).map_err(|error| unwritten(handed.number, &error))?;
                tracing::info!(
                    number = handed.number,
                    "this controller has another key of the network"
                );
            }
            None => tracing::warn!(
                number = handed.number,
                "a key of the network was wrapped for a key that this controller does not have any more; it asks for it again"
            ),
        }
        self.write_member(false).await
    }

    /// Makes a key, unless somebody has made one meanwhile.
    async fn make_key(&self, number: u32) -> Result<()> {
        let key = self.kernel().ids().bytes::<32>();
        let decide = move |decision: &mut Decision<'_>| {
            let known = entries(decision);
            let members: Vec<&ControllerMember> = known.iter().map(|it| &**it).collect();
            match roll::due(&members) {
                Some(due) if due == number => hand(decision, &members, number, &key),
                _ => Ok(()),
            }
        };
        self.kernel().decide(&Caller::own("network key"), decide).await?;
        tracing::info!(number, "a controller was removed: another key of the network is made");
        Ok(())
    }

    /// Wraps the newest key for controllers that lack it.
    async fn hand_key(&self, keys: &dyn LogKeys) -> Result<()> {
        let number = keys.numbers().newest;
        let Some(key) = keys.key(number) else { return Ok(()) };
        let decide = move |decision: &mut Decision<'_>| {
            let known = entries(decision);
            let members: Vec<&ControllerMember> = known.iter().map(|it| &**it).collect();
            hand(decision, &members, number, &key)
        };
        self.kernel().decide(&Caller::own("network key"), decide).await.map(drop)
    }
}

fn entries(decision: &Decision<'_>) -> Vec<Arc<ControllerMember>> {
    decision.tip().list::<ControllerMember>().cloned().collect()
}

fn hand(
    decision: &mut Decision<'_>,
    members: &[&ControllerMember],
    number: u32,
    key: &[u8; 32],
) -> Result<()> {
    let now = decision.now();
    for member in roll::lacking(members, number) {
        let base = Base { updated_at: now, ..member.base.clone() };
        decision.put(ControllerMember { base, ..with_key(member, number, key)? });
    }
    Ok(())
}

fn unwritten(number: u32, error: &std::io::Error) -> Failure {
    Failure::unhandled(format!(
        "key {number} of the network could not be written to the file that `cluster.key` names: {error}"
    ))
}

/// Rolls the key of the network on, until the controller ends.
pub(crate) async fn follow(weak: WeakAuth) {
    let has_keys = |auth: &Auth| {
        auth.is_member() && auth.kernel().settings().joins && auth.0.network_key.keys.is_some()
    };
    if !weak.upgrade().is_some_and(|auth| has_keys(&auth)) {
        return;
    }
    let (mut has_failed, mut pause, mut rounds) = (false, LOOK, 0);
    loop {
        tokio::time::sleep(pause).await;
        let Some(auth) = weak.upgrade() else { return };
        match auth.roll_on().await {
            Ok(next) => {
                // Each round may write a whole checkpoint; somebody else may put values there that stay.
                rounds = if next == ANEW { (rounds + 1).min(ROUNDS) } else { 0 };
                (has_failed, pause) = (false, next * (1 << rounds));
            }
            Err(error) => {
                if !std::mem::replace(&mut has_failed, true) {
                    tracing::warn!(%error, "the key of the network does not roll on; it is tried again");
                }
                pause = AGAIN;
            }
        }
    }
}
