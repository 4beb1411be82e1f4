use super::*;
use crate::config::{CheckAction, CheckProbe, Effect, Trigger};

fn read(kind: &str, text: &str) -> Result<Vec<HostConfig>> {
    HostConfig::read(&[(kind.to_owned(), text.to_owned())].into())
}

fn one(text: &str) -> HostConfig {
    read("host.v1", text).unwrap().remove(0)
}

fn problem(text: &str) -> String {
    read("host.v1", text).unwrap_err().to_string()
}

#[test]
fn a_fixed_address_needs_nothing_of_the_dialer() {
    let config =
        one(r#"{"protocol":"tcp","address":"localhost","port":8080,"listenOptions":{"cost":10,
            "precedence":"required","connectTimeout":"3s","maxConnections":5,
            "identity":"of $tunneler_id.name"}}"#);
    let target = config.target(&AppData::parse(b"").unwrap()).unwrap();
    let host = TargetHost::Name("localhost".into(), Reach::Any);
    assert_eq!(target, CircuitTarget { protocol: Protocol::Tcp, host, port: 8080 });
    assert_eq!(config.connect_timeout, Duration::from_secs(3));
    assert_eq!((config.cost, config.precedence), (Some(10), Some(TerminatorPrecedence::Required)));
    assert_eq!(config.max_connections, 5);
    let identity = Identity { name: "r1".into(), ..Identity::default() };
    assert_eq!(config.instance(&identity), "of r1");
    for address in ["::1", "[::1]"] {
        let config = HostConfig::fixed(Protocol::Udp, address, 5);
        let target = config.target(&AppData::default()).unwrap();
        assert_eq!(target.host, TargetHost::Address("::1".parse().unwrap()), "{address}");
    }
}

#[test]
fn what_is_forwarded_stays_in_bounds() {
    let config = one(r#"{"forwardProtocol":true,"allowedProtocols":["tcp"],"forwardAddress":true,
            "allowedAddresses":["*.corp.example","10.20.0.0/16"],"forwardPort":true,
            "allowedPortRanges":[{"low":440,"high":450}]}"#);
    let target = |text: &str| config.target(&AppData::parse(text.as_bytes()).unwrap());
    let good =
        target(r#"{"dst_protocol":"tcp","dst_hostname":"web.corp.example","dst_port":"443"}"#);
    assert!(matches!(good.unwrap().host, TargetHost::Name(name, _) if name == "web.corp.example"));
    let port = target(r#"{"dst_protocol":"tcp","dst_ip":"10.20.0.9","dst_port":"80"}"#);
    assert_eq!(port.unwrap_err().cause, RefusalCause::PortNotAllowed);
    let wrapped = target(r#"{"dst_protocol":"tcp","dst_ip":"10.20.0.9","dst_port":"65979"}"#);
    assert_eq!(wrapped.unwrap_err().cause, RefusalCause::PortNotAllowed);
    let udp = target(r#"{"dst_protocol":"udp","dst_ip":"10.20.0.9","dst_port":"443"}"#);
    assert!(udp.unwrap_err().message.contains("is not in allowed protocols"));
    let address = target(r#"{"dst_protocol":"tcp","dst_ip":"10.21.0.9","dst_port":"443"}"#);
    assert!(address.unwrap_err().message.contains("is not in allowed addresses"));
}

#[test]
fn incomplete_configs_host_nothing_and_say_why() {
    assert_eq!(problem(r#"{"protocol":"tcp","port":1}"#), "host.v1: address: is missing");
    let wrong = problem(r#"{"protocol":"tcp","address":"a","forwardPort":true}"#);
    assert!(wrong.starts_with("host.v1: allowedPortRanges: no value is allowed"), "{wrong}");
    assert!(read("host.v1", "{").is_err());
    assert!(read("intercept.v1", "{}").unwrap().is_empty());
    let with =
        |more: &str| problem(&format!(r#"{{"protocol":"tcp","address":"a","port":1,{more}}}"#));
    let wrong = with(r#""proxy":{"type":"socks","address":"p:1"}"#);
    assert_eq!(wrong, "host.v1: proxy.type: `socks` is not offered, only http is");
    assert!(with(r#""proxy":{"type":"http","address":"p"}"#).contains("proxy.address"));
    assert!(with(r#""listenOptions":{"cost":70000}"#).contains("listenOptions.cost"));
    assert!(with(r#""listenOptions":{"connectTimeout":"0s"}"#).contains("connectTimeout"));
    let mixed = r#""forwardAddressTranslations":[{"from":"1.2.3.4","to":"::1","prefixLength":8}]"#;
    assert!(with(mixed).contains("forwardAddressTranslations[0]"));
    let second =
        r#"{"terminators":[{"protocol":"tcp","address":"a","port":1},{"protocol":"tcp"}]}"#;
    let wrong = read("host.v2", second).unwrap_err().to_string();
    assert_eq!(wrong, "host.v2: terminators[1].port: is missing");
}

#[test]
fn other_forms_are_read() {
    let old = read("ziti-tunneler-server.v1", r#"{"hostname":"h","port":5}"#).unwrap();
    let target = old[0].target(&AppData::parse(b"{}").unwrap()).unwrap();
    assert_eq!((target.protocol, target.port), (Protocol::Tcp, 5));
    let two = r#"{"terminators":[{"protocol":"tcp","address":"a","port":1},
        {"protocol":"udp","address":"b","port":2}]}"#;
    assert_eq!(read("host.v2", two).unwrap().len(), 2);
    let proxied = one(
        r#"{"protocol":"tcp","address":"a","port":1,"proxy":{"type":"http","address":"[::1]:80"},
            "allowedSourceAddresses":["10.0.0.0/8"]}"#,
    );
    let proxy = proxied.proxy.unwrap();
    assert_eq!((&*proxy.host, proxy.port), ("::1", 80));
    assert!(proxied.allowed_sources.is_some() && proxied.left_out.is_empty());
}

#[test]
fn checks_of_a_terminator_are_bounded() {
    let check = r#"{"interval":"5s","timeout":"1s","address":"h:1"}"#;
    let request = r#"{"interval":"5s","timeout":"1s","url":"http://h"}"#;
    let with = |ports: usize, https: usize| {
        let (ports, https) = (vec![check; ports].join(","), vec![request; https].join(","));
        one(&format!(
            r#"{{"protocol":"tcp","address":"a","port":1,"portChecks":[{ports}],"httpChecks":[{https}]}}"#
        ))
    };
    assert_eq!(with(32, 32).checks.len(), 64);
    for (ports, https, member) in [(65, 0, "portChecks"), (32, 33, "httpChecks")] {
        let config = with(ports, https);
        assert!(config.checks.is_empty(), "hosted without checks");
        let problem = config.checks_problem.unwrap();
        assert_eq!(problem.member, member);
        assert!(problem.problem.contains("65 checks"), "{problem}");
    }
}

#[test]
fn terminators_and_all_their_checks_are_bounded() {
    let check = r#"{"interval":"5s","timeout":"1s","address":"h:1"}"#;
    let with = |terminators: usize, checks: usize| {
        let checks = vec![check; checks].join(",");
        let one = format!(r#"{{"protocol":"tcp","address":"a","port":1,"portChecks":[{checks}]}}"#);
        let all = vec![one.as_str(); terminators].join(",");
        read("host.v2", &format!(r#"{{"terminators":[{all}]}}"#))
    };
    assert_eq!(with(128, 4).unwrap().iter().map(|it| it.checks.len()).sum::<usize>(), 512);
    let many = with(129, 0).unwrap_err().to_string();
    assert_eq!(many, "host.v2: terminators: 129 are too many, at most 128");
    let read = with(9, 64).unwrap();
    assert!(read[..8].iter().all(|it| it.checks.len() == 64 && it.checks_problem.is_none()));
    assert!(read[8].checks.is_empty(), "hosted without checks");
    let problem = read[8].checks_problem.as_ref().unwrap().to_string();
    assert!(problem.starts_with("host.v2: terminators[8]: 64 checks"), "{problem}");
}

#[test]
fn checks_are_read_whole_or_not_at_all() {
    let with =
        |checks: &str| one(&format!(r#"{{"protocol":"tcp","address":"a","port":1,{checks}}}"#));
    let config = with(
        r#""portChecks":[{"interval":"5s","timeout":"100ms","address":"localhost:80","actions":[
            {"trigger":"fail","action":"increase cost 10","consecutiveEvents":3,"duration":"1m"},
            {"trigger":"change","action":"send event"}]}],
        "httpChecks":[{"interval":"1ms","timeout":"1s","url":"http://h/x","method":"post",
            "body":"b","expectStatus":204,"expectInBody":"ok"}]"#,
    );
    let [port, http] = config.checks.as_slice() else { panic!("two checks") };
    assert_eq!(port.probe, CheckProbe::Port("localhost:80".into()));
    let first = CheckAction {
        trigger: Trigger::Fail,
        consecutive_events: Some(3),
        duration: Some(Duration::from_secs(60)),
        effect: Effect::IncreaseCost(10),
    };
    assert_eq!(port.actions[0], first);
    let CheckProbe::Http(request) = &http.probe else { panic!("a request") };
    assert_eq!((request.method, request.expect_status), ("POST", 204));
    assert_eq!(http.interval, Duration::from_secs(1), "no more often");
    for (wrong, member) in [
        (r#""action":"increase cost 0""#, "portChecks[0].actions[0].action"),
        (r#""action":"increase cost 65536""#, "portChecks[0].actions[0].action"),
        (r#""action":"panic""#, "portChecks[0].actions[0].action"),
        (r#""action":"send event","duration":"x""#, "portChecks[0].actions[0].duration"),
    ] {
        let config = with(&format!(
            r#""portChecks":[{{"interval":"5s","timeout":"1s","address":"h:1","actions":[
                {{"trigger":"fail",{wrong}}}]}}]"#
        ));
        assert!(config.checks.is_empty(), "hosted without checks");
        assert_eq!(config.checks_problem.unwrap().member, member);
    }
}
