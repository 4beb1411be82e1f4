use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use weft_config::{ControllerConfig, Examined, RouterConfig};
use weft_identity::{
    Authority, AuthoritySpec, KeyPurpose as Use, Leaf, PrivateKey, San, SubjectName,
};

use super::{Purpose, controller, router};

mod certificates;

const DAY: Duration = Duration::from_secs(86_400);

/// A folder with the keys and certificates of a router.
struct RouterFolder {
    folder: tempfile::TempDir,
    authority: Authority,
}

impl RouterFolder {
    fn new() -> Self {
        let authority = authority("the network");
        let folder = Self { folder: tempfile::tempdir().unwrap(), authority };
        fs::write(folder.path("ca"), folder.authority.certificate().to_pem()).unwrap();
        let key = PrivateKey::generate(weft_identity::KeyAlgorithm::EcP256).unwrap();
        weft_identity::write_private(&folder.path("key"), key.to_pem().as_bytes()).unwrap();
        folder.issue("cert", &folder.authority, &key, Use::Client, DAY);
        folder.issue("server", &folder.authority, &key, Use::Server, DAY);
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.pem"))
    }

    fn key(&self) -> PrivateKey {
        PrivateKey::from_pem(&fs::read(self.path("key")).unwrap()).unwrap()
    }

    /// Issues a certificate that is valid for two days, and ends `ends_in` from now.
    fn issue(&self, name: &str, by: &Authority, key: &PrivateKey, purpose: Use, ends_in: Duration) {
        let until = SystemTime::now() + ends_in;
        self.issue_until(name, by, key, purpose, until);
    }

    fn issue_until(
        &self,
        name: &str,
        by: &Authority,
        key: &PrivateKey,
        purpose: Use,
        until: SystemTime,
    ) {
        self.issue_named(name, by, key, purpose, until, "localhost");
    }

    fn issue_named(
        &self,
        name: &str,
        by: &Authority,
        key: &PrivateKey,
        purpose: Use,
        until: SystemTime,
        host: &str,
    ) {
        let names = vec![San::Dns(host.into())];
        let subject = SubjectName::common_name("r1");
        let leaf =
            Leaf::for_key(key.public(), &subject, names, purpose, SystemTime::now()).unwrap();
        let leaf = Leaf { not_before: until - DAY * 2, not_after: until, ..leaf };
        fs::write(self.path(name), by.issue(&leaf).unwrap().to_pem()).unwrap();
    }

    /// A file that begins with the router's identity, on lines 1 to 7.
    fn text(&self, more: &str) -> String {
        let [cert, server, key, ca] = ["cert", "server", "key", "ca"].map(|name| {
            let path = self.path(name);
            path.display().to_string()
        });
        format!(
            "v: 3\nidentity:\n  cert: {cert}\n  server_cert: {server}\n  key: {key}\n  ca: {ca}\n\
             ctrl: {{endpoint: 'tls:localhost:6262'}}\n{more}"
        )
    }

    fn examine(&self, more: &str, purpose: Purpose) -> Examined<RouterConfig> {
        let file = self.folder.path().join("router.yml");
        let none = |_: &str| None;
        let mut examined = RouterConfig::examine(&self.text(more), &file, &none).unwrap();
        router(&mut examined, purpose);
        examined
    }

    fn problems(&self, more: &str) -> String {
        said(&self.examine(more, Purpose::Advice))
    }
}

fn authority(name: &str) -> Authority {
    Authority::make_root(&AuthoritySpec::new(name), SystemTime::now() - DAY * 10).unwrap()
}

fn lines(about: &[weft_config::KeyAt]) -> String {
    let file = Path::new("f");
    about.iter().map(|one| format!("{}: {}\n", one.location(file), one.text())).collect()
}

fn said<T>(examined: &Examined<T>) -> String {
    lines(&examined.problems)
}

#[test]
fn what_fits_together_passes() {
    let folder = RouterFolder::new();
    let more = "edge: {}\nlisteners:\n  - {binding: edge, address: 'tls:127.0.0.1:3022', \
                options: {advertise: 'localhost:3022'}}\n";
    assert_eq!(folder.problems(more), "");
}

#[test]
fn no_host_of_a_variable_is_looked_up_unless_its_value_may_be_told() {
    let folder = RouterFolder::new();
    let text = folder.text(
        "listeners:\n\
         \x20 - {binding: transport, address: 'tcp:${SECRET}.invalid:1'}\n\
         \x20 - {binding: transport, address: 'tcp:${HERE}:1'}\n",
    );
    let examine = |purpose| {
        let variables = |name: &str| match name {
            "SECRET" => Some("geheimnis".to_owned()),
            "HERE" => Some("203.0.113.1".to_owned()),
            _ => None,
        };
        let file = folder.folder.path().join("router.yml");
        let mut examined = RouterConfig::examine(&text, &file, &variables).unwrap();
        router(&mut examined, purpose);
        said(&examined)
    };
    let (foreign, own) = (examine(Purpose::AdviceOnForeign), examine(Purpose::Advice));
    assert!(own.contains("the host `geheimnis.invalid` does not resolve"), "{own}");
    assert!(!foreign.contains("resolve"), "{foreign}");
    for told in [foreign, own] {
        assert!(
            told.contains("no interface of this machine has the address 203.0.113.1"),
            "{told}"
        );
    }
}

#[test]
fn addresses_and_interfaces_are_of_this_machine() {
    let folder = RouterFolder::new();
    let more = "listeners:\n\
        \x20 - {binding: transport, address: 'tcp:203.0.113.1:1'}\n\
        \x20 - {binding: transport, bind: 'tcp:no-such-host.invalid:1'}\n\
        \x20 - {binding: edge, address: 'tls:127.0.0.1:3022', advertise: 'elsewhere.example:1'}\n\
        edge: {}\n\
        link:\n\
        \x20 listeners: [{binding: transport, bind: 'tls:203.0.113.2:2', advertise: 'tls:elsewhere.example:2'}]\n\
        \x20 dialers: [{binding: transport, bind: nic-of-nobody}, {binding: transport, bind: lo}]\n\
        trace: {path: /no/such/folder/trace}\n";
    let problems = folder.problems(more);
    for part in [
        "listeners[0].address: no interface of this machine has the address 203.0.113.1",
        "listeners[1].bind: the host `no-such-host.invalid` does not resolve",
        "listeners[2].advertise: invalid listeners.binding.advertise: identity is not valid for provided host: [elsewhere.example]. is valid for: [localhost]",
        "link.listeners[0].bind: no interface of this machine has the address 203.0.113.2",
        "link.listeners[0].advertise: invalid link.listeners.advertise",
        "link.dialers[0].bind: no network interface found for nic-of-nobody; there are",
        "trace.path: the directory /no/such/folder cannot be used",
    ] {
        assert!(problems.contains(part), "{part}\n{problems}");
    }
    assert_eq!(problems.lines().count(), 7, "{problems}");
}

#[test]
fn what_listens_in_a_file_does_not_stand_in_its_own_way() {
    let folder = RouterFolder::new();
    let edge = "{binding: edge, address: 'tls:0.0.0.0:3022', advertise: 'localhost:3022'}";
    let with_edge =
        |more: &str| folder.problems(&format!("edge: {{}}\nlisteners: [{edge}, {more}]\n"));
    for (other, key) in [
        ("{binding: edge, address: 'tls:0.0.0.0:3022', advertise: 'localhost:1'}", "address"),
        ("{binding: transport, bind: 'tcp:127.0.0.1:3022'}", "bind"),
        ("{binding: transport, address: 'tcp::3022'}", "address"),
        ("{binding: edge, address: 'wss:127.0.0.1:3022', advertise: 'localhost:1'}", "address"),
    ] {
        let said = with_edge(other);
        let expected = format!(
            "listeners[1].{key}: cannot listen at [ADDRESS]: listeners[0].address of this file listens there already"
        );
        let (front, back) = expected.split_once("[ADDRESS]").unwrap();
        assert!(said.contains(front) && said.contains(back), "{other}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    for other in [
        // Other TLS protocols, datagrams, another port, port 0, the same address twice.
        "{binding: edge, address: 'wss:0.0.0.0:3022', advertise: 'localhost:1'}",
        "{binding: transport_udp, address: 'udp:0.0.0.0:3022'}",
        "{binding: transport, address: 'tcp:127.0.0.1:3023'}",
        "{binding: transport, address: 'tcp:0.0.0.0:0'}, {binding: transport, address: 'tcp:0.0.0.0:0'}",
        "{binding: transport, address: 'tcp:0.0.0.0:1', bind: 'tcp:0.0.0.0:1'}",
        "{binding: tunnel, address: 'tls:0.0.0.0:3022', options: {mode: host}}",
    ] {
        assert_eq!(with_edge(other), "", "{other}");
    }
    let shared = format!(
        "edge: {{}}\nlisteners: [{edge}]\nlink: {{listeners: [{{binding: transport, bind: 'tls:0.0.0.0:3022', \
         advertise: 'tls:localhost:3022'}}]}}\n"
    );
    assert_eq!(folder.problems(&shared), "");
    let udp = "listeners: [{binding: transport_udp, address: 'udp4:127.0.0.1:5353'}, \
               {binding: proxy_udp, address: 'udp:127.0.0.1:5353', service: a}, \
               {binding: proxy_udp, address: 'udp6:127.0.0.1:5354', service: a}]\n";
    let said = folder.problems(udp);
    assert!(said.contains("listeners[1].address: cannot listen at 127.0.0.1:5353"), "{said}");
    assert!(said.contains("the host `127.0.0.1` has no address for udp6"), "{said}");
}

#[test]
fn no_host_is_every_address_of_the_machine() {
    let folder = RouterFolder::new();
    let more = "edge: {apiProxy: {listener: ':0', upstream: 'localhost:1280'}}\n\
                listeners:\n\
                \x20 - {binding: edge, address: 'tls::0', advertise: 'localhost:3022'}\n\
                \x20 - {binding: transport, address: 'tcp::0'}\n\
                \x20 - {binding: transport_udp, address: 'udp::0'}\n\
                \x20 - {binding: transport_udp, address: 'udp4::0'}\n\
                \x20 - {binding: transport_udp, address: 'udp6::0'}\n";
    assert_eq!(said(&folder.examine(more, Purpose::Start)), "");
}

#[test]
fn a_port_of_datagrams_of_one_family_is_looked_at_too() {
    let folder = RouterFolder::new();
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let more =
        format!("listeners: [{{binding: transport_udp, address: 'udp4:127.0.0.1:{port}'}}]\n");
    let start = said(&folder.examine(&more, Purpose::Start));
    assert!(start.contains("in use by another program"), "{start}");
    drop(taken);
    assert_eq!(said(&folder.examine(&more, Purpose::Start)), "");
}

#[test]
fn what_is_written_later_can_be_written() {
    let folder = RouterFolder::new();
    // No user can create files in /proc, not even root.
    let more = "edge: {db: /proc/model.gzip}\n\
                listeners: [{binding: edge, address: 'tls:127.0.0.1:0', advertise: 'localhost:1'}]\n\
                trace: {path: /proc/trace}\n";
    let start = said(&folder.examine(more, Purpose::Start));
    for key in ["edge.db", "trace.path"] {
        let part = format!("{key}: no file can be written in the directory /proc");
        assert!(start.contains(&part), "{start}");
    }
    assert_eq!(said(&folder.examine(more, Purpose::Advice)), "", "who asks may be somebody else");
    let endpoints = |file: &str| {
        let none = |_: &str| None;
        let ctrl = format!("{{endpoint: 'tls:localhost:6262', endpointsFile: {file}}}");
        let text = folder.text("").replace("{endpoint: 'tls:localhost:6262'}", &ctrl);
        let path = folder.folder.path().join("router.yml");
        let mut examined = RouterConfig::examine(&text, &path, &none).unwrap();
        router(&mut examined, Purpose::Start);
        said(&examined)
    };
    // The folder is created when it is needed.
    let there = folder.folder.path().join("new/newer/endpoints");
    assert_eq!(endpoints(&there.display().to_string()), "");
    assert!(!folder.folder.path().join("new").exists(), "whoever looks makes nothing");
    assert_eq!(fs::read_dir(folder.folder.path()).unwrap().flatten().count(), 4);
    let said = endpoints("/proc/new/endpoints");
    assert!(said.contains("ctrl.endpointsFile: no file can be written in"), "{said}");
    let said = endpoints(&folder.path("ca").join("endpoints").display().to_string());
    assert!(said.contains("is not a directory"), "{said}");
}

#[test]
fn some_controller_is_named_or_waited_for() {
    let folder = RouterFolder::new();
    let none = |_: &str| None;
    let file = folder.folder.path().join("router.yml");
    let look = |ctrl: &str| {
        let text = folder.text("").replace("{endpoint: 'tls:localhost:6262'}", ctrl);
        let mut examined = RouterConfig::examine(&text, &file, &none).unwrap();
        router(&mut examined, Purpose::Start);
        examined
    };
    assert!(said(&look("{}")).contains("ctrl: no controller is known"));
    let misspelt = said(&look("{endpiont: 'tls:localhost:6262'}"));
    assert!(misspelt.contains("did you mean `endpoint`?"), "{misspelt}");
    assert!(!misspelt.contains("no controller is known"), "{misspelt}");
    let waits = "{listeners: [{bind: 'tls:127.0.0.1:0', advertise: 'tls:localhost:6263'}]}";
    let waits = look(waits);
    assert_eq!(said(&waits), "");
    let about = |one: &weft_config::KeyAt| one.key.starts_with("ctrl.listeners");
    assert!(!waits.warnings.iter().any(about), "{:?}", waits.warnings);
    let named = look("{listeners: [{bind: 'tls:127.0.0.1:0', advertise: 'tls:elsewhere:6263'}]}");
    assert_eq!(said(&named), "");
    let told =
        |one: &weft_config::KeyAt| one.message.contains("will refuse the router's certificate");
    assert!(named.warnings.iter().any(told), "{:?}", named.warnings);
    fs::write(folder.folder.path().join("endpoints.yml"), "endpoints: ['tls:c:1']\n").unwrap();
    assert_eq!(said(&look("{}")), "");
}

#[test]
fn only_who_starts_needs_the_port() {
    let folder = RouterFolder::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let more = format!(
        "link: {{listeners: [{{binding: transport, bind: 'tls:127.0.0.1:{port}', advertise: 'tls:localhost:{port}'}}]}}\n"
    );
    assert_eq!(folder.problems(&more), "");
    let start = said(&folder.examine(&more, Purpose::Start));
    assert!(
        start.contains("link.listeners[0].bind: cannot listen at") && start.contains("in use"),
        "{start}"
    );
    drop(taken);
    assert_eq!(said(&folder.examine(&more, Purpose::Start)), "");
}

const SERVED: &str = "web:\n\
    - name: a\n  \
      bindPoints: [{interface: '127.0.0.1:1', address: 'elsewhere.example:1'}]\n  \
      apis: [{binding: health-checks}, {binding: metrics, options: {scrapeCert: /no/cert}}]\n";

/// Problems of servers and of files for traces, the same for both programs.
const SERVED_BADLY: [&str; 4] = [
    "web[0].apis[1].options.scrapeCert: scrapeCert /no/cert",
    "trace.path: the directory /no/such cannot be used",
    "profile.memory.path: ",
    "cannot be written: Is a directory",
];

/// A mistake in a controller's file. In a router's file it is a warning, because some clients of a
/// router's server do not compare names.
const MISNAMED: &str = "web[0].bindPoints[0].address: address not valid: identity is not valid";

fn served(folder: &RouterFolder) -> String {
    let folder = folder.folder.path().display();
    format!("{SERVED}trace: {{path: /no/such/trace}}\nprofile: {{memory: {{path: {folder}}}}}\n")
}

#[test]
fn a_router_that_could_not_serve_does_not_start() {
    let folder = RouterFolder::new();
    let examined = folder.examine(&served(&folder), Purpose::Advice);
    let (problems, warnings) = (said(&examined), lines(&examined.warnings));
    for part in SERVED_BADLY {
        assert!(problems.contains(part), "{part}\n{problems}");
    }
    assert_eq!(problems.lines().count(), 3, "{problems}");
    assert!(warnings.contains(MISNAMED), "{warnings}");
}

#[test]
fn a_controller_that_could_not_serve_does_not_start() {
    let folder = RouterFolder::new();
    let file = folder.folder.path().join("controller.yml");
    let none = |_: &str| None;
    let mut examined =
        ControllerConfig::examine(&folder.text(&served(&folder)), &file, &none).unwrap();
    controller(&mut examined, Purpose::Advice);
    let problems = said(&examined);
    for part in SERVED_BADLY {
        assert!(problems.contains(part), "{part}\n{problems}");
    }
    assert!(problems.contains(MISNAMED), "{problems}");
}

#[test]
fn whatever_has_no_effect_is_said_by_the_check() {
    let folder = RouterFolder::new();
    let none = |_: &str| None;
    let silent = |examined: &[weft_config::KeyAt]| {
        examined.iter().map(|one| (one.key.clone(), one.line)).collect::<Vec<_>>()
    };
    let file = folder.folder.path().join("controller.yml");
    let text = "v: 3\ndb: /tmp/x.db\ncommandRateLimiter: {enabled: false}\nedge:\n  \
        api: {address: 'a:1', activityUpdateBatchSize: 5}\nevents:\n  \
        log: {handler: {type: file, path: /tmp/e}, subscriptions: [{type: fabric.circuits}]}\n\
        additionalTrustDomains: [b]\nweb:\n- name: a\n  \
        bindPoints: [{interface: '127.0.0.1:1', address: 'localhost:1'}]\n  \
        apis: [{binding: edge-client}]\n";
    let mut examined = ControllerConfig::examine(text, &file, &none).unwrap();
    controller(&mut examined, Purpose::Advice);
    let named = [
        ("commandRateLimiter", 3),
        ("edge.api.activityUpdateBatchSize", 5),
        ("events", 6),
        ("additionalTrustDomains", 8),
    ];
    assert_eq!(silent(&examined.not_acted_upon), named.map(|(key, line)| (key.to_owned(), line)));
    let examined = folder.examine("managedConfig: {allow: [other]}\n", Purpose::Advice);
    let silent = silent(&examined.not_acted_upon);
    assert!(
        silent.iter().any(|(key, line)| key == "managedConfig.allow" && *line > 0),
        "{silent:?}"
    );
}

#[test]
fn the_database_is_a_file() {
    let folder = RouterFolder::new();
    let file = folder.folder.path().join("controller.yml");
    let none = |_: &str| None;
    let look = |db: &Path| {
        let text = format!("v: 3\ndb: {}\n", db.display());
        let mut examined = ControllerConfig::examine(&text, &file, &none).unwrap();
        controller(&mut examined, Purpose::Start);
        said(&examined)
    };
    let folder = folder.folder.path();
    assert!(look(folder).contains("is a folder; `db` names a file"), "{}", look(folder));
    assert!(!look(&folder.join("ctrl.db")).contains("db:"), "{}", look(&folder.join("ctrl.db")));
}
