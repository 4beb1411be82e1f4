//! A token of an external signer as second factor at the command line.

use std::fs;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use weft_contract::resource;
use weft_identity::token::TokenSigner;
use weft_identity::{
    Authority, AuthoritySpec, KeyAlgorithm, KeyPurpose, Leaf, PrivateKey, SubjectName,
};

use crate::network::{NetworkFolder, PASSWORD, USER};
use crate::operator::Operator;
use crate::program::{Program, text, weft};
use crate::wait::PATIENCE;

/// A network with the signer `company`, and an administrator `laptop` whom it calls `anna`.
struct Scene {
    operator: Operator,
    tokens: TokenSigner,
    _network: Program,
    place: NetworkFolder,
}

impl Scene {
    async fn start() -> Self {
        let place = NetworkFolder::empty();
        let mut network = place.quickstart();
        network.says("The network is up", PATIENCE).await;
        let operator = Operator::log_in(place.control).await;
        let now = SystemTime::now();
        let root = Authority::make_root(&AuthoritySpec::new("company"), now).unwrap();
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let subject = SubjectName::common_name("company");
        let leaf = Leaf::for_key(key.public(), &subject, vec![], KeyPurpose::Both, now).unwrap();
        let leaf = root.issue(&leaf).unwrap();
        let tokens = TokenSigner::with_kid(key, leaf.fingerprint()).unwrap();
        let signer = json!({"name": "company", "issuer": "https://company.example", "audience": "weft",
            "enabled": true, "certPem": leaf.to_pem(), "claimsProperty": "/email", "useExternalId": true});
        operator.create(&resource::external_jwt_signer::KIND, &signer).await;
        let laptop = json!({"name": "laptop", "type": "Default", "isAdmin": true, "externalId": "anna",
            "enrollment": {"ott": true}});
        let laptop = operator.create(&resource::identity::KIND, &laptop).await;
        let made: Value = operator.client.get(&resource::identity::KIND, &laptop).await.unwrap();
        let token = made.pointer("/enrollment/ott/jwt").and_then(Value::as_str).unwrap();
        let file = weft_sdk::enroll(token).await.unwrap();
        file.write(&place.folder().join("laptop.json")).unwrap();
        Self { operator, tokens, _network: network, place }
    }

    /// Renews the file with the token.
    fn renew(&self) {
        let end = SystemTime::now() + Duration::from_secs(600);
        let end = end.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let claims =
            json!({"iss": "https://company.example", "aud": "weft", "exp": end, "email": "anna"});
        fs::write(self.place.folder().join("token.jwt"), self.tokens.sign(&claims).unwrap())
            .unwrap();
    }

    async fn weft(&self, args: &[&str]) -> (Option<i32>, String) {
        let done = weft(self.place.folder(), args).await;
        (done.status.code(), text(&done))
    }

    /// Runs a command that succeeds; what it said.
    async fn does(&self, args: &[&str]) -> String {
        let (status, said) = self.weft(args).await;
        assert_eq!(status, Some(0), "{args:?}: {said}");
        said
    }

    /// The session of the identity `laptop`.
    async fn session(&self) -> String {
        let all = self.operator.list(&resource::session::KIND).await;
        let own = all.iter().find(|session| session["identity"]["name"] == "laptop").unwrap();
        own["id"].as_str().unwrap().to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_gives_the_token_of_a_signer_as_second_factor() {
    let scene = Scene::start().await;
    let url = format!("localhost:{}", scene.place.control);
    scene.does(&["login", &url, "-u", USER, "-p", PASSWORD, "--yes", "--name", "main"]).await;
    // The rules that no flag names are filled in.
    let policy = ["create", "auth-policy", "strict", "--primary-cert-allowed"];
    let second = ["--secondary-require-ext-jwt-signer", "company"];
    scene.does(&[&policy[..], &second].concat()).await;
    scene.does(&["update", "identity", "laptop", "--auth-policy", "strict"]).await;

    let login = ["login", "-i", "laptop.json", "--name", "laptop"];
    let (status, said) = scene.weft(&login).await;
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("--second-token company=FILE"), "{said}");
    scene.renew();
    let with = [&login[..], &["--second-token", "company=token.jwt"]].concat();
    scene.does(&with).await;

    // The list names the signer, and its first column is what ends a session.
    let listed = scene.does(&["list", "api-sessions", "--login", "laptop"]).await;
    assert!(listed.contains("token of company"), "{listed}");
    let first = scene.session().await;
    assert!(listed.contains(&first), "{first}: {listed}");
    scene.does(&["delete", "api-session", &first, "--login", "main"]).await;
    // A login by certificate is renewed by the next command, which reads the file again.
    scene.renew();
    scene.does(&["list", "services", "--login", "laptop"]).await;
    assert_ne!(scene.session().await, first);
    // Without the file it is not renewed, and says why.
    let second = scene.session().await;
    scene.does(&["delete", "api-session", &second, "--login", "main"]).await;
    fs::remove_file(scene.place.folder().join("token.jwt")).unwrap();
    let (status, said) = scene.weft(&["list", "services", "--login", "laptop"]).await;
    assert_ne!(status, Some(0));
    assert!(said.contains("token.jwt") && said.contains("company"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_token_that_nobody_asks_for_is_neither_shown_nor_kept() {
    let scene = Scene::start().await;
    scene.renew();
    let url = format!("localhost:{}", scene.place.control);
    let folder = scene.place.folder().join("logins/logins");
    let saved = |name: &str| fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    let token = scene.operator.client.token().unwrap();
    let second = ["--second-token", "company=token.jwt"];
    for (name, with) in [("token", vec!["--token", &token]), ("laptop", vec!["-i", "laptop.json"])]
    {
        let args = ["login", &url, "--yes", "--name", name];
        let said = scene.does(&[&args[..], &with, &second].concat()).await;
        assert!(said.contains("the second token is not kept"), "{name}: {said}");
        assert!(!saved(name).contains("token.jwt"), "{name}");
    }
}
