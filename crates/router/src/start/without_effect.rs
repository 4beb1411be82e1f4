//! Settings in the file whose values have no effect.

use weft_config::RouterConfig;
use weft_wire::Scheme;

use crate::{link, managed};

/// Keys of the file whose values have no effect in this release, each with the reason.
#[must_use]
pub fn without_effect(config: &RouterConfig) -> Vec<(&'static str, &'static str)> {
    let mut out = Vec::new();
    let mut warn = |wanted: bool, key: &'static str, why: &'static str| {
        // A setting of several listeners is named once.
        if wanted && !out.contains(&(key, why)) {
            out.push((key, why));
        }
    };
    let other = |scheme: Scheme| scheme != Scheme::Tls;
    let listeners = config.link.listeners.iter().any(|one| !link::links_over(one.bind.scheme));
    warn(listeners, "link.listeners.bind", "routers link over tls and dtls only");
    let controllers = config.ctrl.listeners.iter().any(|one| other(one.bind.scheme));
    warn(controllers, "ctrl.listeners.bind", "controllers dial routers over tls only");
    let managed = &config.managed_config;
    let is_other =
        |allowed: &String| !["all", "router.link", managed::LINK].contains(&allowed.as_str());
    warn(
        managed.iter().any(is_other),
        "managedConfig.allow",
        "controllers set router.link.v1 only",
    );
    let is_read = config.edge.is_some();
    warn(
        !managed.is_empty() && !is_read,
        "managedConfig",
        "controllers send configs with the data model only (`edge`)",
    );
    let is_local = config.allows_managed(managed::LINK) && !managed::links_are_managed(config);
    warn(is_local, "managedConfig.allow", "the section `link` of this file counts");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_tunneler_is_asked_for_in_vain() {
        let text = "v: 3\nidentity: {cert: a, server_cert: s, key: b, ca: c}\nctrl: {endpoint: 'tls:localhost:1'}\n\
            listeners:\n\
            - {binding: proxy, address: 'tcp:0.0.0.0:1', service: a}\n\
            - {binding: tunnel, options: {mode: 'tproxy:/bin/divert'}}\n\
            - {binding: tunnel, options: {mode: tproxy, resolver: 'file:///etc/hosts'}}\n\
            - {binding: tunnel, options: {mode: tproxy}}\n";
        let none = |_: &str| None;
        let path = std::path::Path::new("router.yaml");
        let config = RouterConfig::from_str(text, path, &none).unwrap().config;
        assert_eq!(without_effect(&config), []);
    }
}
