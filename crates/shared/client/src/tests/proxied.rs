//! Controllers behind an HTTP proxy.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use weft_contract::Api;
use weft_contract::paths::CA_CERTIFICATES;
use weft_identity::TrustBundle;
use weft_proxy::{HttpProxy, Proxies};

use super::server::{Pki, Reply, Seen, Server};
use crate::enroll::{CertificateNames, enroll_router};
use crate::http::{Http, HttpResponse, Outgoing};
use crate::{ControllerAddress, Error, Tls};

/// A proxy that connects to the host that it is asked for, or answers with a status.
struct TestProxy {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl TestProxy {
    async fn start(refusal: Option<&'static str>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let log = Arc::clone(&log);
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        head.push(client.read_u8().await?);
                    }
                    let head = String::from_utf8(head).unwrap();
                    let target = head.split(' ').nth(1).unwrap().to_owned();
                    log.lock().unwrap().push(head);
                    if let Some(refusal) = refusal {
                        return client.write_all(refusal.as_bytes()).await;
                    }
                    let mut server = TcpStream::connect(target).await?;
                    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
                    tokio::io::copy_bidirectional(&mut client, &mut server).await.map(drop)
                });
            }
        });
        Self { port, asked }
    }

    fn proxies(&self) -> Proxies {
        let text = format!("me:secret@127.0.0.1:{}", self.port);
        Proxies::always(HttpProxy::parse(&text, "HTTPS_PROXY").unwrap())
    }

    fn name(&self) -> String {
        format!("the proxy 127.0.0.1:{} (HTTPS_PROXY)", self.port)
    }
}

async fn ask(bundle: TrustBundle, at: &str, proxies: Proxies) -> Result<HttpResponse, Error> {
    let address: ControllerAddress = at.parse().unwrap();
    let http = Http::through(&Tls::Anonymous(bundle), Arc::new(proxies)).unwrap();
    http.send(&Outgoing::get(address.at(Api::Client, "/version").unwrap())).await
}

#[tokio::test]
async fn requests_go_through_the_proxy() {
    let pki = Pki::new();
    let server = Server::start(&pki, |_: &Seen| Reply::data(json!({}))).await;
    let proxy = TestProxy::start(None).await;
    let at = server.address.to_string();
    ask(pki.bundle(), &at, proxy.proxies()).await.unwrap().accept().unwrap();
    let asked = proxy.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].starts_with(&format!("CONNECT {at} HTTP/1.1\r\n")), "{asked:?}");
    assert!(asked[0].contains("Proxy-Authorization: Basic bWU6c2VjcmV0\r\n"), "{asked:?}");
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn every_step_of_an_enrollment_goes_through_the_proxy() {
    let pki = Pki::new();
    let (server, jwt) = super::enroll::controller(&pki, &pki, "erott", 600).await;
    let proxy = TestProxy::start(None).await;
    let key = super::enroll::key();
    let enrolled = enroll_router(&jwt, &key, &CertificateNames::default(), proxy.proxies()).await;
    assert_eq!(enrolled.unwrap().id, "Wq3sd0pRk");
    let cas = format!("{}{CA_CERTIFICATES}", Api::Client.base());
    assert!(server.count("GET", &cas) > 0 && server.seen().len() > 1);
    assert!(proxy.asked.lock().unwrap().len() > 2);
}

#[tokio::test]
async fn what_fails_on_the_way_names_the_proxy_and_no_password() {
    let pki = Pki::new();
    let server = Server::start(&pki, |_: &Seen| Reply::data(json!({}))).await;
    let at = server.address.to_string();
    let (open, denying) =
        (TestProxy::start(None).await, TestProxy::start(Some("HTTP/1.1 403 No\r\n\r\n")).await);
    let down = TestProxy {
        port: TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port(),
        asked: Arc::default(),
    };
    for (proxy, bundle, said) in [
        (&denying, pki.bundle(), format!("does not connect to {at}: HTTP/1.1 403 No")),
        (&down, pki.bundle(), "cannot reach the proxy".to_owned()),
        // The proxy leads to somebody else.
        (&open, Pki::new().bundle(), "through the proxy".to_owned()),
    ] {
        let error = crate::chain(&ask(bundle, &at, proxy.proxies()).await.unwrap_err());
        assert!(error.contains(&said) && error.contains(&proxy.name()), "{error}");
        assert_eq!(error.matches("the proxy").count(), 1, "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
    assert!(server.seen().is_empty());
}
