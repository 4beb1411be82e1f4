//! Questions about policies whose work is counted while it is done: lists below an entity, and advice.

use roaring::RoaringBitmap;

use crate::entity::{PolicyType, Record, ServicePolicy};
use crate::meter::{Ended, Meter, Part, of_bitmap};
use crate::role::Roles;
use crate::{Id, Kind, Semantic, Snapshot};

/// Units of the search for the policies that hold an entity.
pub(super) const FIND: u64 = 32;

impl Snapshot {
    /// Ordinals of the policies whose side selects an entity.
    pub fn counted_holding<P: Record>(
        &self,
        side: usize,
        id: &Id,
        meter: &Meter,
    ) -> Result<RoaringBitmap, Ended> {
        meter.take(Part::Policies, FIND)?;
        let entity = P::SIDES.get(side).and_then(|to| self.entity(*to, id));
        let Some(entity) = entity else { return Ok(RoaringBitmap::new()) };
        self.policies.counted_holding(self.table(P::KIND), side, entity, meter)
    }

    /// The members of one side of several policies.
    pub fn counted_union<P: Record>(
        &self,
        policies: &RoaringBitmap,
        side: usize,
        meter: &Meter,
    ) -> Result<RoaringBitmap, Ended> {
        let mut all = RoaringBitmap::new();
        for ordinal in policies {
            all |= &*self.counted_members(P::KIND, ordinal, side, meter)?;
        }
        Ok(all)
    }

    /// The entities that share a policy of kind `P` with an entity: the members of side `to` of all policies whose side
    /// `from` selects it.
    pub fn counted_reach<P: Record>(
        &self,
        from: usize,
        id: &Id,
        to: usize,
        meter: &Meter,
    ) -> Result<RoaringBitmap, Ended> {
        let policies = self.counted_holding::<P>(from, id, meter)?;
        self.counted_union::<P>(&policies, to, meter)
    }

    /// The entities on one side of the service policies of a type that select an entity on another side.
    pub fn counted_grants(
        &self,
        (from, id): (usize, &Id),
        to: usize,
        policy_type: PolicyType,
        meter: &Meter,
    ) -> Result<RoaringBitmap, Ended> {
        let mut policies = self.counted_holding::<ServicePolicy>(from, id, meter)?;
        meter.take(Part::Policies, policies.len())?;
        let is_other = |ordinal: &u32| {
            let policy = self.at::<ServicePolicy>(*ordinal);
            policy.is_none_or(|policy| policy.policy_type != policy_type)
        };
        let others: RoaringBitmap = policies.iter().filter(is_other).collect();
        policies -= others;
        self.counted_union::<ServicePolicy>(&policies, to, meter)
    }

    /// Ordinals of the entities that one side of a policy selects, to be used in one operation on sets.
    pub fn counted_members(
        &self,
        policy: Kind,
        ordinal: u32,
        side: usize,
        meter: &Meter,
    ) -> Result<std::sync::Arc<RoaringBitmap>, Ended> {
        let Some(to) = policy.sides().get(side) else { return Ok(Default::default()) };
        let (policies, table) = (self.table(policy), self.table(*to));
        meter.take(Part::Policies, self.policies.units_of(policies, ordinal, side, table))?;
        let members = self.policies.members(policies, ordinal, side, table);
        meter.take(Part::Policies, of_bitmap(&members))?;
        Ok(members)
    }

    /// [`Self::with_roles`], counted.
    pub fn counted_with_roles(
        &self,
        kind: Kind,
        roles: &Roles,
        semantic: Semantic,
        meter: &Meter,
    ) -> Result<RoaringBitmap, Ended> {
        meter.take(Part::Policies, super::units_of_roles(roles, self.table(kind)))?;
        let found = self.with_roles(kind, roles, semantic);
        meter.take(Part::Policies, of_bitmap(&found))?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::queries::tests::network;

    proptest! {
        #[test]
        fn what_is_counted_is_found_and_ends_where_it_has_to(
            routers in prop::collection::vec(0u8..4, 0..100),
            policies in prop::collection::vec((0u8..3, 0u8..4, 0u8..4), 0..30),
        ) {
            let network = network(&routers, &policies);
            let (identity, meter) = (Id::new("i"), Meter::new(u64::MAX));
            let (from, to) = (ServicePolicy::IDENTITIES, ServicePolicy::SERVICES);
            let of = PolicyType::Dial;
            let found = network.counted_grants((from, &identity), to, of, &meter).unwrap();
            prop_assert_eq!(&found, &network.services_of(&identity, of));
            prop_assert!(meter.spent() <= network.effort_of_selecting(Kind::Service));
            let spent = Meter::new(meter.spent());
            // The sets are known by now, and cost no more than before.
            network.counted_grants((from, &identity), to, of, &spent).unwrap();
            let less = Meter::new(FIND - 1);
            let ended = network.counted_grants((from, &identity), to, of, &less).unwrap_err();
            prop_assert_eq!(ended, Ended::TooMuch(FIND - 1, Part::Policies));
        }
    }

    #[test]
    fn policies_that_select_others_cost_nothing() {
        // The identity has the attributes a1 and a2.
        let policies: Vec<_> = (0..200).map(|_| (1, 3, 0)).chain([(1, 1, 1)]).collect();
        let network = network(&[1; 100], &policies);
        let meter = Meter::new(u64::MAX);
        let id = Id::new("i");
        let found = network.counted_reach::<crate::entity::EdgeRouterPolicy>(
            crate::entity::EdgeRouterPolicy::IDENTITIES,
            &id,
            crate::entity::EdgeRouterPolicy::EDGE_ROUTERS,
            &meter,
        );
        assert_eq!(found.unwrap(), network.routers_of_identity(&id));
        let estimate = network.effort_of_selecting(Kind::Router);
        assert!(meter.spent() * 20 < estimate, "{} of {estimate}", meter.spent());
    }
}
