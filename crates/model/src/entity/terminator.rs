//! Terminators: where a service can be reached.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;

use super::{Base, Link, OnDelete, Precedence, Record, record};
use crate::{Id, Kind, row::row};

row! {
    /// A terminator (protocol: management-api 7.8).
    pub struct Terminator {
        /// Id, times and tags.
        1 => pub base: Base,
        /// The service reached.
        2 => pub service_id: Id,
        /// The router that reaches it.
        3 => pub router_id: Id,
        /// How the router reaches it: `transport`, `udp`, `edge`, `tunnel`, ...
        4 => pub binding: Arc<str>,
        /// Where the router reaches it.
        5 => pub address: Arc<str>,
        /// Which instance of the service it is, when dialers may choose.
        6 => pub instance_id: Arc<str>,
        /// Secret shared by all terminators of the instance.
        7 => pub instance_secret: Bytes,
        /// Static cost.
        8 => pub cost: u16,
        /// In which order it is chosen.
        9 => pub precedence: Precedence,
        /// The precedence before the router was quiesced.
        10 => pub saved_precedence: Option<Precedence>,
        /// Data handed to dialers.
        11 => pub peer_data: BTreeMap<u32, Bytes>,
        /// The identity that hosts; empty if none does.
        12 => pub host_id: Id,
        /// The controller through which it was made.
        13 => pub source_ctrl: Arc<str>,
    }
}

impl Terminator {
    /// Index of the service in [`Record::LINKS`].
    pub const SERVICE: usize = 0;
    /// Index of the router in [`Record::LINKS`].
    pub const ROUTER: usize = 1;
    /// The group of those that reach the same instance of a service, by
    /// [`Terminator::instance_key`].
    pub const INSTANCE: usize = 2;

    /// The key of an instance of a service.
    pub fn instance_key(service: &Id, instance: &str) -> Id {
        Id::new(&format!("{service} {instance}"))
    }
}

impl Record for Terminator {
    record!(Terminator);

    const LINKS: &'static [Link] = &[
        Link::new("serviceId", Kind::Service, OnDelete::Cascade),
        Link::new("routerId", Kind::Router, OnDelete::Cascade),
    ];
    const GROUPS: usize = 1;

    fn links(&self, each: &mut dyn FnMut(usize, &Id)) {
        each(Self::SERVICE, &self.service_id);
        each(Self::ROUTER, &self.router_id);
    }

    fn groups(&self, each: &mut dyn FnMut(usize, &Id)) {
        if !self.instance_id.is_empty() {
            each(Self::INSTANCE, &Self::instance_key(&self.service_id, &self.instance_id));
        }
    }
}
