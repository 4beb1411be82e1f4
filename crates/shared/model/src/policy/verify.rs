//! Verification that the remembered members of policies agree with their role lists.

use std::sync::Arc;

use super::{PolicyIndex, RoleKey, SIDES, evaluate, role_keys};
use crate::table::Table;
use crate::{Entity, Kind};

impl PolicyIndex {
    /// Passes a description of every fault in the policies of one kind to `wrong`.
    pub(crate) fn verify<'t>(
        &self,
        policies: &Table,
        table: impl Fn(Kind) -> &'t Table,
        wrong: &mut dyn FnMut(String),
    ) {
        let kind = policies.kind();
        let index = self.by_kind.get(&kind);
        let mut expected = 0;
        for (ordinal, policy) in policies.occupied() {
            let id = policy.id();
            for (side, to) in kind.sides().iter().take(SIDES).enumerate() {
                let Some((roles, semantic)) = policy.side(side) else { continue };
                for key in role_keys(roles) {
                    expected += 1;
                    let naming = index.and_then(|it| it.naming.get(&(side as u8, key.clone())));
                    if naming.is_none_or(|naming| !naming.contains(ordinal)) {
                        wrong(format!("{kind} {id} is not found by {}", shown(&key)));
                    }
                }
                let remembered = index
                    .and_then(|it| it.members.get(ordinal as usize)?.as_ref()?.0.get(side)?.get());
                let Some(remembered) = remembered else { continue };
                if **remembered != *evaluate(roles, semantic, table(*to)) {
                    wrong(format!("{kind} {id} is remembered to mean other {}", to.collection()));
                }
            }
        }
        let held: u64 =
            index.into_iter().flat_map(|it| it.naming.values()).map(|set| set.len()).sum();
        if held != expected {
            wrong(format!("an index of {kind} holds entries of policies that do not say so"));
        }
    }

    /// Empties the members of a policy's first side: a fault, for tests.
    #[doc(hidden)]
    pub(crate) fn plant_lost_members(&mut self, policies: &Table, policy: &Entity) {
        let Some(ordinal) = policies.ordinal(policy.id()) else { return };
        let Some(index) = self.by_kind.get_mut(&policies.kind()) else { return };
        let mut members = super::Members::default();
        let _ = members.0[0].set(Arc::default());
        index.set(ordinal, Some(std::mem::take(&mut members)));
    }
}

fn shown(key: &RoleKey) -> String {
    match key {
        RoleKey::All => "the role #all".to_owned(),
        RoleKey::Attribute(attribute) => format!("the role #{attribute}"),
        RoleKey::Id(id) => format!("the role @{id}"),
    }
}
