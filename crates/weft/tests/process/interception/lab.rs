//! The namespaces, and running a test inside one of them.

use std::future::Future;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Programs that the tests need.
const TOOLS: &[&str] = &["ip", "nft", "iptables", "ip6tables", "curl", "dig", "nc", "setpriv"];
/// Environment variable with the names of the namespaces, for the process inside.
const INSIDE: &str = "WEFT_INSIDE";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Namespace {
    Client,
    Gateway,
}

/// The namespaces, as seen from the gateway.
pub(super) struct Lab {
    prefix: String,
}

/// Creates the namespaces and runs a test, by its name in this program, again in the gateway, where
/// it runs `body`.
pub(super) fn inside<F: Future<Output = ()>>(name: &str, body: impl FnOnce(Lab) -> F) {
    if let Ok(prefix) = std::env::var(INSIDE) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        return runtime.block_on(body(Lab { prefix }));
    }
    let Some(spaces) = Spaces::make() else { return };
    let ended = Command::new("ip")
        .args(["netns", "exec", &format!("{}g", spaces.0)])
        .arg(std::env::current_exe().unwrap())
        .args([format!("interception::{name}").as_str(), "--exact", "--nocapture"])
        .env(INSIDE, &spaces.0)
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert!(ended.success(), "it failed inside the namespace");
}

/// The namespaces, deleted when dropped.
struct Spaces(String);

fn shell(script: &str) -> Output {
    Command::new("sh").args(["-c", script]).stdin(Stdio::null()).output().unwrap()
}

/// True if namespaces can be created here.
fn ready() -> bool {
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
    let required = std::env::var("WEFT_NAMESPACES").as_deref() == Ok("required");
    assert!(!required, "these tests need root and programs: {problem}");
    eprintln!("SKIPPED: {problem}");
    false
}

impl Spaces {
    fn make() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !ready() {
            return None;
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let spaces = Self(format!("wfp{}x{number}", std::process::id()));
        let p = &spaces.0;
        let mut script = format!(
            "set -e\n\
             for n in {p}c {p}g; do ip netns add $n; ip -n $n link set lo up; done\n\
             ip -n {p}g link add lan0 type veth peer name eth0 netns {p}c\n\
             ip -n {p}g link set lan0 up\n\
             ip -n {p}c link set eth0 up\n\
             ip -n {p}g addr add 10.77.1.1/24 dev lan0\n\
             ip -n {p}g addr add fd77::1/64 dev lan0 nodad\n\
             ip -n {p}c addr add 10.77.1.2/24 dev eth0\n\
             ip -n {p}c addr add fd77::2/64 dev eth0 nodad\n\
             ip -n {p}c route add default via 10.77.1.1\n\
             ip -n {p}c route add default via fd77::1\n"
        );
        for (name, server) in [("c", "10.77.1.1"), ("g", "127.0.0.1")] {
            script.push_str(&format!(
                "mkdir -p /etc/netns/{p}{name}\n\
                 printf 'nameserver {server}\\noptions timeout:2 attempts:1\\n' >/etc/netns/{p}{name}/resolv.conf\n"
            ));
        }
        let made = shell(&script);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Some(spaces)
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        let p = &self.0;
        for letter in ["c", "g"] {
            // Processes inside hold the namespace and must end first.
            shell(&format!(
                "for i in $(ip netns pids {p}{letter}); do kill -9 $i; done; \
                 ip netns del {p}{letter}; rm -rf /etc/netns/{p}{letter}"
            ));
        }
    }
}

impl Lab {
    /// Output of a shell command in a namespace, or its error.
    pub(super) async fn says(&self, namespace: Namespace, script: &str) -> Result<String, String> {
        let mut command = match namespace {
            Namespace::Gateway => tokio::process::Command::new("sh"),
            Namespace::Client => {
                let mut command = tokio::process::Command::new("ip");
                command.args(["netns", "exec", &format!("{}c", self.prefix), "sh"]);
                command
            }
        };
        let output = command.args(["-c", script]).stdin(Stdio::null()).output().await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(format!("{} {}", text(&output.stdout), text(&output.stderr))),
        }
    }

    /// Everything that interception could leave behind in the gateway.
    pub(super) async fn system(&self) -> String {
        let script = "nft list ruleset; ip rule; ip -6 rule; ip route show table all; \
                      ip -6 route show table all; ip addr show lo";
        let all = self.says(Namespace::Gateway, script).await.unwrap();
        // The system adds link-local addresses at any time.
        let telling = |line: &&str| !line.contains("fe80:") && !line.contains("ff00::");
        all.lines().filter(telling).collect::<Vec<_>>().join("\n")
    }
}
