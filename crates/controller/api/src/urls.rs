//! The URLs of the APIs, as clients are told.

use std::collections::BTreeMap;

use weft_config::{BindPoint, WebApi, WebServer};
use weft_contract::Api;

/// The API of a binding, if this server serves it.
pub(crate) fn served(api: &WebApi) -> Option<Api> {
    match api {
        WebApi::EdgeClient => Some(Api::Client),
        WebApi::EdgeManagement => Some(Api::Management),
        WebApi::Fabric => Some(Api::Fabric),
        WebApi::HealthChecks => Some(Api::Health),
        WebApi::Metrics { .. } => Some(Api::Metrics),
        WebApi::EdgeOidc(_) => Some(Api::Oidc),
        WebApi::Files(_) => None,
    }
}

/// The APIs of a server with these bindings, in the order in which they are asked. weft's own API
/// comes with the management API. It has no binding of its own, and is not announced to clients.
pub(crate) fn answered(apis: &[WebApi]) -> Vec<Api> {
    let bound: Vec<Api> = apis.iter().filter_map(served).collect();
    let own = bound.contains(&Api::Management).then_some(Api::Weft);
    own.into_iter().chain(bound).collect()
}

/// The full addresses of every served API, for [`Addresses::apis`](weft_controller::Addresses): the
/// answer of `/version`. Bindings that are not served are left out, because clients use every API
/// in that answer; the provider of OIDC is in it if it is `announced`, as clients then log in with it.
#[must_use]
pub fn base_urls(servers: &[WebServer], announced: bool) -> BTreeMap<Api, Vec<String>> {
    let mut urls: BTreeMap<Api, Vec<String>> = BTreeMap::new();
    for server in servers {
        let shown = |api: &Api| announced || *api != Api::Oidc;
        for api in server.apis.iter().filter_map(served).filter(shown) {
            let urls = urls.entry(api).or_default();
            for point in &server.bind_points {
                let BindPoint::Underlay { address, .. } = point else { continue };
                let url = format!("https://{address}{}", api.base());
                if !urls.contains(&url) {
                    urls.push(url);
                }
            }
        }
    }
    urls
}
