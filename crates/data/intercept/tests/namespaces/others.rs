//! Names in a hosts file, and packets that a program diverts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::json;

use crate::lab::{Lab, Namespace, eventually, service};

/// A program that diverts packets, for tests: it records its calls, and carries them out by
/// iptables.
const DIVERT: &str = r##"#!/bin/sh
echo "$@" >>@HERE@/calls
test "$1" = -V && echo 1.0 && exit 0
verb=$1 to= bits= proto= from= fbits= low= high= port=
while [ $# -gt 0 ]; do
  case $1 in
    -c) to=$2; shift;; -m) bits=$2; shift;; -p) proto=$2; shift;; -o) from=$2; shift;;
    -n) fbits=$2; shift;; -l) low=$2; shift;; -h) high=$2; shift;; -t) port=$2; shift;;
  esac
  shift
done
comment="$to-$bits-$proto-$from-$fbits-$low-$high"
rules() { iptables -w -t mangle -S PREROUTING | sed 's/^-A //; s/"//g' | grep -- "--comment $comment "; }
if [ "$verb" = -I ]; then
  iptables -w -t mangle -I PREROUTING -d $to/$bits -s $from/$fbits -p $proto --dport $low:$high \
    -m comment --comment $comment -j TPROXY --on-ip 127.0.0.1 --on-port $port
else
  rule=$(rules | head -1)
  test -n "$rule" || { echo "not there" >&2; exit 2; }
  iptables -w -t mangle -D $rule
fi
"##;

fn diverter(lab: &Lab) -> PathBuf {
    let folder = lab.folder.path().to_str().unwrap();
    lab.program("divert", &DIVERT.replace("@HERE@", folder))
}

fn calls(lab: &Lab) -> Vec<String> {
    let text = fs::read_to_string(lab.folder.path().join("calls")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_program_diverts_in_place_of_rules_and_leaves_nothing() {
    let Some(lab) = Lab::new() else { return };
    let program = diverter(&lab);
    let before = lab.system();
    let options = json!({ "diverter": program });
    let mut interceptor = lab.interceptor(options.clone());
    let mut mail = service("mail", &["*.wild.example"], &[(80, 80)]);
    mail["via"] = json!(["lan0", "lan1"]);
    let web = service("web", &["web.example", "10.99.0.0/24"], &[(80, 81)]);
    interceptor.set(&[web.clone(), mail]);
    assert!(!lab.system().contains("weft_lab"), "no table of ours");
    let page = |namespace, url: &str| {
        lab.says(namespace, &format!("curl -sS --max-time 5 '{url}'")).unwrap_or_default()
    };
    for (url, told) in [
        ("http://web.example/", "web tcp"),
        ("http://10.99.0.7:81/", "web tcp"),
        ("http://a.wild.example/", "mail tcp"),
    ] {
        for namespace in [Namespace::Client, Namespace::Gateway] {
            assert!(
                page(namespace, url).starts_with(told),
                "{url} {namespace:?}: {}",
                page(namespace, url)
            );
        }
    }
    let told = calls(&lab);
    assert_eq!(told[0], "-V");
    let has = |front: &str, end: &str| {
        told.iter().any(|call| call.starts_with(front) && call.ends_with(end))
    };
    assert!(
        has("-I -c 10.99.0.0 -m 24 -p tcp -o 0.0.0.0 -n 0 -l 80 -h 81 -t ", " -s web"),
        "{told:?}"
    );
    assert!(has("-I -c 100.64.0.2 -m 32 -p udp -o 0.0.0.0 -n 0 -l 80 -h 81 -t ", " -s web"));
    assert!(has("-I -c 100.64.0.3 -m 32 -p tcp ", " -s mail -N lan1"), "{told:?}");
    // A service that is removed loses its names and diversions.
    interceptor.set(std::slice::from_ref(&web));
    let ended = calls(&lab).into_iter().filter(|call| call.starts_with("-D ")).count();
    assert_eq!(ended, 4, "two protocols over two interfaces");
    interceptor.kill();
    assert_ne!(lab.system(), before, "nobody could clean up");
    // The next start cleans up, also if it is one without the program.
    lab.interceptor(json!({})).stop();
    assert_eq!(lab.system(), before);
    let mut again = lab.interceptor(options);
    again.set(&[web]);
    assert!(page(Namespace::Client, "http://web.example/").starts_with("web tcp"));
    again.stop();
    assert_eq!(lab.system(), before);
    let count = |verb: &str| calls(&lab).iter().filter(|call| call.starts_with(verb)).count();
    assert_eq!(count("-I "), count("-D "));
}

#[test]
fn a_program_that_others_could_exchange_or_that_fails_is_not_called() {
    let Some(lab) = Lab::new() else { return };
    let program = diverter(&lab);
    let before = lab.system();
    let refused = |options: serde_json::Value| {
        lab.interceptor_at(Namespace::Gateway, options).err().expect("refused")
    };
    fs::set_permissions(&program, fs::Permissions::from_mode(0o775)).unwrap();
    let told = refused(json!({ "diverter": program }));
    assert!(told.contains("may write to") && told.contains("tproxy:/"), "{told}");
    assert!(calls(&lab).is_empty());
    lab.program("divert", "#!/bin/sh\necho broken >&2; exit 4\n");
    let told = refused(json!({ "diverter": program }));
    assert!(told.contains("-V: broken"), "{told}");
    assert_eq!(lab.system(), before);
}

#[test]
fn names_are_in_a_hosts_file_while_services_have_them() {
    let Some(lab) = Lab::new() else { return };
    // In a namespace the hosts file is a mount of its own, as in a container.
    let others = "127.0.0.1 localhost lab-marker";
    lab.hosts(Namespace::Gateway, &format!("{others}\n"));
    let hosts = || lab.says(Namespace::Gateway, "cat /etc/hosts").unwrap();
    assert_eq!(hosts(), others, "not the machine's own file");
    let options = json!({ "listen": [], "hosts": "/etc/hosts" });
    let mut interceptor = lab.interceptor(options.clone());
    let web = service("web", &["web.example", "10.99.0.1"], &[(80, 80)]);
    let wild = service("wild", &["*.wild.example"], &[(80, 80)]);
    let answer = interceptor.ask(json!({ "set": [web, wild] }));
    let problems = answer["problems"].to_string();
    assert!(problems.contains("*.wild.example") && problems.contains("hosts file"), "{problems}");
    let own = "100.64.0.2\tweb.example\t# NetFoundry weft_lab";
    assert_eq!(hosts(), format!("{others}\n{own}"));
    let page = || lab.says(Namespace::Gateway, "curl -sS --max-time 5 http://web.example/");
    assert!(page().is_some_and(|page| page.starts_with("web tcp")));
    // Names that another program removes come back.
    lab.run(Namespace::Gateway, &format!("echo '{others}' >/etc/hosts"));
    eventually("the names are there again", || hosts() == format!("{others}\n{own}"));
    interceptor.set(std::slice::from_ref(&service("other", &["o.example"], &[(80, 80)])));
    assert!(hosts().ends_with("\to.example\t# NetFoundry weft_lab"), "{}", hosts());
    interceptor.kill();
    assert_ne!(hosts(), others);
    // Also if that start has another file in its options.
    let elsewhere = lab.folder.path().join("hosts");
    fs::write(&elsewhere, "").unwrap();
    let next = lab.interceptor(json!({ "listen": [], "hosts": elsewhere }));
    assert_eq!(hosts(), others);
    next.stop();
    let mut last = lab.interceptor(options);
    last.set(&[web]);
    assert_eq!(hosts(), format!("{others}\n{own}"));
    last.stop();
    assert_eq!(hosts(), others);
    let missing = json!({ "listen": [], "hosts": "/etc/no-such-file" });
    let told = lab.interceptor_at(Namespace::Gateway, missing).err().unwrap();
    assert!(told.contains("file:///etc/no-such-file"), "{told}");
}
