//! Fetches from servers of this machine that behave as a provider should not. The tests of the advisory
//! GHSA-whjr-3j94-gw3c, about fetching key sets, are named after it.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use weft_identity::{
    Authority, AuthoritySpec, KeyAlgorithm, KeyPurpose, KeyedChain, Leaf, PrivateKey, San,
    SubjectName,
};

use super::*;

/// Addresses of names that nobody else knows: the answer to each question, and the last one again and again.
#[derive(Default)]
struct Names {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    /// The names that were asked for.
    asked: Mutex<Vec<String>>,
}

impl HostLookup for Names {
    fn lookup<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        self.asked.lock().push(host.to_owned());
        let mut names = self.answers.lock();
        let answers = names.get_mut(host);
        let answer = answers.map(|answers| match answers.len() {
            1 => answers[0].clone(),
            _ => answers.remove(0),
        });
        async move { answer.ok_or_else(|| io::Error::other("no such host")) }.boxed()
    }
}

fn rules() -> JwksFetch {
    JwksFetch { timeout: Duration::from_secs(20), ..weft_controller::open_fetch() }
}

fn names(of: &[(&str, &[&[&str]])]) -> Arc<Names> {
    let parsed = |answer: &&[&str]| answer.iter().map(|it| it.parse().unwrap()).collect();
    let of = of.iter().map(|(name, answers)| {
        ((*name).to_owned(), answers.iter().map(parsed).collect::<Vec<Vec<IpAddr>>>())
    });
    Arc::new(Names { answers: Mutex::new(of.collect()), asked: Mutex::default() })
}

/// A fetcher that looks names up there.
fn fetcher(rules: JwksFetch, names: Arc<Names>) -> Fetcher {
    Fetcher { lookup: Some(names), ..Fetcher::new(rules) }
}

/// A server that gives each connection the next answer, and the last one again and again. Its address.
async fn server(answers: Vec<String>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut next = 0;
        while let Ok((mut socket, _)) = listener.accept().await {
            let answer = answers[next.min(answers.len() - 1)].clone();
            next += 1;
            tokio::spawn(async move {
                let mut request = vec![0; 4096];
                let _ = socket.read(&mut request).await;
                let _ = socket.write_all(answer.as_bytes()).await;
                // A hanging server keeps the connection.
                if answer.is_empty() || answer.contains("Content-Length: 999999") {
                    let _ = socket.read(&mut request).await;
                }
            });
        }
    });
    address
}

fn document(text: &str) -> String {
    let length = text.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{text}"
    )
}

fn elsewhere(to: &str) -> String {
    format!(
        "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
}

async fn fetch(address: SocketAddr) -> Result<Vec<u8>, String> {
    Fetcher::new(rules()).document(&format!("http://{address}/keys")).await
}

/// The reason of a refusal.
async fn refused(address: SocketAddr) -> String {
    fetch(address).await.unwrap_err()
}

#[tokio::test]
async fn a_document_is_fetched_over_redirects() {
    let target = server(vec![document("{}")]).await;
    let start = server(vec![elsewhere("/other"), elsewhere(&format!("http://{target}/x"))]).await;
    assert_eq!(fetch(start).await.unwrap(), b"{}");
}

#[tokio::test]
async fn ghsa_whjr_3j94_gw3c_redirects_to_metadata_are_refused() {
    for to in [
        "http://169.254.169.254/latest",
        "https://169.254.169.254/latest",
        "https://[fe80::1]/",
        "https://[::ffff:169.254.169.254]/",
        "https://[fd00:ec2::254]/",
    ] {
        let reason = refused(server(vec![elsewhere(to)]).await).await;
        assert!(reason.contains("forbids fetching"), "{to}: {reason}");
    }
    let reason = refused(server(vec![elsewhere("http://idp.example/keys")]).await).await;
    assert!(reason.contains("https"), "plain HTTP to elsewhere: {reason}");
    let reason = refused(server(vec![elsewhere("file:///etc/passwd")]).await).await;
    assert!(reason.contains("http"), "{reason}");
}

#[tokio::test]
async fn ghsa_whjr_3j94_gw3c_names_of_metadata_are_refused_when_they_were_resolved() {
    let judge = async |url: &str, names| fetcher(rules(), names).document(url).await.unwrap_err();
    for address in ["169.254.169.254", "fd00:ec2::254", "::ffff:169.254.169.254", "0.0.0.0"] {
        let lookup = names(&[("evil.example", &[&[address]])]);
        let reason = judge("https://evil.example/keys", lookup).await;
        assert!(reason.contains("forbids fetching"), "{address}: {reason}");
    }
    // A redirect is judged as the first URL is.
    let start = server(vec![elsewhere("https://evil.example/keys")]).await;
    let lookup = names(&[("evil.example", &[&["169.254.169.254"]])]);
    let reason = judge(&format!("http://{start}/"), lookup).await;
    assert!(reason.contains("forbids fetching"), "{reason}");
    // A name of this machine that leads elsewhere is no reason for plain HTTP.
    let lookup = names(&[("localhost", &[&["192.0.2.1"]])]);
    let reason = judge("http://localhost/keys", lookup).await;
    assert!(reason.contains("https"), "{reason}");
}

#[tokio::test]
async fn ghsa_whjr_3j94_gw3c_a_name_is_resolved_once_for_a_request() {
    let (address, authority) = tls_server().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("company.pem");
    std::fs::write(&file, authority).unwrap();
    let authorities = [("idp.example".to_owned(), file.display().to_string())].into();
    // Nobody else knows the name, and a second question would get the address of the metadata.
    let answers: &[&[&str]] = &[&["127.0.0.1", "169.254.169.254"], &["169.254.169.254"]];
    let names = names(&[("idp.example", answers)]);
    let fetcher = fetcher(JwksFetch { authorities, ..rules() }, Arc::clone(&names));
    let url = format!("https://idp.example:{}/keys", address.port());
    assert_eq!(fetcher.document(&url).await.unwrap(), b"{\"keys\":[]}");
    assert_eq!(*names.asked.lock(), ["idp.example"]);
    let reason = fetcher.document(&url).await.unwrap_err();
    assert!(reason.contains("forbids fetching"), "the next request asks anew: {reason}");
}

#[tokio::test]
async fn ghsa_whjr_3j94_gw3c_what_never_ends_is_given_up() {
    let endless = server(vec![elsewhere("/again")]).await;
    assert!(refused(endless).await.contains("more than 5 redirects"));

    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999999999\r\n\r\n";
    let large = server(vec![format!("{head}{}", "x".repeat(MAX_DOCUMENT + 1))]).await;
    assert!(refused(large).await.contains("more than"));

    for hangs in [String::new(), format!("{head}{{")] {
        let hangs = server(vec![hangs]).await;
        let rules = JwksFetch { timeout: Duration::from_millis(300), ..rules() };
        let begun = Instant::now();
        let url = format!("http://{hangs}/keys");
        let reason = Fetcher::new(rules).document(&url).await.unwrap_err();
        assert!(reason.contains("within 300ms"), "{reason}");
        assert!(begun.elapsed() < Duration::from_secs(15));
    }
}

#[tokio::test]
async fn what_is_no_document_is_refused() {
    let html = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\n{}";
    assert!(refused(server(vec![html.to_owned()]).await).await.contains("text/html"));
    let missing = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    assert!(refused(server(vec![missing.to_owned()]).await).await.contains("404"));
    let nowhere = "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n";
    assert!(refused(server(vec![nowhere.to_owned()]).await).await.contains("nowhere"));
}

/// A server with TLS for `idp.example`; its address, and its authority in PEM.
async fn tls_server() -> (SocketAddr, String) {
    let now = SystemTime::now();
    let root = Authority::make_root(&AuthoritySpec::new("company"), now).unwrap();
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let names = vec![San::Dns("idp.example".into())];
    let subject = SubjectName::common_name("idp");
    let leaf = Leaf::for_key(key.public(), &subject, names, KeyPurpose::Server, now).unwrap();
    let chain = KeyedChain::new(vec![root.issue(&leaf).unwrap()], key).unwrap();
    let own = PrivateKeyDer::from_pem_slice(chain.key().to_pem().as_bytes()).unwrap();
    let certificates = chain.chain().iter().map(|it| it.der().clone().into_owned()).collect();
    let config = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, own)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(socket).await else { continue };
            let mut request = vec![0; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(document("{\"keys\":[]}").as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    (address, root.certificate().to_pem())
}

#[tokio::test]
async fn a_private_provider_is_trusted_by_the_file_of_its_host() {
    let (address, authority) = tls_server().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("company.pem");
    std::fs::write(&file, authority).unwrap();
    let fetch = async |authorities: &[(&str, &Path)]| {
        let authorities =
            authorities.iter().map(|(host, file)| ((*host).to_owned(), file.display().to_string()));
        let rules = JwksFetch { authorities: authorities.collect(), ..rules() };
        let fetcher = fetcher(rules, names(&[("idp.example", &[&["127.0.0.1"]])]));
        fetcher.document(&format!("https://idp.example:{}/keys", address.port())).await
    };
    assert_eq!(fetch(&[("idp.example", &file)]).await.unwrap(), b"{\"keys\":[]}");
    for others in [&[][..], &[("other.example", &*file)]] {
        let reason = fetch(others).await.unwrap_err();
        assert!(reason.contains("certificate"), "the system does not trust it: {reason}");
    }
    let gone = folder.path().join("gone.pem");
    let reason = fetch(&[("idp.example", &gone)]).await.unwrap_err();
    assert!(reason.contains("gone.pem"), "{reason}");
}
