//! The agents of controllers and routers: `weft agent` and `ziti agent` at their sockets.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use weft_agent::messages::{InitRequest, content_type};
use weft_agent::{AgentChannel, socket_of};
use weft_wire::{Message, Outcome};

use crate::network::NetworkFolder;
use crate::operator::Operator;
use crate::program::{Program, text, weft_in};
use crate::wait::{PATIENCE, until};

/// The first bytes of every request.
const MAGIC: &[u8] = b"\x01\x0b\x0a\x0d\x0e\x0c\x0a\x0f\x0e\x0f\x00\x00\x0d";

/// A network whose processes have a folder for temporary files of their own.
struct Bed {
    router: Program,
    controller: Program,
    operator: Operator,
    place: NetworkFolder,
}

impl Bed {
    async fn start(router_options: &[&str]) -> Self {
        let place = NetworkFolder::made().await;
        std::fs::create_dir(place.folder().join("t")).unwrap();
        let controller = Self::controller(&place, &[]);
        let operator = Operator::log_in(place.control).await;
        let file = place.home().join("router.yaml");
        let args = [&["router", "run", file.to_str().unwrap()], router_options].concat();
        let router =
            Program::start_in(&Self::own(&place), &place.folder().join("router.log"), &args);
        let bed = Self { router, controller, operator, place };
        bed.online(true).await;
        bed
    }

    fn controller(place: &NetworkFolder, options: &[&str]) -> Program {
        let file = place.home().join("controller.yaml");
        let args = [&["controller", "run", file.to_str().unwrap()], options].concat();
        Program::start_in(&Self::own(place), &place.folder().join("controller.log"), &args)
    }

    fn own(place: &NetworkFolder) -> [(&'static str, String); 1] {
        [("TMPDIR", Self::sockets(place).to_str().unwrap().to_owned())]
    }

    fn sockets(place: &NetworkFolder) -> PathBuf {
        place.folder().join("t")
    }

    fn socket(&self, of: &Program) -> PathBuf {
        socket_of(&Self::sockets(&self.place), of.id())
    }

    async fn online(&self, wanted: bool) {
        let look = async || match self.operator.router_online().await? {
            online if online == wanted => Ok(()),
            online => Err(format!("isOnline is {online}")),
        };
        until(&format!("the router is online: {wanted}"), PATIENCE, look).await;
    }

    /// Runs `weft agent`.
    async fn agent(&self, args: &[&str]) -> (bool, String) {
        let args = [&["agent"], args].concat();
        let output = weft_in(self.place.folder(), &Self::own(&self.place), &args).await;
        (output.status.success(), text(&output))
    }

    /// Runs `weft agent`, which has to succeed.
    async fn ask(&self, args: &[&str]) -> String {
        let (done, said) = self.agent(args).await;
        assert!(done, "weft agent {args:?}: {said}");
        said
    }

    async fn of_router(&self, args: &[&str]) -> String {
        self.ask(&[args, &["--app-type", "router"]].concat()).await
    }

    async fn of_controller(&self, args: &[&str]) -> String {
        self.ask(&[args, &["--app-type", "controller"]].concat()).await
    }

    /// Waits until the processes are listed with these types.
    async fn listed(&self, wanted: &[&str]) -> Vec<Value> {
        let look = async || {
            let listed: Vec<Value> =
                serde_json::from_str(&self.ask(&["list", "-o", "json"]).await).unwrap();
            let kinds: Vec<&str> = listed.iter().filter_map(|it| it["type"].as_str()).collect();
            if kinds == wanted { Ok(listed) } else { Err(format!("{listed:?}")) }
        };
        until(&format!("the processes are {wanted:?}"), PATIENCE, look).await.0
    }
}

/// What an agent answers to these bytes until it closes the connection.
async fn raw(socket: &Path, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    stream.write_all(&[MAGIC, bytes].concat()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn controllers_and_routers_are_asked_at_their_sockets() {
    let bed = Bed::start(&["--cli-agent-alias", "edge"]).await;
    let listed = bed.listed(&["controller", "router"]).await;
    assert_eq!(listed[0]["pid"], bed.controller.id());
    assert_eq!(listed[1]["alias"], "edge");
    let socket = bed.socket(&bed.router);
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o700);

    // The wire.
    let info: Value = serde_json::from_str(&raw(&socket, &[0x0a]).await).unwrap();
    assert_eq!((&info["type"], &info["id"]), (&"router".into(), &listed[1]["id"]));
    assert!(
        raw(&socket, &[0x16]).await.contains(r#""agent_capabilities":["logging.slog-levels"]"#)
    );
    assert!(raw(&socket, &[0x07]).await.contains("num CPU: "));
    assert_eq!(raw(&socket, &[0x7f]).await, "");
    assert!(raw(&socket, &[0x05]).await.contains("profile.memory"));

    // The process.
    assert!(bed.of_router(&["version"]).await.starts_with("router v"));
    assert!(bed.of_router(&["stats"]).await.contains("OS threads: "));
    assert!(bed.of_router(&["stack"]).await.contains("\nthread "));
    assert!(bed.of_controller(&["memstats"]).await.starts_with("resident: "));
    assert!(bed.of_controller(&["gc"]).await.starts_with("ok"));
    let (done, said) = bed.agent(&["stats"]).await;
    assert!(!done && said.contains("several processes are meant"), "{said}");

    // The router.
    assert_eq!(bed.of_router(&["router", "dump-links"]).await, "no links\n");
    assert!(bed.of_router(&["router", "dump-routes"]).await.starts_with("circuits (0):"));
    assert_eq!(bed.of_router(&["router", "quiesce"]).await, "router quiesced\n");
    assert_eq!(bed.of_router(&["router", "dequiesce"]).await, "router dequiesced\n");
    assert!(
        bed.of_router(&["inspect", "router-controllers"]).await.contains(r#""connected": true"#)
    );
    for debug in [&["router", "forget-link", "l1"][..], &["router", "disconnect"]] {
        let (done, said) = bed.agent(&[debug, &["--app-type", "router"]].concat()).await;
        assert!(!done && said.contains("--debug-ops"), "{said}");
    }

    // The controller.
    let inspected = bed.of_controller(&["inspect", "connected-routers"]).await;
    assert!(inspected.contains(listed[1]["id"].as_str().unwrap()), "{inspected}");
    let (done, said) = bed.agent(&["cluster", "list", "--app-type", "controller"]).await;
    assert!(!done && said.contains("not running in clustered mode"), "{said}");
    let written = bed.of_controller(&["controller", "snapshot-db"]).await;
    assert!(Path::new(written.trim()).is_file(), "{written}");
    let mut channel = AgentChannel::open(&bed.socket(&bed.controller), 1, PATIENCE).await.unwrap();
    let init =
        InitRequest { username: "other".into(), password: "secret".into(), name: "Other".into() };
    let init = prost::Message::encode_to_vec(&init);
    let reply = channel.request(Message::new(content_type::INIT, init)).await.unwrap();
    assert!(reply.text().contains("already initialized"), "{reply:?}");
    let reply = channel.request(Message::new(content_type::ADD_MEMBER, "")).await.unwrap();
    let outcome = Outcome::from_message(&reply).unwrap();
    assert!(!outcome.success && outcome.text.contains("weft cluster invite"), "{outcome:?}");

    // Its end.
    let Bed { router, controller, place, .. } = bed;
    assert!(router.stop().await.success());
    assert!(!socket.exists(), "the socket is left behind");
    let left = socket_of(&Bed::sockets(&place), controller.id());
    controller.kill();
    assert!(left.exists());
    let controller = Bed::controller(&place, &[]);
    let gone = async || if left.exists() { Err("it is there") } else { Ok(()) };
    until("the dead socket is removed", PATIENCE, gone).await;
    drop(controller);
}

#[tokio::test]
async fn the_level_of_the_log_is_set_until_it_is_read_again() {
    let bed = Bed::start(&[]).await;
    let log = || bed.controller.said();
    assert!(!log().contains("DEBUG"));
    let said = bed.of_controller(&["set-log-level", "debug"]).await;
    assert!(said.contains("to debug"), "{said}");
    let request = async || {
        let _ = bed.operator.router_online().await;
        if log().contains("DEBUG") { Ok(()) } else { Err("no such record yet") }
    };
    until("records of the level debug are logged", PATIENCE, request).await;
    let said = bed.of_controller(&["set-log-level", "warn"]).await;
    assert!(said.contains("from debug to warn"), "{said}");
    let said = bed.of_controller(&["set-channel-log-level", "weft_api", "trace"]).await;
    assert!(said.contains("weft_api set from default to trace"), "{said}");
    let said = bed.of_controller(&["clear-channel-log-level", "weft_api"]).await;
    assert!(said.contains("was trace"), "{said}");
    let (done, said) =
        bed.agent(&["set-channel-log-level", "a b", "info", "--app-type", "router"]).await;
    assert!(done && said.contains("is a module"), "{said}");
    bed.controller.signal("HUP");
    let again = async || match log().contains("levels of the log were read again") {
        true => Ok(()),
        false => Err("not yet"),
    };
    until("the levels are read again", PATIENCE, again).await;
}

#[tokio::test]
async fn a_router_is_decommissioned_from_its_machine() {
    let mut bed = Bed::start(&["--grace", "1"]).await;
    let (done, said) = bed.agent(&["router", "decommission", "--app-type", "router"]).await;
    assert!(!done && said.contains("--yes"), "{said}");
    let said = bed.of_router(&["router", "decommission", "--yes"]).await;
    assert_eq!(said, "router decommissioned\n");
    assert!(bed.router.ended().await.success());
    let left: Result<Vec<Value>, _> =
        bed.operator.client.list(&weft_contract::resource::edge_router::KIND, None).await;
    assert_eq!(left.unwrap(), Vec::<Value>::new());
    bed.listed(&["controller"]).await;
}

#[tokio::test]
async fn a_controller_stays_cut_until_it_may_come_back() {
    let bed = Bed::start(&["--debug-ops"]).await;
    let (done, said) = bed.agent(&["router", "disconnect", "nobody", "--app-type", "router"]).await;
    assert!(!done && said.contains("no controllers matched id [nobody]"), "{said}");
    let said = bed.of_router(&["router", "disconnect"]).await;
    assert!(said.contains("closed"), "{said}");
    bed.online(false).await;
    let (done, said) = bed.agent(&["router", "quiesce", "--app-type", "router"]).await;
    assert!(!done && said.contains("unable to reach controller"), "{said}");
    // Longer than the first pauses of a router that dials again.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(bed.operator.router_online().await, Ok(false));
    let said = bed.of_router(&["router", "reconnect"]).await;
    assert!(said.contains("reconnected"), "{said}");
    bed.online(true).await;
    assert_eq!(bed.of_router(&["router", "forget-link", "none"]).await, "link removed: false\n");
}

#[tokio::test]
async fn an_agent_is_elsewhere_or_not_there_as_the_options_say() {
    let bed = Bed::start(&["--cli-agent=false"]).await;
    bed.listed(&["controller"]).await;
    assert!(!bed.socket(&bed.router).exists());
    let Bed { controller, place, .. } = bed;
    assert!(controller.stop().await.success());
    let at = format!("unix:{}", place.folder().join("agent.sock").display());
    let _controller = Bed::controller(&place, &["--cli-agent-addr", &at]);
    let ask = async || {
        let args = ["agent", "stats", "--app-addr", &at];
        let output = weft_in(place.folder(), &[], &args).await;
        if output.status.success() { Ok(()) } else { Err(text(&output)) }
    };
    until("the agent answers", PATIENCE, ask).await;
    let args = ["controller", "run", "c.yaml", "--cli-agent-addr", "tcp:127.0.0.1:1"];
    let refused = weft_in(place.folder(), &[], &args).await;
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused).contains("unix:/path"), "{}", text(&refused));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunneler_tells_its_state() {
    let bed = Bed::start(&[]).await;
    bed.operator.service("web", true).await;
    bed.operator.allow_everybody().await;
    let file = bed.place.folder().join("host.json");
    bed.operator.identity("host").await.write(&file).unwrap();
    let (file, status) = (file.to_str().unwrap(), bed.place.folder().join("status.sock"));
    let status = status.to_str().unwrap();
    let args = ["tunnel", "run-host", "--identity", file, "--socket", status];
    let log = bed.place.folder().join("tunnel.log");
    let mut tunneler = Program::start_in(&Bed::own(&bed.place), &log, &args);
    tunneler.says("tunneling", PATIENCE).await;
    bed.listed(&["controller", "router", "tunnel"]).await;
    let state: Value = serde_json::from_str(&raw(&bed.socket(&tunneler), &[128]).await).unwrap();
    assert_eq!(
        (&state[0]["identity"], &state[0]["services"][0]["name"]),
        (&"host".into(), &"web".into())
    );
    let said = bed.ask(&["inspect", "SDK", "-o", "json", "--app-type", "tunnel"]).await;
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap()["SDK"][0]["identity"], "host");
    let (done, said) = bed.agent(&["router", "dump-links", "--app-type", "tunnel"]).await;
    assert!(!done && said.contains("is a tunnel"), "{said}");
    let socket = bed.socket(&tunneler);
    assert!(tunneler.stop().await.success());
    assert!(!socket.exists());
}

/// The program of the original.
fn ziti() -> Option<String> {
    let named = std::env::var("WEFT_INTEROP_ZITI").ok();
    if named.is_none() {
        eprintln!("skipped: WEFT_INTEROP_ZITI names no `ziti` program");
    }
    named
}

#[tokio::test]
async fn the_originals_command_asks_processes_of_weft() {
    let Some(ziti) = ziti() else { return };
    let bed = Bed::start(&["--debug-ops"]).await;
    let ask = async |args: &[&str]| {
        let mut command = tokio::process::Command::new(&ziti);
        command.arg("agent").args(args).envs(Bed::own(&bed.place));
        let done = tokio::time::timeout(PATIENCE, command.output()).await;
        text(&done.expect("ziti agent takes too long").unwrap())
    };
    let of_router = async |args: &[&str]| ask(&[args, &["--app-type", "router"]].concat()).await;
    let of_controller =
        async |args: &[&str]| ask(&[args, &["--app-type", "controller"]].concat()).await;
    let listed = ask(&["list"]).await;
    assert!(listed.contains("controller") && listed.contains("router"), "{listed}");
    for (args, wanted) in [
        (&["stats"][..], "num CPU"),
        (&["stack"], "thread "),
        (&["memstats"], "resident: "),
        (&["goversion"], "weft "),
        (&["set-log-level", "debug"], "to debug"),
        (&["set-channel-log-level", "weft_router", "trace"], "to trace"),
        (&["clear-channel-log-level", "weft_router"], "cleared"),
        (&["router", "dump-links"], "no links"),
        (&["router", "dump-routes"], "circuits (0)"),
        (&["router", "quiesce"], "router quiesced"),
        (&["router", "dequiesce"], "router dequiesced"),
        (&["router", "forget-link", "l"], "link removed: false"),
        (&["router", "disconnect"], "closed"),
        (&["router", "reconnect"], "reconnected"),
    ] {
        let said = of_router(args).await;
        assert!(said.contains(wanted), "ziti agent {args:?}: {said}");
    }
    bed.online(true).await;
    for (args, wanted) in [
        (&["cluster", "init", "admin", "secret", "Admin"][..], "already initialized"),
        (&["cluster", "list"], "not running in clustered mode"),
        (&["cluster", "add", "tls:x:1"], "weft cluster invite"),
        (&["controller", "snapshot-db"], "home"),
    ] {
        let said = of_controller(args).await;
        assert!(said.contains(wanted), "ziti agent {args:?}: {said}");
    }
    let said = of_router(&["router", "decommission"]).await;
    assert!(said.contains("router decommissioned"), "{said}");
    let Bed { mut router, .. } = bed;
    assert!(router.ended().await.success());
}
