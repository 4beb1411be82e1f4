//! Circuits are held by the rights that they were made with: the dialer may dial the service over the
//! router at which the circuit begins, and the host may host it over the router at which the circuit
//! ends. After a change that can take a right away, the circuits that are no longer held end at both
//! ends, whatever binding of whatever router carries them there.
//!
//! The posture of a client is the concern of its sessions, which end without it. A router has no posture
//! data, so its posture checks fail. A binding of a router that may use every service, and a terminator
//! that an administrator made, need no right, and the circuit is held by the service alone.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use hashbrown::{HashMap, HashSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use weft_auth::sessions::SessionNotice;
use weft_kernel::{Notice, Published};
use weft_model::access::{Posture, decide};
use weft_model::entity::{Identity, IdentityType, PolicyType, Service, ServiceSession, Terminator};
use weft_model::{Change, Id, Kind, Snapshot, Timestamp};
use weft_network::circuits::Circuit;
use weft_network::hosting::{demands_proof, lacks_proof};

use crate::ended::is_founded;
use crate::plane::Plane;

/// The interval at which all circuits are looked at without a change: routers report circuits after a
/// restart of the controller, which may have lost their rights just before.
const LOOK: Duration = Duration::from_secs(30);
/// After a look at all circuits nothing is looked at for this many times as long as it took, so that many
/// changes in a row leave most of the processor to others.
const REST: u32 = 4;
/// The longest such rest.
const LONGEST_REST: Duration = Duration::from_millis(1_500);

/// Circuits that are looked at before the task yields.
const TURN: usize = 500;

/// The right of an identity to dial or host a service over a router. The router is not known if the
/// circuit is known in part.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Right {
    identity: Id,
    service: Id,
    router: Option<Id>,
    action: PolicyType,
}

impl Right {
    /// The rights of the two ends of a circuit.
    fn of(circuit: &Circuit) -> impl Iterator<Item = Self> {
        let [first, last] = match circuit.has_ends() {
            true => [circuit.path.first(), circuit.path.last()],
            false => [None, None],
        };
        let ends = [
            (&circuit.tags.client, first, PolicyType::Dial),
            (&circuit.tags.host, last, PolicyType::Bind),
        ];
        ends.into_iter().filter_map(|(identity, router, action)| {
            let identity = identity.clone().filter(|id| !id.is_empty())?;
            Some(Self {
                identity,
                service: circuit.service.clone(),
                router: router.cloned(),
                action,
            })
        })
    }

    fn stands(&self, snapshot: &Snapshot, now: Timestamp) -> bool {
        let Self { identity, service, router, action } = self;
        let is_router = snapshot
            .get::<Identity>(identity)
            .is_some_and(|it| it.identity_type == IdentityType::Router);
        let posture = if is_router { Posture::Unknown } else { Posture::Ignored };
        decide(snapshot, identity.as_str(), service.as_str(), *action, posture, now).is_granted()
            && router.as_ref().is_none_or(|it| snapshot.is_router_usable(identity, service, it))
    }
}

/// What was found of rights on one snapshot: many circuits have the same ones.
struct Judge<'p> {
    plane: &'p Plane,
    snapshot: Arc<Snapshot>,
    now: Timestamp,
    found: HashMap<Right, bool>,
}

impl<'p> Judge<'p> {
    fn new(plane: &'p Plane) -> Self {
        let (snapshot, now) = (plane.auth.kernel().snapshot(), plane.auth.kernel().now());
        Self { plane, snapshot, now, found: HashMap::new() }
    }

    /// Whether a circuit is held by all that it was made with, as far as that is known.
    fn holds(&mut self, circuit: &Circuit) -> bool {
        if circuit.service.is_empty() {
            return true;
        }
        let auth = &self.plane.auth;
        let has_sessions =
            !circuit.is_of_session || auth.sessions().service(&circuit.client).is_some();
        let terminator = self.snapshot.get::<Terminator>(&circuit.terminator);
        let can_prove = circuit.dialer_proves || !demands_proof(&self.snapshot, &circuit.service);
        has_sessions
            && can_prove
            && terminator.is_none_or(|it| is_founded(auth, it) && !lacks_proof(&self.snapshot, it))
            && self.snapshot.contains(Kind::Service, &circuit.service)
            && Right::of(circuit).all(|right| {
                let (snapshot, now) = (&self.snapshot, self.now);
                *self.found.entry(right).or_insert_with_key(|right| right.stands(snapshot, now))
            })
    }
}

/// Ends a circuit that is not held any more; true if it was.
fn end_if_unheld(plane: &Plane, circuit: &Circuit) -> bool {
    // The circuit may be newer than the snapshot on which it was judged first.
    !Judge::new(plane).holds(circuit) && plane.network.remove_circuit(&circuit.id, true)
}

/// Whether a circuit that was just made is still held: a right that was lost while it was made was lost
/// before anybody could find the circuit. A circuit that is not held ends.
pub(crate) fn still_held(plane: &Plane, circuit: &str) -> bool {
    let circuit = plane.network.circuits().get(circuit);
    circuit.is_none_or(|circuit| !end_if_unheld(plane, &circuit))
}

/// Ends circuits that are no longer held, after each change that can take a right away, until the
/// controller stops.
pub(crate) async fn follow(plane: Arc<Plane>) {
    let mut ended = plane.auth.sessions().subscribe();
    let (_, mut changes) = plane.auth.kernel().subscribe();
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_due = tokio::select! {
            notice = changes.next() => match notice {
                Some(Notice::Change(published)) => can_take_away(&published),
                Some(Notice::Resync(_)) => true,
                None => return,
            },
            notice = ended.next() => match notice {
                Some(
                    SessionNotice::ServiceRemoved(ended) | SessionNotice::ServicesOfTokens(ended),
                ) => {
                    hosting_ended(&plane, &ended).await;
                    false
                }
                Some(SessionNotice::Resync) => true,
                Some(_) => false,
                None => return,
            },
            _ = looks.tick() => true,
        };
        if is_due {
            // The changes that wait by now are seen, too.
            while changes.next().now_or_never().flatten().is_some() {}
            let begun = Instant::now();
            end_unheld(&plane).await;
            sleep((begun.elapsed() * REST).min(LONGEST_REST)).await;
        }
    }
}

/// Looks at all circuits, those of one router after the other.
async fn end_unheld(plane: &Plane) {
    let (mut judge, mut count) = (Judge::new(plane), 0);
    for router in plane.network.circuits().routers() {
        for (at, circuit) in plane.network.circuits().at(&router).into_iter().enumerate() {
            if at % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
            let is_first = circuit.path.first() == Some(&router);
            if is_first && !judge.holds(&circuit) && end_if_unheld(plane, &circuit) {
                count += 1;
            }
        }
        tokio::task::yield_now().await;
    }
    if count > 0 {
        tracing::info!(
            count,
            "circuits ended, because an end has lost its right to the service or to its router"
        );
    }
}

/// The services that identities hosted in sessions that have ended, each once.
fn hosted_in(ended: &[Arc<ServiceSession>]) -> HashMap<&Id, HashSet<&Id>> {
    let mut hosted: HashMap<&Id, HashSet<&Id>> = HashMap::new();
    for session in ended.iter().filter(|it| it.session_type == PolicyType::Bind) {
        hosted.entry(&session.identity_id).or_default().insert(&session.service_id);
    }
    hosted
}

/// Ends circuits to hosts whose last session to host the service has ended. Routers end circuits of
/// sessions that dialed.
async fn hosting_ended(plane: &Plane, ended: &[Arc<ServiceSession>]) {
    let snapshot = plane.auth.kernel().snapshot();
    for (host, services) in hosted_in(ended) {
        // A host has few terminators, whereas a service may have very many.
        let unfounded: Vec<Id> = snapshot
            .referring::<Terminator>(Terminator::HOST, host)
            .filter(|it| services.contains(&it.service_id) && !is_founded(&plane.auth, it))
            .map(|it| it.base.id.clone())
            .collect();
        unfounded.iter().for_each(|id| plane.network.end_circuits_to(id));
        tokio::task::yield_now().await;
    }
}

/// Whether a batch can take a right away from somebody. What is new gives rights; a new posture check may
/// come into a policy that exists.
fn can_take_away(published: &Published) -> bool {
    let (before, after) = (&published.before, &published.after);
    let changed = |change: &Change| {
        let (kind, id) = (change.kind(), change.id());
        match kind {
            Kind::PostureCheck => true,
            Kind::ServicePolicy | Kind::EdgeRouterPolicy | Kind::ServiceEdgeRouterPolicy => {
                before.contains(kind, id)
            }
            Kind::Identity | Kind::Service | Kind::Router => {
                let Some(was) = before.entity(kind, id) else { return false };
                let Some(is) = after.entity(kind, id) else { return true };
                let limits = |snapshot: &Snapshot| {
                    let identity = snapshot.get::<Identity>(id).map(|it| it.disabled_at);
                    let service = snapshot.get::<Service>(id);
                    (identity, service.map(|it| (it.is_fabric_only, it.authenticated_ends)))
                };
                was.attributes() != is.attributes() || limits(before) != limits(after)
            }
            _ => false,
        }
    };
    published.changes.iter().flat_map(|set| &set.changes).any(changed)
}

#[cfg(test)]
mod tests {
    use weft_model::entity::{PostureCheck, ServicePolicy};
    use weft_model::{Base, ChangeSet, Revision, Timeline, role};

    use super::*;

    const NOW: Timestamp = Timestamp(1);

    fn put(entity: impl Into<weft_model::Entity>) -> Change {
        Change::Put(entity.into())
    }

    fn identity(attribute: &str, disabled_at: Option<Timestamp>, is_admin: bool) -> Change {
        let base = Base::new(Id::new("i"), NOW);
        let role_attributes = role::attributes(&[attribute.to_owned()]).unwrap();
        let name = "i".into();
        put(Identity { base, name, role_attributes, disabled_at, is_admin, ..Identity::default() })
    }

    fn policy() -> Change {
        let base = Base::new(Id::new("p"), NOW);
        put(ServicePolicy { base, name: "p".into(), ..ServicePolicy::default() })
    }

    #[test]
    fn a_host_is_looked_at_once_whatever_number_of_sessions_it_had() {
        let session = |id: &str, host: &str, service: &str, session_type| {
            Arc::new(ServiceSession {
                base: Base::new(Id::new(id), NOW),
                identity_id: Id::new(host),
                service_id: Id::new(service),
                session_type,
                ..ServiceSession::default()
            })
        };
        let ended = [
            session("1", "h", "s", PolicyType::Bind),
            session("2", "h", "s", PolicyType::Bind),
            session("3", "h", "t", PolicyType::Bind),
            session("4", "h", "u", PolicyType::Dial),
            session("5", "d", "s", PolicyType::Dial),
        ];
        let hosted = hosted_in(&ended);
        assert_eq!(hosted.len(), 1);
        assert_eq!(hosted[&Id::new("h")], HashSet::from_iter([&Id::new("s"), &Id::new("t")]));
    }

    #[test]
    fn what_is_new_takes_nothing_away_and_what_changes_or_goes_may() {
        let empty = Snapshot::empty(Timeline("t".into()));
        let all = ChangeSet {
            changes: vec![identity("a", None, false), policy()],
            ..ChangeSet::default()
        };
        let known = empty.apply(&all).unwrap();
        let looks = |before: &Snapshot, change: Change| {
            let set = ChangeSet { changes: vec![change], ..ChangeSet::default() };
            let (before, after) = (Arc::new(before.clone()), before.apply(&set).unwrap());
            let (after, changes) = (Arc::new(after), vec![Arc::new(set)]);
            can_take_away(&Published { before, after, changes, revision: Revision(2) })
        };
        assert!(!looks(&empty, identity("a", None, false)));
        assert!(!looks(&empty, policy()));
        assert!(!looks(&known, identity("a", None, true)), "no right depends on it");
        assert!(looks(&known, identity("b", None, false)));
        assert!(looks(&known, identity("a", Some(NOW), false)));
        assert!(looks(&known, Change::Delete(Kind::Identity, Id::new("i"))));
        assert!(looks(&known, policy()));
        assert!(looks(&known, Change::Delete(Kind::ServicePolicy, Id::new("p"))));
        let base = Base::new(Id::new("c"), NOW);
        let check = PostureCheck { base, name: "c".into(), ..PostureCheck::default() };
        assert!(looks(&known, put(check)), "a policy may take it in");
    }
}
