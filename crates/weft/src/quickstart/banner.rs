//! The message that a network is up.

use std::time::Duration;

use serde_json::json;

use crate::home::Home;
use crate::output::table::{Column, Rows};
use crate::pki;
use crate::verify::Measured;

/// A running router.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) number: u8,
    pub(super) name: String,
    /// Address for SDKs, `host:port`.
    pub(super) edge: String,
    /// Address for links; empty if the router does not link.
    pub(super) link: String,
    /// Process id, if it is a process of its own.
    pub(super) process: Option<u32>,
}

/// A running controller.
#[derive(Debug)]
pub(super) struct ShownController {
    pub(super) number: u8,
    pub(super) name: String,
    /// Address for clients and routers, `host:port`.
    pub(super) address: String,
    /// Process id, if it is a process of its own.
    pub(super) process: Option<u32>,
}

/// The running etcd of several controllers.
#[derive(Debug)]
pub(super) struct ShownEtcd {
    /// Address for controllers, `host:port`.
    pub(super) address: String,
    pub(super) process: Option<u32>,
}

/// Facts for the banner.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) home: &'a Home,
    /// At least one.
    pub(super) controllers: &'a [ShownController],
    pub(super) etcd: Option<&'a ShownEtcd>,
    pub(super) routers: &'a [Shown],
    /// The administrator's login name, if known.
    pub(super) username: Option<&'a str>,
    /// Time that the start took.
    pub(super) taken: Duration,
}

/// The text of the banner.
pub(super) fn text(facts: &Facts<'_>) -> String {
    let weft = program();
    let root = facts.home.root().display();
    let user = facts.username.map(|name| format!(" --username {name}")).unwrap_or_default();
    let first = facts.controllers.first().map(|it| it.address.as_str()).unwrap_or_default();
    let login = format!(
        "{weft} login https://{first}{user} --ca {}",
        facts.home.pki(pki::ROOT_CERT).display()
    );
    let controllers = match facts.etcd {
        None => {
            format!("  controller    https://{first}    APIs, and the control plane for routers")
        }
        Some(etcd) => several_controllers(facts, etcd),
    };
    let is_apart = |router: &Shown| router.process.is_some();
    let (routers, files) = match facts.routers {
        [only] if !is_apart(only) => (
            format!("  edge router   tls://{}    where SDKs and tunnelers connect", only.edge),
            format!(
                "{}, {}",
                facts.home.controller_file().display(),
                facts.home.router_file(only.number).display()
            ),
        ),
        several => (table(facts.home, several), facts.home.controller_file().display().to_string()),
    };
    // Each of several controllers has these in its folder.
    let places = match facts.etcd {
        None => format!(
            "\x20 configuration {files}\n\
             \x20 database      {}\n\
             \x20 keys          {root}/pki\n",
            facts.home.database().display()
        ),
        Some(_) => format!(
            "\x20 keys          {root}/pki, and those of the other controllers in their folders\n"
        ),
    };
    let mesh = match facts.routers {
        [_] => String::new(),
        _ => format!("\x20 {weft} topology --watch    # the routers and their links\n"),
    };
    format!(
        "\n\
         The network is up after {:.1} s.\n\
         \n\
         {controllers}\n\
         {routers}\n\
         {places}\
         \n\
         Next, in another terminal:\n\
         \x20 {login}\n\
         \x20 {weft} list edge-routers\n\
         {mesh}\
         \x20 {weft} verify traffic\n\
         \x20 {weft} create identity laptop --role-attributes staff -o laptop.jwt\n\
         \x20 {weft} enroll laptop.jwt        # laptop.json: for any SDK or tunneler\n\
         \x20 {weft} create service --help    # your first service\n\
         \n\
         Ctrl-C stops the network; the same command brings it back with everything kept.",
        facts.taken.as_secs_f32(),
    )
}

/// Several controllers and their etcd: addresses, processes and folders.
fn several_controllers(facts: &Facts<'_>, etcd: &ShownEtcd) -> String {
    let columns = [
        ("CONTROLLER", "name"),
        ("APIS AND ROUTERS", "address"),
        ("PROCESS", "process"),
        ("CONFIGURATION, DATABASE AND LOG", "folder"),
    ];
    let mut rows = Rows::new(columns.map(column).into());
    for controller in facts.controllers {
        rows.push(&json!({
            "name": controller.name, "address": format!("https://{}", controller.address),
            "process": controller.process,
            "folder": facts.home.controller_folder(controller.number).display().to_string(),
        }));
    }
    rows.push(&json!({
        "name": "etcd", "address": format!("http://{}", etcd.address), "process": etcd.process,
        "folder": facts.home.etcd_folder().display().to_string(),
    }));
    rows.whole()
}

fn column((title, member): (&str, &str)) -> Column {
    Column { title: title.to_owned(), pointer: format!("/{member}") }
}

/// A table of several routers: addresses, process and state.
fn table(home: &Home, routers: &[Shown]) -> String {
    let columns = [
        ("EDGE ROUTER", "name"),
        ("SDKS AND TUNNELERS", "edge"),
        ("LINKS", "link"),
        ("PROCESS", "process"),
        ("CONFIGURATION AND router.log", "folder"),
    ];
    let mut rows = Rows::new(columns.map(column).into());
    for router in routers {
        let tls = |at: &str| if at.is_empty() { String::new() } else { format!("tls://{at}") };
        rows.push(&json!({
            "name": router.name, "edge": tls(&router.edge), "link": tls(&router.link),
            "process": router.process, "folder": home.router_folder(router.number).display().to_string(),
        }));
    }
    // In full width, because lines are copied.
    rows.whole()
}

/// The self-check in one line.
pub(super) fn checked(measured: &Measured) -> String {
    let sealed = if measured.encrypted { "encrypted end to end" } else { "not encrypted" };
    format!(
        "{} each way through the overlay, checksums right, {sealed}, round trip {:.2} ms",
        crate::output::bytes(measured.bytes),
        measured.p50.as_secs_f64() * 1000.0
    )
}

/// The command by which this program was called, for lines that are copied.
fn program() -> String {
    std::env::args().next().filter(|name| !name.is_empty()).unwrap_or_else(|| "weft".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router(number: u8) -> Shown {
        Shown {
            number,
            name: format!("r{number}"),
            edge: format!("localhost:{number}"),
            link: format!("127.0.0.1:1{number}"),
            process: Some(4200 + u32::from(number)),
        }
    }

    fn controller(number: u8, process: Option<u32>) -> ShownController {
        let (name, address) = (format!("c{number}"), format!("localhost:4{number}"));
        ShownController { number, name, address, process }
    }

    #[test]
    fn every_controller_is_shown_with_its_port_process_and_folder() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(Some(folder.path())).unwrap();
        let controllers = [controller(1, Some(71)), controller(2, Some(72))];
        let etcd = ShownEtcd { address: "127.0.0.1:9".to_owned(), process: Some(73) };
        let said = text(&Facts {
            home: &home,
            controllers: &controllers,
            etcd: Some(&etcd),
            routers: &[router(1)],
            username: None,
            taken: Duration::from_secs(1),
        });
        let line = |word: &str| said.lines().find(|line| line.contains(word)).unwrap();
        for number in 1..=2 {
            let line = line(&format!("https://localhost:4{number}"));
            let folder = home.controller_folder(number).display().to_string();
            assert!(line.contains(&format!("7{number}")) && line.contains(&folder), "{line}");
        }
        let line = line("http://127.0.0.1:9");
        assert!(line.contains("73") && line.contains("etcd"), "{line}");
        assert!(said.contains("login https://localhost:41 "), "{said}");
        assert!(said.contains("EDGE ROUTER") && said.contains("4201"), "{said}");
    }

    #[test]
    fn every_router_is_shown_with_its_ports_process_and_folder() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(Some(folder.path())).unwrap();
        let (taken, controllers) = (Duration::from_secs(1), [controller(1, None)]);
        let facts = Facts {
            home: &home,
            controllers: &controllers,
            etcd: None,
            routers: &[],
            username: None,
            taken,
        };
        let banner = |routers: &[Shown]| text(&Facts { routers, ..facts });
        let several = banner(&[router(1), router(2), router(3)]);
        for number in 1..=3 {
            let line = several.lines().find(|line| line.contains(&format!("r{number}"))).unwrap();
            let folder = home.router_folder(number).display().to_string();
            let parts = [
                format!("tls://localhost:{number}"),
                format!("1{number}"),
                format!("420{number}"),
                folder,
            ];
            assert!(parts.iter().all(|part| line.contains(part)), "{line}");
        }
        assert!(several.contains("topology --watch"));
        let one = banner(&[Shown { process: None, ..router(1) }]);
        assert!(
            one.contains("edge router   tls://localhost:1") && !one.contains("topology"),
            "{one}"
        );
    }
}
