//! Routers. Edge routers and routers of the fabric only are one kind with one space of names.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Base, Link, OnDelete, Record};
use crate::row::row;
use crate::{Id, JsonMap, Kind};

row! {
    /// The groups of a control channel listener.
    pub struct CtrlListener {
        /// Names of groups.
        1 => pub groups: Vec<String>,
    }
}

row! {
    /// A router (docs/protocol/management-api.md 7.5).
    pub struct Router {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Unique name.
        2 => pub name: Arc<str>,
        /// True for an edge router, false for a router of the fabric only.
        3 => pub is_edge: bool,
        /// SHA-1 of the router's certificate, hex; `None` until it is enrolled.
        4 => pub fingerprint: Option<Arc<str>>,
        /// Certificate of the router.
        5 => pub cert_pem: String,
        /// True if the router is enrolled.
        6 => pub is_verified: bool,
        /// New certificate that the router has not confirmed yet.
        7 => pub unverified_cert_pem: String,
        /// Fingerprint of `unverified_cert_pem`.
        8 => pub unverified_fingerprint: Option<Arc<str>>,
        /// Cost that the router adds to a path.
        9 => pub cost: u16,
        /// True if paths may only begin and end at the router.
        10 => pub no_traversal: bool,
        /// True if the router may not connect.
        11 => pub disabled: bool,
        /// Edge routers only: true if the router is also an identity that dials and hosts.
        12 => pub is_tunneler_enabled: bool,
        /// Edge routers only: role attributes, sorted, without repetitions.
        13 => pub role_attributes: Vec<Arc<str>>,
        /// Data for applications.
        14 => pub app_data: JsonMap,
        /// Configs of types with the target `router`.
        15 => pub configs: Vec<Id>,
        /// Addresses at which controllers can reach the router, with the groups of each.
        16 => pub ctrl_chan_listeners: BTreeMap<String, CtrlListener>,
        /// True if the router was created with the fabric API; the management API only shows it.
        17 => pub is_fabric_only: bool,
    }
}

impl Router {
    /// Index of the fingerprint in [`Record::UNIQUE`].
    pub const FINGERPRINT: usize = 0;
}

impl Record for Router {
    const UNIQUE: &'static [&'static str] = &["fingerprint"];
    const LINKS: &'static [Link] = &[Link::new("configs", Kind::Config, OnDelete::Unlink)];

    fn name(&self) -> Option<&Arc<str>> {
        Some(&self.name)
    }

    fn unique(&self, each: &mut dyn FnMut(usize, &Arc<str>)) {
        if let Some(fingerprint) = &self.fingerprint {
            each(Self::FINGERPRINT, fingerprint);
        }
    }

    fn links(&self, each: &mut dyn FnMut(usize, &Id)) {
        self.configs.iter().for_each(|config| each(0, config));
    }

    fn unlink(&mut self, _link: usize, id: &Id) {
        self.configs.retain(|config| config != id);
    }

    fn attributes(&self) -> Option<&[Arc<str>]> {
        self.is_edge.then_some(self.role_attributes.as_slice())
    }

    fn attributes_mut(&mut self) -> Option<&mut Vec<Arc<str>>> {
        Some(&mut self.role_attributes)
    }
}
