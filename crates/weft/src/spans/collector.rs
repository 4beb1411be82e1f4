//! The connection to the collector.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::runtime::Handle;
use weft_identity::TrustBundle;
use weft_identity::tls::{ClientTls, client_config, provider};
use weft_proxy::Proxies;

use super::queue::Queue;
use super::wanted::Wanted;
use crate::failure::chain;

/// Longest answer that is read, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// Sends encoded spans to the collector.
#[derive(Debug)]
pub(super) struct Collector {
    client: reqwest::Client,
    /// The runtime for requests: the exporter's thread has none.
    runtime: Handle,
    queue: Arc<Queue>,
}

impl Collector {
    pub(super) fn new(wanted: &Wanted, queue: Arc<Queue>) -> Result<Self, String> {
        let builder = match proxy(&wanted.shown)? {
            Some(proxy) => reqwest::Client::builder().proxy(proxy),
            None => reqwest::Client::builder().no_proxy(),
        };
        let client = builder
            .tls_backend_preconfigured(tls(wanted.authorities.as_deref())?)
            // Headers may hold secrets for the collector, which must not go to other hosts.
            .redirect(reqwest::redirect::Policy::none())
            .timeout(wanted.timeout)
            .pool_max_idle_per_host(1)
            .build()
            .map_err(|error| chain(&error))?;
        Ok(Self { client, runtime: Handle::current(), queue })
    }
}

/// The proxy that the environment names for the collector.
fn proxy(collector: &str) -> Result<Option<reqwest::Proxy>, String> {
    let url = reqwest::Url::parse(collector).map_err(|error| error.to_string())?;
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or_default();
    let proxies = Proxies::of_process();
    let chosen = match url.scheme() {
        "https" => proxies.for_https(host, port),
        _ => proxies.for_http(host, port),
    };
    let Some(chosen) = chosen.map_err(|error| error.to_string())? else { return Ok(None) };
    let proxy = reqwest::Proxy::all(chosen.url()).map_err(|error| chain(&error))?;
    Ok(Some(match &chosen.credentials {
        Some((name, password)) => proxy.basic_auth(name, password),
        None => proxy,
    }))
}

/// TLS with the authorities of a file, or else of the system.
fn tls(authorities: Option<&str>) -> Result<rustls::ClientConfig, String> {
    match authorities {
        Some(file) => {
            let read = |file: &Path| {
                Ok::<_, Box<dyn Error>>(TrustBundle::from_pem(&weft_identity::read_file(file)?)?)
            };
            let bundle = read(Path::new(file))
                .map_err(|error| format!("OTEL_EXPORTER_OTLP_CERTIFICATE names {file}: {error}"))?;
            client_config(&ClientTls::anonymous(bundle, &[])).map_err(|error| chain(&error))
        }
        None => rustls::ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .and_then(BuilderVerifierExt::with_platform_verifier)
            .map(|builder| builder.with_no_client_auth())
            .map_err(|error| chain(&error)),
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = self.runtime.spawn(send(self.client.clone(), request)).await?;
        match &sent {
            Err(error) => self.queue.note(chain(&**error)),
            Ok(answer) if !answer.status().is_success() => {
                self.queue.note(format!("the collector answers {}", answer.status()));
            }
            Ok(_) => {}
        }
        sent
    }
}

async fn send(
    client: reqwest::Client,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, HttpError> {
    // The address may contain a secret.
    let without_url = reqwest::Error::without_url;
    let request = reqwest::Request::try_from(request).map_err(without_url)?;
    let mut answer = client.execute(request).await.map_err(without_url)?;
    let mut whole = Response::new(Bytes::new());
    *whole.status_mut() = answer.status();
    *whole.headers_mut() = answer.headers().clone();
    let mut body = Vec::new();
    while let Some(part) = answer.chunk().await.map_err(without_url)? {
        if body.len() + part.len() > MAX_ANSWER {
            return Err(format!("an answer of more than {MAX_ANSWER} bytes").into());
        }
        body.extend_from_slice(&part);
    }
    *whole.body_mut() = body.into();
    Ok(whole)
}
