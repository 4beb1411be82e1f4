//! Questions about policies, as lists, sessions and routers ask them.

use std::sync::Arc;

use roaring::RoaringBitmap;

use super::counted::FIND;
use crate::entity::{
    EdgeRouterPolicy, OfKind, PolicyType, Record, ServiceEdgeRouterPolicy, ServicePolicy,
};
use crate::meter::{Ended, Meter, Part};
use crate::role::Roles;
use crate::{Entity, Id, Kind, Snapshot};

/// The access of an identity to a service, in detail (docs/protocol/management-api.md 7.1).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Advice {
    /// True if a policy allows the identity to dial the service. Posture is ignored.
    pub is_dial_allowed: bool,
    /// True if a policy allows the identity to host the service. Posture is ignored.
    pub is_bind_allowed: bool,
    /// Edge routers that the identity may use.
    pub identity_routers: RoaringBitmap,
    /// Edge routers over which the service may be reached.
    pub service_routers: RoaringBitmap,
    /// Edge routers in both sets.
    pub common_routers: RoaringBitmap,
}

impl Snapshot {
    /// Ordinals of the entities that one side of a policy selects.
    pub fn members(&self, policy: Kind, ordinal: u32, side: usize) -> Arc<RoaringBitmap> {
        match policy.sides().get(side) {
            Some(to) => self.policies.members(self.table(policy), ordinal, side, self.table(*to)),
            None => Arc::default(),
        }
    }

    /// The entities that one side of a policy selects, in no particular order.
    pub fn members_of<T: Record>(&self, policy: &Id, side: usize) -> Vec<&Entity> {
        let Some(ordinal) = self.table(T::KIND).ordinal(policy) else { return Vec::new() };
        let Some(to) = T::SIDES.get(side) else { return Vec::new() };
        let members = self.members(T::KIND, ordinal, side);
        members.iter().filter_map(|ordinal| self.table(*to).at(ordinal)).collect()
    }

    /// Ordinals of the policies whose side selects an entity.
    pub fn holding<P: Record>(&self, side: usize, id: &Id) -> RoaringBitmap {
        let entity = P::SIDES.get(side).and_then(|to| self.entity(*to, id));
        let found = entity.map(|entity| self.policies.holding(self.table(P::KIND), side, entity));
        found.unwrap_or_default()
    }

    /// The policies whose side selects an entity, ordered by ordinal.
    pub fn policies_holding<P: Record>(&self, side: usize, id: &Id) -> Vec<&Arc<P>> {
        self.holding::<P>(side, id).iter().filter_map(|ordinal| self.at(ordinal)).collect()
    }

    /// The entities that share a policy of kind `P` with an entity: the members of side `to` of all
    /// policies whose side `from` selects it.
    pub fn reach<P: Record>(&self, from: usize, id: &Id, to: usize) -> RoaringBitmap {
        self.union_of::<P>(&self.holding::<P>(from, id), to)
    }

    /// The members of one side of several policies.
    pub fn union_of<P: Record>(&self, policies: &RoaringBitmap, side: usize) -> RoaringBitmap {
        let sets = policies.iter().map(|ordinal| self.members(P::KIND, ordinal, side));
        sets.fold(RoaringBitmap::new(), |all, set| all | &*set)
    }

    /// The service policies of a type that hold an identity.
    pub fn granting(&self, identity: &Id, policy_type: PolicyType) -> RoaringBitmap {
        let of_type = |ordinal: &u32| {
            let policy = self.at::<ServicePolicy>(*ordinal);
            policy.is_some_and(|policy| policy.policy_type == policy_type)
        };
        let holding = self.holding::<ServicePolicy>(ServicePolicy::IDENTITIES, identity);
        holding.iter().filter(of_type).collect()
    }

    /// The services that an identity may dial or host. Posture is ignored.
    pub fn services_of(&self, identity: &Id, policy_type: PolicyType) -> RoaringBitmap {
        let policies = self.granting(identity, policy_type);
        self.union_of::<ServicePolicy>(&policies, ServicePolicy::SERVICES)
    }

    /// The identities that may dial or host a service. Posture is ignored.
    pub fn identities_of(&self, service: &Id, policy_type: PolicyType) -> RoaringBitmap {
        let holding = self.policies_holding::<ServicePolicy>(ServicePolicy::SERVICES, service);
        let ordinals = holding.iter().filter(|policy| policy.policy_type == policy_type);
        let ordinals = ordinals.filter_map(|p| self.table(Kind::ServicePolicy).ordinal(p.id()));
        self.union_of::<ServicePolicy>(&ordinals.collect(), ServicePolicy::IDENTITIES)
    }

    /// The service policies that hold both an identity and a service.
    pub fn service_policies_between(
        &self,
        identity: &Id,
        service: &Id,
    ) -> Vec<(u32, &Arc<ServicePolicy>)> {
        let of_identity = self.holding::<ServicePolicy>(ServicePolicy::IDENTITIES, identity);
        let both = of_identity & self.holding::<ServicePolicy>(ServicePolicy::SERVICES, service);
        both.iter().filter_map(|ordinal| Some((ordinal, self.at(ordinal)?))).collect()
    }

    /// The edge routers that an identity may use.
    pub fn routers_of_identity(&self, identity: &Id) -> RoaringBitmap {
        let (from, to) = (EdgeRouterPolicy::IDENTITIES, EdgeRouterPolicy::EDGE_ROUTERS);
        self.reach::<EdgeRouterPolicy>(from, identity, to)
    }

    /// The edge routers over which a service may be reached.
    pub fn routers_of_service(&self, service: &Id) -> RoaringBitmap {
        let (from, to) = (ServiceEdgeRouterPolicy::SERVICES, ServiceEdgeRouterPolicy::EDGE_ROUTERS);
        self.reach::<ServiceEdgeRouterPolicy>(from, service, to)
    }

    /// The edge routers that an identity may use for a service (docs/protocol/management-api.md
    /// 7.4).
    pub fn routers_between(&self, identity: &Id, service: &Id) -> RoaringBitmap {
        self.routers_of_identity(identity) & self.routers_of_service(service)
    }

    /// True if an identity may use an edge router for a service.
    pub fn is_router_usable(&self, identity: &Id, service: &Id, router: &Id) -> bool {
        let ordinal = self.table(Kind::Router).ordinal(router);
        ordinal.is_some_and(|ordinal| self.routers_between(identity, service).contains(ordinal))
    }

    /// The identities that may use an edge router.
    pub fn identities_of_router(&self, router: &Id) -> RoaringBitmap {
        let (from, to) = (EdgeRouterPolicy::EDGE_ROUTERS, EdgeRouterPolicy::IDENTITIES);
        self.reach::<EdgeRouterPolicy>(from, router, to)
    }

    /// The access of an identity to a service, in detail.
    pub fn advice(&self, identity: &Id, service: &Id, meter: &Meter) -> Result<Advice, Ended> {
        let policies = self.table(Kind::ServicePolicy).len() as u64;
        meter.take(Part::Policies, 2 * (FIND + policies))?;
        let between = self.service_policies_between(identity, service);
        let allowed = |wanted| between.iter().any(|(_, policy)| policy.policy_type == wanted);
        let (from, to) = (EdgeRouterPolicy::IDENTITIES, EdgeRouterPolicy::EDGE_ROUTERS);
        let identity_routers = self.counted_reach::<EdgeRouterPolicy>(from, identity, to, meter)?;
        let (from, to) = (ServiceEdgeRouterPolicy::SERVICES, ServiceEdgeRouterPolicy::EDGE_ROUTERS);
        let service_routers =
            self.counted_reach::<ServiceEdgeRouterPolicy>(from, service, to, meter)?;
        Ok(Advice {
            is_dial_allowed: allowed(PolicyType::Dial),
            is_bind_allowed: allowed(PolicyType::Bind),
            common_routers: &identity_routers & &service_routers,
            identity_routers,
            service_routers,
        })
    }

    /// Most units of [`Self::advice`].
    pub fn effort_of_advice(&self) -> u64 {
        let policies = self.table(Kind::ServicePolicy).len() as u64;
        let kinds = [Kind::EdgeRouterPolicy, Kind::ServiceEdgeRouterPolicy];
        let of_routers = kinds.map(|kind| {
            let policies = self.table(kind).len() as u64;
            FIND + policies.saturating_mul(1 + self.units_of_routers())
        });
        2 * (FIND + policies) + of_routers.iter().sum::<u64>()
    }

    /// Units of the routers of a policy: the set is made, and joined to others.
    fn units_of_routers(&self) -> u64 {
        self.table(Kind::Router).units_of_set()
    }

    /// Most units of finding the entities of a kind that share policies with one entity; few for a kind that policies
    /// do not select.
    pub fn effort_of_selecting(&self, kind: Kind) -> u64 {
        let selecting =
            [Kind::ServicePolicy, Kind::EdgeRouterPolicy, Kind::ServiceEdgeRouterPolicy];
        let policies =
            selecting.map(|policy| match policy.sides().contains(&kind) || policy == kind {
                true => self.table(policy).len() as u64,
                false => 0,
            });
        let units = self.table(kind).units_of_set();
        // Each policy is looked at twice: whether it selects the entity, and whether it is of the wanted type.
        FIND + policies.iter().sum::<u64>().saturating_mul(2 + units)
    }

    /// The entities of a set of ordinals, ordered by ordinal.
    pub fn entities<'a, T: Record>(
        &'a self,
        ordinals: &'a RoaringBitmap,
    ) -> impl Iterator<Item = &'a Arc<T>> {
        ordinals.iter().filter_map(|ordinal| self.at(ordinal))
    }

    /// The policies that name a role attribute on one side.
    pub fn naming_attribute<P: Record>(&self, side: usize, attribute: &str) -> Arc<RoaringBitmap> {
        self.policies.naming_attribute(P::KIND, side, &attribute.into())
    }

    /// The entities of a kind with all, or one of, the attributes, and those named by id
    /// (docs/protocol/management-api.md 2.6); `#all` has no special meaning here.
    pub fn with_roles(
        &self,
        kind: Kind,
        roles: &Roles,
        semantic: crate::Semantic,
    ) -> RoaringBitmap {
        let mut roles = roles.clone();
        if std::mem::take(&mut roles.all) {
            roles.attributes.push("all".into());
        }
        (*super::evaluate(&roles, semantic, self.table(kind))).clone()
    }

    /// The ordinal of an entity in the sets of these queries.
    pub fn ordinal_of<T: Record>(&self, id: &Id) -> Option<u32> {
        self.table(T::KIND).ordinal(id)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::entity::{Identity, Router, Service};
    use crate::role::attributes;
    use crate::{Base, Change, ChangeSet, Semantic, Timeline, Timestamp};

    fn base(id: String) -> Base {
        Base::new(Id::new(&id), Timestamp(1))
    }

    /// `#all`, or an attribute.
    fn roles(number: u8) -> Roles {
        match number {
            0 => Roles::all(),
            _ => Roles::parse(&[format!("#a{number}")]).unwrap(),
        }
    }

    /// An identity, a service, routers with attributes, and policies that select some of them.
    pub(in crate::policy) fn network(routers: &[u8], policies: &[(u8, u8, u8)]) -> Snapshot {
        let mine = attributes(&["a1", "a2"]).unwrap();
        let mut set = vec![
            Change::Put(
                Identity {
                    base: base("i".into()),
                    name: "i".into(),
                    role_attributes: mine.clone(),
                    ..Identity::default()
                }
                .into(),
            ),
            Change::Put(
                Service {
                    base: base("s".into()),
                    name: "s".into(),
                    role_attributes: mine,
                    ..Service::default()
                }
                .into(),
            ),
        ];
        set.extend(routers.iter().enumerate().map(|(at, attribute)| {
            let router = Router {
                base: base(format!("r{at}")),
                name: format!("r{at}").as_str().into(),
                is_edge: true,
                role_attributes: attributes(&[format!("a{attribute}")]).unwrap(),
                ..Router::default()
            };
            Change::Put(router.into())
        }));
        set.extend(policies.iter().enumerate().map(|(at, (kind, one, other))| {
            let (base, name) = (base(format!("p{at}")), format!("p{at}").as_str().into());
            let (semantic, one, other) = (Semantic::AnyOf, roles(*one), roles(*other));
            Change::Put(match kind {
                0 => ServicePolicy {
                    base,
                    name,
                    semantic,
                    identity_roles: one,
                    service_roles: other,
                    ..ServicePolicy::default()
                }
                .into(),
                1 => EdgeRouterPolicy {
                    base,
                    name,
                    semantic,
                    identity_roles: one,
                    edge_router_roles: other,
                }
                .into(),
                _ => ServiceEdgeRouterPolicy {
                    base,
                    name,
                    semantic,
                    service_roles: one,
                    edge_router_roles: other,
                }
                .into(),
            })
        }));
        Snapshot::empty(Timeline("t".into())).apply(&ChangeSet::of(set)).unwrap()
    }

    proptest! {
        #[test]
        fn no_advice_takes_more_work_than_was_estimated(
            routers in prop::collection::vec(0u8..4, 0..100),
            policies in prop::collection::vec((0u8..3, 0u8..4, 0u8..4), 0..30),
        ) {
            let network = network(&routers, &policies);
            let (identity, service) = (Id::new("i"), Id::new("s"));
            let (effort, meter) = (network.effort_of_advice(), Meter::new(u64::MAX));
            let advice = network.advice(&identity, &service, &meter).unwrap();
            prop_assert!(meter.spent() <= effort, "{} of {effort}", meter.spent());
            prop_assert_eq!(&advice.identity_routers, &network.routers_of_identity(&identity));
            prop_assert_eq!(&advice.service_routers, &network.routers_of_service(&service));
            let less = Meter::new(meter.spent() - 1);
            let ended = network.advice(&identity, &service, &less).unwrap_err();
            prop_assert_eq!(ended, Ended::TooMuch(meter.spent() - 1, Part::Policies));
        }
    }
}
