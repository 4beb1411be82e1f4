//! `weft router config`: a commented file for a new router.

use std::fs::File;
use std::io::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use weft_config::{HostPort, RouterTemplate, TunnelerMode};
use weft_identity::give_to_owner_of_folder;

use crate::cli::{RouterConfigArgs, RouterSort};
use crate::failure::{Failure, Result};
use crate::home::{check_path, text as as_text};
use crate::output;
use crate::place::check_host;

/// Writes a file, or prints it.
pub(super) fn write(args: &RouterConfigArgs) -> Result<()> {
    let text = text(args, &folder(args.out.as_deref())?)?;
    let Some(path) = &args.out else {
        output::print(&text);
        return Ok(());
    };
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
    let mut file = File::create_new(path).map_err(failed)?;
    give_to_owner_of_folder(&file, path);
    file.write_all(text.as_bytes()).map_err(failed)?;
    let path = path.display();
    output::say(format!("wrote {path}; then: weft router enroll {path} --jwt TOKENFILE"));
    Ok(())
}

/// The folder of the file, in which its keys and certificates will be, as an absolute path: a service has
/// another working folder. A printed file gets the present folder.
fn folder(out: Option<&Path>) -> Result<PathBuf> {
    let folder = out.and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let failed = |error| Failure::new(format!("{}: {error}", folder.display()));
    let folder = folder.canonicalize().map_err(failed)?;
    check_path(&folder)?;
    Ok(folder)
}

fn text(args: &RouterConfigArgs, folder: &Path) -> Result<String> {
    let host = check_host("--address", &args.address)?;
    let host = host.as_str();
    let plain = |text: &str| !text.contains(|c: char| c == '$' || c.is_whitespace() || c == '/');
    if args.name.is_empty() || !plain(&args.name) {
        let name = &args.name;
        return Err(Failure::usage(format!("--name {name}: a name without `/`, `$` and spaces")));
    }
    let (mut dns, mut ip) = (vec!["localhost"], vec!["127.0.0.1", "::1"]);
    let address = host.parse::<IpAddr>();
    let names = if address.is_ok() { &mut ip } else { &mut dns };
    if !names.contains(&host) {
        names.insert(0, host);
    }
    // All addresses of IPv6 are those of IPv4, too.
    let every = if matches!(address, Ok(IpAddr::V6(_))) { "::" } else { "0.0.0.0" };
    let at = |host: &str, port: u16| HostPort { host: host.to_owned(), port };
    let (edge, gateway) = (args.sort == RouterSort::Edge, args.sort == RouterSort::Gateway);
    if args.lan_interface.is_some() && !gateway {
        return Err(Failure::usage("--lan-interface is for a gateway"));
    }
    let named = |end: &str| as_text(&folder.join(format!("{}{end}", args.name)));
    let link = edge.then(|| (at(every, args.link_port), at(host, args.link_port)));
    let template = RouterTemplate {
        cert: &named(".cert"),
        server_cert: &named(".server.cert"),
        key: &named(".key"),
        ca: &named(".ca"),
        ctrl: std::slice::from_ref(&args.controller),
        edge_bind: at(every, args.port),
        edge_advertise: at(host, args.port),
        link,
        dials_links: true,
        tunneler: if gateway { TunnelerMode::Tproxy } else { TunnelerMode::Host },
        lan_interface: args.lan_interface.as_deref(),
        with_defaults: true,
        dns: &dns,
        ip: &ip,
    };
    Ok(template.to_text())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use weft_config::RouterConfig;
    use weft_config::router::{Listener, TunnelMode};

    use super::*;
    use crate::check::{self, Purpose};

    fn args(sort: RouterSort) -> RouterConfigArgs {
        RouterConfigArgs {
            sort,
            name: "paris".into(),
            controller: "ctrl.example:1280".parse().unwrap(),
            address: "paris.example".into(),
            port: 3022,
            link_port: 10_080,
            lan_interface: (sort == RouterSort::Gateway).then(|| "lo".to_owned()),
            out: None,
        }
    }

    #[test]
    fn every_sort_passes_the_check() {
        let folder = tempfile::tempdir().unwrap();
        for sort in [RouterSort::Edge, RouterSort::Private, RouterSort::Gateway] {
            let path: PathBuf = folder.path().join(format!("{sort:?}.yaml"));
            fs::write(&path, text(&args(sort), folder.path()).unwrap()).unwrap();
            let mut examined = RouterConfig::examine_path(&path).unwrap();
            check::router(&mut examined, Purpose::Advice);
            assert_eq!(examined.problems, [], "{sort:?}");
            let config = examined.config;
            assert!(Path::new(&config.identity.key).is_absolute(), "{}", config.identity.key);
            assert_eq!(config.link.listeners.len(), usize::from(sort == RouterSort::Edge));
            assert_eq!(config.link.dialers.len(), 1);
            let mode = config.listeners.iter().find_map(|listener| match listener {
                Listener::Tunnel(tunnel) => Some(tunnel.mode.clone()),
                _ => None,
            });
            let gateway = sort == RouterSort::Gateway;
            let expected = if gateway { TunnelMode::Tproxy(None) } else { TunnelMode::Host };
            assert_eq!(mode, Some(expected));
        }
    }

    #[test]
    fn the_file_names_the_address_as_it_is_dialed() {
        for (given, told, bound, is_address) in [
            ("paris.example", "paris.example:3022", "0.0.0.0:3022", false),
            ("10.1.2.3", "10.1.2.3:3022", "0.0.0.0:3022", true),
            ("::1", "[::1]:3022", "[::]:3022", true),
            ("[::1]", "[::1]:3022", "[::]:3022", true),
            ("2001:db8::1", "[2001:db8::1]:3022", "[::]:3022", true),
        ] {
            let args = RouterConfigArgs { address: given.into(), ..args(RouterSort::Edge) };
            let written = text(&args, Path::new("/")).unwrap();
            let path = Path::new("router.yaml");
            let config = RouterConfig::from_str(&written, path, &|_: &str| None).unwrap().config;
            let edge = config.listeners.iter().find_map(|listener| match listener {
                Listener::Edge(edge) => Some(edge),
                _ => None,
            });
            let edge = edge.unwrap();
            assert_eq!(edge.advertise.to_string(), told, "{given}");
            assert_eq!(edge.address.host_port(), bound, "{given}");
            let link = &config.link.listeners[0];
            assert_eq!(link.advertise.host_port(), told.replace("3022", "10080"), "{given}");
            assert_eq!(link.bind.host_port(), bound.replace("3022", "10080"), "{given}");
            let sans = config.csr.unwrap().sans;
            let addresses = sans.ip.iter().map(ToString::to_string).collect();
            let names: Vec<String> = if is_address { addresses } else { sans.dns };
            assert!(names.iter().any(|name| name == given.trim_matches(['[', ']'])), "{given}");
        }
        for wrong in ["0.0.0.0", "::", "a b", "a/b", "::1:3022x", ""] {
            let args = RouterConfigArgs { address: wrong.into(), ..args(RouterSort::Edge) };
            assert!(text(&args, Path::new("/")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn words_that_would_break_the_file_are_refused() {
        let odd = RouterConfigArgs { name: "$HOME".into(), ..args(RouterSort::Edge) };
        assert!(text(&odd, Path::new("/")).is_err());
        let odd = RouterConfigArgs { lan_interface: Some("lo".into()), ..args(RouterSort::Edge) };
        assert!(text(&odd, Path::new("/")).is_err());
    }
}
