//! Fetches documents of identity providers: key sets for the controller, and descriptions for `weft signer add`
//! (docs/protocol/auth.md 13.3).
//!
//! The URL and the addresses behind its host are judged before each request, and a connection is made to a judged
//! address only: nothing is resolved a second time. Redirects are followed one by one, and judged like the first URL.
//! A proxy is not used, because nobody could say then at which address it fetches. A document has a size limit, and
//! the whole fetch a time limit.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use reqwest::{Client, Response, Url};
use rustls_platform_verifier::BuilderVerifierExt;
use weft_auth::fetch_policy::{check_address, check_url};
use weft_channel::HostLookup;
use weft_config::controller::JwksFetch;
use weft_controller::KeySource;
use weft_identity::TrustBundle;
use weft_identity::tls::{ClientTls, client_config, provider};

use crate::failure::chain;

/// Largest document, in bytes.
const MAX_DOCUMENT: usize = 512 * 1024;
/// Media types of documents.
const JSON: &[&str] = &["application/json", "application/jwk-set+json", "application/jwk+json"];

/// Fetches documents within the limits of the configuration. Clones share them.
#[derive(Clone)]
pub(crate) struct Fetcher {
    rules: Arc<JwksFetch>,
    /// The lookup of host names; none for that of the process.
    lookup: Option<Arc<dyn HostLookup>>,
    system: Arc<Mutex<Option<System>>>,
}

/// TLS that trusts the roots of the system, and the time at which they were read: to read them takes longer than a
/// request.
struct System {
    config: rustls::ClientConfig,
    since: Instant,
}

/// The age at which the roots of the system are read again.
const ROOTS_FOR: Duration = Duration::from_secs(3600);

/// The answer to one request: a document, or the URL of another one.
enum Step {
    Document(Vec<u8>),
    Elsewhere(Url),
}

impl KeySource for Fetcher {
    fn fetch(&self, url: &str) -> BoxFuture<'static, Result<Vec<u8>, String>> {
        let (own, url) = (self.clone(), url.to_owned());
        async move { own.document(&url).await }.boxed()
    }
}

impl Fetcher {
    pub(crate) fn new(rules: JwksFetch) -> Self {
        Self { rules: Arc::new(rules), lookup: None, system: Arc::default() }
    }

    /// The document at a URL; the error says why there is none.
    pub(crate) async fn document(&self, url: &str) -> Result<Vec<u8>, String> {
        let limit = self.rules.timeout;
        let fetched = tokio::time::timeout(limit, self.follow(url)).await;
        fetched.unwrap_or_else(|_| Err(format!("there was no whole answer within {limit:?}")))
    }

    async fn follow(&self, url: &str) -> Result<Vec<u8>, String> {
        let mut url = check_url(&self.rules, url)?;
        let mut is_safe = url.scheme() == "https";
        for _ in 0..=self.rules.max_redirects {
            match self.step(&url).await? {
                Step::Document(document) => return Ok(document),
                Step::Elsewhere(next) => {
                    let wrong = |reason| format!("{} leads elsewhere: {reason}", host_of(&url));
                    let next = check_url(&self.rules, next.as_str()).map_err(wrong)?;
                    if is_safe && next.scheme() != "https" {
                        return Err(wrong("from https to http".into()));
                    }
                    is_safe = next.scheme() == "https";
                    url = next;
                }
            }
        }
        Err(format!("there are more than {} redirects", self.rules.max_redirects))
    }

    /// One request, to addresses that were judged.
    async fn step(&self, url: &Url) -> Result<Step, String> {
        let addresses = self.addresses(url).await?;
        let mut client = Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .tls_backend_preconfigured(self.tls(url).await?);
        if let Some(host) = url.domain() {
            client = client.resolve_to_addrs(host, &addresses);
        }
        let client = client.build().map_err(|error| chain(&error))?;
        let sent = client.get(url.clone()).header(ACCEPT, "application/json").send().await;
        let answer = sent.map_err(|error| chain(&error.without_url()))?;
        if answer.status().is_redirection() {
            return next(url, &answer).map(Step::Elsewhere);
        }
        if answer.status() != 200 {
            return Err(format!("{} answers {}", host_of(url), answer.status()));
        }
        read(url, answer).await.map(Step::Document)
    }

    /// The addresses of a host at which it may be asked.
    async fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, String> {
        let port = url.port_or_known_default().unwrap_or_default();
        let host = url.host_str().unwrap_or_default();
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let found: Vec<SocketAddr> = match (literal, &self.lookup) {
            (Ok(address), _) => vec![SocketAddr::new(address, port)],
            (Err(_), Some(lookup)) => {
                let found = lookup.lookup(host).await;
                let found = found.map_err(|error| format!("{host} is not found: {error}"))?;
                found.into_iter().map(|address| SocketAddr::new(address, port)).collect()
            }
            (Err(_), None) => weft_channel::resolve(host, port)
                .await
                .map_err(|error| format!("{host} is not found: {error}"))?,
        };
        let mut refused = format!("{host} has no address");
        let mut judged = Vec::new();
        for address in found {
            match check_address(&self.rules, url, address.ip()) {
                Ok(()) => judged.push(address),
                Err(reason) => refused = format!("{host}: {reason}"),
            }
        }
        if judged.is_empty() { Err(refused) } else { Ok(judged) }
    }

    /// TLS with the authorities of the file for this host, or else of the system. The file is read each time, so
    /// that a renewed one counts.
    async fn tls(&self, url: &Url) -> Result<rustls::ClientConfig, String> {
        let host = host_of(url).trim_end_matches('.').to_ascii_lowercase();
        let mut config = match self.rules.authorities.get(&host) {
            Some(file) => {
                let read = || async {
                    let file = PathBuf::from(file);
                    let read = move || weft_identity::read_file(&file);
                    let text = tokio::task::spawn_blocking(read).await??;
                    let bundle = TrustBundle::from_pem(&text)?;
                    Ok::<_, Box<dyn Error + Send + Sync>>(client_config(&ClientTls::anonymous(
                        bundle,
                        &[],
                    ))?)
                };
                let wrong = |error| format!("the authorities of {host} in {file}: {error}");
                read().await.map_err(wrong)?
            }
            None => self.system_tls()?,
        };
        config.resumption = rustls::client::Resumption::disabled();
        Ok(config)
    }
}

impl Fetcher {
    /// TLS with the authorities of the system.
    fn system_tls(&self) -> Result<rustls::ClientConfig, String> {
        let mut system = self.system.lock();
        if let Some(known) = system.as_ref().filter(|known| known.since.elapsed() < ROOTS_FOR) {
            return Ok(known.config.clone());
        }
        let config = rustls::ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .and_then(BuilderVerifierExt::with_platform_verifier)
            .map(|builder| builder.with_no_client_auth())
            .map_err(|error| chain(&error))?;
        *system = Some(System { config: config.clone(), since: Instant::now() });
        Ok(config)
    }
}

/// The host of a URL, without brackets.
fn host_of(url: &Url) -> &str {
    url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
}

/// The URL to which an answer leads.
fn next(url: &Url, answer: &Response) -> Result<Url, String> {
    let to = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let to = to.ok_or_else(|| format!("{} redirects to nowhere", host_of(url)))?;
    url.join(to).map_err(|error| format!("{} redirects to no URL: {error}", host_of(url)))
}

/// The document of an answer.
async fn read(url: &Url, mut answer: Response) -> Result<Vec<u8>, String> {
    let media = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media = media.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !JSON.iter().any(|known| known.eq_ignore_ascii_case(media)) {
        let media: String = media.chars().take(80).collect();
        return Err(format!("{} answers with {media:?} instead of JSON", host_of(url)));
    }
    let mut document = Vec::new();
    while let Some(part) = answer.chunk().await.map_err(|error| chain(&error.without_url()))? {
        if document.len() + part.len() > MAX_DOCUMENT {
            return Err(format!("{} answers with more than {MAX_DOCUMENT} bytes", host_of(url)));
        }
        document.extend_from_slice(&part);
    }
    Ok(document)
}

#[cfg(test)]
mod tests;
