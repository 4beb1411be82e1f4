//! Logins in a second, over connections that stay open, with keys of P-256: by token of an external signer, certificate
//! and password, and whole logins by OpenID Connect; and others beside a flood of logins.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use futures::future::try_join_all;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::form_urlencoded::Serializer;
use weft_identity::tls::{ALPN_HTTP1, ClientTls, client_config};
use weft_identity::token::TokenSigner;
use weft_identity::{
    Authority, AuthoritySpec, Identity, KeyAlgorithm, KeyPurpose, KeyedChain, Leaf, LiveIdentity,
    PrivateKey, SubjectName, TrustBundle,
};
use weft_model::entity::{Authenticator, CertCredential};
use weft_model::{Base, ChangeSet, Id, Kind, Timestamp};
use weft_store::{Embedded, Store};
use weft_wire::{Message, content_type};

use super::asks::API;
use super::bed::{Bed, millis};
use super::client::{Client, Target};
use super::fill::{Network, commit};
use super::peer::Pki;
use super::report::{Aim, Figure};
use super::server::Running;
use crate::router::Credentials;

/// The name of the figures of logins.
pub(crate) const LOGINS: &str = "logins";
/// Clients, each with a connection of its own.
const CLIENTS: u32 = 64;
/// Clients that log in by password: each hash takes a processor for some 30 ms.
const WITH_PASSWORD: u32 = 16;
/// The number of the router that asks beside logins.
const ROUTER: u32 = 5_000;
const PASSWORD: &str = "a long password";
/// Tokens of an external signer that are used in turn.
const TOKENS: u32 = 20_000;
/// Aims of logins in a second, on two cores.
const BY_TOKEN: f64 = 2_000.0;
const WHOLE: f64 = 400.0;
const CLIENT_API: &str = "/edge/client/v1";
const ISSUER: &str = "https://idp.example";
const REDIRECT: &str = "http://localhost:8080/auth/callback";
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
/// Time in which logins are not counted.
const WARM_UP: Duration = Duration::from_millis(300);

/// How a client logs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Token,
    Certificate,
    Password,
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Self::Token => "ext-jwt",
            Self::Certificate => "cert",
            Self::Password => "password",
        }
    }
}

/// Certificates for the first identities, a signer, and tokens of it.
struct Means {
    chains: Vec<KeyedChain>,
    bundle: TrustBundle,
    tokens: Arc<Vec<String>>,
    next: Arc<AtomicU32>,
    /// A router that asks beside logins.
    router: Credentials,
}

/// Measures; the controller must not run when this begins.
pub(crate) async fn measure(bed: &Bed) -> io::Result<Vec<Figure>> {
    bed.progress.set_message("certificates for logins");
    let pki = Pki::of(&bed.home)?;
    let chains = (0..CLIENTS).map(|number| pki.chain(&format!("client {number}")));
    let chains = chains.collect::<io::Result<Vec<_>>>()?;
    let router = pki.router(bed.network.far_router_id(ROUTER))?;
    let (file, network, shown) = (bed.home.database(), bed.network.clone(), chains.clone());
    let fingerprint = router.fingerprint().to_owned();
    let filled = tokio::task::spawn_blocking(move || fill(&file, &network, &shown, &fingerprint));
    filled.await.map_err(io::Error::other)??;
    let (running, _) = bed.home.start().await?;
    let target = running.log_in().await?;
    let tokens = Arc::new(tokens(bed, &target).await?);
    passwords(bed, &target).await?;
    let next = Arc::default();
    let means = Means { chains, bundle: pki.bundle().clone(), tokens, next, router };
    let mut figures = Vec::new();
    for (method, is_whole) in [
        (Method::Token, false),
        (Method::Certificate, false),
        (Method::Password, false),
        (Method::Token, true),
        (Method::Certificate, true),
        (Method::Password, true),
    ] {
        bed.progress.set_message(format!("{LOGINS}: {}", method.name()));
        figures.push(rate(bed, &running, &target, &means, (method, is_whole)).await?);
    }
    bed.progress.set_message("others beside a flood of logins");
    figures.extend(beside(bed, &pki, &target, &means).await?);
    Ok(figures)
}

/// A router, and real certificates beside those that are never shown.
fn fill(
    file: &std::path::Path,
    network: &Network,
    chains: &[KeyedChain],
    router: &str,
) -> io::Result<()> {
    let store = Embedded::open(file, weft_store::Options::default()).map_err(io::Error::other)?;
    let head = store.head().map_err(io::Error::other)?.revision;
    let mut set = ChangeSet::default();
    set.put_apart(network.far_router(ROUTER, router));
    for (number, chain) in (0..).zip(chains) {
        let leaf = chain.leaf();
        let print = leaf.public_key().map_err(io::Error::other)?.print();
        set.put_apart(Authenticator {
            base: Base::new(Id::new(&format!("login{number:06}")), Timestamp(1)),
            identity_id: network.id(Kind::Identity, number),
            updb: None,
            cert: Some(CertCredential {
                fingerprint: leaf.fingerprint().into(),
                cert_pem: leaf.to_pem(),
                is_issued_by_network: true,
                last_auth_resolved_to_root: true,
                public_key_print: print,
                ..CertCredential::default()
            }),
        });
    }
    commit(&store, head, set).map(drop)
}

/// Makes a signer, and tokens that name identities.
async fn tokens(bed: &Bed, target: &Target) -> io::Result<Vec<String>> {
    let root = Authority::make_root(&AuthoritySpec::new("idp"), SystemTime::now());
    let root = root.map_err(io::Error::other)?;
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).map_err(io::Error::other)?;
    let subject = SubjectName::common_name("idp");
    let leaf = Leaf::for_key(key.public(), &subject, vec![], KeyPurpose::Both, SystemTime::now())
        .and_then(|leaf| root.issue(&leaf))
        .map_err(io::Error::other)?;
    let kid = format!("bench {}", std::process::id());
    let issuer = format!("{ISSUER}/{}", std::process::id());
    let body = json!({"name": kid, "certPem": leaf.to_pem(), "enabled": true, "kid": kid,
        "issuer": issuer, "audience": "weft", "claimsProperty": "sub", "useExternalId": false});
    let mut client = Client::connect(target).await?;
    let path = format!("{API}/external-jwt-signers");
    client.send("POST", &path, Some(body.to_string())).await?.accept()?;
    let signer = TokenSigner::with_kid(key, &kid).map_err(io::Error::other)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let token = |number: u32| {
        let identity = bed.network.id(Kind::Identity, number).to_string();
        let claims = json!({"iss": issuer, "aud": "weft", "sub": identity,
            "exp": now.as_secs() + 3 * 3600});
        signer.sign(&claims).map_err(io::Error::other)
    };
    (0..bed.network.identities.min(TOKENS)).map(token).collect()
}

async fn passwords(bed: &Bed, target: &Target) -> io::Result<()> {
    let mut client = Client::connect(target).await?;
    for number in 0..WITH_PASSWORD {
        let identity = bed.network.id(Kind::Identity, number).to_string();
        let body = json!({"method": "updb", "identityId": identity,
            "username": username(number), "password": PASSWORD});
        // There from an earlier run in this home.
        let _ =
            client.send("POST", &format!("{API}/authenticators"), Some(body.to_string())).await?;
    }
    Ok(())
}

fn username(number: u32) -> String {
    format!("bench{number}")
}

/// A client that logs in, again and again.
struct Worker {
    client: Client,
    method: Method,
    number: u32,
    tokens: Arc<Vec<String>>,
    next: Arc<AtomicU32>,
}

impl Worker {
    async fn connect(
        target: &Target,
        means: &Means,
        method: Method,
        number: u32,
    ) -> io::Result<Self> {
        let mut target = Target { session: String::new(), ..target.clone() };
        if method == Method::Certificate
            && let Some(chain) = means.chains.get(number as usize)
        {
            let identity = Identity::new(Some(chain.clone()), Vec::new(), means.bundle.clone());
            let tls = ClientTls::of_identity(&LiveIdentity::fixed(identity), &[ALPN_HTTP1]);
            target.tls = Arc::new(client_config(&tls).map_err(io::Error::other)?);
        }
        let client = Client::connect(&target).await?;
        let (tokens, next) = (Arc::clone(&means.tokens), Arc::clone(&means.next));
        Ok(Self { client, method, number, tokens, next })
    }

    /// The credentials of the next login: a bearer token, and a body.
    fn shown(&self) -> (Option<String>, Value) {
        match self.method {
            Method::Token => {
                let at = self.next.fetch_add(1, Ordering::Relaxed) as usize % self.tokens.len();
                (Some(format!("Bearer {}", self.tokens[at])), json!({}))
            }
            Method::Certificate => (None, json!({})),
            Method::Password => {
                let username = username(self.number);
                (None, json!({"username": username, "password": PASSWORD}))
            }
        }
    }

    /// `authenticate`.
    async fn log_in(&mut self) -> io::Result<()> {
        let (bearer, body) = self.shown();
        let path = format!("{CLIENT_API}/authenticate?method={}", self.method.name());
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        let sent = self.client.send_with(("POST", &path), &headers, body.to_string());
        sent.await?.accept().map(drop)
    }

    /// A whole login by OpenID Connect: authorize, login, callback, token.
    async fn log_in_whole(&mut self) -> io::Result<()> {
        let (bearer, mut body) = self.shown();
        let challenge = challenge();
        let query = Serializer::new(String::new())
            .extend_pairs([
                ("client_id", "native"),
                ("response_type", "code"),
                ("redirect_uri", REDIRECT),
                ("scope", "openid offline_access"),
                ("state", "s"),
                ("nonce", "n"),
                ("code_challenge", &challenge),
                ("code_challenge_method", "S256"),
                ("method", self.method.name()),
            ])
            .finish();
        let to = self.redirect(("GET", &format!("/oidc/authorize?{query}")), &[], "").await?;
        let id = after(&to, "authRequestID=")?;
        body["id"] = id.into();
        let path = format!("/oidc/login/{}", self.method.name());
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        let to = self.redirect(("POST", &path), &headers, &body.to_string()).await?;
        let path = format!("/oidc/{}", after(&to, "/oidc/")?);
        let to = self.redirect(("GET", &path), &[], "").await?;
        let form = Serializer::new(String::new())
            .extend_pairs([
                ("grant_type", "authorization_code"),
                ("client_id", "native"),
                ("code", after(&to, "code=")?),
                ("code_verifier", VERIFIER),
                ("redirect_uri", REDIRECT),
            ])
            .finish();
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let sent = self.client.send_with(("POST", "/oidc/oauth/token"), &headers, form);
        sent.await?.accept().map(drop)
    }

    async fn redirect(
        &mut self,
        to: (&str, &str),
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<String> {
        let answer = self.client.send_with(to, headers, body.to_owned()).await?;
        match &answer.location {
            Some(location) => Ok(location.clone()),
            None => Err(answer.accept().err().unwrap_or_else(|| {
                io::Error::other(format!("{} {} is no redirection", to.0, to.1))
            })),
        }
    }

    /// Logs in until a time; returns the time of each login that began after another time.
    async fn work(
        mut self,
        is_whole: bool,
        from: Instant,
        until: Instant,
    ) -> io::Result<Vec<Duration>> {
        let mut times = Vec::new();
        while Instant::now() < until {
            let sent = Instant::now();
            match is_whole {
                true => self.log_in_whole().await?,
                false => self.log_in().await?,
            }
            if sent >= from {
                times.push(sent.elapsed());
            }
        }
        Ok(times)
    }
}

/// The challenge of the verifier.
fn challenge() -> String {
    BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER))
}

/// What follows a mark in a redirection, up to the next parameter.
fn after<'t>(text: &'t str, mark: &str) -> io::Result<&'t str> {
    let found = text.split_once(mark).map(|(_, rest)| rest);
    let found = found.ok_or_else(|| io::Error::other(format!("no {mark} in {text}")))?;
    Ok(found.split('&').next().unwrap_or_default())
}

/// Logins in a second.
async fn rate(
    bed: &Bed,
    running: &Running,
    target: &Target,
    means: &Means,
    (method, is_whole): (Method, bool),
) -> io::Result<Figure> {
    let clients = if method == Method::Password { WITH_PASSWORD } else { CLIENTS };
    let workers = (0..clients).map(|number| Worker::connect(target, means, method, number));
    let workers = try_join_all(workers).await?;
    let from = Instant::now() + WARM_UP;
    let until = from + Duration::from_secs_f64(bed.options.seconds().max(2.0));
    let work = workers.into_iter().map(|it| tokio::spawn(it.work(is_whole, from, until)));
    let work: Vec<_> = work.collect();
    tokio::time::sleep_until(from.into()).await;
    let before = running.cpu();
    let mut times = Vec::new();
    for worker in work {
        times.extend(worker.await.map_err(io::Error::other)??);
    }
    let (took, used) = (from.elapsed(), running.cpu().saturating_sub(before));
    times.sort_unstable();
    let aim = match (method, is_whole) {
        (Method::Token, false) => Some(Aim::AtLeast(BY_TOKEN)),
        (Method::Token | Method::Certificate, true) => Some(Aim::AtLeast(WHOLE)),
        _ => None,
    };
    let what = if is_whole { "OpenID Connect by" } else { "authenticate by" };
    Ok(Figure {
        name: format!("{LOGINS}: {what} {}", method.name()),
        value: times.len() as f64 / took.as_secs_f64(),
        unit: "/s",
        cpu: Some(used.as_secs_f64() * 1e6 / times.len().max(1) as f64),
        aim,
        note: format!(
            "{clients} clients; p50 {:.1} ms, p99 {:.1} ms",
            millis(&times, 50),
            millis(&times, 99)
        ),
        ..Figure::default()
    })
}

/// Reads of the API and questions of a router, alone and beside a flood of logins.
async fn beside(bed: &Bed, pki: &Pki, target: &Target, means: &Means) -> io::Result<Vec<Figure>> {
    let peer = pki.connect(&means.router, bed.home.port()).await?;
    let mut reader = Client::connect(target).await?;
    let path = format!("{API}/identities/{}", bed.network.id(Kind::Identity, 1));
    let mut ask = async |until: Instant| -> io::Result<[Vec<Duration>; 2]> {
        let (mut reads, mut asks) = (Vec::new(), Vec::new());
        while Instant::now() < until {
            let sent = Instant::now();
            reader.get(&path).await?;
            reads.push(sent.elapsed());
            let sent = Instant::now();
            peer.ask(Message::new(content_type::PING, "")).await?;
            asks.push(sent.elapsed());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        reads.sort_unstable();
        asks.sort_unstable();
        Ok([reads, asks])
    };
    let seconds = Duration::from_secs_f64(bed.options.seconds().max(2.0));
    let alone = ask(Instant::now() + seconds).await?;
    let workers = (0..CLIENTS).map(|number| Worker::connect(target, means, Method::Token, number));
    let workers = try_join_all(workers).await?;
    let (from, until) = (Instant::now(), Instant::now() + seconds);
    let work = workers.into_iter().map(|it| tokio::spawn(it.work(false, from, until)));
    let work: Vec<_> = work.collect();
    let meanwhile = ask(until).await?;
    let mut logins = 0;
    for worker in work {
        logins += worker.await.map_err(io::Error::other)??.len();
    }
    let names = ["reads of the API beside logins", "questions of a router beside logins"];
    let figures = names.into_iter().zip(alone).zip(meanwhile);
    Ok(figures
        .map(|((name, alone), times)| Figure {
            name: format!("{LOGINS}: {name}"),
            value: millis(&times, 99),
            unit: "ms p99",
            median: Some(millis(&times, 50)),
            note: format!(
                "{:.0} logins/s; alone p50 {:.2}, p99 {:.2} ms",
                logins as f64 / seconds.as_secs_f64(),
                millis(&alone, 50),
                millis(&alone, 99)
            ),
            ..Figure::default()
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_mark_ends_with_its_parameter() {
        assert_eq!(after("http://x/?state=s&code=abc&iss=y", "code=").unwrap(), "abc");
        assert!(after("http://x/", "code=").is_err());
    }
}
