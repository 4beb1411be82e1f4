//! The files of routers of a test network.

use std::path::Path;

use weft_config::{ProcessEnvironment, RouterConfig};

pub(crate) fn router_config(home: &Path, controller: u16, port: u16) -> RouterConfig {
    let edge = format!(
        "edge: {{csr: {{sans: {{dns: [localhost], ip: [127.0.0.1]}}}}}}\n\
         dialers: [{{binding: transport}}]\nlisteners:\n\
         - {{binding: edge, address: 'tls:127.0.0.1:{port}', options: {{advertise: 'localhost:{port}'}}}}\n\
         - {{binding: tunnel, options: {{mode: host}}}}\n",
    );
    read(&format!("{}{edge}", common(home, controller)), home)
}

/// A router that takes links and opens them.
pub(crate) fn linking_config(
    home: &Path,
    controller: u16,
    edge: u16,
    link: u16,
    advertised: u16,
) -> RouterConfig {
    let more = format!(
        "edge: {{csr: {{sans: {{dns: [localhost], ip: [127.0.0.1]}}}}}}\n\
         dialers: [{{binding: transport}}]\nlisteners:\n\
         - {{binding: edge, address: 'tls:127.0.0.1:{edge}', options: {{advertise: 'localhost:{edge}'}}}}\n\
         link:\n  listeners:\n\
         \x20 - {{binding: transport, bind: 'tls:127.0.0.1:{link}', advertise: 'tls:127.0.0.1:{advertised}'}}\n\
         \x20 dialers:\n  - {{binding: transport, startupDelay: 100ms, healthyDialBackoff: \
         {{minRetryInterval: 100ms, maxRetryInterval: 1s}}, unhealthyDialBackoff: \
         {{minRetryInterval: 100ms, maxRetryInterval: 1s}}}}\n",
    );
    read(&format!("{}{more}", common(home, controller)), home)
}

/// The sections of every router's file.
pub(crate) fn common(home: &Path, controller: u16) -> String {
    format!(
        "v: 3\nidentity: {{cert: {0}/client.pem, server_cert: {0}/server.pem, key: {0}/key.pem, \
         ca: {0}/ca.pem}}\nctrl: {{endpoint: 'tls:localhost:{controller}'}}\n",
        home.display()
    )
}

pub(crate) fn read(text: &str, home: &Path) -> RouterConfig {
    let loaded = RouterConfig::from_str(text, &home.join("router.yml"), &ProcessEnvironment);
    loaded.unwrap().config
}
