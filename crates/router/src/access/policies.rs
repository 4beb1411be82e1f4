//! The service policies of the data model with their members, and the policies of each member. A change
//! of one member costs as much as the policies that it is in, however many there are.

use std::collections::HashSet;
use std::sync::Arc;

use weft_wire::edge_ctrl::data_model::{
    PolicyType, RelatedEntityType, ServicePolicy, ServicePolicyChange,
};

/// The ids of members.
pub(crate) type Ids = imbl::HashSet<Arc<str>>;

/// A service policy with its members.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Policy {
    pub(crate) value: ServicePolicy,
    pub(crate) services: Ids,
    pub(crate) checks: Ids,
    pub(crate) identities: Ids,
}

impl Policy {
    /// The members of each kind.
    pub(super) fn members(&self) -> [(RelatedEntityType, &Ids); 3] {
        [
            (RelatedEntityType::Service, &self.services),
            (RelatedEntityType::PostureCheck, &self.checks),
            (RelatedEntityType::Identity, &self.identities),
        ]
    }
}

/// The policies, by id and by member. A clone shares everything with its original until one of them
/// changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Policies {
    by_id: imbl::HashMap<Arc<str>, Policy>,
    of_service: Index,
    of_check: Index,
    of_identity: Index,
}

impl Policies {
    /// The policy of this id.
    pub(crate) fn get(&self, id: &str) -> Option<&Policy> {
        self.by_id.get(id)
    }

    /// All policies, by id.
    pub(super) fn by_id(&self) -> &imbl::HashMap<Arc<str>, Policy> {
        &self.by_id
    }

    /// The policies that an identity is a member of.
    pub(super) fn of_identity(&self, identity: &str) -> impl Iterator<Item = &Policy> {
        self.of_identity.of(identity).filter_map(|id| self.by_id.get(id))
    }

    /// The policies that need a posture check.
    pub(super) fn of_check(&self, check: &str) -> impl Iterator<Item = &Policy> {
        self.of_check.of(check).filter_map(|id| self.by_id.get(id))
    }

    /// The policies of one type with both an identity and a service.
    pub(super) fn of_both(
        &self,
        identity: &str,
        service: &str,
        kind: PolicyType,
    ) -> impl Iterator<Item = &Policy> {
        self.of_identity(identity)
            .filter(move |policy| policy.value.policy_type() == kind)
            .filter(move |policy| policy.services.contains(service))
    }

    /// Adds a policy, or changes one, which keeps its members.
    pub(super) fn put(&mut self, value: ServicePolicy) {
        let id = value.id.as_str().into();
        self.by_id.entry(id).or_default().value = value;
    }

    /// Removes a policy.
    pub(super) fn remove(&mut self, id: &str) {
        let Some(policy) = self.by_id.remove(id) else { return };
        policy.services.iter().for_each(|service| self.of_service.remove(service, id));
        policy.checks.iter().for_each(|check| self.of_check.remove(check, id));
        policy.identities.iter().for_each(|identity| self.of_identity.remove(identity, id));
    }

    /// Adds members to a policy or removes them; false if there is no such policy.
    pub(super) fn change(&mut self, change: &ServicePolicyChange) -> bool {
        let Some((id, policy)) = self.by_id.get_key_value_mut(change.policy_id.as_str()) else {
            return false;
        };
        let (members, index) = match change.related_entity_type() {
            RelatedEntityType::Service => (&mut policy.services, &mut self.of_service),
            RelatedEntityType::PostureCheck => (&mut policy.checks, &mut self.of_check),
            RelatedEntityType::Identity => (&mut policy.identities, &mut self.of_identity),
            RelatedEntityType::Invalid => return true,
        };
        for member in &change.related_entity_ids {
            if change.add {
                members.insert(index.add(member, id));
            } else {
                members.remove(member.as_str());
                index.remove(member, id);
            }
        }
        true
    }

    /// Removes a service that was deleted from its policies.
    pub(super) fn forget_service(&mut self, service: &str) {
        for id in self.of_service.take(service) {
            self.by_id.get_mut(&id).and_then(|policy| policy.services.remove(service));
        }
    }

    /// Removes a posture check that was deleted from its policies.
    pub(super) fn forget_check(&mut self, check: &str) {
        for id in self.of_check.take(check) {
            self.by_id.get_mut(&id).and_then(|policy| policy.checks.remove(check));
        }
    }

    /// Removes an identity that was deleted from its policies.
    pub(super) fn forget_identity(&mut self, identity: &str) {
        for id in self.of_identity.take(identity) {
            self.by_id.get_mut(&id).and_then(|policy| policy.identities.remove(identity));
        }
    }
}

/// The policies of each member of one kind, or other things by the ids that they name.
#[derive(Debug, Clone, Default)]
pub(super) struct Index(imbl::HashMap<Arc<str>, HashSet<Arc<str>>>);

impl Index {
    fn of(&self, member: &str) -> impl Iterator<Item = &Arc<str>> {
        self.0.get(member).into_iter().flatten()
    }

    /// Notes that a member is in a policy. Returns the id of the member, of which there is one copy for
    /// all policies.
    pub(super) fn add(&mut self, member: &str, policy: &Arc<str>) -> Arc<str> {
        if let Some((member, policies)) = self.0.get_key_value_mut(member) {
            policies.insert(Arc::clone(policy));
            return Arc::clone(member);
        }
        let member: Arc<str> = member.into();
        self.0.insert(Arc::clone(&member), [Arc::clone(policy)].into());
        member
    }

    pub(super) fn remove(&mut self, member: &str, policy: &str) {
        if let Some(policies) = self.0.get_mut(member) {
            policies.remove(policy);
            if policies.is_empty() {
                self.0.remove(member);
            }
        }
    }

    pub(super) fn take(&mut self, member: &str) -> HashSet<Arc<str>> {
        self.0.remove(member).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(id: &str) -> ServicePolicy {
        ServicePolicy { id: id.into(), name: id.into(), policy_type: PolicyType::Dial.into() }
    }

    fn change(
        policies: &mut Policies,
        policy: &str,
        kind: RelatedEntityType,
        member: &str,
        add: bool,
    ) -> bool {
        let change = ServicePolicyChange {
            policy_id: policy.into(),
            related_entity_ids: vec![member.into()],
            related_entity_type: kind.into(),
            add,
        };
        policies.change(&change)
    }

    const KINDS: [RelatedEntityType; 3] =
        [RelatedEntityType::Service, RelatedEntityType::PostureCheck, RelatedEntityType::Identity];

    fn two() -> Policies {
        let mut policies = Policies::default();
        for id in ["p1", "p2"] {
            policies.put(value(id));
            for kind in KINDS {
                assert!(change(&mut policies, id, kind, "one", true));
                assert!(change(&mut policies, id, kind, id, true));
            }
        }
        policies
    }

    fn indexes(policies: &Policies) -> [&Index; 3] {
        [&policies.of_service, &policies.of_check, &policies.of_identity]
    }

    #[test]
    fn the_indexes_know_the_policies_of_each_member() {
        let mut policies = two();
        assert!(!change(&mut policies, "p3", RelatedEntityType::Service, "one", true));
        assert!(indexes(&policies).iter().all(|index| index.of("one").count() == 2));
        policies.put(ServicePolicy { name: "renamed".into(), ..value("p1") });
        assert_eq!(policies.of_both("one", "one", PolicyType::Dial).count(), 2);
        assert_eq!(policies.of_both("one", "p1", PolicyType::Dial).count(), 1);
        assert_eq!(policies.of_both("one", "p1", PolicyType::Bind).count(), 0);
        change(&mut policies, "p1", RelatedEntityType::Service, "p1", false);
        assert_eq!(policies.of_both("one", "p1", PolicyType::Dial).count(), 0);

        for member in ["one", "p2"] {
            policies.forget_service(member);
            policies.forget_check(member);
            policies.forget_identity(member);
        }
        assert!(policies.by_id["p2"].members().iter().all(|(_, ids)| ids.is_empty()));
        ["p1", "p2"].iter().for_each(|id| policies.remove(id));
        assert!(policies.by_id.is_empty());
        assert!(indexes(&policies).iter().all(|index| index.0.is_empty()));
    }

    #[test]
    fn there_is_one_copy_of_each_id() {
        let policies = two();
        let of = |policy: &str| policies.by_id[policy].members().map(|(_, ids)| ids.clone());
        for ((index, first), second) in indexes(&policies).iter().zip(of("p1")).zip(of("p2")) {
            let one = index.0.get_key_value("one").unwrap().0;
            for members in [first, second] {
                assert!(members.iter().any(|member| Arc::ptr_eq(member, one)));
            }
            for policy in index.of("one") {
                assert!(Arc::ptr_eq(policies.by_id.get_key_value(policy).unwrap().0, policy));
            }
        }
    }

    #[test]
    fn a_clone_stays_as_it_was() {
        let mut policies = two();
        let before = policies.clone();
        policies.forget_identity("one");
        policies.remove("p2");
        assert_eq!(before.by_id, two().by_id);
        assert_eq!(before.of_identity("one").count(), 2);
        assert_eq!(policies.of_identity("p1").count(), 1);
    }
}
