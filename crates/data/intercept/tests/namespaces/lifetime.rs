//! Starts, ends of all kinds, and changes by other programs meanwhile.

use serde_json::json;

use crate::lab::{Lab, Namespace, eventually, service};

fn reaches(lab: &Lab) -> bool {
    lab.says(Namespace::Client, "curl -sS --max-time 5 http://10.99.0.1/").is_some()
        && lab.says(Namespace::Client, "curl -sS --max-time 5 http://web.example/").is_some()
}

fn services() -> [serde_json::Value; 2] {
    let mut some = service("some", &["10.99.0.2", "fd99::2"], &[(80, 80)]);
    some["sources"] = json!(["10.77.1.0/24", "fd77:1::/64"]);
    [service("web", &["web.example", "10.99.0.1", "fd99::/64"], &[(80, 80)]), some]
}

/// Rules of other programs that look like those of the interceptor.
const OTHERS: &str = "ip rule add pref 7700 fwmark 0x9 lookup 99; ip rule add pref 7000 lookup 776600; \
     ip route add 192.0.2.0/24 dev lan0 table 99; nft add table inet weft_lab2; nft add table ip mine; \
     iptables -t mangle -N WEFT-lab2-P; ip addr add 100.100.0.1/32 dev lo";

fn after_a_kill_the_next_start_cleans_up(firewall: &str) {
    let Some(lab) = Lab::new() else { return };
    lab.run(Namespace::Gateway, OTHERS);
    let before = lab.system();
    let mut first = lab.interceptor(json!({ "firewall": firewall }));
    first.set(&services());
    assert!(reaches(&lab));
    first.kill();
    let left = lab.system();
    assert_ne!(left, before, "nobody could clean up");

    let second = lab.interceptor(json!({ "firewall": firewall }));
    assert!(!reaches(&lab), "it has no services yet");
    second.kill();
    let mut third = lab.interceptor(json!({ "firewall": firewall }));
    third.set(&services());
    assert!(reaches(&lab));
    // The next start makes the tables anew even if another program has removed them in between.
    third.kill();
    let flush = "nft delete table inet weft_lab; for t in iptables ip6tables; do $t -t mangle -F; \
                 for c in P O PN ON PM OM D; do $t -t mangle -X WEFT-lab-$c; done; done";
    lab.run(Namespace::Gateway, flush);
    let mut fourth = lab.interceptor(json!({ "firewall": firewall }));
    fourth.set(&services());
    assert!(reaches(&lab));
    fourth.stop();
    assert_eq!(lab.system(), before);
}

#[test]
fn after_a_kill_the_next_start_cleans_up_nftables() {
    after_a_kill_the_next_start_cleans_up("nftables");
}

#[test]
fn after_a_kill_the_next_start_cleans_up_iptables() {
    after_a_kill_the_next_start_cleans_up("iptables");
}

#[test]
fn two_of_one_name_do_not_fight_and_two_names_live_together() {
    let Some(lab) = Lab::new() else { return };
    let before = lab.system();
    let mut first = lab.interceptor(json!({}));
    first.set(&services());
    let same = lab.interceptor_at(Namespace::Gateway, json!({ "listen": [] }));
    assert!(same.err().unwrap().contains("another process intercepts as \"lab\""));
    let mut second =
        lab.interceptor(json!({ "instance": "two", "listen": [], "names": "198.18.0.1/24" }));
    second.set(&[service("two", &["10.98.0.1"], &[(80, 80)])]);
    assert!(reaches(&lab));
    assert!(lab.says(Namespace::Client, "curl -sS --max-time 5 http://10.98.0.1/").is_some());
    first.stop();
    assert!(lab.says(Namespace::Client, "curl -sS --max-time 5 http://10.98.0.1/").is_some());
    second.stop();
    assert_eq!(lab.system(), before);
}

#[test]
fn two_that_would_give_out_the_same_addresses_do_not_run_together() {
    let Some(lab) = Lab::new() else { return };
    let before = lab.system();
    let mut first = lab.interceptor(json!({}));
    first.set(&services());
    for names in ["100.64.0.1/10", "100.65.0.1/16", "100.0.0.1/8"] {
        let options = json!({ "instance": "two", "listen": [], "names": names });
        let told = lab.interceptor_at(Namespace::Gateway, options).err().unwrap();
        assert!(told.contains("100.64.0.1/10 of the interceptor \"lab\""), "{told}");
        assert!(told.contains("dnsSvcIpRange") && told.contains("--dns-range"), "{told}");
        assert!(reaches(&lab), "{names}");
    }
    // An interceptor that has ended, or was killed, does not stop another one; the other one does
    // not take its address, either.
    first.kill();
    lab.interceptor(json!({ "instance": "two", "listen": [] })).stop();
    let address = lab.says(Namespace::Gateway, "ip -o addr show dev lo").unwrap();
    assert!(address.contains(" 100.64.0.1/10 "), "the first one put it there: {address}");
    lab.interceptor(json!({})).stop();
    assert_eq!(lab.system(), before);
}

#[test]
fn an_address_that_somebody_took_away_comes_back() {
    let Some(lab) = Lab::new() else { return };
    lab.run(Namespace::Gateway, "ip addr add 100.64.0.1/10 dev lo");
    let mut interceptor = lab.interceptor(json!({}));
    interceptor.set(&services());
    assert!(reaches(&lab));
    lab.run(Namespace::Gateway, "ip addr del 100.64.0.1/10 dev lo");
    eventually("the address is there again", || {
        let there = lab.says(Namespace::Gateway, "ip -o addr show dev lo");
        there.is_some_and(|there| there.contains(" 100.64.0.1/10 "))
    });
    interceptor.stop();
    let there = lab.says(Namespace::Gateway, "ip -o addr show dev lo").unwrap();
    assert!(!there.contains("100.64.0.1"), "{there}");
}

#[test]
fn rules_that_somebody_flushed_come_back() {
    let Some(lab) = Lab::new() else { return };
    let mut interceptor = lab.interceptor(json!({}));
    interceptor.set(&services());
    lab.run(Namespace::Gateway, "nft flush ruleset");
    eventually("the rules are there again", || reaches(&lab));
    lab.run(Namespace::Gateway, "ip rule del pref 7700");
    eventually("the rule is there again", || reaches(&lab));
    // A change notices by itself that the rules are gone.
    lab.run(Namespace::Gateway, "nft flush ruleset");
    interceptor.ask(json!({ "add": service("more", &["10.99.0.9"], &[(80, 80)]) }));
    assert!(reaches(&lab));
}

/// The rules are added again, also if only the rules are gone and the chains are there.
fn rules_are_whole_again(firewall: &str, flush: &str) {
    let Some(lab) = Lab::new() else { return };
    let before = lab.system();
    let mut interceptor = lab.interceptor(json!({ "firewall": firewall }));
    interceptor.set(&services());
    assert!(reaches(&lab));
    assert!(lab.run(Namespace::Gateway, flush).status.success());
    assert!(!reaches(&lab));
    eventually("the rules are there again", || reaches(&lab));
    interceptor.stop();
    assert_eq!(lab.system(), before);
}

#[test]
fn rules_are_whole_again_after_a_flush_by_nftables() {
    rules_are_whole_again("nftables", "nft flush table inet weft_lab");
}

#[test]
fn rules_are_whole_again_after_a_flush_by_iptables() {
    rules_are_whole_again("iptables", "iptables -t mangle -F WEFT-lab-PM");
}

#[test]
fn what_the_other_kind_of_firewall_left_goes() {
    let Some(lab) = Lab::new() else { return };
    let before = lab.system();
    for (killed, started) in [("iptables", "nftables"), ("nftables", "iptables")] {
        let mut first = lab.interceptor(json!({ "firewall": killed }));
        first.set(&services());
        first.kill();
        let mut second = lab.interceptor(json!({ "firewall": started }));
        second.set(&services());
        assert!(reaches(&lab), "{killed}, then {started}");
        second.stop();
        assert_eq!(lab.system(), before, "{killed}, then {started}");
    }
}

#[test]
fn what_cannot_work_is_said_at_start() {
    let Some(lab) = Lab::new() else { return };
    let before = lab.system();
    for (options, told) in [
        (json!({ "interfaces": ["eth9"] }), "lanIf \"eth9\""),
        (json!({ "interfaces": ["lan0\" accept; #"] }), "no such network interface"),
        (json!({ "instance": "a b" }), "letters, digits"),
        (json!({ "names": "127.0.0.1/8" }), "dnsSvcIpRange"),
        (json!({ "names": "10.0.0.1/31" }), "dnsSvcIpRange"),
        (json!({ "listen": ["192.0.2.1:53"] }), "cannot listen at 192.0.2.1:53"),
    ] {
        let refused = lab.interceptor_at(Namespace::Gateway, options.clone()).err();
        assert!(
            refused.as_ref().is_some_and(|refused| refused.contains(told)),
            "{options}: {refused:?}"
        );
        assert_eq!(lab.system(), before, "{options}");
    }
    // The interceptor waits for a port that another program has.
    let other = lab.interceptor(json!({ "instance": "other", "names": "198.18.0.1/24" }));
    let mut interceptor = lab.interceptor(json!({}));
    interceptor.set(&services());
    assert!(!reaches(&lab));
    drop(other);
    eventually("the DNS server listens", || reaches(&lab));
}
