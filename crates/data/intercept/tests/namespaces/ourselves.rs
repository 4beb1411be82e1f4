//! Connections of the program that intercepts are never intercepted.

use serde_json::{Value, json};

use crate::lab::{Lab, Namespace, eventually, service};

fn our_own_connections_go_their_own_way(firewall: &str) {
    let Some(lab) = Lab::new() else { return };
    let above = json!({ "listen": ["10.77.2.2:53"], "instance": "up", "names": "198.51.100.1/24",
        "interfaces": [] });
    let mut above = lab.interceptor_at(Namespace::Other, above).unwrap();
    above.set(&[service("up", &["db.corp.example"], &[(80, 80)])]);
    let options = json!({ "firewall": firewall, "upstream": ["10.77.2.2:53"] });
    let mut interceptor = lab.interceptor(options);
    interceptor.set(&[
        service("wild", &["*.corp.example"], &[(80, 80)]),
        service("net", &["10.99.0.0/16", "fd99::/64", "10.77.2.0/24"], &[(1, 60_000)]),
    ]);
    let page = |namespace, url: &str| {
        lab.says(namespace, &format!("curl -sS --max-time 5 '{url}'")).unwrap_or_default()
    };
    assert!(page(Namespace::Gateway, "http://db.corp.example/").starts_with("wild tcp"));
    // A dial of a service's address does not reach a server of this machine that listens at all
    // addresses.
    let serve =
        |namespace| lab.spawn(namespace, "python3 -m http.server --bind :: 8080 --directory /sys");
    let _servers = [serve(Namespace::Gateway), serve(Namespace::Other)];
    let mut dial = |to: &str| interceptor.ask(json!({ "dial": to }))["reached"].clone();
    eventually("servers listen", || {
        ["127.0.0.1:8080", "10.77.1.1:8080", "100.64.0.1:8080", "10.77.2.2:8080"]
            .iter()
            .all(|at| dial(at).as_str().is_some_and(|page| page.contains("Directory listing")))
    });
    for taken in [
        "100.64.0.2:80",
        "100.64.0.2:8080",
        "10.99.0.1:80",
        "10.99.0.1:8080",
        "[fd99::1]:80",
        "[fd99::1]:8080",
    ] {
        assert_eq!(dial(taken), Value::Null, "{taken}");
    }
    // Clients do not reach that server at a service's address, either.
    let code = |port: u16| {
        let url = format!("http://100.64.0.2:{port}/");
        lab.run(Namespace::Client, &format!("curl -sS --max-time 5 {url}")).status.code()
    };
    assert_eq!(code(8080), Some(7), "refused");
    assert_eq!(code(80), Some(0));
    // The program's own look-ups of names go past the interceptor's DNS server, too.
    let found = interceptor.ask(json!({ "lookup": "db.corp.example" }));
    assert_eq!(found["found"], json!(["198.51.100.2"]));
    let found = interceptor.ask(json!({ "lookup": "none.corp.example" }));
    assert_eq!(found["found"], json!([]), "not an address of a service");
    assert!(page(Namespace::Client, "http://db.corp.example/").starts_with("wild tcp"));
}

#[test]
fn our_own_connections_go_their_own_way_by_nftables() {
    our_own_connections_go_their_own_way("nftables");
}

#[test]
fn our_own_connections_go_their_own_way_by_iptables() {
    our_own_connections_go_their_own_way("iptables");
}
