//! Namespaces with a gateway, a client on one of its networks and another on a second one, and the
//! programs that run in them.
//!
//! ```text
//!  client 10.77.1.2, fd77:1::2 -- lan0 gateway lan1 -- 10.77.2.2, fd77:2::2 other
//! ```

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Programs that the tests use.
const TOOLS: &[&str] = &["ip", "nft", "iptables", "ip6tables", "curl", "dig", "nc", "iperf3"];

/// Three namespaces.
pub(crate) struct Lab {
    prefix: String,
    pub(crate) folder: tempfile::TempDir,
}

/// True if namespaces can be made here. With `WEFT_NAMESPACES=required`, a test fails that cannot
/// make them.
pub(crate) fn ready() -> bool {
    let missing: Vec<&str> = TOOLS
        .iter()
        .copied()
        .filter(|tool| !shell(&format!("command -v {tool}")).status.success())
        .collect();
    let made = shell("unshare --net true");
    let problem = if !missing.is_empty() {
        format!("not installed: {}", missing.join(", "))
    } else if !made.status.success() {
        format!("no namespaces: {}", String::from_utf8_lossy(&made.stderr).trim())
    } else {
        return true;
    };
    assert!(
        std::env::var("WEFT_NAMESPACES").as_deref() != Ok("required"),
        "these tests need root and programs: {problem}"
    );
    eprintln!("SKIPPED: {problem}");
    false
}

pub(crate) fn shell(script: &str) -> Output {
    Command::new("sh").args(["-c", script]).stdin(Stdio::null()).output().expect("sh")
}

impl Lab {
    /// The namespaces, if they can be made.
    pub(crate) fn new() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !ready() {
            return None;
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let lab = Self {
            prefix: format!("wf{}x{number}", std::process::id()),
            folder: tempfile::tempdir().unwrap(),
        };
        let p = &lab.prefix;
        let mut script = format!(
            "set -e\nfor n in {p}c {p}g {p}o; do ip netns add $n; ip -n $n link set lo up; done\n"
        );
        for (name, number) in [("c", 1), ("o", 2)] {
            let lan = number - 1;
            script.push_str(&format!(
                "ip -n {p}g link add lan{lan} type veth peer name eth0 netns {p}{name}\n\
                 ip -n {p}g link set lan{lan} up\n\
                 ip -n {p}{name} link set eth0 up\n\
                 ip -n {p}g addr add 10.77.{number}.1/24 dev lan{lan}\n\
                 ip -n {p}g addr add fd77:{number}::1/64 dev lan{lan} nodad\n\
                 ip -n {p}{name} addr add 10.77.{number}.2/24 dev eth0\n\
                 ip -n {p}{name} addr add fd77:{number}::2/64 dev eth0 nodad\n\
                 ip -n {p}{name} route add default via 10.77.{number}.1\n\
                 ip -n {p}{name} route add default via fd77:{number}::1\n"
            ));
        }
        for (name, server) in [("c", "10.77.1.1"), ("g", "127.0.0.1"), ("o", "10.77.2.1")] {
            script.push_str(&format!(
                "mkdir -p /etc/netns/{p}{name}\n\
                 printf 'nameserver {server}\\noptions timeout:2 attempts:1\\n' >/etc/netns/{p}{name}/resolv.conf\n"
            ));
        }
        // Some programs leave empty tables behind, which no program uses.
        for program in ["iptables", "ip6tables"] {
            for chain in ["PREROUTING", "OUTPUT"] {
                for verb in ["-A", "-D"] {
                    script.push_str(&format!(
                        "ip netns exec {p}g {program} -t mangle {verb} {chain} -j RETURN\n"
                    ));
                }
            }
            for verb in ["-A", "-D"] {
                script.push_str(&format!("ip netns exec {p}g {program} {verb} INPUT -j RETURN\n"));
            }
        }
        let made = shell(&script);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Some(lab)
    }

    fn namespace(&self, namespace: Namespace) -> String {
        let letter = match namespace {
            Namespace::Client => 'c',
            Namespace::Gateway => 'g',
            Namespace::Other => 'o',
        };
        format!("{}{letter}", self.prefix)
    }

    /// Gives a namespace a hosts file of its own.
    pub(crate) fn hosts(&self, namespace: Namespace, text: &str) {
        fs::write(format!("/etc/netns/{}/hosts", self.namespace(namespace)), text).unwrap();
    }

    /// Writes an executable script into the folder. Another process writes it: a program that this one had open for
    /// writing cannot run while a process that another test has just started holds its files.
    pub(crate) fn program(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        let script = r#"mkdir -p "${1%/*}" && printf %s "$2" >"$1" && chmod 755 "$1""#;
        let mut writing = Command::new("sh");
        writing.args(["-c", script, "sh"]).arg(&path).arg(text);
        assert!(writing.status().unwrap().success());
        path
    }

    /// Runs a line of shell in a namespace.
    pub(crate) fn run(&self, namespace: Namespace, script: &str) -> Output {
        Command::new("ip")
            .args(["netns", "exec", &self.namespace(namespace), "sh", "-c", script])
            .stdin(Stdio::null())
            .output()
            .expect("ip netns exec")
    }

    /// The output of a line of shell; none if it fails.
    pub(crate) fn says(&self, namespace: Namespace, script: &str) -> Option<String> {
        let output = self.run(namespace, script);
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(text)
    }

    /// Starts a program in a namespace that runs until it is killed.
    pub(crate) fn spawn(&self, namespace: Namespace, script: &str) -> Running {
        let child = Command::new("ip")
            .args([
                "netns",
                "exec",
                &self.namespace(namespace),
                "sh",
                "-c",
                &format!("exec {script}"),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("ip netns exec");
        Running(child)
    }

    /// All settings that an interceptor could leave in the gateway.
    pub(crate) fn system(&self) -> String {
        let script = "nft list ruleset; ip rule; ip -6 rule; ip route show table all; \
                      ip -6 route show table all; ip addr show lo; \
                      iptables-save; ip6tables-save";
        let all = self.says(Namespace::Gateway, script).expect("the state of the gateway");
        // Comments have the time, and an empty table of iptables counts as none.
        let noise =
            ["#", ":PREROUTING", ":INPUT", ":FORWARD", ":OUTPUT", ":POSTROUTING", "*", "COMMIT"];
        let telling = all.lines().filter(|line| !noise.iter().any(|noise| line.starts_with(noise)));
        let mut lines: Vec<&str> = telling.collect();
        // The system gives interfaces these addresses after a delay.
        lines.retain(|line| !line.contains("fe80:") && !line.contains("ff00::"));
        lines.join("\n")
    }

    /// Starts an interceptor in the gateway that echoes, with options over the usual ones.
    pub(crate) fn interceptor(&self, options: Value) -> Interceptor {
        self.interceptor_at(Namespace::Gateway, options).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn interceptor_at(
        &self,
        namespace: Namespace,
        options: Value,
    ) -> Result<Interceptor, String> {
        let mut all = json!({
            "locks": self.folder.path(),
            "listen": ["127.0.0.1:53", "10.77.1.1:53", "10.77.2.1:53"],
            "interfaces": ["lan0"],
        });
        let (Value::Object(all), Value::Object(options)) = (&mut all, options) else { panic!() };
        all.extend(options);
        let path = all.get("path").and_then(Value::as_str).map(str::to_owned);
        let path = path.or_else(|| std::env::var("PATH").ok()).unwrap_or_default();
        let mut child = Command::new("ip")
            .env("PATH", path)
            .args(["netns", "exec", &self.namespace(namespace)])
            .arg(std::env::current_exe().unwrap())
            .args(["program::runs", "--exact", "--nocapture"])
            .env("WEFT_LAB_PROGRAM", Value::Object(all.clone()).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("ip netns exec");
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut interceptor = Interceptor { child, stdin, stdout };
        let first = interceptor.read();
        match first.get("error") {
            Some(error) => Err(error.as_str().unwrap().to_owned()),
            None => Ok(interceptor),
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let p = &self.prefix;
        for letter in ["c", "g", "o"] {
            // Programs that run in a namespace keep it, so that they have to end first.
            shell(&format!(
                "for i in $(ip netns pids {p}{letter}); do kill -9 $i; done; \
                 ip netns del {p}{letter}; rm -rf /etc/netns/{p}{letter}"
            ));
        }
    }
}

/// A namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Namespace {
    Client,
    Gateway,
    Other,
}

/// A program that is killed when this value is dropped.
pub(crate) struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An interceptor in a process of its own.
pub(crate) struct Interceptor {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Interceptor {
    fn read(&mut self) -> Value {
        loop {
            let mut line = String::new();
            let length = self.stdout.read_line(&mut line).expect("the program's output");
            assert!(length > 0, "the program ended");
            // The test framework prints too, before the first line without its end.
            if let Some((_, reply)) = line.split_once("@@ ") {
                return serde_json::from_str(reply).expect("JSON");
            }
        }
    }

    /// Sends the interceptor a request, and returns its answer.
    pub(crate) fn ask(&mut self, what: Value) -> Value {
        writeln!(self.stdin, "{what}").expect("the program's input");
        self.read()
    }

    /// Sets the services, and checks that none has a mistake.
    pub(crate) fn set(&mut self, services: &[Value]) {
        let answer = self.ask(json!({ "set": services }));
        assert_eq!(answer["problems"], json!([]));
    }

    /// The numbers of services, names, elements, connections, conversations and tasks.
    pub(crate) fn counts(&mut self) -> Value {
        self.ask(json!({ "counts": true }))
    }

    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Ends the interceptor in order.
    pub(crate) fn stop(mut self) {
        assert_eq!(self.ask(json!({ "stop": true })), json!({ "stopped": true }));
        let ended = self.child.wait().unwrap();
        assert!(ended.success(), "{ended}");
    }

    /// Kills the interceptor.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Interceptor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A service in the form that the program reads.
pub(crate) fn service(id: &str, addresses: &[&str], ports: &[(u16, u16)]) -> Value {
    json!({ "id": id, "protocols": ["tcp", "udp"], "addresses": addresses, "ports": ports })
}

/// Waits until `holds` returns true.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
