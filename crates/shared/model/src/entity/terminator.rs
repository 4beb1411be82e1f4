//! Terminators: places where a service is hosted.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::{Base, Link, OnDelete, Precedence, Record};
use crate::row::row;
use crate::{Id, Kind};

row! {
    /// A terminator (docs/protocol/management-api.md 7.8).
    pub struct Terminator {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Id of the service.
        2 => pub service_id: Id,
        /// Id of the router.
        3 => pub router_id: Id,
        /// Binding of the router that dials: `transport`, `udp`, `edge`, `tunnel`, ...
        4 => pub binding: Arc<str>,
        /// Address that the router dials.
        5 => pub address: Arc<str>,
        /// Instance of the service, for dialers that ask for one.
        6 => pub instance_id: Arc<str>,
        /// Secret that all terminators of the instance share.
        7 => pub instance_secret: Bytes,
        /// Static cost.
        8 => pub cost: u16,
        /// Precedence.
        9 => pub precedence: Precedence,
        /// Precedence before the router was quiesced.
        10 => pub saved_precedence: Option<Precedence>,
        /// Peer data for dialers, by number.
        11 => pub peer_data: BTreeMap<u32, Bytes>,
        /// The identity that hosts; empty if none does.
        12 => pub host_id: Id,
        /// Id of the controller that created the terminator.
        13 => pub source_ctrl: Arc<str>,
        /// True if the host had named a key that proves it to dialers.
        14 => pub host_proves: bool,
    }
}

impl Terminator {
    /// Index of the service in [`Record::LINKS`].
    pub const SERVICE: usize = 0;
    /// Index of the router in [`Record::LINKS`].
    pub const ROUTER: usize = 1;
    /// Number of the group of terminators with the same instance of a service, by
    /// [`Terminator::instance_key`].
    pub const INSTANCE: usize = 2;
    /// Number of the group of terminators with the same host.
    pub const HOST: usize = 3;

    /// Key of an instance of a service.
    pub fn instance_key(service: &Id, instance: &str) -> Id {
        Id::new(&format!("{service} {instance}"))
    }
}

impl Record for Terminator {
    const LINKS: &'static [Link] = &[
        Link::new("serviceId", Kind::Service, OnDelete::Cascade),
        Link::new("routerId", Kind::Router, OnDelete::Cascade),
    ];
    const GROUPS: usize = 2;

    fn links(&self, each: &mut dyn FnMut(usize, &Id)) {
        each(Self::SERVICE, &self.service_id);
        each(Self::ROUTER, &self.router_id);
    }

    fn groups(&self, each: &mut dyn FnMut(usize, &Id)) {
        if !self.instance_id.is_empty() {
            each(Self::INSTANCE, &Self::instance_key(&self.service_id, &self.instance_id));
        }
        if !self.host_id.is_empty() {
            each(Self::HOST, &self.host_id);
        }
    }
}
