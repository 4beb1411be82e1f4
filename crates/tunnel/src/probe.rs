//! Makes health checks, again and again.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use futures::{StreamExt, stream::FuturesUnordered};
use reqwest::Method;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::{
    Health, Outcome, Terms,
    config::{Check, HttpCheck, Probe},
};

/// The most of an answer that is looked through.
const MAX_BODY: usize = 1 << 20;

/// Makes the checks of a terminator until dropped, and hands over what follows: the outcome, and
/// whether the check passed.
pub async fn watch(baseline: Terms, checks: &[Check], mut follow: impl FnMut(Outcome, bool)) {
    let mut health = Health::new(baseline, checks);
    let mut running: FuturesUnordered<_> = checks
        .iter()
        .enumerate()
        .map(|(index, check)| {
            let mut turns = interval(check.interval);
            turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
            next(index, check, turns)
        })
        .collect();
    while let Some((index, check, turns, result)) = running.next().await {
        let passed = result.is_ok();
        if let Err(problem) = result {
            tracing::debug!(%problem, "a health check failed");
        }
        let outcome = health.result(index, passed, Instant::now());
        if outcome != Outcome::default() {
            follow(outcome, passed);
        }
        running.push(next(index, check, turns));
    }
}

async fn next(
    index: usize,
    check: &Check,
    mut turns: tokio::time::Interval,
) -> (usize, &Check, tokio::time::Interval, Result<(), String>) {
    turns.tick().await;
    let result = timeout(check.timeout, make(&check.probe)).await;
    let result = result.unwrap_or_else(|_| Err(format!("no answer within {:?}", check.timeout)));
    (index, check, turns, result)
}

/// Makes a check once.
async fn make(probe: &Probe) -> Result<(), String> {
    match probe {
        Probe::Port(address) => {
            let found = tokio::net::lookup_host(address).await;
            let found = found.map_err(|error| format!("cannot resolve {address}: {error}"))?;
            let connected = weft_channel::connect(found.collect(), None).await;
            connected.map(drop).map_err(|error| format!("cannot connect to {address}: {error}"))
        }
        Probe::Http(check) => request(check).await,
    }
}

async fn request(check: &HttpCheck) -> Result<(), String> {
    let of = |error: reqwest::Error| format!("{}: {error}", check.url);
    let method = Method::from_bytes(check.method.as_bytes()).unwrap_or_default();
    let mut request = client()?.request(method, check.url.clone());
    if let Some(body) = &check.body {
        request = request.body(body.clone());
    }
    let mut answer = request.send().await.map_err(of)?;
    let status = answer.status().as_u16();
    if status != check.expect_status {
        return Err(format!("{} answered {status}, not {}", check.url, check.expect_status));
    }
    let Some(expected) = &check.expect_in_body else { return Ok(()) };
    let mut body = Vec::new();
    while let Some(part) = answer.chunk().await.map_err(of)? {
        body.extend_from_slice(&part);
        if String::from_utf8_lossy(&body).contains(expected.as_str()) {
            return Ok(());
        }
        if body.len() > MAX_BODY {
            break;
        }
    }
    Err(format!("the answer of {} does not contain what is expected", check.url))
}

/// One client for all checks. Authorities of the system are believed.
fn client() -> Result<&'static reqwest::Client, String> {
    static CLIENT: OnceLock<Result<reqwest::Client, String>> = OnceLock::new();
    CLIENT.get_or_init(make_client).as_ref().map_err(Clone::clone)
}

fn make_client() -> Result<reqwest::Client, String> {
    use rustls_platform_verifier::BuilderVerifierExt;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .map_err(|error| format!("TLS of health checks: {error}"))?
        .with_no_client_auth();
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        // A check looks at an application as it is now, and is answered by it and by nobody else.
        .pool_max_idle_per_host(0)
        .redirect(reqwest::redirect::Policy::limited(5))
        .build()
        .map_err(|error| format!("the client of health checks: {error}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        sync::mpsc,
    };

    use super::*;
    use crate::config::{Action, Effect, Precedence, Trigger};

    fn http(at: &str, expect: Option<&str>) -> Probe {
        Probe::Http(HttpCheck {
            url: at.parse().unwrap(),
            method: "POST",
            body: Some("ping".into()),
            expect_status: 201,
            expect_in_body: expect.map(str::to_owned),
        })
    }

    #[tokio::test]
    async fn an_answer_is_looked_at_as_the_check_says() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = format!("http://{}/health", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"ping") {
                    request.push(stream.read_u8().await.unwrap());
                }
                let request = String::from_utf8(request).unwrap();
                let good = request.starts_with("POST /health HTTP/1.1\r\n");
                let status = if good { 201 } else { 500 };
                let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 7\r\n\r\nall good");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        assert_eq!(make(&http(&at, None)).await, Ok(()));
        assert_eq!(make(&http(&at, Some("all goo"))).await, Ok(()));
        let other = make(&http(&at, Some("bad"))).await.unwrap_err();
        assert!(other.contains("does not contain"), "{other}");
        let status = make(&http(&at.replace("health", "x"), None)).await.unwrap_err();
        assert!(status.contains("answered 500, not 201"), "{status}");
        serving.abort();
    }

    #[tokio::test]
    async fn checks_are_made_until_dropped() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let action =
            |trigger, effect| Action { trigger, consecutive_events: None, duration: None, effect };
        let checks = [Check {
            probe: Probe::Port(listener.local_addr().unwrap().to_string()),
            interval: Duration::from_millis(10),
            timeout: Duration::from_secs(5),
            actions: vec![
                action(Trigger::Fail, Effect::MarkUnhealthy),
                action(Trigger::Change, Effect::SendEvent),
            ],
        }];
        let (tell, mut told) = mpsc::unbounded_channel();
        let watching = watch(Terms::default(), &checks, |outcome, passed| {
            tell.send((outcome, passed)).unwrap();
        });
        let following = async {
            let (outcome, passed) = told.recv().await.unwrap();
            assert!(passed && outcome.event && outcome.terms.is_none());
            drop(listener);
            let (outcome, passed) = told.recv().await.unwrap();
            assert!(!passed && outcome.event);
            assert_eq!(outcome.terms.unwrap().precedence, Precedence::Failed);
        };
        tokio::select! {
            () = watching => panic!("it ended by itself"),
            () = following => {}
            () = tokio::time::sleep(Duration::from_secs(20)) => panic!("it took too long"),
        }
    }
}
