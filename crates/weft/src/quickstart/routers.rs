//! The addresses of the routers of a quickstart network, and their files.

use std::net::IpAddr;
use std::path::Path;

use weft_config::router::Listener;
use weft_config::{HostPort, RouterConfig, RouterTemplate, TunnelerMode};
use weft_identity::{text_of, write_private};

use super::controllers;
use super::sockets::Sockets;
use crate::cli::QuickstartArgs;
use crate::compose;
use crate::failure::{Failure, Result};
use crate::home::{Home, text};
use crate::output::counted;
use crate::place::ListenAddress;

const ROUTER_PORT: u16 = 3022;
const LINK_PORT: u16 = 10_080;
/// Links of a quickstart network are on loopback only.
const LINK_HOST: &str = "127.0.0.1";

/// A router that is to be created.
#[derive(Debug)]
pub(super) struct RouterPlan {
    pub(super) number: u8,
    pub(super) edge: ListenAddress,
    /// Address at which other routers dial this one for links; `None` in a network of one router whose
    /// port for links was not chosen: the router only dials.
    pub(super) link: Option<ListenAddress>,
}

/// The ports of the routers.
pub(super) struct RouterPorts<'a> {
    /// The host that clients are told.
    pub(super) host: &'a str,
    /// The port of the first router for clients, and true if an option chose the port.
    edge: (u16, bool),
    /// The same for links.
    link: (u16, bool),
}

impl<'a> RouterPorts<'a> {
    /// The ports for a new network.
    pub(super) fn new(args: &QuickstartArgs, host: &'a str) -> Self {
        let chosen = |port: Option<u16>, usual| (port.unwrap_or(usual), port.is_some());
        Self {
            host,
            edge: chosen(args.router_port, ROUTER_PORT),
            link: chosen(args.link_port, LINK_PORT),
        }
    }

    /// The ports for more routers in an existing network; without options, the ports of the first router
    /// are continued.
    fn behind(args: &QuickstartArgs, first: &RouterConfig, edge: &'a HostPort) -> Self {
        let mut router_ports = Self::new(args, &edge.host);
        if args.router_port.is_none() {
            router_ports.edge = (edge.port, false);
        }
        if args.link_port.is_none()
            && let Some(listener) = first.link.listeners.first()
        {
            router_ports.link = (listener.advertise.port, false);
        }
        router_ports
    }

    /// Refuses chosen ports with too few ports behind them.
    pub(super) fn check(&self, routers: u8) -> Result<()> {
        for (option, (first, is_chosen)) in
            [("--router-port", self.edge), ("--link-port", self.link)]
        {
            let is_over = first.checked_add(u16::from(routers.saturating_sub(1))).is_none();
            if is_chosen && is_over {
                return Err(Failure::usage(format!(
                    "{option} {first}: there are no ports behind it for {routers} routers"
                )));
            }
        }
        Ok(())
    }

    /// The port of the first router.
    pub(super) fn first(&self) -> u16 {
        self.edge.0
    }

    /// The address for clients of a router, with the port that [`Sockets::near`] finds.
    pub(super) fn edge(&self, number: u8, sockets: &mut Sockets) -> Result<ListenAddress> {
        sockets.near("--router-port", self.edge, number, "--router-address", self.host)
    }

    /// The address for links of a router, likewise.
    pub(super) fn link(&self, number: u8, sockets: &mut Sockets) -> Result<ListenAddress> {
        sockets.near("--link-port", self.link, number, "--link-port", LINK_HOST)
    }
}

impl RouterPlan {
    /// Writes the file of the router.
    pub(super) fn carry_out(&self, home: &Home, ctrl: &[HostPort]) -> Result<()> {
        home.make_router_folder(self.number)?;
        write(&home.router_file(self.number), &self.text(home, ctrl))
    }

    fn text(&self, home: &Home, ctrl: &[HostPort]) -> String {
        let keys = home.router_keys(self.number);
        let path = |name: &str| text(&keys.join(name));
        let host = self.edge.advertise.host.as_str();
        let (mut dns, mut ip) = (vec!["localhost"], vec!["127.0.0.1", "::1"]);
        let names = if host.parse::<IpAddr>().is_ok() { &mut ip } else { &mut dns };
        if !names.contains(&host) {
            names.push(host);
        }
        let link = self.link.as_ref();
        RouterTemplate {
            cert: &path("router.crt"),
            server_cert: &path("router.server.crt"),
            key: &path("router.key"),
            ca: &path("router.ca.crt"),
            ctrl,
            edge_bind: self.edge.bind.clone(),
            edge_advertise: self.edge.advertise.clone(),
            link: link.map(|link| (link.bind.clone(), link.advertise.clone())),
            // This router dials routers that are added later by hand.
            dials_links: true,
            tunneler: TunnelerMode::Host,
            lan_interface: None,
            with_defaults: false,
            dns: &dns,
            ip: &ip,
        }
        .to_text()
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    Ok(write_private(path, text.as_bytes())?)
}

/// The number of routers that the network shall have; `there` exist.
pub(super) fn wanted(args: &QuickstartArgs, there: u8, home: &Path) -> Result<u8> {
    match args.routers {
        None => Ok(there.max(1)),
        Some(wanted) if wanted < there => Err(Failure::usage(format!(
            "the network in {} has {}, and services may depend on each of them: start \
             it with --routers {there} or more, or without --routers",
            home.display(),
            counted(there, "router", "routers")
        ))),
        Some(wanted) => Ok(wanted),
    }
}

/// Writes files for further routers of an existing network, and lets existing routers link with
/// them; the ports of the network are reserved. Returns the number of new routers.
pub(super) fn add(home: &Home, args: &QuickstartArgs, mut sockets: Sockets) -> Result<u8> {
    let there = home.router_count();
    let wanted = wanted(args, there, home.root())?;
    if wanted <= there {
        return Ok(0);
    }
    let first = compose::router::load(&home.router_file(1))?;
    let edge = edge(&first).ok_or_else(|| {
        Failure::new(format!(
            "{} has no edge listener any more, so that the others cannot be made like it",
            home.router_file(1).display()
        ))
    })?;
    let endpoints = first.ctrl.endpoints.iter();
    let mut ctrl: Vec<_> =
        endpoints.map(|it| HostPort { host: it.host.clone(), port: it.port }).collect();
    for number in 2..=home.controller_count() {
        let further = controllers::advertised(home, number)?;
        if !ctrl.contains(&further) {
            ctrl.push(further);
        }
    }
    if ctrl.is_empty() {
        let file = home.router_file(1);
        let said = format!("{}: `ctrl.endpoint` names no controller", file.display());
        return Err(Failure::new(said));
    }
    let router_ports = RouterPorts::behind(args, &first, &edge);
    router_ports.check(wanted)?;
    let mut configs = Vec::new();
    for number in 1..=there {
        configs.push((number, compose::router::load(&home.router_file(number))?));
    }
    // No file is written until every port is known.
    let mut sections = Vec::new();
    for (number, config) in &configs {
        if !config.link.listeners.is_empty() {
            continue;
        }
        let file = home.router_file(*number);
        let wrong =
            |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", file.display()));
        let text = std::fs::read(&file).map_err(|error| wrong(&error))?;
        let text = text_of(text).map_err(|error| wrong(&error))?;
        let link = router_ports.link(*number, &mut sockets)?;
        let dials = !config.link.dialers.is_empty();
        let text = RouterTemplate::with_link_section(&text, dials, &link.bind, &link.advertise);
        sections.extend(text.map(|text| (file, text)));
    }
    let mut new = Vec::new();
    for number in there + 1..=wanted {
        let edge = router_ports.edge(number, &mut sockets)?;
        let link = Some(router_ports.link(number, &mut sockets)?);
        new.push(RouterPlan { number, edge, link });
    }
    for (file, text) in sections {
        write(&file, &text)?;
    }
    for router in new {
        router.carry_out(home, &ctrl)?;
    }
    Ok(wanted - there)
}

/// The ports that a router listens at.
pub(super) fn ports(config: &RouterConfig) -> impl Iterator<Item = u16> {
    let edge = config.listeners.iter().filter_map(|listener| match listener {
        Listener::Edge(edge) => Some(edge.address.port),
        _ => None,
    });
    let links = config.link.listeners.iter().map(|it| it.bind.port);
    edge.chain(links)
}

/// The address that SDKs are told.
pub(super) fn edge(config: &RouterConfig) -> Option<HostPort> {
    config.listeners.iter().find_map(|listener| match listener {
        Listener::Edge(edge) => Some(edge.advertise.clone()),
        _ => None,
    })
}

/// The address that other routers are told.
pub(super) fn link(config: &RouterConfig) -> String {
    let listener = config.link.listeners.first();
    listener.map(|listener| listener.advertise.host_port()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::plan::Plan;
    use super::super::plan::tests::args;
    use super::*;

    fn add(home: &Home, args: &QuickstartArgs) -> Result<u8> {
        super::add(home, args, super::super::plan::reserved(home)?)
    }

    fn made(routers: u8) -> (tempfile::TempDir, Home) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(Some(folder.path())).unwrap();
        let link_port = (routers > 1).then_some(0);
        let args = QuickstartArgs { routers: Some(routers), link_port, ..args() };
        Plan::of(&args).unwrap().carry_out(&home).unwrap();
        (folder, home)
    }

    fn config(home: &Home, number: u8) -> RouterConfig {
        let loaded = RouterConfig::from_path(&home.router_file(number)).unwrap();
        assert_eq!((loaded.warnings, loaded.not_acted_upon), (vec![], vec![]));
        loaded.config
    }

    /// Checks that each router has its own ports, keys and folder, links on loopback, and dials.
    fn check(home: &Home, count: u8) {
        assert_eq!(home.router_count(), count);
        let (mut ports, mut keys, mut folders) = (HashSet::new(), HashSet::new(), HashSet::new());
        for number in 1..=count {
            let config = config(home, number);
            let listener = &config.link.listeners[0];
            assert_eq!(
                (listener.advertise.host.as_str(), config.link.dialers.len()),
                (LINK_HOST, 1)
            );
            assert_eq!(listener.bind.host, LINK_HOST);
            assert_eq!(link(&config), format!("{LINK_HOST}:{}", listener.bind.port));
            assert!(ports.insert(listener.bind.port) && ports.insert(edge(&config).unwrap().port));
            assert!(keys.insert(config.identity.key.clone()));
            assert!(folders.insert(config.ctrl.endpoints_file.clone()));
        }
    }

    #[test]
    fn further_routers_take_the_ports_behind_those_of_the_first() {
        let (_folder, home) = made(2);
        let first = config(&home, 1);
        let at = edge(&first).unwrap();
        let link = first.link.listeners[0].bind.port;
        let unsaid = QuickstartArgs { router_port: None, link_port: None, ..args() };
        let router_ports = RouterPorts::behind(&unsaid, &first, &at);
        assert_eq!((router_ports.edge, router_ports.link), ((at.port, false), (link, false)));
        let said = QuickstartArgs { router_port: Some(4000), link_port: Some(5000), ..args() };
        let router_ports = RouterPorts::behind(&said, &first, &at);
        assert_eq!((router_ports.edge, router_ports.link), ((4000, true), (5000, true)));
        // A network of one router has no port for links.
        let (_folder, home) = made(1);
        let router_ports = RouterPorts::behind(&unsaid, &config(&home, 1), &at);
        assert_eq!(router_ports.link, (LINK_PORT, false));
    }

    #[test]
    fn the_port_for_links_of_a_lone_router_is_kept_for_the_routers_that_follow() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(Some(folder.path())).unwrap();
        Plan::of(&args()).unwrap().carry_out(&home).unwrap();
        let port = config(&home, 1).link.listeners[0].bind.port;
        let more =
            QuickstartArgs { routers: Some(2), link_port: None, router_port: None, ..args() };
        assert_eq!(add(&home, &more).unwrap(), 1);
        check(&home, 2);
        assert_eq!(config(&home, 1).link.listeners[0].bind.port, port);
    }

    #[test]
    fn ports_that_do_not_exist_are_refused() {
        let (_folder, home) = made(1);
        for (args, option) in [
            (QuickstartArgs { router_port: Some(65_535), ..args() }, "--router-port"),
            (QuickstartArgs { link_port: Some(65_534), ..args() }, "--link-port"),
        ] {
            let args = QuickstartArgs { routers: Some(3), ..args };
            for error in [Plan::of(&args).unwrap_err(), add(&home, &args).unwrap_err()] {
                let error = error.to_string();
                assert!(
                    error.contains(option) && error.contains("no ports behind it for 3 routers"),
                    "{error}"
                );
            }
        }
        assert_eq!(home.router_count(), 1);
    }

    #[test]
    fn a_free_port_takes_the_place_of_one_that_is_taken_unless_it_was_chosen() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = socket.local_addr().unwrap().port();
        let router_ports = |is_chosen| RouterPorts {
            host: "localhost",
            edge: (taken, is_chosen),
            link: (0, true),
        };
        let address = router_ports(false).edge(1, &mut Sockets::default()).unwrap();
        assert_ne!(address.bind.port, taken);
        let error = router_ports(true).edge(1, &mut Sockets::default()).unwrap_err().to_string();
        assert!(error.contains("another program uses it"), "{error}");
    }

    #[test]
    fn a_port_of_this_network_is_not_taken_for_that_of_a_stranger() {
        let (_folder, home) = made(1);
        let of_first = edge(&config(&home, 1)).unwrap().port;
        // The second router's port would be that of the first.
        let taken = QuickstartArgs { router_port: Some(of_first - 1), ..args() };
        let error =
            add(&home, &QuickstartArgs { routers: Some(2), ..taken }).unwrap_err().to_string();
        let known = format!("port {of_first} is already that of another part of this network");
        assert!(error.contains(&known) && error.contains("--router-port"), "{error}");
        assert!(config(&home, 1).link.listeners.is_empty(), "nothing was written");
    }

    #[test]
    fn several_routers_have_what_each_needs_for_itself() {
        let (_folder, home) = made(3);
        check(&home, 3);
    }

    #[test]
    fn a_start_that_was_interrupted_leaves_no_routers_behind() {
        let (_folder, home) = made(4);
        // The controller's file is the last that is written.
        std::fs::remove_file(home.controller_file()).unwrap();
        let args = QuickstartArgs { routers: Some(2), ..args() };
        Plan::of(&args).unwrap().carry_out(&home).unwrap();
        check(&home, 2);
    }

    #[test]
    fn a_network_of_one_gets_more_and_keeps_what_was_changed() {
        let (_folder, home) = made(1);
        let link = config(&home, 1).link;
        assert_eq!((link.listeners.len(), link.dialers.len()), (0, 1), "it dials");
        let before = edge(&config(&home, 1));
        let file = home.router_file(1);
        let text = std::fs::read_to_string(&file).unwrap() + "# my own word\n";
        std::fs::write(&file, text).unwrap();
        let more = |routers| add(&home, &QuickstartArgs { routers, router_port: None, ..args() });
        assert_eq!(more(None).unwrap(), 0);
        assert_eq!(more(Some(3)).unwrap(), 2);
        check(&home, 3);
        assert_eq!(edge(&config(&home, 1)), before);
        assert!(std::fs::read_to_string(&file).unwrap().contains("# my own word"));
        // Existing files stay unchanged.
        let second = std::fs::read_to_string(home.router_file(2)).unwrap();
        assert_eq!(more(Some(4)).unwrap(), 1);
        check(&home, 4);
        assert_eq!(std::fs::read_to_string(home.router_file(2)).unwrap(), second);
        assert_eq!(more(None).unwrap(), 0);
        let error = more(Some(2)).unwrap_err().to_string();
        assert!(error.contains("has 4 routers") && error.contains("--routers 4"), "{error}");
    }
}
