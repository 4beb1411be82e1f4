//! Routers: edge and transit routers share one kind and one name space.

use std::{collections::BTreeMap, sync::Arc};

use super::{Base, Link, OnDelete, Record, named, record};
use crate::{Id, JsonMap, Kind, row::row};

row! {
    /// The groups of one control channel listener.
    pub struct CtrlListener {
        /// Names of groups.
        1 => pub groups: Vec<String>,
    }
}

row! {
    /// A router (protocol: management-api 7.5).
    pub struct Router {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Unique name.
        2 => pub name: Arc<str>,
        /// Whether it is an edge router; otherwise it only carries traffic of others.
        3 => pub is_edge: bool,
        /// Hex SHA-1 of its certificate; absent until it is enrolled.
        4 => pub fingerprint: Option<Arc<str>>,
        /// Its certificate.
        5 => pub cert_pem: String,
        /// Whether it is enrolled.
        6 => pub is_verified: bool,
        /// A certificate that was not verified yet.
        7 => pub unverified_cert_pem: String,
        /// The fingerprint of that certificate.
        8 => pub unverified_fingerprint: Option<Arc<str>>,
        /// Cost of every path through it.
        9 => pub cost: u16,
        /// Whether paths may only begin and end here.
        10 => pub no_traversal: bool,
        /// Whether it may not connect.
        11 => pub disabled: bool,
        /// Whether it also is an identity that dials and hosts (edge routers only).
        12 => pub is_tunneler_enabled: bool,
        /// Sorted and unique (edge routers only).
        13 => pub role_attributes: Vec<Arc<str>>,
        /// Data for applications.
        14 => pub app_data: JsonMap,
        /// Configs of types with the target `router`.
        15 => pub configs: Vec<Id>,
        /// Addresses where it can be reached by controllers, with the groups of each.
        16 => pub ctrl_chan_listeners: BTreeMap<String, CtrlListener>,
        /// Whether the fabric API made it; the edge shows it and leaves it as it is.
        17 => pub is_fabric_only: bool,
    }
}

impl Router {
    /// Index of the fingerprint in [`Record::UNIQUE`].
    pub const FINGERPRINT: usize = 0;
}

impl Record for Router {
    record!(Router);
    named!();

    const UNIQUE: &'static [&'static str] = &["fingerprint"];
    const LINKS: &'static [Link] = &[Link::new("configs", Kind::Config, OnDelete::Unlink)];

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
