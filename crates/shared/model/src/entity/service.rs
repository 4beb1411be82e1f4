//! Services, and the strategies for choosing among their terminators.

use std::sync::Arc;

use prost::Enumeration;
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use super::{Base, Link, OnDelete, Record};
use crate::choice::Choice;
use crate::row::row;
use crate::{Id, Kind};

/// Strategy for choosing a terminator (docs/protocol/management-api.md 7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Enumeration, Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
#[repr(i32)]
pub enum TerminatorStrategy {
    /// The cheapest one, by path, static and dynamic cost.
    SmartRouting = 0,
    /// At random, cheaper ones more often.
    Weighted = 1,
    /// At random.
    Random = 2,
    /// The one that the dialer had before.
    Sticky = 3,
}

impl Choice for TerminatorStrategy {}

row! {
    /// A service.
    pub struct Service {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Unique name.
        2 => pub name: Arc<str>,
        /// True if applications encrypt end to end.
        3 => pub encryption_required: bool,
        /// Strategy for choosing a terminator.
        4 => pub terminator_strategy: TerminatorStrategy,
        /// Milliseconds after which an idle circuit ends; 0: never.
        5 => pub max_idle_millis: i64,
        /// Role attributes, sorted, without repetitions.
        6 => pub role_attributes: Vec<Arc<str>>,
        /// Configs, at most one per type.
        7 => pub configs: Vec<Id>,
        /// True if the service was created with the fabric API; the management API neither shows
        /// nor uses it.
        8 => pub is_fabric_only: bool,
        /// True if both ends of connections must prove who they are.
        9 => pub authenticated_ends: bool,
    }
}

impl Record for Service {
    const LINKS: &'static [Link] = &[Link::new("configs", Kind::Config, OnDelete::Unlink)];

    fn name(&self) -> Option<&Arc<str>> {
        Some(&self.name)
    }

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
