use super::{controller, router, warnings};
use crate::controller::NameRule;
use crate::router::{Listener, TunnelMode};
use crate::{ClusterTemplate, ControllerTemplate, HostPort, RouterTemplate, TunnelerMode};

fn at(host: &str, port: u16) -> HostPort {
    HostPort { host: host.into(), port }
}

#[test]
fn a_controller_file_reads_back() {
    let etcd = ["https://etcd1.example:2379".to_owned(), "https://[::1]:2379".to_owned()];
    let cluster = ClusterTemplate {
        etcd: &etcd,
        prefix: "/weft/",
        key: "network.key",
        ca: Some("ca.pem"),
        root: Some(["root.crt", "root.key"]),
        login: Some(["weft", "it's \"secret\""]),
    };
    let less = ClusterTemplate { ca: None, root: None, login: None, ..cluster.clone() };
    for cluster in [None, Some(cluster), Some(less)] {
        reads_back(cluster);
    }
}

fn reads_back(cluster: Option<ClusterTemplate<'_>>) {
    let template = ControllerTemplate {
        db: r#"/var/lib/"we ft"/ctrl.db"#,
        cert: r"C:\pki\client.pem",
        server_cert: "server.pem",
        key: "key.pem",
        ca: "cas.pem",
        signing_cert: "signer.pem",
        signing_key: "signer.key",
        trust_domain: "weft.example",
        ctrl_bind: at("0.0.0.0", 6262),
        ctrl_advertise: at("ctrl.example", 6262),
        api_bind: at("::", 1280),
        api_advertise: at("ctrl.example", 1280),
        shared_names: &["ctrl.example"],
        cluster,
    };
    let loaded = controller(&template.to_text()).unwrap();
    assert_eq!(warnings(&loaded), "");
    assert_eq!(loaded.not_acted_upon, []);
    let config = loaded.config;
    assert_eq!(config.storage.database.to_str(), Some(template.db));
    let read = config.storage.cluster.map(|it| {
        let urls: Vec<String> =
            it.members.iter().map(|member| format!("https://{member}")).collect();
        let login = it.login.map(|login| [login.user, login.password]);
        (urls, it.prefix, it.key, it.authorities, it.root, login)
    });
    let given = template.cluster.map(|it| {
        let authorities = it.ca.map(Into::into);
        let root = it.root.map(|[cert, key]| (cert.into(), key.into()));
        let login = it.login.map(|login| login.map(str::to_owned));
        (it.etcd.to_vec(), it.prefix.to_owned(), it.key.into(), authorities, root, login)
    });
    assert_eq!(read, given);
    assert_eq!(config.identity.cert, template.cert);
    assert_eq!(config.trust_domain.as_deref(), Some("weft.example"));
    assert_eq!(
        config.ctrl.advertise_address.unwrap().host_port(),
        template.ctrl_advertise.to_string()
    );
    assert_eq!(config.edge.as_ref().unwrap().enrollment.signing_cert.key, "signer.key");
    let names = &config.edge.unwrap().enrollment.router_names;
    assert_eq!(names.shared, [NameRule::Host("ctrl.example".into())]);
    assert_eq!(config.web[0].apis.len(), 5, "and the OIDC provider");
}

#[test]
fn a_router_file_reads_back() {
    for tunneler in
        [TunnelerMode::None, TunnelerMode::Host, TunnelerMode::Tproxy, TunnelerMode::Proxy]
    {
        for link in [None, Some((at("0.0.0.0", 10_080), at("r1.example", 10_080)))] {
            let template = RouterTemplate {
                cert: "r1.cert",
                server_cert: "r1.server.cert",
                key: "r1.key",
                ca: "r1.cas",
                ctrl: &[at("ctrl.example", 6262)],
                edge_bind: at("0.0.0.0", 3022),
                edge_advertise: at("r1.example", 3022),
                link: link.clone(),
                dials_links: false,
                tunneler,
                lan_interface: None,
                with_defaults: false,
                dns: &["r1.example", "localhost"],
                ip: &["127.0.0.1", "::1"],
            };
            let loaded = router(&template.to_text()).unwrap();
            assert_eq!(warnings(&loaded), "");
            assert_eq!(loaded.not_acted_upon, []);
            let config = loaded.config;
            assert_eq!(config.link.listeners.len(), usize::from(link.is_some()));
            assert_eq!(config.link.dialers.len(), usize::from(link.is_some()));
            let csr = config.csr.unwrap();
            assert_eq!((csr.sans.dns.len(), csr.sans.ip.len()), (2, 2));
            let mode = config.listeners.iter().find_map(|listener| match listener {
                Listener::Tunnel(tunnel) => Some(tunnel.mode.clone()),
                _ => None,
            });
            let expected = match tunneler {
                TunnelerMode::None => None,
                TunnelerMode::Host => Some(TunnelMode::Host),
                TunnelerMode::Tproxy => Some(TunnelMode::Tproxy(None)),
                TunnelerMode::Proxy => Some(TunnelMode::Proxy),
            };
            assert_eq!(mode, expected);
        }
    }
}

#[test]
fn a_router_file_names_one_controller_or_several() {
    let both = [at("one.example", 6262), at("192.0.2.7", 1280)];
    for ctrl in [&both[..1], &both[..]] {
        let template = RouterTemplate {
            cert: "r1.cert",
            server_cert: "r1.server.cert",
            key: "r1.key",
            ca: "r1.cas",
            ctrl,
            edge_bind: at("0.0.0.0", 3022),
            edge_advertise: at("r1.example", 3022),
            link: None,
            dials_links: true,
            tunneler: TunnelerMode::Host,
            lan_interface: None,
            with_defaults: true,
            dns: &["r1.example"],
            ip: &[],
        };
        let loaded = router(&template.to_text()).unwrap();
        assert_eq!(warnings(&loaded), "");
        let endpoints = loaded.config.ctrl.endpoints;
        let read: Vec<_> = endpoints.iter().map(|it| at(&it.host, it.port)).collect();
        assert_eq!(read, ctrl);
    }
}

/// Lines that are commented out: a sign without a space behind it.
fn with_comments_in(text: &str) -> String {
    let line = |line: &str| match line.trim_start().strip_prefix('#') {
        Some(rest)
            if rest.starts_with(|first: char| first.is_ascii_lowercase() || first == '-') =>
        {
            let indent = line.len() - line.trim_start().len();
            format!("{}{rest}\n", " ".repeat(indent))
        }
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[test]
fn what_stands_in_comments_are_the_defaults() {
    for tunneler in [TunnelerMode::Host, TunnelerMode::Tproxy] {
        let template = RouterTemplate {
            cert: "r1.cert",
            server_cert: "r1.server.cert",
            key: "r1.key",
            ca: "r1.cas",
            ctrl: &[at("ctrl.example", 6262)],
            edge_bind: at("0.0.0.0", 3022),
            edge_advertise: at("r1.example", 3022),
            link: None,
            dials_links: true,
            tunneler,
            lan_interface: None,
            with_defaults: true,
            dns: &["r1.example"],
            ip: &[],
        };
        let text = template.to_text();
        let silent = router(&text).unwrap();
        assert_eq!(warnings(&silent), "");
        assert_eq!(silent.config.link.dialers.len(), 1);
        let full = with_comments_in(&text);
        let said = router(&full).unwrap();
        assert_eq!(warnings(&said), "", "{full}");
        assert!(full.contains("\nforwarder:\n") && full.contains("\n    apis:\n"), "{full}");
        let (silent, said) = (silent.config, said.config);
        assert_eq!(said.forwarder, silent.forwarder);
        assert_eq!(said.health_checks, silent.health_checks);
        assert_eq!(said.metrics, silent.metrics);
        assert_eq!(said.edge.unwrap().db_save_interval, silent.edge.unwrap().db_save_interval);
        assert_eq!(said.web.len(), 1);
        for (said, silent) in said.listeners.iter().zip(&silent.listeners) {
            let (Listener::Tunnel(said), Listener::Tunnel(silent)) = (said, silent) else {
                continue;
            };
            assert_eq!(
                (&said.mode, &said.dns_range, &said.resolver),
                (&silent.mode, &silent.dns_range, &silent.resolver)
            );
            let gateway = tunneler == TunnelerMode::Tproxy;
            assert_eq!(said.lan_interfaces.len(), usize::from(gateway));
        }
    }
}
