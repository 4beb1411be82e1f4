//! Clients that are intercepted, their services, and other traffic, which is left as it is.

use serde_json::{Value, json};

use crate::lab::{Lab, Namespace, eventually, service};

fn curl(lab: &Lab, namespace: Namespace, url: &str) -> Option<String> {
    lab.says(namespace, &format!("curl -sS --max-time 10 '{url}'"))
}

/// True if nobody answers. Every service of a lab answers within a fraction of this time.
fn is_unanswered(lab: &Lab, namespace: Namespace, url: &str) -> bool {
    lab.says(namespace, &format!("curl -sS --max-time 3 '{url}'")).is_none()
}

/// The answer of a service to a datagram.
fn datagram(lab: &Lab, namespace: Namespace, text: &str, host: &str, port: u16) -> Option<String> {
    lab.says(namespace, &format!("printf {text} | nc -u -w 2 -W 1 {host} {port}"))
}

/// Checks interception with these options; called for `nft` and for `iptables`.
fn everything_goes_where_it_should(options: Value) {
    let Some(lab) = Lab::new() else { return };
    let before = lab.system();
    let mut interceptor = lab.interceptor(options);
    interceptor.set(&[
        service("web", &["Web.Corp.Example"], &[(80, 80), (8000, 8010)]),
        service("ssh", &["web.corp.example"], &[(22, 22)]),
        service("wild", &["*.lab.example"], &[(80, 80)]),
        service("net", &["10.99.0.0/16", "fd99::/64"], &[(1, 1000)]),
        service("host", &["10.99.1.1"], &[(80, 80)]),
    ]);
    for namespace in [Namespace::Client, Namespace::Gateway] {
        let (own4, own6) = match namespace {
            Namespace::Client => ("10.77.1.2", Some("fd77:1::2")),
            // A machine uses the address of the names' range where it has no other way there.
            _ => ("100.64.0.1", None),
        };
        let get = |url: &str| curl(&lab, namespace, url);
        let from = |text: String, own: &str| text.replace("SOURCE", own);
        assert_eq!(
            get("http://web.corp.example/"),
            Some(from("web tcp SOURCE 100.64.0.2:80 web.corp.example".into(), own4)),
            "{namespace:?}"
        );
        assert_eq!(
            get("http://WEB.corp.example:8010/"),
            Some(from("web tcp SOURCE 100.64.0.2:8010 web.corp.example".into(), own4))
        );
        let ssh = get("http://web.corp.example:22/").unwrap();
        assert!(ssh.starts_with("ssh tcp") && ssh.ends_with(":22 web.corp.example"), "{ssh}");
        let wild = get("http://a.b.lab.example/").unwrap();
        assert!(wild.starts_with("wild tcp") && wild.ends_with(":80 a.b.lab.example"), "{wild}");
        let bare = "http://lab.example/";
        assert!(is_unanswered(&lab, namespace, bare), "a wildcard has only what is below it");
        assert_eq!(
            get("http://10.99.2.2/"),
            Some(from("net tcp SOURCE 10.99.2.2:80 -".into(), own4))
        );
        assert_eq!(
            get("http://10.99.1.1/"),
            Some(from("host tcp SOURCE 10.99.1.1:80 -".into(), own4))
        );
        assert_eq!(
            get("http://10.99.1.1:1000/"),
            Some(from("net tcp SOURCE 10.99.1.1:1000 -".into(), own4))
        );
        let v6 = get("http://[fd99::5]:443/").unwrap();
        assert!(v6.ends_with(" [fd99::5]:443 -"), "{v6}");
        if let Some(own6) = own6 {
            assert!(v6.contains(own6), "{v6}");
        }
        for outside in
            ["http://10.99.2.2:1001/", "http://10.98.0.1/", "http://web.corp.example:81/"]
        {
            assert!(is_unanswered(&lab, namespace, outside), "{outside}");
        }
        let who = datagram(&lab, namespace, "who", "10.99.3.3", 53).unwrap();
        assert_eq!(who, from("net udp SOURCE 10.99.3.3:53 -".into(), own4));
        let who = datagram(&lab, namespace, "who", "fd99::9", 53).unwrap();
        assert!(who.ends_with(" [fd99::9]:53 -"), "{who}");
        let who = datagram(&lab, namespace, "who", "web.corp.example", 80).unwrap();
        assert!(who.ends_with(" 100.64.0.2:80 web.corp.example"), "{who}");
    }
    // Packets that come in over another interface are not intercepted.
    assert!(is_unanswered(&lab, Namespace::Other, "http://10.99.2.2/"));
    interceptor.stop();
    assert_eq!(lab.system(), before);
    assert!(is_unanswered(&lab, Namespace::Client, "http://10.99.2.2/"));
}

#[test]
fn everything_goes_where_it_should_by_nftables() {
    everything_goes_where_it_should(json!({}));
}

#[test]
fn everything_goes_where_it_should_by_iptables() {
    everything_goes_where_it_should(json!({ "firewall": "iptables" }));
}

#[test]
fn a_client_has_a_conversation_with_each_destination() {
    let Some(lab) = Lab::new() else { return };
    let mut interceptor = lab.interceptor(json!({}));
    interceptor.set(&[service("net", &["10.99.0.0/16"], &[(53, 53)])]);
    for host in ["10.99.3.3", "10.99.3.4", "10.99.3.3"] {
        let ask = format!("printf who | nc -u -p 4000 -w 2 -W 1 {host} 53");
        let who = lab.says(Namespace::Client, &ask).unwrap();
        assert_eq!(who, format!("net udp 10.77.1.2 {host}:53 -"));
    }
    interceptor.stop();
}

#[test]
fn sources_interfaces_and_exceptions_are_kept() {
    let Some(lab) = Lab::new() else { return };
    // A service has all addresses, except those that this machine and its operator exclude.
    let options = json!({
        "interfaces": ["lan0", "lan1"],
        "exclude": ["10.77.2.2:7000", "fd77:2::2"],
        "keep": ["ctrl.example"],
    });
    let mut interceptor = lab.interceptor(options);
    let from = |id: &str, address: &str, sources: &[&str]| {
        let mut service = service(id, &[address], &[(80, 7000)]);
        service["sources"] = json!(sources);
        service
    };
    interceptor.set(&[
        service("all", &["0.0.0.0/0", "::/0", "*"], &[(1, 65_535)]),
        from("clients", "10.99.0.0/16", &["10.77.1.0/24", "fd77:1::/64"]),
        from("client", "10.99.0.0/16", &["10.77.1.2"]),
        from("other", "fd99::/64", &["fd77:2::2"]),
    ]);
    let who = |namespace, url: &str| {
        let said = curl(&lab, namespace, url)?;
        Some(said.split(' ').next().unwrap().to_owned())
    };
    assert_eq!(who(Namespace::Client, "http://10.99.0.1/").as_deref(), Some("client"));
    assert_eq!(who(Namespace::Other, "http://10.99.0.1/").as_deref(), Some("all"));
    assert_eq!(who(Namespace::Other, "http://[fd99::1]/").as_deref(), Some("other"));
    assert_eq!(who(Namespace::Client, "http://[fd99::1]/").as_deref(), Some("all"));
    assert_eq!(who(Namespace::Client, "http://any.name.example/").as_deref(), Some("all"));
    assert_eq!(curl(&lab, Namespace::Client, "http://ctrl.example/"), None);

    // Servers on this machine and beyond it are reached as before.
    let serve = |namespace, at: &str, port: u16| {
        lab.spawn(
            namespace,
            &format!(
                "python3 -m http.server --bind {at} {port} --directory {}",
                lab.folder.path().display()
            ),
        )
    };
    let _servers = [
        serve(Namespace::Gateway, "10.77.1.1", 7000),
        serve(Namespace::Gateway, "fd77:1::1", 7000),
        serve(Namespace::Other, "10.77.2.2", 7000),
        serve(Namespace::Other, "10.77.2.2", 7001),
        serve(Namespace::Other, "fd77:2::2", 7000),
    ];
    assert!(
        lab.run(
            Namespace::Gateway,
            "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1"
        )
        .status
        .success()
    );
    let page = |url: &str| {
        eventually(url, || {
            curl(&lab, Namespace::Client, url)
                .is_some_and(|page| page.contains("Directory listing"))
        });
    };
    for url in [
        "http://10.77.1.1:7000/",
        "http://[fd77:1::1]:7000/",
        "http://10.77.2.2:7000/",
        "http://[fd77:2::2]:7000/",
    ] {
        page(url);
    }
    assert_eq!(who(Namespace::Client, "http://10.77.2.2:7001/").as_deref(), Some("all"));
    // A changed list of exclusions takes effect at once.
    interceptor.ask(json!({ "exclude": ["10.77.2.2:7001"] }));
    page("http://10.77.2.2:7001/");
    assert_eq!(who(Namespace::Client, "http://10.77.2.2:7000/").as_deref(), Some("all"));
    assert_eq!(who(Namespace::Gateway, "http://10.77.2.2:7000/").as_deref(), Some("all"));
}

#[test]
fn what_services_may_not_name_is_told() {
    let Some(lab) = Lab::new() else { return };
    let mut interceptor = lab.interceptor(json!({ "interfaces": "all" }));
    let odd =
        ["127.0.0.0/8", "0.0.0.0", "evil\"; flush ruleset; #", "100.64.1.1", "a\nb", "fe80::1"];
    let told = interceptor.ask(json!({ "set": [service("odd", &odd, &[(1, 65_535)])] }));
    assert_eq!(told["problems"].as_array().unwrap().len(), odd.len(), "{told}");
    interceptor.set(&[service("net", &["10.99.0.0/16"], &[(80, 80)])]);
    assert!(curl(&lab, Namespace::Other, "http://10.99.0.1/").is_some(), "all interfaces");
}

#[test]
fn names_are_answered_as_they_should() {
    let Some(lab) = Lab::new() else { return };
    let upstream = json!({ "listen": ["10.77.2.2:53"], "instance": "up", "names": "198.51.100.1/24",
        "interfaces": [] });
    let mut above = lab.interceptor_at(Namespace::Other, upstream).unwrap();
    above.set(&[service("up", &["up.example"], &[(80, 80)])]);
    let mut interceptor = lab.interceptor(json!({
        "upstream": ["10.77.2.2:53"],
        "clients": ["10.77.1.0/24"],
    }));
    interceptor.set(&[
        service("web", &["web.example"], &[(80, 80)]),
        service("wild", &["*.wild.example"], &[(80, 80)]),
        // Even with this service, the questions of the DNS server to its upstream are not
        // intercepted.
        service("dns", &["0.0.0.0/0"], &[(53, 53)]),
    ]);
    let dig = |what: &str| {
        let said = lab.says(Namespace::Client, &format!("dig @10.77.1.1 +tries=1 +time=3 {what}"));
        said.unwrap_or_default()
    };
    for way in ["", "+tcp", "+noedns", "+bufsize=4096"] {
        let known = dig(&format!("{way} Web.Example A"));
        assert!(known.contains("status: NOERROR") && known.contains(" aa "), "{way}: {known}");
        assert!(known.contains("Web.Example.\t\t60\tIN\tA\t100.64.0.2"), "{way}: {known}");
        let asked = dig(&format!("{way} up.example A"));
        assert!(asked.contains("IN\tA\t198.51.100.2"), "{way}: {asked}");
        let none = dig(&format!("{way} web.example AAAA"));
        assert!(none.contains("status: NOERROR") && none.contains("ANSWER: 0"), "{way}: {none}");
        for refused in ["other.example A", "other.example TXT", "wild.example A"] {
            let refused = dig(&format!("{way} {refused}"));
            assert!(refused.contains("status: REFUSED"), "{way}: {refused}");
        }
        // Names of a service have nothing but addresses; the last one's service is at the other server.
        for none in ["web.example MX", "web.example TYPE65", "a.wild.example NS", "up.example TXT"]
        {
            let none = dig(&format!("{way} {none}"));
            assert!(
                none.contains("status: NOERROR") && none.contains("ANSWER: 0"),
                "{way}: {none}"
            );
        }
    }
    // Records of names below a wildcard, and of its domain, come from the service's host.
    for way in ["+tcp", ""] {
        let asked = |what: &str| dig(&format!("{way} {what}"));
        let mail = asked("Wild.example MX");
        assert!(mail.contains("77\tIN\tMX\t10 wild.wild.example."), "{way}: {mail}");
        let server = asked("_sip._tcp.wild.example SRV");
        assert!(server.contains("SRV\t1 2 5060 wild._sip._tcp.wild.example."), "{way}: {server}");
        let text = asked("+short a.wild.example TXT").replace(['"', ' ', '\n'], "");
        assert_eq!(
            text,
            "t".repeat(700),
            "{way}: in strings of 255, over TCP if they are too long"
        );
        for none in ["none.wild.example MX", "silent.wild.example MX"] {
            let none = asked(none);
            assert!(
                none.contains("status: NOERROR") && none.contains("ANSWER: 0"),
                "{way}: {none}"
            );
        }
    }
    let first = dig("+short a.wild.example");
    assert!(first.starts_with("100.64."), "{first}");
    assert_eq!(dig("+short A.wild.example"), first);
    // A client that the options do not allow gets no answer.
    let other = lab.says(Namespace::Other, "dig @10.77.2.1 +tries=1 +time=1 web.example");
    assert_eq!(other, None);
    let looped = lab.interceptor_at(
        Namespace::Gateway,
        json!({ "instance": "b", "upstream": ["10.77.1.1:53"] }),
    );
    assert!(looped.err().unwrap().contains("would ask itself"));
}

#[test]
fn iperf3_goes_through() {
    let Some(lab) = Lab::new() else { return };
    let mut interceptor = lab.interceptor(json!({}));
    interceptor.set(&[service("pipe-5201", &["10.99.0.5", "perf.example"], &[(5201, 5201)])]);
    let _server = lab.spawn(Namespace::Gateway, "iperf3 --server --bind 127.0.0.1");
    for what in
        ["-c 10.99.0.5 -t 1", "-c perf.example -t 1 -R", "-c 10.99.0.5 -t 1 -u -b 20M -l 1200"]
    {
        // The server needs a moment to start, and between two clients.
        let mut report = Value::Null;
        eventually(what, || {
            let said =
                lab.says(Namespace::Client, &format!("iperf3 -J {what}")).unwrap_or_default();
            report = serde_json::from_str(&said).unwrap_or_default();
            report["end"]["streams"].is_array()
        });
        let sum = &report["end"];
        let bytes = [&sum["sum_received"]["bytes"], &sum["sum"]["bytes"]];
        assert!(bytes.iter().any(|bytes| bytes.as_u64() > Some(1_000_000)), "{what}: {sum}");
        if what.contains("-u") {
            let lost = sum["sum"]["lost_percent"].as_f64().unwrap();
            assert!(lost < 20.0, "{what}: {sum}");
        }
    }
}
