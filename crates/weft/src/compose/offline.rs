//! A controller that nobody outside of its machine reaches, and that reaches nobody: for a look at an imported network,
//! which has the keys of one that runs.

use weft_config::{BindPoint, ControllerConfig, HostPort};

use crate::failure::{Failure, Result};

/// How far a controller reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// As its file says.
    Everywhere,
    /// It listens on loopback only, at the ports of its file, and dials no router.
    Loopback,
}

/// The host that is listened at.
const LOOPBACK: &str = "127.0.0.1";

/// Changes a configuration to one that reaches loopback only.
pub(super) fn keep_to_loopback(config: &mut ControllerConfig) -> Result<()> {
    if config.storage.cluster.is_some() {
        return Err(Failure::usage(
            "--offline is for a network in one file: the section `cluster` names an etcd that others use",
        ));
    }
    if let Some(listener) = &mut config.ctrl.listener {
        LOOPBACK.clone_into(&mut listener.host);
    }
    config.ctrl.dialer.enabled = false;
    for server in &mut config.web {
        let mut ports = Vec::new();
        server.bind_points.retain_mut(|point| match point {
            // It would be a service in a network of routers.
            BindPoint::Overlay { .. } => false,
            BindPoint::Underlay { interface, .. } => {
                let HostPort { host, port } = interface;
                LOOPBACK.clone_into(host);
                let is_new = !ports.contains(port);
                ports.push(*port);
                is_new
            }
        });
    }
    config.web.retain(|server| !server.bind_points.is_empty());
    Ok(())
}

#[cfg(test)]
mod tests {
    use weft_config::ProcessEnvironment;

    use super::*;

    const TEXT: &str = "\
v: 3
db: x.db
identity: {cert: c, key: k}
ctrl:
  listener: tls:192.0.2.1:6262
  dialer: {enabled: true}
web:
  - name: one
    bindPoints:
      - {interface: '0.0.0.0:1280', address: 'ctrl.example:1280'}
      - {interface: '[::]:1280', address: 'ctrl6.example:1280'}
      - {interface: '192.0.2.1:1281', address: 'ctrl.example:1281'}
      - {identity: {file: x.json, service: console}}
    apis: [{binding: health-checks}]
  - name: two
    bindPoints:
      - {identity: {file: x.json, service: console}}
    apis: [{binding: health-checks}]
";

    fn read(text: &str) -> ControllerConfig {
        ControllerConfig::examine(text, "x.yaml".as_ref(), &ProcessEnvironment).unwrap().config
    }

    #[test]
    fn sockets_are_at_loopback_and_no_router_is_dialed() {
        let mut config = read(TEXT);
        assert!(config.ctrl.dialer.enabled);
        assert_eq!(config.web.len(), 2);
        keep_to_loopback(&mut config).unwrap();
        assert!(!config.ctrl.dialer.enabled);
        let listener = config.ctrl.listener.as_ref().unwrap();
        assert_eq!((&*listener.host, listener.port), (LOOPBACK, 6262));
        let [server] = config.web.as_slice() else { panic!("{:?}", config.web) };
        let points = server.bind_points.iter().map(|point| match point {
            BindPoint::Underlay { interface, address, .. } => {
                (interface.to_string(), address.to_string())
            }
            BindPoint::Overlay { .. } => panic!("a service of the network"),
        });
        let points: Vec<_> = points.collect();
        // What clients are told stays, since tokens and tickets name it.
        let expected = [
            ("127.0.0.1:1280".to_owned(), "ctrl.example:1280".to_owned()),
            ("127.0.0.1:1281".to_owned(), "ctrl.example:1281".to_owned()),
        ];
        assert_eq!(points, expected);
    }

    #[test]
    fn a_network_in_etcd_is_refused() {
        let mut config =
            read(&format!("{TEXT}cluster: {{etcd: ['http://127.0.0.1:2379'], key: n.key}}\n"));
        let refused = keep_to_loopback(&mut config).unwrap_err().to_string();
        assert!(refused.contains("cluster"), "{refused}");
    }
}
