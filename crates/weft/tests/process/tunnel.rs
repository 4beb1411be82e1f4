//! `weft dial`, `weft host` and `weft tunnel`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::process::{Child, Command};
use weft_contract::resource;

use crate::network::{NetworkFolder, free_port};
use crate::operator::Operator;
use crate::program::{Program, WEFT, text, weft};
use crate::streams::{Manner, Server, check, dial, pattern, send};
use crate::wait::{PATIENCE, until, within};

/// A network with identities in files.
pub(crate) struct Bed {
    pub(crate) operator: Operator,
    pub(crate) network: Program,
    pub(crate) place: NetworkFolder,
}

impl Bed {
    pub(crate) async fn start() -> Self {
        let bed = Self::without_policies().await;
        bed.operator.allow_everybody().await;
        bed
    }

    /// Nobody may dial or host services.
    async fn without_policies() -> Self {
        let place = NetworkFolder::empty();
        let mut network = place.quickstart();
        network.says("The network is up", PATIENCE).await;
        let operator = Operator::log_in(place.control).await;
        Self { operator, network, place }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.place.folder()
    }

    pub(crate) async fn identity(&self, name: &str) -> PathBuf {
        let file = self.folder().join(format!("{name}.json"));
        self.operator.identity(name).await.write(&file).unwrap();
        file
    }

    /// Starts a tunneler or host with its socket in the folder.
    pub(crate) fn start_weft(&self, name: &str, args: &[&str]) -> Program {
        let socket = self.folder().join(format!("{name}.sock"));
        let mut all = args.to_vec();
        if args[0] == "tunnel" {
            all.extend(["--socket", socket.to_str().unwrap()]);
        }
        self.place.start(name, &all)
    }

    /// State of a tunneler.
    pub(crate) async fn status(&self, name: &str) -> Vec<Value> {
        let socket = self.folder().join(format!("{name}.sock"));
        let ask = ["tunnel", "status", "--output", "json", "--socket", socket.to_str().unwrap()];
        let told = weft(self.folder(), &ask).await;
        assert!(told.status.success(), "{}", text(&told));
        serde_json::from_slice::<Value>(&told.stdout).unwrap().as_array().unwrap().clone()
    }
}

/// Dials with pipes as standard input and output.
fn dialing(folder: &Path, args: &[&str]) -> Child {
    Command::new(WEFT)
        .arg("dial")
        .args(args)
        .current_dir(folder)
        .env_remove("RUST_LOG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Dials with this standard input; returns standard output, what the command said, and its status.
pub(crate) async fn dialed(folder: &Path, args: &[&str], input: Vec<u8>) -> (Vec<u8>, String, i32) {
    let mut child = dialing(folder, args);
    let mut stdin = child.stdin.take().unwrap();
    let feeding = tokio::spawn(async move {
        // A command that ends early does not read everything.
        let _ = stdin.write_all(&input).await;
    });
    let done = within("the dial", PATIENCE, child.wait_with_output()).await.unwrap();
    feeding.await.unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    (done.stdout, said, done.status.code().unwrap_or(-1))
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_input_and_output_are_the_service() {
    let bed = Bed::start().await;
    let (host, client) = (bed.identity("host").await, bed.identity("client").await);
    let (host, client) = (host.to_str().unwrap(), client.to_str().unwrap());
    const ASKED: usize = 3 << 20;
    const ANSWERED: u64 = (2 << 20) + 5;
    for (service, manner, encrypted) in
        [("last", Manner::Last(ANSWERED), true), ("first", Manner::First(ANSWERED), false)]
    {
        bed.operator.service(service, encrypted).await;
        let mut server = Server::tcp(manner).await;
        let port = server.port().to_string();
        let mut hosting = bed.start_weft(service, &["host", service, &port, "--identity", host]);
        hosting
            .says(&format!("hosting {service}: dials go to tcp:localhost:{port}"), PATIENCE)
            .await;
        let input = pattern(0, ASKED);
        let (output, said, code) = dialed(bed.folder(), &[service, "-i", client], input).await;
        assert_eq!((code, said.as_str()), (0, ""));
        assert_eq!(output.len() as u64, ANSWERED);
        assert_eq!(check(&mut &output[..]).await.unwrap(), ANSWERED, "every byte as it was");
        assert_eq!(server.heard().await, ASKED as u64);
        if service == "first" {
            let mut child = dialing(bed.folder(), &[service, "-i", client]);
            let mut stdin = child.stdin.take().unwrap();
            let mut stdout = child.stdout.take().unwrap();
            let mut output = Vec::new();
            // The end of what the service says is the end of the output, while the input goes on.
            let reading = stdout.read_to_end(&mut output);
            within("the end of the output", PATIENCE, reading).await.unwrap();
            assert_eq!(output.len() as u64, ANSWERED);
            stdin.write_all(&pattern(0, ASKED)).await.unwrap();
            drop(stdin);
            assert!(within("the dial", PATIENCE, child.wait()).await.unwrap().success());
            assert_eq!(server.heard().await, ASKED as u64);
        }
        assert!(hosting.stop().await.success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hops_to_a_host_are_shown() {
    let bed = Bed::start().await;
    let (host, client) = (bed.identity("host").await, bed.identity("client").await);
    let (host, client) = (host.to_str().unwrap(), client.to_str().unwrap());
    bed.operator.service("traced", true).await;
    let server = Server::tcp(Manner::Last(1)).await;
    let port = server.port().to_string();
    let mut hosting = bed.start_weft("traced", &["host", "traced", &port, "--identity", host]);
    hosting.says(&format!("hosting traced: dials go to tcp:localhost:{port}"), PATIENCE).await;
    let routers = bed.operator.list(&resource::edge_router::KIND).await;
    let trace = ["traceroute", "traced", "-i", client, "--output", "json"];
    let told = weft(bed.folder(), &trace).await;
    assert!(told.status.success(), "{}", text(&told));
    let hops: Vec<Value> = serde_json::from_slice(&told.stdout).unwrap();
    let seen: Vec<_> = hops.iter().map(|hop| [&hop["kind"], &hop["id"]]).collect();
    let (none, router) = (Value::from(""), &routers[0]["id"]);
    let kinds = ["xgress/edge", "forwarder", "sdk/rust"].map(Value::from);
    assert_eq!(seen, [[&kinds[0], &none], [&kinds[1], router], [&kinds[2], &none]]);
    assert!(hops.iter().all(|hop| hop["milliseconds"].as_f64().unwrap() >= 0.0));
    let told = weft(bed.folder(), &["traceroute", "tracde", "-i", client]).await;
    assert!(!told.status.success());
    assert!(text(&told).contains("traced"), "{}", text(&told));
    assert!(hosting.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_say_what_to_do() {
    let bed = Bed::start().await;
    let client = bed.identity("client").await;
    let client = client.to_str().unwrap();
    bed.operator.service("website", true).await;
    let (output, said, code) = dialed(bed.folder(), &["webstie", "-i", client], Vec::new()).await;
    assert_eq!((output.len(), code), (0, 4), "{said}");
    assert!(said.contains("did you mean `website`?"), "{said}");
    let (_, said, code) = dialed(bed.folder(), &["website", "-i", client], Vec::new()).await;
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("weft host website ADDRESS"), "{said}");
    let (_, said, code) = dialed(bed.folder(), &["website", "-i", "none.json"], Vec::new()).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("none.json"), "{said}");
    for wrong in [
        &["tunnel", "proxy", "website", "-i", client][..],
        &["tunnel", "proxy", "website:99999", "-i", client],
        &["host", "website", "here", "-i", client],
    ] {
        let done = weft(bed.folder(), wrong).await;
        assert_eq!(done.status.code(), Some(2), "{}", text(&done));
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("website:{}", taken.local_addr().unwrap().port());
    let done = weft(bed.folder(), &["tunnel", "proxy", &port, "-i", client]).await;
    assert_eq!(done.status.code(), Some(1), "{}", text(&done));
    assert!(text(&done).contains("cannot listen at tcp:127.0.0.1"), "{}", text(&done));
    let none = weft(bed.folder(), &["tunnel", "status", "--socket", "none.sock"]).await;
    assert_eq!(none.status.code(), Some(4), "{}", text(&none));

    // A key that everybody may read is used, with a warning.
    fs::set_permissions(client, fs::Permissions::from_mode(0o644)).unwrap();
    let (_, said, _) = dialed(bed.folder(), &["webstie", "-i", client], Vec::new()).await;
    assert!(said.contains("every user of this machine may read the private key"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_was_named_and_deleted_stays_in_the_status() {
    let bed = Bed::start().await;
    let client = bed.identity("client").await;
    bed.operator.service("web", true).await;
    let args = ["tunnel", "proxy", "web:0", "--refresh", "1", "-i", client.to_str().unwrap()];
    let mut proxy = bed.start_weft("proxy", &args);
    proxy.says("web: tcp:127.0.0.1:", PATIENCE).await;
    let is = async |wanted: &str| {
        let look = async || match bed.status("proxy").await.as_slice() {
            [row] if row["service"] == "web" && row["state"] == wanted => Ok(()),
            other => Err(format!("{other:?}")),
        };
        until(&format!("the service is {wanted}"), PATIENCE, look).await;
    };
    is("listening").await;
    let services = bed.operator.list(&resource::service::KIND).await;
    let id = services.iter().find(|one| one["name"] == "web").unwrap()["id"].as_str().unwrap();
    bed.operator.client.delete(&resource::service::KIND, id).await.unwrap();
    is("unavailable").await;
    proxy.says("a service is no longer available", PATIENCE).await;
    bed.operator.service("web", true).await;
    is("listening").await;
    assert!(proxy.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_has_seen_enough_is_no_fault() {
    let bed = Bed::start().await;
    let client = bed.identity("client").await;
    let server = Server::tcp(Manner::Echo).await;
    bed.operator.tunneled("echo", server.port(), true).await;
    let dial = format!("{WEFT} dial echo -i {}", client.display());
    let head = format!(
        "(for i in $(seq 300); do echo line; sleep 0.1; done) \
         | {{ {dial}; echo \"status $?\" >&2; }} | head -2"
    );
    let mut shell = bed.place.start_shell("head", &head);
    shell.ended().await;
    let said = shell.said();
    assert!(said.contains("line\nline\n") && said.contains("status 0"), "{said}");
    assert!(!said.contains("broke"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_identities_tunnels_and_tells() {
    let bed = Bed::start().await;
    let folder = bed.folder().join("identities");
    fs::create_dir(&folder).unwrap();
    bed.operator.identity("one").await.write(&folder.join("one.json")).unwrap();
    let body = serde_json::json!({
        "name": "two", "type": "Default", "isAdmin": false, "enrollment": {"ott": true},
    });
    let id = bed.operator.create(&resource::identity::KIND, &body).await;
    let made: Value = bed.operator.client.get(&resource::identity::KIND, &id).await.unwrap();
    let token = made.pointer("/enrollment/ott/jwt").and_then(Value::as_str).unwrap();
    fs::write(folder.join("two.jwt"), token).unwrap();
    let server = Server::tcp(Manner::Echo).await;
    // Hosted by the router and by both identities.
    bed.operator.tunneled("echo", server.port(), true).await;
    let identities = folder.to_str().unwrap();
    let args = ["tunnel", "run", "--no-intercept", "--refresh", "1", "--identity", identities];
    let tunneler = bed.start_weft("run", &args);
    let hosted = async || {
        if !bed.folder().join("run.sock").exists() {
            return Err("no socket".to_owned());
        }
        let rows = bed.status("run").await;
        let hosts = rows.iter().filter(|row| row["role"] == "host" && row["state"] == "hosted");
        match hosts.count() {
            2 => Ok(()),
            _ => Err(format!("{rows:?}")),
        }
    };
    until("both host", PATIENCE, hosted).await;
    assert!(folder.join("two.json").exists(), "the token was enrolled");
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::metadata(bed.folder().join("run.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    tunneler.signal("INT");
    let mut tunneler = tunneler;
    assert!(tunneler.ended().await.success(), "Ctrl-C is a clean end");
    assert!(!bed.folder().join("run.sock").exists());
    let left = async || {
        let all = bed.operator.list(&resource::terminator::KIND).await;
        let of_sdk = all.iter().filter(|one| one["binding"] == "edge").count();
        if of_sdk == 0 { Ok(()) } else { Err(of_sdk) }
    };
    until("its terminators are gone", PATIENCE, left).await;
}

/// Number of open files of a process.
fn files(program: &Program) -> usize {
    fs::read_dir(format!("/proc/{}/fd", program.id())).unwrap().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_short_connections_leave_nothing() {
    const CLIENTS: usize = 20;
    let each = if std::env::var("WEFT_LONG").is_ok() { 500 } else { 100 };
    let bed = Bed::start().await;
    let client = bed.identity("client").await;
    let server = Server::tcp(Manner::Echo).await;
    bed.operator.tunneled("echo", server.port(), true).await;
    let port = free_port();
    let named = format!("echo:{port}");
    let args = ["tunnel", "proxy", &named, "--identity", client.to_str().unwrap()];
    let mut proxy = bed.start_weft("proxy", &args);
    proxy.says(&format!("echo: tcp:127.0.0.1:{port}"), PATIENCE).await;
    let talk = move || async move {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        send(&mut stream, 100).await?;
        stream.shutdown().await?;
        match check(&mut stream).await? {
            100 => Ok(()),
            other => Err(std::io::Error::other(format!("{other} bytes"))),
        }
    };
    until("the service is hosted", PATIENCE, talk).await;
    let settled = async || match files(&proxy) {
        few if few < 40 => Ok(few),
        many => Err(many),
    };
    let (before, _) = until("few files are open", PATIENCE, settled).await;
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(async move {
            for _ in 0..each {
                talk().await.unwrap();
            }
        });
    }
    within("all connections", 4 * PATIENCE, clients.join_all()).await;
    let left = async || match files(&proxy) {
        now if now <= before + 1 => Ok(()),
        now => Err(format!("{now} files are open, {before} before")),
    };
    until("the files are closed", PATIENCE, left).await;
    let rows = bed.status("proxy").await;
    let row = rows.iter().find(|row| row["service"] == "echo" && row["role"] == "dial").unwrap();
    assert_eq!(row["open"], 0);
    assert!(row["total"].as_u64().unwrap() >= (CLIENTS * each) as u64, "{row}");
    assert_eq!(row["sent"], row["received"]);
    let circuits = async || match bed.operator.circuits().await {
        0 => Ok(()),
        some => Err(some),
    };
    until("the circuits are gone", PATIENCE, circuits).await;
    assert!(proxy.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn datagrams_pass_the_program() {
    let bed = Bed::start().await;
    let (host, client) = (bed.identity("host").await, bed.identity("client").await);
    bed.operator.service("dns", true).await;
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let at = format!("udp:127.0.0.1:{}", socket.local_addr().unwrap().port());
    tokio::spawn(async move {
        let mut buffer = [0; 9000];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let _ = socket.send_to(&buffer[..length], from).await;
        }
    });
    let mut hosting =
        bed.start_weft("host", &["host", "dns", &at, "--identity", host.to_str().unwrap()]);
    hosting.says("hosting dns", PATIENCE).await;
    let port = free_port();
    let named = format!("dns:{port}:udp");
    let args = ["tunnel", "proxy", &named, "--identity", client.to_str().unwrap()];
    let mut proxy = bed.start_weft("proxy", &args);
    proxy.says(&format!("dns: udp:127.0.0.1:{port}"), PATIENCE).await;
    let asking = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    asking.connect(("127.0.0.1", port)).await.unwrap();
    let answered = async || {
        asking.send(&[9; 8000]).await.map_err(|error| error.to_string())?;
        let mut buffer = [0; 9000];
        let answer = tokio::time::timeout(Duration::from_secs(1), asking.recv(&mut buffer)).await;
        match answer {
            Ok(Ok(8000)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    };
    until("a datagram comes back", PATIENCE, answered).await;
    assert!(proxy.stop().await.success());
    assert!(hosting.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_ends_a_silent_conversation_after_the_time_that_it_is_told() {
    let bed = Bed::without_policies().await;
    // The router must not host it.
    for (kind, who) in [("Dial", "#all"), ("Bind", "#hosts")] {
        let policy = serde_json::json!({
            "name": kind, "type": kind, "semantic": "AnyOf",
            "identityRoles": [who], "serviceRoles": ["#all"],
        });
        bed.operator.create(&resource::service_policy::KIND, &policy).await;
    }
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let types = bed.operator.list(&resource::config::CONFIG_TYPE_KIND).await;
    let host = types.iter().find(|one| one["name"] == "host.v1").unwrap();
    let port = socket.local_addr().unwrap().port();
    let config = serde_json::json!({
        "name": "dns", "configTypeId": host["id"],
        "data": {"protocol": "udp", "address": "127.0.0.1", "port": port},
    });
    let config = bed.operator.create(&resource::config::CONFIG_KIND, &config).await;
    let service =
        serde_json::json!({"name": "dns", "encryptionRequired": true, "configs": [config]});
    bed.operator.create(&resource::service::KIND, &service).await;
    let file = bed.folder().join("host.json");
    bed.operator.identity_with("host", &["hosts"]).await.write(&file).unwrap();
    let run = ["tunnel", "run-host", "-i", "host.json", "--refresh", "1", "--udp-idle", "5"];
    let mut hosting = bed.start_weft("run", &run);
    hosting.says("a service is hosted", PATIENCE).await;
    let endpoint = bed.operator.endpoint("client").await;
    let connection = dial(&endpoint, "dns").await;
    let (mut reader, mut writer) = connection.into_split();
    writer.write_all(b"a question").await.unwrap();
    let mut buffer = [0; 64];
    let heard = within("the datagram arrives", PATIENCE, socket.recv(&mut buffer)).await.unwrap();
    assert_eq!(&buffer[..heard], b"a question");
    let rows = bed.status("run").await;
    let row = rows.iter().find(|row| row["role"] == "host").unwrap();
    assert_eq!(row["open"], 1, "{row}");
    // 5 to 10 s; a host that was not told would need 5 minutes.
    let ended = within("the conversation ends", PATIENCE, reader.read_message()).await;
    assert!(!matches!(ended, Ok(Some(_))), "{ended:?}");
    assert!(hosting.stop().await.success());
}
