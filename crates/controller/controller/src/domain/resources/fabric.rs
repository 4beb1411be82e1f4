//! The fabric API (docs/protocol/operations.md 1). Services, routers and terminators are the
//! entities of the management API without the members of the edge; links and circuits are read from
//! the running network.

pub(crate) mod circuit;
pub(crate) mod inspection;
pub(crate) mod link;
pub(crate) mod router;
pub(crate) mod service;
pub(crate) mod terminator;

use weft_contract::EntityRef;
use weft_contract::entity::links;
use weft_contract::resource::fabric::router::COLLECTION as ROUTERS;
use weft_contract::resource::fabric::service::COLLECTION as SERVICES;
use weft_kernel::view::View;
use weft_kernel::{Failure, Result};
use weft_model::Id;
use weft_model::entity::{Record, Router, Service};
use weft_network::Network;

use crate::Controller;

/// The name shown for an entity that was deleted.
const DELETED: &str = "<deleted>";

/// A reference to a router.
fn router_ref(view: View<'_>, id: &Id) -> EntityRef {
    mention::<Router>(view, ROUTERS, id)
}

/// A reference to a service.
fn service_ref(view: View<'_>, id: &Id) -> EntityRef {
    mention::<Service>(view, SERVICES, id)
}

/// A reference, with a link to its terminators, to an entity that may be deleted.
fn mention<T: Record>(view: View<'_>, collection: &str, id: &Id) -> EntityRef {
    let name = view.get::<T>(id.as_str()).and_then(|record| record.name().cloned());
    let name = name.as_deref().unwrap_or(DELETED);
    EntityRef {
        links: links(collection, id.as_str(), &["terminators"]),
        ..EntityRef::new(collection, id.as_str(), name)
    }
}

/// The running network; fails while the controller starts or stops.
pub(in crate::domain) fn network(controller: &Controller) -> Result<Network> {
    let missing = || Failure::unhandled("the network is starting or stopping").with_status(503);
    controller.network().ok_or_else(missing)
}
