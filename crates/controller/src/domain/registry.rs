//! Which function answers which operation: the generic ones of every resource, and the actions
//! that each subject adds. A new resource is one line here.

use hashbrown::HashMap;
use weft_contract::Api;

use super::call::Handler;
use super::resource::{AnyResource, Of};
use super::resources::{
    advice, attributes, auth_policy::AuthPolicies, authenticator::Authenticators, config::Configs,
    config_type::ConfigTypes, edge_router::EdgeRouters, enrollment::Enrollments, fabric, fixed,
    identity::Identities, nested, overrides, policies, router::Routers, server, service::Services,
    terminator::Terminators,
};
use crate::auth;

/// Every resource with generic operations.
static RESOURCES: &[&dyn AnyResource] = &[
    &Of::<AuthPolicies>::NEW,
    &Of::<super::resources::ca::Cas>::NEW,
    &Of::<super::resources::controller_setting::ControllerSettings>::NEW,
    &Of::<super::resources::external_jwt_signer::Signers>::NEW,
    &Of::<super::resources::revocation::Revocations>::NEW,
    &Of::<Authenticators>::NEW,
    &Of::<ConfigTypes>::NEW,
    &Of::<Configs>::NEW,
    &Of::<EdgeRouters>::NEW,
    &Of::<policies::EdgeRouterPolicies>::NEW,
    &Of::<Enrollments>::NEW,
    &Of::<Identities>::NEW,
    &Of::<super::resources::posture_check::PostureChecks>::NEW,
    &Of::<Routers>::NEW,
    &Of::<Services>::NEW,
    &Of::<policies::ServiceEdgeRouterPolicies>::NEW,
    &Of::<policies::ServicePolicies>::NEW,
    &Of::<Terminators>::NEW,
    &Of::<fabric::router::Routers>::FABRIC,
    &Of::<fabric::service::Services>::FABRIC,
    &Of::<fabric::terminator::Terminators>::FABRIC,
];

/// Operations of their own, by subject.
const OWN: &[&[(Api, &str, Handler)]] = &[
    nested::HANDLERS,
    advice::HANDLERS,
    attributes::HANDLERS,
    fabric::circuit::HANDLERS,
    fabric::cluster::HANDLERS,
    fabric::inspection::HANDLERS,
    fabric::link::HANDLERS,
    fabric::router::HANDLERS,
    fabric::service::HANDLERS,
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
    auth::login::HANDLERS,
    auth::mfa::HANDLERS,
    auth::posture::responses::HANDLERS,
    super::resources::posture_data::HANDLERS,
    super::resources::trace::HANDLERS,
    super::resources::why_path::HANDLERS,
    auth::current::HANDLERS,
    auth::own_authenticators::HANDLERS,
    auth::client_services::HANDLERS,
    auth::service_session::HANDLERS,
    auth::enroll::HANDLERS,
];

/// The table of handlers.
#[derive(Debug)]
pub(crate) struct Registry(HashMap<(Api, &'static str), Handler>);

impl Registry {
    pub(crate) fn new() -> Self {
        let generic = RESOURCES.iter().flat_map(|resource| resource.handlers());
        let own = OWN.iter().chain(auth::enroll::MORE);
        let own = own.flat_map(|handlers| handlers.iter().copied());
        Self(generic.chain(own).map(|(api, id, handler)| ((api, id), handler)).collect())
    }

    /// The function that answers an operation.
    pub(crate) fn handler(&self, api: Api, operation: &str) -> Option<Handler> {
        self.0.get(&(api, operation)).copied()
    }
}

#[cfg(test)]
mod tests {
    use weft_contract::resource;

    use super::*;

    #[test]
    fn every_operation_of_the_contract_has_a_handler() {
        let registry = Registry::new();
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
        for (api, id) in Registry::new().0.keys() {
            assert!(resource::operation(*api, id).is_some(), "{api} {id}");
        }
    }
}
