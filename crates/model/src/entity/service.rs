//! Services: what is dialed and hosted.

use std::sync::Arc;

use super::{Base, Link, OnDelete, Record, named, record};
use crate::{
    Id, Kind,
    row::{choice, row},
};

choice! {
    /// How a terminator is chosen for a dial (protocol: management-api 7.2).
    pub enum TerminatorStrategy {
        /// The cheapest, by cost and the experience with it.
        SmartRouting = 0 "smartrouting",
        /// By chance, cheaper ones more often.
        Weighted = 1 "weighted",
        /// By chance.
        Random = 2 "random",
        /// The same as before for the same dialer.
        Sticky = 3 "sticky",
    }
}

row! {
    /// A service.
    pub struct Service {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Unique name.
        2 => pub name: Arc<str>,
        /// Whether applications encrypt end to end.
        3 => pub encryption_required: bool,
        /// How a terminator is chosen.
        4 => pub terminator_strategy: TerminatorStrategy,
        /// After how long an idle circuit is closed; 0 means never.
        5 => pub max_idle_millis: i64,
        /// Sorted and unique.
        6 => pub role_attributes: Vec<Arc<str>>,
        /// Configs, at most one per type.
        7 => pub configs: Vec<Id>,
        /// Whether the edge neither shows nor uses it.
        8 => pub is_fabric_only: bool,
    }
}

impl Record for Service {
    record!(Service);
    named!();

    const LINKS: &'static [Link] = &[Link::new("configs", Kind::Config, OnDelete::Unlink)];

    fn links(&self, each: &mut dyn FnMut(usize, &Id)) {
        self.configs.iter().for_each(|config| each(0, config));
    }

    fn unlink(&mut self, _link: usize, id: &Id) {
        self.configs.retain(|config| config != id);
    }

    fn attributes(&self) -> Option<&[Arc<str>]> {
        (!self.is_fabric_only).then_some(self.role_attributes.as_slice())
    }

    fn attributes_mut(&mut self) -> Option<&mut Vec<Arc<str>>> {
        Some(&mut self.role_attributes)
    }
}
