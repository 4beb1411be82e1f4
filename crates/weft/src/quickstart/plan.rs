//! The plan of a new network: options, ports, and the files made of them.

use weft_contract::json::{Password, Username};

use super::etcd::EtcdPlan;
use super::routers::{RouterPlan, RouterPorts};
use super::sockets::{Port, Sockets, shared_name};
use super::{controllers, etcd, routers};
use crate::cli::QuickstartArgs;
use crate::compose;
use crate::controller::NewController;
use crate::failure::{Failure, Result};
use crate::home::Home;
use crate::place::{LOCALHOST, ListenAddress};

const CONTROLLER_PORT: u16 = 1280;

/// A new network.
#[derive(Debug)]
pub(super) struct Plan {
    controller: NewController,
    /// The addresses of the controllers behind the first one.
    addresses: Vec<ListenAddress>,
    /// Where several controllers share the network.
    etcd: Option<EtcdPlan>,
    /// At least one router.
    routers: Vec<RouterPlan>,
}

impl Plan {
    /// The plan for these options. Ports are checked; nothing is written.
    pub(super) fn of(args: &QuickstartArgs) -> Result<Self> {
        check_administrator(args)?;
        let ctrl_host = args.ctrl_address.as_deref().unwrap_or(LOCALHOST);
        let router_host = args.router_address.as_deref().unwrap_or(LOCALHOST);
        let controller =
            Port { option: "--ctrl-port", wanted: args.ctrl_port.unwrap_or(CONTROLLER_PORT) };
        let router_ports = RouterPorts::new(args, router_host);
        if controller.wanted == router_ports.first() && controller.wanted != 0 {
            return Err(Failure::usage(format!(
                "controller and router cannot both listen at port {}",
                controller.wanted
            )));
        }
        let count = args.routers.unwrap_or(1);
        router_ports.check(count)?;
        let mut sockets = Sockets::default();
        let controller = sockets.hold(controller.listen("--ctrl-address", ctrl_host)?);
        let (etcd, addresses) = several(args, &controller, &mut sockets)?;
        let mut routers = Vec::new();
        for number in 1..=count {
            let edge = router_ports.edge(number, &mut sockets)?;
            routers.push(RouterPlan { number, edge, link: None });
        }
        let has_links = count > 1 || args.link_port.is_some();
        for router in routers.iter_mut().filter(|_| has_links) {
            router.link = Some(router_ports.link(router.number, &mut sockets)?);
        }
        let hosts = routers.iter().map(|router| router.edge.advertise.host.as_str());
        let shared = shared_name(&controller.advertise.host, hosts);
        let mut controller = NewController::new(controller);
        controller.shared = shared;
        if let Some(etcd) = &etcd {
            controller = controller.first_of_several(vec![etcd.url()], None);
        }
        Ok(Self { controller, addresses, etcd, routers })
    }

    /// Writes keys, certificates and files. The file of the first controller is the last one: with it the
    /// network exists.
    pub(super) fn carry_out(self, home: &Home) -> Result<()> {
        self.controller.make_certificates(home)?;
        let mut ctrl = vec![self.controller.address.advertise.clone()];
        home.forget_further_controllers()?;
        for (number, address) in (2..).zip(self.addresses) {
            ctrl.push(address.advertise.clone());
            let name = controllers::name(number);
            let controller = self.controller.further(home.root(), name, address);
            controllers::carry_out(home, number, &controller)?;
        }
        for router in &self.routers {
            router.carry_out(home, &ctrl)?;
        }
        home.forget_routers_behind(self.routers.len() as u8)?;
        if let Some(etcd) = &self.etcd {
            etcd.carry_out(home)?;
        }
        self.controller.write_file(home)
    }
}

/// What a network of several controllers has besides the first one: etcd, and the addresses of the others.
fn several(
    args: &QuickstartArgs,
    first: &ListenAddress,
    sockets: &mut Sockets,
) -> Result<(Option<EtcdPlan>, Vec<ListenAddress>)> {
    let count = args.controllers.unwrap_or(1);
    if count <= 1 {
        return Ok((None, Vec::new()));
    }
    let port = match args.ctrl_port {
        None => (CONTROLLER_PORT, false),
        Some(chosen) => (chosen, true),
    };
    let etcd = EtcdPlan::of(args, sockets)?;
    let host = &first.advertise.host;
    let addresses: Result<_> =
        (2..=count).map(|number| controllers::address(number, port, host, sockets)).collect();
    Ok((Some(etcd), addresses?))
}

/// The ports of all parts of an existing network.
pub(super) fn reserved(home: &Home) -> Result<Sockets> {
    let mut sockets = Sockets::default();
    for number in 1..=home.controller_count() {
        // A controller without a port for routers dials them; its file says so when it starts.
        if let Ok(address) = controllers::advertised(home, number) {
            sockets.reserve(address.port);
        }
    }
    if etcd::is_part_of(home) {
        sockets.reserve(etcd::address(home)?.port);
    }
    for number in 1..=home.router_count() {
        let config = compose::router::load(&home.router_file(number))?;
        routers::ports(&config).for_each(|port| sockets.reserve(port));
    }
    Ok(sockets)
}

/// Checks the administrator's name and password before any file is written.
fn check_administrator(args: &QuickstartArgs) -> Result<()> {
    if let Some(Err(error)) = args.username.clone().map(Username::try_from) {
        return Err(Failure::usage(format!("--username {error}")));
    }
    if let Some(Err(error)) = args.password.clone().map(Password::try_from) {
        return Err(Failure::usage(format!("--password (or WEFT_PASSWORD) {error}")));
    }
    Ok(())
}

/// Options that only apply to a new network, as they were given.
pub(super) fn creation_options(args: &QuickstartArgs) -> Vec<&'static str> {
    let given = [
        ("--username", args.username.is_some()),
        ("--password", args.password.is_some()),
        ("--ctrl-port", args.ctrl_port.is_some()),
        ("--etcd-port", args.etcd_port.is_some()),
        ("--router-port", args.router_port.is_some()),
        ("--link-port", args.link_port.is_some()),
        ("--ctrl-address", args.ctrl_address.is_some()),
        ("--router-address", args.router_address.is_some()),
    ];
    given.into_iter().filter(|(_, given)| *given).map(|(option, _)| option).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use weft_config::{ControllerConfig, RouterConfig};

    use super::*;
    use crate::check::{self, Purpose};
    use crate::compose::controller::Core;
    use crate::place::{bind_host, check_host};

    pub(in crate::quickstart) fn args() -> QuickstartArgs {
        QuickstartArgs {
            home: None,
            routers: None,
            controllers: None,
            etcd_program: None,
            etcd_port: None,
            username: None,
            password: None,
            ctrl_port: Some(0),
            router_port: Some(0),
            link_port: Some(0),
            ctrl_address: None,
            router_address: None,
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_database_is_closed_if_the_sockets_cannot_be_opened() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(Some(folder.path())).unwrap();
        let plan = Plan::of(&args()).unwrap();
        let bind = plan.controller.address.bind.to_string();
        plan.carry_out(&home).unwrap();
        let _taken = TcpListener::bind(bind).unwrap();
        let open = async || Core::open(&home.controller_file(), Purpose::Advice).await;
        assert!(open().await.unwrap().serve().await.is_err());
        open().await.unwrap().close().await.unwrap();
    }

    #[test]
    fn files_read_back_without_a_word() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(Some(folder.path())).unwrap();
        let plan = Plan::of(&QuickstartArgs {
            router_address: Some("r.example".into()),
            link_port: None,
            ..args()
        })
        .unwrap();
        let bind = plan.controller.address.bind.to_string();
        plan.carry_out(&home).unwrap();
        assert!(!home.is_new());
        let mut controller = ControllerConfig::examine_path(&home.controller_file()).unwrap();
        check::controller(&mut controller, Purpose::Advice);
        assert_eq!((&controller.problems, &controller.warnings), (&vec![], &vec![]));
        // Every setting in the file has an effect in this release.
        assert_eq!(controller.not_acted_upon, []);
        let served = weft_api::base_urls(&controller.config.web, true);
        assert_eq!(served.len(), controller.config.web[0].apis.len());
        let listener = controller.config.ctrl.listener.unwrap().host_port();
        assert_eq!(listener, bind, "one port for APIs and control plane");
        let router = RouterConfig::from_path(&home.router_file(1)).unwrap();
        assert_eq!((router.warnings, router.not_acted_upon), (vec![], vec![]));
        let link = router.config.link;
        assert_eq!((link.dialers.len(), link.listeners.len(), router.config.web.len()), (1, 0, 0));
        assert_eq!(router.config.csr.unwrap().sans.dns, ["localhost", "r.example"]);
    }

    #[test]
    fn two_free_ports_are_two() {
        let plan = Plan::of(&args()).unwrap();
        assert_ne!(plan.controller.address.bind.port, 0);
        assert_ne!(plan.controller.address.bind.port, plan.routers[0].edge.bind.port);
        assert_eq!(plan.controller.address.advertise.port, plan.controller.address.bind.port);
    }

    #[test]
    fn a_port_in_use_is_named_with_its_option() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = Plan::of(&QuickstartArgs { ctrl_port: Some(port), ..args() }).unwrap_err();
        assert!(error.to_string().contains("--ctrl-port"), "{error}");
        let routers = Some(3);
        let (ctrl, first) = two_free_ports();
        let (ctrl_port, router_port) = (Some(ctrl), Some(first));
        let error = Plan::of(&QuickstartArgs { ctrl_port, router_port, routers, ..args() });
        let error = error.unwrap_err().to_string();
        assert!(error.contains("another part of this network"), "{error}");
        assert!(error.contains(&ctrl.to_string()) && error.contains("--router-port"), "{error}");
        let both = QuickstartArgs { ctrl_port: Some(7), router_port: Some(7), ..args() };
        assert!(Plan::of(&both).unwrap_err().to_string().contains("both"));
    }

    /// Two free ports in a row, the second one first.
    fn two_free_ports() -> (u16, u16) {
        for first in (20_000..30_000).step_by(7) {
            let open = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
            if let (Ok(_), Ok(_)) = (open(first), open(first + 1)) {
                return (first + 1, first);
            }
        }
        panic!("no port is free");
    }

    #[test]
    fn an_administrator_that_will_be_refused_makes_no_network() {
        let short = QuickstartArgs { password: Some("four".to_owned()), ..args() };
        let error = Plan::of(&short).unwrap_err().to_string();
        assert!(error.contains("--password") && error.contains("5 to 100"), "{error}");
        assert!(!error.contains("four"), "{error}");
        let short = QuickstartArgs { username: Some("me".to_owned()), ..args() };
        assert!(Plan::of(&short).unwrap_err().to_string().contains("--username"));
    }

    #[test]
    fn only_what_others_are_told_is_opened_to_them() {
        for (host, bound) in [
            ("localhost", "127.0.0.1"),
            ("127.0.0.2", "127.0.0.2"),
            ("::1", "::1"),
            ("overlay.example", "0.0.0.0"),
            ("192.0.2.1", "0.0.0.0"),
            ("2001:db8::1", "::"),
        ] {
            assert_eq!(bind_host(host).to_string(), bound, "{host}");
        }
    }

    #[test]
    fn hosts_are_names_or_addresses() {
        assert_eq!(check_host("--x", "[::1]").unwrap(), "::1");
        assert_eq!(check_host("--x", "Overlay.Example").unwrap(), "overlay.example");
        for wrong in ["", "a b", "https://x", "0.0.0.0", "x:1"] {
            assert!(check_host("--x", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_counts_only_once_is_listed() {
        let given = QuickstartArgs { username: Some("x".into()), ..args() };
        let options = ["--username", "--ctrl-port", "--router-port", "--link-port"];
        assert_eq!(creation_options(&given), options);
    }
}
