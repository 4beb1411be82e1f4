//! Keys and certificates that are exchanged while all programs run.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::json;
use tokio_util::task::AbortOnDropHandle;
use weft_client::ClientApi;
use weft_contract::resource::enrollment::EnrollmentCerts;
use weft_identity::{
    Authority, AuthoritySpec, Certificate, CertificateRequest, IdentityFile, IdentityMaterial,
    KeyAlgorithm, KeyPurpose, Leaf, PrivateKey, SubjectName, to_pem, write_private,
};
use weft_sdk::{Endpoint, EndpointBuilder, chain};

use crate::network::Network;
use crate::operator::Operator;
use crate::streams::{Busy, Manner, Server, dial, round_trip};
use crate::wait::{PATIENCE, until};

/// Latest time until new files are used.
const SOON: Duration = Duration::from_secs(30);

/// The keys and certificates of a network in its home.
struct Pki<'n>(&'n Network);

impl Pki<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.0.place.home().join("pki").join(name)
    }

    fn certificates(&self, name: &str) -> Vec<Certificate> {
        Certificate::from_pem(&fs::read(self.path(name)).unwrap()).unwrap()
    }

    fn write(&self, name: &str, text: &str) {
        write_private(&self.path(name), text.as_bytes()).unwrap();
    }

    fn authority(&self, name: &str) -> Authority {
        let key = fs::read(self.path(&format!("{name}.key"))).unwrap();
        let certificate = self.certificates(&format!("{name}.crt")).remove(0);
        Authority::new(certificate, PrivateKey::from_pem(&key).unwrap()).unwrap()
    }

    /// A new key and certificate for the controller, with the same names, from the edge signer.
    fn exchange_controller(&self) {
        let current = self.certificates("controller.crt").remove(0);
        let signer = self.authority("signer");
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let (sans, now) = (current.sans().to_vec(), SystemTime::now());
        let leaf = Leaf {
            subject: current.subject_der().to_vec(),
            ..Leaf::for_key(key.public(), &SubjectName::default(), sans, KeyPurpose::Both, now)
                .unwrap()
        };
        let chain = [signer.issue(&leaf).unwrap(), signer.certificate().clone()];
        // One after the other: for a moment they do not match.
        self.write("controller.crt", &to_pem(&chain));
        self.write("controller.key", &key.to_pem());
    }

    /// A new edge signer below an authority.
    fn exchange_signer(&self, above: &Authority) -> Authority {
        let domain = self.certificates("root.crt").remove(0);
        let domain =
            domain.spiffe_uris().next().unwrap().trim_start_matches("spiffe://").to_owned();
        let spec = AuthoritySpec {
            path_len: Some(0),
            trust_domain: Some(domain),
            ..AuthoritySpec::new("another edge signer")
        };
        let signer = above.make_intermediate(&spec, SystemTime::now()).unwrap();
        self.write("signer.key", &signer.key().to_pem());
        self.write("signer.crt", &signer.certificate().to_pem());
        signer
    }

    /// New keys and certificates for the router, from the controller, in exchange for the present
    /// ones.
    async fn exchange_router(&self) {
        let read = |name: &str| fs::read_to_string(self.path(name)).unwrap();
        let current = self.certificates("router.crt").remove(0);
        let server = self.certificates("router.server.crt").remove(0);
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let csr =
            |sans: &[_]| CertificateRequest::renew_pem(&key, current.subject_der(), sans).unwrap();
        let body = json!({"certCsr": csr(&[]), "serverCertCsr": csr(server.sans())});
        let id = IdentityMaterial::inline(
            &read("router.key"),
            &read("router.crt"),
            &read("router.ca.crt"),
        );
        let api = format!("https://localhost:{}/edge/client/v1", self.0.place.control);
        let router = ClientApi::of_identity(&IdentityFile { api, id, ..IdentityFile::default() });
        let certs: EnrollmentCerts =
            router.unwrap().call("extendRouterEnrollment", &[], &[], Some(&body)).await.unwrap();
        self.write("router.crt", &certs.cert);
        self.write("router.server.crt", &certs.server_cert);
        self.write("router.key", &key.to_pem());
    }

    /// Changes files of a program, and waits until it logs that it uses them.
    async fn until_used(&self, program: &str, words: &str, exchange: impl AsyncFnOnce()) {
        let log = self.0.place.folder().join(format!("{program}.log"));
        let said = || fs::read_to_string(&log).unwrap().matches(words).count();
        let before = said();
        exchange().await;
        let used = async || if said() > before { Ok(()) } else { Err("not yet") };
        until(&format!("{program} uses other files"), SOON, used).await;
    }

    async fn at_controller(&self, exchange: impl AsyncFnOnce()) {
        self.until_used("controller", "changed identity files are in use", exchange).await;
    }

    async fn at_router(&self, exchange: impl AsyncFnOnce()) {
        self.until_used("router", "new certificates are in use", exchange).await;
    }
}

/// Enrolls an identity, logs it in and dials. One try may fail, because a ticket signed just before
/// an exchange is invalid after it; the next must succeed.
async fn newcomer(operator: &Operator, service: &str) -> Endpoint {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let attempt = async || -> Result<Endpoint, String> {
        let name = format!("newcomer {}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let file = operator.try_identity(&name).await?;
        let endpoint = EndpointBuilder::new().build(file).await.map_err(|error| chain(&error))?;
        let mut stream = endpoint.dial(service).await.map_err(|error| chain(&error))?;
        round_trip(&mut stream, "a newcomer").await.map_err(|error| error.to_string())?;
        Ok(endpoint)
    };
    until("somebody enrolls, logs in and dials", SOON, attempt).await.0
}

/// Dials repeatedly; counts successes and failures.
struct Dialing {
    worked: Arc<AtomicU32>,
    failed: Arc<AtomicU32>,
    _task: AbortOnDropHandle<()>,
}

impl Dialing {
    fn start(endpoint: Endpoint, service: &'static str) -> Self {
        let (worked, failed) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let counts = (Arc::clone(&worked), Arc::clone(&failed));
        let task = tokio::spawn(async move {
            loop {
                let done = match endpoint.dial(service).await {
                    Ok(mut stream) => round_trip(&mut stream, "again").await.is_ok(),
                    Err(_) => false,
                };
                let count = if done { &counts.0 } else { &counts.1 };
                count.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        Self { worked, failed, _task: AbortOnDropHandle::new(task) }
    }

    /// Waits for some more successes, and returns the number of failures.
    async fn goes_on(&self) -> u32 {
        let wanted = self.worked.load(Ordering::Relaxed) + 10;
        let look = async || match self.worked.load(Ordering::Relaxed) {
            worked if worked >= wanted => Ok(()),
            worked => Err(worked),
        };
        until("dials go on", PATIENCE, look).await;
        self.failed.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_key_is_exchanged_under_load() {
    const SERVICE: &str = "echo";
    let mut network = Network::start().await;
    network.operator.allow_everybody().await;
    network.operator.service(SERVICE, true).await;
    let hosting = network.operator.endpoint("host").await;
    let _server = Server::sdk(&hosting, SERVICE, Manner::Echo).await;
    let of_before = network.operator.identity("of before").await;
    let endpoint = EndpointBuilder::new().build(of_before.clone()).await.unwrap();
    let busy = Busy::start(dial(&endpoint, SERVICE).await);
    let dialing = Dialing::start(endpoint.clone(), SERVICE);
    let pki = Pki(&network);
    let router_before = pki.certificates("router.crt").remove(0);

    // The controller: TLS, tokens and tickets.
    pki.at_controller(async || pki.exchange_controller()).await;
    newcomer(&network.operator, SERVICE).await;
    assert_eq!(dialing.goes_on().await, 0);
    busy.goes_on().await;

    // The edge signer.
    let root = pki.authority("root");
    pki.at_controller(async || drop(pki.exchange_signer(&root))).await;
    let newcomers = newcomer(&network.operator, SERVICE).await;
    // An identity with a certificate of the former signer logs in.
    let again = EndpointBuilder::new().build(of_before.clone()).await.unwrap();
    round_trip(&mut dial(&again, SERVICE).await, "of before").await.unwrap();
    assert_eq!(dialing.goes_on().await, 0);

    // The router.
    pki.at_router(async || pki.exchange_router().await).await;
    newcomer(&network.operator, SERVICE).await;
    assert_eq!(dialing.goes_on().await, 0);
    busy.goes_on().await;
    busy.end().await;
    drop((dialing, newcomers));
    restart_router(&mut network).await;
    let pki = Pki(&network);
    let router_after = pki.certificates("router.crt").remove(0);
    assert_ne!(router_before.public_key().unwrap(), router_after.public_key().unwrap());

    // The root: first the old and the new one are trusted, then all certificates are below the new one,
    // then only the new one is trusted.
    let old = pki.certificates("root.crt");
    let uri = old[0].spiffe_uris().next().unwrap().trim_start_matches("spiffe://").to_owned();
    let spec = AuthoritySpec { trust_domain: Some(uri), ..AuthoritySpec::new("another root") };
    let new = Authority::make_root(&spec, SystemTime::now()).unwrap();
    let both = format!("{}{}", to_pem(&old), new.certificate().to_pem());
    pki.at_controller(async || pki.write("root.crt", &both)).await;
    let believed = fs::read_to_string(pki.path("router.ca.crt")).unwrap();
    let believed = format!("{believed}{}", new.certificate().to_pem());
    pki.at_router(async || pki.write("router.ca.crt", &believed)).await;
    pki.at_controller(async || {
        pki.exchange_signer(&new);
    })
    .await;
    pki.at_controller(async || pki.exchange_controller()).await;
    network.operator = Operator::log_in(network.place.control).await;
    let pki = Pki(&network);
    pki.at_router(async || pki.exchange_router().await).await;
    let hosting = newcomer_who_hosts(&network.operator, SERVICE).await;
    let endpoint = newcomer(&network.operator, SERVICE).await;
    pki.at_controller(async || pki.write("root.crt", &new.certificate().to_pem())).await;
    let alone = to_pem([new.certificate()]);
    pki.at_router(async || pki.write("router.ca.crt", &alone)).await;
    restart_router(&mut network).await;
    let after = newcomer(&network.operator, SERVICE).await;
    for endpoint in [&endpoint, &after] {
        round_trip(&mut dial(endpoint, SERVICE).await, "all is new").await.unwrap();
    }
    // Certificates below the old root alone are refused.
    let refused = EndpointBuilder::new().build(of_before).await;
    assert!(refused.is_err(), "the old root is believed still");
    drop(hosting);
}

/// Kills the router, starts it, and waits until the controller has seen both: files that are changed
/// after that are changed for a router that has read the former ones.
async fn restart_router(network: &mut Network) {
    network.kill_router();
    network.router_online(false, PATIENCE).await;
    network.start_router();
    network.router_online(true, PATIENCE).await;
}

/// A new identity that hosts the service too.
async fn newcomer_who_hosts(operator: &Operator, service: &str) -> (Endpoint, Server) {
    let endpoint = operator.endpoint("host of the new root").await;
    let server = Server::sdk(&endpoint, service, Manner::Echo).await;
    (endpoint, server)
}
