//! Many services, connections and conversations, none of which leaves anything behind.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::lab::{Interceptor, Lab, Namespace, eventually, service};

/// A thousand services of all kinds.
fn thousand() -> Vec<Value> {
    let one = |index: usize| {
        let (high, low) = (index >> 8, index & 255);
        let mut service = service(
            &format!("service-{index}"),
            &[
                &format!("10.99.{high}.{low}"),
                &format!("host-{index}.example"),
                &format!("*.wild-{index}.example"),
                &format!("fd99::{index:x}"),
                &format!("10.{}.0.0/16", 100 + index % 100),
            ],
            &[(443, 443), (1000 + index as u16, 1100 + index as u16)],
        );
        if index.is_multiple_of(10) {
            service["sources"] = json!(["10.77.0.0/16", "fd77::/16"]);
        }
        service
    };
    (0..1000).map(one).collect()
}

/// Rules, not counting elements of sets.
fn rules(lab: &Lab) -> usize {
    let listed = lab.says(Namespace::Gateway, "nft --terse list ruleset").unwrap();
    listed.lines().count()
}

fn without_tasks(mut counts: Value) -> Value {
    counts.as_object_mut().unwrap().remove("tasks");
    counts
}

#[test]
fn a_thousand_services_are_a_handful_of_rules() {
    let Some(lab) = Lab::new() else { return };
    let mut interceptor = lab.interceptor(json!({}));
    let (empty, none) = (rules(&lab), interceptor.counts());
    let services = thousand();
    let start = Instant::now();
    interceptor.set(&services);
    eprintln!("1,000 services: {:?}", start.elapsed());
    let get = |url: &str| lab.says(Namespace::Client, &format!("curl -sS --max-time 10 {url}"));
    let all = interceptor.counts();
    assert_eq!(all["services"], 1000);
    assert_eq!(all["names"], 1000);
    assert!(rules(&lab) <= empty + 30, "{} rules, {empty} before", rules(&lab));
    for index in [0, 7, 255, 256, 999] {
        let said = get(&format!("https://10.99.{}.{}:443/ -k", index >> 8, index & 255));
        assert_eq!(said, None, "no TLS there");
        let host = get(&format!("http://host-{index}.example:443/")).unwrap();
        assert!(host.starts_with(&format!("service-{index} tcp")), "{host}");
        let wild = get(&format!("http://x.wild-{index}.example:{}/", 1000 + index)).unwrap();
        assert!(wild.starts_with(&format!("service-{index} tcp")), "{wild}");
    }
    // One more service costs one change, not a thousand.
    let start = Instant::now();
    interceptor
        .ask(json!({ "add": service("more", &["more.example", "10.97.0.0/16"], &[(80, 80)]) }));
    let one = start.elapsed();
    eprintln!("one more: {one:?}");
    assert!(get("http://more.example/").unwrap().starts_with("more tcp"));
    interceptor.ask(json!({ "remove": "more" }));
    // Setting the same services again changes nothing, and removing all leaves nothing.
    interceptor.set(&services);
    assert_eq!(
        interceptor.counts()["elements"].as_u64().unwrap(),
        all["elements"].as_u64().unwrap() + 20
    );
    let start = Instant::now();
    interceptor.set(&[]);
    eprintln!("all away: {:?}", start.elapsed());
    assert_eq!(without_tasks(interceptor.counts()), without_tasks(none));
    assert_eq!(rules(&lab), empty);
}

fn dial(lab: &Lab, count: usize, pause: Duration) {
    let program = std::env::current_exe().unwrap();
    let options =
        json!({ "count": count, "first": 0, "services": 1000, "pause": pause.as_micros() as u64 });
    let run = format!("WEFT_LAB_DIALS='{options}' {} program::dials --exact", program.display());
    let output = lab.run(Namespace::Client, &run);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn settled(interceptor: &mut Interceptor, before: &Value, descriptors: usize) {
    let mut counts = Value::Null;
    eventually("connections, tasks and files go", || {
        counts = interceptor.counts();
        counts == *before && interceptor.descriptors() <= descriptors
    });
}

/// 10,000 connections as fast as possible; with `WEFT_LONG=1`, 10,000 in each of five minutes.
#[test]
fn ten_thousand_short_connections_leave_nothing() {
    let Some(lab) = Lab::new() else { return };
    let mut interceptor = lab.interceptor(json!({}));
    interceptor.set(&thousand());
    // A first round makes the buffers, timers and threads that stay.
    dial(&lab, 100, Duration::ZERO);
    eventually("all are over", || interceptor.counts()["connections"] == 0);
    let (before, descriptors, rules_before) =
        (interceptor.counts(), interceptor.descriptors(), rules(&lab));
    let long = std::env::var("WEFT_LONG").is_ok();
    for minute in 0..if long { 5 } else { 1 } {
        let start = Instant::now();
        dial(&lab, 10_000, if long { Duration::from_millis(6) } else { Duration::ZERO });
        eprintln!("minute {minute}: 10,000 connections in {:?}", start.elapsed());
        settled(&mut interceptor, &before, descriptors);
        assert_eq!(rules(&lab), rules_before);
    }
    interceptor.stop();
}

#[test]
fn conversations_of_datagrams_are_bounded_and_end() {
    let Some(lab) = Lab::new() else { return };
    let mut interceptor = lab.interceptor(json!({ "idle": 5, "conversations": 50 }));
    interceptor.set(&[service("udp", &["10.99.0.0/16"], &[(1, 65_535)])]);
    let descriptors = interceptor.descriptors();
    // One client's datagrams from one port to two destinations are two conversations.
    let to = |port: u16, text: &str, host: &str| {
        lab.says(Namespace::Client, &format!("printf {text} | nc -u -w 1 -W 1 -p {port} {host} 9"))
    };
    assert_eq!(to(4000, "who", "10.99.0.1").unwrap(), "udp udp 10.77.1.2 10.99.0.1:9 -");
    assert_eq!(to(4000, "who", "10.99.0.2").unwrap(), "udp udp 10.77.1.2 10.99.0.2:9 -");
    assert_eq!(interceptor.counts()["conversations"], 2);
    assert_eq!(to(4000, "count", "10.99.0.1").unwrap(), "2");
    // A new conversation takes the place of one that has ended.
    assert_eq!(to(4000, "end", "10.99.0.1").unwrap(), "ended");
    assert_eq!(to(4000, "count", "10.99.0.1").unwrap(), "1");
    eventually("idle conversations end", || interceptor.counts()["conversations"] == 0);

    // A flood opens at most the allowed number of conversations, and other clients get
    // conversations once it is over.
    let flood = "import socket\n\
         for n in range(2000):\n  \
           s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n  \
           s.sendto(b'x', ('10.99.%d.%d' % (n >> 8, n & 255), 1 + n))\n  s.close()\n";
    let output = lab.run(Namespace::Client, &format!("python3 -c \"{flood}\""));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(interceptor.counts()["conversations"].as_u64().unwrap() <= 50);
    eventually("another client gets a conversation", || {
        lab.says(Namespace::Gateway, "printf count | nc -u -w 1 -W 1 10.99.3.3 7").as_deref()
            == Some("1")
    });
    eventually("all conversations are over", || {
        interceptor.counts()["conversations"] == 0 && interceptor.descriptors() <= descriptors
    });
    // Removing a service ends its conversations.
    assert_eq!(to(4001, "count", "10.99.0.1").unwrap(), "1");
    interceptor.ask(json!({ "remove": "udp" }));
    assert_eq!(interceptor.counts()["conversations"], 0);
}

#[test]
fn a_flood_of_datagrams_keeps_nobody_out() {
    let Some(lab) = Lab::new() else { return };
    let mut interceptor = lab.interceptor(json!({ "conversations": 50 }));
    interceptor.set(&[service("udp", &["10.99.0.0/16"], &[(1, 65_535)])]);
    let flood = "import socket, time\n\
         while True:\n  \
           s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n  \
           s.sendto(b'x', ('10.99.0.1', 9))\n  s.close()\n  time.sleep(0.002)\n";
    std::fs::write(lab.folder.path().join("flood.py"), flood).unwrap();
    let run = format!("python3 {}/flood.py", lab.folder.path().display());
    let _flood = lab.spawn(Namespace::Client, &run);
    eventually("all conversations are taken", || interceptor.counts()["conversations"] == 50);
    // Another client gets a conversation and keeps it: two datagrams, some time apart.
    let talk = "import socket, time\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         s.settimeout(2)\n\
         def ask():\n  \
           for _ in range(5):\n    \
             try:\n      \
               s.sendto(b'count', ('10.99.3.3', 7))\n      return int(s.recv(100))\n    \
             except TimeoutError: pass\n\
         first = ask()\n\
         time.sleep(3)\n\
         print(ask() - first)\n";
    std::fs::write(lab.folder.path().join("talk.py"), talk).unwrap();
    let run = format!("python3 {}/talk.py", lab.folder.path().display());
    assert_eq!(lab.says(Namespace::Gateway, &run).as_deref(), Some("1"));
    assert!(interceptor.counts()["conversations"].as_u64().unwrap() <= 51);
}

#[test]
fn idle_connections_to_the_dns_server_keep_nobody_out() {
    let Some(lab) = Lab::new() else { return };
    let mut interceptor = lab.interceptor(json!({}));
    interceptor.set(&[service("web", &["web.example"], &[(80, 80)])]);
    // A client opens connections from so many addresses that no room is left, and opens each again
    // as soon as it ends.
    let hold = "import socket, threading, time\n\
         def hold(last):\n  \
           while True:\n    \
             try:\n      \
               s = socket.create_connection(('10.77.1.1', 53), 5, ('10.77.1.%d' % last, 0))\n      \
               s.settimeout(60)\n      s.recv(1)\n      s.close()\n    \
             except OSError: pass\n    \
             time.sleep(0.1)\n\
         for n in range(200):\n  \
           threading.Thread(target=hold, args=(100 + n % 10,)).start()\n";
    std::fs::write(lab.folder.path().join("hold.py"), hold).unwrap();
    let addresses = "for n in $(seq 100 109); do ip addr add 10.77.1.$n/24 dev eth0; done";
    assert!(lab.run(Namespace::Client, addresses).status.success());
    let run = format!("python3 {}/hold.py", lab.folder.path().display());
    let _holding = lab.spawn(Namespace::Client, &run);
    let count = "ss -Htn state established '( sport = :53 )' | wc -l";
    let held = || lab.says(Namespace::Gateway, count).and_then(|count| count.parse::<usize>().ok());
    eventually("all are taken", || held().is_some_and(|count| count >= 128));
    for _ in 0..5 {
        let ask = "dig @127.0.0.1 +tcp +short +tries=1 +time=2 web.example";
        let said = lab.says(Namespace::Gateway, ask).unwrap_or_default();
        assert!(said.starts_with("100.64."), "{said}");
    }
}

#[test]
fn connections_of_one_client_are_bounded() {
    let Some(lab) = Lab::new() else { return };
    let mut interceptor = lab.interceptor(json!({ "connections": 20 }));
    interceptor.set(&[service("tcp", &["10.99.0.0/16"], &[(1, 65_535)])]);
    let holders: Vec<_> =
        (0..30).map(|_| lab.spawn(Namespace::Client, "nc -d 10.99.0.1 80")).collect();
    eventually("20 are there", || interceptor.counts()["connections"] == 20);
    assert_eq!(lab.says(Namespace::Client, "curl -sS --max-time 5 http://10.99.0.1/"), None);
    assert!(lab.says(Namespace::Gateway, "curl -sS --max-time 5 http://10.99.0.1/").is_some());
    drop(holders);
    eventually("they are gone", || interceptor.counts()["connections"] == 0);
    assert!(lab.says(Namespace::Client, "curl -sS --max-time 5 http://10.99.0.1/").is_some());
}

#[test]
fn a_flood_of_names_is_bounded() {
    let Some(lab) = Lab::new() else { return };
    let mut interceptor = lab.interceptor(json!({}));
    interceptor.set(&[service("wild", &["*.wild.example"], &[(80, 80)])]);
    let flood = "import socket,struct\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         for n in range(20000):\n  \
           name = b'%c%s' % (8, b'n%07d' % n) + b'\\x04wild\\x07example\\x00'\n  \
           s.sendto(struct.pack('>HHHHHH', n & 65535, 256, 1, 0, 0, 0) + name + struct.pack('>HH', 1, 1), ('10.77.1.1', 53))\n";
    std::fs::write(lab.folder.path().join("flood.py"), flood).unwrap();
    let run = format!("python3 {}/flood.py", lab.folder.path().display());
    assert!(lab.run(Namespace::Client, &run).status.success());
    // The resolver of this machine goes on working for names that were assigned before.
    interceptor.ask(json!({ "add": service("web", &["web.example"], &[(80, 80)]) }));
    eventually("names are answered", || {
        lab.says(Namespace::Gateway, "dig @127.0.0.1 +short +tries=1 +time=2 web.example")
            .is_some_and(|said| !said.is_empty())
    });
    let names = interceptor.counts()["names"].as_u64().unwrap();
    assert!((1..5000).contains(&names), "{names} names");
    interceptor.set(&[]);
    assert_eq!(interceptor.counts()["elements"], 0);
}
