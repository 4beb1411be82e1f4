//! The resources, a file each, and the tables over all of them.

pub mod answers;
pub mod auth_policy;
pub mod authenticator;
pub mod ca;
pub mod change;
pub mod client;
pub mod cluster;
pub mod config;
pub mod controller;
pub mod controller_setting;
pub mod database;
pub mod edge_router;
pub mod edge_router_policy;
pub mod enrollment;
pub mod external_jwt_signer;
pub mod fabric;
pub mod identity;
pub mod identity_type;
pub mod mfa;
pub mod posture_check;
pub mod posture_data;
pub mod revocation;
pub mod role_attribute;
pub mod router;
pub mod server;
pub mod service;
pub mod service_edge_router_policy;
pub mod service_policy;
pub mod service_session;
pub mod session;
pub mod spec;
pub mod terminator;
pub mod token_key;
pub mod token_test;
pub mod unproven;
pub mod why_path;

use crate::kind::Kind;
use crate::operation::Operation;
use crate::paths::Api;

/// The kinds of entities that commands offer.
pub const KINDS: &[&Kind] = &[
    &auth_policy::KIND,
    &authenticator::KIND,
    &ca::KIND,
    &fabric::circuit::KIND,
    &controller_setting::KIND,
    &config::CONFIG_KIND,
    &config::CONFIG_TYPE_KIND,
    &edge_router::KIND,
    &edge_router_policy::KIND,
    &enrollment::KIND,
    &external_jwt_signer::KIND,
    &identity::KIND,
    &identity_type::KIND,
    &fabric::link::KIND,
    &posture_check::KIND,
    &posture_check::TYPE_KIND,
    &revocation::KIND,
    &service::KIND,
    &service_edge_router_policy::KIND,
    &router::KIND,
    &service_policy::KIND,
    &service_session::KIND,
    &session::KIND,
    &spec::KIND,
    &terminator::KIND,
];

/// Operations of the management API beside those of [`KINDS`].
const MANAGEMENT: &[&[Operation]] = &[
    authenticator::CURRENT,
    controller::MANAGEMENT,
    database::MANAGEMENT,
    identity::CURRENT,
    mfa::SHARED,
    role_attribute::MANAGEMENT,
    role_attribute::USAGE,
    router::MANAGEMENT,
    server::MANAGEMENT,
    server::SHARED,
    session::SHARED,
];

const CLIENT: &[&[Operation]] = &[
    authenticator::CURRENT,
    controller::CLIENT,
    edge_router::CLIENT,
    enrollment::CLIENT,
    external_jwt_signer::CLIENT,
    identity::CURRENT,
    mfa::SHARED,
    posture_check::CLIENT,
    server::SHARED,
    server::CLIENT,
    service::CLIENT,
    service_session::CLIENT,
    session::SHARED,
    spec::SHARED,
    session::CLIENT,
];

/// Every operation of an API. APIs without a table here, such as `health-checks`, have none.
pub fn operations(api: Api) -> impl Iterator<Item = &'static Operation> {
    let others: &[&[Operation]] = match api {
        Api::Management => MANAGEMENT,
        Api::Client => CLIENT,
        Api::Weft => &[
            change::OPERATIONS,
            cluster::OPERATIONS,
            unproven::OPERATIONS,
            why_path::OPERATIONS,
            token_test::OPERATIONS,
            token_key::OPERATIONS,
        ],
        Api::Fabric => fabric::OPERATIONS,
        _ => &[],
    };
    let of_kinds = KINDS.iter().filter(move |kind| kind.api == api).map(|kind| kind.operations);
    of_kinds.chain(others.iter().copied()).flatten()
}

/// The operation of an API with this id.
#[must_use]
pub fn operation(api: Api, id: &str) -> Option<&'static Operation> {
    operations(api).find(|operation| operation.id == id)
}

/// The kind with this name: singular, plural or alias.
#[must_use]
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().copied().find(|kind| kind.is_called(name))
}

#[cfg(test)]
mod tests;
