//! The table of handlers: the generic operations of every resource, and the actions that each
//! subject adds. A new resource adds one line here.

use weft_auth::Auth;
use weft_kernel::call::HandlerRow;

use crate::Controller;
use crate::domain::registry::Registry;
use crate::domain::resource::handlers;
use crate::domain::resources::auth_policy::AuthPolicies;
use crate::domain::resources::authenticator::Authenticators;
use crate::domain::resources::config::Configs;
use crate::domain::resources::config_type::ConfigTypes;
use crate::domain::resources::edge_router::EdgeRouters;
use crate::domain::resources::enrollment::Enrollments;
use crate::domain::resources::identity::Identities;
use crate::domain::resources::router::Routers;
use crate::domain::resources::service::Services;
use crate::domain::resources::terminator::Terminators;
use crate::domain::resources::{
    advice, attributes, fabric, fixed, nested, overrides, policies, server,
};

/// Every resource with generic operations.
pub(crate) const RESOURCES: &[fn() -> Vec<HandlerRow<Controller>>] = &[
    handlers::<AuthPolicies>,
    handlers::<super::resources::ca::Cas>,
    handlers::<super::resources::controller_setting::ControllerSettings>,
    handlers::<super::resources::external_jwt_signer::Signers>,
    handlers::<super::resources::revocation::Revocations>,
    handlers::<Authenticators>,
    handlers::<ConfigTypes>,
    handlers::<Configs>,
    handlers::<EdgeRouters>,
    handlers::<policies::EdgeRouterPolicies>,
    handlers::<Enrollments>,
    handlers::<Identities>,
    handlers::<super::resources::posture_check::PostureChecks>,
    handlers::<Routers>,
    handlers::<Services>,
    handlers::<policies::ServiceEdgeRouterPolicies>,
    handlers::<policies::ServicePolicies>,
    handlers::<Terminators>,
    handlers::<fabric::router::Routers>,
    handlers::<fabric::service::Services>,
    handlers::<fabric::terminator::Terminators>,
];

/// Operations that a subject implements itself.
pub(crate) const OWN: &[&[HandlerRow<Controller>]] = &[
    nested::HANDLERS,
    advice::HANDLERS,
    attributes::HANDLERS,
    fabric::circuit::HANDLERS,
    fabric::inspection::HANDLERS,
    fabric::link::HANDLERS,
    fixed::HANDLERS,
    overrides::HANDLERS,
    super::change::HANDLERS,
    server::HANDLERS,
    super::resources::api_session::HANDLERS,
    super::resources::authenticator::HANDLERS,
    super::resources::ca::HANDLERS,
    super::resources::controller_setting::HANDLERS,
    super::resources::database::HANDLERS,
    super::resources::edge_router::HANDLERS,
    super::resources::enrollment::HANDLERS,
    super::resources::external_jwt_signer::HANDLERS,
    super::resources::identity_state::HANDLERS,
    super::resources::role_usage::HANDLERS,
    super::resources::router::HANDLERS,
    super::resources::session::HANDLERS,
    super::resources::spec::HANDLERS,
    super::resources::posture_data::HANDLERS,
    super::resources::trace::HANDLERS,
    super::resources::unproven::HANDLERS,
    super::resources::why_path::HANDLERS,
    super::resources::current_identity::HANDLERS,
    super::resources::own_authenticators::HANDLERS,
    super::resources::client_services::HANDLERS,
    super::resources::service_session::HANDLERS,
    super::resources::router_extension::HANDLERS,
];

/// Operations of logins and authenticators, which `weft_auth` implements.
pub(crate) const OF_AUTH: &[&[HandlerRow<Auth>]] = &[
    weft_auth::login::HANDLERS,
    weft_auth::mfa::HANDLERS,
    weft_auth::posture::responses::HANDLERS,
    weft_auth::current::HANDLERS,
    weft_auth::enroll::HANDLERS,
    weft_auth::enroll::proof::HANDLERS,
    weft_auth::token_test::HANDLERS,
    weft_auth::members::answers::HANDLERS,
    weft_auth::token_keys::answers::HANDLERS,
];

/// Every operation.
pub(crate) fn registry() -> Registry {
    let generic = RESOURCES.iter().flat_map(|handlers| handlers());
    let own = OWN.iter().flat_map(|handlers| handlers.iter().copied());
    let of_auth = OF_AUTH.iter().flat_map(|handlers| handlers.iter().copied());
    Registry::of(generic.chain(own), of_auth)
}

#[cfg(test)]
mod tests {
    use weft_contract::{Api, resource};

    use super::*;

    #[test]
    fn every_operation_of_the_contract_has_a_handler() {
        let registry = registry();
        for api in [Api::Management, Api::Client, Api::Fabric, Api::Weft] {
            for row in resource::operations(api) {
                let never_built =
                    api == Api::Client && resource::service::NEVER_BUILT.contains(&row.id);
                let has_handler = registry.handler(api, row.id).is_some();
                assert_eq!(has_handler, !never_built, "{api} {}", row.id);
            }
        }
    }

    #[test]
    fn every_handler_is_an_operation_of_the_contract() {
        for (api, id) in registry().0.keys() {
            assert!(resource::operation(*api, id).is_some(), "{api} {id}");
        }
    }
}
