//! The changes of the firewall that follow from a change of the intercepted services.

use std::collections::BTreeSet;
use std::sync::Arc;

use ipnet::IpNet;

use crate::ports::Range;
use crate::service::Protocol;

/// Services with the same allowed sources. Number 0 is the group without such a list; a number is
/// never used twice.
pub(crate) type Group = u32;

/// The group of services that allow all clients.
pub(crate) const EVERYBODY: Group = 0;

/// The number of changes of the state so far.
pub(crate) type Revision = u64;

/// An element of the firewall: packets of a group's sources to a network and ports are intercepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Element {
    pub(crate) group: Group,
    pub(crate) protocol: Protocol,
    pub(crate) net: IpNet,
    pub(crate) ports: Range,
}

/// Elements, groups and routes that are added and removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) gone: BTreeSet<Element>,
    pub(crate) new: BTreeSet<Element>,
    pub(crate) new_groups: Vec<(Group, Arc<[IpNet]>)>,
    pub(crate) gone_groups: Vec<Group>,
    /// Networks that need a route if the machine has none to them.
    pub(crate) new_routes: BTreeSet<IpNet>,
    pub(crate) gone_routes: BTreeSet<IpNet>,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Joins these changes and later ones.
    pub(crate) fn then(&mut self, later: Self) {
        fn merge<T: Ord>(
            (gone, new): (&mut BTreeSet<T>, &mut BTreeSet<T>),
            later: (BTreeSet<T>, BTreeSet<T>),
        ) {
            for item in later.0 {
                if !new.remove(&item) {
                    gone.insert(item);
                }
            }
            for item in later.1 {
                if !gone.remove(&item) {
                    new.insert(item);
                }
            }
        }
        merge((&mut self.gone, &mut self.new), (later.gone, later.new));
        merge((&mut self.gone_routes, &mut self.new_routes), (later.gone_routes, later.new_routes));
        for gone in later.gone_groups {
            let before = self.new_groups.len();
            self.new_groups.retain(|(group, _)| *group != gone);
            if self.new_groups.len() == before {
                self.gone_groups.push(gone);
            }
        }
        self.new_groups.extend(later.new_groups);
    }
}
