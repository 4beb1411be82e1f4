//! The Rust SDK with sessions by OpenID Connect, over a whole network.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use weft_contract::resource::{auth_policy, authenticator, external_jwt_signer, identity, session};
use weft_identity::token::TokenSigner;
use weft_identity::{
    Authority, AuthoritySpec, ExternalLogin, IdentityFile, IdentityMaterial, KeyAlgorithm,
    KeyPurpose, KeyedChain, Leaf, PrivateKey, SubjectName,
};
use weft_sdk::{
    Connection, Endpoint, EndpointBuilder, Error, ExternalTokens, FactorProblem, LoginProtocol,
    NewFactor, TotpSecret, chain,
};

use crate::network::{Network, soon, until_some};
use crate::sdk::{dial, echo, round_trip};

/// The provider of a company, for tests: it signs tokens.
#[derive(Clone)]
pub(crate) struct Company {
    signer: Arc<TokenSigner>,
    certificate: String,
}

const ISSUER: &str = "https://idp.example";

impl Company {
    pub(crate) fn new() -> Self {
        let now = SystemTime::now();
        let authority = Authority::make_root(&AuthoritySpec::new("company"), now).unwrap();
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let subject = SubjectName::common_name("company");
        let leaf = Leaf::for_key(key.public(), &subject, vec![], KeyPurpose::Both, now).unwrap();
        let chain = KeyedChain::new(vec![authority.issue(&leaf).unwrap()], key).unwrap();
        let certificate = chain.leaf().to_pem();
        Self { signer: Arc::new(TokenSigner::new(&chain).unwrap()), certificate }
    }

    pub(crate) fn token(&self, of: &str) -> String {
        self.token_for(of, 300)
    }

    /// A token that ends in so many seconds. Controllers take it for a minute longer.
    pub(crate) fn token_for(&self, of: &str, seconds: i64) -> String {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let now = i64::try_from(now).unwrap();
        let (begin, end) = (now - 100, now + seconds);
        let claims = json!({"iss": ISSUER, "aud": "weft", "sub": of, "iat": begin, "exp": end});
        self.signer.sign(&claims).unwrap()
    }

    /// Makes the controller accept its tokens, by the external id of identities.
    pub(crate) async fn introduce(&self, network: &Network, address: Option<&str>) {
        let signer = json!({"name": "company", "issuer": ISSUER, "audience": "weft", "enabled": true,
            "certPem": self.certificate, "claimsProperty": "/sub", "useExternalId": true,
            "externalAuthUrl": address, "clientId": "weft", "scopes": ["offline_access"]});
        network.create(&external_jwt_signer::KIND, &signer).await;
    }
}

/// An identity of this external id, which has no certificate.
async fn person(network: &Network, name: &str) -> String {
    let body = json!({"name": name, "type": "Default", "isAdmin": false, "externalId": name});
    network.create(&identity::KIND, &body).await
}

/// An identity file without a certificate.
async fn bare(network: &Network) -> IdentityFile {
    let file = network.identity_file(&format!("enrolled-{}", rand::random::<u64>())).await;
    let id = IdentityMaterial { ca: file.id.ca.clone(), ..IdentityMaterial::default() };
    IdentityFile { id, ..file }
}

pub(crate) async fn network(access: Duration) -> Network {
    Network::start_with(|seed| {
        seed.announces_tokens = true;
        seed.durations.access_token = access;
    })
    .await
}

pub(crate) async fn start(builder: EndpointBuilder, file: IdentityFile) -> Endpoint {
    soon(builder.build(file)).await.unwrap()
}

/// The sessions of an identity: id, and whether it is one by tokens.
pub(crate) async fn sessions(network: &Network, name: &str) -> Vec<(String, bool)> {
    let all = network.list(&session::KIND).await;
    let own = all.iter().filter(|session| session["identity"]["name"] == name);
    let id = |session: &Value| session["id"].as_str().unwrap().to_owned();
    own.map(|session| (id(session), id(session).len() == 36)).collect()
}

/// Sends bytes there and back for a while over one connection.
async fn talk(connection: &mut Connection, time: Duration) {
    let (begun, mut said) = (Instant::now(), [0; 5]);
    while begun.elapsed() < time {
        connection.write_all(b"hello").await.unwrap();
        soon(connection.read_exact(&mut said)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_log_in_for_tokens_where_the_controller_announces_them() {
    let mut network = network(Duration::from_secs(1800)).await;
    network.service("secret", true).await;
    network.demand("secret").await;
    let (host, dialer) = (network.endpoint("host").await, network.endpoint("dialer").await);
    for name in ["host", "dialer"] {
        let seen = sessions(&network, name).await;
        assert!(seen.len() == 1 && seen[0].1, "{seen:?}");
    }
    echo(soon(host.bind("secret")).await.unwrap());
    // Both ends prove themselves with the keys that their logins named.
    let mut connection = dial(&dialer, "secret").await;
    assert_eq!(soon(connection.peer()).await.unwrap().unwrap().name, "host");
    network.restart_controller().await;
    talk(&mut connection, Duration::from_millis(200)).await;
    round_trip(connection, 100_000).await;
    round_trip(dial(&dialer, "secret").await, 10_000).await;
    let opaque = Endpoint::builder().login_protocol(LoginProtocol::Opaque);
    let file = network.identity_file("old").await;
    let _old = start(opaque, file).await;
    assert!(!sessions(&network, "old").await[0].1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_outlive_the_tokens_that_they_began_with() {
    let life = Duration::from_secs(3);
    let network = network(life).await;
    network.service("secret", true).await;
    let (host, dialer) = (network.endpoint("host").await, network.endpoint("dialer").await);
    echo(soon(host.bind("secret")).await.unwrap());
    let mut connection = dial(&dialer, "secret").await;
    let before = sessions(&network, "dialer").await;
    // Routers close channels with expired tokens every five seconds.
    talk(&mut connection, life * 2 + Duration::from_secs(6)).await;
    round_trip(connection, 10_000).await;
    round_trip(dial(&dialer, "secret").await, 10_000).await;
    assert_eq!(sessions(&network, "dialer").await, before, "it is the same session");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_an_administrator_ends_is_followed_by_another() {
    let network = network(Duration::from_secs(1800)).await;
    network.service("secret", true).await;
    let (host, dialer) = (network.endpoint("host").await, network.endpoint("dialer").await);
    echo(soon(host.bind("secret")).await.unwrap());
    drop(dial(&dialer, "secret").await);
    let before = sessions(&network, "dialer").await;
    network.admin.delete(&session::KIND, &before[0].0).await.unwrap();
    round_trip(dial(&dialer, "secret").await, 10_000).await;
    let after = sessions(&network, "dialer").await;
    assert!(after.len() == 1 && after != before, "{before:?} {after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_for_tokens_asks_for_a_code_until_one_is_good() {
    let network = network(Duration::from_secs(1800)).await;
    network.service("secret", true).await;
    let host = network.endpoint("host").await;
    echo(soon(host.bind("secret")).await.unwrap());
    let file = network.identity_file("laptop").await;
    let factor = soon(NewFactor::begin(&file)).await.unwrap();
    let good = factor.recovery_codes()[0].clone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("totp");
    std::fs::write(&path, factor.url().unwrap()).unwrap();
    let code = soon(TotpSecret::read(&path).unwrap().code(false)).await.unwrap();
    assert!(soon(factor.complete(&code)).await.unwrap());
    soon(factor.end()).await;
    let builder = Endpoint::builder().second_factor(move |asked| {
        let code = if asked.is_repeated { good.clone() } else { "nonsense".to_owned() };
        std::future::ready(Some(code))
    });
    let endpoint = start(builder, file.clone()).await;
    assert!(sessions(&network, "laptop").await.iter().all(|(_, is_by_tokens)| *is_by_tokens));
    round_trip(dial(&endpoint, "secret").await, 10_000).await;
    let refused = soon(Endpoint::from_identity(file)).await.unwrap_err();
    assert!(matches!(refused, Error::SecondFactor(FactorProblem::NoCode)), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_and_a_token_do_without_a_certificate_over_either_protocol() {
    let network = network(Duration::from_secs(1800)).await;
    network.service("secret", true).await;
    network.demand("secret").await;
    let company = Company::new();
    company.introduce(&network, None).await;
    let host = network.endpoint("host").await;
    echo(soon(host.bind("secret")).await.unwrap());
    let bob = person(&network, "bobby").await;
    let password = json!({"method": "updb", "identityId": bob, "username": "bobby",
        "password": "weft-network"});
    network.create(&authenticator::KIND, &password).await;
    person(&network, "anna").await;
    for protocol in [LoginProtocol::Announced, LoginProtocol::Opaque] {
        let builder = || Endpoint::builder().login_protocol(protocol);
        let by_password = builder().password("bobby", "weft-network").unwrap();
        let tokens = company.clone();
        let supply = ExternalTokens::new(move |_| {
            std::future::ready(Ok::<_, std::io::Error>(tokens.token("anna")))
        });
        for (name, builder) in [("bobby", by_password), ("anna", builder().external_tokens(supply))]
        {
            let endpoint = start(builder, bare(&network).await).await;
            assert_eq!(endpoint.identity_name(), name);
            let by_tokens = protocol == LoginProtocol::Announced;
            let seen = sessions(&network, name).await;
            assert!(seen.iter().any(|(_, is)| *is == by_tokens), "{protocol:?} {seen:?}");
            let mut connection = dial(&endpoint, "secret").await;
            assert_eq!(soon(connection.peer()).await.unwrap().unwrap().name, "host");
            round_trip(connection, 10_000).await;
            soon(endpoint.close()).await.unwrap();
        }
    }
    let wrong = Endpoint::builder().password("bobby", "weft-wrong").unwrap();
    let refused = soon(wrong.build(bare(&network).await)).await.unwrap_err();
    assert!(matches!(&refused, Error::NotLoggedIn(_)) && refused.is_final(), "{refused}");
    let nothing = soon(Endpoint::from_identity(bare(&network).await)).await.unwrap_err();
    assert!(nothing.is_final() && chain(&nothing).contains("external_tokens"), "{nothing}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_life_of_a_session_asks_for_a_fresh_token() {
    let network = Network::start_with(|seed| {
        seed.announces_tokens = true;
        seed.durations.access_token = Duration::from_secs(6);
        seed.durations.external_session = Duration::from_secs(10);
    })
    .await;
    network.service("secret", true).await;
    let company = Company::new();
    company.introduce(&network, None).await;
    let host = network.endpoint("host").await;
    echo(soon(host.bind("secret")).await.unwrap());
    person(&network, "anna").await;
    let asked = Arc::new(AtomicUsize::new(0));
    let (count, tokens) = (Arc::clone(&asked), company.clone());
    let supply = ExternalTokens::new(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Ok::<_, std::io::Error>(tokens.token("anna")))
    });
    let endpoint = start(Endpoint::builder().external_tokens(supply), bare(&network).await).await;
    drop(dial(&endpoint, "secret").await);
    let first = sessions(&network, "anna").await;
    until_some(async || (asked.load(Ordering::SeqCst) > 1).then_some(())).await;
    until_some(async || {
        let now = sessions(&network, "anna").await;
        (!now.is_empty() && !now.contains(&first[0])).then_some(())
    })
    .await;
    round_trip(dial(&endpoint, "secret").await, 10_000).await;
}

/// A provider without TLS on this machine, with an endpoint for devices; its address. Its token endpoint says once that
/// the person has not logged in yet.
async fn provider(company: Company) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (at, polls) = (address.clone(), Arc::new(AtomicUsize::new(0)));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, at.clone(), company.clone(), Arc::clone(&polls)));
        }
    });
    address
}

async fn answer(mut stream: TcpStream, at: String, company: Company, polls: Arc<AtomicUsize>) {
    let mut read = Vec::new();
    let length = |head: &str| -> usize {
        let line = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        line.map_or(0, |length| length.trim().parse().unwrap())
    };
    let (path, body) = loop {
        let mut part = [0; 4096];
        let count = stream.read(&mut part).await.unwrap_or(0);
        if count == 0 {
            return;
        }
        read.extend_from_slice(&part[..count]);
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && body.len() >= length(head)
        {
            break (head.split(' ').nth(1).unwrap().to_owned(), body.to_owned());
        }
    };
    let tokens = || json!({"access_token": company.token("anna"), "token_type": "Bearer", "refresh_token": "again"});
    let (status, body) = match path.as_str() {
        "/.well-known/openid-configuration" => (
            200,
            json!({"issuer": at,
            "token_endpoint": format!("{at}/token"), "device_authorization_endpoint": format!("{at}/device")}),
        ),
        "/device" => (
            200,
            json!({"device_code": "d", "user_code": "WDJB-MJHT", "expires_in": 60, "interval": 1,
            "verification_uri": format!("{at}/enter")}),
        ),
        "/token"
            if body.contains("grant_type=refresh_token")
                && body.contains("refresh_token=again") =>
        {
            (200, tokens())
        }
        "/token" if polls.fetch_add(1, Ordering::SeqCst) == 0 => {
            (400, json!({"error": "authorization_pending"}))
        }
        "/token" if body.contains("device_code=d") => (200, tokens()),
        _ => (404, json!({"error": "not_found"})),
    };
    let body = body.to_string();
    let answer = format!(
        "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_logs_in_once_at_the_provider_of_their_company() {
    let network = Network::start_with(|seed| {
        seed.announces_tokens = true;
        seed.durations.access_token = Duration::from_secs(6);
        seed.durations.external_session = Duration::from_secs(8);
    })
    .await;
    network.service("secret", true).await;
    let company = Company::new();
    let address = provider(company.clone()).await;
    company.introduce(&network, Some(&address)).await;
    let host = network.endpoint("host").await;
    echo(soon(host.bind("secret")).await.unwrap());
    person(&network, "anna").await;
    let token = network_token(&network).await;
    let login = ExternalLogin { signer: Some("company".into()), token_file: None };
    let file = soon(weft_client::enroll::join(&token, login)).await.unwrap();
    assert!(!file.has_certificate());
    let shown = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let (seen, place) = (Arc::clone(&shown), format!("{address}/enter"));
    let builder = Endpoint::builder().provider_login(move |prompt| {
        assert_eq!((prompt.url.as_str(), prompt.code.as_str()), (place.as_str(), "WDJB-MJHT"));
        seen.lock().push(prompt);
        Ok(())
    });
    let endpoint = start(builder, file.clone()).await;
    round_trip(dial(&endpoint, "secret").await, 10_000).await;
    let first = sessions(&network, "anna").await;
    // The next session is begun with the refresh token of the provider.
    until_some(async || {
        let now = sessions(&network, "anna").await;
        (!now.is_empty() && !now.contains(&first[0])).then_some(())
    })
    .await;
    assert_eq!(shown.lock().len(), 1);
    let nobody = Endpoint::builder().provider_login(|_| Err("nobody is here".to_owned()));
    let alone = soon(nobody.build(file)).await.unwrap_err();
    assert!(alone.is_final() && chain(&alone).contains("nobody is here"), "{alone}");
}

/// The token of the network.
async fn network_token(network: &Network) -> String {
    let kind =
        weft_contract::resource::operation(weft_contract::Api::Management, "listNetworkJWTs");
    let all: Vec<Value> = network.admin.call(kind.unwrap(), &[], &[], None).await.unwrap();
    all[0]["token"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whom_the_policy_or_the_provider_turns_away_is_told() {
    let network = network(Duration::from_secs(1800)).await;
    let company = Company::new();
    company.introduce(&network, None).await;
    let anna = person(&network, "anna").await;
    let policy = json!({"name": "certificates only",
        "primary": {"cert": {"allowed": true, "allowExpiredCerts": true},
            "updb": {"allowed": false, "lockoutDurationMinutes": 0, "maxAttempts": 5,
                "minPasswordLength": 5, "requireMixedCase": false, "requireNumberChar": false,
                "requireSpecialChar": false},
            "extJwt": {"allowed": false, "allowedSigners": []}},
        "secondary": {"requireTotp": false}});
    let policy = network.create(&auth_policy::KIND, &policy).await;
    network.patch(&identity::KIND, &anna, &json!({"authPolicyId": policy})).await;
    let (asked, tokens) = (Arc::new(AtomicUsize::new(0)), company.clone());
    let count = Arc::clone(&asked);
    let supply = ExternalTokens::new(move |request| {
        // The second question says that the first token was refused.
        assert_eq!(request.is_repeated, count.fetch_add(1, Ordering::SeqCst) > 0);
        std::future::ready(Ok::<_, std::io::Error>(tokens.token("anna")))
    });
    let refused = Endpoint::builder().external_tokens(supply).build(bare(&network).await);
    let refused = soon(refused).await.unwrap_err();
    assert!(matches!(refused, Error::NotLoggedIn(_)) && refused.is_final(), "{refused}");
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    let down =
        ExternalTokens::new(|_| std::future::ready(Err::<String, _>("the provider is down")));
    let down = Endpoint::builder().external_tokens(down).build(bare(&network).await);
    let down = soon(down).await.unwrap_err();
    assert!(down.is_temporary() && chain(&down).contains("is down"), "{down:?}");
}
