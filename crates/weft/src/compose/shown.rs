//! The configuration as inspections show it. Only members that are listed here are shown, so that a
//! new key of the file cannot reveal a secret. Keys without effect are not listed.

use std::time::Duration;

use serde_json::{Value, json};
use weft_config::controller::EdgeConfig;
use weft_config::{BindPoint, ControllerConfig, WebServer, show_duration};

/// The settings of a controller, under the names of its file, defaults included.
pub(super) fn controller(config: &ControllerConfig) -> Value {
    let (network, model) = (&config.network, &config.router_data_model);
    json!({
        "trustDomain": config.trust_domain,
        "additionalTrustDomains": config.additional_trust_domains,
        "ctrl": {
            "listener": config.ctrl.listener.as_ref().map(ToString::to_string),
            "options": {
                "advertiseAddress":
                    config.ctrl.advertise_address.as_ref().map(ToString::to_string),
            },
        },
        "network": {
            "cycleSeconds": network.cycle.as_secs(),
            "routeTimeoutSeconds": network.route_timeout.as_secs(),
            "createCircuitRetries": network.create_circuit_retries,
            "minRouterCost": network.min_router_cost,
            "routerConnectChurnLimit": show_duration(network.router_connect_churn_limit),
            "initialLinkLatency": show_duration(network.initial_link_latency),
            "smart": {
                "rerouteFraction": network.smart_reroute_fraction,
                "rerouteCap": network.smart_reroute_cap,
                "minCostDelta": network.smart_min_cost_delta,
            },
            "perIdentity": {
                "maxTerminators": network.per_identity.max_terminators,
                "maxCircuits": network.per_identity.max_circuits,
            },
        },
        "edge": config.edge.as_ref().map(edge),
        "web": config.web.iter().map(server).collect::<Vec<_>>(),
        "routerDataModel": {"logSize": model.log_size},
        "tls": {"handshakeTimeout": show_duration(config.tls.handshake_timeout)},
    })
}

fn edge(edge: &EdgeConfig) -> Value {
    let duration = |of: Duration| json!({"duration": show_duration(of)});
    json!({
        "api": {
            "address": edge.api_address.as_ref().map(ToString::to_string),
            "sessionTimeout": show_duration(edge.session_timeout),
            "sessionLifetime": edge.session_lifetime.map(show_duration),
            "activityUpdateInterval": show_duration(edge.activity_update_interval),
        },
        "enrollment": {
            "edgeIdentity": duration(edge.enrollment.identity_duration),
            "edgeRouter": duration(edge.enrollment.router_duration),
        },
        "identityStatusConfig": {
            "unknownTimeout": show_duration(edge.identity_status.unknown_timeout),
        },
        "disablePostureChecks": edge.disable_posture_checks,
    })
}

fn server(server: &WebServer) -> Value {
    let point = |point: &BindPoint| match point {
        BindPoint::Underlay { interface, address, new_address } => json!({
            "interface": interface.to_string(),
            "address": address.to_string(),
            "newAddress": new_address.as_ref().map(ToString::to_string),
        }),
        BindPoint::Overlay { service, .. } => json!({"service": service}),
    };
    let options = &server.options;
    json!({
        "name": server.name,
        "bindPoints": server.bind_points.iter().map(point).collect::<Vec<_>>(),
        "options": {
            "readTimeout": show_duration(options.read_timeout),
            "writeTimeout": show_duration(options.write_timeout),
            "idleTimeout": show_duration(options.idle_timeout),
        },
        "apis":
            server.apis.iter().map(|api| json!({"binding": api.binding()})).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const FILE: &str = "v: 3
db: /secret-place/ctrl.db
trustDomain: example
identity: {cert: c, server_cert: s, key: \"pem:SECRET-KEY\", ca: a}
ctrl: {listener: \"tls:127.0.0.1:6262\"}
edge:
  api: {address: \"ctrl.example:1280\", sessionTimeout: 10m}
  enrollment:
    signingCert: {cert: s, key: \"pem:SECRET-SIGNER\"}
    edgeIdentity: {duration: 5m}
    edgeRouter: {duration: 5m}
web:
  - name: all
    bindPoints: [{interface: \"127.0.0.1:1280\", address: \"ctrl.example:1280\"}]
    apis:
      - binding: edge-client
      - {binding: edge-oidc, options: {secret: SECRET-STATE}}
events:
  queue:
    subscriptions: [{type: circuit}]
    handler: {type: amqp, format: json, url: \"amqp://user:SECRET-QUEUE@host\", queue: q}
";

    #[test]
    fn secrets_are_not_shown() {
        let environment = weft_config::ProcessEnvironment;
        let config = ControllerConfig::from_str(FILE, Path::new("x"), &environment).unwrap();
        let shown = controller(&config.config);
        let text = shown.to_string();
        assert!(!text.contains("SECRET") && !text.contains("secret"), "{text}");
        assert_eq!(shown["edge"]["api"]["sessionTimeout"], "10m");
        assert_eq!(shown["web"][0]["apis"][1], json!({"binding": "edge-oidc"}));
        assert_eq!(shown["ctrl"]["listener"], "tls:127.0.0.1:6262");
    }
}
