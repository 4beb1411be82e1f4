//! Identities with certificates of an authority of the operator's own, at the command line.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use weft_identity::{
    Authority, AuthoritySpec, KeyAlgorithm, KeyPurpose, Leaf, PrivateKey, San, SubjectName,
};

use crate::network::{NetworkFolder, PASSWORD, USER};
use crate::program::{Program, text, weft};
use crate::wait::PATIENCE;

/// A network, and an authority that it does not know yet.
struct Scene {
    _network: Program,
    place: NetworkFolder,
    authority: Authority,
}

impl Scene {
    async fn start() -> Self {
        let place = NetworkFolder::empty();
        let mut network = place.quickstart();
        network.says("The network is up", PATIENCE).await;
        let authority =
            Authority::make_root(&AuthoritySpec::new("Company"), SystemTime::now()).unwrap();
        fs::write(place.folder().join("ca.pem"), authority.certificate().to_pem()).unwrap();
        fs::write(place.folder().join("ca.key"), authority.key().to_pem()).unwrap();
        let scene = Self { _network: network, place, authority };
        let url = scene.url();
        scene.does(&["login", &url, "-y", "-u", USER, "-p", PASSWORD, "-n", "admin"]).await;
        scene
    }

    fn folder(&self) -> &Path {
        self.place.folder()
    }

    fn url(&self) -> String {
        format!("https://localhost:{}", self.place.control)
    }

    /// Makes the files NAME.pem and NAME.key of a client with this e-mail address.
    fn certificate(&self, name: &str) {
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let sans = vec![San::Email(format!("{name}@company.example"))];
        let subject = SubjectName::common_name(name);
        let now = SystemTime::now();
        let leaf = Leaf::for_key(key.public(), &subject, sans, KeyPurpose::Client, now).unwrap();
        let certificate = self.authority.issue(&leaf).unwrap();
        fs::write(self.folder().join(format!("{name}.pem")), certificate.to_pem()).unwrap();
        fs::write(self.folder().join(format!("{name}.key")), key.to_pem()).unwrap();
    }

    /// The output of a command that has to succeed.
    async fn does(&self, args: &[&str]) -> String {
        let done = weft(self.folder(), args).await;
        assert!(done.status.success(), "weft {args:?}: {}", text(&done));
        text(&done)
    }

    /// The output of a command that has to fail with this status.
    async fn fails(&self, status: i32, args: &[&str]) -> String {
        let done = weft(self.folder(), args).await;
        assert_eq!(done.status.code(), Some(status), "weft {args:?}: {}", text(&done));
        text(&done)
    }

    /// Logs in with an identity file, as an administrator may see.
    async fn logs_in(&self, file: &str) {
        self.does(&["login", "-i", file, "-y", "-n", file]).await;
        self.does(&["use", "admin"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_is_added_proved_and_used_to_enroll() {
    let scene = Scene::start().await;
    scene.certificate("anna");
    scene.certificate("robot");

    // What cannot be an authority, and a key of another one, make nothing.
    let said = scene.fails(2, &["ca", "add", "anna.pem"]).await;
    assert!(said.contains("anna.pem: the certificate is none of an authority"), "{said}");
    let said = scene.fails(1, &["ca", "add", "ca.pem", "--key", "anna.key"]).await;
    assert!(said.contains("key"), "{said}");
    let said = scene.does(&["ca", "add", "ca.pem", "--key", "ca.key", "--dry-run"]).await;
    assert!(said.contains("CN=Company; its certificates may log in"), "{said}");
    assert!(scene.does(&["list", "cas"]).await.contains("0 cas"));

    // Without the key it says how the key is proved.
    let said = scene.does(&["ca", "add", "ca.pem", "-n", "later"]).await;
    assert!(said.contains("openssl") && said.contains("weft verify ca later"), "{said}");
    scene.does(&["delete", "ca", "later", "-y"]).await;

    let flags = ["--enroll-with-token", "--enroll-by-itself", "--identity-roles", "devices"];
    let add = [&["ca", "add", "ca.pem", "--key", "ca.key"][..], &flags].concat();
    let said = scene.does(&add).await;
    assert!(said.contains("proved") && said.contains("--enrollment-ottca Company"), "{said}");

    // With the token of an identity.
    scene.does(&["create", "identity", "anna", "--enrollment-ottca", "Company"]).await;
    scene.does(&["jwt", "identity", "anna", "-o", "anna.jwt"]).await;
    let said = scene.fails(5, &["enroll", "anna.jwt"]).await;
    assert!(said.contains("--cert FILE --key FILE"), "{said}");
    assert!(!scene.folder().join("anna.json").exists());
    scene.does(&["enroll", "anna.jwt", "--cert", "anna.pem", "--key", "anna.key"]).await;
    scene.logs_in("anna.json").await;
    // The file names the certificate, which may be renewed in its place.
    let file = fs::read_to_string(scene.folder().join("anna.json")).unwrap();
    assert!(file.contains("anna.key") && !file.contains("PRIVATE KEY"), "{file}");

    // With the token of the authority.
    scene.does(&["jwt", "ca", "Company", "-o", "company.jwt"]).await;
    let own = ["--cert", "robot.pem", "--key", "robot.key", "-o", "robot.json"];
    scene.does(&[&["enroll", "company.jwt"][..], &own].concat()).await;
    let listed = scene.does(&["list", "identities", "anyOf(roleAttributes) = \"devices\""]).await;
    assert!(listed.contains("Company-robot"), "{listed}");
    scene.logs_in("robot.json").await;
    let sessions =
        scene.does(&["list", "api-sessions", "--columns", "identity,login.factors"]).await;
    let of_robot = sessions.lines().find(|line| line.contains("Company-robot"));
    assert!(of_robot.is_some_and(|line| line.contains("cert")), "{sessions}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_finds_identities_and_a_token_sets_a_password() {
    let scene = Scene::start().await;
    scene.certificate("anna");
    scene.does(&["ca", "add", "ca.pem", "--key", "ca.key", "--claim", "email"]).await;
    let id = "anna@company.example";
    scene.does(&["create", "identity", "anna", "--external-id", id]).await;
    let url = scene.url();
    // An identity without a permission logs in, and may do nothing as an operator.
    let login = ["login", &url, "-y", "--cert", "anna.pem", "--key", "anna.key", "-n", "anna"];
    assert!(scene.does(&login).await.contains("as anna"));
    scene.does(&["use", "admin"]).await;

    scene.does(&["create", "identity", "bob", "--enrollment-updb", "bobby"]).await;
    scene.does(&["jwt", "identity", "bob", "-o", "bob.jwt"]).await;
    let said = scene.fails(2, &["enroll", "bob.jwt"]).await;
    assert!(said.contains("WEFT_NEW_PASSWORD"), "{said}");
    let said = scene.fails(2, &["enroll", "bob.jwt", "--new-password", "abc"]).await;
    assert!(said.contains("the password"), "{said}");
    let password = "a-long-enough-secret";
    let said = scene.does(&["enroll", "bob.jwt", "--new-password", password]).await;
    assert!(said.contains("weft login -u bobby"), "{said}");
    scene.does(&["login", &url, "-y", "-u", "bobby", "-p", password, "-n", "bob"]).await;
    let said = scene.fails(5, &["enroll", "bob.jwt", "--new-password", password]).await;
    assert!(said.contains("used already"), "{said}");
}
