//! The section `link` of a router, in its file and from a controller.

use super::router;
use super::router::BARE;

#[test]
fn a_link_may_be_silent_as_long_as_the_nearest_key_says() {
    let silent = |more: &str| {
        let config = router(&format!("{BARE}{more}")).unwrap().config;
        config.link.heartbeats.close_unresponsive.map(|time| time.as_secs())
    };
    assert_eq!(silent(""), Some(10));
    let forwarder = "forwarder: {unresponsiveLinkTimeout: 20s}\n";
    assert_eq!(silent(forwarder), Some(20));
    assert_eq!(silent("forwarder: {unresponsiveLinkTimeout: 7000}\n"), Some(7));
    let with = |heartbeats: &str| format!("{forwarder}link: {{heartbeats: {heartbeats}}}\n");
    assert_eq!(silent(&with("{sendInterval: 5s}")), Some(20));
    assert_eq!(silent(&with("{closeUnresponsiveTimeout: 9s}")), Some(9));
    assert_eq!(silent(&with("{closeUnresponsiveTimeout: 0s}")), None);
}

#[test]
fn only_the_family_of_links_has_versions() {
    let allow =
        |names: &str| router(&format!("{BARE}managedConfig: {{allow: [{names}]}}")).unwrap().config;
    assert!(!allow("").allows_managed("router.link.v1"));
    assert!(allow("all").allows_managed("anything"));
    assert!(allow("router.link").allows_managed("router.link.v12"));
    assert!(!allow("router.link").allows_managed("router.link.vx"));
    assert!(!allow("router.link").allows_managed("router.link.v"));
    assert!(allow("x.v1").allows_managed("x.v1"));
}

#[test]
fn of_two_interfaces_to_dial_from_the_one_of_bind_interface_counts() {
    let of = |more: &str| {
        let link = format!("link: {{dialers: [{{binding: transport{more}}}]}}\n");
        let dialers = router(&format!("{BARE}{link}")).unwrap().config.link.dialers;
        dialers.into_iter().next().unwrap().bind.unwrap_or_default()
    };
    assert_eq!(of(", bind: eth0, bindInterface: eth1"), "eth1");
    assert_eq!(of(", bind: eth0, bindInterface: ''"), "eth0");
    assert_eq!((of(", bind: eth0"), of(", bindInterface: eth1")), ("eth0".into(), "eth1".into()));
    assert_eq!(of(""), "");
}

#[test]
fn links_that_a_controller_sets_are_read_like_those_of_a_file() {
    use crate::router::LinkConfig;
    let read = |json: &str| LinkConfig::from_managed(json, std::time::Duration::from_secs(60));
    let json = r#"{
        "listeners": [{"bind": "tls:0.0.0.0:6262", "advertise": "tls:r1.example:6262", "groups": "blue"}],
        "dialers": [{"binding": "transport", "bindInterface": "eth0", "maxAckConnections": 0}],
        "heartbeats": {"sendInterval": "7s"}
}"#;
    let (config, warnings) = read(json).unwrap();
    assert_eq!((config.listeners[0].groups[0].as_str(), warnings.as_str()), ("blue", ""));
    assert_eq!(config.dialers[0].bind.as_deref(), Some("eth0"));
    assert_eq!(config.heartbeats.send_interval.as_secs(), 7);
    let empty = read("{}").unwrap().0;
    assert!(empty.listeners.is_empty() && empty.dialers.is_empty());

    // A variable of the environment is not replaced.
    let variable = r#"{"listeners": [{"bind": "tls:0.0.0.0:1", "advertise": "tls:$HOME:1"}]}"#;
    assert_eq!(read(variable).unwrap().0.listeners[0].advertise.host, "$HOME");
    for (json, said) in [
        ("{", "line "),
        ("[]", "no object"),
        (r#"{"listeners": [{}]}"#, "listeners[0].bind"),
        (r#"{"listeners": [{"bind": "nowhere"}]}"#, "listeners[0].bind"),
        (r#"{"dialers": [{"binding": "pigeon"}]}"#, "dialers[0].binding"),
        (r#"{"dialers": [{"maxDefaultConnections": 101}]}"#, "dialers[0].maxDefaultConnections"),
        (r#"{"dialers": 7}"#, "dialers"),
    ] {
        let error = read(json).unwrap_err();
        assert!(error.contains(said), "{json}: {error}");
    }
    let many = vec![r#"{"binding": "transport"}"#; 65].join(", ");
    assert!(read(&format!("{{\"dialers\": [{many}]}}")).unwrap_err().contains("more than 64"));
    assert!(read(&" ".repeat(crate::MAX_FILE_BYTES + 1)).unwrap_err().contains("longer than"));
}
