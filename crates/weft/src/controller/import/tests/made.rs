//! A network of the original that becomes a controller of weft: its file is good, and those who were enrolled log in.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;
use weft_auth::password::Hasher;
use weft_client::{About, ClientApi, Credentials, Tls};
use weft_config::ControllerConfig;
use weft_identity::{
    Authority, Certificate, IdentitySection, LiveIdentity, PrivateKey, TrustBundle,
};
use weft_model::Timestamp;

use super::super::database::read;
use super::super::{run, since};
use super::issued;
use super::network::{Network, flag, text, time};
use crate::check::{self, Purpose};
use crate::cli::ImportArgs;
use crate::compose::controller::{Core, Reach};
use crate::failure::Result;
use crate::home::Home;
use crate::output::Format;
use crate::pki;

const PASSWORD: &str = "before the move";
/// The tokens of sessions that began before the move: of a program with a certificate, and of the administrator.
const SESSION: &str = "2f1f0f3e-0000-4000-8000-000000000001";
const OTHER_SESSION: &str = "2f1f0f3e-0000-4000-8000-000000000002";

/// The files of a controller of the original.
pub(super) struct Before {
    folder: PathBuf,
    _removed: Option<tempfile::TempDir>,
    port: u16,
    /// Issues certificates of identities.
    pub(super) signer: Authority,
    /// The certificate and key of an identity that was enrolled.
    enrolled: IdentitySection,
    root: TrustBundle,
}

impl Before {
    async fn new() -> Self {
        Self::in_folder(None).await
    }

    /// In a folder of its own, which is removed, or in this one.
    pub(super) async fn in_folder(given: Option<&Path>) -> Self {
        let removed = given.is_none().then(|| tempfile::tempdir().unwrap());
        let own = removed.as_ref().map(tempfile::TempDir::path);
        let folder = given.or(own).unwrap().to_owned();
        let home = Home::open(Some(&folder.join("old"))).unwrap();
        home.make_pki_folder().unwrap();
        pki::make(&home, "old.example", "ctrl1", &["ctrl.example"]).unwrap();
        let read = |name: &str| fs::read(home.pki(name)).unwrap();
        let signer = Certificate::from_pem(&read(pki::SIGNER_CERT)).unwrap().remove(0);
        let key = PrivateKey::from_pem(&read(pki::SIGNER_KEY)).unwrap();
        let signer = Authority::new(signer, key).unwrap();
        let (key, certificate) = issued(&signer, "host");
        let root = String::from_utf8(read(pki::ROOT_CERT)).unwrap();
        let enrolled = IdentitySection {
            cert: format!("pem:{certificate}"),
            key: format!("pem:{key}"),
            ca: format!("pem:{root}"),
            ..IdentitySection::default()
        };
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let root = TrustBundle::from_pem(root.as_bytes()).unwrap();
        let before = Self { folder, _removed: removed, port, signer, enrolled, root };
        before.write_file(&before.file(), &home);
        before.write_database("host", &certificate).await;
        before
    }

    fn file(&self) -> PathBuf {
        self.folder.join("ctrl.yaml")
    }

    pub(super) fn output(&self) -> PathBuf {
        self.folder.join("new")
    }

    fn write_file(&self, file: &Path, home: &Home) {
        let port = self.port;
        let pki = home.root().join("pki");
        let text = format!(
            "v: 3\ndb: ctrl.db\nidentity: {{cert: '{pki}/controller.crt', server_cert: '{pki}/controller.crt', \
             key: '{pki}/controller.key', ca: '{pki}/root.crt'}}\n\
             ctrl:\n  listener: tls:127.0.0.1:{port}\n  options: {{advertiseAddress: 'tls:ctrl.example:{port}'}}\n\
             events:\n  jsonLogger: {{subscriptions: [], handler: {{type: file, format: json, path: /tmp/x}}}}\n\
             edge:\n  api: {{address: 'ctrl.example:{port}'}}\n  enrollment:\n    \
             signingCert: {{cert: '{pki}/signer.crt', key: '{pki}/signer.key', ca: '{pki}/root.crt'}}\n    \
             edgeIdentity: {{duration: 3h}}\n    edgeRouter: {{duration: 3h}}\n\
             web:\n  - name: all\n    bindPoints: [{{interface: '127.0.0.1:{port}', address: 'ctrl.example:{port}'}}]\n    \
             apis: [{{binding: edge-client}}, {{binding: edge-management}}, {{binding: fabric}}]\n",
            pki = pki.display(),
        );
        fs::write(file, text).unwrap();
    }

    /// An administrator with a password, and an identity with a certificate.
    async fn write_database(&self, name: &str, certificate: &str) {
        let hashed = Hasher::new(1).hash(PASSWORD, [7; 10]).await.unwrap();
        let admin = vec![
            ("name", text("Ada")),
            ("type", text("Default")),
            ("isAdmin", flag(true)),
            ("isDefaultAdmin", flag(true)),
        ];
        let by_password = vec![
            ("method", text("updb")),
            ("identity", text("a1")),
            ("updbUsername", text("admin")),
            ("updbPassword", text(&hashed.password)),
            ("updbSalt", text(&hashed.salt)),
        ];
        let by_certificate = vec![
            ("method", text("cert")),
            ("identity", text("i1")),
            ("certPem", text(certificate)),
            ("isIssuedByNetwork", flag(true)),
        ];
        let now = now_in_seconds();
        let session = |identity: &str, authenticator: &str, token: &str| {
            vec![
                ("identity", text(identity)),
                ("authenticator", text(authenticator)),
                ("token", text(token)),
                ("lastActivityAt", time(now)),
            ]
        };
        let network = Network::new(44)
            .with_identity("i1", name)
            .with("identities", "a1", admin)
            .with("authenticators", "p1", by_password)
            .with("authenticators", "c1", by_certificate)
            .with("apiSessions", "x1", session("i1", "c1", SESSION))
            .with("apiSessions", "x2", session("a1", "p1", OTHER_SESSION));
        self.write_network(network);
    }

    pub(super) fn write_network(&self, network: Network) {
        fs::write(self.folder.join("ctrl.db"), network.bytes()).unwrap();
    }

    pub(super) async fn import(&self, force: bool) -> Result<()> {
        let args = ImportArgs {
            file: self.file(),
            database: None,
            folder: Some(self.output()),
            force,
            way_back: 7,
            since: None,
            index: None,
            format: Format::Json,
        };
        run(&args).await
    }

    /// The digest of the source, as the result has it.
    fn source(&self) -> Value {
        let note = fs::read(self.output().join("import.json")).unwrap();
        serde_json::from_slice::<Value>(&note).unwrap()["source"].clone()
    }

    fn client(&self, tls: &Tls) -> ClientApi {
        ClientApi::new(format!("127.0.0.1:{}", self.port).parse().unwrap(), tls).unwrap()
    }
}

/// The time, in seconds since 1970.
fn now_in_seconds() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64
}

/// All files below a folder with their contents.
fn tree(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(tree(&path)),
            false => found.push((path.clone(), fs::read(&path).unwrap())),
        }
    }
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_were_enrolled_log_in_and_the_network_keeps_its_name_and_authority() {
    let before = Before::new().await;
    before.import(false).await.unwrap();
    let file = before.output().join("controller.yaml");
    let mut examined = ControllerConfig::examine_path(&file).unwrap();
    check::controller(&mut examined, Purpose::Advice);
    assert_eq!(examined.problems, []);
    for reference in [&examined.config.identity.key, &examined.config.identity.ca] {
        assert!(Path::new(reference).starts_with(before.output()), "{reference}");
    }
    let core = Core::open_reaching(&file, Purpose::Start, Reach::Everywhere).await.unwrap();
    let running = core.serve().await.unwrap();
    let keys = running.controller().auth().keys();
    assert_eq!(keys.trust_domain, "old.example");
    let former = keys.session.leaf().fingerprint().to_owned();
    let published = running.controller().auth().public_keys();
    let former = published.iter().find(|key| key.kid == former).unwrap();
    assert!(former.for_tokens, "routers still verify tokens of the original");

    // Sessions of before go on, with tokens that are not in clear any more; routers know that of the program.
    let (sessions, now) =
        (running.controller().auth().sessions(), running.controller().kernel().now());
    for (token, id, is_told) in [(SESSION, "x1", true), (OTHER_SESSION, "x2", false)] {
        let session = sessions.by_token(token, now).unwrap();
        assert_eq!((session.base.id.as_str(), &*session.former_token), (id, ""));
        assert_eq!(running.controller().auth().legacy_session(&session).is_some(), is_told, "{id}");
    }

    let by_password = before.client(&Tls::Anonymous(before.root.clone()));
    let credentials = Credentials::password("admin", PASSWORD).unwrap();
    let session = by_password.login(credentials, About::default()).await.unwrap();
    assert_eq!(session.identity_id, "a1");
    let identity = LiveIdentity::load(before.enrolled.clone()).unwrap();
    let by_certificate = before.client(&Tls::Identity(identity));
    let session = by_certificate.login(Credentials::Certificate, About::default()).await.unwrap();
    assert_eq!(session.identity_id, "i1");
    let wrong = Credentials::password("admin", "another password").unwrap();
    assert!(by_password.login(wrong, About::default()).await.is_err());
    running.shutdown().await.unwrap();
    // Nobody changed anything: OpenZiti's controller could go on.
    let (_database, import) = read(&before.folder.join("ctrl.db")).unwrap();
    let stored = since::load(&before.output().join("controller.db")).unwrap();
    let now = Timestamp::from_secs(now_in_seconds());
    let found = since::differences(&import.snapshot, &stored, now);
    assert_eq!(found.iter().map(since::Since::row).collect::<Vec<_>>(), [Value::Null; 0]);
}

#[tokio::test]
async fn the_same_import_does_nothing_and_another_one_needs_force() {
    let before = Before::new().await;
    before.import(false).await.unwrap();
    let (first, source) = (tree(&before.output()), before.source());
    before.import(false).await.unwrap();
    assert!(tree(&before.output()) == first, "nothing was written");

    before.write_database("host", "").await;
    let refused = before.import(false).await.unwrap_err().to_string();
    assert!(refused.contains("--force"), "{refused}");
    assert!(tree(&before.output()) == first, "nothing was written");
    before.import(true).await.unwrap();
    assert_ne!(before.source(), source);
    let kept = before.folder.join("new.replaced-1");
    assert_eq!(tree(&kept).len(), first.len());
    // While a controller runs with it, it is not replaced.
    let file = before.output().join("controller.yaml");
    let core = Core::open(&file, Purpose::Advice).await.unwrap();
    let refused = before.import(true).await.unwrap_err().to_string();
    assert!(refused.contains("nothing was replaced"), "{refused}");
    core.close().await.unwrap();
}

#[tokio::test]
async fn an_import_that_fails_leaves_what_was_there() {
    let before = Before::new().await;
    before.import(false).await.unwrap();
    let first = tree(&before.output());
    // A key that weft cannot use, and a database that is damaged.
    let good = fs::read_to_string(before.file()).unwrap();
    let key = format!("key: '{}", before.folder.join("old/pki/signer.key").display());
    let wrong = good.replace(&key, "key: 'pkcs11://token/object");
    assert_ne!(wrong, good);
    fs::write(before.file(), wrong).unwrap();
    let refused = before.import(true).await.unwrap_err().to_string();
    assert!(refused.contains("pkcs11") && refused.contains("signingCert.key"), "{refused}");
    fs::write(before.file(), good).unwrap();
    let database = before.folder.join("ctrl.db");
    let bytes = fs::read(&database).unwrap();
    fs::write(&database, &bytes[..bytes.len() / 2]).unwrap();
    assert!(before.import(true).await.is_err());
    assert!(tree(&before.output()) == first);
    let mut names: Vec<_> = fs::read_dir(&before.folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["ctrl.db", "ctrl.yaml", "new", "old"]);
}

#[tokio::test]
async fn a_database_alone_and_a_clusters_log_are_refused() {
    let before = Before::new().await;
    let args = |file: PathBuf, index| ImportArgs {
        way_back: 7,
        since: None,
        file,
        database: None,
        folder: Some(before.output()),
        force: false,
        index,
        format: Format::Json,
    };
    let database = before.folder.join("ctrl.db");
    let refused = run(&args(database.clone(), None)).await.unwrap_err().to_string();
    assert!(refused.contains("--database"), "{refused}");
    let metadata = super::network::bucket(vec![("raftIndex", super::network::long(77))]);
    let mut network = Network::new(44).with_identity("i1", "host");
    network.root.insert(b"metadata".to_vec(), metadata);
    fs::write(&database, network.bytes()).unwrap();
    let refused = run(&args(before.file(), Some(76))).await.unwrap_err().to_string();
    assert!(refused.contains("--index 77"), "{refused}");
    assert!(!before.output().exists());
    run(&args(before.file(), Some(77))).await.unwrap();
    assert!(before.output().join("controller.db").exists());
}
