//! Clients that ask for names while the firewall is slow or refuses changes.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::lab::{Lab, Namespace, eventually, service};

/// `nft`, which is slow with changes while there is a file `slow`, and refuses them while there is a file
/// `broken`.
const NFT: &str = r#"#!/bin/sh
if [ "$1" = -f ]; then
  test -e @HERE@/slow && sleep 2
  test -e @HERE@/broken && { echo "no changes today" >&2; exit 1; }
fi
exec @NFT@ "$@"
"#;

/// Options for an interceptor with this `nft`.
fn options(lab: &Lab) -> Value {
    let folder = lab.folder.path();
    let here = folder.to_str().unwrap();
    let real = lab.says(Namespace::Gateway, "command -v nft").unwrap();
    lab.program("bin/nft", &NFT.replace("@HERE@", here).replace("@NFT@", &real));
    json!({ "path": format!("{here}/bin:{}", std::env::var("PATH").unwrap()) })
}

/// The answer of the DNS server, in a word or an address.
fn asked(lab: &Lab, name: &str) -> String {
    let ask = format!("dig @10.77.1.1 +tries=1 +time=10 {name}");
    let said = lab.says(Namespace::Client, &ask).unwrap_or_default();
    let address = said.lines().filter_map(|line| line.split_once("\tIN\tA\t")).next();
    let code = || said.split_once("status: ").and_then(|(_, rest)| rest.split(',').next());
    address.map(|(_, address)| address).or_else(code).unwrap_or_default().to_owned()
}

fn get(lab: &Lab, url: &str) -> Option<String> {
    lab.says(Namespace::Client, &format!("curl -sS --max-time 5 '{url}'"))
}

#[test]
fn no_client_is_told_an_address_before_the_firewall_has_it() {
    let Some(lab) = Lab::new() else { return };
    let mut interceptor = lab.interceptor(options(&lab));
    interceptor.set(&[service("wild", &["*.wild.example"], &[(80, 80)])]);
    let slow = lab.folder.path().join("slow");
    fs::write(&slow, "").unwrap();
    // Two clients ask for one name; each connects as soon as it has the address.
    std::thread::scope(|scope| {
        for wait in [0, 500] {
            let lab = &lab;
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(wait));
                let start = Instant::now();
                let said = get(lab, "http://a.wild.example/").unwrap_or_default();
                assert!(said.starts_with("wild tcp"), "{said} after {wait} ms");
                assert!(start.elapsed() > Duration::from_millis(500), "{:?}", start.elapsed());
            });
        }
    });
    // A client asks for a name of a service that is being added.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            interceptor.ask(json!({ "add": service("web", &["web.example"], &[(80, 80)]) }))
        });
        eventually("the name is known", || asked(&lab, "web.example") != "REFUSED");
        assert!(get(&lab, "http://web.example/").unwrap_or_default().starts_with("web tcp"));
    });
    fs::remove_file(slow).unwrap();

    // The firewall refuses changes. Earlier names are answered and work, later ones wait for it.
    let broken = lab.folder.path().join("broken");
    fs::write(&broken, "").unwrap();
    interceptor.ask(json!({ "add": service("late", &["late.example"], &[(80, 80)]) }));
    for name in ["late.example", "b.wild.example", "b.wild.example"] {
        assert_eq!(asked(&lab, name), "SERVFAIL", "{name}");
    }
    assert!(get(&lab, "http://web.example/").unwrap_or_default().starts_with("web tcp"));
    // Without its rules, no name is answered.
    assert!(lab.run(Namespace::Gateway, "nft delete table inet weft_lab").status.success());
    eventually("the rules are missed", || asked(&lab, "web.example") == "SERVFAIL");
    fs::remove_file(broken).unwrap();
    for name in ["web.example", "late.example", "b.wild.example"] {
        eventually("the name is answered again", || asked(&lab, name).starts_with("100.64."));
        assert!(get(&lab, &format!("http://{name}/")).is_some(), "{name}");
    }
    interceptor.stop();
}
