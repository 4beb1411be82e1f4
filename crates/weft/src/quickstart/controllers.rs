//! The controllers of a quickstart network behind the first one: their addresses and their files.

use std::time::SystemTime;

use weft_config::{ControllerConfig, HostPort};

use super::sockets::{Sockets, shared_name};
use super::{etcd, routers};
use crate::cli::QuickstartArgs;
use crate::controller::NewController;
use crate::failure::{Failure, Result};
use crate::home::Home;
use crate::output::counted;
use crate::place::ListenAddress;
use crate::{compose, pki};

/// Name of a controller, which is its id.
pub(super) fn name(number: u8) -> String {
    match number {
        ..=1 => pki::FIRST.to_owned(),
        number => format!("{}-{number}", pki::FIRST),
    }
}

/// The address of a controller behind the first one, whose port and host these are; the port with whether an
/// option chose it.
pub(super) fn address(
    number: u8,
    first: (u16, bool),
    host: &str,
    sockets: &mut Sockets,
) -> Result<ListenAddress> {
    sockets.near("--ctrl-port", first, number, "--ctrl-address", host)
}

/// Makes the certificates of a controller behind the first one, and writes its file.
pub(super) fn carry_out(home: &Home, number: u8, controller: &NewController) -> Result<()> {
    let own = Home::open(Some(&home.controller_folder(number)))?;
    controller.make_certificates(&own)?;
    controller.write_file(&own)
}

/// The number of controllers that the network shall have; `there` exist.
fn wanted(args: &QuickstartArgs, there: u8, home: &Home) -> Result<u8> {
    let root = home.root().display();
    match args.controllers {
        None => Ok(there),
        Some(wanted) if wanted > 1 && !etcd::is_part_of(home) => Err(Failure::usage(format!(
            "the network in {root} was made with one controller and is in a file: name an empty folder with --home for a \
             new network of several; `weft controller move` brings an existing one into an etcd of yours"
        ))),
        Some(wanted) if wanted < there => Err(Failure::usage(format!(
            "the network in {root} has {}, which clients and routers know: start it with --controllers {there} or \
             more, or without --controllers",
            counted(there, "controller", "controllers"),
        ))),
        Some(wanted) => Ok(wanted),
    }
}

/// Makes the certificates and files of further controllers of an existing network, whose ports are reserved. Returns their
/// number.
pub(super) fn add(home: &Home, args: &QuickstartArgs, mut sockets: Sockets) -> Result<u8> {
    let there = home.controller_count();
    let wanted = wanted(args, there, home)?;
    if wanted <= there {
        return Ok(0);
    }
    let at = advertised(home, 1)?;
    let first = (args.ctrl_port.unwrap_or(at.port), args.ctrl_port.is_some());
    let mut hosts = Vec::new();
    for number in 1..=home.router_count() {
        let config = compose::router::load(&home.router_file(number))?;
        hosts.extend(routers::edge(&config).map(|edge| edge.host));
    }
    let shared = shared_name(&at.host, hosts.iter().map(String::as_str));
    let mut new = Vec::new();
    for number in there + 1..=wanted {
        let address = address(number, first, &at.host, &mut sockets)?;
        let mut controller = NewController::new(address);
        controller.shared = shared.clone();
        new.push((number, controller.member_of(home.root(), Some(&name(number)))?));
    }
    for (number, controller) in &new {
        carry_out(home, *number, controller)?;
    }
    Ok(wanted - there)
}

/// The address of a controller for clients and routers.
pub(super) fn advertised(home: &Home, number: u8) -> Result<HostPort> {
    let file = home.file_of_controller(number);
    let ctrl = ControllerConfig::from_path(&file)?.config.ctrl;
    let address = ctrl.advertise_address.or(ctrl.listener);
    let address = address.map(|it| HostPort { host: it.host, port: it.port });
    address.ok_or_else(|| {
        Failure::new(format!("{}: `ctrl` names no address any more", file.display()))
    })
}

/// Renews the certificates of the controllers behind the first one that end soon. Returns how many.
pub(super) fn renew_if_due(home: &Home, now: SystemTime) -> Result<u8> {
    let mut renewed = 0;
    for number in 2..=home.controller_count() {
        let own = Home::open(Some(&home.controller_folder(number)))?;
        renewed += u8::from(pki::renew_if_due(&own, now)?);
    }
    Ok(renewed)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use weft_config::RouterConfig;

    use super::super::plan::Plan;
    use super::super::plan::tests::args;
    use super::*;

    fn add(home: &Home, args: &QuickstartArgs) -> Result<u8> {
        super::add(home, args, super::super::plan::reserved(home)?)
    }
    use crate::check::{self, Purpose};

    /// Options for this number of controllers; the folder has a file for etcd's program.
    fn several(folder: &tempfile::TempDir, count: u8) -> QuickstartArgs {
        let program = folder.path().join("etcd");
        std::fs::write(&program, "").unwrap();
        QuickstartArgs {
            controllers: Some(count),
            routers: Some(2),
            etcd_port: Some(0),
            etcd_program: Some(program),
            ..args()
        }
    }

    fn checked(home: &Home, number: u8) -> ControllerConfig {
        let mut loaded = ControllerConfig::examine_path(&home.file_of_controller(number)).unwrap();
        check::controller(&mut loaded, Purpose::Advice);
        assert_eq!((&loaded.problems, &loaded.warnings), (&vec![], &vec![]));
        loaded.config
    }

    #[test]
    fn each_controller_has_a_folder_and_a_port_and_every_router_knows_all() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(Some(&folder.path().join("home"))).unwrap();
        Plan::of(&several(&folder, 3)).unwrap().carry_out(&home).unwrap();
        assert_eq!(home.controller_count(), 3);
        let etcd = etcd::address(&home).unwrap();
        let (mut ports, mut files) = (HashSet::from([etcd.port]), HashSet::new());
        let mut all = Vec::new();
        for number in 1..=3 {
            let config = checked(&home, number);
            assert_eq!(config.storage.cluster.unwrap().members, std::slice::from_ref(&etcd));
            assert!(files.insert(config.storage.database));
            let at = advertised(&home, number).unwrap();
            assert!(ports.insert(at.port));
            all.push(at);
        }
        for number in 1..=2 {
            let config = RouterConfig::from_path(&home.router_file(number)).unwrap().config;
            let known = config.ctrl.endpoints.iter();
            let known: Vec<_> =
                known.map(|it| HostPort { host: it.host.clone(), port: it.port }).collect();
            assert_eq!(known, all);
            assert!(ports.insert(routers::edge(&config).unwrap().port));
        }

        // More controllers; those that exist stay as they are.
        let second = std::fs::read(home.file_of_controller(2)).unwrap();
        assert_eq!(add(&home, &several(&folder, 4)).unwrap(), 1);
        assert_eq!(std::fs::read(home.file_of_controller(2)).unwrap(), second);
        checked(&home, 4);
        assert!(ports.insert(advertised(&home, 4).unwrap().port));
        assert_eq!(add(&home, &args()).unwrap(), 0);
        let error = add(&home, &several(&folder, 3)).unwrap_err().to_string();
        assert!(error.contains("4 controllers") && error.contains("--controllers 4"), "{error}");
    }

    #[test]
    fn a_network_in_a_file_keeps_one_controller() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(Some(&folder.path().join("home"))).unwrap();
        Plan::of(&args()).unwrap().carry_out(&home).unwrap();
        let one = QuickstartArgs { controllers: Some(1), ..args() };
        assert_eq!(add(&home, &one).unwrap(), 0);
        let error = add(&home, &several(&folder, 2)).unwrap_err().to_string();
        assert!(error.contains("--home") && error.contains("is in a file"), "{error}");
        assert_eq!(home.controller_count(), 1);
    }

    #[test]
    fn without_etcd_nothing_is_planned_for_several_controllers() {
        let nowhere = std::path::PathBuf::from("/nowhere/etcd");
        let args = QuickstartArgs { controllers: Some(2), etcd_program: Some(nowhere), ..args() };
        let error = Plan::of(&args).unwrap_err().to_string();
        assert!(error.contains("/nowhere/etcd: no such file"), "{error}");
    }
}
