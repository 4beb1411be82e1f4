//! A controller for tests: a store in memory, a clock that tests move, a seeded source of
//! randomness.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use serde_json::{Value, json};
use weft_auth::resolve::RequestCredentials;
use weft_contract::Api;
use weft_identity::{
    Authority, AuthoritySpec, Certificate, CertificateRequest, KeyAlgorithm, KeyPurpose,
    KeyedChain, Leaf, PrivateKey, San, SealKey, SubjectName, TrustBundle,
};
use weft_kernel::clock::{Clock, ManualClock, system_time};
use weft_kernel::random::SeededRandom;
use weft_kernel::work_limiter::WorkPermit;
use weft_model::{Id, Timestamp};
use weft_store::{Faulty, Memory, Store};

use crate::{Addresses, Call, Caller, Controller, Keys, Origin, Reply, Result, Settings};

/// 2026-01-02T03:04:05Z.
pub(crate) const NOW: Timestamp = Timestamp(1_767_323_045_000);
pub(crate) const USERNAME: &str = "admin";
pub(crate) const PASSWORD: &str = "geheimnis";

/// A controller under test.
pub(crate) struct Bed {
    pub(crate) controller: Controller,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Faulty<Memory>,
}

fn keys() -> Keys {
    let root = Authority::make_root(&AuthoritySpec::new("root"), system_time(NOW)).unwrap();
    keys_of(&root, "ctrl1", NOW, Vec::new())
}

/// The keys of a controller of this name, made at this time under a root authority, with more names of its host.
pub(crate) fn keys_of(root: &Authority, name: &str, now: Timestamp, more: Vec<San>) -> Keys {
    let now = system_time(now);
    let signer = root.make_intermediate(&AuthoritySpec::new("signer"), now).unwrap();
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let subject = SubjectName::common_name(name);
    let sans = more.into_iter().chain([San::Dns("ctrl.example".into())]).collect();
    let leaf = Leaf::for_key(key.public(), &subject, sans, KeyPurpose::Both, now).unwrap();
    let leaf = root.issue(&leaf).unwrap();
    let chain = KeyedChain::new(vec![leaf], key).unwrap();
    let bundle = TrustBundle::new([root.certificate().clone(), signer.certificate().clone()]);
    Keys {
        session: chain.clone(),
        enrollment: chain,
        authority: signer,
        bundle,
        trust_domain: "weft.test".into(),
    }
}

impl Bed {
    /// A new network with its default admin.
    pub(crate) async fn new() -> Self {
        Self::with(|_| ()).await
    }

    /// A new network with other settings.
    pub(crate) async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let store = Faulty::new(Memory::new());
        let key = Arc::new(SealKey::random().unwrap());
        let bed = Self::on(NOW, store, keys(), key, change).await;
        bed.controller.init_admin("Default Admin", USERNAME, PASSWORD).await.unwrap();
        bed
    }

    pub(crate) async fn on(
        now: Timestamp,
        store: Faulty<Memory>,
        keys: Keys,
        session_key: Arc<SealKey>,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let clock = Arc::new(ManualClock::at(now));
        let addresses = Addresses {
            api: "ctrl.example:1280".into(),
            ctrl: vec!["tls:ctrl.example:6262".into()],
            apis: BTreeMap::from([
                (Api::Client, vec!["https://ctrl.example:1280/edge/client/v1".into()]),
                (Api::Management, vec!["https://ctrl.example:1280/edge/management/v1".into()]),
            ]),
        };
        let shared: Arc<dyn Store> = Arc::new(store.clone());
        let mut settings = Settings {
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            random: Arc::new(SeededRandom::new(42)),
            session_key: Some(session_key),
            ..Settings::new("ctrl1", shared, keys, addresses)
        };
        change(&mut settings);
        let controller = Controller::start(settings).await.unwrap();
        Self { controller, clock, store }
    }

    /// Restarts the controller with the same store and keys.
    pub(crate) async fn restarted(&self) -> Self {
        self.restarted_with(|_| ()).await
    }

    /// Restarts the controller with the same store and keys, and other settings.
    pub(crate) async fn restarted_with(&self, change: impl FnOnce(&mut Settings)) -> Self {
        self.restarted_on((*self.controller.auth().keys()).clone(), change).await
    }

    /// Restarts the controller with the same store and these keys.
    pub(crate) async fn restarted_on(
        &self,
        keys: Keys,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let key = self.controller.kernel().settings().session_key.clone().unwrap();
        // Each start has a seed of its own.
        static STARTS: AtomicU64 = AtomicU64::new(1000);
        let random = Arc::new(SeededRandom::new(STARTS.fetch_add(1, Ordering::Relaxed)));
        let change = |settings: &mut Settings| {
            settings.random = random;
            change(settings);
        };
        Self::on(self.clock.now(), self.store.clone(), keys, key, change).await
    }

    /// The administrator, logged in.
    pub(crate) async fn admin(&self) -> Caller {
        self.login(USERNAME, PASSWORD).await.unwrap()
    }

    /// Logs in with a password.
    pub(crate) async fn login(&self, username: &str, password: &str) -> Result<Caller> {
        let call = to(Api::Management, "authenticate", &[])
            .with_query("method", "password")
            .with_json(&json!({"username": username, "password": password}));
        let reply = self.controller.call(Caller::nobody(Origin::default()), call).await?;
        Ok(self.with_token(reply.data()["token"].as_str().unwrap()))
    }

    /// The caller of a session token, with the certificate of its login if there was one.
    pub(crate) fn with_token(&self, token: &str) -> Caller {
        let session =
            self.controller.auth().sessions().by_token(token, self.controller.kernel().now());
        let shown = session.and_then(|session| {
            let first =
                session.certificates.iter().find(|it| it.created_at <= session.base.created_at);
            Some(Certificate::from_pem(first?.cert_pem.as_bytes()).unwrap())
        });
        self.with_token_and(token, shown.unwrap_or_default())
    }

    /// The caller of a session token on a connection with these certificates.
    pub(crate) fn with_token_and(&self, token: &str, certificates: Vec<Certificate>) -> Caller {
        let session = Some(token.to_owned());
        let origin = Origin { certificates, ..Origin::default() };
        self.controller.auth().resolve(RequestCredentials {
            session,
            origin,
            ..RequestCredentials::default()
        })
    }

    /// Logs in with a certificate.
    pub(crate) async fn login_with(&self, chain: &[Certificate]) -> Result<Reply> {
        let origin = Origin { certificates: chain.to_vec(), ..Origin::default() };
        let call = to(Api::Client, "authenticate", &[]).with_query("method", "cert");
        self.controller.call(Caller::nobody(origin), call).await
    }

    /// Logs in with a certificate, as a client with a key of an end: its token.
    pub(crate) async fn login_as_end(&self, chain: &[Certificate]) -> String {
        let origin = Origin { certificates: chain.to_vec(), ..Origin::default() };
        let key = STANDARD.encode([&[4][..], &[7; 64]].concat());
        let call = to(Api::Client, "authenticate", &[]).with_query("method", "cert");
        let call = call.with_json(&json!({"endKey": key}));
        let reply = self.controller.call(Caller::nobody(origin), call).await.unwrap();
        reply.data()["token"].as_str().unwrap().to_owned()
    }

    /// Runs an operation of the management API.
    pub(crate) async fn manage(
        &self,
        caller: &Caller,
        operation: &str,
        path: &[&str],
        body: Value,
    ) -> Result<Value> {
        let mut call = to(Api::Management, operation, path);
        if !body.is_null() {
            call = call.with_json(&body);
        }
        Ok(self.controller.call(caller.clone(), call).await?.data())
    }

    /// Creates an entity and returns its id.
    pub(crate) async fn create(&self, caller: &Caller, operation: &str, body: Value) -> String {
        let data = self.manage(caller, operation, &[], body).await;
        let data = data.unwrap_or_else(|failure| panic!("{operation}: {failure}"));
        data["id"].as_str().unwrap().to_owned()
    }

    /// Runs an operation of the client API.
    pub(crate) async fn client(
        &self,
        caller: &Caller,
        operation: &str,
        path: &[&str],
        body: Value,
    ) -> Result<Value> {
        let mut call = to(Api::Client, operation, path);
        if !body.is_null() {
            call = call.with_json(&body);
        }
        Ok(self.controller.call(caller.clone(), call).await?.data())
    }

    /// Runs a list operation of the management API with a filter.
    pub(crate) async fn list(&self, caller: &Caller, operation: &str, filter: &str) -> Vec<Value> {
        let call = to(Api::Management, operation, &[]).with_query("filter", filter);
        let reply = self.controller.call(caller.clone(), call).await;
        let reply = reply.unwrap_or_else(|failure| panic!("{operation}: {failure}"));
        reply.data().as_array().unwrap().clone()
    }

    /// All permits for large lists; other lists wait until they are dropped.
    pub(crate) fn all_scans(&self) -> Vec<WorkPermit> {
        let one = |number: u32| {
            let caller = Caller::router(&Id::new(&format!("r{number}")), "test");
            self.controller.kernel().scans().asked_by(&caller).permit().now_or_never()
        };
        (0..).map_while(one).map(Result::unwrap).collect()
    }

    /// Makes an identity with an ott enrollment and enrolls it. Returns its id and certificate
    /// chain.
    pub(crate) async fn enroll(&self, admin: &Caller, name: &str) -> (String, Vec<Certificate>) {
        let body = json!({"name": name, "type": "Default", "isAdmin": false,
            "enrollment": {"ott": true}});
        let id = self.create(admin, "createIdentity", body).await;
        let identity = self.manage(admin, "detailIdentity", &[&id], Value::Null).await.unwrap();
        let token = identity["enrollment"]["ott"]["token"].as_str().unwrap().to_owned();
        let chain = self.use_ott(&token, &id).await.unwrap();
        (id, chain)
    }

    /// Uses an ott ticket.
    pub(crate) async fn use_ott(&self, token: &str, id: &str) -> Result<Vec<Certificate>> {
        let csr = csr(id);
        let mut call =
            to(Api::Client, "enroll", &[]).with_query("method", "ott").with_query("token", token);
        call.media = Some("text/plain".into());
        call.body = csr.into();
        let reply = self.controller.call(Caller::nobody(Origin::default()), call).await?;
        let pem = reply.data()["cert"].as_str().unwrap().to_owned();
        Ok(Certificate::from_pem(pem.as_bytes()).unwrap())
    }

    /// Makes an edge router and enrolls it. Returns its id.
    pub(crate) async fn router(&self, admin: &Caller, name: &str, body: Value) -> Id {
        let mut body = body;
        body["name"] = json!(name);
        let id = self.create(admin, "createEdgeRouter", body).await;
        let router = self.manage(admin, "detailEdgeRouter", &[&id], Value::Null).await.unwrap();
        let token = router["enrollmentToken"].as_str().unwrap().to_owned();
        let call = to(Api::Client, "enroll", &[])
            .with_query("method", "erott")
            .with_query("token", &token)
            .with_json(&json!({"certCsr": csr(&id), "serverCertCsr": csr(&id)}));
        self.controller.call(Caller::nobody(Origin::default()), call).await.unwrap();
        Id::new(&id)
    }
}

/// Waits until an effect of a change is seen; panics after a deadline.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    while !is_so() {
        assert!(tokio::time::Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

/// Settings for a store, with a test clock at [`NOW`].
pub(crate) fn bare_settings(store: Arc<dyn Store>) -> Settings {
    Settings {
        clock: Arc::new(ManualClock::at(NOW)),
        ..Settings::new("ctrl1", store, keys(), Addresses::default())
    }
}

/// A certificate signing request for a common name.
pub(crate) fn csr(name: &str) -> String {
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    CertificateRequest::make_pem(&key, &SubjectName::common_name(name), &[]).unwrap()
}

/// A call of an operation; panics if the operation does not exist.
pub(crate) fn to(api: Api, operation: &str, path: &[&str]) -> Call {
    Call::to(api, operation, path).unwrap_or_else(|| panic!("no operation {operation}"))
}
